"""The parts that a reply is cut into before anybody asks what they mean."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal[
    "text",
    "thought",
    "done",
    "value",
    "wrapper",
    "function",
    "python",
    "broken",
    "fence",
    "closer",
    "unopened",
    "code",
    "invented",
]
"""Text and thoughts to show, the signal of completion, JSON without markup, markup with JSON in it, markup with tags in
it, calls as Python, markup with nothing readable in it, a fence around others, a closing tag without its opening one,
the end of a thought whose beginning never came, a block of Python whose calls are meant, the beginning of what the
model wrote in the name of a tool or the user: nothing behind it counts."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One part, with the text that it was cut from."""

    kind: Kind
    raw: str
    bodies: tuple[str, ...] = ()
    """The JSON texts, or the markup's inside."""
    name: str = ""
    """The tool that the markup itself names."""
    parts: tuple[Piece, ...] = ()
    """What a fence holds."""
    tag: str = ""
    """The markup's tag: `tool_call`, `function`, `[TOOL_CALLS]`, `harmony`; `result` or `turn` of what was invented."""


def at_line_start(text: str, place: int) -> bool:
    """Whether only blanks stand before `place` in its line."""
    head = text[max(0, place - 64) : place]
    return head.rpartition("\n")[2].strip() == "" and ("\n" in head or place <= 64)


def quoted(text: str, place: int) -> bool:
    """Whether a quote or a bracket stands right before `place`; the mark of a fence is none."""
    return place > 0 and text[place - 1] in "`\"'(«“‘" and text[max(0, place - 3) : place] != "```"


def mentioned(text: str, place: int) -> bool:
    """Whether markup at `place` is spoken of: in quotes, or as a word within a sentence."""
    within = text[place - 1 : place] in (" ", "\t") and not at_line_start(text, place)
    return within or quoted(text, place)
