"""The workspace as the agent knows it: whether it is trusted, the rules found in it, and what kind of project it is."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tui_agent import paths
from tui_agent.domain import ApprovalMode, Mode
from tui_agent.engine.agent_files import AgentFile, Ground, above_in_repository, gather, unchanged
from tui_agent.engine.context import system_text, where_text
from tui_agent.engine.nested_rules import NestedRules
from tui_agent.events import Notice
from tui_agent.safety import trust as trust_store
from tui_agent.safety.kept import CannotKeep
from tui_agent.safety.roots import Roots

if TYPE_CHECKING:
    from tui_agent.engine.discovery import Found


class Project:
    """Nothing of a folder is interpreted before it is trusted (A8, R-01)."""

    def __init__(self, workspace: Path, *, trusted: bool, tell: Callable[[Notice], object]) -> None:
        self.workspace = workspace
        self.trusted = trusted
        self._tell = tell
        self._roots: Roots | None = None
        self._files: tuple[AgentFile, ...] | None = None
        self._found: dict[Path, Found] = {}
        self._said: set[str] = set()
        self._settling = asyncio.Lock()
        self.nested = NestedRules(self.grounds, self._tell_nested)
        """The rules of folders below."""

    def settle(self, roots: Roots) -> None:
        """Take in what the workspace's folders are; without that it is the workspace alone."""
        self._roots = roots

    async def trust(self) -> None:
        """Remember the folder by its real path and read its rules from now on."""
        try:
            await asyncio.to_thread(trust_store.trust, self.workspace)
        except CannotKeep as error:
            self._tell(
                Notice(level="warning", text=f"Trusted for this session only: {error}", code="trust.unkept")
            )
        self.trusted = True
        self._files = None
        if await asyncio.to_thread(paths.workspace_settings_file(self.workspace).exists):
            text = "The folder has settings of its own; they hold from the next start on."
            self._tell(Notice(level="warning", text=text, code="trust.settings"))

    @property
    def folders(self) -> tuple[tuple[str, Path], ...]:
        """The workspace's folders with the names that paths begin with; a single one has none."""
        if self._roots is None or len(self._roots.folders) == 1:
            return (("", self.workspace),)
        return tuple(zip(self._roots.names, self._roots.folders, strict=True))

    def grounds(self) -> list[Ground]:
        """Those that are trusted, each with the trusted folders above it in its repository. Does file IO."""
        found: list[Ground] = []
        for name, folder in self.folders:
            own = folder == self.workspace
            if not (self.trusted if own else trust_store.is_trusted(folder)):
                continue
            above = above_in_repository(folder)
            found.append(Ground(folder, name, tuple(one for one in above if trust_store.is_trusted(one))))
        return found

    async def system(
        self,
        mode: Mode,
        approval_mode: ApprovalMode,
        model_prompt: str = "",
        role: str = "",
        window: int | None = None,
    ) -> str:
        """The system message of the next requests; its text stays the same from run to run where nothing changed.

        `model_prompt`: what models.json has to tell the model. `role`: who is told, see modes.py. `window`: tokens.
        """
        async with self._settling:
            files, found = await self._rules(), await self._discovered()
        from tui_agent.engine.discovery import text_for
        from tui_agent.engine.modes import FILES, ORCHESTRATOR

        leads = role in (
            ORCHESTRATOR,
            FILES,
        )  # it sends others to look (T5); it gets the files themselves (E5)
        return system_text(
            [one.told for one in files if one.text],
            mode=mode,
            reads_only=approval_mode is ApprovalMode.READ_ONLY,
            where="" if role == FILES else where_text(self.folders, dt.date.today().isoformat()),
            project="" if leads else text_for(found, window),
            model_prompt=model_prompt,
            role=role,
        )

    async def _rules(self) -> tuple[AgentFile, ...]:
        """The AGENTS.md files that hold for all paths, read again where one changed (R29.1)."""
        if self._files is None or not await asyncio.to_thread(unchanged, self._files):
            grounds = await asyncio.to_thread(self.grounds)
            self._warn_untrusted([ground.folder for ground in grounds])
            self._files = await asyncio.to_thread(gather, paths.agents_file(), grounds)
            for one in self._files:
                self._warn(one)
            self._list(self._files)
        return self._files

    async def _discovered(self) -> tuple[tuple[str, Found], ...]:
        """What kind of project each trusted folder holds, as it was found first (H3)."""
        grounds = await asyncio.to_thread(self.grounds)
        new = [ground.folder for ground in grounds if ground.folder not in self._found]
        if new:
            from tui_agent.engine.discovery import discover  # not before the first message

            roots = tuple(folder for _, folder in self.folders)
            for folder, found in zip(
                new, await asyncio.gather(*(discover(one, roots) for one in new)), strict=True
            ):
                self._found[folder] = found
        return tuple((ground.name, self._found[ground.folder]) for ground in grounds)

    # --- what the user is told ---

    def _list(self, files: Sequence[AgentFile]) -> None:
        used = [f"{_name(one)} ({_tokens(one.text):,} tokens)" for one in files if one.text]
        self._say("info", f"Rules in use: {', '.join(used)}.", "rules.loaded") if used else None

    def _tell_nested(self, file: AgentFile) -> None:
        self._warn(file)
        if file.text:
            text = f"Rules of a folder, from here on: {_name(file)} ({_tokens(file.text):,} tokens)."
            self._say("info", text, "rules.nested")

    def _warn(self, file: AgentFile) -> None:
        if file.warning:
            self._say("warning", file.warning, "rules.unread")

    def _warn_untrusted(self, trusted: Sequence[Path]) -> None:
        for _, folder in self.folders:
            if folder != self.workspace and folder not in trusted:
                text = (
                    f"{folder} is not trusted: its AGENTS.md and its git status are not read. "
                    "Start tui-agent in it once to trust it."
                )
                self._say("info", text, "trust.root")

    def _say(self, level: Literal["info", "warning"], text: str, code: str) -> None:
        """Tell, once."""
        if text not in self._said:
            self._said.add(text)
            self._tell(Notice(level=level, text=text, code=code))


def _name(file: AgentFile) -> str:
    return "~/AGENTS.md" if file.source == "the user" else file.source


def _tokens(text: str) -> int:
    from tui_agent.engine.tokens import Gauge, count

    return Gauge().tokens(count(text))


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
