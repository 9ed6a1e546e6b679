"""Words and symbols for what the engine reports by name, from `words.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables of `words.json`."""

    call_symbols: dict[str, tuple[str, str]]
    """Status of a call → its symbol, and the role of its color."""
    call_verbs: dict[str, str]
    """Tool → what its calls do."""
    call_kinds: dict[str, str]
    """Tool → the kind of its calls."""
    batches: dict[str, tuple[str, str, str]]
    """Kind → what a batch of such calls is called while it goes on, afterwards, and its things."""
    phases: dict[str, str]
    """Phase of a run → what goes on."""
    approvals: dict[str, str]
    """Approval mode → what happens without asking."""
    sandboxes: dict[str, str]
    """Sandbox → what it is."""
    endings: dict[str, tuple[str, str, str]]
    """Outcome of a run → symbol, role of its color, word."""
    plan_places: dict[str, str]
    """Section of the plan document → a place in it."""
    conflict_outcomes: dict[str, str]
    """What was decided about an edit of the plan that two made at once."""
    step_states: dict[str, tuple[str, str]]
    """Outcome of a step → symbol and role of its color."""
    summary_states: dict[str, tuple[str, str, str]]
    """Outcome of a summary → symbol, role of its color, words."""
    plan_states: dict[str, tuple[str, str, str]]
    """Status of the plan document → symbol, role of its color, words."""


WORDS: Final = msgspec.json.decode(Path(__file__).with_name("words.json").read_bytes(), type=Words)
