"""Which addresses are ours: what may be bound, what a request may call us, where it may come from; opening one."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys

PORT = 8765
LOOPBACK = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6, "localhost": socket.AF_INET}
"""What may be bound."""
_NAMES = frozenset(("127.0.0.1", "localhost", "::1"))
_HOST = re.compile(r"(\[[0-9a-f:]+\]|[a-z0-9.\-]+)(?::([0-9]{1,5}))?", re.ASCII)
_ORIGIN = "http://"


class CannotServe(Exception):
    """The page can't be served; the message says why and what to do."""


def host_of(header: bytes) -> tuple[str, int] | None:
    """Name and port of a Host header, lower-cased; None for what is no host. An IPv6 address loses its brackets."""
    try:
        text = header.decode("ascii").lower()
    except UnicodeDecodeError:
        return None
    found = _HOST.fullmatch(text)
    if found is None:
        return None
    port = int(found[2]) if found[2] is not None else 80
    return found[1].strip("[]"), port


def is_ours(header: bytes, port: int) -> bool:
    """Whether a Host header is a literal loopback name with our port: nothing is resolved, no part is enough."""
    host = host_of(header)
    return host is not None and host[0] in _NAMES and host[1] == port


def same_origin(origin: bytes, host: bytes) -> bool:
    """Whether an Origin header is that of the page that the Host header names."""
    text = origin.lower()
    if not text.startswith(_ORIGIN.encode()):
        return False
    theirs, ours = host_of(text[len(_ORIGIN) :]), host_of(host)
    return theirs is not None and theirs == ours


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on a loopback address; port 0 takes a free one. Raises CannotServe for any other address, and
    where the port can't be had."""
    family = LOOPBACK.get(host.strip("[]").lower())
    if family is None:
        raise CannotServe(
            f"The page is served to this machine only: --host takes 127.0.0.1, ::1 or localhost, not {host}. "
            "To reach it from elsewhere, forward the port over ssh: ssh -L 8765:127.0.0.1:8765 THIS-MACHINE"
        )
    if not 0 <= port <= 65535:
        raise CannotServe(f"{port} is not a port. Use 1 to 65535, or 0 for any free port.")
    name = "::1" if family == socket.AF_INET6 else "127.0.0.1"
    try:
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise CannotServe(f"{name} can't be used here: {error.strerror}.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((name, port))
        listener.listen(64)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise CannotServe(
            f"Port {port} is not available: {(error.strerror or str(error)).lower()}. Is another "
            "tui-agent web running? "
            "Use another --port, or --port 0 for any free port."
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """`http://127.0.0.1:8765`, as a browser is to call it. Never `localhost`, which others may have on IPv6."""
    name, port = listener.getsockname()[:2]
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def browser_opener() -> str | None:
    """The program that opens an address on this desktop; None where there is no desktop, as over ssh."""
    if sys.platform == "darwin":
        return None if "SSH_CONNECTION" in os.environ else shutil.which("open")
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return None
    return shutil.which("xdg-open")


def open_browser(link: str) -> bool:
    """Open it in the user's browser, which outlives us; False when that can't be done."""
    program = browser_opener()
    if program is None:
        return False
    null = subprocess.DEVNULL
    try:
        subprocess.Popen([program, link], stdin=null, stdout=null, stderr=null, start_new_session=True)
    except OSError:
        return False
    return True
