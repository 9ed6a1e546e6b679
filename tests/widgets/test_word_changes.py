from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widgets.word_changes import LONGEST, NOTHING, WordMarks, changed_words, partners, split_at


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
    if (left, right) == NOTHING:
        return
    kept = [
        "".join(text[a:b] for a, b, on in split_at(places, len(text)) if not on)
        for text, places in ((old, left), (new, right))
    ]
    assert "".join(kept[0].split()) == "".join(kept[1].split())


def test_lines_are_compared_with_those_that_stand_in_their_place() -> None:
    assert partners("--++ -+- +") == {0: 2, 2: 0, 1: 3, 3: 1, 5: 6, 6: 5}
    assert partners("-\\+\\") == {0: 2, 2: 0}
    assert partners("+-") == {}


def test_long_or_crowded_lines_cost_next_to_nothing() -> None:
    many = [f"{number} " * 400 for number in range(40)]
    huge = "x" * (LONGEST + 1)
    began = time.process_time()
    assert changed_words(huge, huge + "y") == NOTHING
    marks = WordMarks([*many, *reversed(many)], "-" * 40 + "+" * 40)
    for place in range(80):
        marks.of(place)
    assert time.process_time() - began < 2.0
