from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui_agent.common.domain import Diff
from tui_agent.common.hunks import NO_END
from tui_agent.tools.diffs import diff_bytes


def patched(before: str, diff: Diff) -> str:
    """`before` with the hunks applied, for texts with `\\n` as line end."""
    old = before.split("\n")
    ended = old.pop() == "" if old[-1] == "" else False
    out: list[str] = []
    at = 0
    final = ended
    for hunk in diff.hunks:
        start = hunk.old_start - 1 if hunk.old_count else hunk.old_start
        out += old[at:start]
        at = start
        mark = ""
        for line in hunk.lines:
            if line == NO_END:
                final = False if mark in "+ " else final
                continue
            mark = line[0]
            if mark != "+":
                assert old[at] == line[1:]
                at += 1
            if mark != "-":
                out.append(line[1:])
                final = True
    out += old[at:]
    if at < len(old):
        final = ended
    return "\n".join(out) + ("\n" if out and final else "")


lines = st.lists(st.sampled_from(["a", "b", "c", "{", "}", ""]), max_size=30)


@given(lines, lines, st.booleans(), st.booleans())
def test_hunks_turn_the_old_text_into_the_new(old: list[str], new: list[str], end1: bool, end2: bool) -> None:
    before = "\n".join(old) + ("\n" if end1 and old else "")
    after = "\n".join(new) + ("\n" if end2 and new else "")
    diff = diff_bytes("f", before.encode(), after.encode())
    assert patched(before, diff) == after
    for hunk in diff.hunks:
        marks = [line[0] for line in hunk.lines]
        assert hunk.old_count == marks.count(" ") + marks.count("-")
        assert hunk.new_count == marks.count(" ") + marks.count("+")
    assert diff.added == sum(line[0] == "+" for hunk in diff.hunks for line in hunk.lines)


def test_a_change_has_three_lines_of_context() -> None:
    text = "".join(f"{number}\n" for number in range(20))
    diff = diff_bytes("f", text.encode(), text.replace("10\n", "ten\n").encode())
    (hunk,) = diff.hunks
    assert hunk.lines == (" 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13")
    assert (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count) == (8, 7, 8, 7)
    assert (diff.kind, diff.added, diff.removed, diff.note) == ("modify", 1, 1, None)


def test_new_and_deleted_files() -> None:
    diff = diff_bytes("f", None, b"a\nb")
    assert (diff.kind, diff.hunks[0].lines) == ("create", ("+a", "+b", NO_END))
    assert (diff.hunks[0].old_start, diff.hunks[0].old_count) == (0, 0)
    diff = diff_bytes("f", b"a\n", None)
    assert (diff.kind, diff.hunks[0].lines) == ("delete", ("-a",))
    assert diff_bytes("f", None, b"").hunks == ()


def test_what_lines_do_not_show_is_noted() -> None:
    assert diff_bytes("f", b"a\r\n", b"a\n").note == "line ends CRLF → LF"
    assert diff_bytes("f", b"a\r\n", b"a\n").hunks[0].lines == ("-a", "+a")
    assert diff_bytes("f", b"a\r\nb\r\n", b"a\r\nb\n").note == "line ends CRLF → CRLF and LF"
    assert diff_bytes("f", b"\xef\xbb\xbfa\n", b"a\n").note == "byte order mark removed"
    assert diff_bytes("f", None, b"a\r\n").note == "CRLF"
    assert diff_bytes("f", b"a\0", b"b\0\0").note == "binary, 2 bytes → 3 bytes"
    assert diff_bytes("f", b"a\n", b"a").hunks[0].lines == ("-a", "+a", NO_END)


def test_no_change_has_no_hunks() -> None:
    assert diff_bytes("f", b"a\n", b"a\n").hunks == ()


def test_undecodable_bytes_can_be_encoded_in_messages() -> None:
    for hunk in diff_bytes("f", "ü ü ü ".encode() + b"\xff\n", "ü ü ü ".encode() + b"\xfe\n").hunks:
        "".join(hunk.lines).encode("utf-8")
