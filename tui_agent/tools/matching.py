"""Finding the one place that an edit means, on a ladder from exact to tolerant (T1).

Only line ends, blanks at line ends, runs of blanks outside quotes, a uniform shift of the indentation and typographic
look-alikes may differ, never a letter, a digit, an operator or a line. Whatever the rung, exactly one place must be
meant.
"""

from __future__ import annotations

import difflib
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from tui_agent.tools import tolerant_text
from tui_agent.tools.base import ToolError
from tui_agent.tools.partial_edits import LineEnds
from tui_agent.tools.tolerant_text import LINE_END, View, compact_text, fold_text
from tui_agent.tools.wording import writable

LISTED = 10
"""How many line numbers of an ambiguous match are named."""
_WORD = re.compile(r"\w")


class MatchSpan(msgspec.Struct, frozen=True):
    """A stretch of the source and what takes its place."""

    start: int
    end: int
    replacement: str


class MatchedPlace(msgspec.Struct, frozen=True):
    """Where an edit goes."""

    places: tuple[MatchSpan, ...]
    rung: str
    """How it was found: `exactly`, or what had to be overlooked."""
    lines: tuple[int, ...]
    """Line numbers of the first places, counted from 1."""


class _Rung(msgspec.Struct, frozen=True):
    overlooks: str
    view: Callable[[str], View]
    shift: bool = False


_LADDER = (
    _Rung("different line ends", tolerant_text.line_ends),
    _Rung("blanks at line ends", tolerant_text.trailing),
    _Rung("different runs of blanks", tolerant_text.blank_runs),
    _Rung("a different indentation", tolerant_text.trailing, True),
    _Rung("a different indentation and runs of blanks", tolerant_text.blank_runs, True),
    _Rung("look-alike characters", tolerant_text.look_alikes),
    _Rung("look-alike characters and a different indentation", tolerant_text.look_alikes, True),
    _Rung("look-alike characters and runs of blanks", tolerant_text.everything),
    _Rung("look-alike characters, runs of blanks and a different indentation", tolerant_text.everything, True),
    _Rung("a different number of empty lines", tolerant_text.blank_gaps),
    _Rung("a different number of empty lines and a different indentation", tolerant_text.blank_gaps, True),
)


def locate(text: str, old: str, new: str, replace_all: bool = False) -> MatchedPlace:
    """Where `old` stands in `text` and what goes there. Raises ToolError.

    Codes: `empty_old`, `no_change`, `not_unique` (with line numbers), `not_found` (with the closest region).
    """
    if not old:
        raise ToolError("old_string is empty. Give the text to replace, or use write_file for a new file.", "empty_old")
    if old == new:
        raise ToolError("old_string and new_string are the same: there is nothing to change.", "no_change")
    search = _Search(text, old, new, replace_all)
    found = search.exact() or search.tolerant()
    if found is None and not (search.ends_only and new in text):
        raise ToolError(near_miss(text, old), "not_found")
    if found is None or all(text[place.start : place.end] == place.replacement for place in found.places):
        raise ToolError("The text already reads like new_string: there is nothing to change.", "no_change")
    return found


def line_at(text: str, position: int) -> int:
    """The number of the line that `position` is in, counted from 1."""
    return len(LINE_END.findall(text, 0, position)) + 1


class _Search:
    def __init__(self, text: str, old: str, new: str, replace_all: bool) -> None:
        self.text = text
        self.old = old
        self.new = new
        self.all = replace_all
        self.ends = LineEnds(text)
        # Whoever changes nothing but line ends means them literally.
        self.ends_only = tolerant_text.line_ends(old).text == tolerant_text.line_ends(new).text

    # --- the first rung ---

    def exact(self) -> MatchedPlace | None:
        spans = list(self._exact_spans())
        if self.all and self.ends.mixed and not self.ends_only and LINE_END.search(self.old):
            # Every occurrence means also those with the other kind of line end.
            return None
        return self._located(spans, "exactly", exact=True)

    def _exact_spans(self) -> Iterator[tuple[int, int]]:
        step = len(self.old) if self.all else 1
        at = self.text.find(self.old)
        found = 0
        while at >= 0 and (self.all or found <= LISTED):
            found += 1
            start = at
            if self.old[0] == "\n" and at and self.text[at - 1] == "\r" and not self.ends_only:
                start -= 1  # never half a line end
            yield start, at + len(self.old)
            at = self.text.find(self.old, at + step)

    # --- the others ---

    def tolerant(self) -> MatchedPlace | None:
        if self.ends_only:
            return None
        blank = not self.old.strip()
        parts = [(0, len(self.text))] if blank else windows(self.text, self.old)
        seen: dict[Callable[[str], View], tuple[list[tuple[int, View]], View]] = {}
        for rung in _LADDER[:1] if blank else _LADDER:
            if not parts:
                return None
            if rung.view not in seen:
                here = [(start, rung.view(self.text[start:end])) for start, end in parts]
                seen[rung.view] = here, rung.view(self.old)
            here, old = seen[rung.view]
            if rung.shift:
                found = self._shifted(here, old, rung.overlooks)
            else:
                strict = rung.view is not tolerant_text.line_ends
                spans = [span for start, view in here for span in self._spans(start, view, old.text, strict=strict)]
                found = self._located(spans, rung.overlooks)
            if found is not None:
                return found
        return None

    def _spans(self, offset: int, view: View, old: str, *, strict: bool) -> Iterator[tuple[int, int]]:
        """Source spans of `old` in the view; the end of the file counts as the end of a line."""
        haystack = view.text
        if old.endswith("\n") and old.strip() and not haystack.endswith("\n"):
            haystack += "\n"
        cut_end = strict and self.old[-1] in " \t" + tolerant_text.SPACES
        at, found = haystack.find(old), 0
        while at >= 0 and (self.all or found <= LISTED):
            end = at + len(old)
            span = view.span(at, min(end, len(view.text)))
            if span is not None and (not strict or self._fits(haystack, at, end, cut_end)):
                start, stop = offset + span[0], offset + span[1]
                found += 1
                yield start, self._blanks_after(stop) if cut_end else stop
                at = haystack.find(old, end if self.all else at + 1)
            else:
                at = haystack.find(old, at + 1)

    @staticmethod
    def _fits(haystack: str, start: int, end: int, cut_end: bool) -> bool:
        """A tolerant match never begins or ends inside a word, nor in a line whose end `old` claims to reach."""
        if cut_end and end < len(haystack) and haystack[end] != "\n":
            return False
        for before, after in ((start - 1, start), (end - 1, end)):
            if before >= 0 and after < len(haystack) and _WORD.match(haystack[before]) and _WORD.match(haystack[after]):
                return False
        return True

    def _blanks_after(self, end: int) -> int:
        blanks = re.compile(r"[ \t]*").match(self.text, end)
        return blanks.end() if blanks else end

    def _shifted(self, here: list[tuple[int, View]], old: View, overlooks: str) -> MatchedPlace | None:
        places: list[MatchSpan] = []
        spans: list[tuple[int, int]] = []
        try:
            for offset, view in here:
                for start, end, new in find_shifted(view.text, old.text, self.new, self.all):
                    if (span := view.span(start, min(end, len(view.text)))) is not None:
                        spans.append((offset + span[0], offset + span[1]))
                        places.append(self._place(spans[-1], new))
                    if not self.all and len(spans) > LISTED:
                        break
        except SearchLimitReached:
            raise ToolError(
                f"old_string fits in too many places (when overlooking {overlooks}). Add lines around it.", "not_unique"
            ) from None
        return self._settle(spans, places, overlooks)

    # --- the outcome ---

    def _located(self, spans: list[tuple[int, int]], rung: str, *, exact: bool = False) -> MatchedPlace | None:
        if exact and self.ends_only:
            places = [MatchSpan(start, end, self.new) for start, end in spans]
        else:
            places = [self._place(span, self.new, exact=exact) for span in spans]
        return self._settle(spans, places, rung)

    def _place(self, span: tuple[int, int], new: str, *, exact: bool = False) -> MatchSpan:
        start, end = span
        if not exact and end == len(self.text) and self.old[-1] in "\r\n" and self.text[end - 1] not in "\r\n":
            # The file's last line has no end, and keeps none.
            new = re.sub(r"(?:\r\n|\n|\r)\Z", "", new)
        return MatchSpan(start, end, self.ends.fit(self.old, new, start, end, exact=exact))

    def _settle(self, spans: list[tuple[int, int]], places: list[MatchSpan], rung: str) -> MatchedPlace | None:
        if not spans:
            return None
        lines = tuple(line_at(self.text, start) for start, _ in spans[: LISTED + 1])
        if len(spans) > 1 and not self.all:
            listed = ", ".join(map(str, dict.fromkeys(lines[:LISTED])))
            more = " and more" if len(lines) > LISTED else ""
            how = "" if rung == "exactly" else f" (when overlooking {rung})"
            raise ToolError(
                f"old_string is found more than once{how}: at lines {listed}{more}. Add lines around it until it is "
                "unique, or set replace_all.",
                "not_unique",
            )
        return MatchedPlace(tuple(places), rung, lines)


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
        quoted = [f"{number}\t{_cut(lines[number - 1])}" for number in range(first, min(last, first + _SHOWN - 1) + 1)]
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
    if "\\n" in old and compact_text(old.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t")) in compact_text(
        text
    ):
        return ["old_string seems to be escaped twice: write line breaks and quotes as they are."]
    return []


def _bare(line: str) -> str:
    return " ".join(fold_text(line).split())


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


_INDENT = re.compile(r"[ \t]*")
_WORK = 1_000_000
"""Lines that are compared before the search gives up, so that no text can make it take seconds."""


class SearchLimitReached(Exception):
    """There are so many candidates that the search was given up."""


def find_shifted(text: str, old: str, new: str, every: bool) -> Iterator[tuple[int, int, str]]:
    """Places in `text` where the whole lines of `old` stand under one shift of the indentation.

    Yields start and end in `text` and `new` with the indentation of that place; with `every` places that do not
    overlap. Line ends must be `\\n` and lines without blanks at their ends. Raises TooMuch.
    """
    old_lines = old.split("\n")
    closed = old_lines[-1] == "" and len(old_lines) > 1
    if closed:
        old_lines.pop()
    size = len(old_lines)
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    indents = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    shift_of = _Shifts(old_lines, new)
    work, free = 0, 0
    for first in _candidates(lines, indents, old_lines):
        if every and first < free:
            continue
        work += size
        if work > _WORK:
            raise SearchLimitReached
        shift = shift_of.at(indents[first : first + size])
        fitted = shift.apply(new) if shift is not None else None
        if fitted is not None:
            free = first + size
            yield starts[first], starts[free] - (0 if closed else 1), fitted


def _candidates(lines: list[str], indents: list[str], old_lines: list[str]) -> Iterator[int]:
    """Where the lines agree when their indentation is not looked at."""
    bare = [line[len(indent) :] for line, indent in zip(lines, indents, strict=True)]
    haystack = "\n" + "\n".join(bare) + "\n"
    needle = "\n" + "\n".join(line.lstrip(" \t") for line in old_lines) + "\n"
    # A line's number from the place of the line end before it.
    borders = list(accumulate((len(line) + 1 for line in bare), initial=0))
    at = haystack.find(needle)
    while at >= 0:
        yield bisect_left(borders, at)
        at = haystack.find(needle, at + 1)


class _Shifts:
    """The shifts of one `old`, each worked out once."""

    def __init__(self, old_lines: list[str], new: str) -> None:
        self._counted = [index for index, line in enumerate(old_lines) if line.strip()]
        self._old = [_indent(old_lines[index]) for index in self._counted]
        self._widths = {len(_indent(line)) for line in [*old_lines, *new.split("\n")] if line.strip()}
        self._made: dict[tuple[tuple[str, str], ...], _Shift | None] = {}

    def at(self, indents: list[str]) -> _Shift | None:
        """The one shift that makes all lines agree with these indentations of the file; None if there is none."""
        known: dict[str, str] = {}
        for old, index in zip(self._old, self._counted, strict=True):
            here = indents[index]
            if known.setdefault(old, here) != here:
                return None
        key = tuple(known.items())
        if key not in self._made:
            self._made[key] = _Shift.between(known, self._widths)
        return self._made[key]


class _Shift(NamedTuple):
    """How indentation of the model's text becomes indentation of the file."""

    known: dict[str, str]
    unit: int
    by: int
    tabs: bool

    @classmethod
    def between(cls, known: dict[str, str], widths: set[int]) -> _Shift | None:
        """The shift by one and the same width that leads from each old indentation to the file's, if there is one."""
        tabs = any("\t" in one for one in known.values())
        own_tabs = any("\t" in one for one in known)
        if tabs and not own_tabs:
            step = math.gcd(*widths)
        else:
            step = math.gcd(*(len(one) for one in known.values() if "\t" not in one))
        units = [step] if 2 <= step <= 8 else []
        for unit in dict.fromkeys([*units, 4, 2, 8, 3]):
            shifts = {_width(here, unit) - _width(old, unit) for old, here in known.items()}
            if len(shifts) == 1:
                return cls(known, unit, shifts.pop(), tabs or (own_tabs and not any(known.values())))
        return None

    def apply(self, new: str) -> str | None:
        """`new` moved; None when a line would have to begin left of the margin."""
        lines: list[str] = []
        for line in new.split("\n"):
            indent = _indent(line)
            if not line.strip():
                lines.append(line if indent not in self.known else "" if not indent else self.known[indent])
                continue
            here = self.known.get(indent)
            if here is None:
                width = _width(indent, self.unit) + self.by
                if width < 0:
                    return None
                tabs, rest = divmod(width, self.unit) if self.tabs else (0, width)
                here = "\t" * tabs + " " * rest
            lines.append(here + line[len(indent) :])
        return "\n".join(lines)


def _indent(line: str) -> str:
    found = _INDENT.match(line)
    return found[0] if found else ""


def _width(indent: str, unit: int) -> int:
    width = 0
    for one in indent:
        width = width + 1 if one == " " else (width // unit + 1) * unit
    return width


_MANY = 5_000
"""Candidates above which the whole text is looked at."""


def windows(text: str, old: str) -> list[tuple[int, int]]:
    """Stretches of whole lines that hold all that is left of `old` without what may differ, in order, disjoint.

    Empty lines around a stretch and one line more on each side belong to it.
    """
    starts = [0, *(found.end() for found in LINE_END.finditer(text))]
    if starts[-1] < len(text):
        starts.append(len(text))
    cores = [compact_text(text[start:end]) for start, end in pairwise(starts)]
    needle = compact_text(old)
    if not needle:
        return [(0, len(text))]
    haystack = "".join(cores)
    borders = list(accumulate(map(len, cores), initial=0))
    found: list[tuple[int, int]] = []
    at = haystack.find(needle)
    count = 0
    while at >= 0:
        count += 1
        if count > _MANY:
            return [(0, len(text))]
        first = _outwards(cores, bisect_right(borders, at) - 1, -1)
        last = _outwards(cores, bisect_left(borders, at + len(needle)) - 1, 1)
        if found and first <= found[-1][1]:
            first = found.pop()[0]
        found.append((first, last))
        at = haystack.find(needle, at + 1)
    return [(starts[first], starts[last + 1]) for first, last in found]


def _outwards(cores: list[str], line: int, step: int) -> int:
    """One line further than the empty ones next to `line`, within the text."""
    line += step
    while 0 <= line < len(cores) and not cores[line]:
        line += step
    return max(0, min(line, len(cores) - 1))
