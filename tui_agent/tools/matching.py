"""Finding the one place that an edit means, on a ladder from exact to tolerant (R5.2, T1).

Only line ends, blanks at line ends, runs of blanks outside quotes, a uniform shift of the indentation and typographic
look-alikes may differ, never a letter, a digit, an operator or a line. Whatever the rung, exactly one place must be
meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from tui_agent.tools import views
from tui_agent.tools.base import ToolError
from tui_agent.tools.line_ends import LineEnds
from tui_agent.tools.matching_hints import near_miss
from tui_agent.tools.matching_indent import TooMuch, shifted
from tui_agent.tools.matching_windows import windows
from tui_agent.tools.views import LINE_END, View

LISTED = 10
"""How many line numbers of an ambiguous match are named."""
_WORD = re.compile(r"\w")


class Place(msgspec.Struct, frozen=True):
    """A stretch of the source and what takes its place."""

    start: int
    end: int
    replacement: str


class Located(msgspec.Struct, frozen=True):
    """Where an edit goes."""

    places: tuple[Place, ...]
    rung: str
    """How it was found: `exactly`, or what had to be overlooked."""
    lines: tuple[int, ...]
    """Line numbers of the first places, counted from 1."""


class _Rung(msgspec.Struct, frozen=True):
    overlooks: str
    view: Callable[[str], View]
    shift: bool = False


_LADDER = (
    _Rung("different line ends", views.line_ends),
    _Rung("blanks at line ends", views.trailing),
    _Rung("different runs of blanks", views.blank_runs),
    _Rung("a different indentation", views.trailing, True),
    _Rung("a different indentation and runs of blanks", views.blank_runs, True),
    _Rung("look-alike characters", views.look_alikes),
    _Rung("look-alike characters and a different indentation", views.look_alikes, True),
    _Rung("look-alike characters and runs of blanks", views.everything),
    _Rung("look-alike characters, runs of blanks and a different indentation", views.everything, True),
    _Rung("a different number of empty lines", views.gaps),
    _Rung("a different number of empty lines and a different indentation", views.gaps, True),
)


def locate(text: str, old: str, new: str, replace_all: bool = False) -> Located:
    """Where `old` stands in `text` and what goes there. Raises ToolError.

    Codes: `empty_old`, `no_change`, `not_unique` (with line numbers), `not_found` (with the closest region).
    """
    if not old:
        raise ToolError(
            "old_string is empty. Give the text to replace, or use write_file for a new file.", "empty_old"
        )
    if old == new:
        raise ToolError("old_string and new_string are the same: there is nothing to change.", "no_change")
    search = _Search(text, old, new, replace_all)
    found = search.exact() or search.tolerant()
    if found is None and not (search.ends_only and new in text):
        raise ToolError(near_miss(text, old), "not_found")
    if found is None or all(text[place.start : place.end] == place.replacement for place in found.places):
        raise ToolError("The text already reads like new_string: there is nothing to change.", "no_change")
    return found


def apply(text: str, places: tuple[Place, ...]) -> str:
    """`text` with all replacements made."""
    pieces: list[str] = []
    at = 0
    for place in places:
        pieces += (text[at : place.start], place.replacement)
        at = place.end
    return "".join(pieces) + text[at:]


def line_of(text: str, position: int) -> int:
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
        self.ends_only = views.line_ends(old).text == views.line_ends(new).text

    # --- the first rung ---

    def exact(self) -> Located | None:
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

    def tolerant(self) -> Located | None:
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
                strict = rung.view is not views.line_ends
                spans = [
                    span for start, view in here for span in self._spans(start, view, old.text, strict=strict)
                ]
                found = self._located(spans, rung.overlooks)
            if found is not None:
                return found
        return None

    def _spans(self, offset: int, view: View, old: str, *, strict: bool) -> Iterator[tuple[int, int]]:
        """Source spans of `old` in the view; the end of the file counts as the end of a line."""
        haystack = view.text
        if old.endswith("\n") and old.strip() and not haystack.endswith("\n"):
            haystack += "\n"
        cut_end = strict and self.old[-1] in " \t" + views.SPACES
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
            if (
                before >= 0
                and after < len(haystack)
                and _WORD.match(haystack[before])
                and _WORD.match(haystack[after])
            ):
                return False
        return True

    def _blanks_after(self, end: int) -> int:
        blanks = re.compile(r"[ \t]*").match(self.text, end)
        return blanks.end() if blanks else end

    def _shifted(self, here: list[tuple[int, View]], old: View, overlooks: str) -> Located | None:
        places: list[Place] = []
        spans: list[tuple[int, int]] = []
        try:
            for offset, view in here:
                for start, end, new in shifted(view.text, old.text, self.new, self.all):
                    if (span := view.span(start, min(end, len(view.text)))) is not None:
                        spans.append((offset + span[0], offset + span[1]))
                        places.append(self._place(spans[-1], new))
                    if not self.all and len(spans) > LISTED:
                        break
        except TooMuch:
            raise ToolError(
                f"old_string fits in too many places (when overlooking {overlooks}). Add lines around it.",
                "not_unique",
            ) from None
        return self._settle(spans, places, overlooks)

    # --- the outcome ---

    def _located(self, spans: list[tuple[int, int]], rung: str, *, exact: bool = False) -> Located | None:
        if exact and self.ends_only:
            places = [Place(start, end, self.new) for start, end in spans]
        else:
            places = [self._place(span, self.new, exact=exact) for span in spans]
        return self._settle(spans, places, rung)

    def _place(self, span: tuple[int, int], new: str, *, exact: bool = False) -> Place:
        start, end = span
        if (
            not exact
            and end == len(self.text)
            and self.old[-1] in "\r\n"
            and self.text[end - 1] not in "\r\n"
        ):
            # The file's last line has no end, and keeps none.
            new = re.sub(r"(?:\r\n|\n|\r)\Z", "", new)
        return Place(start, end, self.ends.fit(self.old, new, start, end, exact=exact))

    def _settle(self, spans: list[tuple[int, int]], places: list[Place], rung: str) -> Located | None:
        if not spans:
            return None
        lines = tuple(line_of(self.text, start) for start, _ in spans[: LISTED + 1])
        if len(spans) > 1 and not self.all:
            listed = ", ".join(map(str, dict.fromkeys(lines[:LISTED])))
            more = " and more" if len(lines) > LISTED else ""
            how = "" if rung == "exactly" else f" (when overlooking {rung})"
            raise ToolError(
                f"old_string is found more than once{how}: at lines {listed}{more}. Add lines around it until it is "
                "unique, or set replace_all.",
                "not_unique",
            )
        return Located(tuple(places), rung, lines)
