from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.text import SecretMask
from tui_agent.tui import routing
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.pager import OUTPUT_DELETED, Outputs
from tui_agent.view.items import ToolItem
from widgets.output_pager import OutputPager, OutputWindow, format_size

NAME = "output-0123abcd.txt"
KEY = "sk-ant-api03-" + "Zk3vQ9x7Lm2Np8Rt4Wy6Ub1Ds5Gh0Jf" * 2


def ran(session: FakeSession, name: str, said: str, *, file: str = "", result: str | None = None) -> None:
    """A command that printed something; it goes on as long as there is no result."""
    call = ToolCall(id=name, name="run_terminal_command", arguments={"command": name})
    session.push(e.ToolStarted(call=call, title=name, reads_only=False), node=name)
    session.push(e.ToolOutput(text=said, file=file), node=name)
    if result is not None:
        ended(session, name, result)


def ended(session: FakeSession, name: str, result: str) -> None:
    done = ToolResult(success=True, data=result)
    event = e.ToolFinished(call_id=name, name="run_terminal_command", result=done, text=result, ms=1200)
    session.push(event, node=name)


def pager(app: TuiAgentApp) -> OutputPager:
    assert isinstance(app.screen, OutputPager)
    return app.screen


def body(app: TuiAgentApp) -> list[str]:
    return [one.text.rstrip() for one in pager(app)._body.lines]


async def opened(pilot: Pilot[int], app: TuiAgentApp, key: str = "f7") -> None:
    await wait_until_rendered(pilot)
    await pilot.press(key)
    await wait_for(pilot, lambda: isinstance(app.screen, OutputPager) and bool(app.screen._body.lines))
    await wait_until_idle(pilot)


async def moved(pilot: Pilot[int], *keys: str) -> None:
    await pilot.press(*keys)
    await wait_until_idle(pilot)


async def test_a_long_file_is_gone_through_searched_and_wrapped(tmp_path: Path) -> None:
    wide = " and so on" * 30
    lines = [
        f"\x1b[3{number % 8}mline {number}\x1b[0m{wide if number % 10 == 3 else ''}" for number in range(1, 30_001)
    ]
    lines[20_000] = f"the \x1b[1mNeedle\x1b[0m with {KEY} \x1b]0;title\x07[red]x[/]"
    (tmp_path / NAME).write_text("\n".join(lines) + "\n")
    app, session = app_for("answered")
    async with run_app(app, (80, 20)) as pilot:
        ran(session, "make all", "line 1\n", file=str(tmp_path / NAME), result="[… 29,900 of 30,000 lines left out …]")
        await opened(pilot, app)
        assert body(app)[-1] == "line 30000"
        assert "make all" in screen_text(app)
        await wait_for(pilot, lambda: "of 30,000" in screen_text(app))
        height = len(body(app))
        await moved(pilot, "pageup", "up", "pagedown", "down", "down")
        assert body(app)[-1] == "line 30000" and pager(app).following
        await moved(pilot, "home", "pagedown", " ")
        assert body(app)[0] == f"line {2 * (height - 1) + 1}"
        await moved(pilot, "/", *":15003", "enter")
        at = body(app).index(next(one for one in body(app) if one.startswith("line 15003 ")))
        assert body(app)[at].endswith("›")
        await moved(pilot, "right", "left", "right")
        assert body(app)[at].startswith(f"line 15003{wide}"[16:60])
        await moved(pilot, "w")
        text = "".join(body(app))
        assert f"line 15003{wide}".replace(" ", "") in text.replace(" ", "")
        await moved(pilot, "down", "down", "up", "up")
        assert "".join(body(app)) == text
        await moved(pilot, "w", "/", *"needle", "enter")
        assert any("the Needle" in one for one in body(app))
        assert KEY[:30] not in screen_text(app)
        assert "[red]x[/]" in screen_text(app) and "\x07" not in screen_text(app)
        await moved(pilot, "n")
        assert "Search wrapped to the beginning." in screen_text(app)
        await moved(pilot, "/", *"nothing like it", "enter")
        assert "was not found" in screen_text(app)
        await moved(pilot, "/", *"line 29999", "enter", "N")
        for size in ((20, 5), (1, 1), (120, 40)):
            await pilot.resize_terminal(*size)
            await wait_until_idle(pilot)
        assert any(one.startswith("line 29999") for one in body(app))
        await moved(pilot, "/", "escape", "q")
        assert not isinstance(app.screen, OutputPager)


async def test_outputs_that_were_dropped_from_memory_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "MAX_ITEMS", 8)
    monkeypatch.setattr(routing, "KEPT_ITEMS", 4)
    app, session = app_for("answered")
    async with run_app(app, (90, 24)) as pilot:
        for number in range(12):
            ran(session, f"call {number}", "early\n", result=f"output {number}")
            await wait_until_rendered(pilot)
        assert app.view.older
        await opened(pilot, app)
        shown = [*body(app)]
        for _ in range(11):
            await moved(pilot, "tab")
            shown += body(app)
        assert shown == [f"output {number}" for number in range(11, -1, -1)]
        await moved(pilot, "shift+tab")
        assert body(app) == ["output 1"]


async def test_what_is_printed_on_is_followed_and_older_calls_are_reached(tmp_path: Path) -> None:
    file = tmp_path / NAME
    app, session = app_for("answered")
    session.mask = SecretMask({"TOKEN": "hush-hush-hush"})
    async with run_app(app, (90, 24)) as pilot:
        ran(session, "older", "early\n", result="exit code 0\nearly")
        ran(session, "make", "one\n", file=str(file))
        await opened(pilot, app)
        assert body(app) == ["one"] and "running" in screen_text(app)
        session.push(e.ToolOutput(text="two\n"), node="make")
        await wait_for(pilot, lambda: body(app) == ["one", "two"])
        with file.open("w") as growing:
            growing.writelines(f"{number}\n" for number in range(500))
            growing.flush()
            await wait_for(pilot, lambda: body(app)[-1] == "499")
            growing.write("hush-hush-hush\nlast\n")
        await wait_for(pilot, lambda: body(app)[-1] == "last")
        assert "hush-hush" not in screen_text(app)
        await moved(pilot, "home")
        with file.open("a") as growing:
            growing.write("more\n")
        ended(session, "make", "exit code 0")
        await wait_for(pilot, lambda: "running" not in screen_text(app))
        assert body(app)[0] == "0"
        await moved(pilot, "end")
        assert body(app)[-1] == "more"
        await moved(pilot, "tab")
        assert body(app) == ["exit code 0", "early"]
        await moved(pilot, *["tab"] * 9)
        assert "There is no older output." in screen_text(app)
        await moved(pilot, *["shift+tab"] * 10)
        assert "There is no newer output." in screen_text(app) and body(app)[-1] == "more"


async def test_without_its_file_what_is_at_hand_is_shown_and_said(tmp_path: Path) -> None:
    app, session = app_for("empty")
    async with run_app(app, (90, 24)) as pilot:
        await moved(pilot, "f7")
        assert "no call has printed anything yet" in screen_text(app)
        ran(session, "make", "x\n", file=str(tmp_path / NAME), result="first\n[… 900 of 1,000 lines left out …]\nlast")
        ran(session, "cat", "x\n", file="/etc/passwd", result="short")
        await opened(pilot, app)
        assert body(app) == ["short"]
        await moved(pilot, "escape", "f4", "up")
        await opened(pilot, app)
        await wait_for(pilot, lambda: body(app)[0] == "first")
        assert OUTPUT_DELETED[:40] in screen_text(app)


async def test_a_file_that_is_open_only_after_the_pager_was_closed_is_given_back(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("all of it\n")
    app, session = app_for("empty")
    async with run_app(app) as pilot:
        ran(session, "one", "half", file=str(tmp_path / NAME), result="half")
        await wait_until_rendered(pilot)
        door = Outputs(app, [item for item in app.view.items if isinstance(item, ToolItem)], 0)
        before = len(os.listdir("/proc/self/fd"))
        looking = asyncio.create_task(door.read_window(-1, 5, 0))
        await asyncio.sleep(0)
        door.closed()
        assert await looking == OutputWindow()
        assert door._pages is None
        assert len(os.listdir("/proc/self/fd")) == before
        assert [row[2] for row in (await door.read_window(-1, 5, 0)).above] == ["all of it"]
        door.closed()


def test_sizes() -> None:
    assert [format_size(one) for one in (0, 999, 1_500, 100_000_000)] == ["0 bytes", "999 bytes", "1.5 kB", "100.0 MB"]


@pytest.mark.parametrize(
    ("size", "theme"),
    [((80, 24), "dark"), ((120, 40), "dark"), ((80, 24), "light")],
    ids=["80x24", "120x40", "80x24-light"],
)
def test_pictures(size: tuple[int, int], theme: str, snap_compare: Any, tmp_path: Path) -> None:
    words = ("\x1b[32mPASSED\x1b[0m", "\x1b[31mFAILED\x1b[0m", "\x1b[33mSKIPPED\x1b[0m")
    lines = [
        f"tests/test_export.py::test_row_{number} {words[(number % 41 == 0) + (number % 17 == 0) * 2 * (number % 41 != 0)]}"
        + (
            " assert 'a table with eleven columns and a header that is wider than any terminal' == ''"
            if not number % 41
            else ""
        )
        for number in range(1, 4_001)
    ]
    (tmp_path / NAME).write_text("\n".join(lines) + "\n")
    app, session = app_for("answered", theme=theme)

    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        ran(session, "pytest -v tests", "x\n", file=str(tmp_path / NAME), result="[… 3,900 of 4,000 lines left out …]")
        await opened(pilot, app)
        await moved(pilot, "/", *"row_2665", "enter")
        await wait_for(pilot, lambda: "of 4,000" in screen_text(app) and "test_row_2665" in screen_text(app))
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=show)
