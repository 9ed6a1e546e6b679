"""The supervisor process: starts one command, and kills its whole process tree on request or when its parent dies.

It runs as a script with the standard library only (`python -I -S supervisor.py`), to start quickly. It is the leader of
a session and, on Linux, a subreaper: processes below it that double-fork, call `setsid` or are disowned become its
children, so that no process is left once it has no children.

File descriptor 0 is a stream socket to the parent, 1 the pipe for the command's output. Two numbers as arguments are
the descriptors for the command's standard input and standard error; with -1 it reads nothing, or its errors are part of
its output. The parent sends one request (8 bytes of length, then `marshal` of the tuple `Request`), afterwards
single bytes: `k` kills everything. The replies are the lines `started PID…`, `failed ERRNO STEP`, `exited STATUS LEFT`
(a negative status is a signal; LEFT is 1 if processes remain) and finally `gone COUNT`, the number of processes that
could not be killed. The end of the socket, a SIGTERM and the death of the parent mean the same as `k`.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import sys
import time

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
KILL_TIMEOUT = 3.0
"""Seconds after which processes that survive SIGKILL (blocked in the kernel) are given up."""

Stage = tuple[bytes, list[bytes], int, int]
"""Program, argv, and where stdout and stderr go: 0 for /dev/null, 1 for the next stage or the output, 2 for the errors.
Several stages are a pipeline."""
SandboxSpec = tuple[list[bytes], list[bytes], list[bytes], bool, bool, int]
"""As in landlock.py."""
Request = tuple[list[Stage], bytes, dict[bytes, bytes], bool, "SandboxSpec | None", list[bytes]]
"""Stages, folder, environment, whether processes that the command leaves may stay until a stop, its sandbox, and
folders that are created while it runs if they are missing."""

_RESET = ("HUP", "INT", "QUIT", "PIPE", "ALRM", "TERM", "USR1", "USR2", "CHLD", "XFSZ", "TSTP", "TTIN", "TTOU", "CONT")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_DEATHSIG = 1  # PR_SET_PDEATHSIG


def process_table() -> dict[int, tuple[int, int]]:
    """Return all living processes: pid → (parent's pid, process group), without zombies."""
    if not os.path.isdir("/proc/self"):
        return _process_table_by_ps()
    processes = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
            try:
                line = os.read(fd, 1024)
            finally:
                os.close(fd)
        except OSError:
            continue
        fields = line[line.rfind(b")") + 2 :].split()
        if len(fields) > 2 and fields[0] not in (b"Z", b"X"):
            processes[int(name)] = (int(fields[1]), int(fields[2]))
    return processes


def _process_table_by_ps() -> dict[int, tuple[int, int]]:
    processes = {}
    with os.popen("/bin/ps -A -o pid=,ppid=,pgid=,stat=") as lines:
        for line in lines:
            pid, parent, group, state = (*line.split(), "", "", "", "")[:4]
            if group.isdigit() and not state.startswith("Z"):
                processes[int(pid)] = (int(parent), int(group))
    return processes


def descendants(root: int) -> dict[int, int]:
    """Return the living processes below `root`: pid → process group."""
    processes = process_table()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    below: dict[int, int] = {}
    remaining = [root]
    while remaining:
        for pid in children.get(remaining.pop(), ()):
            if pid not in below:
                below[pid] = processes[pid][1]
                remaining.append(pid)
    return below


def _prctl(option: int, value: int) -> None:
    """Call prctl on Linux; the supervisor also works without it."""
    if sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return


def _signal(pid: int, group: int, number: int) -> None:
    """Send a signal to the whole group at once, which no fork can escape, then to the process itself."""
    own = os.getpgrp()
    for send, target in ((os.killpg, group), (os.kill, pid)):
        if target > 1 and target != own:
            try:
                send(target, number)
            except (ProcessLookupError, PermissionError):
                continue


class Supervisor:
    """One command with all its processes."""

    def __init__(self, control: int, output: int, source: int = -1, errors: int = -1) -> None:
        self.control = control
        self.output = output
        self.source = os.open(os.devnull, os.O_RDWR) if source < 0 else source
        self.errors = output if errors < 0 else errors
        self.parent = os.getppid()
        self.stages: list[int] = []
        self.running: set[int] = set()
        self.status = 0
        self.reported = False
        self.stopping = False
        self.wakeup, write_end = os.pipe()
        for fd in (self.wakeup, write_end):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for name in ("CHLD", "TERM", "HUP", "INT", "USR1"):
            signal.signal(getattr(signal, "SIG" + name), self._on_signal)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        _prctl(_SUBREAPER, 1)
        _prctl(_DEATHSIG, signal.SIGUSR1)

    def _on_signal(self, number: int, _frame: object) -> None:
        # SIGUSR1 also comes when only the thread that started us ends, while the parent still lives.
        if number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT) or os.getppid() != self.parent:
            self.stopping = True

    def send(self, line: str) -> None:
        try:
            os.write(self.control, line.encode() + b"\n")
        except OSError:
            self.stopping = True

    def receive_request(self) -> Request | None:
        """Return what to run; None if the parent ended before the request was complete."""
        header = self._read_exactly(8)
        body = self._read_exactly(int.from_bytes(header, "big")) if header else b""
        if not body:
            return None
        request: Request = marshal.loads(body)
        return request

    def _read_exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = os.read(self.control, min(size - len(parts), 1 << 20))
            if not part:
                return b""
            parts += part
        return bytes(parts)

    def start(self, request: Request) -> bool:
        """Start the stages, joined by pipes; False if one of them can't be started."""
        stages, folder, environment, _, sandbox_spec, _ = request
        null = os.open(os.devnull, os.O_RDWR)
        source = self.source
        for index, stage in enumerate(stages):
            next_source, sink = (-1, self.output) if index == len(stages) - 1 else os.pipe()
            targets = (null, sink, self.errors)
            fds = (source, targets[stage[2]], targets[stage[3]])
            problem = self._fork(stage, fds, folder, environment, sandbox_spec)
            for fd in (source, sink):
                if fd != self.output:
                    os.close(fd)
            source = next_source
            if problem:
                self.send("failed " + problem)
                return False
        for fd in {null, self.output, self.errors}:
            os.close(fd)
        self.send("started " + " ".join(map(str, self.stages)))
        return True

    def _fork(
        self,
        stage: Stage,
        fds: tuple[int, int, int],
        folder: bytes,
        environment: dict[bytes, bytes],
        sandbox_spec: SandboxSpec | None,
    ) -> str:
        """Start a program; return an empty string, or `ERRNO STEP` if that failed."""
        error_pipe, write_end = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            _execute(stage, fds, folder, environment, sandbox_spec, write_end, supervisor)
        os.close(write_end)
        self.stages.append(pid)
        self.running.add(pid)
        problem = os.read(error_pipe, 100).decode()
        os.close(error_pipe)
        return problem

    def reap(self) -> bool:
        """Collect ended children; False if no process is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.running.clear()
                return False
            if pid == 0:
                return True
            self.running.discard(pid)
            if self.stages and pid == self.stages[-1]:
                self.status = os.waitstatus_to_exitcode(status)

    def watch(self, keep: bool) -> None:
        """Wait until the command has ended and no process that may stay is left, or until a stop."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wakeup, select.POLLIN)
        while not self.stopping:
            remaining = self.reap()
            if not self.running and not self.reported:
                self.reported = True
                self.send(f"exited {self.status} {int(remaining)}")
            if self.reported and not (remaining and keep):
                return
            for fd, _ in poll.poll():
                # On the control socket a `k`, its end and an error mean the same.
                if fd == self.wakeup:
                    self._drain_wakeup()
                else:
                    self.stopping = True

    def _drain_wakeup(self) -> None:
        try:
            while os.read(self.wakeup, 512):
                pass
        except BlockingIOError:
            return

    def kill_all(self) -> int:
        """Terminate all processes, after GRACE kill them; return the number of survivors."""
        terminated: set[int] = set()
        start = time.monotonic()
        while True:
            below = descendants(os.getpid())
            elapsed = time.monotonic() - start
            if (not self.reap() and not below) or elapsed > GRACE + KILL_TIMEOUT:
                return len(below)
            for pid, group in below.items():
                if elapsed > GRACE:
                    _signal(pid, group, signal.SIGKILL)
                elif pid not in terminated:
                    terminated.add(pid)
                    _signal(pid, group, signal.SIGTERM)
                    _signal(pid, group, signal.SIGCONT)
            self._pause(5 if elapsed > GRACE else 20)

    def _pause(self, milliseconds: int) -> None:
        """Wait until a child ends, or for that time."""
        poll = select.poll()
        poll.register(self.wakeup, select.POLLIN)
        if poll.poll(milliseconds):
            self._drain_wakeup()


def _execute(
    stage: Stage,
    fds: tuple[int, int, int],
    folder: bytes,
    environment: dict[bytes, bytes],
    sandbox_spec: SandboxSpec | None,
    error_pipe: int,
    supervisor: int,
) -> None:
    """Execute the program in the new process, or report the failing step. Never returns."""
    step = "setup"
    try:
        os.setsid()
        _prctl(_DEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(127)
        signal.set_wakeup_fd(-1)
        for name in _RESET:
            signal.signal(getattr(signal, "SIG" + name), signal.SIG_DFL)
        for number, fd in enumerate([os.dup(fd) for fd in fds]):
            os.dup2(fd, number)
        if sandbox_spec is not None:
            step = "sandbox"
            _confine(sandbox_spec)
            _prctl(_DEATHSIG, signal.SIGKILL)  # a new user namespace resets it
        step = "folder"
        os.chdir(folder)
        step = "program"
        os.execve(stage[0], stage[1], environment)
    except OSError as error:
        os.write(error_pipe, f"{error.errno} {step}".encode())
    finally:
        os._exit(127)


def _confine(sandbox_spec: SandboxSpec) -> None:
    """Load `landlock.py` by its path: with `-I` this folder is not on the module path, where it could hide modules."""
    import importlib.util

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "landlock.py")
    spec = importlib.util.spec_from_file_location("landlock", path)
    if spec is None or spec.loader is None:
        raise OSError(2, "landlock.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.enter(sandbox_spec)


def _make_folders(folders: list[bytes]) -> list[bytes]:
    """Create missing folders and return them."""
    created = []
    for folder in folders:
        try:
            os.mkdir(folder, 0o755)
        except OSError:
            continue
        created.append(folder)
    return created


def _remove_folders(folders: list[bytes]) -> None:
    for folder in folders:
        try:
            os.rmdir(folder)
        except OSError:
            continue


def supervise() -> None:
    """Serve one request."""
    control, output = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    ends = [int(argument) for argument in sys.argv[1:3]]
    for fd in ends:
        if fd >= 0:
            os.set_inheritable(fd, False)
    supervisor = Supervisor(control, output, *ends)
    request = supervisor.receive_request()
    if request is None:
        return
    created = _make_folders(request[5])
    if supervisor.start(request):
        supervisor.watch(keep=request[3])
    survivors = supervisor.kill_all()
    _remove_folders(created)
    supervisor.send(f"gone {survivors}")


if __name__ == "__main__":
    supervise()
