"""The user's choice of how much the session's models reason before they answer (L5)."""

from __future__ import annotations

from tui_agent.common.domain import EFFORT_LEVELS
from tui_agent.common.suggestions import unknown_name
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.models.choice import CHOICES
from tui_agent.engine.models.roles import ModelRoles
from tui_agent.events import EffortChanged
from tui_agent.text import clean, one_line

EFFORT_USAGE = f"/effort {'|'.join(EFFORT_LEVELS)}, or /effort ROLE LEVEL for {', '.join(CHOICES)}"
_ALIASES = {"subagents": "explorer"}
"""Other names of roles."""


class EffortChoice:
    """Reads and changes the effort. Every choice is an event, so a resume keeps it; the next request uses it."""

    def __init__(self, roles: ModelRoles, stream: SessionStream) -> None:
        self._roles = roles
        self._stream = stream
        roles.efforts.update(stream.state.efforts)

    @property
    def next_level(self) -> str:
        """The level after the one that was chosen, or else is in effect; after the last one comes `default`."""
        current = self._roles.efforts.get("") or self._roles.effort  # the effect of `default` may be another level
        position = EFFORT_LEVELS.index(current) if current in EFFORT_LEVELS else 0
        return EFFORT_LEVELS[(position + 1) % len(EFFORT_LEVELS)]

    def choose(self, argument: str) -> str:
        """Set the effort to `LEVEL` for the session, or to `ROLE LEVEL` for a role.

        Returns why that is impossible, or an empty string. Raises JournalBroken.
        """
        words = clean(argument).lower().split()
        if not words:
            return EFFORT_USAGE
        role, level = ("", words[0]) if len(words) == 1 else (_ALIASES.get(words[0], words[0]), " ".join(words[1:]))
        if role and role not in CHOICES:
            return unknown_name("role", one_line(role, 40), CHOICES)
        if level not in EFFORT_LEVELS:
            return unknown_name("effort", one_line(level, 40), EFFORT_LEVELS)
        if not role and self._cannot_reason():
            return f"{one_line(self._roles.name, 60)} can't reason before it answers: there is no effort to choose"
        self._roles.efforts[role] = level
        self._stream.emit(EffortChanged(role=role, effort=level, effective=self._roles.effort))
        return ""

    def described(self, argument: str) -> str:
        """Return what is in effect after `choose(argument)`, for the user."""
        if " " in argument.strip():
            return f"effort for {one_line(argument, 60)}, from the next request on"
        return f"effort {self._roles.effort or 'default'}, from the next request on"

    def listed(self) -> str:
        """Return the effort in effect, and the roles for which another one was chosen."""
        if self._cannot_reason():
            return f"{one_line(self._roles.name, 60)} can't reason before it answers"
        chosen = [f"{role} {level}" for role, level in self._roles.efforts.items() if role]
        return " · ".join([f"effort {self._roles.effort or 'default'}", *chosen])

    def _cannot_reason(self) -> bool:
        capabilities = self._roles.capabilities()
        return capabilities is not None and "thinking" not in capabilities
