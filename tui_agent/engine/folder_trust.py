"""Trust in the folders of an open session: asked for, given, revoked, and the settings that hold with it (A8, G1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import Answer, ApprovalMode, FolderTrustState, Mode, TrustAction
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.context.project import Project
from tui_agent.engine.context.trusted_contents import trusted_contents
from tui_agent.engine.core.approvals import Approvals, approval_events
from tui_agent.engine.core.shielded import end_tasks
from tui_agent.engine.core.stream import EventStream
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.events import Notice, TrustChanged
from tui_agent.events.session import Level
from tui_agent.platform.watching import file_stamp
from tui_agent.safety import trust as trust_store
from tui_agent.safety.decision_files import DecisionsNotSaved
from tui_agent.settings import LoadedSettings, tighten

log = logging.getLogger(__name__)

WATCH_INTERVAL = 2.0
"""Seconds between checks for what is on screen; every decision checks for itself."""


class SetModes(Protocol):
    """Changes the modes of a session."""

    def __call__(self, mode: str | None = None, approval_mode: str | None = None) -> Awaitable[None]:
        """Change the mode, the approval mode, or both."""
        ...


class FolderTrust:
    """The trust in a session's folders."""

    def __init__(
        self,
        stream: EventStream,
        approvals: Approvals,
        project: Project,
        environment: ToolEnvironment,
        *,
        loaded: LoadedSettings,
        own_settings: Callable[[], LoadedSettings],
        set_modes: SetModes,
    ) -> None:
        """`loaded` are the settings in effect; `own_settings` loads them without those of the workspace."""
        self.settings = loaded
        self._stream = stream
        self._approvals = approvals
        self._project = project
        self._environment = environment
        self._own_settings = own_settings
        self._set_modes = set_modes
        self._saved = project.trusted and trust_store.is_trusted(project.workspace)
        self._question: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._refreshing = asyncio.Lock()
        self._stamps = self._files()
        self._mode_before: ApprovalMode | None = None
        """The approval mode to return to when the workspace is trusted again."""
        environment.refresh_trust = self.refresh

    # --- asking and answering ---

    @property
    def question(self) -> asyncio.Task[None] | None:
        """The open question at the start; runs wait for its end."""
        return self._question

    def start(self) -> None:
        """Ask whether the workspace is trusted, if it is not, and watch for changes."""
        if not self._project.trusted:
            self._question = asyncio.create_task(self._ask_first())
        self._watch = asyncio.create_task(self._keep_current())

    async def close(self) -> None:
        """Withdraw the question and end the watch."""
        await end_tasks(self._question, self._watch)

    async def _ask_first(self) -> None:
        if not await self.ask(str(self._project.workspace), "a folder seen for the first time"):
            await self._restrict()

    async def ask(self, folder: str, why: str = "") -> bool:
        """Ask the user about a folder of the workspace, with what it contains; return whether it is trusted now."""
        contents, risks = await asyncio.to_thread(self._describe, Path(folder))
        action = TrustAction(folder=folder, contents=contents, risks=risks)
        try:
            answer = await self._approvals.decide(*approval_events(action, why), run="", node="")
        except JournalBroken as error:
            log.error("the question about trust could not be saved: %s", error)
            answer = Answer(verdict="withdrawn", by="nothing can be saved")
        if answer.verdict != "approve":
            return False
        await self._give(Path(folder))
        return True

    async def revoke(self, folder: str) -> bool:
        """Trust a folder of the workspace no longer, from now on; False if it was not trusted."""
        path = Path(folder)
        was_trusted = (await asyncio.to_thread(self._state, path)).trusted
        try:
            await asyncio.to_thread(trust_store.revoke, path)
        except DecisionsNotSaved as error:
            self._notify("warning", f"Trust is revoked for this session only: {error}", "trust.kept")
        if path == self._project.workspace and self._project.trusted:
            await self._stop_obeying("Trust revoked")
        elif was_trusted:
            self._notify("info", f"Trust revoked: {folder}. {_KEPT}", "trust.revoked")
        return was_trusted

    async def states(self) -> tuple[FolderTrustState, ...]:
        """Return the trust in each folder of the workspace."""
        return tuple([await asyncio.to_thread(self._state, folder) for _, folder in self._project.folders])

    def _state(self, folder: Path) -> FolderTrustState:
        entry = trust_store.find_trust(folder)
        trusted = self._project.trusted if folder == self._project.workspace else entry is not None
        contents, risks = self._describe(folder)
        return FolderTrustState(
            folder=str(folder),
            trusted=trusted,
            since=entry.since if entry is not None and trusted else "",
            through=entry.folder if entry is not None and trusted and entry.folder != str(folder) else "",
            contents=contents,
            risks=risks,
        )

    def _describe(self, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return trusted_contents(folder, self._environment.settings), trust_store.folder_risks(folder)

    # --- what follows ---

    async def _give(self, folder: Path) -> None:
        saved = True
        try:
            await asyncio.to_thread(trust_store.trust, folder)
        except DecisionsNotSaved as error:
            saved = False
            self._notify("warning", f"Trusted for this session only: {error}", "trust.unkept")
        if folder != self._project.workspace:
            return
        async with self._refreshing:
            self._saved = saved
            self._stamps = await asyncio.to_thread(self._files)
            before, self._mode_before = self._mode_before, None
            is_unchanged = self._environment.approval_mode is ApprovalMode.READ_ONLY
            await self._tighten(before if is_unchanged else None)
            self._project.set_trusted(True)
            self._stream.emit(TrustChanged(trusted=True))

    async def refresh(self) -> None:
        """Apply changes of the workspace's settings file, and a revocation by another process. Does not raise."""
        if not self._project.trusted:
            return
        async with self._refreshing:
            stamps = await asyncio.to_thread(self._files)
            if stamps == self._stamps or not self._project.trusted:
                return
            self._stamps = stamps
            if self._saved and not await asyncio.to_thread(trust_store.is_trusted, self._project.workspace):
                await self._stop_obeying("Trust was revoked elsewhere")
            else:
                await self._tighten(None)

    def _files(self) -> object:
        return file_stamp(paths.trust_file()), file_stamp(paths.workspace_settings_file(self._project.workspace))

    async def _keep_current(self) -> None:
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            await self.refresh()

    async def _tighten(self, restored: ApprovalMode | None) -> None:
        """Apply the workspace's settings as far as they are stricter, from the approval mode `restored` if given."""
        file = paths.workspace_settings_file(self._project.workspace)
        before, environment = self.settings, self._environment
        modes = {"mode": environment.mode.value, "approval_mode": (restored or environment.approval_mode).value}
        live = msgspec.structs.replace(before, settings=before.settings.model_copy(update=modes))
        after = await asyncio.to_thread(tighten, live, file)
        changed = [name for name in after.sources if _value(after, name) != _value(live, name)]
        unchanged_modes = {name: getattr(before.settings, name) for name in modes if name not in changed}
        self.settings = msgspec.structs.replace(after, settings=after.settings.model_copy(update=unchanged_modes))
        await environment.apply_settings(self.settings.settings)
        mode, approval_mode = Mode(after.settings.mode), ApprovalMode(after.settings.approval_mode)
        if (mode, approval_mode) != (environment.mode, environment.approval_mode):
            await self._set_modes(mode, approval_mode)
        if changed:
            values = ", ".join(f"{name}: {_shown(_value(after, name))}" for name in changed)
            text = f"{file.name} of this folder now holds, being stricter: {values}. Tools and limits change with the"
            self._notify("info", f"{text} next message.", "trust.settings")
        for problem in after.problems:
            if problem not in before.problems:
                self._notify("warning", str(problem), "trust.settings")

    async def _stop_obeying(self, why: str) -> None:
        self._project.set_trusted(False)
        self._stream.emit(TrustChanged(trusted=False))
        self._mode_before = self._environment.approval_mode
        await self._restrict()
        self.settings = await asyncio.to_thread(self._own_settings)
        await self._environment.apply_settings(self.settings.settings)
        text = f"{why}: this folder's rules, settings, git data and language servers are no longer used. The session "
        self._notify("info", f"{text}is read-only now. {_KEPT}", "trust.revoked")

    async def _restrict(self) -> None:
        """Make the session read-only."""
        if self._environment.approval_mode is not ApprovalMode.READ_ONLY:
            self._mode_before = self._environment.approval_mode
            await self._set_modes(approval_mode=ApprovalMode.READ_ONLY)

    def _notify(self, level: Level, text: str, code: str) -> None:
        self._stream.emit(Notice(level=level, text=text, code=code))


_KEPT = "What the model has read stays in the conversation; /clear removes it."


def _value(loaded: LoadedSettings, name: str) -> object:
    value: object = loaded.settings
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, list | tuple | dict) else str(value)
