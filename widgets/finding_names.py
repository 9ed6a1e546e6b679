"""How well a name fits a few typed letters."""

from __future__ import annotations

from typing import NamedTuple


class Match(NamedTuple):
    """A fit; a lower cost is a better one."""

    cost: int
    letters: frozenset[int]
    """Places of the letters that were found."""


def match(name: str, typed: str) -> Match | None:
    """The letters in their order, anywhere; together and at the beginning of words is better. None for no fit."""
    name, typed = name.casefold(), "".join(typed.casefold().split())
    at = name.find(typed)
    if at >= 0:
        begins = at == 0 or not name[at - 1].isalnum()
        return Match(0 if at == 0 else 20 if begins else 40, frozenset(range(at, at + len(typed))))
    places: list[int] = []
    start = 0
    for letter in typed:
        start = _begin_of_word(name, letter, start) if places and name[start : start + 1] != letter else start
        found = name.find(letter, start)
        if found < 0:
            return _plain(name, typed)
        places.append(found)
        start = found + 1
    return Match(60 + places[-1] - places[0] + places[0], frozenset(places))


def _begin_of_word(name: str, letter: str, start: int) -> int:
    """Where the next word with this letter begins; `start` where there is none."""
    for at in range(max(1, start), len(name)):
        if name[at] == letter and not name[at - 1].isalnum():
            return at
    return start


def _plain(name: str, typed: str) -> Match | None:
    """The first places of the letters in their order."""
    places: list[int] = []
    for letter in typed:
        found = name.find(letter, places[-1] + 1 if places else 0)
        if found < 0:
            return None
        places.append(found)
    return Match(100 + places[-1] - places[0], frozenset(places))
