"""Globs for paths: `*` matches within a name, `**` any number of names including none.

Braces, classes and `?` are supported; a leading dot is not special. The time of a match is at most the product of the
lengths for every pattern, as no regular expression is used.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias, TypeVar

_MAX_ALTERNATIVES = 4096
"""A pattern whose braces expand to more alternatives is taken literally."""

Class: TypeAlias = tuple[bool, tuple[tuple[str, str], ...]]
"""(negated, ranges)."""

Token: TypeAlias = str | Class | None
"""A character, a class, or None for a star; `?` is the negated empty class."""

Parts: TypeAlias = tuple[tuple[Token, ...] | None, ...]
"""The names of a pattern without braces; None is `**`."""

_ANY_CHARACTER: Class = (True, ())
W = TypeVar("W")


def normalise(path: str) -> str:
    """Return `path` without `.`, empty and inner `..` names, and without a slash at either end."""
    names: list[str] = []
    for name in path.split("/"):
        if name == ".." and names and names[-1] != "..":
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return "/".join(names)


def fold_case(path: str) -> str:
    """Fold what some file systems or readers ignore: compatibility forms, case and invisible characters."""
    folded = unicodedata.normalize("NFKC", path)
    if not folded.isascii():
        folded = "".join(c for c in folded if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", folded.casefold())


def matches(pattern: str, path: str) -> bool:
    """Return whether `pattern` matches all of `path`, both relative to the same folder."""
    names = tuple(normalise(path).split("/"))
    return any(_match_names(parts, names) for parts in _compiled(pattern))


class GlobList:
    """A list of globs that are safe (True) or need approval (False); the last one that matches wins.

    False patterns also match paths that differ only in case or Unicode form; True ones match exactly. The most frequent
    kinds (`**/NAME`, `**/*.ext`, `**/NAME/**`) are looked up in an index.
    """

    def __init__(self, patterns: Iterable[tuple[str, bool]]) -> None:
        self._safe: list[bool] = []
        self._exact, self._folded = _Index(), _Index()
        for number, (pattern, safe) in enumerate(patterns):
            self._safe.append(safe)
            if safe or "[" in pattern:  # except with classes, a path that matches exactly also matches folded
                self._exact.add(number, pattern)
            if not safe:
                self._folded.add(number, fold_case(pattern))

    def ask(self, path: str) -> bool:
        """Return whether `path` needs approval by its last match; False without a match."""
        return any(self._asks(spelling) for spelling in {path, path.replace("\\", "/")})

    def _asks(self, path: str) -> bool:
        exact = normalise(path)
        folded = tuple(name for name in fold_case(exact).split("/") if name) or ("",)
        last = max(self._exact.last(tuple(exact.split("/"))), self._folded.last(folded))
        stripped = tuple(name.rstrip(". ") or name for name in folded)
        if stripped != folded:  # Windows file systems drop dots and blanks at the end of a name
            last = max(last, self._folded.last(stripped))
        return last >= 0 and not self._safe[last]


class _Index:
    """Numbered patterns by kind, for a fast search."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        """Last name of a path → number of the last pattern."""
        self._folders: dict[str, int] = {}
        """Any name in a path → number."""
        self._suffixes: dict[str, int] = {}
        """End of the last name → number."""
        self._others: list[tuple[int, str, Parts]] = []
        """Number, a text that every match contains, pattern."""

    def add(self, number: int, pattern: str) -> None:
        """Add a pattern; the numbers must increase."""
        for parts in _compiled(pattern):
            name = _literal_name(parts[1]) if len(parts) > 1 and parts[0] is None else None
            if name is None or parts[2:] not in ((), (None,)) or (len(parts) == 3 and name.startswith("*")):
                self._others.append((number, _longest_literal(parts), parts))
            elif len(parts) == 3:
                self._folders[name] = number
            elif name.startswith("*"):
                self._suffixes[name[1:]] = number
            else:
                self._names[name] = number

    def last(self, names: tuple[str, ...]) -> int:
        """Return the highest number of a matching pattern; -1 if none matches."""
        name = names[-1]
        best = max(self._names.get(name, -1), *(self._folders.get(folder, -1) for folder in names))
        for suffix, number in self._suffixes.items():
            if number > best and name.endswith(suffix):
                best = number
        path = "/".join(names)
        for number, literal, parts in reversed(self._others):
            if number <= best:
                break
            if literal in path and _match_names(parts, names):
                return number
        return best


def _longest_literal(parts: Parts) -> str:
    """Return the longest text that every match of a pattern contains."""
    runs = [""]
    for tokens in parts:
        runs.append("")
        for token in tokens or ():
            if isinstance(token, str):
                runs[-1] += token
            else:
                runs.append("")
    return max(runs, key=len)


def _literal_name(tokens: tuple[Token, ...] | None) -> str | None:
    """Return a name, or `*` and the end of a name; None for anything else."""
    if not tokens:
        return None
    characters = tokens[1:] if tokens[0] is None else tokens
    text = "".join(token for token in characters if isinstance(token, str))
    if len(text) != len(characters):
        return None
    return f"*{text}" if tokens[0] is None else None if text.startswith("*") else text


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> tuple[Parts, ...]:
    """Return the alternatives of `pattern`."""
    return tuple(map(_compile, _expand(pattern)))


def _compile(pattern: str) -> Parts:
    parts: list[tuple[Token, ...] | None] = []
    if pattern.endswith("/"):
        pattern += "**"
    for name in pattern.split("/"):
        if name in ("", "."):
            continue
        if name == "**":
            if not parts or parts[-1] is not None:
                parts.append(None)
        else:
            parts.append(_tokens(name))
    return tuple(parts)


def _tokens(name: str) -> tuple[Token, ...]:
    tokens: list[Token] = []
    at = 0
    while at < len(name):
        character = name[at]
        at += 1
        if character == "*":
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
        elif character == "?":
            tokens.append(_ANY_CHARACTER)
        elif character == "\\" and at < len(name):
            tokens.append(name[at])
            at += 1
        elif character == "[" and (end := _class_end(name, at)):
            tokens.append(_class(name[at:end]))
            at = end + 1
        else:
            tokens.append(character)
    return tuple(tokens)


def _class_end(name: str, at: int) -> int:
    """Return the end of the class that begins before `at`; 0 if there is none. A `]` in first place belongs to it."""
    first = at + 1 if name[at : at + 1] in ("!", "^") else at
    return max(0, name.find("]", first + 1))


def _class(body: str) -> Class:
    negated = body[:1] in ("!", "^")
    body = body[1:] if negated else body
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(body):
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            ranges.append((body[at], body[at + 2]))
            at += 3
        else:
            ranges.append((body[at], body[at]))
            at += 1
    return negated, tuple(ranges)


def _match_names(parts: Parts, names: tuple[str, ...]) -> bool:
    return _match_sequence(parts, names, _match_name)


def _match_name(tokens: tuple[Token, ...] | None, name: str) -> bool:
    return _match_sequence(tokens or (), name, _match_character)


def _match_sequence(pattern: Sequence[W], items: Sequence[str], matches_item: Callable[[W, str], bool]) -> bool:
    """Return whether the pattern matches all items; None in it matches any number.

    One position to backtrack to is enough, as the last None can always match more.
    """
    place = index = 0
    back: tuple[int, int] | None = None
    while index < len(items):
        if place < len(pattern):
            element = pattern[place]
            if element is None:
                back = (place, index)
                place += 1
                continue
            if matches_item(element, items[index]):
                place += 1
                index += 1
                continue
        if back is None:
            return False
        place, index = back[0] + 1, back[1] + 1
        back = (back[0], index)
    return all(element is None for element in pattern[place:])


def _match_character(token: Token, character: str) -> bool:
    if isinstance(token, str):
        return token == character
    negated, ranges = token or _ANY_CHARACTER
    return negated != any(first <= character <= last for first, last in ranges)


def _expand(pattern: str) -> list[str]:
    """Expand braces, outermost first; a brace that is not closed or contains no comma is literal."""
    expanded: list[str] = []
    remaining = [(pattern, 0)]
    while remaining:
        text, start = remaining.pop()
        brace = _first_brace(text, start)
        if brace is None:
            expanded.append(text)
            continue
        opened, commas, closed = brace
        edges = [opened, *commas, closed]
        if len(commas) == 0:
            remaining.append((text, closed + 1 if "{" not in text[opened + 1 : closed] else opened + 1))
            continue
        remaining += [(text[:opened] + text[a + 1 : b] + text[closed + 1 :], opened) for a, b in pairwise(edges)]
        if len(expanded) + len(remaining) > _MAX_ALTERNATIVES:
            return [pattern]
    return expanded


def _first_brace(text: str, start: int) -> tuple[int, list[int], int] | None:
    """Return the first closed brace at or after `start`: where it opens, its own commas, where it closes."""
    opened: list[tuple[int, list[int]]] = []
    braces: list[tuple[int, list[int], int]] = []
    at = start
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 1
        elif character == "[" and (end := _class_end(text, at + 1)) and "/" not in text[at:end]:
            at = end
        elif character == "{":
            opened.append((at, []))
        elif character == "," and opened:
            opened[-1][1].append(at)
        elif character == "}" and opened:
            begin, commas = opened.pop()
            braces.append((begin, commas, at))
            if not opened:
                break
        at += 1
    return min(braces, default=None)
