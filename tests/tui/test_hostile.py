from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

from tests.doubles import hostile
from tests.nightly import sampled
from tests.scenes import from_data
from tests.tui.kit import app_for, wait_until_idle, wait_until_rendered
from tui_agent.events import Notice, Record, UserMessageAdded, to_data
from tui_agent.text import clean, make_visible
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.terminal import widen_control_tables
from widgets.styled_text import visible

BATCH = 420
BATCHES = 24
"""BATCH x BATCHES strings go through the session: more than 10,000 in the nightly run."""


class RecordingDriver(HeadlessDriver):
    """Paints as for a terminal, and keeps what a terminal would get."""

    written: str = ""

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        self.written += data


@asynccontextmanager
async def painted(records: list[Record], size: tuple[int, int]) -> AsyncIterator[tuple[Pilot[int], RecordingDriver]]:
    widen_control_tables()
    app, _session = app_for(records)
    app.notifier.method = "off"  # a bell of our own would be one of them
    app.driver_class = RecordingDriver
    async with app.run_test(headless=False, size=size) as pilot:
        await wait_until_rendered(pilot)
        driver = app._driver
        assert isinstance(driver, RecordingDriver)
        yield pilot, driver
        app.exit(0)


def cleaned(records: list[Record]) -> list[Record]:
    """As the engine lets them in: every string through `clean()`."""

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return clean(value)
        if isinstance(value, dict):
            return {clean(key): walk(one) for key, one in value.items()}
        return [walk(one) for one in value] if isinstance(value, list) else value

    return [msgspec.structs.replace(one, event=from_data(one.event.type, walk(to_data(one.event)))) for one in records]


def screen(app: TuiAgentApp) -> str:
    """Without blanks and borders: a text is found wherever its line breaks are."""
    rows = (strip.text for strip in app.screen._compositor.render_strips())
    return re.sub(r"[\s│▌▏▎█▁▂▃▄▅▆▇]", "", "".join(rows))


def bare(text: str) -> str:
    return re.sub(r"[\s│▌▏▎█▁▂▃▄▅▆▇]", "", visible(text))


CLICKS = [f"app.command('{name}')" for name in ("mode", "approvals", "trust", "model", "context")]
"""What the title line runs when it is clicked; no text of others adds to it."""


def assert_no_actions(app: TuiAgentApp) -> None:
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if segment.style is not None:
                assert re.fullmatch(r"(?:https?://|mailto:)[!-~]+", segment.style.link or "mailto:a")
                assert segment.style.meta.get("@click", CLICKS[0]) in CLICKS


@pytest.mark.parametrize("batch", sampled(range(BATCHES), (0, 5, 14)))
async def test_no_text_of_others_reaches_the_terminal_as_control(batch: int) -> None:
    given = hostile.hostile_texts(BATCH, batch)
    if batch % 8 == 0:
        given[30:30] = hostile.LONG_TEXTS
    records = hostile.hostile_session(given, batch)
    raw = batch % 2 == 0  # the second line must hold when the first is not there
    async with painted(records if raw else cleaned(records), (140, 240)) as (pilot, driver):
        app = pilot.app
        assert isinstance(app, TuiAgentApp)
        await pilot.press("ctrl+o")
        shown = ""
        while True:
            await wait_until_idle(pilot)
            shown = screen(app) + shown
            if not raw or app.transcript.scroll_offset.y == 0:
                assert_no_actions(app)
            if app.transcript.scroll_offset.y == 0:
                break
            await pilot.press("pageup")
        assert hostile.find_forbidden(driver.written) == ""
        assert len(driver.written) > 10_000
        if not raw:
            said = [one.event.text for one in cleaned(records) if isinstance(one.event, UserMessageAdded | Notice)]
            assert [ascii(one) for one in said if bare(one) not in shown] == []
        await pilot.click(offset=(20, 30))
        assert app.is_running


@pytest.mark.parametrize("kind", ["command", "edit", "question"])
@pytest.mark.parametrize("seed", sampled(range(2), 1))
async def test_a_dialog_shows_what_was_given_and_nothing_acts(kind: str, seed: int) -> None:
    given = hostile.hostile_texts(20, 1000 + seed)
    random.Random(seed).shuffle(given)
    records = getattr(hostile, f"hostile_{kind}")(given)
    async with painted(records, (120, 70)) as (pilot, driver):
        app = pilot.app
        assert isinstance(app, TuiAgentApp)
        await wait_until_idle(pilot)
        assert hostile.find_forbidden(driver.written) == ""
        assert_no_actions(app)
        parts = {"command": given[1:2] + given[3:6], "edit": given[3:9], "question": given[1:6]}[kind]
        for part in parts:
            wanted = {
                "command": make_visible(part),
                "edit": make_visible(part.replace("\n", " ").expandtabs(4), lookalikes=False),
                "question": make_visible(part, lookalikes=False),
            }[kind]
            assert bare(wanted) in screen(app), ascii(part)
        for place in range(2, 60, 7):
            await pilot.click(offset=(30, place))
        assert app.is_running


def test_the_reader_of_the_bytes_finds_what_is_foreign() -> None:
    assert hostile.find_forbidden("\x1b[?1049h\x1b[1;2H\x1b[38;2;1;2;3mtext\x1b[0m\r\n\x1b[?25h") == ""
    for text in hostile.hostile_texts(len(hostile.FAMILIES) * 4, 5):
        if re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]", text):
            assert hostile.find_forbidden(f"\x1b[1;1H{text}") != "", ascii(text)
