"""Display texts and symbols for names that the engine reports, from `words.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables of `words.json`."""

    call_symbols: dict[str, tuple[str, str]]
    """Status of a call → its symbol, and the role of its color."""
    not_done: dict[str, str]
    """Status of a call or step that was not done → the word shown for it."""
    call_verbs: dict[str, str]
    """Tool → verb for its calls."""
    call_kinds: dict[str, str]
    """Tool → kind of its calls."""
    batches: dict[str, tuple[str, str, str]]
    """Kind of calls → title of a batch while it runs, title afterwards, plural noun for its objects."""
    phases: dict[str, str]
    """Phase of a run → description."""
    approvals: dict[str, str]
    """Approval mode → what needs no approval."""
    sandboxes: dict[str, str]
    """Sandbox → description."""
    endings: dict[str, tuple[str, str, str]]
    """Outcome of a run → symbol, role of its color, text."""
    plan_places: dict[str, str]
    """Section of the plan document → its name in the middle of a sentence."""
    conflict_outcomes: dict[str, str]
    """Choice in a plan conflict → description."""
    step_states: dict[str, tuple[str, str]]
    """Outcome of a step → symbol and role of its color."""
    summary_states: dict[str, tuple[str, str, str]]
    """Outcome of a summary → symbol, role of its color, text."""


WORDS: Final = msgspec.json.decode(Path(__file__).with_name("words.json").read_bytes(), type=Words)
