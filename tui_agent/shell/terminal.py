"""The shell of a session: one command leaves its folder and exported variables to the next, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import os
import re
import secrets
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from tui_agent.common.domain import CommandOutcome, FrozenValue
from tui_agent.common.errors import CodedError
from tui_agent.platform import supervisor
from tui_agent.platform.environment import child_environment
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file
from tui_agent.platform.git import hardening_options
from tui_agent.platform.output import Capture, RingBuffer, present
from tui_agent.platform.proc import Child, Confinement, ProcessError, Stage, finished_process, signal_name
from tui_agent.platform.temporary import TemporaryFolder
from tui_agent.shell.targets import names
from tui_agent.text import one_line

MAX_STATE = 4 * 1024 * 1024
"""Bytes of the state that a command leaves."""
SHELLS = (
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/opt/homebrew/bin/bash",
    "/run/current-system/sw/bin/bash",
    "/bin/sh",
    "/usr/bin/sh",
)
"""Where the shell is looked for; not in $SHELL, which may have another grammar."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TRAP = """trap '{ set +x; { printf "%s\\0" "$(pwd -P)" && /usr/bin/env -0 && printf "%s\\0" @END@; } >| @STATE@; } \
2> /dev/null' EXIT
eval "$1"
"""
"""For a shell without BASH_ENV. If the command itself sets an EXIT trap, that replaces this one."""


class ShellState(FrozenValue, frozen=True, kw_only=True):
    """Folder and exported variables."""

    cwd: str
    environment: dict[str, str]


class CommandJob:
    """The private, temporary folder in which one command finds its prelude and leaves its state."""

    def __init__(self, shell: str) -> None:
        """Create the folder. Blocks: call it in a thread. Raises OSError."""
        self._shell = shell
        self._temporary = TemporaryFolder("sh")
        self.folder = self._temporary.path
        self._end_mark = secrets.token_hex(16)
        self._prelude = self.folder / "prelude"
        self._state = self.folder / "state"
        if self._is_bash:
            text = Path(__file__).with_name("prelude.bash").read_text("utf-8")
            self._prelude.write_text(self._fill(text), "utf-8")

    def remove(self) -> None:
        """Remove the folder. Blocks: call it in a thread."""
        self._temporary.remove()

    @property
    def _is_bash(self) -> bool:
        return Path(self._shell).name == "bash"

    def _fill(self, text: str) -> str:
        options = shlex.join(hardening_options())
        filled = text.replace("@END@", self._end_mark).replace("@STATE@", shlex.quote(str(self._state)))
        return filled.replace("@GIT@", options)

    def argv(self, command: str) -> tuple[str, ...]:
        """Return the argument list of the shell. bash gets exactly the text of the command."""
        if self._is_bash:
            return ("bash", "--noprofile", "--norc", "-c", command)
        return ("sh", "-c", self._fill(_TRAP), "sh", command)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables for the shell."""
        return {**variables, "BASH_ENV": str(self._prelude)} if self._is_bash else dict(variables)

    def read_state(self) -> ShellState | None:
        """Return the state that the command left; None if it replaced or killed its shell. Blocks."""
        try:
            data = read_file(self._state, MAX_STATE, follow=False).data
        except FileFault:
            return None
        fields = data.split(b"\0")
        # The last field is empty; the one before it proves that the state was written completely.
        if len(fields) < 3 or fields[-2] != self._end_mark.encode():
            return None
        pairs = (os.fsdecode(field).partition("=") for field in fields[1:-2])
        # Variables that would change how the next shell reads its command, and the shell's own, are dropped.
        variables = {
            name: value for name, _, value in pairs if _NAME.fullmatch(name) and not _is_listed(name, "forgotten")
        }
        return ShellState(cwd=os.fsdecode(fields[0]), environment=variables)


def _is_listed(name: str, key: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in names(key))


MAX_COMMAND = 100_000
"""Bytes; the kernel accepts no argument over 128 KiB."""
DEFAULT_TIMEOUT = 30.0
SANDBOX_EXIT = 0.3
"""Seconds that the wrapper of a confined command has to end after the command."""
JOB_EXIT = 5.0
"""Seconds to wait for the report that a background job without processes has ended."""


class CommandError(CodedError):
    """A command that was not run. `code`: `too_large`, `invalid`, `no_shell`, `folder`, `closed` or `failed`."""


class ShellSession:
    """The shell of one session, on one event loop; commands run one after the other."""

    def __init__(
        self,
        *,
        folder: Path,
        roots: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        shells: tuple[str, ...] = SHELLS,
    ) -> None:
        """`folder`: where it starts. `environment`: its first variables, by default `child_environment()`."""
        self._home = folder
        self._roots = tuple(roots) or (folder,)
        self._initial_environment = dict(child_environment() if environment is None else environment)
        self._environment = dict(self._initial_environment)
        self.cwd = folder
        """Where the next command starts by default."""
        self._shells = shells
        self._lock = asyncio.Lock()
        self._current: Child | None = None
        self._closed = False
        self._children: set[Child] = set()
        self._background: dict[int, BackgroundJob] = {}
        self._last_job = 0

    def env_changes(self) -> tuple[str, ...]:
        """Return changed variables that affect how programs are found or loaded: `NAME=value`, or `NAME (unset)`."""
        before, after = self._initial_environment, self._environment
        return tuple(
            f"{name}={after[name]}" if name in after else f"{name} (unset)"
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name) and _is_listed(name, "reported")
        )

    async def run(
        self,
        command: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        capture: Capture | None = None,
        cwd: Path | None = None,
        confinement: Confinement | None = None,
    ) -> CommandOutcome:
        """Run `command` for at most `timeout` seconds, in `cwd` or in the folder where the last command ended.

        Raises CommandError if it can't be run at all. Cancelling kills what was started.
        """
        check_command(command)
        async with self._lock:
            if self._closed:
                raise CommandError("The session's shell is closed.", "closed")
            shell = next((path for path in self._shells if os.access(path, os.X_OK)), None)
            if shell is None:
                raise CommandError(f"No shell was found: looked for {', '.join(self._shells)}.", "no_shell")
            notes = await self._job_reports()
            start = self._starting_folder(cwd, notes)
            capture = capture or Capture()
            job = await asyncio.to_thread(CommandJob, shell)
            try:
                stage = Stage(program=shell, argv=job.argv(command))
                child = await self._start(job, stage, start, capture, confinement)
                outcome = await self._wait(child, capture, timeout, command, is_confined=confinement is not None)
                state = await asyncio.to_thread(job.read_state)
                self._apply_state(start, state, outcome, notes)
                return self._with_notes(outcome, timeout, notes)
            finally:
                self._current = None
                await asyncio.shield(asyncio.to_thread(job.remove))

    def _starting_folder(self, cwd: Path | None, notes: list[str]) -> Path:
        if cwd is not None:
            if not cwd.is_dir():
                raise CommandError(f"There is no folder {cwd}.", "folder")
            return cwd
        if not self.cwd.is_dir():
            notes.append(f"The folder {self.cwd} is gone; the command ran in {self._home}.")
            self.cwd = self._home
        return self.cwd

    async def _start(
        self, job: CommandJob, stage: Stage, cwd: Path, capture: Capture, confinement: Confinement | None
    ) -> Child:
        try:
            child = await Child.start(
                [stage],
                cwd=cwd,
                environment=job.environment(self._environment),
                capture=capture,
                keep=True,
                confinement=confinement,
                writable=[job.folder],
            )
        except ProcessError as error:
            raise CommandError(str(error), "folder" if error.code == "folder" else "failed") from error
        self._current = child
        self._children = {other for other in self._children if other.alive} | {child}
        if self._closed:
            capture.mute()
            child.stop()
        return child

    async def _wait(
        self, child: Child, capture: Capture, timeout: float, command: str, *, is_confined: bool
    ) -> CommandOutcome:
        status: int | None = None
        timed_out = False
        try:
            status = await child.wait(timeout)
        except TimeoutError:
            timed_out = True
            child.stop()
        if status is not None and child.left_over and is_confined:
            with contextlib.suppress(TimeoutError):  # the wrapper's own processes end a little later
                async with asyncio.timeout(SANDBOX_EXIT):
                    await child.gone()
        if status is not None and child.left_over and child.alive and not self._closed:
            self._last_job += 1
            self._background[self._last_job] = BackgroundJob(self._last_job, command, child)
        else:
            await child.gone()
        return await finished_process(capture, status, timed_out=timed_out)

    # --- notes for the model ---

    def _apply_state(self, started: Path, state: ShellState | None, outcome: CommandOutcome, notes: list[str]) -> None:
        """Take over folder and variables, and note what is unusual about them."""
        self.cwd = started
        if outcome.exit_code is None:  # stopped: what the shell wrote before it died is arbitrary
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
            cause = " (killed, or out of memory)" if name == "SIGKILL" else ""
            notes.append(f"Exit code {outcome.exit_code}: ended by {name}{cause}.")
        if outcome.note:
            notes.append(outcome.note)
        latest = self._background.get(self._last_job)
        if latest and latest.child is self._current and (job := latest.job()):
            pids = ", ".join(map(str, job.pids[:10]))
            notes.append(f"Left running in the background as job {job.id}: {job.program} (pid {pids}).")
        outcome = replace(outcome, cwd=str(self.cwd), note="\n".join(notes))
        return replace(outcome, exit_code=None, timed_out=False, interrupted=True) if self._closed else outcome

    async def _job_reports(self) -> list[str]:
        """Report what jobs of earlier commands wrote, and which ended."""
        notes = []
        for number, background in list(self._background.items()):
            if background.job() is None:  # its processes are gone; the supervisor reports it a moment later
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(JOB_EXIT):
                        await background.child.gone()
            if output := background.new_output():
                notes.append(output)
            if not background.child.alive:
                notes.append(f"Background job {number} ({background.title}) has ended.")
                del self._background[number]
        return notes

    def jobs(self) -> tuple[Job, ...]:
        """Return what runs in the background."""
        jobs = (background.job() for background in self._background.values())
        return tuple(job for job in jobs if job is not None)

    async def jobs_ended(self, jobs: Collection[int]) -> None:
        """Wait until no process of these background jobs is left."""
        for background in [background for background in self._background.values() if background.number in jobs]:
            await background.child.gone()

    async def close(self) -> None:
        """Kill everything that runs, including background jobs. No command can be run afterwards."""
        self._closed = True
        for child in self._children:
            child.stop()
        for child in tuple(self._children):
            await child.gone()
        self._background.clear()


def check_command(command: str) -> None:
    """Raise CommandError if the text can't be a command line."""
    try:
        size = len(command.encode("utf-8"))
    except UnicodeEncodeError:
        raise CommandError("The command is not valid Unicode text; it was not run.", "invalid") from None
    if "\0" in command:
        raise CommandError("The command holds a NUL character; it was not run.", "invalid")
    if size > MAX_COMMAND:
        message = f"The command is {size:,} bytes long, {MAX_COMMAND:,} are allowed: write it to a file and run that."
        raise CommandError(message, "too_large")
    if not command.strip():
        raise CommandError("The command is empty.", "invalid")


JOB_OUTPUT = 64 * 1024
"""Bytes of a background job's output that are kept."""
REPORTED_LINES = 5
REPORTED_CHARACTERS = 600
MAX_COMMAND_LINE = 200


class Job(FrozenValue, frozen=True, kw_only=True):
    """Processes that a command left behind."""

    id: int
    pids: tuple[int, ...]
    """The oldest first."""
    program: str
    """Command line of the oldest process."""


class BackgroundJob:
    """What one command left behind, and its later output."""

    def __init__(self, number: int, command: str, child: Child) -> None:
        self.number = number
        self.title = one_line(command, 60)
        self.child = child
        self._command = command
        self._capture = Capture(rings=RingBuffer(0, JOB_OUTPUT))
        self._reported = 0
        child.redirect(self._capture)

    def job(self) -> Job | None:
        """Return its current state; None if no process is left."""
        pids = tuple(sorted(supervisor.descendants(self.child.pid))) if self.child.alive else ()
        return Job(id=self.number, pids=pids, program=self._program(pids[0])) if pids else None

    def _program(self, pid: int) -> str:
        line = _command_line(pid)
        # A subshell still has the arguments of the shell that it was forked from.
        return self.title if not line or line.endswith(one_line(self._command, MAX_COMMAND_LINE)[-40:]) else line

    def new_output(self) -> str:
        """Return the end of what was written since the last call; empty if nothing was."""
        total = self._capture.rings.total_bytes
        count, self._reported = total - self._reported, total
        if not count:
            return ""
        rings = RingBuffer(0, JOB_OUTPUT)
        rings.add(self._capture.rings.tail[-count:])
        lines = present(rings).text.splitlines()
        excerpt = "\n".join(lines[-REPORTED_LINES:])[-REPORTED_CHARACTERS:]
        return f"Background job {self.number} ({self.title}) has written since, at the end:\n{excerpt}"


def _command_line(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()[:4096]
    except OSError:
        return ""
    return one_line(line.replace(b"\0", b" ").decode("utf-8", "replace").strip(), MAX_COMMAND_LINE)
