"""The table of what is stripped, marked or kept (`characters.json`), as regular expressions; compiled on first use."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal

from tui_agent.text.patterns import read_table

Column = Literal["text", "exact", "model"]
"""What a text is: for reading, exactly what is executed or written, or for a model."""

MAX_RUN = 4096
"""Characters of a run of marked characters that is counted as a whole."""
MAX_COMBINING = 8
"""Combining marks on one character; more of them cover the lines above and below (UTS 39, UAX 15)."""

# Up to the end of the part that names the host: what follows it is the path, or no longer the address.
_AUTHORITY = r"(?<=://)(?P<authority>[^\s/?#\\\"'`<>()\[\]{}|,;⟨⟩]{1,2048})"


def _table() -> dict[str, Any]:
    return read_table("tui_agent.text", "characters.json")


@cache
def character_set(name: str) -> str:
    """Return a class of the table, such as `emoji`, as a set of a regular expression."""
    return _set(_table()["classes"][name])


@cache
def imitating(name: str) -> re.Pattern[str]:
    """Return the pattern of a kind of characters that imitate Latin ones: `letters`, `signs`, `quotes` …"""
    return re.compile(_set(_table()["lookalikes"][name]))


@cache
def imitating_letters(name: str) -> frozenset[str]:
    """Return letters that look like others: `identical_letters` of other scripts, or `latin_letters`."""
    return frozenset(_table()["lookalikes"][name])


def _set(codes: str) -> str:
    return f"[{_ranges(codes)}]"


def _ranges(codes: str) -> str:
    return "".join("-".join(f"\\U{int(code, 16):08x}" for code in entry.split("-")) for entry in codes.split())


@cache
def marked(column: Column) -> re.Pattern[str]:
    """Return the pattern of all characters that `column` marks, wherever they are."""
    return re.compile(f"[{_marked_ranges(column)}]")


def _marked_ranges(column: Column) -> str:
    return "".join(_ranges(group["codes"]) for group in _table()["groups"] if group[column] == "mark")


@cache
def hidden(column: Column) -> re.Pattern[str]:
    """Return the pattern of what `column` shows differently.

    Its named groups: `kept` is a legitimate use, `combining` are too many marks on a character, `authority` is the host
    of an address, with the user's name; without a group it is a run of characters to mark.
    """
    kept = []
    for group in _table()["groups"]:
        patterns = [*group.get("unless", ()), *(group.get("unless_text", ()) if column == "text" else ())]
        character = _set(group["codes"])
        kept += [_insert_classes(pattern.replace("@", character)) for pattern in patterns]
    marks = f"[{_marked_ranges(column)}]"
    combining = character_set("combining")
    return re.compile(
        f"{_AUTHORITY}|(?P<kept>{'|'.join(kept)})|(?:(?!{'|'.join(kept)}){marks}){{1,{MAX_RUN}}}"
        f"|(?<={combining * MAX_COMBINING})(?P<combining>{combining}{{1,{MAX_RUN}}})"
    )


def _insert_classes(pattern: str) -> str:
    return re.sub(r"\{([a-z_]+)\}", lambda match: character_set(match[1]), pattern)


@cache
def reversed_run() -> re.Pattern[str]:
    """Return the pattern of the marked and combining characters at the end of a text, for the text reversed."""
    return re.compile(f"(?:[{_marked_ranges('text')}]|{character_set('combining')})*")


AUTHORITY = re.compile(_AUTHORITY)
"""The host of an address with the user's name, after `://`."""
