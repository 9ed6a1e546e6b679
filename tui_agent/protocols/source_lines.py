"""Lines of source text as its language counts them: line ends, and similarity of texts."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence

BOM = "\ufeff"
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_END = re.compile(r"\r\n?|\n")
_MODEL_END = re.compile(r"\r\n|\n")
"""Line ends in text that a model writes."""
_MAX_COMPARED = 1_500
"""Maximum number of lines that are compared in order; longer texts are compared as multisets."""
_MAX_SHORT = 2_000
"""Maximum length, in characters, of texts that are compared by character."""


def source_lines(text: str) -> list[str]:
    r"""Return the lines with their ends, which are \n, \r\n and \r; form feeds and U+2028 don't end a line."""
    return _LINE.findall(text)


def content_lines(text: str) -> list[str]:
    """Return the lines that are not blank, stripped."""
    return [line.strip() for line in source_lines(text) if line.strip()]


def normalize_ends(text: str) -> str:
    r"""Return the text without a byte order mark and with \n as line ends."""
    return _END.sub("\n", text.removeprefix(BOM))


def adopt_ends(old: str, new: str) -> str:
    """Return `new` with the byte order mark and line ends of `old`. If `old` has mixed ones, unchanged lines keep
    theirs, and new lines take that of the line before them."""
    mark = BOM if old.startswith(BOM) else ""
    old, new = old.removeprefix(BOM), new.removeprefix(BOM)
    ends = set(_END.findall(old))
    if len(ends) > 1:
        return mark + _adopt_line_ends(source_lines(old), new)
    end = next(iter(ends), "\n")
    return mark + _MODEL_END.sub(lambda _: end, new)


def similarity(first: str, second: str) -> float:
    """Return the similarity of two texts, from 0 to 1, ignoring space around lines. Takes linear time for long
    texts."""
    first_lines, second_lines = content_lines(first), content_lines(second)
    if max(len(first_lines), len(second_lines)) > _MAX_COMPARED:
        common = sum((Counter(first_lines) & Counter(second_lines)).values())
        return 2 * common / (len(first_lines) + len(second_lines))
    return difflib.SequenceMatcher(None, first_lines, second_lines).ratio()


def char_similarity(first: str, second: str) -> float:
    """Return the similarity of two short texts by character; 0 for long ones."""
    if max(len(first), len(second)) > _MAX_SHORT:
        return 0.0
    return difflib.SequenceMatcher(None, first.strip(), second.strip(), autojunk=False).ratio()


def removed_share(old: str, new: str) -> float:
    """Return the share of the lines of `old` with letters or digits that `new` lacks, from 0 to 1."""
    old_lines = [line for line in content_lines(old) if any(map(str.isalnum, line))]
    new_lines = set(content_lines(new))
    return sum(line not in new_lines for line in old_lines) / len(old_lines) if old_lines else 0.0


def _adopt_line_ends(old: list[str], new: str) -> str:
    old_lines = [line.rstrip("\r\n") for line in old]
    ends = [line[len(stripped) :] for line, stripped in zip(old, old_lines, strict=True)]
    new_lines = _MODEL_END.split(new)
    unfinished = new_lines.pop() if new_lines else ""
    retained: dict[int, str] = {}
    """Ends of the unchanged lines, by number in the new text."""
    for old_start, new_start, size in _equal_runs(old_lines, new_lines):
        retained.update({new_start + at: ends[old_start + at] for at in range(size)})
    end, lines = ends[0], []
    for number, line in enumerate(new_lines):
        end = retained.get(number) or end
        lines.append(line + end)
    return "".join(lines) + unfinished


def _equal_runs(old_lines: list[str], new_lines: list[str]) -> Sequence[tuple[int, int, int]]:
    """Return runs of equal lines: start in each text, length. Of long texts only the beginning and end are compared."""
    if max(len(old_lines), len(new_lines)) <= _MAX_COMPARED:
        return difflib.SequenceMatcher(None, old_lines, new_lines).get_matching_blocks()
    size = min(len(old_lines), len(new_lines))
    top = next((at for at in range(size) if old_lines[at] != new_lines[at]), size)
    bottom = next((at for at in range(size - top) if old_lines[-1 - at] != new_lines[-1 - at]), size - top)
    return [(0, 0, top), (len(old_lines) - bottom, len(new_lines) - bottom, bottom)]
