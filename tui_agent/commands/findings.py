"""What doctor finds: one line each, in groups."""

from __future__ import annotations

from typing import Literal

from tui_agent.domain import Noun

State = Literal["ok", "note", "warn", "bad"]


class Finding(Noun, frozen=True, kw_only=True):
    """One thing that was looked at. `bad` stands in the way of work; `warn` makes it worse; `note` just is so."""

    group: str
    name: str
    state: State
    text: str
    advice: str = ""
    """What to do about it."""


class Findings:
    """Gathers findings of one group."""

    def __init__(self, group: str) -> None:
        self._group = group
        self.found: list[Finding] = []

    def add(self, state: State, name: str, text: str, advice: str = "") -> None:
        """One more."""
        self.found.append(Finding(group=self._group, name=name, state=state, text=text, advice=advice))
