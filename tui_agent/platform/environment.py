"""The environment that child processes get: named variables only, none of them a secret (A7)."""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Mapping
from functools import partial

from tui_agent.common.tables import read_table

_table = partial(read_table, __file__, "environment.json")
"""`passed`: variables that children get. `secret`: those that are never passed, whatever else matches. `fixed`: so that
no program asks, pages or opens an editor, and output is shown while it happens."""


def is_secret(name: str) -> bool:
    """Whether a variable of this name is kept from children."""
    return any(fnmatch.fnmatchcase(name.upper(), pattern) for pattern in _table()["secret"])


def child_environment(source: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables for a command of the user's or the model's, from `source` (our own environment)."""
    source = os.environ if source is None else source
    environment = {
        name: value
        for name, value in source.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in _table()["passed"]) and not is_secret(name)
    }
    environment.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    environment.setdefault("HOME", os.path.expanduser("~"))
    fixed: dict[str, str] = _table()["fixed"]
    return _speaking_utf8(environment) | fixed


def bare_environment(source: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables for a command that runs unasked: a fixed PATH, language and time zone, nothing else."""
    source = os.environ if source is None else source
    wanted = {
        name: value
        for name, value in source.items()
        if name in ("LANG", "TZ") or (name.startswith("LC_") and not is_secret(name))
    }
    return _speaking_utf8(wanted) | {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}


def _speaking_utf8(environment: dict[str, str]) -> dict[str, str]:
    """Where the locale is C or unset, characters are UTF-8 all the same."""
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    effective = next((environment[name] for name in names if environment.get(name)), "")
    if "utf" not in effective.lower():
        environment.pop("LC_ALL", None)
        environment["LC_CTYPE"] = "UTF-8" if sys.platform == "darwin" else "C.UTF-8"
    return environment
