"""Which commands are part of ordinary development work, so that auto mode runs them without a sandbox (A1, A4).

A program that `familiar.json` doesn't list is unfamiliar, whatever its arguments: nobody knows what it writes or runs.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from tui_agent.platform.programs import trusted_program
from tui_agent.shell.wrapped_commands import Invocation
from tui_agent.text.patterns import read_table

familiar_table = partial(read_table, __package__, "familiar.json")

_SYSTEM_FOLDER = re.compile(r"(/usr(/local)?/s?bin|/s?bin|/opt/homebrew/bin|/home/linuxbrew/\.linuxbrew/bin)/[^/]+")
_RELATIVE_PROGRAM = re.compile(r"[\w.@+-]+(/[\w.@+-]+)+")
_VERSION = re.compile(r"(-?[\d.]+)$")


@cache
def words(key: str) -> frozenset[str]:
    """Return a blank-separated list of the table as a set."""
    return frozenset(familiar_table()[key].split())


@cache
def _entries() -> dict[str, dict[str, Any]]:
    """Return the rules by program."""
    entries: dict[str, dict[str, Any]] = {}
    for programs, entry in familiar_table()["programs"].items():
        if programs:
            entries |= dict.fromkeys(programs.split(), entry)
        else:
            entries |= {program: {} for program in entry["any"].split()}
    return entries


def base_name(program: str) -> str:
    """Return a program's name without its version: `python3.11`, `gcc-13`."""
    base = _VERSION.sub("", program)
    return base if program not in _entries() and base in words("versioned") else program


def unfamiliar_reason(call: Invocation, written: str) -> str:
    """Return why a command is not known as ordinary work; empty if it is. `written`: the program as it is called."""
    name = base_name(call.program.removeprefix("./"))
    entry = _entries().get(name)
    if call.texts in (["--version"], ["-V"], ["--help"], ["-h"], ["-version"], ["version"], ["help"]):
        return ""
    if entry is None:
        is_own = _RELATIVE_PROGRAM.fullmatch(written) is not None and "/../" not in f"/{written}/"
        if not is_own and not (written.startswith("/") and not call.scope.is_outside(written)):
            return f"It is not known what {call.program} does."
        entry = {}
    # in words of these programs a blank means nothing
    texts = [re.sub(r"\s", "_", text) for text in call.texts] if name in ("git", "sed") else call.texts
    text = " ".join(texts)
    if any(word.source == "what it reads" for word in call.arguments) and not words("git_changes").isdisjoint(texts):
        return f"It is not known what {call.program} changes."
    if "local_deny" in entry and _is_local(call.texts):
        return f"{call.program} may read or write elsewhere." if re.search(entry["local_deny"], text) else ""
    if "allow" in entry and not re.search(entry["allow"], text):
        return f"It is not known what {call.program} does with these arguments."
    if name in words("text_all") or "allow" in entry:
        deny = entry.get("deny")
        match = re.search(deny, text) if deny else None
        return f"{call.program} may write elsewhere or run something with {match[0].strip()!r}." if match else ""
    if name in ("find", "fd", "fdfind"):
        return ""  # their commands are rated
    return unusual_option(call)


_LOCAL = re.compile(r"(https?://)?(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/\S*)?")


def _is_local(texts: Sequence[str]) -> bool:
    """Return whether all addresses among the arguments are of this machine."""
    addresses = [text for text in texts if re.match(r"\w+://|localhost|127\.|\[::1|[\w-]+(\.[\w-]+)+(:\d+|/|$)", text)]
    return bool(addresses) and all(map(_LOCAL.fullmatch, addresses))


def unusual_option(call: Invocation) -> str:
    """Return what an option may run besides the program, by its name; empty if nothing."""
    deny = _entries().get(base_name(call.program), {}).get("deny")
    texts = [re.sub(r"\s", "_", text) for text in call.texts] if call.program in ("git", "sed") else call.texts
    if deny and (match := re.search(deny, " ".join(texts))):
        return f"{call.program} may write elsewhere or run something with {match[0].strip()!r}."
    for option in itertools.takewhile(lambda text: text != "--", call.texts):
        if re.match(familiar_table()["unusual_options"], option):
            return f"{call.program} may run another program with {option.partition('=')[0]}."
    return ""


def is_installed(path: str, roots: Sequence[str]) -> bool:
    """Return whether a path outside the workspace is a known program that only the user and root can change."""
    if _SYSTEM_FOLDER.fullmatch(path):
        return True
    if base_name(path.rpartition("/")[2]) not in _entries():
        return False
    try:
        return trusted_program(path, [Path(root) for root in roots], ("/",)) is not None
    except OSError:
        return False


def matches_any(name: str, key: str) -> bool:
    """Return whether a name matches one of the globs of the table."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in words(key))
