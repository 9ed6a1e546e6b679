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
]
"""Text and thoughts to show, the signal of completion, JSON without markup, markup with JSON in it, markup with tags in
it, calls as Python, markup with nothing readable in it, a fence around others, a closing tag without its opening one,
the end of a thought whose beginning never came."""


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
    """The markup's tag: `tool_call`, `function`, `[TOOL_CALLS]`, `harmony`."""


def at_line_start(text: str, place: int) -> bool:
    """Whether only blanks stand before `place` in its line."""
    head = text[max(0, place - 64) : place]
    return head.rpartition("\n")[2].strip() == "" and ("\n" in head or place <= 64)
