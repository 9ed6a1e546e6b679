from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_agent.common.hunks import HunkChoice, count_changes, edit_hunk, hunk_side, new_side_text, with_edits
from tui_agent.tools.base import ToolError
from tui_agent.tools.diffs import diff_bytes
from tui_agent.tools.partial_edits import can_choose, chosen_bytes, split_keeping_ends

some_lines = st.lists(
    st.sampled_from(["a", "b", "c", "d e", "", "ü", "\tx"]).flatmap(
        lambda text: st.sampled_from(["\n", "\r\n"]).map(lambda end: text + end)
    ),
    max_size=40,
)
bounded = settings(deadline=None, max_examples=200)


def file(lines: list[str], ended: bool) -> bytes:
    text = "".join(lines)
    return (text if ended else text.rstrip("\r\n")).encode()


@bounded
@given(some_lines, some_lines, st.booleans(), st.booleans(), st.data())
def test_selected_hunks_are_new_and_all_others_old(
    old: list[str], new: list[str], end1: bool, end2: bool, data: st.DataObject
) -> None:
    before, after = file(old, end1), file(new, end2)
    if not can_choose(before, after):
        return
    diff = diff_bytes("f", before, after, 1)
    every = tuple(range(len(diff.hunks)))
    assert chosen_bytes(before, after, diff, HunkChoice(every, {})) == after
    assert chosen_bytes(before, after, diff, HunkChoice((), {})) == before
    taken = tuple(sorted(data.draw(st.sets(st.sampled_from(every))))) if every else ()
    made = chosen_bytes(before, after, diff, HunkChoice(taken, {}))
    again = diff_bytes("f", before, made, 1)
    assert sum(hunk.new_count - hunk.old_count for hunk in again.hunks) == sum(
        diff.hunks[place].new_count - diff.hunks[place].old_count for place in taken
    )
    assert with_edits(diff, {}) == diff
    totals = [count_changes(hunk) for hunk in diff.hunks]
    assert sum(added for added, _ in totals) == diff.added and sum(removed for _, removed in totals) == diff.removed


@bounded
@given(some_lines, some_lines, st.booleans(), st.lists(st.sampled_from(["a", "b", "new", ""]), max_size=8))
def test_an_edited_hunk_is_written_as_its_text_says(
    old: list[str], new: list[str], ended: bool, typed: list[str]
) -> None:
    before, after = file(old, True), file(new, ended)
    if not can_choose(before, after):
        return
    diff = diff_bytes("f", before, after)
    for place, hunk in enumerate(diff.hunks):
        same = HunkChoice((place,), {place: new_side_text(hunk)})
        assert chosen_bytes(before, after, diff, same) == chosen_bytes(before, after, diff, HunkChoice((place,), {}))
        assert edit_hunk(hunk, new_side_text(hunk)) is hunk
        text = "\n".join(typed)
        made = chosen_bytes(before, after, diff, HunkChoice((place,), {place: text}))
        shown = edit_hunk(hunk, text)
        begins = hunk.old_start - (1 if hunk.old_count else 0)
        lines = split_keeping_ends(made.decode())
        real = [line.rstrip("\r\n") for line in lines[begins : begins + shown.new_count]]
        assert text.startswith("\n".join(real))
        assert hunk_side(shown, " +").lines == tuple(real)
        assert hunk_side(shown, " -").lines == hunk_side(hunk, " -").lines
        marks = [line[0] for line in shown.lines]
        assert shown.old_count == marks.count(" ") + marks.count("-")
        assert shown.new_count == marks.count(" ") + marks.count("+")


def test_new_lines_get_the_end_that_the_others_have() -> None:
    before, after = b"a\r\nb\r\nc", b"a\r\nB\r\nc"
    diff = diff_bytes("f", before, after)
    assert chosen_bytes(before, after, diff, HunkChoice((0,), {0: "a\nB\nB2\nc"})) == b"a\r\nB\r\nB2\r\nc"
    assert chosen_bytes(before, after, diff, HunkChoice((0,), {0: ""})) == b""


def test_the_mark_and_encoding_of_the_file_stay() -> None:
    before, after = "\ufeffä\nb\n".encode("utf-16-le"), "\ufeffä\nB\n".encode("utf-16-le")
    assert can_choose(before, after)
    diff = diff_bytes("f", before, after)
    made = chosen_bytes(before, after, diff, HunkChoice((0,), {0: "ä\n€"}))
    assert made == "\ufeffä\n€\n".encode("utf-16-le")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\0\1", b"text"),
        (b"text", b"\0\1"),
        (b"a\n", b"\xef\xbb\xbfa\n"),
        (b"plain \xc3\xa4 \xff\n", b"plain \xc3\xa4 \xff x\n"),
    ],
)
def test_binary_files_and_changed_encodings_have_no_separate_hunks(before: bytes, after: bytes) -> None:
    assert not can_choose(before, after)


def test_hunks_of_new_and_empty_files_can_be_selected() -> None:
    assert can_choose(None, b"a\n") and can_choose(b"", b"a\n")
    diff = diff_bytes("f", None, b"a\nb\n")
    assert chosen_bytes(None, b"a\nb\n", diff, HunkChoice((0,), {0: "a"})) == b"a\n"
    assert chosen_bytes(None, b"a\nb\n", diff, HunkChoice((), {})) == b""


def test_what_the_encoding_can_not_write_is_an_error() -> None:
    before, after = "é\nb\n".encode("latin-1"), "é\nB\n".encode("latin-1")
    if can_choose(before, after):
        diff = diff_bytes("f", before, after)
        with pytest.raises(ToolError) as caught:
            chosen_bytes(before, after, diff, HunkChoice((0,), {0: "é\n漢"}))
        assert caught.value.code == "encoding"
