from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.widgets.kit import INK
from tui_agent.tools.diffs import diff_bytes
from widgets.diff_lines import DiffRow, Pair, RowStyle, diff_rows, number_width, paint_pair, pair_height, row_pairs

texts = st.lists(st.sampled_from(["a", "b = 1", "", "日本" * 9, "\tx" * 12, "\x1b\u202e", "z" * 130]), max_size=14)


def plain(_: int) -> RowStyle:
    return RowStyle()


def test_removed_lines_stand_beside_the_added_ones() -> None:
    some = [DiffRow(sign, sign) for sign in "@ --+ +-\\ !"]
    assert row_pairs([row.sign for row in some]) == [
        Pair(0, None),
        Pair(1, 1),
        Pair(2, 4),
        Pair(3, None),
        Pair(5, 5),
        Pair(None, 6),
        Pair(7, None),
        Pair(8, None),
        Pair(9, 9),
        Pair(10, None),
    ]


@settings(deadline=None, max_examples=200)
@given(texts, texts, st.booleans(), st.integers(92, 180))
def test_every_line_is_in_both_views_once_and_heights_are_those_of_the_painted_lines(
    old: list[str], new: list[str], ended: bool, width: int
) -> None:
    end = "\n" if ended else ""
    diff = diff_bytes("f", "\n".join(old).encode() + b"\n", ("\n".join(new) + end).encode())
    some = list(diff_rows(diff))
    number = number_width(diff)
    found = row_pairs([row.sign for row in some])
    shown = [place for pair in found for place in dict.fromkeys(pair) if place is not None]
    assert sorted(shown) == list(range(len(some)))
    for pair in found:
        lines = paint_pair(pair, some, width, number, INK, plain)
        assert len(lines) == pair_height(pair, some, width, number)
        assert all(sum(part.cell_length for part in line.segments) <= width for line in lines)


def test_nothing_hides_beside_another_line() -> None:
    diff = diff_bytes("f", b"a\n", "a\x1b[2J\u202eb\n".encode())
    some = list(diff_rows(diff))
    text = "".join(
        line.text
        for pair in row_pairs([row.sign for row in some])
        for line in paint_pair(pair, some, 100, number_width(diff), INK, plain)
    )
    assert "<U+001B>[2J" in text and "<U+202E>" in text
