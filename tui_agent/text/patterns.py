"""Tables, regular expressions and word lists, stored as data files in the package that uses them.

The expressions of a package are in its `patterns.toml`. Line breaks in an expression are ignored.
`(?&name)` inserts the expression `name` of the same section, as in PCRE; flags come first, as in `(?i)`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


@cache
def read_table(package: str, name: str) -> dict[str, Any]:
    """Return the content of the JSON or TOML file `name` in `package`; cached."""
    text = Path(import_module(package).__path__[0], name).read_text(encoding="utf-8")
    if name.endswith(".toml"):
        import tomllib

        return tomllib.loads(text)
    table: dict[str, Any] = json.loads(text)
    return table


PATTERNS = "patterns.toml"
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
            text = read_table(self._package, PATTERNS)[self._section][name]
        except KeyError:
            raise AttributeError(f"{self._package}: no pattern {self._section}.{name}") from None
        return _REFERENCE.sub(lambda match: self.source(match[1]), text.replace("\n", ""))

    def words(self, name: str) -> frozenset[str]:
        """Return a list of words separated by blanks."""
        return _words(self._package, self._section, name)


@cache
def _words(package: str, section: str, name: str) -> frozenset[str]:
    return frozenset(read_table(package, PATTERNS)[section][name].split())
