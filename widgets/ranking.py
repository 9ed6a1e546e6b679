"""How well a name matches what was typed, in the same order in every list that can be searched (U5)."""

from __future__ import annotations

from enum import IntEnum


class Rank(IntEnum):
    """A kind of match, the best one first."""

    EXACT = 0
    PREFIX = 1
    WORD_START = 2
    SUBSTRING = 3
    LETTERS = 4
    """The name has all letters, in order."""
    DESCRIPTION = 5
    """Not the name, but what is said about it."""


def rank(name: str, query: str, description: str = "", *, letters: bool = True) -> Rank | None:
    """Return how well a name with a `description` matches, ignoring case and the kind of separators; None: not at all.

    A query of several words matches if each of them is in the name, or in name and description. `letters`: a name that
    has the letters of the query in order matches too.
    """
    text, wanted = _form(name), _form(query)
    if text == wanted or not wanted:
        return Rank.EXACT
    if text.startswith(wanted):
        return Rank.PREFIX
    if f" {wanted}" in text:
        return Rank.WORD_START
    words = wanted.split()
    if all(word in text for word in words):
        return Rank.SUBSTRING
    rest = iter(text)
    if letters and all(letter in rest for letter in wanted.replace(" ", "")):
        return Rank.LETTERS
    everything = f"{text} {_form(description)}"
    return Rank.DESCRIPTION if all(word in everything for word in words) else None


def _form(text: str) -> str:
    return text.casefold().replace("_", " ").replace("-", " ").replace(".", " ").strip()
