"""What a session's tools share: roots, shell, what the model has seen, modes and grants."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.domain import Answer, ApprovalMode, CommandOutcome, Grant, Mode, Running, Scope
from tui_agent.engine.approvals import Approvals
from tui_agent.engine.confining import Confining
from tui_agent.engine.stream import EventStream
from tui_agent.events import Notice
from tui_agent.safety.kept import CannotKeep
from tui_agent.safety.roots import Roots
from tui_agent.settings import Settings
from tui_agent.tools.base import ToolError
from tui_agent.workplan import PlanChange

if TYPE_CHECKING:
    from tui_agent.engine.keeping import Keeping
    from tui_agent.platform.cage import Confinement
    from tui_agent.shell.terminal import Terminal


class Workplace:
    """The part of a session that outlives a call. Tools reach it through their bench only."""

    def __init__(
        self,
        *,
        stream: EventStream,
        approvals: Approvals,
        roots: Roots,
        scratch: Path,
        settings: Settings,
        mode: Mode,
        approval_mode: ApprovalMode,
        attended: bool,
        grants: tuple[Grant, ...] = (),
        keep_grant: Callable[[Grant], None] | None = None,
    ) -> None:
        self.stream = stream
        self.approvals = approvals
        self.confining = Confining(settings, roots)
        """The sandbox for commands (A10)."""
        self.roots = roots
        self.scratch = scratch
        self.settings = settings
        self.mode = mode
        self.approval_mode = approval_mode
        self.attended = attended
        """True when somebody can answer a question."""
        self.grants = list(grants)
        self._keep_grant = keep_grant
        self.asking: dict[str, asyncio.Future[Answer | None]] = {}
        """Digest of what may be read → the answer that is waited for, so that it is asked for once (R4.7)."""
        self.propose: Callable[[PlanChange], str] | None = None
        """Takes proposals for the plan document; None where there is none."""
        self.keeping: Keeping | None = None
        """Keeps what edits replace, for undo; None where there is no undo."""
        self.acts = 0
        """How often anything was written or run, or the user said something: what calls see may be another since."""
        self.writes = 0
        """How often a file was written."""
        self._seen: dict[Path, str] = {}
        self._terminal: Terminal | None = None

    @property
    def workspace(self) -> Path:
        """The first root: where commands start."""
        return self.roots.folders[0]

    @property
    def _ground(self) -> tuple[Path, ...]:
        """Where commands may stand and read: the roots and the scratch folder (T6)."""
        return (*self.roots.folders, self.scratch)

    def saw(self, path: Path, sha256: str) -> None:
        """Remember the bytes that the model has seen of a file (R5.4)."""
        self._seen[path] = sha256

    def seen(self, path: Path) -> str | None:
        """The hash of a file as the model last saw it."""
        return self._seen.get(path)

    async def add_grant(self, grant: Grant) -> None:
        """A standing leave for this session; `always` ones are written to the user's own configuration."""
        self.grants.append(grant)
        if grant.scope is Scope.ALWAYS and self._keep_grant is not None:
            try:
                await asyncio.to_thread(self._keep_grant, grant)
            except CannotKeep as error:
                text = f"The grant holds for this session only: {error}"
                self.stream.emit(Notice(level="warning", text=text, code="grant.unkept"))

    async def judge(self, command: str, cwd: Path) -> Running:
        """The command rated, off the event loop (A1)."""
        from tui_agent.shell import unasked

        running = await asyncio.to_thread(
            unasked.judge, command, cwd, self._ground, self.roots.holds_credentials, self.roots.guards
        )
        if self._terminal is not None and (changed := self._terminal.env_changes()):
            import msgspec

            running = msgspec.structs.replace(running, env_changes=changed)
        return running

    async def run_command(
        self, action: Running, timeout: float, show: Callable[[str], None]
    ) -> CommandOutcome:
        """Run exactly `action`: as argv when it may run unasked, else in the session's shell (T2, R-12)."""
        confined = await self.confining.confinement(action, self.approval_mode)
        outcome = await self._run_in(action, timeout, show, confined)
        return await self.confining.told(outcome, confined)

    async def _run_in(
        self, action: Running, timeout: float, show: Callable[[str], None], confined: Confinement | None
    ) -> CommandOutcome:
        cwd = Path(action.cwd)
        if await asyncio.to_thread(os.path.realpath, cwd) != action.cwd:
            raise ToolError(f"The way to {cwd} leads elsewhere by now; call it again.", "changed")
        if action.unasked:
            from tui_agent.shell.argv import run_script
            from tui_agent.shell.unasked import script

            steps = await asyncio.to_thread(
                script, action.command, cwd, self._ground, self.roots.holds_credentials
            )
            if steps is None:
                raise ToolError("What this command names changed meanwhile; call it again.", "changed")
            return await run_script(
                steps,
                cwd=cwd,
                timeout=timeout,
                on_output=show,
                scratch=self.scratch,
                confinement=confined,
            )
        return await self._in_terminal(action.command, cwd, timeout, show, confined)

    async def run_own(self, command: str) -> CommandOutcome:
        """Run a command that the user typed with `!`: theirs, so nothing is asked (U5). Raises ToolError."""
        self.acts += 1
        return await self._in_terminal(command, self.shell_cwd(), self.settings.timeouts.command_max, None)

    async def _in_terminal(
        self,
        command: str,
        cwd: Path,
        timeout: float,
        show: Callable[[str], None] | None,
        confined: Confinement | None = None,
    ) -> CommandOutcome:
        from tui_agent.shell.terminal import CommandError, Terminal

        if self._terminal is None:
            self._terminal = Terminal(folder=self.workspace, roots=self.roots.folders, scratch=self.scratch)
        try:
            return await self._terminal.run(
                command, timeout=timeout, on_output=show, cwd=cwd, confinement=confined
            )
        except CommandError as error:
            raise ToolError(str(error), error.code) from error

    def shell_cwd(self) -> Path:
        """Where the session's shell stands; the workspace when that folder is gone."""
        cwd = self._terminal.cwd if self._terminal is not None else self.workspace
        return cwd if cwd.is_dir() else self.workspace

    async def close(self) -> None:
        """End the shell and every process it left."""
        if self._terminal is not None:
            await self._terminal.close()
            self._terminal = None
