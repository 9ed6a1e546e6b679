"""A filter for the system calls of a sandboxed command, and the judgment of what it connects to (A10).

Uses the standard library only, as the supervisor loads this file by its path. The filter denies sockets that nothing
else confines (datagrams to paths, vsock, packets), io_uring, which connects on its own, the user's key ring, files by
handle, and input typed into a terminal.

Neither mounts nor Landlock (before ABI 9) deny `connect` to a socket in sight, such as that of tmux, docker or an agent
for keys. So the kernel asks the supervisor about each `connect`. `Connections` copies socket and address of the asking
process and makes the connection itself: what it judged can't be exchanged afterwards.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

TYPE_CHECKING = False  # that of `typing` would take some milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence

_Test = tuple[int, int, bool, int]
"""Argument, mask, whether it must be equal, value."""
_Rule = tuple[int, "Sequence[_Test]", int]
"""A system call, what must hold for its arguments, and what happens then."""

_X86 = {"socket": 41, "socketpair": 53, "connect": 42, "ioctl": 16}
_X86_DENIED = (248, 249, 250, 304, 321, 298, 323)
_GENERIC = {"socket": 198, "socketpair": 199, "connect": 203, "ioctl": 29}
_GENERIC_DENIED = (217, 218, 219, 265, 280, 241, 282)
_MACHINES: dict[str, tuple[int, int, dict[str, int], tuple[int, ...]]] = {
    "x86_64": (0xC000003E, 317, _X86, _X86_DENIED),
    "aarch64": (0xC00000B7, 277, _GENERIC, _GENERIC_DENIED),
    "riscv64": (0xC00000F3, 277, _GENERIC, _GENERIC_DENIED),
}
"""Machine → the kernel's number of the architecture, the number of `seccomp`, calls whose arguments count, and denied
calls: add_key, request_key, keyctl, open_by_handle_at, bpf, perf_event_open, userfaultfd."""
_IO_URING_SETUP, _PIDFD_OPEN, _OPENAT2, _PIDFD_GETFD = 425, 434, 437, 438
"""On every architecture."""

_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX, _INET, _INET6, _NETLINK, _DATAGRAM, _RAW = 1, 2, 10, 16, 2, 3
_TYPE, _WORD = 0xF, 0xFFFFFFFF

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in `seccomp_data`."""
_ALLOW, _ERRNO, _ASK = 0x7FFF0000, 0x00050000, 0x7FC00000
_SPEC_ALLOW, _NEW_LISTENER, _WAIT_KILLABLE = 1 << 2, 1 << 3, 1 << 5

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_IN_ROOT, _NO_MAGIC_LINKS = 0x10, 0x02
_MAX_ADDRESS = 128


def _call(number: int, *arguments: object) -> int:
    """Make a system call. Raises OSError."""
    result: int = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


# --- the filter ---


def _rules(calls: dict[str, int], denied: Sequence[int], *, network: bool, asks: bool) -> list[_Rule]:
    no, missing = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    create = calls["socket"]
    families = (_UNIX, _NETLINK, _INET, _INET6) if network else (_UNIX, _NETLINK)
    rules: list[_Rule] = [(number, (), no) for number in denied]
    rules += [(_IO_URING_SETUP, (), missing)]
    rules += [(calls["ioctl"], [(1, _WORD, True, request)], no) for request in (_TIOCSTI, _TIOCLINUX)]
    rules += [(create, [(0, _WORD, False, family) for family in families], no)]
    rules += [(create, [(0, _WORD, True, _NETLINK), (2, _WORD, False, 0)], no)]
    for call in (create, calls["socketpair"]):
        rules += [(call, [(0, _WORD, True, _UNIX), (1, _TYPE, True, kind)], no) for kind in (_DATAGRAM, _RAW)]
    rules += [(calls["connect"], (), _ASK)] if asks else [(create, [(0, _WORD, True, _UNIX)], no)]
    return rules


def _program(architecture: int, rules: Sequence[_Rule]) -> bytes:
    """Translate rules to BPF. Other architectures (32 bit, x32) have no system calls."""
    missing = _ERRNO | errno.ENOSYS
    code = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, missing)]
    code += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, missing)]
    for number, tests, action in rules:
        size = 3 + 3 * len(tests)
        code += [(_LOAD, 0, 0, _NUMBER), (_EQUAL, 0, size - 2, number)]
        for index, (argument, mask, equal, value) in enumerate(tests):
            skip = size - 5 - 3 * index
            code += [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), (_AND, 0, 0, mask)]
            code += [(_EQUAL, 0 if equal else skip, skip if equal else 0, value)]
        code += [(_RETURN, 0, 0, action)]
    code += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in code)


class _Filter(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def filter_system_calls(*, network: bool, asks: bool) -> int:
    """Filter the system calls of this thread and of its children, permanently; it needs no_new_privs.

    `network` False: neither TCP nor UDP sockets can be made. `asks` False: no socket with a path can be made either.
    Returns the descriptor for `Connections`, or -1 without `asks`. Raises OSError.
    """
    if os.uname().machine not in _MACHINES:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    architecture, seccomp, calls, denied = _MACHINES[os.uname().machine]
    program = _program(architecture, _rules(calls, denied, network=network, asks=asks))
    loaded = _Filter(len(program) // 8, program)
    listener = _NEW_LISTENER if asks else 0
    attempts = [listener | _WAIT_KILLABLE, listener] if asks else [0]  # the former from Linux 5.19
    for flags in attempts:
        try:
            fd = _call(seccomp, ctypes.c_uint(1), ctypes.c_uint(_SPEC_ALLOW | flags), ctypes.byref(loaded))
        except OSError as error:
            if error.errno != errno.EINVAL or flags == attempts[-1]:
                raise
        else:
            return fd if asks else -1
    raise AssertionError


# --- connections ---


class Connections:
    """Judges and makes the connections of one sandboxed program and its children."""

    def __init__(self, fd: int, reachable: Sequence[bytes], *, abstract: bool, tcp: bool) -> None:
        """`reachable`: folders, as the program sees them, whose sockets it may connect to. `abstract`: whether it may
        connect to abstract sockets of its network namespace, `tcp`: to others there."""
        self.fd = fd
        self._reachable = [folder.rstrip(b"/") + b"/" for folder in reachable]
        self._abstract = abstract
        self._tcp = tcp

    def serve(self) -> bool:
        """Receive one question and answer it, if need be in a thread; False if there are no more. Never blocks."""
        question = bytearray(80)
        try:
            fcntl.ioctl(self.fd, _RECEIVE, question)
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.EINTR)  # its process was killed meanwhile
        ident, thread = struct.unpack_from("=QI", question)
        fd, address, size = struct.unpack_from("=3Q", question, 32)
        try:
            with _Copy(thread, fd) as copy:
                target = self._judge(copy, _read_address(thread, address, size & _WORD))
                fcntl.ioctl(self.fd, _IS_VALID, struct.pack("=Q", ident))
                if fcntl.fcntl(copy.socket, fcntl.F_GETFL) & os.O_NONBLOCK:
                    self._answer(ident, _connect(copy.socket, target))
                else:
                    import threading

                    arguments = (ident, copy.detach(), target)
                    threading.Thread(target=self._connect_blocking, args=arguments, daemon=True).start()
        except OSError as error:
            self._answer(ident, error.errno or errno.EPERM)
        return True

    def _judge(self, copy: _Copy, address: bytes) -> bytes:
        """Return the address to connect to; a path becomes that of a descriptor. Raises OSError."""
        if copy.domain != _UNIX or int.from_bytes(address[:2], "little") != _UNIX:
            if not self._tcp and copy.domain != _NETLINK:
                raise OSError(errno.EACCES, "network")
            return address
        name = address[2:]
        if name[:1] in (b"", b"\0"):
            if not self._abstract:
                raise OSError(errno.ECONNREFUSED, "abstract")
            return address
        copy.target = _open_in_root(copy.thread, name.split(b"\0")[0])
        path = os.readlink(b"/proc/self/fd/%d" % copy.target)
        if not any(path.startswith(folder) for folder in self._reachable):
            raise OSError(errno.EACCES, "socket")
        return struct.pack("=H", _UNIX) + b"/proc/self/fd/%d\0" % copy.target

    def _connect_blocking(self, ident: int, owned: tuple[int, int], address: bytes) -> None:
        try:
            self._answer(ident, _connect(owned[0], address))
        finally:
            for fd in owned:
                if fd >= 0:
                    os.close(fd)

    def _answer(self, ident: int, code: int) -> None:
        try:
            fcntl.ioctl(self.fd, _SEND, struct.pack("=QqiI", ident, 0, -code, 0))
        except OSError:
            return  # its process was killed meanwhile


class _Copy:
    """Copies of descriptors: the socket of the asking thread, and the target that was opened for it."""

    def __init__(self, thread: int, fd: int) -> None:
        self.thread = thread
        self.target = -1
        process = _call(_PIDFD_OPEN, ctypes.c_int(_process_of(thread)), ctypes.c_uint(0))
        try:
            self.socket = _call(_PIDFD_GETFD, ctypes.c_int(process), ctypes.c_int(fd & _WORD), ctypes.c_uint(0))
        finally:
            os.close(process)

    @property
    def domain(self) -> int:
        """The socket's family. Raises OSError if it is none."""
        value, size = ctypes.c_int(), ctypes.c_uint(4)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.getsockopt(self.socket, 1, 39, ctypes.byref(value), ctypes.byref(size)) < 0:
            raise OSError(ctypes.get_errno(), "not a socket")
        return value.value

    def detach(self) -> tuple[int, int]:
        """Hand the descriptors over to the caller."""
        owned = self.socket, self.target
        self.socket = self.target = -1
        return owned

    def __enter__(self) -> _Copy:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self.detach():
            if fd >= 0:
                os.close(fd)


def _process_of(thread: int) -> int:
    with open(f"/proc/{thread}/status", "rb") as status:
        return next(int(line[5:]) for line in status if line.startswith(b"Tgid:"))


def _read_address(thread: int, place: int, size: int) -> bytes:
    if not 2 <= size <= _MAX_ADDRESS:
        raise OSError(errno.EINVAL, "address")
    fd = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, place)
    finally:
        os.close(fd)


def _open_in_root(thread: int, path: bytes) -> int:
    """Open a path as the asking thread would, except through links of /proc."""
    absolute = path if path.startswith(b"/") else os.readlink(b"/proc/%d/cwd" % thread) + b"/" + path
    root = os.open(f"/proc/{thread}/root", os.O_PATH | os.O_CLOEXEC)
    how = struct.pack("=3Q", os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGIC_LINKS)
    try:
        return _call(_OPENAT2, ctypes.c_int(root), ctypes.c_char_p(absolute), how, ctypes.c_size_t(len(how)))
    finally:
        os.close(root)


def _connect(fd: int, address: bytes) -> int:
    """Connect and return an error number, or 0."""
    libc = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if libc.connect(ctypes.c_int(fd), address, ctypes.c_uint(len(address))) < 0 else 0
