"""Parts of a diff: which hunks are taken, and what the user made of their text before they were (A3). Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tui_agent.common.domain import Diff, Hunk

NO_END = "\\ No newline at end of file"
SMALL = 4_000_000
"""Pairs of lines of an edited hunk that are compared; beyond that all its old lines become all its new ones."""


class HunkChoice(NamedTuple):
    """What is taken of a diff: the places of its hunks, and the new text of those that were edited."""

    taken: tuple[int, ...]
    edits: Mapping[int, str]
    """Place of a taken hunk → all lines of its new side, joined by line feeds; empty for no lines at all."""

    @classmethod
    def read(cls, data: Mapping[str, Any], diff: Diff) -> HunkChoice:
        """The choice that an answer to `diff` holds. Raises ValueError for what is none."""
        try:
            taken = msgspec.convert(data.get("hunks", list(range(len(diff.hunks)))), list[int])
            edits = msgspec.convert(data.get("edits", {}), dict[str, str])
            places = {int(place): text for place, text in edits.items()}
        except (msgspec.ValidationError, ValueError) as error:
            raise ValueError("the answer names no hunks") from error
        known = set(range(len(diff.hunks)))
        if not set(taken) <= known or not set(places) <= set(taken) or not set(data) <= {"hunks", "edits"}:
            raise ValueError("the answer names hunks that were not shown")
        return cls(tuple(sorted(set(taken))), places)

    def data(self) -> dict[str, Any]:
        """As `Answer.data` carries it."""
        edits = {str(place): text for place, text in sorted(self.edits.items()) if place in self.taken}
        return {"hunks": list(self.taken), "edits": edits}

    def whole(self, diff: Diff) -> bool:
        """True when everything is taken as it was shown."""
        return len(self.taken) == len(diff.hunks) and not self.edits


class Side(NamedTuple):
    """The old or the new lines of a hunk."""

    lines: tuple[str, ...]
    ended: bool
    """False when the file ends with the last line and without a line end."""


def side(hunk: Hunk, signs: str) -> Side:
    """The lines of `hunk` with one of the `signs` (" -" for the old ones, " +" for the new)."""
    lines: list[str] = []
    ended = True
    mine = False
    for raw in hunk.lines:
        if raw[:1] == "\\":
            ended = ended and not mine
            continue
        mine = (raw[:1] or " ") in signs
        if mine:
            lines.append(raw[1:])
    return Side(tuple(lines), ended)


def new_text(hunk: Hunk) -> str:
    """The new side of a hunk as text to edit."""
    return "\n".join(side(hunk, " +").lines)


def text_lines(text: str) -> list[str]:
    """The lines of an edited text; none for an empty one."""
    return text.split("\n") if text else []


def _typed(text: str, ended: bool) -> Side:
    """What was typed in the place of a side that was `ended` or not: an empty last line ends the one before."""
    lines = text_lines(text)
    if not ended and lines and not lines[-1]:
        return Side(tuple(lines[:-1]), True)
    return Side(tuple(lines), ended)


def with_edited_hunk(hunk: Hunk, text: str) -> Hunk:
    """`hunk` with `text` as its new side. Whether the file's last line has an end stays as it was proposed."""
    old, proposed = side(hunk, " -"), side(hunk, " +")
    new = _typed(text, proposed.ended)
    after = new.lines
    if new == proposed or text == "\n".join(proposed.lines):  # one empty line is said like none
        return hunk
    lines: list[str] = []

    def add(sign: str, some: Sequence[str], open_end: bool) -> None:
        lines.extend(sign + line for line in some)
        if some and open_end:
            lines.append(NO_END)

    for tag, old_from, old_to, new_from, new_to in _compared(old, new):
        last_old, last_new = old_to == len(old.lines), new_to == len(after)
        if tag == "equal":
            add(" ", old.lines[old_from:old_to], last_old and not old.ended)
            continue
        add("-", old.lines[old_from:old_to], last_old and not old.ended)
        add("+", after[new_from:new_to], last_new and not new.ended)
    begins = hunk.new_start - (1 if hunk.new_count else 0)
    return Hunk(
        old_start=hunk.old_start,
        old_count=hunk.old_count,
        new_start=begins + (1 if after else 0),
        new_count=len(after),
        lines=tuple(lines),
    )


def _compared(old: Side, new: Side) -> Iterable[tuple[str, int, int, int, int]]:
    left = [(line, old.ended or at < len(old.lines) - 1) for at, line in enumerate(old.lines)]
    right = [(line, new.ended or at < len(new.lines) - 1) for at, line in enumerate(new.lines)]
    if len(left) * len(right) > SMALL:
        return [("replace", 0, len(left), 0, len(right))]
    return difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes()


def with_edits(diff: Diff, edits: Mapping[int, str]) -> Diff:
    """`diff` with the edits in it, numbered as the file would be with all of it; `added` and `removed` are not counted
    anew."""
    shift = 0
    hunks: list[Hunk] = []
    for place, hunk in enumerate(diff.hunks):
        now = with_edited_hunk(hunk, edits[place]) if place in edits else hunk
        if shift or now is not hunk:
            begins = hunk.new_start - (1 if hunk.new_count else 0) + shift
            now = msgspec.structs.replace(now, new_start=begins + (1 if now.new_count else 0))
            shift += now.new_count - hunk.new_count
        hunks.append(now)
    return msgspec.structs.replace(diff, hunks=tuple(hunks))


def counts(hunk: Hunk) -> tuple[int, int]:
    """How many lines it adds, and how many it removes."""
    marks = [line[:1] for line in hunk.lines]
    return marks.count("+"), marks.count("-")


def lines_text(hunk: Hunk) -> str:
    """A hunk as unified diff text."""
    head = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
    return "\n".join([head, *hunk.lines])
