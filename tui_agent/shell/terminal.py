"""What one command of a session leaves to the next: its folder and the exported variables, nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import os
import re
import secrets
import shlex
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from tui_agent.common.domain import CommandOutcome, FrozenValue
from tui_agent.common.errors import CodedError
from tui_agent.platform import supervisor
from tui_agent.platform.environment import child_environment
from tui_agent.platform.output import NOT_KEPT, Capture, KeptOutput, OnOutput, RingBuffer, present
from tui_agent.platform.proc import Child, Confinement, ProcessError, SandboxSpec, Stage, finished_process, signal_name
from tui_agent.shell.targets import names
from tui_agent.text import one_line

SIZE_CAP = 4 * 1024 * 1024
SHELLS = (
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/opt/homebrew/bin/bash",
    "/run/current-system/sw/bin/bash",
    "/bin/sh",
    "/usr/bin/sh",
)
"""Where the shell is looked for; never $SHELL, which may be one of another grammar."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_SH = """trap '{ set +x; { printf "%s\\0" "$(pwd -P)" && /usr/bin/env -0 && printf "%s\\0" @END@; } >| @STATE@; } \
2> /dev/null' EXIT
eval "$1"
"""
"""For a shell without BASH_ENV; a trap of the command's own on EXIT replaces this one."""


class State(FrozenValue, frozen=True, kw_only=True):
    """Folder and exported variables."""

    cwd: str
    environment: dict[str, str]


class CommandJob:
    """The folder in which one command finds its prelude and leaves its state; private, and gone afterwards."""

    def __init__(self, shell: str) -> None:
        """Blocking (a little): call it in a thread. Raises OSError."""
        self._shell = shell
        self.folder = self._folder = Path(tempfile.mkdtemp(prefix="tui-agent-sh-"))
        self._end = secrets.token_hex(16)
        self._prelude = self._folder / "prelude"
        self._state = self._folder / "state"
        if self._bash:
            text = Path(__file__).with_name("prelude.bash").read_text("utf-8")
            self._prelude.write_text(self._filled(text), "utf-8")

    @property
    def _bash(self) -> bool:
        return Path(self._shell).name == "bash"

    def _filled(self, text: str) -> str:
        return text.replace("@END@", self._end).replace("@STATE@", shlex.quote(str(self._state)))

    def argv(self, command: str) -> tuple[str, ...]:
        """How the shell is called. bash gets the exact text of the command, and no other."""
        if self._bash:
            return ("bash", "--noprofile", "--norc", "-c", command)
        return ("sh", "-c", self._filled(_SH), "sh", command)

    def environment(self, carried: Mapping[str, str]) -> dict[str, str]:
        """The variables for the shell."""
        return {**carried, "BASH_ENV": str(self._prelude)} if self._bash else dict(carried)

    def collect(self) -> State | None:
        """Read what was left, and clean up. None when the command replaced or killed its shell. Call it in a thread."""
        try:
            return self._read()
        except OSError:
            return None
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> State | None:
        fd = os.open(self._state, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            data = file.read(SIZE_CAP + 1)
        fields = data.split(b"\0")
        # The last field is empty, the one before it proves that the state was written to its end.
        if len(data) > SIZE_CAP or len(fields) < 3 or fields[-2] != self._end.encode():
            return None
        pairs = (os.fsdecode(field).partition("=") for field in fields[1:-2])
        kept = {name: value for name, _, value in pairs if _NAME.fullmatch(name) and not is_forgotten(name)}
        return State(cwd=os.fsdecode(fields[0]), environment=kept)


def is_forgotten(name: str) -> bool:
    """Whether a variable is not carried over, although exported: those that would change how the next shell reads its
    command, and the shell's own."""
    return _is_listed(name, "forgotten")


def environment_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that changed and change how programs are found or loaded: `NAME=value`, or `NAME (unset)`."""
    changed = (name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name))
    telling = (name for name in changed if _is_listed(name, "telling"))
    return tuple(f"{name}={after[name]}" if name in after else f"{name} (unset)" for name in telling)


def _is_listed(name: str, key: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in names(key))


def find_shell(candidates: tuple[str, ...] = SHELLS) -> str | None:
    """Absolute path of bash, else of sh."""
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


COMMAND_CAP = 100_000
"""Bytes; the kernel takes no argument over 128 KiB."""
DEFAULT_TIMEOUT = 30.0
WRAPPED = 0.3
"""Seconds that what wraps a confined command has to end after it."""
ENDING = 5.0
"""Seconds to wait for the report that a background job without processes has ended."""


class CommandError(CodedError):
    """A command that was not run. `code`: `too_large`, `invalid`, `no_shell`, `folder`, `closed` or `failed`."""


class ShellSession:
    """One session's shell. Use it on one event loop; commands run one after the other."""

    def __init__(
        self,
        *,
        folder: Path,
        roots: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        shells: tuple[str, ...] = SHELLS,
    ) -> None:
        """`folder`: where it starts. `environment`: the variables to start from, else `child_environment()`."""
        self._home = folder
        self._roots = tuple(roots) or (folder,)
        self._start = dict(child_environment() if environment is None else environment)
        self._environment = dict(self._start)
        self.cwd = folder
        """Where the next command starts if nothing else is said."""
        self._shells = shells
        self._turn = asyncio.Lock()
        self._current: Child | None = None
        self._closed = False
        self._children: set[Child] = set()
        self._background: dict[int, BackgroundJobs] = {}
        self._count = 0

    def env_changes(self) -> tuple[str, ...]:
        """Carried variables that change how programs are found or loaded, for the next approval."""
        return environment_changes(self._start, self._environment)

    async def run(
        self,
        command: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        on_output: OnOutput | None = None,
        cwd: Path | None = None,
        kept: KeptOutput = NOT_KEPT,
        confinement: Confinement | None = None,
    ) -> CommandOutcome:
        """Run `command`, for `timeout` seconds at most, in `cwd` or where the last one ended, confined if so wished.

        Raises CommandError when it can't be run at all. Cancelling kills what was started.
        """
        check_command(command)
        async with self._turn:
            if self._closed:
                raise CommandError("The session's shell is closed.", "closed")
            shell = find_shell(self._shells)
            if shell is None:
                raise CommandError(f"No shell was found: looked for {', '.join(self._shells)}.", "no_shell")
            notes = await self._job_reports()
            start = self._starting_folder(cwd, notes)
            capture = Capture(on_output, kept.file, lines=kept.lines)
            prepared = await asyncio.to_thread(CommandJob, shell)
            try:
                stage = Stage(program=shell, argv=prepared.argv(command))
                return await self._run(command, prepared, stage, start, timeout, capture, notes, confinement)
            finally:
                self._current = None
                await asyncio.shield(asyncio.to_thread(prepared.discard))

    def _starting_folder(self, cwd: Path | None, notes: list[str]) -> Path:
        if cwd is not None:
            if not cwd.is_dir():
                raise CommandError(f"There is no folder {cwd}.", "folder")
            return cwd
        if not self.cwd.is_dir():
            notes.append(f"The folder {self.cwd} is gone; the command ran in {self._home}.")
            self.cwd = self._home
        return self.cwd

    async def _run(
        self,
        command: str,
        prepared: CommandJob,
        stage: Stage,
        cwd: Path,
        timeout: float,
        capture: Capture,
        notes: list[str],
        confinement: Confinement | None,
    ) -> CommandOutcome:
        environment = prepared.environment(self._environment)
        stages: Sequence[Stage] = [stage]
        sandbox_spec: SandboxSpec | None = None
        if confinement is not None:
            environment |= confinement.environment
            stages, sandbox_spec = confinement.confine(stages, cwd, [prepared.folder])
        try:
            child = await Child.start(
                stages, cwd=cwd, environment=environment, capture=capture, keep=True, sandbox_spec=sandbox_spec
            )
        except ProcessError as error:
            raise CommandError(str(error), "folder" if error.code == "folder" else "failed") from error
        self._current = child
        self._children = {other for other in self._children if other.alive} | {child}
        if self._closed:
            capture.mute()
            child.stop()
        outcome = await self._wait(child, capture, timeout, command, confined=confinement is not None)
        state = await asyncio.to_thread(prepared.collect)
        self._settle(cwd, state, outcome, notes)
        return self._with_notes(outcome, timeout, notes)

    async def _wait(
        self, child: Child, capture: Capture, timeout: float, command: str, *, confined: bool
    ) -> CommandOutcome:
        status: int | None = None
        timed_out = False
        try:
            status = await child.wait(timeout)
        except TimeoutError:
            timed_out = True
            child.stop()
        if status is not None and child.left_over and confined:
            with contextlib.suppress(TimeoutError):  # a wrapper's own processes end a little later
                async with asyncio.timeout(WRAPPED):
                    await child.gone()
        if status is not None and child.left_over and child.alive and not self._closed:
            self._count += 1
            self._background[self._count] = BackgroundJobs(self._count, command, child)
        else:
            await child.gone()
        return await finished_process(capture, status, timed_out=timed_out)

    # --- what the model is told ---------------------------------------------------------------

    def _settle(self, started: Path, state: State | None, outcome: CommandOutcome, notes: list[str]) -> None:
        """Carry folder and variables over, and say what is unusual about them."""
        self.cwd = started
        if outcome.exit_code is None:  # stopped: what the shell managed to write before it died is a matter of luck
            notes.append("Folder and variables are as before the command.")
        elif state is None:
            notes.append("The command replaced or killed its shell: folder and variables are as before it.")
        else:
            self._environment = state.environment
            self.cwd = Path(state.cwd)
        if not (self.cwd.is_absolute() and self.cwd.is_dir()):
            notes.append(f"The shell's folder is gone; the next command starts in {self._home}.")
            self.cwd = self._home
        elif self.cwd != started and not any(self.cwd.is_relative_to(root) for root in self._roots):
            notes.append(f"The shell's folder is now {self.cwd}, outside the workspace.")

    def _with_notes(self, outcome: CommandOutcome, timeout: float, notes: list[str]) -> CommandOutcome:
        if self._closed:
            notes.append("Interrupted by the user; the command and all it started were killed.")
        elif outcome.timed_out:
            notes.append(f"Stopped after {timeout:g} s; the command and all it started were killed.")
        elif name := signal_name(outcome.exit_code):
            why = " (killed, or out of memory)" if name == "SIGKILL" else ""
            notes.append(f"Exit code {outcome.exit_code}: ended by {name}{why}.")
        if outcome.note:
            notes.append(outcome.note)
        latest = self._background.get(self._count)
        if latest and latest.child is self._current and (job := latest.job()):
            pids = ", ".join(map(str, job.pids[:10]))
            notes.append(f"Left running in the background as job {job.id}: {job.program} (pid {pids}).")
        outcome = replace(outcome, cwd=str(self.cwd), note="\n".join(notes))
        return replace(outcome, exit_code=None, timed_out=False, interrupted=True) if self._closed else outcome

    async def _job_reports(self) -> list[str]:
        """Of jobs from earlier commands: what they wrote, and that they ended."""
        notes = []
        for number, background in list(self._background.items()):
            if background.job() is None:  # its processes are gone; the supervisor says so a moment later
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ENDING):
                        await background.child.gone()
            if news := background.news():
                notes.append(news)
            if not background.child.alive:
                notes.append(f"Background job {number} ({background.title}) has ended.")
                del self._background[number]
        return notes

    # --- jobs and the end ---------------------------------------------------------------------

    def jobs(self) -> tuple[Job, ...]:
        """What runs in the background."""
        found = (background.job() for background in self._background.values())
        return tuple(job for job in found if job is not None)

    async def close(self) -> None:
        """Kill all that runs, background jobs included. Nothing can be run afterwards."""
        self._closed = True
        for child in self._children:
            child.stop()
        for child in tuple(self._children):
            await child.gone()
        self._background.clear()


def check_command(command: str) -> None:
    """Raise CommandError for a text that can't be a command line."""
    try:
        size = len(command.encode("utf-8"))
    except UnicodeEncodeError:
        raise CommandError("The command is not valid Unicode text; it was not run.", "invalid") from None
    if "\0" in command:
        raise CommandError("The command holds a NUL character; it was not run.", "invalid")
    if size > COMMAND_CAP:
        message = f"The command is {size:,} bytes long, {COMMAND_CAP:,} are allowed: write it to a file and run that."
        raise CommandError(message, "too_large")
    if not command.strip():
        raise CommandError("The command is empty.", "invalid")


OUTPUT_CAP = 64 * 1024
TOLD_LINES = 5
LINE_CAP = 200
TOLD_CHARACTERS = 600


class Job(FrozenValue, frozen=True, kw_only=True):
    """Processes that a command left behind."""

    id: int
    pids: tuple[int, ...]
    """The oldest first."""
    program: str
    """Command line of the oldest process."""


class BackgroundJobs:
    """One command's left-over, and where its late output goes."""

    def __init__(self, number: int, command: str, child: Child) -> None:
        self.number = number
        self.command = command
        self.child = child
        self._capture = Capture(rings=RingBuffer(0, OUTPUT_CAP))
        self._told = 0
        child.hand_over(self._capture)

    def job(self) -> Job | None:
        """As it is now; None when nothing is left of it."""
        pids = tuple(sorted(supervisor.descendants(self.child.pid))) if self.child.alive else ()
        if not pids:
            return None
        return Job(id=self.number, pids=pids, program=self._program(pids[0]))

    def _program(self, pid: int) -> str:
        line = _command_line(pid)
        # A subshell still carries the arguments of the shell that it was forked from.
        return self.title if not line or line.endswith(one_line(self.command, LINE_CAP)[-40:]) else line

    def news(self) -> str:
        """What it wrote since the last call, in a few lines; empty when there is nothing new."""
        total = self._capture.rings.total_bytes
        fresh, self._told = total - self._told, total
        if not fresh:
            return ""
        rings = RingBuffer(0, OUTPUT_CAP)
        rings.add(self._capture.rings.tail[-fresh:])
        lines = present(rings).text.splitlines()
        shown = "\n".join(lines[-TOLD_LINES:])[-TOLD_CHARACTERS:]
        return f"Background job {self.number} ({self.title}) has written since, at the end:\n{shown}"

    @property
    def title(self) -> str:
        """The command in a few words."""
        return one_line(self.command, 60)


def _command_line(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()[:4096]
    except OSError:
        return ""
    return one_line(line.replace(b"\0", b" ").decode("utf-8", "replace").strip(), LINE_CAP)
