"""Which commands run in the sandbox, and what is told of it (A10, R-19)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import msgspec

from tui_agent.domain import ApprovalMode, CommandOutcome, Running
from tui_agent.safety.roots import Roots
from tui_agent.safety.sandbox import NONE, Confined, Sandbox
from tui_agent.settings import Settings
from tui_agent.tools.base import ToolError

_DENIED = re.compile(
    r"Permission denied|Read-only file system|not permitted|Device or resource busy|EACCES|EROFS|EPERM|"
    r"[Cc]onnection refused|[Nn]etwork is unreachable|resolve host|[Nn]ame resolution|Name or service not known"
)


class Confining:
    """The session's sandbox: for commands of the auto modes and those that run unasked, or for all (`required`)."""

    def __init__(self, settings: Settings, roots: Roots, sandbox: Sandbox = NONE) -> None:
        self._settings = settings
        self._roots = roots
        self.sandbox = sandbox
        self._known: dict[tuple[str, bool], bool] = {}

    def wants(self, action: Running, mode: ApprovalMode) -> bool:
        """Whether a command of the model runs in the sandbox."""
        if self.sandbox.kind == "none" or self._settings.sandbox == "off":
            return False
        auto = mode in (ApprovalMode.AUTO_EDIT, ApprovalMode.AUTO)
        return self._settings.sandbox == "required" or auto or action.unasked

    def holds(self, action: Running, mode: ApprovalMode) -> bool:
        """The same for a sandbox that denies all it should: what `auto_approve_high` asks for (A4)."""
        return self.sandbox.whole and self.wants(action, mode)

    async def confinement(self, action: Running, mode: ApprovalMode) -> Confined | None:
        """None for a command that runs without. Raises ToolError where the settings demand what is not there (G14)."""
        if self._settings.sandbox == "required" and self.sandbox.kind == "none":
            raise ToolError("The settings demand a sandbox for commands, and there is none here.", "refused")
        if not self.wants(action, mode):
            return None
        network = self._settings.sandbox_network and not action.unasked
        return await asyncio.to_thread(
            Confined,
            self.sandbox,
            self._roots,
            writes=not action.unasked,
            network=network,
            known=self._known,
        )

    async def told(self, outcome: CommandOutcome, confined: Confined | None) -> CommandOutcome:
        """With a note where the sandbox may be why it failed, or where the command made something protected."""
        if confined is None:
            return outcome
        notes = [outcome.note] if outcome.note else []
        if made := await asyncio.to_thread(confined.appeared):
            names = ", ".join(self._roots.display(Path(path)) for path in made)
            notes.append(f"The command made what only the user may make: {names}. Tell them.")
        if outcome.exit_code and _DENIED.search(outcome.output):
            network = "" if self._settings.sandbox_network else " and network access"
            notes.append(
                f"It ran in a sandbox ({self.sandbox.shown}): writing outside the workspace or to protected files"
                f"{network} is denied. If it must, say so to the user."
            )
        return msgspec.structs.replace(outcome, note="\n".join(notes))
