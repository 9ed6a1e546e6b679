"""The session's shell: folder and exported variables go from one command to the next, nothing else does (T2, R-12).

Every command is a bash of its own, under a supervisor of its own, in the folder and with the exported variables that
the one before left. So the shell is persistent in what people rely on, while functions, aliases, traps, options and
redirections of one command can't reach into another, and `exit`, `exec`, `kill $$`, an unclosed quote or `set -e` end
nothing but their own command. The text is handed to bash as one argument: what was shown is what runs. No markers are
mixed into the output, so none can be faked (D12): the exit code comes from the kernel, folder and variables from a
file that the command's EXIT trap writes (`prelude.bash`), and what a job writes late comes through its own pipe (D13).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from tui_agent.domain import CommandOutcome
from tui_agent.platform.cage import Cage, Confinement
from tui_agent.platform.capture import Capture, Kept, OnOutput
from tui_agent.platform.environment import child_environment
from tui_agent.platform.proc import Child, Finished, ProcessError, Stage, exit_code, finished, signal_name
from tui_agent.shell.jobs import Background, Job
from tui_agent.shell.state import SHELLS, Errand, State, changes, find_shell

COMMAND_CAP = 100_000
"""Bytes; the kernel takes no argument over 128 KiB."""
DEFAULT_TIMEOUT = 30.0
WRAPPED = 0.3
"""Seconds that what wraps a confined command has to end after it."""


class CommandError(Exception):
    """A command that was not run. `code`: `too_large`, `invalid`, `no_shell`, `folder`, `closed` or `failed`."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Terminal:
    """One session's shell. Use it on one event loop; commands run one after the other."""

    def __init__(
        self,
        *,
        folder: Path,
        roots: Sequence[Path] = (),
        scratch: Path | None = None,
        environment: Mapping[str, str] | None = None,
        shells: tuple[str, ...] = SHELLS,
    ) -> None:
        """`folder`: where it starts. `scratch`: where output too long to show is kept. `environment`: the
        variables to start from, else `child_environment()`."""
        self._home = folder
        self._roots = tuple(roots) or (folder,)
        self._scratch = scratch
        self._start = dict(child_environment() if environment is None else environment)
        self._environment = dict(self._start)
        self._cwd = folder
        self._shells = shells
        self._turn = asyncio.Lock()
        self._current: Child | None = None
        self._capture: Capture | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._interrupted = False
        self._closed = False
        self._children: set[Child] = set()
        self._background: dict[int, Background] = {}
        self._count = 0

    @property
    def cwd(self) -> Path:
        """Where the next command starts if nothing else is said."""
        return self._cwd

    def env_changes(self) -> tuple[str, ...]:
        """Carried variables that change how programs are found or loaded, for the next approval (R-12)."""
        return changes(self._start, self._environment)

    async def run(
        self,
        command: str,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        on_output: OnOutput | None = None,
        cwd: Path | None = None,
        kept: Kept | None = None,
        confinement: Confinement | None = None,
    ) -> CommandOutcome:
        """Run `command`, for `timeout` seconds at most, in `cwd` or where the last one ended, confined if so wished.

        Raises CommandError when it can't be run at all. Cancelling kills what was started.
        """
        check(command)
        async with self._turn:
            if self._closed:
                raise CommandError("The session's shell is closed.", "closed")
            shell = find_shell(self._shells)
            if shell is None:
                raise CommandError(f"No shell was found: looked for {', '.join(self._shells)}.", "no_shell")
            notes = self._news()
            start = self._starting_folder(cwd, notes)
            self._idle.clear()
            self._interrupted = False
            kept = kept or Kept(self._spill())
            capture = Capture(on_output, kept.file, lines=kept.lines)
            errand = await asyncio.to_thread(Errand, shell)
            try:
                stage = Stage(program=shell, argv=errand.argv(command))
                return await self._run(command, errand, stage, start, timeout, capture, notes, confinement)
            finally:
                self._current = self._capture = None
                self._idle.set()
                await asyncio.shield(asyncio.to_thread(errand.discard))

    def _starting_folder(self, cwd: Path | None, notes: list[str]) -> Path:
        if cwd is not None:
            if not cwd.is_dir():
                raise CommandError(f"There is no folder {cwd}.", "folder")
            return cwd
        if not self._cwd.is_dir():
            notes.append(f"The folder {self._cwd} is gone; the command ran in {self._home}.")
            self._cwd = self._home
        return self._cwd

    async def _run(
        self,
        command: str,
        errand: Errand,
        stage: Stage,
        cwd: Path,
        timeout: float,
        capture: Capture,
        notes: list[str],
        confinement: Confinement | None,
    ) -> CommandOutcome:
        self._capture = capture
        environment = errand.environment(self._environment)
        stages: Sequence[Stage] = [stage]
        cage: Cage | None = None
        if confinement is not None:
            environment |= confinement.environment
            stages, cage = confinement.confine(stages, cwd, [errand.folder])
        try:
            child = await Child.start(
                stages, cwd=cwd, environment=environment, capture=capture, keep=True, cage=cage
            )
        except ProcessError as error:
            raise CommandError(str(error), "folder" if error.code == "folder" else "failed") from error
        self._current = child
        self._children = {other for other in self._children if other.alive} | {child}
        if self._interrupted:
            capture.mute()
            child.stop()
        result = await self._wait(child, capture, timeout, command, confined=confinement is not None)
        state = await asyncio.to_thread(errand.collect)
        self._settle(cwd, state, result, notes)
        return self._outcome(result, timeout, notes)

    async def _wait(
        self, child: Child, capture: Capture, timeout: float, command: str, *, confined: bool
    ) -> Finished:
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
        if status is not None and child.left_over and child.alive and not self._interrupted:
            self._count += 1
            self._background[self._count] = Background(self._count, command, child)
        else:
            await child.gone()
        return await finished(capture, status, timed_out=timed_out)

    def _spill(self) -> Path | None:
        return self._scratch / f"output-{secrets.token_hex(4)}.txt" if self._scratch else None

    # --- what the model is told ---------------------------------------------------------------

    def _settle(self, started: Path, state: State | None, result: Finished, notes: list[str]) -> None:
        """Carry folder and variables over, and say what is unusual about them (D11, D14)."""
        self._cwd = started
        if (
            result.status is None
        ):  # stopped: what the shell managed to write before it died is a matter of luck
            notes.append("Folder and variables are as before the command.")
        elif state is None:
            notes.append("The command replaced or killed its shell: folder and variables are as before it.")
        else:
            self._environment = state.environment
            self._cwd = Path(state.cwd)
        if not (self._cwd.is_absolute() and self._cwd.is_dir()):
            notes.append(f"The shell's folder is gone; the next command starts in {self._home}.")
            self._cwd = self._home
        elif self._cwd != started and not any(self._cwd.is_relative_to(root) for root in self._roots):
            notes.append(f"The shell's folder is now {self._cwd}, outside the workspace.")

    def _outcome(self, result: Finished, timeout: float, notes: list[str]) -> CommandOutcome:
        code = exit_code(result.status)
        if self._interrupted:
            notes.append("Interrupted by the user; the command and all it started were killed.")
        elif result.timed_out:
            notes.append(f"Stopped after {timeout:g} s; the command and all it started were killed.")
        elif name := signal_name(code):
            why = " (killed, or out of memory)" if name == "SIGKILL" else ""
            notes.append(f"Exit code {code}: ended by {name}{why}.")
        if result.presented.note:
            notes.append(result.presented.note)
        latest = self._background.get(self._count)
        if latest and latest.child is self._current and (job := latest.job()):
            pids = ", ".join(map(str, job.pids[:10]))
            notes.append(f"Left running in the background as job {job.id}: {job.program} (pid {pids}).")
        stopped = self._interrupted or result.timed_out
        return CommandOutcome(
            exit_code=None if stopped else code,
            output=result.presented.text,
            total_bytes=result.total_bytes,
            total_lines=result.total_lines,
            timed_out=result.timed_out and not self._interrupted,
            interrupted=self._interrupted,
            cwd=str(self._cwd),
            note="\n".join(notes),
            spill=result.spill,
        )

    def _news(self) -> list[str]:
        """Of jobs from earlier commands: what they wrote, and that they ended."""
        notes = []
        for number, background in list(self._background.items()):
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

    async def stop(self, job: int) -> bool:
        """Kill a background job with all its processes. False when there is none of that number."""
        background = self._background.get(job)
        if background is None or not background.child.alive:
            return False
        background.child.stop()
        await background.child.gone()
        return True

    async def interrupt(self) -> None:
        """Stop the running command: nothing more is shown from now on, and its tree is dead on return (W12)."""
        self._interrupted = True
        if self._capture is not None:
            self._capture.mute()
        if self._current is not None:
            self._current.stop()
        await self._idle.wait()

    async def close(self) -> None:
        """Kill all that runs, background jobs included. Nothing can be run afterwards."""
        self._closed = True
        self._interrupted = True
        for child in self._children:
            child.stop()
        for child in tuple(self._children):
            await child.gone()
        self._background.clear()


def check(command: str) -> None:
    """Raise CommandError for a text that can't be a command line (D17)."""
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
