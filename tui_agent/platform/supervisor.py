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

TYPE_CHECKING = False  # that of `typing` would take some milliseconds
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
KILL_TIMEOUT = 3.0
"""Seconds after which processes that survive SIGKILL (blocked in the kernel) are given up."""

Stage = tuple[bytes, list[bytes], int, int]
"""Program, argv, and where stdout and stderr go: 0 for /dev/null, 1 for the next stage or the output, 2 for the errors.
Several stages are a pipeline."""
SandboxSpec = dict[str, "Any"]
"""The fields of `proc.SandboxSpec`, with paths as bytes."""
Request = tuple[list[Stage], bytes, dict[bytes, bytes], bool, "SandboxSpec | None", list[bytes], int]
"""Stages, folder, environment, whether processes that the command leaves may stay until a stop, its sandbox, folders
that are created while it runs if they are missing, and the bytes of memory that each process may use (0: all)."""

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
        self.alive = os.pipe()
        """Process 1 of a sandbox reads the first end, which ends with the supervisor."""
        self.connections: dict[int, Any] = {}
        """The `seccomp.Connections` of the stages by descriptor."""
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
        stages, folder, environment, _, sandbox_spec, _, memory = request
        if memory:
            _limit(memory)
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
        receiver, sender = _socket_pair() if sandbox_spec else (None, None)
        pid = os.fork()
        if pid == 0:
            os.close(self.alive[1])

            def confine() -> None:
                if sandbox_spec and sender:
                    _confine(sandbox_spec, self.alive[0], sender)

            _execute(stage, fds, folder, environment, confine, write_end, supervisor)
        os.close(write_end)
        self.stages.append(pid)
        self.running.add(pid)
        problem = os.read(error_pipe, 100).decode()
        os.close(error_pipe)
        if receiver and sender:
            sender.close()
            with receiver:
                for fd in () if problem else _receive(receiver):
                    self._judge(fd, sandbox_spec or {})
        return problem

    def _judge(self, fd: int, sandbox_spec: SandboxSpec) -> None:
        """Judge the connections of a stage, about which the kernel asks through `fd`."""
        own_network, network = sandbox_spec["own_network"], sandbox_spec["network"]
        self.connections[fd] = _load("seccomp").Connections(
            fd, sandbox_spec["reachable"], abstract=own_network, tcp=own_network or network
        )

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
        for judged in self.connections:
            poll.register(judged, select.POLLIN)
        while not self.stopping:
            remaining = self.reap()
            if not self.running and not self.reported:
                self.reported = True
                self.send(f"exited {self.status} {int(remaining)}")
            if self.reported and not (remaining and keep):
                return
            for fd, event in poll.poll():
                # On the control socket a `k`, its end and an error mean the same.
                if fd == self.wakeup:
                    self._drain_wakeup()
                elif fd in self.connections:
                    if event & ~select.POLLIN or not self.connections[fd].serve():
                        poll.unregister(fd)  # no process of the stage is left
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
    confine: Callable[[], None],
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
        step = "sandbox"
        confine()
        step = "folder"
        os.chdir(folder)
        step = "program"
        os.execve(stage[0], stage[1], environment)
    except Exception as error:
        os.write(error_pipe, f"{getattr(error, 'errno', None) or 5} {step}".encode())
    finally:
        os._exit(127)


def _limit(memory: int) -> None:
    """Limit the data of this process and of those that it starts; it is small itself."""
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        limit = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    except (ImportError, OSError, ValueError):
        return


def _confine(sandbox_spec: SandboxSpec, alive: int, sender: socket.socket) -> None:
    """Confine this process, or a new one, which then returns; send the descriptor for its connections."""
    mounts, landlock, sockets = sandbox_spec["mounts"], sandbox_spec["landlock"], sandbox_spec["sockets"]
    network, own_network = sandbox_spec["network"], sandbox_spec["own_network"]
    module = _load("landlock")
    if mounts is not None:
        _load("namespaces").enter(mounts, network=network, alive=alive)
    module.forbid_privileges()
    if landlock:
        _load("namespaces").drop_capabilities()
        module.restrict_writing(sandbox_spec["writable"], tcp=not network and not own_network, version=landlock)
    if sockets != "open":
        asked = sockets == "asked"
        fd = _load("seccomp").filter_system_calls(network=network or own_network, asks=asked)
        if asked:
            import socket

            socket.send_fds(sender, [b"f"], [fd])


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    import socket

    return socket.socketpair()


def _receive(receiver: socket.socket) -> list[int]:
    """Return the descriptor that a confined stage has sent, if any."""
    import socket

    return socket.recv_fds(receiver, 1, 1)[1]


def _load(name: str) -> Any:
    """Load a module of this folder by its path: the folder is not on the module path, where it could hide modules."""
    import importlib.util

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OSError(2, name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def print_available() -> None:
    """Print what works here: `namespaces`, then `asked`, `denied` or `open` for sockets (`SandboxSpec.sockets`)."""
    landlock = _load("landlock").abi_version()
    mounts = {"writable": [], "visible": [], "guarded": [], "hidden": [], "temporary": b""}
    spec: SandboxSpec = {"mounts": None, "landlock": 0, "writable": [], "network": False, "own_network": True}
    alive, (receiver, sender) = os.pipe(), _socket_pair()
    if landlock and _works({**spec, "mounts": mounts, "landlock": landlock, "sockets": "open"}, alive[0], sender):
        print("namespaces")
    if _connects({**spec, "sockets": "asked"}, receiver, sender):
        print("asked")
    else:
        print("denied" if _works({**spec, "sockets": "denied"}, alive[0], sender) else "open")


def _works(spec: SandboxSpec, alive: int, sender: socket.socket, act: Callable[[], object] = bool) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            _confine(spec, alive, sender)
            act()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _connects(spec: SandboxSpec, receiver: socket.socket, sender: socket.socket) -> bool:
    """Return True if a confined process can connect, by asking."""
    import socket

    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("")
        server.listen()
        pid = os.fork()
        if pid == 0:
            os._exit(not _works(spec, -1, sender, lambda: client.connect(server.getsockname())))
        sender.close()
        for fd in _receive(receiver):
            _load("seccomp").Connections(fd, [], abstract=True, tcp=True).serve()
        return os.waitpid(pid, 0)[1] == 0


if __name__ == "__main__":
    print_available() if sys.argv[1:] == ["probe"] else supervise()
