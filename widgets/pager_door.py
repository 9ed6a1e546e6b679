"""What the pager of an output needs of the program, and two ways of showing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeAlias

from rich.style import Style

from widgets.ink import Span

Row: TypeAlias = tuple[int, int, str]
"""Place of a line in the bytes, place of the next one, text with its colours."""


class Sight(NamedTuple):
    """What is to be seen from a place."""

    above: Sequence[Row] = ()
    """Lines that end at the place, from above to below."""
    below: Sequence[Row] = ()
    size: int = 0
    """Bytes there are by now."""
    number: int | None = None
    """Of the first line below; None as long as that is not counted."""
    lines: int | None = None
    """How many there are."""


class PagerDoor(Protocol):
    """Where the lines come from."""

    @property
    def title(self) -> str:
        """What the output is of."""
        ...

    @property
    def note(self) -> str:
        """What should be known of it, such as that it is not all; empty where nothing should."""
        ...

    @property
    def growing(self) -> bool:
        """More may come."""
        ...

    async def look(self, place: int, above: int, below: int) -> Sight:
        """At most so many lines above and below a place; -1 is the end."""
        ...

    async def find(self, text: str, place: int, *, back: bool) -> int | None:
        """The place of the nearest line behind, or before, `place` that holds `text`; None where there is none."""
        ...

    async def line(self, number: int) -> int | None:
        """The place of a line; None as long as it is not known."""
        ...

    async def turn(self, by: int) -> bool:
        """Go over to another output; False where there is none."""
        ...

    def closed(self) -> None:
        """The pager is gone."""
        ...


def marked(spans: Sequence[Span], needle: str, style: Style) -> list[Span]:
    """`spans` with every `needle` in them standing out, also over their borders. Capitals count if there are any."""
    text = "".join(part for part, _style in spans)
    plain = needle == needle.lower()
    whole = text.lower() if plain else text
    places: list[tuple[int, int]] = []
    at = whole.find(needle) if needle and len(whole) == len(text) else -1
    while at >= 0:
        places.append((at, at + len(needle)))
        at = whole.find(needle, at + len(needle))
    if not places:
        return list(spans)
    found: list[Span] = []
    begin = 0
    for part, ink in spans:
        cuts = sorted(
            {0, len(part), *(p - begin for pair in places for p in pair if begin < p < begin + len(part))}
        )
        for first, last in pairwise(cuts):
            lit = any(start <= begin + first < end for start, end in places)
            found.append((part[first:last], ink + style if lit else ink))
        begin += len(part)
    return found


def amount(size: int) -> str:
    """Bytes as a person reads them."""
    if size < 1_000:
        return f"{size} bytes"
    return f"{size / 1e3:.1f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
