"""Environment variables for child processes: only listed ones, and no secrets (A7)."""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Mapping
from functools import cache, partial

from tui_agent.text.patterns import read_table

_table = partial(read_table, __package__, "environment.json")
"""`passed`: variables that children get. `secret`: those that are never passed. `fixed`: values that keep programs from
asking, paging or opening an editor, and from buffering their output."""


@cache
def _pattern(key: str) -> re.Pattern[str]:
    """Return the globs of the table as one expression."""
    return re.compile("|".join(map(fnmatch.translate, _table()[key])))


def is_secret(name: str) -> bool:
    """Return whether a variable of this name is never passed to children."""
    return _pattern("secret").match(name.upper()) is not None


def child_environment(source: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables for a command of the user or the model, from `source` (default: our own environment)."""
    source = os.environ if source is None else source
    environment = {
        name: value for name, value in source.items() if _pattern("passed").match(name) and not is_secret(name)
    }
    environment.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    environment.setdefault("HOME", os.path.expanduser("~"))
    fixed: dict[str, str] = _table()["fixed"]
    return _with_utf8(environment) | fixed


def bare_environment(source: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables for a safe command: a fixed PATH, language and time zone."""
    source = os.environ if source is None else source
    locale = {
        name: value
        for name, value in source.items()
        if name in ("LANG", "TZ") or (name.startswith("LC_") and not is_secret(name))
    }
    return _with_utf8(locale) | {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}


def _with_utf8(environment: dict[str, str]) -> dict[str, str]:
    """Make the character encoding UTF-8 if the locale is C or unset."""
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    effective = next((environment[name] for name in names if environment.get(name)), "")
    if "utf" not in effective.lower():
        environment.pop("LC_ALL", None)
        environment["LC_CTYPE"] = "UTF-8" if sys.platform == "darwin" else "C.UTF-8"
    return environment
