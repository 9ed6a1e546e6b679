from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.widgets.kit import INK
from widgets.markdown import MAX_OPEN_CHARACTERS, MarkdownStream, render_markdown

CHOICES = """
| # | Name | Description | Required |
|--:|:-----|-------------|:--------:|
| 1 | name | The name of the thing that is to be created in the registry, with all its parts | yes |
| 10 | timeout_seconds | Seconds after which the request is given up | no |
"""
PATHS = """
| File | What | Why |
|---|---|---|
| src/package/module/subpackage/implementation_of_things.py | Adds a cache | It was slow |
| README.md | | New option |
"""


def texts(source: str, width: int) -> list[str]:
    return [line.text.rstrip() for line in render_markdown(source, width, INK)]


def test_columns_are_as_wide_as_their_content_needs() -> None:
    assert texts(CHOICES, 70) == [
        " # │ Name            │ Description                          │ Required",
        "───┼─────────────────┼──────────────────────────────────────┼─────────",
        " 1 │ name            │ The name of the thing that is to be  │   yes",
        "   │                 │ created in the registry, with all    │",
        "   │                 │ its parts                            │",
        "10 │ timeout_seconds │ Seconds after which the request is   │    no",
        "   │                 │ given up                             │",
    ]


def test_no_word_is_broken_while_another_column_has_room() -> None:
    source = "| Kind | Description |\n|---|---|\n| " + "a word " * 20 + "| incomprehensibilities |\n"
    lines = texts(source, 50)
    assert any("incomprehensibilities" in line for line in lines)
    assert all("a word" in line or "│" in line for line in lines[2:])


def test_alignment_is_kept() -> None:
    assert texts("| left | mid | right |\n|:--|:-:|--:|\n| a | b | c |\n| long word | longer | 1000000 |", 60) == [
        "left      │  mid   │   right",
        "──────────┼────────┼────────",
        "a         │   b    │       c",
        "long word │ longer │ 1000000",
    ]


def test_a_table_that_does_not_fit_is_shown_as_records() -> None:
    assert texts(PATHS, 64) == [
        "File: src/package/module/subpackage/implementation_of_things.py",
        "What: Adds a cache",
        "Why:  It was slow",
        "",
        "File: README.md",
        "Why:  New option",
    ]
    assert texts("| A label of some length | b |\n|---|---|\n| abcdefghijklmnop | xyz |", 16) == [
        "A label of",
        "  some length: a",
        "  bcdefghijklmno",
        "  p",
        "b: xyz",
    ]


@given(
    st.lists(st.lists(st.text("ab cd日-", min_size=1, max_size=30), min_size=1, max_size=5), min_size=1, max_size=6),
    st.integers(12, 90),
)
def test_no_line_is_wider_than_the_screen_and_no_text_is_lost(rows: list[list[str]], width: int) -> None:
    columns = max(map(len, rows))
    cells = [[*row, *[""] * (columns - len(row))] for row in rows]
    source = "\n".join(["|" + "x|" * columns, "|" + "-|" * columns, *("| " + " | ".join(row) + " |" for row in cells)])
    lines = texts(source, width)
    assert all(cell_len(line) <= width for line in lines)
    if columns * 4 < width:
        shown = "".join(lines)
        for letter in "bd日":
            assert shown.count(letter) == "".join(map("".join, rows)).count(letter)


def test_a_long_table_stays_a_table() -> None:
    stream = MarkdownStream()
    stream.feed("| name | what |\n|---|---|\n")
    for number in range(300):
        stream.feed(f"| row {number} | some words about it |\n")
        assert len(stream.tail) <= MAX_OPEN_CHARACTERS + 100
    stream.end()
    lines = [line.text for line in stream.lines(60, INK)]
    assert not [line for line in lines if line.startswith("|")]
    assert sum(line.startswith("row ") for line in lines) == 300
    assert sum(line.startswith("name") for line in lines) == len(stream.pieces)
    assert "".join(piece.source for piece in stream.pieces).count("| name |") == 1


@pytest.mark.parametrize("after", ["# Title", "> quote", "a | b\n- item"])
def test_what_follows_a_long_table_is_no_row(after: str) -> None:
    stream = MarkdownStream()
    stream.feed("| name | what |\n|---|---|\n" + "| row | some words about it |\n" * 120 + "\n" + after)
    stream.end()
    assert stream.pieces[-1].header == ""
