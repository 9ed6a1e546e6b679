from __future__ import annotations

import pyte
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from widgets.calm_screen import ChangedCells, Shown

WIDTH, HEIGHT, CUT = 24, 4, 17
STYLES = [Style.parse(one) for one in ("red on black", "bold red on black", "green on blue")]

pieces = st.lists(
    st.tuples(st.text(alphabet="ab 漢é", min_size=1, max_size=9), st.sampled_from(STYLES)), max_size=5
)
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

    def take(self, shown: Shown, rows: dict[int, dict[int, Strip]], ends: list[int]) -> None:
        spans = [(y, 0, WIDTH) for y in sorted(rows)]
        chops = [rows.get(y, {}) for y in range(HEIGHT)]
        self.written = ChangedCells(chops, spans, [ends] * HEIGHT, shown).render_segments(console())
        self.stream.feed(self.written)


@given(frames)
def test_what_stands_on_the_terminal_is_what_was_painted(
    updates: list[dict[int, tuple[object, object]]],
) -> None:
    calm, plain, shown = Terminal(), Terminal(), Shown()
    for update in updates:
        rows = {
            y: {0: strip(left, CUT), CUT: strip(right, WIDTH - CUT)}  # type: ignore[arg-type]  # by the strategy
            for y, (left, right) in update.items()
        }
        calm.take(shown, rows, [CUT, WIDTH])
        plain.take(Shown(), rows, [CUT, WIDTH])
        assert cells(calm.screen) == cells(plain.screen)


def row(text: str, style: Style = STYLES[0]) -> dict[int, dict[int, Strip]]:
    return {0: {0: strip([(text, style)], WIDTH)}}


def test_a_character_at_the_end_of_a_line_is_written_alone() -> None:
    terminal, shown = Terminal(), Shown()
    terminal.take(shown, row("hello"), [WIDTH])
    terminal.take(shown, row("hello!"), [WIDTH])
    assert terminal.written.startswith("\x1b[1;6H")
    assert terminal.written.count("!") == 1 and "hello" not in terminal.written
    assert terminal.screen.display[0].rstrip() == "hello!"


def test_the_same_line_is_not_written_again() -> None:
    terminal, shown = Terminal(), Shown()
    terminal.take(shown, row("hello"), [WIDTH])
    terminal.take(shown, row("hello"), [WIDTH])
    assert terminal.written == ""


def test_a_line_in_other_colours_is_written_again() -> None:
    terminal, shown = Terminal(), Shown()
    terminal.take(shown, row("hello"), [WIDTH])
    terminal.take(shown, row("hello", STYLES[2]), [WIDTH])
    assert "hello" in terminal.written


def test_after_another_division_or_another_painter_all_is_written() -> None:
    terminal, shown = Terminal(), Shown()
    terminal.take(shown, row("hello"), [WIDTH])
    divided = {0: {0: strip([("hello", STYLES[0])], CUT), CUT: strip([], WIDTH - CUT)}}
    terminal.take(shown, divided, [CUT, WIDTH])
    assert "hello" in terminal.written
    shown.forget()
    terminal.take(shown, divided, [CUT, WIDTH])
    assert "hello" in terminal.written


def test_a_line_with_an_emoji_is_written_whole() -> None:
    terminal, shown = Terminal(), Shown()
    terminal.take(shown, row("ok \u2764\ufe0f one"), [WIDTH])
    terminal.take(shown, row("ok \u2764\ufe0f two"), [WIDTH])
    assert terminal.written.startswith("\x1b[1;1H")
    assert "ok" in terminal.written
