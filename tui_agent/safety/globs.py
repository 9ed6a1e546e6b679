"""Globs for paths: `*` matches within a name, `**` any number of names including none.

Braces, classes and `?` are supported; a leading dot is not special. The time of a match is at most the product of the
lengths for every pattern, as the regular expressions never backtrack into a text between two stars.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

_MAX_ALTERNATIVES = 4096
"""A pattern whose braces expand to more alternatives is taken literally."""

_TOKEN = re.compile(
    r"(?P<star>\*+)|(?P<any>\?)|\[(?P<negation>[!^]?+)(?P<ranges>.[^]]*)\]|\\(?P<escaped>.)|(?P<literal>.)", re.DOTALL
)
_BRACE_TOKEN = re.compile(r"\\.?|\[[!^]?+[^/][^]/]*\]|[{},]", re.DOTALL)
_NOT_LITERAL = re.compile(r"\\.?|\[[!^]?+[^/][^]/]*\]|[\[*?/]", re.DOTALL)
_COMMON_KIND = re.compile(
    r"\*\*/(?:\*(?P<suffix>[^*?\[\\/]+)|(?!\.(?:/|$))(?P<name>[^*?\[\\/]+)(?P<below>/(?:\*\*)?)?)", re.DOTALL
)


def normalize_path(path: str) -> str:
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
    if path.isascii():
        return path.lower()
    folded = unicodedata.normalize("NFKC", path)
    if not folded.isascii():
        folded = "".join(c for c in folded if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", folded.casefold())


def matches(pattern: str, path: str) -> bool:
    """Return whether `pattern` matches all of `path`, both relative to the same folder."""
    path = normalize_path(path)
    return any(_matches_alternative(alternative, path) for alternative in _expand_braces(pattern))


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

    def needs_approval(self, path: str) -> bool:
        """Return whether `path` needs approval by its last match; False without a match."""
        return any(self._needs_approval(spelling) for spelling in {path, path.replace("\\", "/")})

    def _needs_approval(self, path: str) -> bool:
        exact = normalize_path(path)
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
        self._uncommon: list[tuple[int, str, str]] = []
        """Number, a text that every match contains, pattern."""

    def add(self, number: int, pattern: str) -> None:
        """Add a pattern; the numbers must increase."""
        for alternative in _expand_braces(pattern):
            common = _COMMON_KIND.fullmatch(alternative)
            if common is None:
                literal = max(_NOT_LITERAL.split(alternative), key=len)
                self._uncommon.append((number, "" if literal == "." else literal, alternative))
            elif common["suffix"]:
                self._suffixes[common["suffix"]] = number
            else:
                (self._folders if common["below"] else self._names)[common["name"]] = number

    def last(self, names: tuple[str, ...]) -> int:
        """Return the highest number of a matching pattern; -1 if none matches."""
        name = names[-1]
        best = max(self._names.get(name, -1), *(self._folders.get(folder, -1) for folder in names))
        for suffix, number in self._suffixes.items():
            if number > best and name.endswith(suffix):
                best = number
        path = "/".join(names)
        for number, literal, pattern in reversed(self._uncommon):
            if number <= best:
                break
            if literal in path and _matches_alternative(pattern, path):
                return number
        return best


def _matches_alternative(pattern: str, path: str) -> bool:
    return _compile(pattern).fullmatch(path + "/") is not None


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern without braces, for paths with a slash at the end.

    The names between two `**`, and the characters between two `*`, match where they first can, in an atomic group.
    """
    groups = [""]
    for name in (pattern + "**" if pattern.endswith("/") else pattern).split("/"):
        if name == "**":
            groups.append("")
        elif name not in ("", "."):
            groups[-1] += _name_expression(name) + "/"
    return re.compile(_join_lazily(groups, "(?:[^/]*/)"))


def _name_expression(name: str) -> str:
    groups = [""]
    for token in _TOKEN.finditer(name):
        if token["star"]:
            groups.append("")
        elif token["any"]:
            groups[-1] += "[^/]"
        elif token["ranges"]:
            groups[-1] += _class_expression(token["negation"], token["ranges"])
        else:
            groups[-1] += re.escape(token["escaped"] or token["literal"])
    return _join_lazily(groups, "[^/]")


def _join_lazily(groups: list[str], gap: str) -> str:
    first, *middle, last = groups if len(groups) > 1 else [*groups, ""]
    atomic = "".join(f"(?>{gap}*?{group})" for group in middle if group)
    return f"{first}{atomic}" + (f"{gap}*{last}" if len(groups) > 1 else "")


def _class_expression(negation: str, text: str) -> str:
    ranges = [(part[0], part[-1]) for part in re.findall(r".-.|.", text, re.DOTALL)]
    expression = "".join(f"{re.escape(first)}-{re.escape(last)}" for first, last in ranges if first <= last)
    if negation:
        return f"[^/{expression}]"
    return f"(?!/)[{expression}]" if expression else "(?!)"


@lru_cache(maxsize=1024)
def _expand_braces(pattern: str) -> list[str]:
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
        if not commas:
            remaining.append((text, closed + 1 if "{" not in text[opened + 1 : closed] else opened + 1))
            continue
        edges = pairwise((opened, *commas, closed))
        remaining += [(text[:opened] + text[a + 1 : b] + text[closed + 1 :], opened) for a, b in edges]
        if len(expanded) + len(remaining) > _MAX_ALTERNATIVES:
            return [pattern]
    return expanded


def _first_brace(text: str, start: int) -> tuple[int, list[int], int] | None:
    """Return the first closed brace at or after `start`: where it opens, its own commas, where it closes."""
    opened: list[tuple[int, list[int]]] = []
    braces: list[tuple[int, list[int], int]] = []
    for token in _BRACE_TOKEN.finditer(text, start):
        if token[0] == "{":
            opened.append((token.start(), []))
        elif token[0] == "," and opened:
            opened[-1][1].append(token.start())
        elif token[0] == "}" and opened:
            braces.append((*opened.pop(), token.start()))
            if not opened:
                break
    return min(braces, default=None)
