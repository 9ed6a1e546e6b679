from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.scenes.build import EDIT, HUNK
from tests.widgets.kit import INK
from tui_agent.common.domain import Diff, Hunk
from widgets.diff_lines import diff_rows, number_width, paint_row, row_height


def painted(diff: Diff, width: int = 60) -> list[str]:
    return [line.text for row in diff_rows(diff) for line in paint_row(row, width, number_width(diff), INK)]


def test_lines_carry_their_numbers_and_a_sign_that_needs_no_colour() -> None:
    lines = painted(EDIT.diff)
    assert lines[0] == "@@ -11,7 +11,10 @@"
    assert lines[1].startswith("11 11   from exporter.table")
    assert lines[3].startswith("13    − def export(rows")
    assert lines[5].startswith("   13 + def export(rows")
    assert lines[-1].startswith("17 20   def main")


def test_what_lines_can_not_show_is_said() -> None:
    diff = Diff(path="a", kind="modify", note="Line ends change from CRLF to LF.")
    assert painted(diff) == ["Line ends change from CRLF to LF."]
    hunk = Hunk(
        old_start=1, old_count=1, new_start=1, new_count=1, lines=("-a\r", "+a", "\\ No newline at end of file")
    )
    text = "\n".join(painted(Diff(path="a", kind="modify", hunks=(hunk,))))
    assert "a<U+000D>" in text
    assert "No newline at end of file" in text
    assert painted(Diff(path="a", kind="create")) == ["The file stays empty."]


def test_nothing_hides_in_a_diff() -> None:
    hunk = Hunk(old_start=0, old_count=0, new_start=1, new_count=1, lines=("+a\x1b[2J\u202eb" + " " * 60 + "c",))
    text = "".join(painted(Diff(path="a", kind="create", hunks=(hunk,))))
    for part in ("<U+001B>[2J", "<U+202E>", "⟨60 spaces⟩"):
        assert part in text.replace(" ", " ")


@given(st.lists(st.text(alphabet=st.sampled_from("ab 日\té\x1b\u202e"), max_size=90), min_size=1), st.integers(20, 80))
def test_heights_are_those_of_the_painted_lines(lines: list[str], width: int) -> None:
    hunk = Hunk(old_start=1, old_count=0, new_start=1, new_count=len(lines), lines=tuple("+" + one for one in lines))
    diff = Diff(path="a", kind="create", hunks=(hunk,))
    for row in diff_rows(diff):
        assert row_height(row, width, number_width(diff)) == len(paint_row(row, width, number_width(diff), INK))


def test_the_hunk_of_the_scenes_counts_right() -> None:
    signs = [line[0] for line in HUNK.lines]
    assert signs.count("-") + signs.count(" ") == HUNK.old_count
    assert signs.count("+") + signs.count(" ") == HUNK.new_count
