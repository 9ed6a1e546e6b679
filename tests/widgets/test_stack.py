from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from widgets.line_view import LineHeights

HEIGHTS = st.lists(st.integers(0, 5), max_size=30)


@given(HEIGHTS, st.lists(st.tuples(st.integers(0, 29), st.integers(0, 9)), max_size=20))
def test_tops_are_the_sums_of_what_is_above(heights: list[int], changes: list[tuple[int, int]]) -> None:
    stack = LineHeights()
    for height in heights:
        stack.append(height)
    for place, height in changes:
        if place < len(heights):
            assert stack.set(place, height) == height - heights[place]
            heights[place] = height
            assert stack.total == sum(heights)
    assert [stack.top(n) for n in range(len(heights) + 1)] == [sum(heights[:n]) for n in range(len(heights) + 1)]


@given(HEIGHTS, st.integers(-3, 200))
def test_every_line_belongs_to_the_block_that_covers_it(heights: list[int], line: int) -> None:
    stack = LineHeights()
    for height in heights:
        stack.append(height)
    place, within = stack.find(line)
    if max(0, line) >= sum(heights):
        assert (place, within) == (len(heights), 0)
    else:
        assert stack.top(place) + within == max(0, line)
        assert within < heights[place]
