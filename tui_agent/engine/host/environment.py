"""The tool environment of a session: roots, shell, sandbox, grants, modes, and the files that the model has seen."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import os
import re
import secrets
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tui_agent.common.bounded import put_bounded
from tui_agent.common.domain import (
    Action,
    Answer,
    ApprovalMode,
    CommandOutcome,
    EditAction,
    Grant,
    Harm,
    Mode,
    RunAction,
    Scope,
    Severity,
)
from tui_agent.common.workplan import PlanChange
from tui_agent.engine.core.approvals import Approvals
from tui_agent.engine.core.history import RULES
from tui_agent.engine.core.shielded import end_tasks
from tui_agent.engine.core.stream import EventSink
from tui_agent.engine.host.code_intelligence import CodeIntelligence
from tui_agent.events import GrantRevoked, Notice, ProgramMessageAdded, SandboxChanged
from tui_agent.platform.git import Git, branch_of
from tui_agent.safety.decision_files import DecisionsNotSaved
from tui_agent.safety.policy import Verdict, judge, revoke_grant, save_grant
from tui_agent.safety.protected_paths import ProtectedPaths
from tui_agent.safety.roots import Roots
from tui_agent.safety.sandbox import ConfinedCommand, Sandbox, find_sandbox
from tui_agent.settings import Settings
from tui_agent.text import one_line
from tui_agent.tools.base import ToolError

if TYPE_CHECKING:
    from tui_agent.engine.context.project import NestedRules
    from tui_agent.engine.core.stream import StatefulStream
    from tui_agent.engine.host.command_guard import CommandGuard
    from tui_agent.engine.host.snapshots import Snapshots
    from tui_agent.platform.output import Capture
    from tui_agent.platform.proc import Confinement
    from tui_agent.shell.terminal import Job, ShellSession

_DENIED = re.compile(
    r"Permission denied|Read-only file system|not permitted|Device or resource busy|EACCES|EROFS|EPERM|"
    r"[Cc]onnection refused|[Nn]etwork is unreachable|resolve host|[Nn]ame resolution|Name or service not known"
)
_DENIED_GIT = re.compile(
    r"\.git\b.*(?:Read-only file system|Permission denied|Device or resource busy)|"
    r"(?:could not write config|repository database|cannot lock ref|insufficient permission).*\.git\b"
)


class SandboxPolicy:
    """Applies the sandbox to commands in auto modes and to safe commands, or to all (`required`)."""

    def __init__(self, settings: Settings, roots: Roots, sandbox: Sandbox) -> None:
        self.settings = settings
        self._roots = roots
        self.sandbox = sandbox
        self._search = ProtectedPaths(roots.protects)

    def state(self) -> SandboxChanged:
        """Return what holds for commands, as an event."""
        off = self.settings.sandbox == "off"
        return SandboxChanged(
            sandbox="off" if off else self.sandbox.label,
            sandbox_required=self.settings.sandbox == "required",
            sandbox_network=self.settings.sandbox_network,
        )

    def set_settings(self, settings: Settings) -> None:
        """Use other settings, and search for protected paths anew: the patterns may have changed."""
        self.settings = settings
        self._search = ProtectedPaths(self._roots.protects)

    def applies_to(self, action: RunAction, mode: ApprovalMode) -> bool:
        """Return True if a command runs in the sandbox."""
        if self.sandbox.kind == "none" or self.settings.sandbox == "off":
            return False
        auto = mode in (ApprovalMode.AUTO_EDIT, ApprovalMode.AUTO)
        return self.settings.sandbox == "required" or auto or action.safe

    def fully_confines(self, action: RunAction) -> bool:
        """Return True if it runs in a complete sandbox, as `auto_approve_high` requires (A4)."""
        return self.sandbox.is_complete and action.sandboxed

    async def confinement(self, action: RunAction, mode: ApprovalMode) -> ConfinedCommand | None:
        """Return the confinement of a command judged in `mode`, or None. Raises ToolError if a required one is missing.

        It runs as its dialog said, whatever the approval mode is by now, unless the settings have become stricter.
        """
        if self.settings.sandbox == "required" and self.sandbox.kind == "none":
            raise ToolError("The settings demand a sandbox for commands, and there is none here.", "refused")
        if not (action.sandboxed or self.applies_to(action, mode)):
            return None
        return await asyncio.to_thread(self._confine, action)

    def _confine(self, action: RunAction) -> ConfinedCommand:
        from tui_agent.shell.git_reads import changes_repository_only

        return ConfinedCommand(
            self.sandbox,
            self._roots,
            writes=not action.safe,
            network=self.settings.sandbox_network and not action.safe,
            repositories=not action.safe and changes_repository_only(action.command),
            search=self._search,
        )

    async def with_notes(self, outcome: CommandOutcome, confined: ConfinedCommand | None) -> CommandOutcome:
        """Add a note about denials by the sandbox."""
        if confined is None:
            return outcome
        notes = [outcome.note] if outcome.note else []
        if outcome.exit_code and _DENIED_GIT.search(outcome.output):
            notes.append(
                f"It ran in a sandbox ({self.sandbox.label}): there only a command that consists of git commands can "
                "write to .git, so call git by itself. Git's settings and hooks, and a repository outside the "
                "workspace, stay read-only: tell the user what to run."
            )
        elif outcome.exit_code and _DENIED.search(outcome.output):
            network = "" if self.settings.sandbox_network else " and network access"
            notes.append(
                f"It ran in a sandbox ({self.sandbox.label}): writing outside the workspace or to protected files"
                f"{network} is denied. If it must, say so to the user."
            )
        return msgspec.structs.replace(outcome, note="\n".join(notes))


class GrantStore:
    """The standing permissions of a session, temporary and permanent."""

    def __init__(self, stream: EventSink, workspace: Path, grants: Iterable[Grant] = ()) -> None:
        self._stream = stream
        self._workspace = workspace
        self._grants = list(dict.fromkeys(grants))

    def listed(self) -> tuple[Grant, ...]:
        """Return the grants in the order in which they were given."""
        return tuple(self._grants)

    async def add(self, grant: Grant) -> None:
        """Add a grant; permanent ones are written to the user's configuration."""
        if grant not in self._grants:
            self._grants.append(grant)
        if grant.scope is Scope.ALWAYS:
            try:
                await asyncio.to_thread(save_grant, self._workspace, grant)
            except DecisionsNotSaved as error:
                self._warn(f"The permission is valid for this session only: {error}", "grant.unkept")

    async def revoke(self, grant: Grant) -> bool:
        """Revoke a grant; False if it does not exist, or can't be removed from disk.

        In the latter case it is revoked for this session only, and a notice says so.
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


LOW_SPACE = 16 << 20
"""Free bytes below which a disk is reported as nearly full."""


class WorkspaceHealth:
    """Reports unreachable folders and nearly full disks, each once."""

    def __init__(self, folders: Sequence[Path], notify: Callable[[Notice], object]) -> None:
        self._folders = tuple(folders)
        self._notify = notify
        self._reported: set[str] = set()

    async def check(self) -> None:
        """Check the folders in a thread and report new problems. Does not raise."""
        problems = await asyncio.to_thread(_find_problems, self._folders)
        for key, notice in problems.items():
            if key not in self._reported:
                self._notify(notice)
        self._reported = set(problems)


def _find_problems(folders: Sequence[Path]) -> dict[str, Notice]:
    """Return a notice for each problem, by a key that identifies it."""
    problems: dict[str, Notice] = {}
    for folder in folders:
        try:
            device, disk = os.stat(folder).st_dev, os.statvfs(folder)
        except OSError as error:
            text = f"The folder {folder} can't be reached: {error.strerror}. Nothing can be read or written there."
            problems[f"gone {folder}"] = Notice(level="error", text=text, code="folder.gone")
            continue
        free = disk.f_bavail * disk.f_frsize
        if free < LOW_SPACE:
            space = f"{free / (1 << 20):,.1f} MiB are free"
            text = f"The disk of {folder} is nearly full: {space}. New data may not be saved."
            problems.setdefault(f"full {device}", Notice(level="warning", text=text, code="disk.full"))
    return problems


BRANCH_PREFIX = "tui-agent/"
SLUG_MAX = 40
"""Maximum characters of a branch name after the prefix."""
MAX_SEEN_BYTES = 256 * 1024
MAX_SEEN_CONTENTS = 64
"""Size and number of the contents that are kept to merge an edit with another program's changes."""
MAX_SAME_NAME = 20
"""Branches of the same name, distinguished by numbers."""
GIT_TIMEOUT = 5.0
"""Seconds for one git command."""
_IN_PROGRESS = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}
"""Files of a git folder during operations that a new branch would disturb."""


class SessionBranch:
    """Creates the session's git branch in the first of `folders` (W19); `title` returns the session's title.

    Only references are written: files, index and uncommitted changes stay as they are, and no hooks run.
    """

    def __init__(self, folders: Sequence[Path], title: Callable[[], str], stream: EventSink) -> None:
        self._folder = folders[0]
        self._folders = folders
        self._title = title
        self._stream = stream
        self._settled = False
        self._settle_lock = asyncio.Lock()

    async def before_change(self, run: str) -> None:
        """Create the branch before the first change, unless a session branch is active. The folder must be trusted."""
        async with self._settle_lock:
            if self._settled:
                return
            self._settled = True
            before = await asyncio.to_thread(branch_of, self._folder)
            if before is None or before.startswith(BRANCH_PREFIX):
                return
            name, problem = await self._create()
            if name:
                text = (
                    f"New git branch {name}, based on {before}: this session's changes go there. Your files and "
                    f"uncommitted changes stay unchanged. Return with `git switch {before}`."
                )
            else:
                text = f"No git branch was created for this session: {problem}. Its changes are on {before}."
            self._stream.emit(Notice(level="info" if name else "warning", text=text, code="git.branch"), run=run)

    async def _create(self) -> tuple[str, str]:
        """Return the new branch, or an empty name and the reason."""
        git = Git(self._folder, self._folders)
        git_folder = await git.run("rev-parse", "--absolute-git-dir", seconds=GIT_TIMEOUT)
        if git_folder is None:
            return "", "git did not respond"
        path = Path(git_folder.decode("utf-8", "surrogateescape").strip())
        if operation := next((text for name, text in _IN_PROGRESS.items() if (path / name).exists()), ""):
            return "", f"{operation} is in progress"
        head = await git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", seconds=GIT_TIMEOUT)
        commit = head.decode("ascii", "replace").strip() if head else ""
        slug = _slug(self._title())
        for number in range(1, MAX_SAME_NAME + 1):
            name = f"{BRANCH_PREFIX}{slug}-{number}" if number > 1 else f"{BRANCH_PREFIX}{slug}"
            if await git.run("show-ref", "--verify", "--quiet", f"refs/heads/{name}", seconds=GIT_TIMEOUT) is not None:
                continue
            if await git.branch(name, commit, seconds=GIT_TIMEOUT):
                return name, ""
            return "", f"git could not create {name}"
        return "", f"{MAX_SAME_NAME} branches {BRANCH_PREFIX}{slug} already exist"


def _slug(title: str) -> str:
    """Return the title as part of a branch name; today's date if it has no usable letters."""
    ascii_title = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_title).strip("-")
    if len(slug) > SLUG_MAX:
        slug = slug[: SLUG_MAX + 1].rpartition("-")[0] or slug[:SLUG_MAX]
    return slug or dt.date.today().isoformat()


@dataclass(kw_only=True)
class ToolEnvironment:
    """The session-wide state behind the tool contexts."""

    stream: StatefulStream
    approvals: Approvals
    roots: Roots
    scratch: Path
    settings: Settings
    mode: Mode
    approval_mode: ApprovalMode
    attended: bool
    """True if a person can answer questions."""
    trusted: Callable[[], bool]
    """Returns True if the workspace is trusted by now (A8)."""
    grants: GrantStore
    sandbox: Sandbox
    snapshots: Snapshots | None
    """Saves file contents before edits, for undo."""
    guard: CommandGuard | None = None
    """Saves the workspace before commands, and keeps what they make of protected files out of it."""
    rules: NestedRules | None
    """Agent rules of folders below the roots (H1)."""
    propose: Callable[[PlanChange], str] | None
    """Receives proposals for the plan document."""
    branch: SessionBranch | None
    """Creates the session's git branch (W19)."""
    refresh_trust: Callable[[], Awaitable[object]] | None = None
    """Called before each decision: applies what changed about the trust in the workspace and in its settings."""
    pending_answers: dict[str, asyncio.Future[Answer | None]] = field(default_factory=dict)
    """Digest of a read action → its pending answer, so that the same question is asked once."""
    action_count: int = 0
    """Number of writes, commands and user messages: after any of them, a repeated call may have another result."""
    write_count: int = 0
    """Number of file writes."""
    _seen: dict[Path, str] = field(default_factory=dict)
    _seen_contents: dict[Path, tuple[str, bytes]] = field(default_factory=dict)
    _terminal: ShellSession | None = None
    _job_tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.sandbox_policy = SandboxPolicy(self.settings, self.roots, self.sandbox)
        self.code = CodeIntelligence(self.settings, self.roots, self.stream.emit, allowed=self.trusted)
        """Language servers (T3)."""

    @property
    def workspace(self) -> Path:
        """The first root, where commands start."""
        return self.roots.folders[0]

    @property
    def _readable_folders(self) -> tuple[Path, ...]:
        """The folders in which commands may run and read (T6)."""
        return (*self.roots.folders, self.scratch)

    def read_only_copy(self, stream: StatefulStream, mode: Mode) -> ToolEnvironment:
        """Return an environment for a sub-agent: without writes, questions and proposals (T5)."""
        environment = copy.copy(self)
        environment.stream, environment.mode, environment.approval_mode = stream, mode, ApprovalMode.READ_ONLY
        environment.attended, environment.grants = False, GrantStore(stream, self.workspace)
        environment.pending_answers, environment._seen, environment.propose = {}, {}, None
        environment._seen_contents = {}
        return environment

    async def apply_settings(self, settings: Settings) -> None:
        """Use other settings from now on, for everything that a workspace can tighten."""
        before = self.sandbox_policy.state()
        if self.sandbox.kind == "none" and settings.sandbox != "off":
            self.sandbox = self.sandbox_policy.sandbox = await asyncio.to_thread(find_sandbox, self.workspace)
        self.settings = settings
        self.code.set_settings(settings)
        self.roots.set_patterns(settings.sensitive_patterns, settings.protected_patterns)
        self.sandbox_policy.set_settings(settings)
        if (after := self.sandbox_policy.state()) != before:
            self.stream.emit(after)
        if self.code.obstacle():
            await self.code.close()

    async def before_change(self, run: str) -> None:
        """Prepare for a file write, or for a command that may write files."""
        if self.branch is not None and self.trusted():
            await self.branch.before_change(run)

    async def add_rules(self, touched: Iterable[str], run: str) -> None:
        """Add the agent rules for the files `touched` that the model does not see yet.

        Call it between a batch and the next request, so that results stay with their calls.
        """
        if self.rules is not None:
            for text in await self.rules.due(touched, self.stream.state.history.window()):
                self.stream.emit(ProgramMessageAdded(kind=RULES, text=text), run=run)

    def mark_seen(self, path: Path, sha256: str, content: bytes | None = None) -> None:
        """Remember the version of a file that the model has seen, and its content for merges."""
        self._seen.pop(path, None)
        self._seen[path] = sha256
        if content is not None and len(content) <= MAX_SEEN_BYTES:
            put_bounded(self._seen_contents, path, (sha256, content), MAX_SEEN_CONTENTS)

    def seen_content(self, path: Path) -> bytes | None:
        """Return the content of a file as last seen by the model, if it was kept."""
        sha256, content = self._seen_contents.get(path, ("", None))
        return content if sha256 == self._seen.get(path) else None

    def recent(self) -> list[Path]:
        """Return the files that the model has seen, latest first (H7)."""
        return list(reversed(self._seen))

    def last_seen(self, path: Path) -> str | None:
        """Return the hash of a file as last seen by the model."""
        return self._seen.get(path)

    async def judge(self, command: str, cwd: Path) -> RunAction:
        """Classify a command, in a thread (A1)."""
        from tui_agent.shell import safe_commands

        action = await asyncio.to_thread(
            safe_commands.assess_command,
            command,
            cwd,
            self._readable_folders,
            self.roots.names_credentials,
            self.roots.is_protected,
            git=self.trusted(),
        )
        if self._terminal is not None and (changed := self._terminal.env_changes()):
            action = msgspec.structs.replace(action, env_changes=changed)
        sandboxed = self.sandbox_policy.applies_to(action, self.approval_mode)
        return msgspec.structs.replace(action, sandboxed=sandboxed)

    def output_file(self) -> Path:
        """Return a path for the complete output of a command; written only if it is long."""
        return self.scratch / f"output-{secrets.token_hex(4)}.txt"

    async def run_command(
        self,
        action: RunAction,
        confined: ConfinedCommand | None,
        timeout: float,
        on_output: Callable[[str], None],
        file: Path | None = None,
    ) -> CommandOutcome:
        """Run `action`: safe commands without a shell, others in the session's shell (T2).

        `confined` is from `sandbox_policy`; `file` receives the complete output. Raises ToolError.
        """
        cwd = Path(action.cwd)
        if await asyncio.to_thread(os.path.realpath, cwd) != action.cwd:
            raise ToolError(f"The way to {cwd} leads elsewhere by now; call it again.", "changed")
        if not action.safe:
            outcome = await self._in_terminal(action.command, cwd, timeout, on_output, file, confined)
        else:
            outcome = await self._run_safely(action, cwd, timeout, self._capture(on_output, file), confined)
        return await self.sandbox_policy.with_notes(outcome, confined)

    async def _run_safely(
        self, action: RunAction, cwd: Path, timeout: float, capture: Capture, confined: Confinement | None
    ) -> CommandOutcome:
        """Run a safe command; `cd` in it moves the session's shell."""
        from tui_agent.shell.interpreter import run_script
        from tui_agent.shell.safe_commands import safe_script

        folders, credentials = self._readable_folders, self.roots.names_credentials
        script = await asyncio.to_thread(
            safe_script, action.command, cwd, folders, credentials, git=self.trusted(), asks_git=False
        )
        if script is None:
            raise ToolError("What this command names changed meanwhile; call it again.", "changed")
        outcome = await run_script(script, timeout=timeout, capture=capture, confinement=confined)
        if outcome.cwd != str(script.cwd):
            self._shell_session().cwd = Path(outcome.cwd)
        return outcome

    def _shell_session(self) -> ShellSession:
        from tui_agent.shell.terminal import ShellSession

        if self._terminal is None:
            self._terminal = ShellSession(folder=self.workspace, roots=self.roots.folders)
        return self._terminal

    def _capture(self, on_output: Callable[[str], None] | None, file: Path | None) -> Capture:
        from tui_agent.platform.output import Capture

        caps = self.settings.caps
        return Capture(on_output, file or self.output_file(), lines=(caps.head_lines, caps.tail_lines))

    async def run_user_command(self, command: str) -> CommandOutcome:
        """Run a `!command` of the user, without approval (U5). Raises ToolError."""
        self.action_count += 1
        limit = self.settings.timeouts.command_max
        return await self._in_terminal(command, self.shell_cwd(), limit)

    async def _in_terminal(
        self,
        command: str,
        cwd: Path,
        timeout: float,
        on_output: Callable[[str], None] | None = None,
        file: Path | None = None,
        confined: Confinement | None = None,
    ) -> CommandOutcome:
        from tui_agent.shell.terminal import CommandError

        terminal = self._shell_session()
        before = {job.id for job in terminal.jobs()}
        try:
            outcome = await terminal.run(
                command, timeout=timeout, capture=self._capture(on_output, file), cwd=cwd, confinement=confined
            )
        except CommandError as error:
            raise ToolError(str(error), error.code) from error
        for job in self._terminal.jobs() if self._terminal is not None else ():  # closed in the meantime
            if job.id not in before:
                pids = " ".join(map(str, job.pids[:10]))
                program = one_line(job.program, 200)
                text = f"Still running: {program}. It ends with the session; `!kill {pids}` ends it now."
                self.stream.emit(Notice(level="info", text=text, code="command.left"))
        return outcome

    async def harm(self, action: Action) -> Harm | None:
        """Count what a critical command would destroy; None for any other action."""
        if not isinstance(action, RunAction) or action.severity is not Severity.CRITICAL:
            return None
        from tui_agent.engine.host.harm import count_harm

        return await asyncio.to_thread(count_harm, action, self._readable_folders, sandboxed=action.sandboxed)

    async def verdict(self, action: Action, cannot_undo: str = "") -> Verdict:
        """Decide whether an action runs, is asked for or is refused.

        By modes, settings and grants, and by whether an edit can be undone; `cannot_undo` is a known reason why not.
        """
        if self.refresh_trust is not None:
            await self.refresh_trust()
        verdict = judge(
            action,
            mode=self.mode,
            approval_mode=self.approval_mode,
            settings=self.settings,
            grants=self.grants.listed(),
            sandboxed=isinstance(action, RunAction) and self.sandbox_policy.fully_confines(action),
        )
        is_hindered = isinstance(action, RunAction) and action.sandboxed and action.writes_outside
        if is_hindered and verdict.decision == "ask":
            rule = f"{verdict.rule}. It would run in the sandbox, in which it can write only to the workspace"
            return msgspec.structs.replace(verdict, rule=rule)
        if verdict.decision == "refuse" or not isinstance(action, EditAction) or self.snapshots is None:
            return verdict
        cannot_undo = cannot_undo or await self.snapshots.obstacle(action)
        if not cannot_undo:
            return verdict
        rule = f"{verdict.rule}. This change can't be undone: {cannot_undo}"
        return msgspec.structs.replace(verdict, decision="ask", rule=rule, grants=(), cannot_undo=cannot_undo)

    def shell_cwd(self) -> Path:
        """Return the shell's current folder, or the workspace if that no longer exists."""
        cwd = self._terminal.cwd if self._terminal is not None else self.workspace
        return cwd if cwd.is_dir() else self.workspace

    def jobs(self) -> tuple[Job, ...]:
        """Return what runs in the background."""
        return self._terminal.jobs() if self._terminal is not None else ()

    async def jobs_ended(self, jobs: Collection[int]) -> None:
        """Wait until no process of these background jobs is left."""
        if self._terminal is not None:
            await self._terminal.jobs_ended(jobs)

    def follow_job(self, following: Coroutine[Any, Any, None]) -> None:
        """Run `following`, which waits for a background job, until the session is closed."""
        task = asyncio.create_task(following)
        self._job_tasks.add(task)
        task.add_done_callback(self._job_tasks.discard)

    async def close(self) -> None:
        """End the shell with all its processes, and the language servers."""
        try:
            await end_tasks(*self._job_tasks)
            if self.guard is not None:
                await self.guard.close(self._close_terminal)
            await self._close_terminal()
        finally:
            await self.code.close()

    async def _close_terminal(self) -> None:
        if self._terminal is not None:
            await self._terminal.close()
            self._terminal = None
