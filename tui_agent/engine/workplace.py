"""What a session's tools share: roots, shell, what the model has seen, modes and grants."""

from __future__ import annotations

import asyncio
import copy
import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.domain import (
    Action,
    Answer,
    ApprovalMode,
    CommandOutcome,
    Grant,
    Mode,
    Running,
    Scope,
    ToolResult,
)
from tui_agent.engine.approvals import Approvals
from tui_agent.engine.code_intelligence import CodeIntelligence
from tui_agent.engine.confining import Confining
from tui_agent.events import Notice
from tui_agent.safety.kept import CannotKeep
from tui_agent.safety.roots import Roots
from tui_agent.settings import Settings
from tui_agent.text import one_line
from tui_agent.tools.base import Errand, ToolError
from tui_agent.workplan import PlanChange

if TYPE_CHECKING:
    from tui_agent.engine.emitting import Remembering
    from tui_agent.engine.keeping import Keeping
    from tui_agent.engine.nested_rules import NestedRules
    from tui_agent.engine.session_branch import SessionBranch
    from tui_agent.platform.cage import Confinement
    from tui_agent.platform.capture import Kept
    from tui_agent.safety.policy import Verdict
    from tui_agent.shell.jobs import Job
    from tui_agent.shell.terminal import Terminal


class Workplace:
    """The part of a session that outlives a call. Tools reach it through their bench only."""

    branch: SessionBranch | None = None
    """Makes the session's git branch (W19); None where none is wanted."""

    def __init__(
        self,
        *,
        stream: Remembering,
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
        self.reads_git: Callable[[], bool] = lambda: False
        """Whether git may read the folder's repositories: it is trusted (A8)."""
        self.delegate: Callable[[Errand, str, str], Awaitable[ToolResult]] | None = None
        """Sends a sub-agent on an errand for a run and a call of it (T5); None where none may be started."""
        self.attach: Callable[[str], Awaitable[None]] | None = None
        """Attaches what the newest messages of a run mention (H7); None where nothing is attached."""
        self.rules: NestedRules | None = None
        """The rules of folders below the roots (H1)."""
        self.code = CodeIntelligence(settings, roots, stream.emit)
        """What language servers know (T3)."""
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

    def aside(self, stream: Remembering, mode: Mode) -> Workplace:
        """A place beside this one where nothing is written, nobody is asked, and another one sees (T5)."""
        place = copy.copy(self)
        place.stream, place.mode, place.approval_mode = stream, mode, ApprovalMode.READ_ONLY
        place.attended, place.grants, place.asking, place._seen = False, [], {}, {}
        place.propose = place.delegate = place.attach = None
        return place

    async def before_change(self, run: str) -> None:
        """Called before a file is written or a command runs that may write one."""
        if self.branch is not None and self.reads_git():
            await self.branch.before_change(run)

    def saw(self, path: Path, sha256: str) -> None:
        """Remember the bytes that the model has seen of a file (R5.4)."""
        self._seen.pop(path, None)
        self._seen[path] = sha256

    def recent(self) -> list[Path]:
        """The files that the model has seen, the latest first (H7)."""
        return list(reversed(self._seen))

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
        if self.mode is Mode.REVIEW and self.reads_git():
            import msgspec

            reads = await asyncio.to_thread(self._git, running) is not None
            running = msgspec.structs.replace(running, unasked=running.unasked or reads)
        if self._terminal is not None and (changed := self._terminal.env_changes()):
            import msgspec

            running = msgspec.structs.replace(running, env_changes=changed)
        return running

    def _git(self, running: Running) -> tuple[str, ...] | None:
        """The arguments of a git command that only reads the workspace; None for every other one."""
        from tui_agent.shell import reading_git

        cwd = Path(running.cwd)
        if not any(cwd.is_relative_to(folder) for folder in self.roots.folders):
            return None
        return reading_git.arguments(running.command, lambda path: self.roots.holds_credentials(cwd / path))

    def output_file(self) -> Path:
        """A name for the file with all of an output, which is made only when that is long (R17.1)."""
        return self.scratch / f"output-{secrets.token_hex(4)}.txt"

    async def run_command(
        self, action: Running, timeout: float, show: Callable[[str], None], file: Path | None = None
    ) -> CommandOutcome:
        """Run exactly `action`: as argv when it may run unasked, else in the session's shell (T2, R-12). `file` is for
        all of its output."""
        confined = await self.confining.confinement(action, self.approval_mode)
        outcome = await self._run_in(action, timeout, show, self._kept(file), confined)
        return await self.confining.told(outcome, confined)

    def _kept(self, file: Path | None = None) -> Kept:
        from tui_agent.platform.capture import Kept

        caps = self.settings.caps
        return Kept(file or self.output_file(), (caps.head_lines, caps.tail_lines))

    async def _run_in(
        self,
        action: Running,
        timeout: float,
        show: Callable[[str], None],
        kept: Kept,
        confined: Confinement | None,
    ) -> CommandOutcome:
        cwd = Path(action.cwd)
        if await asyncio.to_thread(os.path.realpath, cwd) != action.cwd:
            raise ToolError(f"The way to {cwd} leads elsewhere by now; call it again.", "changed")
        if action.unasked and (git := await asyncio.to_thread(self._git, action)) is not None:
            from tui_agent.shell import reading_git

            folders = self.roots.folders
            return await reading_git.run(
                git, cwd=cwd, folders=folders, timeout=timeout, on_output=show, kept=kept
            )
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
                kept=kept,
                confinement=confined,
            )
        return await self._in_terminal(action.command, cwd, timeout, show, kept, confined)

    async def run_own(self, command: str) -> CommandOutcome:
        """Run a command that the user typed with `!`: theirs, so nothing is asked (U5). Raises ToolError."""
        self.acts += 1
        limit = self.settings.timeouts.command_max
        return await self._in_terminal(command, self.shell_cwd(), limit, None, self._kept())

    async def _in_terminal(
        self,
        command: str,
        cwd: Path,
        timeout: float,
        show: Callable[[str], None] | None,
        kept: Kept,
        confined: Confinement | None = None,
    ) -> CommandOutcome:
        from tui_agent.shell.terminal import CommandError, Terminal

        if self._terminal is None:
            self._terminal = Terminal(folder=self.workspace, roots=self.roots.folders, scratch=self.scratch)
        before = {job.id for job in self._terminal.jobs()}
        try:
            outcome = await self._terminal.run(
                command, timeout=timeout, on_output=show, cwd=cwd, kept=kept, confinement=confined
            )
        except CommandError as error:
            raise ToolError(str(error), error.code) from error
        for job in (
            self._terminal.jobs() if self._terminal is not None else ()
        ):  # none when we were closed meanwhile
            if job.id not in before:
                self._tell_left(job)
        return outcome

    def _tell_left(self, job: Job) -> None:
        """The user hears of what goes on running, not the model alone (R6.6)."""
        pids = " ".join(map(str, job.pids[:10]))
        text = f"Still running: {one_line(job.program, 200)}. It ends with the session; `!kill {pids}` ends it now."
        self.stream.emit(Notice(level="info", text=text, code="command.left"))

    def verdict(self, action: Action) -> Verdict:
        """Whether an action runs, is asked for or is refused here, by mode, approval mode, settings and grants."""
        from tui_agent.safety.policy import judge

        return judge(
            action,
            mode=self.mode,
            approval_mode=self.approval_mode,
            settings=self.settings,
            grants=tuple(self.grants),
            sandboxed=isinstance(action, Running) and self.confining.holds(action, self.approval_mode),
        )

    def shell_cwd(self) -> Path:
        """Where the session's shell stands; the workspace when that folder is gone."""
        cwd = self._terminal.cwd if self._terminal is not None else self.workspace
        return cwd if cwd.is_dir() else self.workspace

    async def close(self) -> None:
        """End the shell, every process it left, and the language servers."""
        try:
            if self._terminal is not None:
                await self._terminal.close()
                self._terminal = None
        finally:
            await self.code.close()
