"""The system calls of this process as a test wants them: counted, failing, killing, or written down for a replay.

`Machine` stands where Python hands a call over to the kernel, so everything above it is the program as it is. It is
concerned with files below one folder only; whatever else the process does goes on undisturbed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from tui_agent.platform import syscalls

BY_FD = {
    os: ("write", "pwrite", "read", "pread", "fsync", "fdatasync", "ftruncate", "fchmod", "fchown", "close"),
    fcntl: ("flock",),
}
BY_PATH = {os: ("open", "mkdir", "rmdir", "unlink"), syscalls: ("openat2",)}
BY_TWO = {os: ("rename", "link"), syscalls: ("exchange",)}
SYNCS = ("fsync", "fdatasync")
WRITES = ("write", "pwrite")
CHANGES = (*WRITES, *SYNCS, "ftruncate", "fchmod", "open", "mkdir", "rmdir", "unlink", "rename", "link", "exchange")


class Op(NamedTuple):
    """A call that changed something, as it is needed to do it again."""

    name: str
    file: int = 0
    """The file or folder itself, whatever it is called."""
    place: str = ""
    """For names: the name, relative to the root; its folder is the first part."""
    other: str = ""
    offset: int = 0
    data: bytes = b""


class Mark(NamedTuple):
    """What was promised when so many calls had been made."""

    at: int
    promise: str


class Plan(msgspec.Struct):
    """What goes wrong: at call number `at` of the kinds `names` (all when empty), for ever with `lasting`."""

    at: int = 0
    names: tuple[str, ...] = ()
    error: int = 0
    short: bool = False
    """A write gets half of its bytes through and says so."""
    kill: str = ""
    """`before`, `within` or `after` the call this process dies as by `kill -9`."""
    lasting: bool = False


class Machine:
    """The kernel's calls for files below `root`, while the context lasts. `fired` counts what went wrong."""

    def __init__(self, root: Path, plan: Plan | None = None, *, recorder: Recorder | None = None) -> None:
        self.root = os.path.realpath(root)
        self.plan = plan or Plan()
        self.fired = 0
        self.calls: list[str] = []
        self._recorder = recorder
        self._alone = threading.RLock()
        self._real: dict[tuple[Any, str], Any] = {}

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        self.plan = Plan()

    def __enter__(self) -> Machine:
        for kinds, make in ((BY_FD, self._by_fd), (BY_PATH, self._by_path), (BY_TWO, self._by_two)):
            for module, names in kinds.items():
                for name in names:
                    real = getattr(module, name)
                    self._real[module, name] = real
                    setattr(module, name, make(name, real))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for (module, name), real in self._real.items():
            setattr(module, name, real)

    # --- the three kinds of calls ---

    def _by_fd(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(fd: Any, *rest: Any, **named: Any) -> Any:
            number = fd if isinstance(fd, int) else fd.fileno()
            if self._place(number) is None:
                return real(fd, *rest, **named)
            with self._alone:
                return self._at_fd(name, real, number, rest, named)

        return call

    def _at_fd(self, name: str, real: Callable[..., Any], fd: int, rest: Any, named: Any) -> Any:
        bad = self._goes_wrong(name)
        if name == "close":
            real(fd, *rest, **named)  # it is closed even when that reports an error
        if bad and name in WRITES and (self.plan.short or self.plan.kill == "within"):
            data = bytes(rest[0])
            rest = (data[: max(1, len(data) // 2)], *rest[1:])
        elif bad:
            self._strike()
        if name in SYNCS:
            done = None  # what a sync costs is not what is tested; what it promises is in the record
        elif name != "close":
            if self._recorder is not None and name in WRITES:
                self._recorder.about_to_write(fd)
            done = real(fd, *rest, **named)
        else:
            done = None
        if self._recorder is not None:
            self._recorder.at_fd(name, fd, rest)
        self._die(bad)
        return done

    def _by_path(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **named: Any) -> Any:
            place = self._named(path, named.get("dir_fd"))
            if place is None:
                return real(path, *rest, **named)
            with self._alone:
                bad = self._goes_wrong(name)
                if bad:
                    self._strike()
                was = os.path.lexists(os.path.join(self.root, place))
                try:
                    done = real(path, *rest, **named)
                finally:
                    self._die(bad)
                if self._recorder is not None:
                    self._recorder.at_path(name, place, done, was, rest)
                return done

        return call

    def _by_two(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(one: Any, two: Any, *rest: Any, **named: Any) -> Any:
            folder = named.get("dir_fd")
            places = [
                self._named(one, named.get("src_dir_fd", folder)),
                self._named(two, named.get("dst_dir_fd", folder)),
            ]
            if None in places:
                return real(one, two, *rest, **named)
            with self._alone:
                bad = self._goes_wrong(name)
                if bad:
                    self._strike()
                try:
                    done = real(one, two, *rest, **named)
                finally:
                    self._die(bad)
                if self._recorder is not None:
                    self._recorder.at_two(name, str(places[0]), str(places[1]))
                return done

        return call

    # --- what goes wrong ---

    def _goes_wrong(self, name: str) -> bool:
        plan = self.plan
        if plan.names and name not in plan.names:
            return False
        self.calls.append(name)
        number = len(self.calls)
        if not plan.at or number < plan.at or (number > plan.at and not plan.lasting):
            return False
        self.fired += 1
        return True

    def _strike(self) -> None:
        if self.plan.kill in ("before", "within"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.plan.error:
            raise OSError(self.plan.error, os.strerror(self.plan.error))

    def _die(self, bad: bool) -> None:
        """After the call, whatever came of it."""
        if bad and self.plan.kill:
            os.kill(os.getpid(), signal.SIGKILL)

    # --- where it is ---

    def _place(self, fd: int) -> str | None:
        try:
            path = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            return None
        return self._inside(path.removesuffix(" (deleted)"))

    def _named(self, path: Any, folder: int | None) -> str | None:
        if isinstance(path, int):
            return None
        text = os.fsdecode(path)
        if not os.path.isabs(text):
            base = os.getcwd() if folder is None else os.readlink(f"/proc/self/fd/{folder}")
            text = os.path.join(base, text)
        return self._inside(os.path.normpath(text))

    def _inside(self, path: str) -> str | None:
        if path == self.root:
            return "."
        return path[len(self.root) + 1 :] if path.startswith(self.root + "/") else None


def open_files(folder: Path) -> list[str]:
    """What this process has open below `folder`."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if path.startswith(str(folder)):
            found.append(path)
    return found


class Recorder:
    """Writes down every change below a folder, so that what a loss of power may leave of it can be made again."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.marks: list[Mark] = []
        self._next = 0
        self._files: dict[str, int] = {".": 0}
        self._open: dict[int, int] = {}
        self._offset = 0

    def promise(self, what: str) -> None:
        """Something was acknowledged: it must be true of every state from here on."""
        self.marks.append(Mark(len(self.ops), what))

    def about_to_write(self, fd: int) -> None:
        status = os.fstat(fd)
        appends = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND
        self._offset = status.st_size if appends else os.lseek(fd, 0, os.SEEK_CUR)

    def at_fd(self, name: str, fd: int, rest: Any) -> None:
        file = self._open.get(fd)
        if name == "close":
            self._open.pop(fd, None)
        if file is None:
            return
        if name in WRITES:
            offset = rest[1] if name == "pwrite" else self._offset
            self.ops.append(Op("write", file, offset=offset, data=bytes(rest[0])))
        elif name == "ftruncate":
            self.ops.append(Op("truncate", file, offset=rest[0]))
        elif name in SYNCS:
            self.ops.append(Op("sync", file))

    def at_path(self, name: str, place: str, done: Any, was: bool, rest: Any) -> None:
        if name in ("open", "openat2"):
            if not was:
                self._name(place)
                self.ops.append(Op("create", self._files[place], place))
            self._open[done] = self._files.setdefault(place, -1)
            if rest and isinstance(rest[0], int) and rest[0] & os.O_TRUNC and was:
                self.ops.append(Op("truncate", self._files[place]))
        elif name == "mkdir":
            self._name(place)
            self.ops.append(Op("mkdir", self._files[place], place))
        else:
            self.ops.append(Op("gone", self._files.pop(place, -1), place))

    def at_two(self, name: str, one: str, two: str) -> None:
        files = self._files
        if name == "exchange":
            files[one], files[two] = files[two], files[one]
        elif name == "rename":
            files[two] = files.pop(one)
        else:
            files[two] = files[one]
        self.ops.append(Op(name, files[two], one, two))

    def _name(self, place: str) -> None:
        self._next += 1
        self._files[place] = self._next


ERRORS: dict[str, tuple[int, ...]] = {
    "write": (errno.ENOSPC, errno.EIO),
    "pwrite": (errno.ENOSPC, errno.EIO),
    "fsync": (errno.EIO, errno.ENOSPC),
    "fdatasync": (errno.EIO, errno.ENOSPC),
    "open": (errno.ENOSPC, errno.EROFS, errno.EMFILE),
    "openat2": (errno.EACCES, errno.EMFILE, errno.ENOSYS),
    "mkdir": (errno.ENOSPC, errno.EROFS, errno.EACCES),
    "rmdir": (errno.EIO,),
    "unlink": (errno.EIO, errno.EROFS),
    "rename": (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EXDEV),
    "link": (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EPERM),
    "exchange": (errno.EIO, errno.ENOSPC, errno.EROFS, errno.ENOSYS),
    "ftruncate": (errno.EIO, errno.EROFS),
    "fchmod": (errno.EIO, errno.EROFS, errno.EPERM),
    "close": (errno.EIO, errno.ENOSPC),
    "read": (errno.EIO,),
    "pread": (errno.EIO,),
    "flock": (errno.ENOLCK, errno.EIO, errno.EWOULDBLOCK),
}
"""With what each call may fail."""
