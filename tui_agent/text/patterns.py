"""Regular expressions and word lists that are kept as data: a `patterns.toml` beside the modules that use them.

Line breaks inside an expression do not count, so that it can be wrapped anywhere. `(?&name)` stands for the text of
the expression `name` of the same section, as in PCRE; flags stand at the beginning, as in `(?i)`.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

_REFERENCE = re.compile(r"\(\?&(\w+)\)")


class Patterns:
    """One section of a package's `patterns.toml`. `section.name` is the compiled expression of that name.

    The file is read and an expression compiled when one is first used. Raises AttributeError for an unknown name.
    """

    def __init__(self, package: str, section: str) -> None:
        self._package = package
        self._section = section

    def __getattr__(self, name: str) -> re.Pattern[str]:
        if name.startswith("_"):
            raise AttributeError(name)
        found = re.compile(self.source(name))
        setattr(self, name, found)  # the next use is a plain attribute
        return found

    def source(self, name: str) -> str:
        """The text of an expression, with the ones that it refers to."""
        try:
            text = _load(self._package)[self._section][name]
        except KeyError:
            raise AttributeError(f"{self._package}: no pattern {self._section}.{name}") from None
        return _REFERENCE.sub(lambda one: self.source(one[1]), text.replace("\n", ""))

    def words(self, name: str) -> frozenset[str]:
        """A list of words that are separated by blanks."""
        return _words(self._package, self._section, name)


@cache
def _load(package: str) -> dict[str, dict[str, str]]:
    return tomllib.loads(files(package).joinpath("patterns.toml").read_text(encoding="utf-8"))


@cache
def _words(package: str, section: str, name: str) -> frozenset[str]:
    return frozenset(_load(package)[section][name].split())
