"""What the tools of a session share: roots, shell, sandbox, grants, modes, and what the model has seen."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import os
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tui_agent.common.domain import (
    Action,
    Answer,
    ApprovalMode,
    CommandOutcome,
    EditAction,
    Grant,
    Mode,
    RunAction,
    Scope,
)
from tui_agent.common.workplan import PlanChange
from tui_agent.engine.core.approvals import Approvals
from tui_agent.engine.core.history import RULES
from tui_agent.engine.core.stream import EventSink
from tui_agent.engine.host.code_intelligence import CodeIntelligence
from tui_agent.events import GrantRevoked, Notice, ProgramMessageAdded
from tui_agent.platform.git import Git, branch_of
from tui_agent.safety.decision_files import DecisionsNotSaved
from tui_agent.safety.policy import Verdict, judge, revoke_grant, save_grant
from tui_agent.safety.roots import Roots
from tui_agent.safety.sandbox import ConfinedCommand, Sandbox
from tui_agent.settings import Settings
from tui_agent.text import one_line
from tui_agent.tools.base import ToolError

if TYPE_CHECKING:
    from tui_agent.engine.context.project import NestedRules
    from tui_agent.engine.core.stream import StatefulStream
    from tui_agent.engine.host.snapshots import Snapshots
    from tui_agent.platform.output import OutputOptions
    from tui_agent.platform.proc import Confinement
    from tui_agent.shell.terminal import Job, ShellSession

_DENIED = re.compile(
    r"Permission denied|Read-only file system|not permitted|Device or resource busy|EACCES|EROFS|EPERM|"
    r"[Cc]onnection refused|[Nn]etwork is unreachable|resolve host|[Nn]ame resolution|Name or service not known"
)


class SandboxPolicy:
    """The session's sandbox: for commands of the auto modes and those that run unasked, or for all (`required`)."""

    def __init__(self, settings: Settings, roots: Roots, sandbox: Sandbox) -> None:
        self._settings = settings
        self._roots = roots
        self.sandbox = sandbox
        self._known: dict[tuple[str, bool], bool] = {}

    def wants(self, action: RunAction, mode: ApprovalMode) -> bool:
        """Whether a command of the model runs in the sandbox."""
        if self.sandbox.kind == "none" or self._settings.sandbox == "off":
            return False
        auto = mode in (ApprovalMode.AUTO_EDIT, ApprovalMode.AUTO)
        return self._settings.sandbox == "required" or auto or action.safe

    def holds(self, action: RunAction, mode: ApprovalMode) -> bool:
        """The same for a sandbox that denies all it should: what `auto_approve_high` asks for (A4)."""
        return self.sandbox.is_complete and self.wants(action, mode)

    async def confinement(self, action: RunAction, mode: ApprovalMode) -> ConfinedCommand | None:
        """None for a command that runs without. Raises ToolError where the settings demand what is not there."""
        if self._settings.sandbox == "required" and self.sandbox.kind == "none":
            raise ToolError("The settings demand a sandbox for commands, and there is none here.", "refused")
        if not self.wants(action, mode):
            return None
        network = self._settings.sandbox_network and not action.safe
        return await asyncio.to_thread(
            ConfinedCommand, self.sandbox, self._roots, writes=not action.safe, network=network, cache=self._known
        )

    async def with_notes(self, outcome: CommandOutcome, confined: ConfinedCommand | None) -> CommandOutcome:
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
                f"It ran in a sandbox ({self.sandbox.label}): writing outside the workspace or to protected files"
                f"{network} is denied. If it must, say so to the user."
            )
        return msgspec.structs.replace(outcome, note="\n".join(notes))


class GrantStore:
    """The standing approvals of a session: for it alone, and for every session in this workspace."""

    def __init__(self, stream: EventSink, workspace: Path, grants: Iterable[Grant] = ()) -> None:
        self._stream = stream
        self._workspace = workspace
        self._grants = list(dict.fromkeys(grants))

    def listed(self) -> tuple[Grant, ...]:
        """Every grant once, in the order in which they were given."""
        return tuple(self._grants)

    async def add(self, grant: Grant) -> None:
        """Add a grant; `always` ones are written to the user's own configuration."""
        if grant not in self._grants:
            self._grants.append(grant)
        if grant.scope is Scope.ALWAYS:
            try:
                await asyncio.to_thread(save_grant, self._workspace, grant)
            except DecisionsNotSaved as error:
                self._warn(f"The permission is valid for this session only: {error}", "grant.unkept")

    async def revoke(self, grant: Grant) -> bool:
        """Remove a grant: from now on it is asked again. False when there is no such grant, or it stays on disk.

        One that can't be removed from the file no longer holds in this session; a notice says that it is still there.
        """
        if grant not in self._grants:
            return False
        self._grants.remove(grant)
        self._stream.emit(GrantRevoked(grant=grant))
        if grant.scope is Scope.ALWAYS:
            try:
                await asyncio.to_thread(revoke_grant, self._workspace, grant)
            except (DecisionsNotSaved, ValueError) as error:
                self._warn(f"The rule is revoked for this session only: {error}", "grant.kept")
                return False
        return True

    def _warn(self, text: str, code: str) -> None:
        self._stream.emit(Notice(level="warning", text=text, code=code))


LOW = 16 << 20
"""Bytes free on a disk below which it is said."""


class WorkspaceHealth:
    """Looks at `folders`; tells once of each that is gone, and of each disk that is nearly full."""

    def __init__(self, folders: Sequence[Path], tell: Callable[[Notice], object]) -> None:
        self._folders = tuple(folders)
        self._tell = tell
        self._told: set[str] = set()

    async def look(self) -> None:
        """Look now, off the event loop. Raises nothing."""
        found = await asyncio.to_thread(_troubles, self._folders)
        for text, notice in found.items():
            if text not in self._told:
                self._tell(notice)
        self._told = set(found)


def _troubles(folders: Sequence[Path]) -> dict[str, Notice]:
    """What is wrong, by what tells it from other trouble."""
    found: dict[str, Notice] = {}
    for folder in folders:
        try:
            device, room = os.stat(folder).st_dev, os.statvfs(folder)
        except OSError as error:
            text = f"The folder {folder} can't be reached: {error.strerror}. Nothing can be read or written there."
            found[f"gone {folder}"] = Notice(level="error", text=text, code="folder.gone")
            continue
        free = room.f_bavail * room.f_frsize
        if free < LOW:
            left = f"{free / (1 << 20):,.1f} MiB are free"
            text = f"The disk of {folder} is nearly full: {left}. New data may not be saved."
            found.setdefault(f"full {device}", Notice(level="warning", text=text, code="disk.full"))
    return found


PREFIX = "tui-agent/"
"""What the names of such branches begin with."""
SLUG_MAX = 40
"""Characters of the rest."""
SAME = 20
"""Branches of the same name, told apart by numbers."""
SECONDS = 5.0
"""For one call of git."""
_UNDERWAY = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}
"""What lies in the repository's folder while something goes on that a new branch would break."""


class SessionBranch:
    """Made for `folders`, of which the first has the repository; `title` gives what the session is called.

    Only references are written: files, index and what is not committed stay as they are, and nothing of the repository
    is run.
    """

    def __init__(self, folders: Sequence[Path], title: Callable[[], str], stream: EventSink) -> None:
        self._folder = folders[0]
        self._folders = folders
        self._title = title
        self._stream = stream
        self._settled = False
        self._settling = asyncio.Lock()

    async def before_change(self, run: str) -> None:
        """See that the session is on a branch of its own. The folder must be trusted."""
        async with self._settling:
            if self._settled:
                return
            self._settled = True
            before = await asyncio.to_thread(branch_of, self._folder)
            if before is None or before.startswith(PREFIX):
                return
            name, why = await self._made()
            self._tell(name, before, why, run)

    async def _made(self) -> tuple[str, str]:
        """The new branch, and why there is none."""
        git = Git(self._folder, self._folders)
        said = await git.run("rev-parse", "--absolute-git-dir", seconds=SECONDS)
        if said is None:
            return "", "git did not respond"
        place = Path(said.decode("utf-8", "surrogateescape").strip())
        if going := await asyncio.to_thread(_underway, place):
            return "", f"{going} is in progress"
        found = await git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", seconds=SECONDS)
        commit = found.decode("ascii", "replace").strip() if found else ""
        slug = _slug(self._title())
        for number in range(1, SAME + 1):
            name = f"{PREFIX}{slug}-{number}" if number > 1 else f"{PREFIX}{slug}"
            if await git.run("show-ref", "--verify", "--quiet", f"refs/heads/{name}", seconds=SECONDS) is not None:
                continue
            if await git.branch(name, commit, seconds=SECONDS):
                return name, ""
            return "", f"git could not create {name}"
        return "", f"{SAME} branches {PREFIX}{slug} already exist"

    def _tell(self, name: str, before: str, why: str, run: str) -> None:
        if name:
            text = (
                f"New git branch {name}, based on {before}: this session's changes go there. Your files and "
                f"uncommitted changes stay unchanged. Return with `git switch {before}`."
            )
        else:
            text = f"No git branch was created for this session: {why}. Its changes are on {before}."
        self._stream.emit(Notice(level="info" if name else "warning", text=text, code="git.branch"), run=run)


def _underway(place: Path) -> str:
    return next((words for name, words in _UNDERWAY.items() if (place / name).exists()), "")


def _slug(title: str) -> str:
    """The title as a part of a branch's name; the date where no letter of it can stand there."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if len(words) > SLUG_MAX:
        words = words[: SLUG_MAX + 1].rpartition("-")[0] or words[:SLUG_MAX]
    return words or dt.date.today().isoformat()


@dataclass(kw_only=True)
class ToolEnvironment:
    """The part of a session that outlives a tool call."""

    stream: StatefulStream
    approvals: Approvals
    roots: Roots
    scratch: Path
    settings: Settings
    mode: Mode
    approval_mode: ApprovalMode
    attended: bool
    """True when somebody can answer a question."""
    trusted: Callable[[], bool]
    """Whether the workspace is trusted by now (A8)."""
    grants: GrantStore
    sandbox: Sandbox
    snapshots: Snapshots | None
    """Saves what edits replace, for undo."""
    rules: NestedRules | None
    """The rules of folders below the roots (H1)."""
    propose: Callable[[PlanChange], str] | None
    """Takes proposals for the plan document."""
    branch: SessionBranch | None
    """Makes the session's git branch (W19)."""
    asking: dict[str, asyncio.Future[Answer | None]] = field(default_factory=dict)
    """Digest of what may be read → the answer that is waited for, so that it is asked for once."""
    acts: int = 0
    """How often anything was written or run, or the user said something: what calls see may be another since."""
    writes: int = 0
    """How often a file was written."""
    _seen: dict[Path, str] = field(default_factory=dict)
    _terminal: ShellSession | None = None

    def __post_init__(self) -> None:
        self.sandbox_policy = SandboxPolicy(self.settings, self.roots, self.sandbox)
        self.code = CodeIntelligence(self.settings, self.roots, self.stream.emit, allowed=self.trusted)
        """What language servers know (T3)."""

    @property
    def workspace(self) -> Path:
        """The first root: where commands start."""
        return self.roots.folders[0]

    @property
    def _ground(self) -> tuple[Path, ...]:
        """Where commands may stand and read: the roots and the scratch folder (T6)."""
        return (*self.roots.folders, self.scratch)

    def read_only_copy(self, stream: StatefulStream, mode: Mode) -> ToolEnvironment:
        """An environment for a sub-agent: nothing is written, nobody is asked, nothing is proposed (T5)."""
        place = copy.copy(self)
        place.stream, place.mode, place.approval_mode = stream, mode, ApprovalMode.READ_ONLY
        place.attended, place.grants, place.asking, place._seen = False, GrantStore(stream, self.workspace), {}, {}
        place.propose = None
        return place

    async def before_change(self, run: str) -> None:
        """Called before a file is written or a command runs that may write one."""
        if self.branch is not None and self.trusted():
            await self.branch.before_change(run)

    async def bring_rules(self, touched: Iterable[str], run: str) -> None:
        """Tell the model of a conversation the rules that it needs for the files `touched` and has not before its eyes.
        Called between a round of calls and the next request: results stay with their calls."""
        if self.rules is not None:
            for text in await self.rules.due(touched, self.stream.state.history.window()):
                self.stream.emit(ProgramMessageAdded(kind=RULES, text=text), run=run)

    def mark_seen(self, path: Path, sha256: str) -> None:
        """Remember the bytes that the model has seen of a file."""
        self._seen.pop(path, None)
        self._seen[path] = sha256

    def recent(self) -> list[Path]:
        """The files that the model has seen, the latest first (H7)."""
        return list(reversed(self._seen))

    def last_seen(self, path: Path) -> str | None:
        """The hash of a file as the model last saw it."""
        return self._seen.get(path)

    async def judge(self, command: str, cwd: Path) -> RunAction:
        """The command rated, off the event loop (A1)."""
        from tui_agent.shell import safe_commands

        running = await asyncio.to_thread(
            safe_commands.assess_command,
            command,
            cwd,
            self._ground,
            self.roots.holds_credentials,
            self.roots.is_protected,
        )
        if self.mode is Mode.REVIEW and self.trusted():
            reads = await asyncio.to_thread(self._git, running) is not None
            running = msgspec.structs.replace(running, safe=running.safe or reads)
        if self._terminal is not None and (changed := self._terminal.env_changes()):
            running = msgspec.structs.replace(running, env_changes=changed)
        return running

    def _git(self, running: RunAction) -> tuple[str, ...] | None:
        """The arguments of a git command that only reads the workspace; None for every other one."""
        from tui_agent.shell import review_git

        cwd = Path(running.cwd)
        if not any(cwd.is_relative_to(folder) for folder in self.roots.folders):
            return None
        return review_git.git_arguments(running.command, lambda path: self.roots.holds_credentials(cwd / path))

    def output_file(self) -> Path:
        """A name for the file with all of an output, which is made only when that is long."""
        return self.scratch / f"output-{secrets.token_hex(4)}.txt"

    async def run_command(
        self, action: RunAction, timeout: float, show: Callable[[str], None], file: Path | None = None
    ) -> CommandOutcome:
        """Run exactly `action`: as argv when it may run unasked, else in the session's shell (T2). `file` is for
        all of its output."""
        confined = await self.sandbox_policy.confinement(action, self.approval_mode)
        cwd = Path(action.cwd)
        if await asyncio.to_thread(os.path.realpath, cwd) != action.cwd:
            raise ToolError(f"The way to {cwd} leads elsewhere by now; call it again.", "changed")
        if not action.safe:
            outcome = await self._in_terminal(action.command, cwd, timeout, show, file, confined)
        elif (git := await asyncio.to_thread(self._git, action)) is not None:
            from tui_agent.shell import review_git

            folders, kept = self.roots.folders, self._kept(file)
            outcome = await review_git.run_git_read(
                git, cwd=cwd, folders=folders, timeout=timeout, on_output=show, kept=kept
            )
        else:
            from tui_agent.shell.safe_commands import run_script, safe_script

            credentials, kept = self.roots.holds_credentials, self._kept(file)
            steps = await asyncio.to_thread(safe_script, action.command, cwd, self._ground, credentials)
            if steps is None:
                raise ToolError("What this command names changed meanwhile; call it again.", "changed")
            outcome = await run_script(steps, cwd=cwd, timeout=timeout, on_output=show, kept=kept, confinement=confined)
        return await self.sandbox_policy.with_notes(outcome, confined)

    def _kept(self, file: Path | None) -> OutputOptions:
        from tui_agent.platform.output import OutputOptions

        caps = self.settings.caps
        return OutputOptions(file or self.output_file(), (caps.head_lines, caps.tail_lines))

    async def run_own(self, command: str) -> CommandOutcome:
        """Run a command that the user typed with `!`: theirs, so nothing is asked (U5). Raises ToolError."""
        self.acts += 1
        limit = self.settings.timeouts.command_max
        return await self._in_terminal(command, self.shell_cwd(), limit)

    async def _in_terminal(
        self,
        command: str,
        cwd: Path,
        timeout: float,
        show: Callable[[str], None] | None = None,
        file: Path | None = None,
        confined: Confinement | None = None,
    ) -> CommandOutcome:
        from tui_agent.shell.terminal import CommandError, ShellSession

        if self._terminal is None:
            self._terminal = ShellSession(folder=self.workspace, roots=self.roots.folders)
        before = {job.id for job in self._terminal.jobs()}
        try:
            outcome = await self._terminal.run(
                command, timeout=timeout, on_output=show, cwd=cwd, kept=self._kept(file), confinement=confined
            )
        except CommandError as error:
            raise ToolError(str(error), error.code) from error
        for job in self._terminal.jobs() if self._terminal is not None else ():  # none when we were closed meanwhile
            if job.id not in before:
                self._tell_left(job)
        return outcome

    def _tell_left(self, job: Job) -> None:
        """The user hears of what goes on running, not the model alone."""
        pids = " ".join(map(str, job.pids[:10]))
        text = f"Still running: {one_line(job.program, 200)}. It ends with the session; `!kill {pids}` ends it now."
        self.stream.emit(Notice(level="info", text=text, code="command.left"))

    async def verdict(self, action: Action, cannot_undo: str = "") -> Verdict:
        """Whether an action runs, is asked for or is refused here: by mode, approval mode, settings and grants, and by
        whether an edit can be undone; `cannot_undo` says why not, where that is known."""
        verdict = judge(
            action,
            mode=self.mode,
            approval_mode=self.approval_mode,
            settings=self.settings,
            grants=self.grants.listed(),
            sandboxed=isinstance(action, RunAction) and self.sandbox_policy.holds(action, self.approval_mode),
        )
        if verdict.decision == "refuse" or not isinstance(action, EditAction) or self.snapshots is None:
            return verdict
        cannot_undo = cannot_undo or await self.snapshots.trouble(action)
        if not cannot_undo:
            return verdict
        rule = f"{verdict.rule}. This change can't be undone: {cannot_undo}"
        return msgspec.structs.replace(verdict, decision="ask", rule=rule, grants=(), cannot_undo=cannot_undo)

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
