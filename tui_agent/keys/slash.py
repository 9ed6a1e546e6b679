"""Slash commands as users type them, the same on every surface, and the message about an unknown one."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import msgspec

from tui_agent.common.suggestions import closest_name
from tui_agent.keys.key_names import NAME_SIMILARITY
from tui_agent.keys.keymap import COMMANDS

COMMAND_NAMES: Final = (*(command.name for command in COMMANDS), "exit")
"""Names that can be typed after the `/` on the screen."""
LEADING_SPACE: Final = "A leading space sends it."
NAME_MAX = 40
"""Characters of an unknown name that are repeated in the message about it."""
_COMMAND = re.compile(r"/([\w?-]*)(?:\s+(.*))?", re.DOTALL)


class TypedCommand(msgspec.Struct, frozen=True):
    """A text that is a command, and so never a message for the model."""

    name: str
    argument: str = ""
    problem: str = ""
    """Why it can't be carried out, with what to do; empty if the name is known."""


def read_command(text: str, names: Collection[str] = COMMAND_NAMES) -> TypedCommand | None:
    """Return the command that `text` is, or None if it is a message. `names` are those that this surface knows.

    A command is a `/` and a word, then its argument. Paths, comments and expressions such as `/usr/bin`, `/* a */` and
    `/a.b/` are messages, as is everything after a leading space.
    """
    if (match := _COMMAND.fullmatch(text.rstrip())) is None:
        return None
    name, argument = match[1], (match[2] or "").strip()
    return TypedCommand(name, argument, "" if name in names else _unknown(name, names))


def message_of(text: str) -> str:
    """Return the message that `text` is: without the leading space that keeps a `/` or `!` from being a command."""
    return text[1:] if text.startswith((" /", " !")) else text


def _unknown(name: str, names: Collection[str]) -> str:
    if not name:
        return f"type the name of a command after the /; /help lists them. {LEADING_SPACE}"
    shown = name if len(name) <= NAME_MAX else f"{name[:NAME_MAX]}…"
    match = closest_name(name, names, NAME_SIMILARITY)
    return f"unknown command /{shown}; {f'did you mean /{match}?' if match else '/help lists them.'} {LEADING_SPACE}"
