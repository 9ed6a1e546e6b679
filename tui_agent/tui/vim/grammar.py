"""The commands of vi's normal and visual mode, read from the keys typed so far."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tui_agent.tui.vim.motions import MOTIONS
from tui_agent.tui.vim.registers import NAMES
from tui_agent.tui.vim.text_objects import OBJECTS

MAX_COUNT: Final = 9_999
OPERATORS: Final = ("d", "c", "y", ">", "<", "gu", "gU", "g~")
"""Keys of commands that take a motion or a text object; typed twice they take lines."""
ALIASES: Final = {"D": "d$", "C": "c$", "Y": "yy", "S": "cc", "s": "cl", "x": "dl", "X": "dh"}
"""Commands that are short for an operator with a motion."""
_PREFIXES: Final = ("", "g", "r", "f", "F", "t", "T")
"""Commands that need one more key."""
_GRAMMAR: Final = re.compile(
    r'(?:"(?P<register>.))?(?P<count>[1-9]\d*)?(?:"(?P<register2>.))?'
    r"(?P<operator>[dcy<>]|g[uU~])?(?P<count2>[1-9]\d*)?(?P<command>.*)",
    re.DOTALL,
)


class ViCommand(NamedTuple):
    """A complete command."""

    name: str
    """Keys of the motion, text object or command."""
    operator: str = ""
    times: int = 0
    """How often; 0 if the user gave no count."""
    register: str = ""
    """Name of the register; empty for the unnamed one."""

    @property
    def takes_lines(self) -> bool:
        """Whether the operator was typed twice."""
        return bool(self.operator) and self.name in (self.operator, self.operator[-1])


def parse_command(keys: str, *, visual: bool = False) -> ViCommand | None:
    """Return the command that `keys` are; None if it needs more keys. It may be an unknown one."""
    if keys == '"' or (keys[-1:] == '"' and re.fullmatch(r'(".)?[1-9]\d*"', keys)):
        return None
    match = _GRAMMAR.fullmatch(keys)
    assert match is not None  # every part may be empty
    operator, name = match["operator"] or "", match["command"]
    if visual:  # an operator is complete, as the text is selected
        operator, name = "", operator + name
    register = match["register"] or match["register2"] or ""
    takes_object = operator or visual
    if name in _PREFIXES or (name in ("i", "a") and takes_object):
        return None
    counts = [int(text) for text in (match["count"], match["count2"]) if text]
    count = min(MAX_COUNT, counts[0] * (counts[1] if len(counts) > 1 else 1)) if counts else 0
    if name in ALIASES and not operator and not visual:
        operator, name = ALIASES[name][0], ALIASES[name][1:]
    return ViCommand(name, operator, count, register if register in NAMES else "")


def is_motion(name: str) -> bool:
    """Return whether a command moves the cursor."""
    return name in MOTIONS or name in (";", ",") or is_find(name)


def is_find(name: str) -> bool:
    """Return whether a command goes to a character in the line."""
    return len(name) == 2 and name[0] in "fFtT"


def is_object(name: str) -> bool:
    """Return whether a command is a text object."""
    return len(name) == 2 and name[0] in "ia" and name[1] in OBJECTS
