"""The table of what is stripped, marked or kept (`characters.json`), as regular expressions; compiled on first use."""

from __future__ import annotations

import re
from functools import cache, lru_cache
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
    return re.compile(_set(_marked_codes(column)))


@cache
def _marked_codes(column: Column) -> str:
    return " ".join(group["codes"] for group in _table()["groups"] if group[column] == "mark")


@cache
def suspects(column: Column) -> re.Pattern[str]:
    """Return a pattern without which `column` shows nothing of a text differently, addresses apart; fast."""
    basic = [code for code in _marked_codes(column).split() if len(code.partition("-")[0]) == 4]
    return re.compile(f"[{_ranges(' '.join(basic))}{character_set('combining')[1:-1]}\U00010000-\U0010ffff]")


@cache
def hidden(column: Column) -> re.Pattern[str]:
    """Return the pattern of what `column` may show differently.

    Its named groups: `authority` is the host of an address, with the user's name, `combining` are too many marks on one
    character; without a group it is a run of characters to mark, if `kept_length` is 0.
    """
    combining = character_set("combining")
    return re.compile(
        f"{_AUTHORITY}|{marked(column).pattern}{{1,{MAX_RUN}}}"
        f"|(?<={combining * MAX_COMBINING})(?P<combining>{combining}{{1,{MAX_RUN}}})"
    )


def kept_length(text: str, at: int, column: Column) -> int:
    """Return how many characters from `at` on are in legitimate use and stay, though `column` marks them elsewhere."""
    for pattern in _uses(_group_number(text[at]), column):
        if match := pattern.match(text, at):
            return match.end() - at
    return 0


@lru_cache(maxsize=256)
def _group_number(character: str) -> int:
    groups = enumerate(_table()["groups"])
    return next((number for number, group in groups if re.match(_set(group["codes"]), character)), -1)


@cache
def _uses(number: int, column: Column) -> list[re.Pattern[str]]:
    group = _table()["groups"][number]
    patterns = [*group.get("unless", ()), *(group.get("unless_text", ()) if column == "text" else ())]
    character = _set(group["codes"])
    return [re.compile(_insert_classes(pattern.replace("@", character))) for pattern in patterns]


def _insert_classes(pattern: str) -> str:
    return re.sub(r"\{([a-z_]+)\}", lambda match: character_set(match[1]), pattern)


@cache
def reversed_run() -> re.Pattern[str]:
    """Return the pattern of the marked and combining characters at the end of a text, for the text reversed."""
    return re.compile(f"(?:{marked('text').pattern}|{character_set('combining')})*")


AUTHORITY = re.compile(_AUTHORITY)
"""The host of an address with the user's name, after `://`."""
