"""Loopback addresses of the page: bind one, recognize its Host and Origin headers, open it in a browser."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

PORT = 8765
LOOPBACK = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6, "localhost": socket.AF_INET}
"""Hosts that may be bound."""
_HOST_NAMES = (b"127.0.0.1", b"localhost", b"[::1]")


class CannotServe(Exception):
    """The page can't be served; the message says why and what to do."""


def is_own_host(header: bytes, port: int) -> bool:
    """Whether a Host header is a literal loopback name with our port; nothing is resolved."""
    suffixes = (b":%d" % port, b"") if port == 80 else (b":%d" % port,)
    return header.lower() in [name + suffix for name in _HOST_NAMES for suffix in suffixes]


def is_same_origin(origin: bytes, host: bytes) -> bool:
    """Whether an Origin header is the origin of the page that the Host header names."""
    return origin.lower() == b"http://" + host.lower()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket on a loopback address; port 0 takes a free one.

    Raises CannotServe for any other address or if the port is not available.
    """
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
    """The URL for a browser, such as `http://127.0.0.1:8765`. Never `localhost`, which may be another IPv6 server."""
    name, port = listener.getsockname()[:2]
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def browser_opener() -> str | None:
    """The program that opens a URL on this desktop; None without a desktop, for example over ssh."""
    if sys.platform == "darwin":
        return None if "SSH_CONNECTION" in os.environ else shutil.which("open")
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return None
    return shutil.which("xdg-open")


def open_browser(link: str) -> bool:
    """Open `link` in the user's browser, which outlives this process; return False if that is not possible."""
    program = browser_opener()
    if program is None:
        return False
    null = subprocess.DEVNULL
    try:
        subprocess.Popen([program, link], stdin=null, stdout=null, stderr=null, start_new_session=True)
    except OSError:
        return False
    return True
