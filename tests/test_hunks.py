from __future__ import annotations

import pytest

from tui_agent.common.domain import Diff, Hunk
from tui_agent.common.hunks import NO_END, HunkChoice, edit_hunk, format_hunk, new_side_text, with_edits
from tui_agent.tools.diffs import diff_bytes

OLD = "".join(f"{number}\n" for number in range(30)).encode()
NEW = OLD.replace(b"\n5\n", b"\nfive\nfive and a half\n").replace(b"\n20\n", b"\n")
DIFF = diff_bytes("f", OLD, NEW)


def test_a_choice_survives_a_round_trip_through_an_answer() -> None:
    choice = HunkChoice((0, 1), {1: "x\ny"})
    assert HunkChoice.from_answer(choice.to_answer(), DIFF) == choice
    assert not choice.selects_all(DIFF) and HunkChoice((0, 1), {}).selects_all(DIFF)
    assert HunkChoice.from_answer({}, DIFF).selects_all(DIFF)
    assert HunkChoice((0,), {1: "left out"}).to_answer() == {"hunks": [0], "edits": {}}


@pytest.mark.parametrize(
    "data",
    [{"hunks": [2]}, {"hunks": ["0"]}, {"hunks": None}, {"edits": {"5": "x"}}, {"edits": {"0": 1}}, {"all": True}],
)
def test_a_malformed_answer_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="hunks"):
        HunkChoice.from_answer(data, DIFF)


def test_later_hunks_move_with_an_edit() -> None:
    shown = with_edits(DIFF, {0: new_side_text(DIFF.hunks[0]) + "\nmore\nand more"})
    assert shown.hunks[0].new_count == DIFF.hunks[0].new_count + 2
    assert shown.hunks[1].new_start == DIFF.hunks[1].new_start + 2
    assert shown.hunks[1].lines == DIFF.hunks[1].lines


def test_an_edit_to_nothing_removes_every_line() -> None:
    hunk = edit_hunk(DIFF.hunks[0], "")
    assert (hunk.new_count, {line[0] for line in hunk.lines}) == (0, {"-"})


def test_a_missing_last_line_end_stays_missing() -> None:
    (hunk,) = diff_bytes("f", b"a\nb", b"a\nB").hunks
    assert edit_hunk(hunk, "a\nC").lines == (" a", "-b", NO_END, "+C", NO_END)
    assert edit_hunk(hunk, "a\n").lines == (" a", "-b", NO_END)
    assert format_hunk(hunk).startswith("@@ -1,2 +1,2 @@\n a\n")


def test_a_huge_hunk_is_not_compared_line_by_line() -> None:
    lines = tuple(f"+{number}" for number in range(3_000))
    gone = tuple(f"-{number}" for number in range(3_000))
    hunk = Hunk(old_start=1, old_count=3_000, new_start=1, new_count=3_000, lines=gone + lines)
    diff = Diff(path="f", kind="modify", hunks=(hunk,))
    assert with_edits(diff, {0: "x"}).hunks[0].lines == (*gone, "+x")
