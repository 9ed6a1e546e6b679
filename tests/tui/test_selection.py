from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.tui.app import TuiAgentApp

REPLY = """Here is **one** way, in words that go on for so long that they must be broken somewhere.

```python
def f(x):
    return x  # 文字
```

- first
- second

```sh
make
```"""


def talk() -> build.Scene:
    scene = build.Scene().opened().ask("please show me").reply()
    return scene.write(REPLY, size=99).end(REPLY).done(tool_calls=0)


def find(app: TuiAgentApp, text: str) -> tuple[int, int]:
    """Where a text stands, as an offset in the transcript."""
    for row, shown in enumerate(screen_text(app).split("\n")):
        if text in shown:
            region = app.transcript.region
            return shown.index(text) - region.x, row - region.y
    raise AssertionError(text)


async def drag(pilot: Pilot[int], first: tuple[int, int], last: tuple[int, int]) -> None:
    await pilot.mouse_down("#transcript", offset=first)
    await pilot.hover("#transcript", offset=last)
    await pilot.mouse_up("#transcript", offset=last)
    await wait_until_idle(pilot)


async def test_what_is_dragged_over_is_copied_as_it_was_written() -> None:
    app, _session = app_for(talk().records)
    async with run_app(app, (60, 40)) as pilot:
        x, y = find(app, "one way")
        end_x, end_y = find(app, "somewhere")
        assert end_y > y
        await drag(pilot, (x, y), (end_x + 3, end_y))
        assert app.transcript.selected_text == (
            "one way, in words that go on for so long that they must be broken some"
        )
        await pilot.press("ctrl+c")
        await wait_for(pilot, lambda: "characters to the terminal" in screen_text(app))
        assert app.clipboard.startswith("one way, in words")
        assert app.transcript.selection is None
        assert "copied" not in screen_text(app)
        assert app.transcript.following


async def test_a_selection_over_blocks_is_their_source() -> None:
    app, _session = app_for(talk().records)
    async with run_app(app, (60, 40)) as pilot:
        await drag(pilot, find(app, "show"), (50, find(app, "make")[1]))
        assert app.transcript.selected_text == "show me\n\n" + REPLY


async def test_code_alone_is_copied_without_its_fence() -> None:
    app, _session = app_for(talk().records)
    async with run_app(app, (60, 40)) as pilot:
        await drag(pilot, find(app, "def f"), (50, find(app, "return x")[1]))
        assert app.transcript.selected_text == "def f(x):\n    return x  # 文字"


async def test_half_of_a_wide_character_is_all_of_it() -> None:
    app, _session = app_for(talk().records)
    async with run_app(app, (60, 40)) as pilot:
        row = find(app, "return x")[1]
        column = find(app, "# 文")[0] + 3  # the right half of the first one
        await drag(pilot, (column, row), (column + 1, row))
        assert app.transcript.selected_text == "文字"


async def test_a_selection_stays_over_resize_and_new_records() -> None:
    app, session = app_for(talk().records)
    async with run_app(app, (60, 40)) as pilot:
        await drag(pilot, find(app, "one way"), (3, find(app, "second")[1]))
        text = app.transcript.selected_text
        await pilot.resize_terminal(44, 30)
        session.push(e.UserMessageAdded(id="new", text="more"))
        await wait_until_rendered(pilot)
        assert app.transcript.selected_text == text
        await pilot.click("#transcript", offset=(5, 5))
        assert app.transcript.selection is None


async def test_a_key_copies_the_last_reply_and_then_its_code() -> None:
    app, _session = app_for(talk().records)
    async with run_app(app, (60, 40)) as pilot:
        copied = []
        for _ in range(4):
            await pilot.press("alt+c")
            copied.append(app.transcript.selected_text)
            await wait_for(pilot, lambda: app.clipboard == copied[-1])
        assert copied == [REPLY, "make", "def f(x):\n    return x  # 文字", REPLY]


async def test_without_a_reply_there_is_nothing_to_copy() -> None:
    app, _session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press("alt+c")
        await wait_for(pilot, lambda: "no reply" in screen_text(app))


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_selected(theme: str, snap_compare) -> None:
    app, _session = app_for(talk().records, theme=theme)

    async def select(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await drag(pilot, find(app, "words"), (find(app, "second")[0] + 2, find(app, "second")[1]))

    assert snap_compare(app, terminal_size=(80, 24), run_before=select)
