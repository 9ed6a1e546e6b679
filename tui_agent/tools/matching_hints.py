"""What to tell a model whose old_string is nowhere: the line that is missing, and what comes closest (R5.3)."""

from __future__ import annotations

import difflib
import re
from collections import Counter

from tui_agent.tools.lines import writable
from tui_agent.tools.views import LINE_END, compact, fold

_SHOWN = 8
"""Lines of the closest region that are quoted."""
_WIDE = 200
"""Characters of a quoted line."""
_SAME_LINE = 50
"""Places of one line that are looked at."""
_NUMBERED = re.compile(r"[ \t]*(?:→ ?)?\d+[\t:│|→]")
_TOKEN = re.compile(r"\w+")
_SCANNED = 200_000
"""Lines that are looked through for a similar one."""


def near_miss(text: str, old: str) -> str:
    """Why `old` was not found in `text`, in words that help to do better."""
    wanted = [_bare(line) for line in LINE_END.split(old)]
    lines = LINE_END.split(text)
    bare = [_bare(line) for line in lines]
    there = set(bare)
    missing = next((line for line in wanted if line and line not in there and not _inside(line, bare)), None)
    parts = ["old_string was not found."]
    if missing is not None:
        parts.append(f"This line of it is nowhere in the file: {_cut(missing)}")
    elif "\n".join(wanted).strip("\n") in "\n".join(bare):
        parts.append("Only blanks differ, in the indentation or between quotes: copy them from the file.")
    else:
        parts.append("Its lines are in the file, but not together in this order and indentation.")
    region = _closest(bare, wanted) or _similar(bare, missing or next((one for one in wanted if one), ""))
    if region is not None:
        first, last = region
        quoted = [
            f"{number}\t{_cut(lines[number - 1])}"
            for number in range(first, min(last, first + _SHOWN - 1) + 1)
        ]
        where = f"line {first}" if first == last else f"lines {first}-{last}"
        parts.append(f"The closest is at {where}:\n" + "\n".join(quoted))
        if last - first >= _SHOWN:
            parts.append("…")
    else:
        parts.append("Nothing in the file is like it.")
    return writable("\n".join([*parts, *_suspicions(text, old)]))


def _suspicions(text: str, old: str) -> list[str]:
    """Mistakes that models make often and that can be named."""
    lines = [line for line in LINE_END.split(old) if line.strip()]
    if lines and all(_NUMBERED.match(line) for line in lines):
        return ["old_string seems to hold line numbers; they are not part of the file."]
    if "\\n" in old and compact(old.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t")) in compact(
        text
    ):
        return ["old_string seems to be escaped twice: write line breaks and quotes as they are."]
    return []


def _bare(line: str) -> str:
    return " ".join(fold(line).split())


def _inside(line: str, bare: list[str]) -> bool:
    """True when `line` is a part of some line of the file, as the first and last line of an edit may be."""
    return any(line in one for one in bare[:_SCANNED])


def _closest(bare: list[str], wanted: list[str]) -> tuple[int, int] | None:
    """The stretch where most of the wanted lines stand in their places, as line numbers."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(bare):
        if line:
            kept = places.setdefault(line, [])
            if len(kept) < _SAME_LINE:
                kept.append(number)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(wanted[:2000]):
        for number in places.get(line, ()):
            # A line that is everywhere says little about where.
            votes[max(0, number - offset)] += 60 // len(places[line]) + 1
    if not votes:
        return None
    start = max(votes, key=lambda one: (votes[one], -one))
    last = min(len(bare), start + max(1, len(wanted) - (not wanted[-1])))
    return start + 1, last


def _similar(bare: list[str], line: str) -> tuple[int, int] | None:
    """The one line that is most like `line`."""
    tokens = set(_TOKEN.findall(line))
    if not tokens:
        return None
    scored = (
        (len(tokens & set(_TOKEN.findall(one))), -abs(len(one) - len(line)), -number)
        for number, one in enumerate(bare[:_SCANNED])
        if one and len(one) < 10_000
    )
    best = sorted((one for one in scored if one[0]), reverse=True)[:20]
    rated = [
        (difflib.SequenceMatcher(None, line[:500], bare[-place][:500], autojunk=False).ratio(), place)
        for _, _, place in best
    ]
    if not rated or max(rated)[0] < 0.5:
        return None
    number = 1 - max(rated)[1]
    return number, number


def _cut(line: str) -> str:
    return line if len(line) <= _WIDE else line[:_WIDE] + "…"
