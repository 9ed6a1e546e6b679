"""Locating the text that an edit replaces, from exact to increasingly tolerant matching (T1).

Only line ends, trailing blanks, runs of blanks outside quotes, a uniform shift of the indentation, the number of empty
lines and typographic look-alikes may differ; never a letter, a digit or an operator. On every level, the match must be
unique.
"""

from __future__ import annotations

import difflib
import heapq
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

import msgspec

from tui_agent.tools import tolerant_text
from tui_agent.tools.base import ToolError
from tui_agent.tools.partial_edits import LineEnds
from tui_agent.tools.tolerant_text import LINE_END, View, compact_text, fold_text
from tui_agent.tools.wording import escape_surrogates

MAX_LISTED = 10
"""Maximum number of line numbers listed for an ambiguous match."""
_WORD = re.compile(r"\w")


class Replacement(msgspec.Struct, frozen=True):
    """A range of the source and its replacement."""

    start: int
    end: int
    text: str
    """The new text."""


class EditMatch(msgspec.Struct, frozen=True):
    """Where an edit applies."""

    replacements: tuple[Replacement, ...]
    level: str
    """`exactly`, or the difference that was ignored."""
    lines: tuple[int, ...]
    """Line numbers of the first matches, from 1."""


class _Level(NamedTuple):
    ignored: str
    normalized_parts: tuple[str, ...]
    shift: bool = False


_LEVELS = (
    _Level("different line ends", tolerant_text.LINE_ENDS),
    _Level("blanks at line ends", tolerant_text.TRAILING_BLANKS),
    _Level("different runs of blanks", tolerant_text.BLANK_RUNS),
    _Level("a different indentation", tolerant_text.TRAILING_BLANKS, True),
    _Level("a different indentation and runs of blanks", tolerant_text.BLANK_RUNS, True),
    _Level("look-alike characters", tolerant_text.LOOK_ALIKES),
    _Level("look-alike characters and a different indentation", tolerant_text.LOOK_ALIKES, True),
    _Level("look-alike characters and runs of blanks", tolerant_text.LOOK_ALIKES_AND_RUNS),
    _Level(
        "look-alike characters, runs of blanks and a different indentation", tolerant_text.LOOK_ALIKES_AND_RUNS, True
    ),
    _Level("a different number of empty lines", tolerant_text.BLANK_GAPS),
    _Level("a different number of empty lines and a different indentation", tolerant_text.BLANK_GAPS, True),
)


def locate(text: str, old: str, new: str, replace_all: bool = False) -> EditMatch:
    """Find `old` in `text` and return the replacements. Raises ToolError.

    Codes: `empty_old`, `no_change`, `not_unique` (with line numbers), `not_found` (with the closest region).
    """
    if not old:
        raise ToolError("old_string is empty. Give the text to replace, or use write_file for a new file.", "empty_old")
    if old == new:
        raise ToolError("old_string and new_string are the same: there is nothing to change.", "no_change")
    matcher = _Matcher(text, old, new, replace_all)
    match = matcher.match_exact() or matcher.match_tolerant()
    if match is None and not (matcher.only_line_ends and new in text):
        raise ToolError(explain_mismatch(text, old), "not_found")
    if match is None or all(text[item.start : item.end] == item.text for item in match.replacements):
        raise ToolError("The text already reads like new_string: there is nothing to change.", "no_change")
    return match


def line_at(text: str, position: int) -> int:
    """Return the number of the line that contains `position`, from 1."""
    return len(LINE_END.findall(text, 0, position)) + 1


class _Matcher:
    def __init__(self, text: str, old: str, new: str, replace_all: bool) -> None:
        self.text = text
        self.old = old
        self.new = new
        self.all = replace_all
        self.ends = LineEnds(text)
        # An edit that changes only line ends means them literally.
        self.only_line_ends = LINE_END.sub("\n", old) == LINE_END.sub("\n", new)

    # --- exact match ---

    def match_exact(self) -> EditMatch | None:
        spans = list(self._exact_spans())
        if self.all and self.ends.mixed and not self.only_line_ends and LINE_END.search(self.old):
            # replace_all also covers matches with the other kind of line end.
            return None
        return self._to_match(spans, "exactly", exact=True)

    def _exact_spans(self) -> Iterator[tuple[int, int]]:
        step = len(self.old) if self.all else 1
        for at in islice(_find_all(self.text, self.old, step), self._max_matches):
            splits_line_end = self.old[0] == "\n" and self.text[at - 1 : at] == "\r" and not self.only_line_ends
            yield at - splits_line_end, at + len(self.old)

    @property
    def _max_matches(self) -> int | None:
        return None if self.all else MAX_LISTED + 1

    # --- tolerant matches ---

    def match_tolerant(self) -> EditMatch | None:
        if self.only_line_ends:
            return None
        is_blank = not self.old.strip()
        region = (0, len(self.text)) if is_blank else candidate_region(self.text, self.old)
        if region is None:
            return None
        start, end = region
        views: dict[tuple[str, ...], tuple[View, View]] = {}
        for level in _LEVELS[:1] if is_blank else _LEVELS:
            parts = level.normalized_parts
            if parts not in views:
                views[parts] = View(self.text[start:end], parts), View(self.old, parts)
            view, old = views[parts]
            if level.shift:
                match = self._match_shifted(start, view, old, level.ignored)
            else:
                spans = self._spans(start, view, old.text, strict=parts is not tolerant_text.LINE_ENDS)
                match = self._to_match(list(islice(spans, self._max_matches)), level.ignored)
            if match is not None:
                return match
        return None

    def _spans(self, offset: int, view: View, old: str, *, strict: bool) -> Iterator[tuple[int, int]]:
        """Yield the source ranges of `old` in the view; the end of the file counts as the end of a line."""
        haystack = view.text
        if old.endswith("\n") and old.strip() and not haystack.endswith("\n"):
            haystack += "\n"
        to_line_end = strict and self.old[-1] in " \t" + tolerant_text.SPACES
        at = haystack.find(old)
        while at >= 0:
            end = at + len(old)
            span = view.span(at, min(end, len(view.text)))
            if span is not None and (not strict or self._has_valid_edges(haystack, at, end, to_line_end)):
                start, stop = offset + span[0], offset + span[1]
                yield start, self._skip_blanks(stop) if to_line_end else stop
                at = haystack.find(old, end if self.all else at + 1)
            else:
                at = haystack.find(old, at + 1)

    @staticmethod
    def _has_valid_edges(haystack: str, start: int, end: int, to_line_end: bool) -> bool:
        """Check that a tolerant match does not start or end inside a word, or before the end of a line that `old`
        covers."""
        if to_line_end and end < len(haystack) and haystack[end] != "\n":
            return False
        for before, after in ((start - 1, start), (end - 1, end)):
            if before >= 0 and after < len(haystack) and _WORD.match(haystack[before]) and _WORD.match(haystack[after]):
                return False
        return True

    def _skip_blanks(self, end: int) -> int:
        while self.text[end : end + 1] in (" ", "\t"):
            end += 1
        return end

    def _match_shifted(self, offset: int, view: View, old: View, ignored: str) -> EditMatch | None:
        replacements: list[Replacement] = []
        spans: list[tuple[int, int]] = []
        try:
            for start, end, new in find_shifted(view.text, old.text, self.new, self.all):
                if (span := view.span(start, min(end, len(view.text)))) is not None:
                    spans.append((offset + span[0], offset + span[1]))
                    replacements.append(self._to_span(spans[-1], new))
                if len(spans) == self._max_matches:
                    break
        except SearchLimitReached:
            raise ToolError(
                f"old_string fits in too many places (when overlooking {ignored}). Add lines around it.", "not_unique"
            ) from None
        return self._unique_match(spans, replacements, ignored)

    # --- results ---

    def _to_match(self, spans: list[tuple[int, int]], level: str, *, exact: bool = False) -> EditMatch | None:
        if exact and self.only_line_ends:
            replacements = [Replacement(start, end, self.new) for start, end in spans]
        else:
            replacements = [self._to_span(span, self.new, exact=exact) for span in spans]
        return self._unique_match(spans, replacements, level)

    def _to_span(self, span: tuple[int, int], new: str, *, exact: bool = False) -> Replacement:
        start, end = span
        if not exact and end == len(self.text) and self.old[-1] in "\r\n" and self.text[end - 1] not in "\r\n":
            # Keep the file's last line without a line end.
            new = re.sub(r"(?:\r\n|\n|\r)\Z", "", new)
        return Replacement(start, end, self.ends.fit(self.old, new, start, end, exact=exact))

    def _unique_match(
        self, spans: list[tuple[int, int]], replacements: list[Replacement], level: str
    ) -> EditMatch | None:
        if not spans:
            return None
        lines = tuple(line_at(self.text, start) for start, _ in spans[: MAX_LISTED + 1])
        if len(spans) > 1 and not self.all:
            listed = ", ".join(map(str, dict.fromkeys(lines[:MAX_LISTED])))
            more = " and more" if len(lines) > MAX_LISTED else ""
            condition = "" if level == "exactly" else f" (when overlooking {level})"
            raise ToolError(
                f"old_string is found more than once{condition}: at lines {listed}{more}. Add lines around it until it "
                "is unique, or set replace_all.",
                "not_unique",
            )
        return EditMatch(tuple(replacements), level, lines)


_MAX_QUOTED = 8
"""Quoted lines of the closest region."""
_MAX_WIDTH = 200
"""Characters of a quoted line."""
_MAX_OCCURRENCES = 50
"""Occurrences of a line that are considered."""
_NUMBERED_LINE = re.compile(r"[ \t]*(?:→ ?)?\d+[\t:│|→]")
_MAX_SCANNED = 200_000
"""Lines that are searched for a similar one."""


def explain_mismatch(text: str, old: str) -> str:
    """Explain to the model why `old` was not found in `text`."""
    wanted = [_normalize(line) for line in LINE_END.split(old)]
    lines = LINE_END.split(text)
    normalized = [_normalize(line) for line in lines]
    file_lines = set(normalized)
    missing = next(
        (line for line in wanted if line and line not in file_lines and not _is_part_of_line(line, normalized)), None
    )
    parts = ["old_string was not found."]
    if missing is not None:
        parts.append(f"This line of it is nowhere in the file: {_shorten(missing)}")
    elif "\n".join(wanted).strip("\n") in "\n".join(normalized):
        parts.append("Only blanks differ, in the indentation or between quotes: copy them from the file.")
    else:
        parts.append("Its lines are in the file, but not together in this order and indentation.")
    region = _closest_region(normalized, wanted) or _most_similar_line(
        normalized, missing or next((line for line in wanted if line), "")
    )
    if region is not None:
        first, last = region
        quoted = [
            f"{number}\t{_shorten(lines[number - 1])}"
            for number in range(first, min(last, first + _MAX_QUOTED - 1) + 1)
        ]
        where = f"line {first}" if first == last else f"lines {first}-{last}"
        parts.append(f"The closest is at {where}:\n" + "\n".join(quoted))
        if last - first >= _MAX_QUOTED:
            parts.append("…")
    else:
        parts.append("Nothing in the file is like it.")
    return escape_surrogates("\n".join([*parts, *_likely_mistakes(text, old)]))


def _likely_mistakes(text: str, old: str) -> list[str]:
    """Detect common mistakes of models."""
    lines = [line for line in LINE_END.split(old) if line.strip()]
    if lines and all(_NUMBERED_LINE.match(line) for line in lines):
        return ["old_string seems to hold line numbers; they are not part of the file."]
    if "\\n" in old and compact_text(old.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t")) in compact_text(
        text
    ):
        return ["old_string seems to be escaped twice: write line breaks and quotes as they are."]
    return []


def _normalize(line: str) -> str:
    return " ".join(fold_text(line).split())


def _is_part_of_line(line: str, normalized: list[str]) -> bool:
    """True if `line` is part of a line of the file, as the first and last line of an edit may be."""
    return any(line in candidate for candidate in normalized[:_MAX_SCANNED])


def _closest_region(normalized: list[str], wanted: list[str]) -> tuple[int, int] | None:
    """Return the line range that contains most of the wanted lines in the right order, from 1."""
    occurrences: dict[str, list[int]] = {}
    for number, line in enumerate(normalized):
        if line:
            numbers = occurrences.setdefault(line, [])
            if len(numbers) < _MAX_OCCURRENCES:
                numbers.append(number)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(wanted[:2000]):
        for number in occurrences.get(line, ()):
            # Frequent lines say little about the location.
            votes[max(0, number - offset)] += 60 // len(occurrences[line]) + 1
    if not votes:
        return None
    start = max(votes, key=lambda number: (votes[number], -number))
    last = min(len(normalized), start + max(1, len(wanted) - (not wanted[-1])))
    return start + 1, last


def _most_similar_line(normalized: list[str], line: str) -> tuple[int, int] | None:
    """Return the single line most similar to `line`, as a range."""
    tokens = set(re.findall(r"\w+", line))
    if not tokens:
        return None
    scored = (
        (len(tokens & set(re.findall(r"\w+", candidate))), -abs(len(candidate) - len(line)), -number)
        for number, candidate in enumerate(normalized[:_MAX_SCANNED])
        if candidate and len(candidate) < 10_000
    )
    best = heapq.nlargest(20, (score for score in scored if score[0]))
    ratios = [
        (difflib.SequenceMatcher(None, line[:500], normalized[-index][:500], autojunk=False).ratio(), index)
        for _, _, index in best
    ]
    if not ratios or max(ratios)[0] < 0.5:
        return None
    number = 1 - max(ratios)[1]
    return number, number


def _shorten(line: str) -> str:
    return line if len(line) <= _MAX_WIDTH else line[:_MAX_WIDTH] + "…"


_MAX_COMPARED = 1_000_000
"""Compared lines after which the search gives up, which bounds its time."""


class SearchLimitReached(Exception):
    """There are too many candidates."""


def find_shifted(text: str, old: str, new: str, every: bool) -> Iterator[tuple[int, int, str]]:
    """Yield the matches of the whole lines of `old` under one uniform shift of the indentation.

    Yields start and end in `text`, and `new` indented for that place; matches do not overlap if `every` is set. Line
    ends must be `\\n`, and lines must have no trailing blanks. Raises SearchLimitReached.
    """
    old_lines = old.split("\n")
    has_final_newline = old_lines[-1] == "" and len(old_lines) > 1
    if has_final_newline:
        old_lines.pop()
    size = len(old_lines)
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    indents = [_indent(line) for line in lines]
    shifts = _ShiftCache(old_lines, new)
    compared, next_free = 0, 0
    for first in _candidates(lines, indents, old_lines):
        if every and first < next_free:
            continue
        compared += size
        if compared > _MAX_COMPARED:
            raise SearchLimitReached
        shift = shifts.at(indents[first : first + size])
        reindented = shift.apply(new) if shift is not None else None
        if reindented is not None:
            next_free = first + size
            yield starts[first], starts[next_free] - (0 if has_final_newline else 1), reindented


def _candidates(lines: list[str], indents: list[str], old_lines: list[str]) -> Iterator[int]:
    """Yield the lines where the lines agree apart from indentation."""
    normalized = [line[len(indent) :] for line, indent in zip(lines, indents, strict=True)]
    haystack = "\n" + "\n".join(normalized) + "\n"
    needle = "\n" + "\n".join(line.lstrip(" \t") for line in old_lines) + "\n"
    # A line number follows from the preceding line end.
    borders = list(accumulate((len(line) + 1 for line in normalized), initial=0))
    for at in _find_all(haystack, needle):
        yield bisect_left(borders, at)


def _find_all(text: str, needle: str, step: int = 1) -> Iterator[int]:
    at = text.find(needle)
    while at >= 0:
        yield at
        at = text.find(needle, at + step)


class _ShiftCache:
    """The possible shifts of one `old`, cached."""

    def __init__(self, old_lines: list[str], new: str) -> None:
        self._indexes = [index for index, line in enumerate(old_lines) if line.strip()]
        self._old = [_indent(old_lines[index]) for index in self._indexes]
        self._widths = {len(_indent(line)) for line in [*old_lines, *new.split("\n")] if line.strip()}
        self._cache: dict[tuple[tuple[str, str], ...], _Shift | None] = {}

    def at(self, indents: list[str]) -> _Shift | None:
        """Return the shift that maps the lines to these indentations of the file, or None."""
        mapping: dict[str, str] = {}
        for old, index in zip(self._old, self._indexes, strict=True):
            indent = indents[index]
            if mapping.setdefault(old, indent) != indent:
                return None
        key = tuple(mapping.items())
        if key not in self._cache:
            self._cache[key] = _Shift.between(mapping, self._widths)
        return self._cache[key]


class _Shift(NamedTuple):
    """Maps indentation of the model's text to indentation of the file."""

    mapping: dict[str, str]
    unit: int
    offset: int
    tabs: bool

    @classmethod
    def between(cls, mapping: dict[str, str], widths: set[int]) -> _Shift | None:
        """Return the shift by a constant width from each old indentation to the file's, or None."""
        tabs = any("\t" in indent for indent in mapping.values())
        own_tabs = any("\t" in indent for indent in mapping)
        if tabs and not own_tabs:
            step = math.gcd(*widths)
        else:
            step = math.gcd(*(len(indent) for indent in mapping.values() if "\t" not in indent))
        units = [step] if 2 <= step <= 8 else []
        for unit in dict.fromkeys([*units, 4, 2, 8, 3]):
            shifts = {_width(new, unit) - _width(old, unit) for old, new in mapping.items()}
            if len(shifts) == 1:
                return cls(mapping, unit, shifts.pop(), tabs or (own_tabs and not any(mapping.values())))
        return None

    def apply(self, new: str) -> str | None:
        """Return `new` reindented, or None if a line would need a negative indentation."""
        lines: list[str] = []
        for line in new.split("\n"):
            indent = _indent(line)
            if not line.strip():
                lines.append(line if indent not in self.mapping else "" if not indent else self.mapping[indent])
                continue
            new_indent = self.mapping.get(indent)
            if new_indent is None:
                width = _width(indent, self.unit) + self.offset
                if width < 0:
                    return None
                tabs, spaces = divmod(width, self.unit) if self.tabs else (0, width)
                new_indent = "\t" * tabs + " " * spaces
            lines.append(new_indent + line[len(indent) :])
        return "\n".join(lines)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _width(indent: str, unit: int) -> int:
    width = 0
    for character in indent:
        width = width + 1 if character == " " else (width // unit + 1) * unit
    return width


def candidate_region(text: str, old: str) -> tuple[int, int] | None:
    """Return the range of whole lines in which all matches lie, whatever differences are tolerated.

    It includes surrounding empty lines and one more line on each side.
    """
    starts = [0, *(match.end() for match in LINE_END.finditer(text))]
    if starts[-1] < len(text):
        starts.append(len(text))
    compacted = [compact_text(text[start:end]) for start, end in pairwise(starts)]
    haystack, needle = "".join(compacted), compact_text(old)
    first, last = haystack.find(needle), haystack.rfind(needle)
    if first < 0 or not needle:
        return (0, len(text)) if not needle else None
    borders = list(accumulate(map(len, compacted), initial=0))
    first_line = _extend(compacted, bisect_right(borders, first) - 1, -1)
    last_line = _extend(compacted, bisect_left(borders, last + len(needle)) - 1, 1)
    return starts[first_line], starts[last_line + 1]


def _extend(compacted: list[str], line: int, step: int) -> int:
    """Return the first non-empty line beyond `line`, within the text."""
    line += step
    while 0 <= line < len(compacted) and not compacted[line]:
        line += step
    return max(0, min(line, len(compacted) - 1))
