from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static, TextArea

from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_for
from tui_agent import events as e
from widgets import textual_private
from widgets.line_view import LineView
from widgets.request_view import RequestModal
from widgets.styled_text import ROLES
from widgets.textual_private import ChangedCells, DiffingScreen, PaintedRows

NAMES = (
    "_compositor",
    "_bindings",
    "_keymap",
    "_attach",
    "_pending_message",
    "_pruning",
    "_forward_event",
    "_replace_via_keyboard",
    "_driver",
    "_filters",
)
WIDTH, HEIGHT, SPLIT = 24, 4, 17
STYLES = [Style.parse(name) for name in ("red on black", "bold red on black", "green on blue")]

pieces = st.lists(st.tuples(st.text(alphabet="ab 漢é", min_size=1, max_size=9), st.sampled_from(STYLES)), max_size=5)
lines = st.tuples(pieces, pieces)
frames = st.lists(st.dictionaries(st.integers(0, HEIGHT - 1), lines, min_size=1), min_size=1, max_size=8)


def strip(spans: list[tuple[str, Style]], width: int) -> Strip:
    return Strip(Segment(text, style) for text, style in spans).adjust_cell_length(width, STYLES[0])


def console() -> Console:
    return Console(color_system="truecolor", force_terminal=True)


def cells(screen: pyte.Screen) -> list[list[object]]:
    return [[screen.buffer[y][x] for x in range(WIDTH)] for y in range(HEIGHT)]


class Terminal:
    def __init__(self) -> None:
        self.screen = pyte.Screen(WIDTH, HEIGHT)
        self.stream = pyte.Stream(self.screen)
        self.written = ""

    def update(self, painted: PaintedRows, rows: dict[int, dict[int, Strip]], ends: list[int]) -> None:
        spans = [(y, 0, WIDTH) for y in sorted(rows)]
        chops = [rows.get(y, {}) for y in range(HEIGHT)]
        self.written = ChangedCells(chops, spans, [ends] * HEIGHT, painted).render_segments(console())
        self.stream.feed(self.written)


@given(frames)
def test_partial_updates_show_the_same_as_complete_ones(updates: list[dict[int, tuple[object, object]]]) -> None:
    partial, complete, painted = Terminal(), Terminal(), PaintedRows()
    for update in updates:
        rows = {
            y: {0: strip(left, SPLIT), SPLIT: strip(right, WIDTH - SPLIT)}  # type: ignore[arg-type]  # by the strategy
            for y, (left, right) in update.items()
        }
        partial.update(painted, rows, [SPLIT, WIDTH])
        complete.update(PaintedRows(), rows, [SPLIT, WIDTH])
        assert cells(partial.screen) == cells(complete.screen)


def row(text: str, style: Style = STYLES[0]) -> dict[int, dict[int, Strip]]:
    return {0: {0: strip([(text, style)], WIDTH)}}


def test_only_an_appended_character_is_written() -> None:
    terminal, painted = Terminal(), PaintedRows()
    terminal.update(painted, row("hello"), [WIDTH])
    terminal.update(painted, row("hello!"), [WIDTH])
    assert terminal.written.startswith("\x1b[1;6H")
    assert terminal.written.count("!") == 1 and "hello" not in terminal.written
    assert terminal.screen.display[0].rstrip() == "hello!"


def test_an_unchanged_line_is_not_written() -> None:
    terminal, painted = Terminal(), PaintedRows()
    terminal.update(painted, row("hello"), [WIDTH])
    terminal.update(painted, row("hello"), [WIDTH])
    assert terminal.written == ""


def test_a_line_in_other_colors_is_written() -> None:
    terminal, painted = Terminal(), PaintedRows()
    terminal.update(painted, row("hello"), [WIDTH])
    terminal.update(painted, row("hello", STYLES[2]), [WIDTH])
    assert "hello" in terminal.written


def test_a_row_that_is_split_differently_or_was_forgotten_is_written_completely() -> None:
    terminal, painted = Terminal(), PaintedRows()
    terminal.update(painted, row("hello"), [WIDTH])
    split = {0: {0: strip([("hello", STYLES[0])], SPLIT), SPLIT: strip([], WIDTH - SPLIT)}}
    terminal.update(painted, split, [SPLIT, WIDTH])
    assert "hello" in terminal.written
    painted.forget()
    terminal.update(painted, split, [SPLIT, WIDTH])
    assert "hello" in terminal.written


def test_a_line_with_an_emoji_is_written_completely() -> None:
    terminal, painted = Terminal(), PaintedRows()
    terminal.update(painted, row("ok \u2764\ufe0f one"), [WIDTH])
    terminal.update(painted, row("ok \u2764\ufe0f two"), [WIDTH])
    assert terminal.written.startswith("\x1b[1;1H")
    assert "ok" in terminal.written


class Sized(Static):
    sizes: list[Size]

    def on_mount(self) -> None:
        self.sizes = []

    def on_resize(self, event: Resize) -> None:
        self.sizes.append(event.size)


class Scrolling(App[None]):
    def get_default_screen(self) -> Screen[None]:
        return DiffingScreen()

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static("\n" * 100)


async def test_a_widget_that_is_new_or_resized_at_a_lookup_after_scrolling_learns_its_size() -> None:
    app = Scrolling()
    async with app.run_test() as pilot:
        added, resized, scroll = Sized("new"), Sized("old"), app.query_one(VerticalScroll)
        await scroll.mount(resized)
        await pilot.pause()
        resized.sizes.clear()
        with app.batch_update():  # layouts wait for its end
            await scroll.mount(added)
            resized.styles.height = 5
            app.screen._compositor.reflow_visible(app.screen, app.size)
            assert added in app.screen._compositor.full_map  # as a lookup of any region makes it
        await pilot.pause()
        assert added.sizes and [size.height for size in resized.sizes] == [5]


async def test_the_listed_private_names_exist() -> None:
    assert textual_private.compositor_fits()
    app: App[None] = App()
    async with app.run_test():
        for name in NAMES:
            assert any(hasattr(owner, name) for owner in (app, app.screen, TextArea())), name


def test_no_other_widget_module_uses_private_names_of_textual() -> None:
    own = re.compile(r"(?<![\w.])(?:self|cls|super\(\)|[a-z]*picker|form|pager|[A-Z]\w+)\._")
    foreign = re.compile(r"\._[a-z]\w+|from textual[\w.]*\._")
    used = re.compile("|".join(rf"\._?{name}\b" for name in NAMES))
    for path in Path("widgets").rglob("*.py"):
        if path.name == "textual_private.py":
            continue
        for row in path.read_text(encoding="utf-8").splitlines():
            rest = own.sub("", row)
            assert not foreign.search(rest), f"{path}: {row.strip()}"
            assert not used.search(row), f"{path}: {row.strip()}"


@pytest.fixture
def fresh_classes() -> Iterator[None]:
    LineView._get_component_classes.cache_clear()
    yield
    LineView._get_component_classes.cache_clear()


@pytest.mark.usefixtures("fresh_classes")
@pytest.mark.parametrize("name", [*NAMES, *textual_private.COMPOSITOR_NAMES])
async def test_without_a_private_name_the_app_still_works(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textual_private, "MISSING", {name})
    monkeypatch.setattr(LineView, "COMPONENT_CLASSES", textual_private.component_classes(ROLES))
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(*"helo", "backspace", *"lo")
        await wait_for(pilot, lambda: app.prompt.text == "hello")
        app.prompt.insert_paste(" you")
        await wait_for(pilot, lambda: app.prompt.text == "hello you")
        session.push(e.ApprovalRequested(id="q1", action=build.TESTS, digest="d", why="ask"))
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await wait_for(pilot, lambda: "Run a command" in screen_text(app))
        await pilot.press("r", *"no", "enter")
        await wait_for(pilot, lambda: len(session.answers) == 1)
        assert session.answers[0][1].text == "no"
