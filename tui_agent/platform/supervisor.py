"""The supervising child: starts one command, and kills its whole tree when it is told to or its parent is gone.

Run as a script with the standard library only (`python -I -S supervisor.py`), so that it starts in a few
hundredths of a second. It is a session of its own and, on Linux, a subreaper: whoever double-forks, calls `setsid`
or is disowned below it becomes its child in the end, so "no children" means that nothing is left.

File descriptor 0 is a stream socket to the parent, 1 the pipe for the command's output. Two numbers as arguments are
the descriptors that become the command's standard input and standard error; without them it reads nothing, and its
errors are part of its output. The parent sends one
request (8 bytes of length, then `marshal` of the tuple `Request`), afterwards single bytes: `k` kills everything.
The lines sent back are `started PID…`, `failed ERRNO WHAT`, `exited STATUS LEFT` (a negative status is the signal;
LEFT is 1 when processes remain) and, as the last, `gone COUNT` with the number of processes that would not die. The
end of the socket, a SIGTERM and the death of the parent mean the same as `k`.
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
PATIENCE = 3.0
"""Seconds after which processes that survive SIGKILL (stuck in the kernel) are given up."""

Stage = tuple[bytes, list[bytes], bool, bool]
"""Program, argv, stdout to /dev/null, stderr to /dev/null. Several stages are a pipeline."""
SandboxSpec = tuple[list[bytes], list[bytes], list[bytes], bool, bool, int]
"""As in landlock.py."""
Request = tuple[list[Stage], bytes, dict[bytes, bytes], bool, "SandboxSpec | None", list[bytes]]
"""Stages, folder, environment, whether what the command leaves running may stay until a stop, what confines it, and
folders that are made for as long as it runs, where there are none."""

_RESET = ("HUP", "INT", "QUIT", "PIPE", "ALRM", "TERM", "USR1", "USR2", "CHLD", "XFSZ", "TSTP", "TTIN", "TTOU", "CONT")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_DEATHSIG = 1  # PR_SET_PDEATHSIG


def process_table() -> dict[int, tuple[int, int]]:
    """Every living process: pid → (parent's pid, process group). Zombies are left out."""
    if not os.path.isdir("/proc/self"):
        return _table_of_ps()
    found = {}
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
            found[int(name)] = (int(fields[1]), int(fields[2]))
    return found


def _table_of_ps() -> dict[int, tuple[int, int]]:
    found = {}
    with os.popen("/bin/ps -A -o pid=,ppid=,pgid=,stat=") as lines:
        for line in lines:
            pid, parent, group, state = (*line.split(), "", "", "", "")[:4]
            if group.isdigit() and not state.startswith("Z"):
                found[int(pid)] = (int(parent), int(group))
    return found


def descendants(root: int) -> dict[int, int]:
    """The living processes below `root`: pid → process group."""
    processes = process_table()
    below: dict[int, list[int]] = {}
    for pid, (parent, _) in processes.items():
        below.setdefault(parent, []).append(pid)
    found: dict[int, int] = {}
    waiting = [root]
    while waiting:
        for pid in below.get(waiting.pop(), ()):
            if pid not in found:
                found[pid] = processes[pid][1]
                waiting.append(pid)
    return found


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the supervisor works without."""
    if sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return


def _signal(pid: int, group: int, number: int) -> None:
    """To the whole group at once (a fork in the middle can't escape that), then to the process itself."""
    own = os.getpgrp()
    for send, target in ((os.killpg, group), (os.kill, pid)):
        if target > 1 and target != own:
            try:
                send(target, number)
            except (ProcessLookupError, PermissionError):
                continue


class Supervisor:
    """One command and everything that comes of it."""

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
        self.wake, wake_end = os.pipe()
        for fd in (self.wake, wake_end):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        for name in ("CHLD", "TERM", "HUP", "INT", "USR1"):
            signal.signal(getattr(signal, "SIG" + name), self._signalled)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        _prctl(_SUBREAPER, 1)
        _prctl(_DEATHSIG, signal.SIGUSR1)

    def _signalled(self, number: int, _frame: object) -> None:
        # SIGUSR1 also comes when only the thread that started us ends; then the parent is still there.
        if number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT) or os.getppid() != self.parent:
            self.stopping = True

    def tell(self, line: str) -> None:
        try:
            os.write(self.control, line.encode() + b"\n")
        except OSError:
            self.stopping = True

    def request(self) -> Request | None:
        """What to run; None when the parent went away while saying it."""
        header = self._exactly(8)
        body = self._exactly(int.from_bytes(header, "big")) if header else b""
        if not body:
            return None
        request: Request = marshal.loads(body)
        return request

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = os.read(self.control, min(size - len(parts), 1 << 20))
            if not part:
                return b""
            parts += part
        return bytes(parts)

    def start(self, request: Request) -> bool:
        """Start the stages, joined by pipes. False when one of them can't be started; then all are stopped."""
        stages, folder, environment, _, sandbox_spec, _ = request
        null = os.open(os.devnull, os.O_RDWR)
        source = self.source
        for position, stage in enumerate(stages):
            onward, sink = (-1, self.output) if position == len(stages) - 1 else os.pipe()
            fds = (source, null if stage[2] else sink, null if stage[3] else self.errors)
            problem = self._fork(stage, fds, folder, environment, sandbox_spec)
            for fd in (source, sink):
                if fd != self.output:
                    os.close(fd)
            source = onward
            if problem:
                self.tell("failed " + problem)
                return False
        for fd in {null, self.output, self.errors}:
            os.close(fd)
        self.tell("started " + " ".join(map(str, self.stages)))
        return True

    def _fork(
        self,
        stage: Stage,
        fds: tuple[int, int, int],
        folder: bytes,
        environment: dict[bytes, bytes],
        sandbox_spec: SandboxSpec | None,
    ) -> str:
        """Empty when the program runs, else `ERRNO WHAT`."""
        heard, said = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become(stage, fds, folder, environment, sandbox_spec, said, supervisor)
        os.close(said)
        self.stages.append(pid)
        self.running.add(pid)
        problem = os.read(heard, 100).decode()
        os.close(heard)
        return problem

    def reap(self) -> bool:
        """Collect the dead. False when no process is left below us."""
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
        """Until the command has ended and nothing that may stay is left, or a stop is asked for."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        while not self.stopping:
            left = self.reap()
            if not self.running and not self.reported:
                self.reported = True
                self.tell(f"exited {self.status} {int(left)}")
            if self.reported and not (left and keep):
                return
            for fd, _ in poll.poll():
                # On the control socket a `k`, its end and an error mean the same.
                self._drain_wake() if fd == self.wake else setattr(self, "stopping", True)

    def _drain_wake(self) -> None:
        try:
            while os.read(self.wake, 512):
                pass
        except BlockingIOError:
            return

    def sweep(self) -> int:
        """Stop all there is: politely, then not. Returns how many would not die."""
        warned: set[int] = set()
        end = time.monotonic() + GRACE
        while time.monotonic() < end:
            below = descendants(os.getpid())
            if not self._left(below):
                return 0
            for pid, group in below.items():
                if pid not in warned:
                    warned.add(pid)
                    _signal(pid, group, signal.SIGTERM)
                    _signal(pid, group, signal.SIGCONT)
            self._pause(20)
        end = time.monotonic() + PATIENCE
        while True:
            below = descendants(os.getpid())
            if not self._left(below) or time.monotonic() > end:
                return len(below)
            for pid, group in below.items():
                _signal(pid, group, signal.SIGKILL)
            self._pause(5)

    def _left(self, below: dict[int, int]) -> bool:
        return self.reap() or bool(below)

    def _pause(self, milliseconds: int) -> None:
        """Wait for a death, or that long."""
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        if poll.poll(milliseconds):
            self._drain_wake()


def _become(
    stage: Stage,
    fds: tuple[int, int, int],
    folder: bytes,
    environment: dict[bytes, bytes],
    sandbox_spec: SandboxSpec | None,
    said: int,
    supervisor: int,
) -> None:
    """In the new process: turn into the program, or report why not. Never returns."""
    what = "setup"
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
            what = "sandbox"
            _confine(sandbox_spec)
            _prctl(_DEATHSIG, signal.SIGKILL)  # a new user namespace forgets it
        what = "folder"
        os.chdir(folder)
        what = "program"
        os.execve(stage[0], stage[1], environment)
    except OSError as error:
        os.write(said, f"{error.errno} {what}".encode())
    finally:
        os._exit(127)


def _confine(sandbox_spec: SandboxSpec) -> None:
    """By the file beside this one; `-I` keeps its folder from the path, where its neighbours would hide modules."""
    import importlib.util

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "landlock.py")
    spec = importlib.util.spec_from_file_location("landlock", path)
    if spec is None or spec.loader is None:
        raise OSError(2, "landlock.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.enter(sandbox_spec)


def _make(folders: list[bytes]) -> list[bytes]:
    """Those that had to be made."""
    made = []
    for folder in folders:
        try:
            os.mkdir(folder, 0o755)
        except OSError:
            continue
        made.append(folder)
    return made


def _unmake(folders: list[bytes]) -> None:
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
    ends = [int(word) for word in sys.argv[1:3]]
    for fd in ends:
        os.set_inheritable(fd, False)
    supervisor = Supervisor(control, output, *ends)
    request = supervisor.request()
    if request is None:
        return
    made = _make(request[5])
    if supervisor.start(request):
        supervisor.watch(keep=request[3])
    left = supervisor.sweep()
    _unmake(made)
    supervisor.tell(f"gone {left}")


if __name__ == "__main__":
    supervise()
