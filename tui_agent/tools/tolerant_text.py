"""A text as tolerant eyes see it: blanks, line ends and look-alikes evened out, each place traceable to the source."""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from bisect import bisect_right

LINE_END = re.compile(r"\r\n|\n|\r")

# Which characters may stand for each other. Never a letter, a digit or an operator of a programming language.
_ALIKE = {
    "'": "\u2018\u2019\u201a\u201b\u02bc\u2032",
    '"': "\u201c\u201d\u201e\u201f\u2033\u02ba",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d",
    " ": "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "...": "\u2026",
    "": "\u00ad\u200b\u2060\ufeff",
}
_FOLD = {ord(character): plain for plain, characters in _ALIKE.items() for character in characters}
SPACES = _ALIKE[" "]

_END = r"(?P<end>\r\n?)"
_TAIL = r"(?P<tail>(?<![{0}])[{0}]++(?=[\r\n]|\Z))"
_RUN = r"(?P<run>(?<=[^\s{0}])[{0}]++(?=[^\s{0}]))"
_GAP = r"(?P<gap>(?<![{0}])(?:[{0}]*+(?:\r\n?|\n)){{3,}})"
_ASCII = " \\t"
_ANY = _ASCII + SPACES
_DOUBLE = '"' + _ALIKE['"']
_SINGLE = "'" + _ALIKE["'"]
_QUOTED = re.compile(
    rf"[{_DOUBLE}](?:[^{_DOUBLE}\\\r\n]|\\[^\r\n])*+(?P<double>[{_DOUBLE}])?"
    rf"|(?<!\w)[bfruBFRU]{{0,2}}[{_SINGLE}](?:[^{_SINGLE}\\\r\n]|\\[^\r\n]){{0,200}}+(?P<single>[{_SINGLE}])(?!\w)"
)
"""Text between quotes on one line, where a blank is content and not layout."""


class View:
    """`text` is the source with some pieces evened out; `span` leads from a place in it back to the source."""

    def __init__(self, source: str, pattern: re.Pattern[str]) -> None:
        pieces: list[str] = []
        starts = [0]  # where a stretch begins in the view …
        sources = [0]  # … and in the source
        whole = [False]  # True for a replaced piece, which matches as a whole or not at all
        view_at = at = 0
        quoted = _Quoted(source)
        for found in pattern.finditer(source):
            own = found.lastgroup == "run" and quoted.holds(found.start())
            plain = fold_text(found[0]) if own else _plain(found)
            if plain == found[0]:
                continue
            pieces.append(source[at : found.start()])
            view_at += found.start() - at
            at = found.end()
            if plain:
                pieces.append(plain)
                starts.append(view_at)
                sources.append(found.start())
                whole.append(True)
                view_at += len(plain)
            starts.append(view_at)
            sources.append(at)
            whole.append(False)
        pieces.append(source[at:])
        self.source = source
        self.text = "".join(pieces)
        self._starts, self._sources, self._whole = starts, sources, whole

    def span(self, start: int, end: int) -> tuple[int, int] | None:
        """Where the view's `start:end` lies in the source; None when a border cuts an evened-out piece."""
        first = self._stretch(start)
        if self._whole[first]:
            if start != self._starts[first]:
                return None
            source_start = self._sources[first]
        else:
            source_start = self._sources[first] + start - self._starts[first]
        if end <= start:
            return source_start, source_start
        last = self._stretch(end - 1)
        if self._whole[last]:
            if last + 1 < len(self._starts) and end != self._starts[last + 1]:
                return None
            return source_start, self._sources[last + 1]
        return source_start, self._sources[last] + end - self._starts[last]

    def _stretch(self, position: int) -> int:
        # A stretch may be empty where something was taken out: of those that share a start the last counts.
        return bisect_right(self._starts, position) - 1


class _Quoted:
    """Tells what lies between quotes; asked from front to back."""

    def __init__(self, source: str) -> None:
        self._spans = (found for found in _QUOTED.finditer(source) if found.lastgroup)
        self._start = self._end = -1

    def holds(self, place: int) -> bool:
        """Whether `place` lies between two quotes of its line."""
        while self._end <= place:
            found = next(self._spans, None)
            if found is None:
                self._start = self._end = sys.maxsize
                break
            self._start, self._end = found.span()
        return self._start < place


def _plain(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if kind == "end":
        return "\n"
    if kind == "tail":
        return ""
    if kind == "run":
        return " "
    if kind == "gap":
        return "\n\n"
    return fold_text(found[0])


def fold_text(text: str) -> str:
    """`text` with look-alikes in their plain form and accents composed."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text).translate(_FOLD)


def line_ends(source: str) -> View:
    """Every line end as `\\n`."""
    return View(source, re.compile(_END))


def trailing(source: str) -> View:
    """And no blanks at the end of lines."""
    return View(source, re.compile(f"{_END}|{_TAIL.format(_ASCII)}"))


def blank_runs(source: str) -> View:
    """And each run of blanks inside a line as one space, but for those between quotes."""
    return View(source, re.compile("|".join((_END, _TAIL.format(_ASCII), _RUN.format(_ASCII)))))


def look_alikes(source: str) -> View:
    """Line ends and ends of lines evened out, look-alikes in their plain form."""
    return View(source, re.compile("|".join((_END, _TAIL.format(_ANY), _unicode()))))


def everything(source: str) -> View:
    """All of that together."""
    return View(source, re.compile("|".join((_END, _TAIL.format(_ANY), _RUN.format(_ANY), _unicode()))))


def blank_gaps(source: str) -> View:
    """And two or more empty lines in a row as one."""
    parts = (_GAP.format(_ANY), _END, _TAIL.format(_ANY), _RUN.format(_ANY), _unicode())
    return View(source, re.compile("|".join(parts)))


def compact_text(text: str) -> str:
    """What is left when everything that a view may even out is gone: no match without the same here."""
    return "".join(fold_text(text).split())


@functools.cache
def _unicode() -> str:
    """What `fold` may change: a look-alike, or a character with the marks or parts that join it."""
    marks = _ranges([code for code in range(0x300, 0xFFFF) if unicodedata.combining(chr(code))])
    jamo = "[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?|[\uac00-\ud7a3][\u11a8-\u11c2]"
    alike = "[" + "".join(map(chr, _FOLD)) + "]"
    return f"(?P<alike>[^\\n\\r][{marks}]++|{jamo}|{alike})"


def _ranges(codes: list[int]) -> str:
    parts: list[list[int]] = []
    for code in codes:
        if parts and parts[-1][1] == code - 1:
            parts[-1][1] = code
        else:
            parts.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in parts)
