"""Selecting and editing the hunks of a diff before it is applied (A3). Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from tui_agent.common.domain import Diff, Hunk

NO_END = "\\ No newline at end of file"
MAX_COMPARED_PAIRS = 4_000_000
"""Old lines times new lines of an edited hunk up to which they are compared; beyond, all lines are replaced."""


class HunkChoice(NamedTuple):
    """The selected hunks of a diff, and the new text of those the user edited."""

    selected: tuple[int, ...]
    """Indexes into `Diff.hunks`."""
    edits: Mapping[int, str]
    """Index of a selected hunk → its new side, lines joined by line feeds; empty for no lines."""

    @classmethod
    def from_answer(cls, data: Mapping[str, Any], diff: Diff) -> HunkChoice:
        """Parse `Answer.data` for `diff`. Raises ValueError for malformed data or unknown hunks."""
        try:
            selected = set(msgspec.convert(data.get("hunks", list(range(len(diff.hunks)))), list[int]))
            edits = {int(key): text for key, text in msgspec.convert(data.get("edits", {}), dict[str, str]).items()}
        except (msgspec.ValidationError, ValueError) as error:
            raise ValueError("the answer names no hunks") from error
        if not set(edits) <= selected <= set(range(len(diff.hunks))) or not set(data) <= {"hunks", "edits"}:
            raise ValueError("the answer names hunks that were not shown")
        return cls(tuple(sorted(selected)), edits)

    def to_answer(self) -> dict[str, Any]:
        """Return the choice as `Answer.data` holds it."""
        edits = {str(index): text for index, text in sorted(self.edits.items()) if index in self.selected}
        return {"hunks": list(self.selected), "edits": edits}

    def selects_all(self, diff: Diff) -> bool:
        """True if the diff is accepted exactly as proposed."""
        return len(self.selected) == len(diff.hunks) and not self.edits


class HunkSide(NamedTuple):
    """The old or the new lines of a hunk."""

    lines: tuple[str, ...]
    has_final_newline: bool
    """False if the last line is the end of the file and has no line end."""

    def comparable(self) -> list[tuple[str, bool]]:
        """Lines with whether each has a line end, so that a missing one counts as a difference."""
        last = len(self.lines) - 1
        return [(line, self.has_final_newline or index < last) for index, line in enumerate(self.lines)]


def hunk_side(hunk: Hunk, signs: str) -> HunkSide:
    """Return the lines of `hunk` with one of the `signs` (" -" for the old side, " +" for the new)."""
    lines: list[str] = []
    has_final_newline = True
    on_side = False
    for raw in hunk.lines:
        if raw[:1] == "\\":
            has_final_newline = has_final_newline and not on_side
            continue
        on_side = (raw[:1] or " ") in signs
        if on_side:
            lines.append(raw[1:])
    return HunkSide(tuple(lines), has_final_newline)


def new_side_text(hunk: Hunk) -> str:
    """Return the new side of a hunk as text to edit."""
    return "\n".join(hunk_side(hunk, " +").lines)


def text_lines(text: str) -> list[str]:
    """Split an edited text into lines; an empty text has none."""
    return text.split("\n") if text else []


def _edited_side(text: str, has_final_newline: bool) -> HunkSide:
    """Parse an edited side. Without a final newline before, an empty last line adds one."""
    lines = text_lines(text)
    if not has_final_newline and lines and not lines[-1]:
        return HunkSide(tuple(lines[:-1]), True)
    return HunkSide(tuple(lines), has_final_newline)


def edit_hunk(hunk: Hunk, text: str) -> Hunk:
    """Return `hunk` with `text` as its new side; the end of the file stays as proposed unless the text adds it."""
    old, proposed = hunk_side(hunk, " -"), hunk_side(hunk, " +")
    new = _edited_side(text, proposed.has_final_newline)
    if new == proposed or text == "\n".join(proposed.lines):  # one empty line and no line look the same as text
        return hunk
    lines: list[str] = []

    def add(sign: str, side: HunkSide, start: int, end: int) -> None:
        lines.extend(sign + line for line in side.lines[start:end])
        if start < end == len(side.lines) and not side.has_final_newline:
            lines.append(NO_END)

    for tag, old_start, old_end, new_start, new_end in _compare_sides(old, new):
        if tag == "equal":
            add(" ", old, old_start, old_end)
        else:
            add("-", old, old_start, old_end)
            add("+", new, new_start, new_end)
    return Hunk(
        old_start=hunk.old_start,
        old_count=hunk.old_count,
        new_start=_hunk_start(_lines_before(hunk), len(new.lines)),
        new_count=len(new.lines),
        lines=tuple(lines),
    )


def _compare_sides(old: HunkSide, new: HunkSide) -> Iterable[tuple[str, int, int, int, int]]:
    left, right = old.comparable(), new.comparable()
    if len(left) * len(right) > MAX_COMPARED_PAIRS:
        return [("replace", 0, len(left), 0, len(right))]
    return difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes()


def _lines_before(hunk: Hunk) -> int:
    return hunk.new_start - (1 if hunk.new_count else 0)


def _hunk_start(lines_before: int, count: int) -> int:
    """Line number for a hunk header: the first line, or the line before an empty range."""
    return lines_before + (1 if count else 0)


def with_edits(diff: Diff, edits: Mapping[int, str]) -> Diff:
    """Return `diff` with the edited hunks, renumbered; `added` and `removed` are not recounted."""
    shift = 0
    hunks: list[Hunk] = []
    for index, hunk in enumerate(diff.hunks):
        edited = edit_hunk(hunk, edits[index]) if index in edits else hunk
        if shift or edited is not hunk:
            start = _hunk_start(_lines_before(hunk) + shift, edited.new_count)
            edited = msgspec.structs.replace(edited, new_start=start)
            shift += edited.new_count - hunk.new_count
        hunks.append(edited)
    return msgspec.structs.replace(diff, hunks=tuple(hunks))


def count_changes(hunk: Hunk) -> tuple[int, int]:
    """Return the numbers of added and removed lines."""
    signs = [line[:1] for line in hunk.lines]
    return signs.count("+"), signs.count("-")


def format_hunk(hunk: Hunk) -> str:
    """Return a hunk as unified diff text."""
    header = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
    return "\n".join([header, *hunk.lines])
