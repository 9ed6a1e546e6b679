from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.style import Style

from widgets.diff_lines import NO_CHANGES, changed_line_pairs, changed_words
from widgets.styled_text import overlay


def marked(text: str, places: tuple[tuple[int, int], ...]) -> list[str]:
    return [text[begin:end] for begin, end in places]


@pytest.mark.parametrize(
    ("old", "new", "gone", "come"),
    [
        ("    return a - b", "    return a + b", ["-"], ["+"]),
        ("print(export(rows))", "print(export(rows, fmt))", [], [", fmt"]),
        ("call(one, two, three)", "call(two, three)", ["one, "], []),
        ("x = old_name + 1", "x = new_name + 1", ["old_name"], ["new_name"]),
        ("if a and b:", "if x or y:", ["a and b"], ["x or y"]),
        ("abc def", "xyz uvw", [], []),
        ("same", "same", [], []),
    ],
)
def test_the_words_that_differ_are_marked(old: str, new: str, gone: list[str], come: list[str]) -> None:
    left, right = changed_words(old, new)
    assert (marked(old, left), marked(new, right)) == (gone, come)


@settings(deadline=None, max_examples=300)
@given(st.text("ab_ ,()=", max_size=60), st.text("ab_ ,()=", max_size=60))
def test_what_is_not_marked_is_the_same_on_both_sides(old: str, new: str) -> None:
    left, right = changed_words(old, new)
    if (left, right) == NO_CHANGES:
        return
    kept = [
        "".join(part for part, style in overlay([(text, Style())], places, Style(bold=True)) if not style.bold)
        for text, places in ((old, left), (new, right))
    ]
    assert "".join(kept[0].split()) == "".join(kept[1].split())


def test_lines_are_compared_with_those_that_stand_in_their_place() -> None:
    assert changed_line_pairs("--++ -+- +") == {0: 2, 2: 0, 1: 3, 3: 1, 5: 6, 6: 5}
    assert changed_line_pairs("-\\+\\") == {0: 2, 2: 0}
    assert changed_line_pairs("+-") == {}
