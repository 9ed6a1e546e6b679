"""Computing the new bytes of an edit of which the user accepted some hunks, or edited them (A3)."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from itertools import takewhile

from tui_agent.common.domain import Diff, Hunk
from tui_agent.common.hunks import HunkChoice, text_lines
from tui_agent.platform.encoding import Decoded, NotText, decode
from tui_agent.tools.base import ToolError
from tui_agent.tools.tolerant_text import LINE_END


def can_choose(before: bytes | None, after: bytes) -> bool:
    """True if hunks can be accepted separately: both sides are text in the same encoding without invalid bytes."""
    try:
        new = decode(after)
        old = decode(before) if before is not None else None
    except NotText:
        return False
    if new.codec.errors != "strict" or old is None or not old.text:
        return new.codec.errors == "strict"
    return (old.codec.name, old.codec.bom, old.codec.errors) == (new.codec.name, new.codec.bom, new.codec.errors)


def chosen_bytes(before: bytes | None, after: bytes, diff: Diff, choice: HunkChoice) -> bytes:
    """Return the old bytes with the selected hunks applied, including the user's edits.

    `diff` must be that from `before` to `after`, for which `can_choose()` holds. Raises ToolError `encoding` if an edit
    contains characters the file's encoding lacks.
    """
    new = decode(after)
    old = decode(before) if before is not None else Decoded("", new.codec)
    old_lines, new_lines = split_keeping_ends(old.text), split_keeping_ends(new.text)
    out: list[str] = []
    at = 0
    for index, hunk in enumerate(diff.hunks):
        start = hunk.old_start - (1 if hunk.old_count else 0)
        end = start + hunk.old_count
        out += old_lines[at:start]
        if index not in choice.selected:
            out += old_lines[start:end]
        elif index in choice.edits:
            out += _edited(_new_lines(hunk, new_lines), choice.edits[index], new_lines or old_lines)
        else:
            out += _new_lines(hunk, new_lines)
        at = end
    out += old_lines[at:]
    codec = old.codec if old.text else new.codec
    try:
        return codec.bom + codec.encode_new("".join(out))
    except UnicodeEncodeError as error:
        wrong = error.object[error.start : error.end].encode("utf-8", "backslashreplace").decode()
        raise ToolError(f"The file's encoding has no {wrong!r}; nothing was written.", "encoding") from error


def split_keeping_ends(text: str) -> list[str]:
    """Split into lines with their ends, as a diff counts them."""
    return re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", text)


def _new_lines(hunk: Hunk, lines: list[str]) -> list[str]:
    start = hunk.new_start - (1 if hunk.new_count else 0)
    return lines[start : start + hunk.new_count]


def _edited(proposed: list[str], text: str, around: list[str]) -> list[str]:
    """Return the lines of the edited `text`: unchanged ones keep their line ends, new ones get the most common one."""
    without_ends = [line.rstrip("\r\n") if _line_end(line) else line for line in proposed]
    if text == "\n".join(without_ends):
        return proposed
    edited = text_lines(text)
    common_ends = Counter(filter(None, map(_line_end, proposed or around))).most_common(1)
    line_end = common_ends[0][0] if common_ends else "\n"
    lines = [line + line_end for line in edited]
    matcher = difflib.SequenceMatcher(None, without_ends, edited, autojunk=False)
    for old_start, new_start, size in matcher.get_matching_blocks():
        unchanged = proposed[old_start : old_start + size]
        lines[new_start : new_start + size] = [line if _line_end(line) else line + line_end for line in unchanged]
    if lines and proposed and not _line_end(proposed[-1]):
        lines[-1] = lines[-1].rstrip("\r\n")
    return lines


def _line_end(line: str) -> str:
    """Return the line end of a line."""
    return "\r\n" if line.endswith("\r\n") else line[-1:] if line[-1:] in ("\r", "\n") else ""


_MODEL_LINE_END = re.compile(r"\r\n|\n")
"""Line ends in text from the model; a lone carriage return is an ordinary character."""


class LineEnds:
    """The line ends of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        crlf = text.count("\r\n")
        kinds = {"\r\n": crlf, "\n": text.count("\n") - crlf, "\r": text.count("\r") - crlf}
        self.kinds = [kind for kind, count in kinds.items() if count]
        """Which of CRLF, LF and CR occur."""
        self.mixed = len(self.kinds) > 1
        self._cached: tuple[str, str] | None = None

    def fit(self, old: str, new: str, start: int, end: int, *, exact: bool) -> str:
        """Return `new` with the line ends for `start:end`, where `old` was found.

        In a text with mixed line ends, unchanged lines keep theirs and new lines take that of the line they replace.
        """
        if not self.kinds or ("\n" not in new and "\r" not in new):
            return new
        if not self.mixed:
            if self._cached is None or self._cached[0] != new:
                self._cached = new, _MODEL_LINE_END.sub(lambda _: self.kinds[0], new)
            return self._cached[1]
        return self._fit_aligned(old, new, start, end, exact)

    def _fit_aligned(self, old: str, new: str, start: int, end: int, exact: bool) -> str:
        pattern = _MODEL_LINE_END if exact and "\n" in self._text else LINE_END
        region = self._text[start:end]
        ends = pattern.findall(region)
        before, after = pattern.split(old), _MODEL_LINE_END.split(new)
        if len(before) != len(ends) + 1:
            before = pattern.split(region)
        count = len(after) - 1
        top = _common_length(before[:-1], after[:-1])
        # The last piece has no line end, so subtract one from the common pieces.
        bottom = max(0, _common_length(before[::-1], after[::-1]) - 1)
        bottom = min(bottom, len(ends) - top, count - top)
        middle = ends[top : len(ends) - bottom]
        if not middle:
            middle = [ends[top - 1] if top else ends[0] if ends else self._nearby_end(start, end, pattern)]
        new_count = count - top - bottom
        chosen = ends[:top] + (middle + [middle[-1]] * new_count)[:new_count] + ends[len(ends) - bottom :]
        return "".join(line + own for line, own in zip(after[:-1], chosen, strict=True)) + after[-1]

    def _nearby_end(self, start: int, end: int, pattern: re.Pattern[str]) -> str:
        """Return the end of the line that contains `end`, or of the line before."""
        match = pattern.search(self._text, end)
        if match is not None:
            return match[0]
        before = pattern.findall(self._text, 0, start)
        return before[-1] if before else "\n"


def _common_length(first: list[str], second: list[str]) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
