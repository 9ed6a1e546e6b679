"""What a sandboxed command must not reach: servers, processes, files and IPC of the same user, outside of the sandbox.

A script with the standard library only, so that it runs as any user: `outside.py`, with a JSON list of `[kind, target]`
as the first line of its input. It answers with the list of targets to put into the attacks; at the end of its input it
prints the list of numbers of those that have noticed an attack, and ends what it has started.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

PROOF = "ESCAPED"
_LIBC = ctypes.CDLL(None, use_errno=True)


class Outside:
    def __init__(self) -> None:
        self.closing = contextlib.ExitStack()
        self.noticed: list[Callable[[], bool]] = []
        """For each target whether it was attacked."""

    def make(self, kind: str, target: str) -> str:
        """Make one and return its target; empty if that is not possible here."""
        target = os.path.expanduser(target)
        self.noticed.append(lambda: False)
        try:
            made: Any = getattr(self, "_" + kind.replace(" ", "_").replace("-", "_"))(target)
        except (PermissionError, subprocess.CalledProcessError):
            return ""
        return str(made if made is not None else target)

    # --- sockets ---

    def _listen(self, address: str, kind: int) -> socket.socket:
        if not address.startswith("\0"):
            self._folder_of(address)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(address)
            self.closing.callback(_remove, address)
        server = socket.socket(socket.AF_UNIX, kind)
        server.bind(address)
        if not address.startswith("\0"):
            os.chmod(address, 0o777)
        return server

    def _folder_of(self, path: str) -> None:
        folder = os.path.dirname(os.path.abspath(path))
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            os.mkdir(folder)
            self.closing.callback(_remove, folder)

    def _serve(self, server: socket.socket) -> None:
        self.closing.callback(server.close)
        server.listen(50)

        def answer() -> None:
            while True:
                try:
                    client = server.accept()[0]
                except OSError:
                    return
                self.closing.callback(client.close)  # not now: it may not have sent anything yet
                with contextlib.suppress(OSError):
                    client.sendall(PROOF.encode() + b"\n")

        threading.Thread(target=answer, daemon=True).start()

    def _receive(self, server: socket.socket) -> None:
        self.closing.callback(server.close)
        server.setblocking(False)

        def received() -> bool:
            with contextlib.suppress(OSError):
                return bool(server.recv(100))
            return False

        self.noticed[-1] = received

    def _stream(self, path: str) -> None:
        self._serve(self._listen(path, socket.SOCK_STREAM))

    def _packets(self, path: str) -> None:
        self._serve(self._listen(path, socket.SOCK_SEQPACKET))

    def _datagram(self, path: str) -> None:
        self._receive(self._listen(path, socket.SOCK_DGRAM))

    def _abstract(self, name: str) -> None:
        self._serve(self._listen("\0" + name, socket.SOCK_STREAM))

    def _abstract_datagram(self, name: str) -> None:
        self._receive(self._listen("\0" + name, socket.SOCK_DGRAM))

    def _late(self, path: str) -> None:
        """A socket that appears half a second later."""
        timer = threading.Timer(0.5, self._stream, [path])
        self.closing.callback(timer.cancel)
        timer.start()

    def _tcp(self, port: str) -> int:
        server = socket.create_server(("127.0.0.1", int(port)))
        self._serve(server)
        number: int = server.getsockname()[1]
        return number

    def _udp(self, port: str) -> int:
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(("127.0.0.1", int(port)))
        self._receive(server)
        number: int = server.getsockname()[1]
        return number

    def _tmux(self, path: str) -> str | None:
        if not shutil.which("tmux"):
            return ""
        self._folder_of(path)
        environment = {**os.environ, "TMUX": "", "TERM": "xterm"}
        command = ["tmux", "-f", "/dev/null", "-S", path]
        subprocess.run([*command, "new-session", "-d", "sleep 600"], env=environment, check=True)
        self.closing.callback(_remove, path)
        self.closing.callback(subprocess.run, [*command, "kill-server"], env=environment, check=False)
        proof = path + ".proof"
        self.closing.callback(_remove, proof)
        self.noticed[-1] = lambda: os.path.exists(proof)
        return None

    def _ssh_agent(self, path: str) -> str | None:
        if not shutil.which("ssh-agent"):
            return ""
        self._folder_of(path)
        _remove(path)
        process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.PIPE)
        assert process.stdout
        process.stdout.readline()
        self.closing.callback(process.stdout.close)
        self.closing.callback(process.wait)
        self.closing.callback(process.kill)
        return None

    # --- processes ---

    def _process(self, _target: str, command: str = "exec sleep 600", **more: Any) -> int:
        process = subprocess.Popen(["/bin/bash", "-c", command], start_new_session=True, **more)
        self.closing.callback(process.wait)
        self.closing.callback(process.kill)
        state = f"/proc/{process.pid}/stat"

        def harmed() -> bool:
            with open(state) as file:
                return file.read().rpartition(")")[2].split()[0] in "TtZ"

        self.noticed[-1] = harmed
        return process.pid

    def _process_with_file(self, path: str) -> int:
        """It has a file open as descriptor 9."""
        self._folder_of(path)
        with open(path, "w+") as file:
            file.write(PROOF)
        self.closing.callback(_remove, path)
        return self._process("", f"exec sleep 600 9<>{path}")

    def _process_with_secret(self, _target: str) -> int:
        return self._process("", env={**os.environ, "SECRET": PROOF})

    # --- files ---

    def _file(self, path: str) -> None:
        self._folder_of(path)
        with open(path, "w") as file:
            file.write("untouched")
        self.closing.callback(_remove, path)
        before = os.lstat(path)

        def changed() -> bool:
            try:
                now = os.lstat(path)
            except FileNotFoundError:
                return True
            return now.st_ctime_ns != before.st_ctime_ns or now.st_ino != before.st_ino

        self.noticed[-1] = changed

    def _missing(self, path: str) -> None:
        """A path that does not exist and can be created."""
        self._folder_of(path)
        self.closing.callback(_remove, path)
        self.noticed[-1] = lambda: os.path.lexists(path)

    def _pipe(self, path: str) -> None:
        self._folder_of(path)
        os.mkfifo(path)
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.closing.callback(_remove, path)
        self.closing.callback(os.close, fd)

        def received() -> bool:
            with contextlib.suppress(BlockingIOError):
                return bool(os.read(fd, 100))
            return False

        self.noticed[-1] = received

    def _there(self, path: str) -> str | None:
        """A file of the system, if it exists."""
        return None if os.path.exists(path) else ""

    def _device(self, path: str) -> None:
        """A device that can be opened."""
        with contextlib.suppress(FileNotFoundError):
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            return
        raise PermissionError

    def _key(self, name: str) -> str | None:
        """A key ring, if there is one here; the attack adds a key to it."""
        there = os.uname().machine == "x86_64" and _LIBC.syscall(248, b"user", name.encode(), b"x", 1, -4) > 0
        return None if there else ""

    def _setuid(self, path: str) -> str | None:
        return None if os.path.exists(path) and os.stat(path).st_mode & 0o4000 else ""

    def _nothing(self, target: str) -> str:
        return target or "-"

    # --- IPC ---

    def _shared_memory(self, key: str) -> None:
        _LIBC.shmat.restype = ctypes.c_void_p
        ident = _LIBC.shmget(int(key, 16), 100, 0o1600)
        place = _LIBC.shmat(ident, None, 0)
        ctypes.memmove(place, PROOF.encode(), len(PROOF))
        self.closing.callback(_LIBC.shmctl, ident, 0, None)

    def _message_queue(self, key: str) -> None:
        ident = _LIBC.msgget(int(key, 16), 0o1600)
        _LIBC.msgsnd(ident, (1).to_bytes(8, sys.byteorder) + PROOF.encode(), len(PROOF), 0)
        self.closing.callback(_LIBC.msgctl, ident, 0, None)

    def _terminal(self, _target: str) -> str:
        control, terminal = os.openpty()
        self.closing.callback(os.close, control)
        self.closing.callback(os.close, terminal)
        return os.ttyname(terminal)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    outside = Outside()
    with outside.closing:
        targets = [outside.make(kind, target) for kind, target in json.loads(sys.stdin.readline())]
        print(json.dumps(targets), flush=True)
        sys.stdin.readline()
        print(json.dumps([number for number, attacked in enumerate(outside.noticed) if attacked()]), flush=True)


if __name__ == "__main__":
    main()
