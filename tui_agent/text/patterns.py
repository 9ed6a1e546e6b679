"""Regular expressions and word lists stored as data, in a `patterns.toml` next to the modules that use them.

Line breaks in an expression are ignored. `(?&name)` inserts the expression `name` of the same section, as in PCRE;
flags come first, as in `(?i)`.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

_REFERENCE = re.compile(r"\(\?&(\w+)\)")


class Patterns:
    """A section of a package's `patterns.toml`; `section.name` is a compiled expression.

    The file is read and expressions are compiled on first use. Raises AttributeError for an unknown name.
    """

    def __init__(self, package: str, section: str) -> None:
        self._package = package
        self._section = section

    def __getattr__(self, name: str) -> re.Pattern[str]:
        if name.startswith("_"):
            raise AttributeError(name)
        compiled = re.compile(self.source(name))
        setattr(self, name, compiled)  # later accesses bypass __getattr__
        return compiled

    def source(self, name: str) -> str:
        """Return the text of an expression with its references inserted."""
        try:
            text = _load(self._package)[self._section][name]
        except KeyError:
            raise AttributeError(f"{self._package}: no pattern {self._section}.{name}") from None
        return _REFERENCE.sub(lambda match: self.source(match[1]), text.replace("\n", ""))

    def words(self, name: str) -> frozenset[str]:
        """Return a list of words separated by blanks."""
        return _words(self._package, self._section, name)


@cache
def _load(package: str) -> dict[str, dict[str, str]]:
    return tomllib.loads(files(package).joinpath("patterns.toml").read_text(encoding="utf-8"))


@cache
def _words(package: str, section: str, name: str) -> frozenset[str]:
    return frozenset(_load(package)[section][name].split())
