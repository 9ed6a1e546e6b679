"""Lines of a source text, as its language counts them: their ends, and how alike two texts are."""

from __future__ import annotations

import difflib
import re
from collections import Counter

BOM = "\ufeff"
_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_END = re.compile(r"\r\n?|\n")
_OURS = re.compile(r"\r\n|\n")
"""What counts as a line end in text that a model writes."""
_COMPARED = 1_500
"""Lines of each text up to which they are compared in their order; beyond, as heaps of lines."""
_SHORT = 2_000
"""Characters up to which two texts are compared by character too."""


def source_lines(text: str) -> list[str]:
    r"""The lines with their ends, which are \n, \r\n and \r: form feeds and U+2028 stand within a line."""
    return _LINE.findall(text)


def with_plain_ends(text: str) -> str:
    r"""The text without a byte order mark, each line ended by \n."""
    return _END.sub("\n", text.removeprefix(BOM))


def with_ends_of(old: str, new: str) -> str:
    """`new` with the byte order mark and the line ends of `old`, the file that it replaces. Where `old` has several
    kinds, lines that stay keep their own, and new ones end like the line before them."""
    mark = BOM if old.startswith(BOM) else ""
    old, new = old.removeprefix(BOM), new.removeprefix(BOM)
    kinds = set(_END.findall(old))
    if len(kinds) > 1:
        return mark + _aligned(source_lines(old), new)
    kind = next(iter(kinds), "\n")
    return mark + _OURS.sub(lambda _: kind, new)


def likeness(one: str, other: str) -> float:
    """How much of two texts is the same, from 0 to 1, without the blanks around lines. Takes time in proportion to
    their lengths where they are long."""
    first = [line.strip() for line in source_lines(one) if line.strip()]
    second = [line.strip() for line in source_lines(other) if line.strip()]
    if max(len(first), len(second)) > _COMPARED:
        common = sum((Counter(first) & Counter(second)).values())
        return 2 * common / (len(first) + len(second))
    return difflib.SequenceMatcher(None, first, second).ratio()


def likeness_of_short(one: str, other: str) -> float:
    """How alike two short texts are by their characters; 0 for long ones."""
    if max(len(one), len(other)) > _SHORT:
        return 0.0
    return difflib.SequenceMatcher(None, one.strip(), other.strip(), autojunk=False).ratio()


def share_gone(old: str, new: str) -> float:
    """Which part of the lines of `old` that say something is nowhere in `new`, from 0 to 1."""
    was = [line.strip() for line in source_lines(old) if any(map(str.isalnum, line))]
    now = {line.strip() for line in source_lines(new)}
    return sum(line not in now for line in was) / len(was) if was else 0.0


def _aligned(old: list[str], new: str) -> str:
    was = [line.rstrip("\r\n") for line in old]
    ends = [line[len(bare) :] for line, bare in zip(old, was, strict=True)]
    now = _OURS.split(new)
    open_end = now.pop() if now else ""
    found: dict[int, str] = {}
    for first, second, size in _equal(was, now):
        found.update({second + at: ends[first + at] for at in range(size)})
    end, lines = ends[0], []
    for at, line in enumerate(now):
        end = found.get(at) or end
        lines.append(line + end)
    return "".join(lines) + open_end


def _equal(was: list[str], now: list[str]) -> list[tuple[int, int, int]]:
    """Runs of equal lines: where they begin in each text, and how long they are."""
    if max(len(was), len(now)) <= _COMPARED:
        found = difflib.SequenceMatcher(None, was, now).get_matching_blocks()
        return [(one.a, one.b, one.size) for one in found]
    least = min(len(was), len(now))
    top = next((at for at in range(least) if was[at] != now[at]), least)
    bottom = next((at for at in range(least - top) if was[-1 - at] != now[-1 - at]), least - top)
    return [(0, 0, top), (len(was) - bottom, len(now) - bottom, bottom)]
