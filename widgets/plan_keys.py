"""The keys of plan panel, plan review and summary: what they do is looked up here, and so is what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Does(NamedTuple):
    """One or several keys that do the same."""

    keys: tuple[str, ...]
    """As Textual names them, or the character that they type."""
    action: str
    """By what the widget knows it."""
    says: str
    """For the help."""
    short: str = ""
    """For the line of keys below the widget; empty where that says something of its own."""
    named: str = ""
    """How the help names the keys; empty when it names each."""


Table = Sequence[Does]

PANEL: Table = (
    Does(("space",), "tick", "tick a criterion, open what is folded", "tick"),
    Does(("enter", "e"), "edit", "reword what the cursor is at", "edit"),
    Does(("a", "plus", "+"), "add", "add a criterion behind it", "add", "a  +"),
    Does(("delete",), "remove", "remove it", "remove"),
    Does(("u",), "undo", "undo the last edit", "undo"),
    Does(("ctrl+s",), "accept", "accept what is proposed", "accept"),
    Does(("ctrl+d",), "discard", "discard what is proposed", "discard"),
    Does(("escape",), "leave", "back to the composer", "back"),
)
REVIEW: Table = (
    Does(("a",), "approve", "approve the plan, as edited", "approve"),
    Does(("e",), "edit", "edit the steps", "edit"),
    Does(("1", "2", "3", "4", "5"), "other", "take another way instead", "another way", "1–5"),
    Does(("r",), "reject", "reject, with a reason", "reject"),
    Does(("up", "down", "home", "end"), "scroll", "read on", "", "up  down  home  end"),
    Does(("escape",), "stop", "stop the run", "stops the run"),
)
STEPS: Table = (
    Does(("enter", "e"), "reword", "reword the line", "reword"),
    Does(("K", "alt+up"), "up", "move the step up"),
    Does(("J", "alt+down"), "down", "move the step down"),
    Does(("d", "delete"), "drop", "drop the step", "drop"),
    Does(("+",), "add", "add a step behind it", "add"),
    Does(("escape",), "done", "done with editing", "done"),
)
SUMMARY: Table = (
    Does(("ctrl+s",), "accept", "accept it as it stands", "accept"),
    Does(("ctrl+d",), "discard", "discard it; pressed twice", "discard"),
    Does(("tab", "shift+tab"), "next", "next field, field before", "next field"),
    Does(("space", "x"), "tick", "tick a criterion", "ticks"),
    Does(("escape",), "leave", "leave the field, then the summary", "leaves"),
)
HELP: Sequence[tuple[str, Table]] = (
    ("In the plan panel", PANEL),
    ("In a plan review", REVIEW),
    ("Editing its steps", STEPS),
    ("In a summary", SUMMARY),
)
"""For the help, in its order."""


def action(table: Table, key: str) -> str:
    """What a key does; empty when it means nothing there."""
    return next((one.action for one in table if key in one.keys), "")


def short(table: Table, wanted: str) -> str:
    """The word for the line of keys."""
    return next(one.short for one in table if one.action == wanted)
