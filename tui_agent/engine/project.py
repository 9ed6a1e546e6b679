"""The workspace as the agent knows it: whether it is trusted, and the rules found in it."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from pathlib import Path

from tui_agent import paths
from tui_agent.domain import ApprovalMode, Mode
from tui_agent.engine.context import agent_rules, system_text
from tui_agent.events import Notice
from tui_agent.safety import trust as trust_store
from tui_agent.safety.kept import CannotKeep


class Project:
    """Nothing of the folder is interpreted before it is trusted (A8, R-01)."""

    def __init__(self, workspace: Path, *, trusted: bool, tell: Callable[[Notice], object]) -> None:
        self.workspace = workspace
        self.trusted = trusted
        self._tell = tell
        self._rules: list[str] | None = None

    async def trust(self) -> None:
        """Remember the folder by its real path and read its rules from now on."""
        try:
            await asyncio.to_thread(trust_store.trust, self.workspace)
        except CannotKeep as error:
            self._tell(
                Notice(level="warning", text=f"Trusted for this session only: {error}", code="trust.unkept")
            )
        self.trusted = True
        self._rules = None
        if await asyncio.to_thread(paths.workspace_settings_file(self.workspace).exists):
            text = "The folder has settings of its own; they hold from the next start on."
            self._tell(Notice(level="warning", text=text, code="trust.settings"))

    async def system(self, mode: Mode, approval_mode: ApprovalMode, model_prompt: str = "") -> str:
        """The system message of the next requests; its text stays the same from run to run where nothing changed.

        `model_prompt`: what models.json has to tell the model.
        """
        if self._rules is None:
            texts, warnings = await asyncio.to_thread(
                agent_rules, paths.agents_file(), self.workspace, self.workspace, self.trusted
            )
            self._rules = texts
            for warning in warnings:
                self._tell(Notice(level="warning", text=warning, code="rules.unread"))
        return system_text(
            self._rules,
            mode=mode,
            reads_only=approval_mode is ApprovalMode.READ_ONLY,
            workspace=self.workspace,
            date=dt.date.today().isoformat(),
            model_prompt=model_prompt,
        )


def offer_rules() -> Notice | None:
    """The offer to write ~/AGENTS.md from a template, made once in a lifetime (H1). Does file IO."""
    mark = paths.data_dir() / "rules-offered"
    try:
        if paths.agents_file().exists() or mark.exists():
            return None
        paths.ensure_private_dir(mark.parent)
        mark.touch(mode=0o600)
    except OSError:
        return None
    text = (
        "You have no ~/AGENTS.md yet, the built-in rules hold. `tui-agent rules` writes one for you to edit."
    )
    return Notice(level="info", text=text, code="rules.offer")
