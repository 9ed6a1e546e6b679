"""The bytes of an edit of which the user took only parts, or which they changed before (A3)."""

from __future__ import annotations

import difflib
import re
from collections import Counter

from tui_agent.common.domain import Diff, Hunk
from tui_agent.common.hunks import HunkChoice, text_lines
from tui_agent.platform.encoding import Codec, Decoded, NotText, decode
from tui_agent.tools.base import ToolError
from tui_agent.tools.tolerant_text import LINE_END


def can_choose(before: bytes | None, after: bytes) -> bool:
    """Whether hunks can be taken one by one: both sides are text, written in the same way, without broken bytes."""
    try:
        new = decode(after)
        old = decode(before) if before is not None else None
    except NotText:
        return False
    if new.codec.errors != "strict":
        return False
    return old is None or not old.text or _written(old.codec) == _written(new.codec)


def chosen_bytes(before: bytes | None, after: bytes, diff: Diff, choice: HunkChoice) -> bytes:
    """What the file will hold: the old bytes but for the hunks that are taken, these with their edits.

    `diff` must be the one from `before` to `after`, and `can_choose()` them. Raises ToolError `encoding` when an edit
    holds what the file's encoding can't write.
    """
    new = decode(after)
    old = decode(before) if before is not None else Decoded("", new.codec)
    old_lines, new_lines = split_keeping_ends(old.text), split_keeping_ends(new.text)
    out: list[str] = []
    at = 0
    for place, hunk in enumerate(diff.hunks):
        begins = hunk.old_start - (1 if hunk.old_count else 0)
        stop = begins + hunk.old_count
        out += old_lines[at:begins]
        if place not in choice.selected:
            out += old_lines[begins:stop]
        elif place in choice.edits:
            out += _edited(_new_of(hunk, new_lines), choice.edits[place], new_lines or old_lines)
        else:
            out += _new_of(hunk, new_lines)
        at = stop
    out += old_lines[at:]
    codec = old.codec if old.text else new.codec
    try:
        return codec.bom + codec.encode_new("".join(out))
    except UnicodeEncodeError as error:
        wrong = error.object[error.start : error.end].encode("utf-8", "backslashreplace").decode()
        raise ToolError(f"The file's encoding has no {wrong!r}; nothing was written.", "encoding") from error


def split_keeping_ends(text: str) -> list[str]:
    """Lines with their ends, as a diff counts them."""
    lines: list[str] = []
    at = 0
    for found in LINE_END.finditer(text):
        lines.append(text[at : found.end()])
        at = found.end()
    return [*lines, text[at:]] if at < len(text) else lines


def _new_of(hunk: Hunk, lines: list[str]) -> list[str]:
    begins = hunk.new_start - (1 if hunk.new_count else 0)
    return lines[begins : begins + hunk.new_count]


def _written(codec: Codec) -> tuple[str, bytes, str]:
    return codec.name, codec.bom, codec.errors


def _edited(proposed: list[str], text: str, around: list[str]) -> list[str]:
    """The lines of the edited `text`: those that were proposed keep their ends, new ones get the usual one."""
    bare = [line.rstrip("\r\n") if _end(line) else line for line in proposed]
    if text == "\n".join(bare):
        return proposed
    after = text_lines(text)
    usual = Counter(filter(None, map(_end, proposed or around))).most_common(1)
    end = usual[0][0] if usual else "\n"
    lines = [line + end for line in after]
    for tag, one, _, other, stop in difflib.SequenceMatcher(None, bare, after, autojunk=False).get_opcodes():
        if tag == "equal":
            lines[other:stop] = [line if _end(line) else line + end for line in proposed[one : one + stop - other]]
    if lines and proposed and not _end(proposed[-1]):
        lines[-1] = lines[-1].rstrip("\r\n")
    return lines


def _end(line: str) -> str:
    """The line end that a line has."""
    return "\r\n" if line.endswith("\r\n") else line[-1:] if line[-1:] in ("\r", "\n") else ""


_OURS = re.compile(r"\r\n|\n")
"""What counts as a line end in text that the model writes; a lone carriage return is a character like any other."""


class LineEnds:
    """The line ends of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        crlf = text.count("\r\n")
        kinds = {"\r\n": crlf, "\n": text.count("\n") - crlf, "\r": text.count("\r") - crlf}
        self.kinds = [kind for kind, count in kinds.items() if count]
        """Which of CRLF, LF and CR occur."""
        self.mixed = len(self.kinds) > 1
        self._cached: tuple[str, str] | None = None

    def fit(self, old: str, new: str, start: int, end: int, *, exact: bool) -> str:
        """`new` with the line ends that belong at `start:end`, where `old` was found.

        In a text with one kind of line end that is it. In a mixed one, lines that stay keep their own, and new ones
        take that of the line in whose place they stand.
        """
        if not self.kinds or ("\n" not in new and "\r" not in new):
            return new
        if not self.mixed:
            if self._cached is None or self._cached[0] != new:
                self._cached = new, _OURS.sub(lambda _: self.kinds[0], new)
            return self._cached[1]
        return self._aligned(old, new, start, end, exact)

    def _aligned(self, old: str, new: str, start: int, end: int, exact: bool) -> str:
        pattern = _OURS if exact and "\n" in self._text else LINE_END
        region = self._text[start:end]
        ends = pattern.findall(region)
        before, after = pattern.split(old), _OURS.split(new)
        if len(before) != len(ends) + 1:
            before = pattern.split(region)
        count = len(after) - 1
        top = _common(before[:-1], after[:-1])
        # The last piece has no end of its own, so one fewer than the pieces that agree.
        bottom = max(0, _common(before[::-1], after[::-1]) - 1)
        bottom = min(bottom, len(ends) - top, count - top)
        middle = ends[top : len(ends) - bottom]
        if not middle:
            middle = [ends[top - 1] if top else ends[0] if ends else self._around(start, end, pattern)]
        fresh = count - top - bottom
        chosen = ends[:top] + (middle + [middle[-1]] * fresh)[:fresh] + ends[len(ends) - bottom :]
        return "".join(line + own for line, own in zip(after[:-1], chosen, strict=True)) + after[-1]

    def _around(self, start: int, end: int, pattern: re.Pattern[str]) -> str:
        """The end of the line that `end` is in, or else of the one before."""
        found = pattern.search(self._text, end)
        if found is not None:
            return found[0]
        before = pattern.findall(self._text, 0, start)
        return before[-1] if before else "\n"


def _common(one: list[str], other: list[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
