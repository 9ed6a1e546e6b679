"""A glob engine without surprises: `*` stays within a name, `**` spans any number of them, also none.

Braces, classes and `?` work; a leading dot is nothing special. Matching takes time linear in the product of the
lengths, whatever the pattern: no regular expression is built.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias, TypeVar

_ALTERNATIVES = 4096
"""A pattern whose braces spell out more than this is taken literally."""

Class: TypeAlias = tuple[bool, tuple[tuple[str, str], ...]]
"""(negated, ranges)."""

Token: TypeAlias = str | Class | None
"""A character, a class, or None for a star; `?` is the negated empty class."""

Parts: TypeAlias = tuple[tuple[Token, ...] | None, ...]
"""A pattern without braces, name by name; None is `**`."""

_ANY: Class = (True, ())
W = TypeVar("W")


def normalise(path: str) -> str:
    """`path` with `/` between its names and without `.`, empty and inner `..` names, and no slash at either end."""
    names: list[str] = []
    for name in path.split("/"):
        if name == ".." and names and names[-1] != "..":
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return "/".join(names)


def fold_case(path: str) -> str:
    """`path` as a careless file system or reader takes it: compatibility forms, letter case and the unseen ignored."""
    folded = unicodedata.normalize("NFKC", path)
    if not folded.isascii():
        folded = "".join(c for c in folded if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", folded.casefold())


def matches(pattern: str, path: str) -> bool:
    """True when `pattern` matches the whole of `path`, both relative to the same folder; the path is normalised."""
    return _match(pattern, tuple(normalise(path).split("/")))


class GlobList:
    """Globs in order, each with whether it is safe (true) or asks (false); the last one that matches wins.

    False patterns also match what differs in case or Unicode form only; true ones match exactly. Most patterns
    are about one name (`**/NAME`, `**/*.ext`, `**/NAME/**`): these are looked up, not tried one by one.
    """

    def __init__(self, patterns: Iterable[tuple[str, bool]]) -> None:
        self._safe: list[bool] = []
        self._exact, self._folded = _Index(), _Index()
        for number, (pattern, safe) in enumerate(patterns):
            self._safe.append(safe)
            if safe or "[" in pattern:  # but for classes, what matches exactly matches folded too
                self._exact.add(number, pattern)
            if not safe:
                self._folded.add(number, fold_case(pattern))

    def ask(self, path: str) -> bool:
        """Whether the last match of `path` says false. Without a match: no."""
        return any(self._asks(one) for one in {path, path.replace("\\", "/")})

    def _asks(self, path: str) -> bool:
        exact = normalise(path)
        folded = tuple(name for name in fold_case(exact).split("/") if name) or ("",)
        last = max(self._exact.last(tuple(exact.split("/"))), self._folded.last(folded))
        bare = tuple(name.rstrip(". ") or name for name in folded)
        if bare != folded:  # file systems of Windows drop dots and blanks at the end of a name
            last = max(last, self._folded.last(bare))
        return last >= 0 and not self._safe[last]


class _Index:
    """Patterns by what makes them quick to find."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        """Name that a path ends with → number of the last pattern."""
        self._folders: dict[str, int] = {}
        """Name that is anywhere in a path → number."""
        self._endings: dict[str, int] = {}
        self._others: list[tuple[int, str, Parts]] = []
        """Number, a text that every match holds, pattern."""

    def add(self, number: int, pattern: str) -> None:
        """Take in the pattern of this number; numbers rise."""
        for parts in _compiled(pattern):
            name = _plain(parts[1]) if len(parts) > 1 and parts[0] is None else None
            if name is None or parts[2:] not in ((), (None,)) or (len(parts) == 3 and name.startswith("*")):
                self._others.append((number, _held(parts), parts))
            elif len(parts) == 3:
                self._folders[name] = number
            elif name.startswith("*"):
                self._endings[name[1:]] = number
            else:
                self._names[name] = number

    def last(self, names: tuple[str, ...]) -> int:
        """The highest number of a pattern that matches; -1 when none does."""
        name = names[-1]
        best = max(self._names.get(name, -1), *(self._folders.get(one, -1) for one in names))
        for ending, number in self._endings.items():
            if number > best and name.endswith(ending):
                best = number
        path = "/".join(names)
        for number, held, parts in reversed(self._others):
            if number <= best:
                break
            if held in path and _match_names(parts, names):
                return number
        return best


def _held(parts: Parts) -> str:
    """The longest text that every match of a pattern holds."""
    runs = [""]
    for tokens in parts:
        runs.append("")
        for token in tokens or ():
            if isinstance(token, str):
                runs[-1] += token
            else:
                runs.append("")
    return max(runs, key=len)


def _plain(tokens: tuple[Token, ...] | None) -> str | None:
    """A name, or `*` and what a name ends with; None for anything else."""
    if not tokens:
        return None
    rest = tokens[1:] if tokens[0] is None else tokens
    if not all(isinstance(token, str) for token in rest):
        return None
    text = "".join(token for token in rest if isinstance(token, str))
    return f"*{text}" if tokens[0] is None else None if text.startswith("*") else text


def _match(pattern: str, names: tuple[str, ...]) -> bool:
    return any(_match_names(parts, names) for parts in _compiled(pattern))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> tuple[Parts, ...]:
    """The alternatives of `pattern`, each as its names; None is `**`."""
    return tuple(_compile(one) for one in _expand(pattern))


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
            tokens.append(_ANY)
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
    """Where the class that began before `at` closes; 0 when it does not. A `]` in first place belongs to it."""
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
    return _fit_all(parts, names, _match_name)


def _match_name(tokens: tuple[Token, ...] | None, name: str) -> bool:
    return _fit_all(tokens or (), name, _fits)


def _fit_all(wanted: Sequence[W], given: Sequence[str], fits: Callable[[W, str], bool]) -> bool:
    """Whether all of `given` fits; None takes any number. Two pointers with one place to fall back to, as the last None
    can always take more."""
    place = at = 0
    back: tuple[int, int] | None = None
    while at < len(given):
        if place < len(wanted):
            one = wanted[place]
            if one is None:
                back = (place, at)
                place += 1
                continue
            if fits(one, given[at]):
                place += 1
                at += 1
                continue
        if back is None:
            return False
        place, at = back[0] + 1, back[1] + 1
        back = (back[0], at)
    return all(one is None for one in wanted[place:])


def _fits(wanted: Token, character: str) -> bool:
    if isinstance(wanted, str):
        return wanted == character
    negated, ranges = wanted or _ANY
    return negated != any(first <= character <= last for first, last in ranges)


def _expand(pattern: str) -> list[str]:
    """Braces spelt out, outermost first; a brace that isn't closed or holds no comma stands for itself."""
    done: list[str] = []
    waiting = [(pattern, 0)]
    while waiting:
        text, start = waiting.pop()
        found = _brace(text, start)
        if found is None:
            done.append(text)
            continue
        opened, commas, closed = found
        edges = [opened, *commas, closed]
        if len(commas) == 0:
            waiting.append((text, closed + 1 if "{" not in text[opened + 1 : closed] else opened + 1))
            continue
        waiting += [(text[:opened] + text[a + 1 : b] + text[closed + 1 :], opened) for a, b in pairwise(edges)]
        if len(done) + len(waiting) > _ALTERNATIVES:
            return [pattern]
    return done


def _brace(text: str, start: int) -> tuple[int, list[int], int] | None:
    """The first brace at or after `start` that closes: where it opens, its own commas, where it closes."""
    opened: list[tuple[int, list[int]]] = []
    found: list[tuple[int, list[int], int]] = []
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
            found.append((begin, commas, at))
            if not opened:
                break
        at += 1
    return min(found, default=None)
