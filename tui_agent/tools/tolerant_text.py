"""Views of a text that normalize blanks, line ends and look-alikes, with positions mapped back to the source."""

from __future__ import annotations

import functools
import re
import unicodedata
from bisect import bisect_right

LINE_END = re.compile(r"\r\n|\n|\r")

# Characters treated as equal. Never a letter, a digit or an operator of a programming language.
_ALIKE = {
    "'": "\u2018\u2019\u201a\u201b\u02bc\u2032",
    '"': "\u201c\u201d\u201e\u201f\u2033\u02ba",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d",
    " ": "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "...": "\u2026",
    "": "\u00ad\u200b\u2060\ufeff",
}
_FOLD = {ord(character): normalized for normalized, characters in _ALIKE.items() for character in characters}
SPACES = _ALIKE[" "]

_ASCII = " \\t"
_ANY = _ASCII + SPACES
_END = r"(?P<end>\r\n?)"
_TAIL = r"(?P<tail>(?<![{0}])[{0}]++(?=[\r\n]|\Z))"
_RUN = r"(?P<run>(?<=[^\s{0}])[{0}]++(?=[^\s{0}]))"
_GAP = r"(?P<gap>(?<![{0}])(?:[{0}]*+(?:\r\n?|\n)){{3,}})"
_CHANGED_BY_FOLD = (
    rf"(?P<fold>[^\n\r][@MARKS@]++|[{''.join(map(chr, _FOLD))}]"
    "|[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?|[\uac00-\ud7a3][\u11a8-\u11c2])"
)
"""Look-alikes, and characters that compose with what follows them."""

LINE_ENDS = (_END,)
TRAILING_BLANKS = (*LINE_ENDS, _TAIL.format(_ASCII))
BLANK_RUNS = (*TRAILING_BLANKS, _RUN.format(_ASCII))
LOOK_ALIKES = (_END, _TAIL.format(_ANY), _CHANGED_BY_FOLD)
LOOK_ALIKES_AND_RUNS = (_END, _TAIL.format(_ANY), _RUN.format(_ANY), _CHANGED_BY_FOLD)
BLANK_GAPS = (_GAP.format(_ANY), *LOOK_ALIKES_AND_RUNS)
"""Several empty lines, and all of the above. Blanks in quotes always stay as they are."""

_DOUBLE = '"' + _ALIKE['"']
_SINGLE = "'" + _ALIKE["'"]
_QUOTED = re.compile(
    rf"[{_DOUBLE}](?:[^{_DOUBLE}\\\r\n]|\\[^\r\n])*+(?P<double>[{_DOUBLE}])?"
    rf"|(?<!\w)[bfruBFRU]{{0,2}}[{_SINGLE}](?:[^{_SINGLE}\\\r\n]|\\[^\r\n]){{0,200}}+(?P<single>[{_SINGLE}])(?!\w)"
)
"""Quoted text on one line, in which blanks are significant."""
_NORMALIZED = {"end": "\n", "tail": "", "run": " ", "gap": "\n\n"}


class View:
    """A text in which some parts are normalized; `span` maps positions in it back to the source."""

    def __init__(self, source: str, normalized_parts: tuple[str, ...]) -> None:
        pieces: list[str] = []
        starts = [0]  # where a stretch begins in the view …
        sources = [0]  # … and in the source
        replaced = [False]  # True for a replaced piece, which matches as a whole or not at all
        view_position = at = 0
        collapses_runs = any("(?P<run>" in part for part in normalized_parts)
        quotes = [match.span() for match in _QUOTED.finditer(source) if match.lastgroup] if collapses_runs else []
        for match in _compile(normalized_parts).finditer(source):
            kind, start = str(match.lastgroup), match.start()
            begin, end = quotes[bisect_right(quotes, (start,)) - 1] if quotes else (0, 0)
            is_quoted = kind == "run" and begin < start < end
            normalized = fold_text(match[0]) if is_quoted else _NORMALIZED.get(kind, fold_text(match[0]))
            if normalized == match[0]:
                continue
            pieces.append(source[at : match.start()])
            view_position += match.start() - at
            at = match.end()
            if normalized:
                pieces.append(normalized)
                starts.append(view_position)
                sources.append(match.start())
                replaced.append(True)
                view_position += len(normalized)
            starts.append(view_position)
            sources.append(at)
            replaced.append(False)
        pieces.append(source[at:])
        self.source = source
        self.text = "".join(pieces)
        self._starts, self._sources, self._replaced = starts, sources, replaced

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """Map `start:end` to the source; None if a border cuts a replaced piece."""
        first = self._range_at(start)
        if self._replaced[first]:
            if start != self._starts[first]:
                return None
            source_start = self._sources[first]
        else:
            source_start = self._sources[first] + start - self._starts[first]
        if end <= start:
            return source_start, source_start
        last = self._range_at(end - 1)
        if self._replaced[last]:
            if last + 1 < len(self._starts) and end != self._starts[last + 1]:
                return None
            return source_start, self._sources[last + 1]
        return source_start, self._sources[last] + end - self._starts[last]

    def _range_at(self, position: int) -> int:
        # A range is empty where text was removed: of ranges with the same start the last one counts.
        return bisect_right(self._starts, position) - 1


def fold_text(text: str) -> str:
    """Replace look-alikes by plain characters and compose accents."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text).translate(_FOLD)


def compact_text(text: str) -> str:
    """Remove everything a view may normalize: texts that match in any view are equal in this form."""
    return "".join(fold_text(text).split())


@functools.cache
def _compile(parts: tuple[str, ...]) -> re.Pattern[str]:
    pattern = "|".join(parts)
    if "@MARKS@" in pattern:
        marks = "".join(chr(code) for code in range(0x300, 0xFFFF) if unicodedata.combining(chr(code)))
        pattern = pattern.replace("@MARKS@", marks)
    return re.compile(pattern)
