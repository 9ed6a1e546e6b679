"""The full screen in a browser: a program in a terminal of its own, and the page that shows it (X4)."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import logging
import re
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from tui_agent.frontends.web.addresses import CannotServe
from tui_agent.frontends.web.guard import POLICY
from tui_agent.frontends.web.serving import PageServer
from tui_agent.platform.interactive import Size, TerminalProgram, fitting_size
from tui_agent.text import one_line

LEFT = 300.0
"""Seconds without a browser after which it is gone for good, and the program ends."""
STUCK = 30.0
"""Seconds after which a browser that takes nothing is given up."""
PAINTING = 2.0
"""Seconds within which a program that is told to paints all anew."""
FRAME = 4 << 20
"""Bytes of a message: what is pasted comes as one, and a megabyte of it has more of them in JSON."""
SIZE = (80, 24)

TAKEN = 4000
"""The socket is closed because another browser shows the screen."""
BAD = 1008
RESET = b"\x1bc"

STYLES = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
"""The emulator writes the rules for its own cells and colours into the page. Scripts stay what they are elsewhere."""
PAGE_HEADERS = {
    "content-security-policy": STYLES,
    "permissions-policy": "camera=(), geolocation=(), microphone=(), clipboard-read=()",
}
EMULATOR = {"textual.js": "static/js/textual.js", "xterm.css": "static/css/xterm.css"}
"""xterm.js, as textual-serve brings it."""

log = logging.getLogger(__name__)


def emulator() -> dict[str, bytes]:
    """The files of the terminal in the page. Nothing of the package is run. Raises CannotServe without it."""
    found = importlib.util.find_spec("textual_serve")
    try:
        if found is None or not found.submodule_search_locations:
            raise FileNotFoundError("textual-serve")
        folder = Path(next(iter(found.submodule_search_locations)))
        return {name: (folder / path).read_bytes() for name, path in EMULATOR.items()}
    except OSError as error:
        raise CannotServe(
            "The terminal for the page is missing: pip install 'textual-serve==1.1.3'. "
            "Without it, `tui-agent web` shows the page."
        ) from error


class Screen:
    """One program in a terminal, begun when a browser first shows it, and seen by one browser at a time: the last
    one to come. It goes on while a page is loaded anew; `patience` seconds after the last one left it is hung up."""

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], patience: float = LEFT
    ) -> None:
        self._argv = argv
        self._cwd = cwd
        self._environment = environment
        self._patience = patience
        self._program: TerminalProgram | None = None
        self._pump: asyncio.Task[None] | None = None
        self._viewer: WebSocket | None = None
        self._titles = Titles()
        self._starting = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._sending: asyncio.Future[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._ignore_input_until = 0.0
        """A browser came back to it, and shows nothing yet: what is typed there is not meant for what it will show."""
        self._hangup_timer: asyncio.TimerHandle | None = None
        self._ends: asyncio.Task[None] | None = None
        self._over = False
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Its exit code, once it has ended."""
        self.left = False
        """It was hung up because no browser came back."""

    @property
    def pid(self) -> int | None:
        """Of the program, while there is one."""
        return None if self._program is None or self.ended.done() else self._program.pid

    async def show(self, viewer: WebSocket, size: Size) -> None:
        """Show it to a browser and take what is typed there, until either leaves."""
        async with self._starting:
            before, self._viewer = self._viewer, None
            if before is not None:
                self._close_later(before, TAKEN)
            if self._over:
                await _close(viewer, 1001)
                return
            self._cancel_hangup()
            try:
                await self._attach(viewer, size)
            except OSError as error:
                log.error("the screen can't be started", exc_info=error)
                self._end_with(1)
                await _close(viewer, 1011)
                return
        try:
            await self._receive(viewer)
        except (WebSocketDisconnect, RuntimeError):  # it left, or was told to
            pass
        except ValueError:
            await _close(viewer, BAD)
        finally:
            if self._viewer is viewer:
                self._viewer = None
                self._schedule_hangup()

    async def _attach(self, viewer: WebSocket, size: Size) -> None:
        if self._program is None:
            self._program = await TerminalProgram.start(
                self._argv, cwd=self._cwd, environment=self._environment, size=size
            )
            self._viewer = viewer
            self._pump = asyncio.create_task(self._pump_output(self._program))
            return
        if self._sending is not None:
            self._sending.cancel()  # to a browser that takes nothing, and has no part in it any more
        async with self._writing:
            self._viewer = viewer
            await self._send(viewer, RESET)
            if self._titles.text:
                await self._title(viewer)
        self._ignore_input_until = asyncio.get_running_loop().time() + PAINTING
        self._program.resize(size)
        self._program.signal(signal.SIGCONT)  # it sets all modes and paints all anew, as behind `fg`
        self._program.look_again()  # an editor that it lent the terminal to

    async def _pump_output(self, program: TerminalProgram) -> None:
        while data := await program.read():
            async with self._writing:
                another = self._titles.feed(data)
                if self._viewer is not None:
                    await self._send(self._viewer, data)
                    self._ignore_input_until = 0.0
                if another and self._viewer is not None:
                    await self._title(self._viewer)
        self._end_with(await program.end())
        viewer, self._viewer = self._viewer, None
        if viewer is not None:
            await _close(viewer, 1000)

    async def _title(self, viewer: WebSocket) -> None:
        await self._send(viewer, json.dumps(["title", self._titles.text]))

    async def _send(self, viewer: WebSocket, data: bytes | str) -> None:
        """Bytes are for the terminal of the page, text is for the page itself."""
        sent = viewer.send_bytes(data) if isinstance(data, bytes) else viewer.send_text(data)
        self._sending = asyncio.ensure_future(sent)
        await asyncio.wait([self._sending], timeout=STUCK)
        told, self._sending = self._sending, None
        if not told.done():
            told.cancel()
        elif not told.cancelled():
            failure = told.exception()
            if failure is None:
                return
            if not isinstance(failure, WebSocketDisconnect | RuntimeError | OSError):
                log.error("the screen can't be shown", exc_info=failure)
        if self._viewer is viewer:
            self._viewer = None
            self._schedule_hangup()
        self._close_later(viewer, BAD)

    def _close_later(self, viewer: WebSocket, code: int) -> None:
        """Close the socket of one that may take nothing at the moment, without waiting for it."""
        task = asyncio.create_task(_close(viewer, code, STUCK))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _receive(self, viewer: WebSocket) -> None:
        """What comes from the page. Raises ValueError for what is none of its messages."""
        program = self._program
        assert program is not None
        while True:
            message = await viewer.receive()
            if message["type"] != "websocket.receive":
                return
            kind, value = _read(message.get("text"))
            if self._viewer is not viewer:
                return
            if kind == "stdin" and isinstance(value, str):
                if asyncio.get_running_loop().time() >= self._ignore_input_until:
                    await program.write(value.encode("utf-8", "replace"))
            elif kind == "resize" and isinstance(value, dict):
                program.resize(_size(value.get("width"), value.get("height")))
            elif kind not in ("ping", "focus", "blur"):
                raise ValueError(kind)

    # --- the end ---

    def _cancel_hangup(self) -> None:
        if self._hangup_timer is not None:
            self._hangup_timer.cancel()
            self._hangup_timer = None

    def _schedule_hangup(self) -> None:
        self._cancel_hangup()
        if not self._over:
            self._hangup_timer = asyncio.get_running_loop().call_later(self._patience, self._hang_up)

    def _hang_up(self) -> None:
        self.left = True
        self._ends = asyncio.ensure_future(self.end())

    def _end_with(self, code: int) -> None:
        self._over = True
        if not self.ended.done():
            self.ended.set_result(code)

    async def end(self) -> None:
        """End the program, if there is one."""
        self._over = True
        self._cancel_hangup()
        async with self._starting:
            if self._program is None or self._pump is None:
                self._end_with(0)
                return
        await self._program.end()
        await asyncio.gather(self._pump, return_exceptions=True)


def _read(text: str | None) -> tuple[str, Any]:
    try:
        message = json.loads(text or "")
    except RecursionError as error:
        raise ValueError("too deep") from error
    if not isinstance(message, list) or not 1 <= len(message) <= 2 or not isinstance(message[0], str):
        raise ValueError("no message of the page")
    return message[0], message[1] if len(message) == 2 else None


def _size(width: object, height: object) -> Size:
    if type(width) is not int or type(height) is not int:
        raise ValueError("no size")
    return fitting_size(width, height)


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 6 else default


async def _close(viewer: WebSocket, code: int, within: float = 1.0) -> None:
    if viewer.application_state == WebSocketState.CONNECTED:
        with contextlib.suppress(RuntimeError, OSError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(within):
                await viewer.close(code)


class ScreenPage(PageServer):
    """The page of a screen while it is served."""

    page = "terminal.html"
    page_headers = PAGE_HEADERS
    frame = FRAME

    def __init__(self, screen: Screen, listener: socket.socket) -> None:
        """Raises CannotServe where the terminal for the page is missing."""
        self._screen = screen
        super().__init__(listener, WebSocketRoute("/terminal", self._terminal), files=emulator())

    async def _terminal(self, viewer: WebSocket) -> None:
        await viewer.accept()
        asked = viewer.query_params
        size = fitting_size(_number(asked.get("width"), SIZE[0]), _number(asked.get("height"), SIZE[1]))
        await self._screen.show(viewer, size)

    async def stop(self) -> None:
        """End the program, and let go of port and connections."""
        await self._screen.end()
        await super().stop()


LONGEST = 4096
"""Bytes of a title; a longer one is none."""
SHOWN = 160
"""Characters of it that a page is told."""
_SET = re.compile(rb"\x1b\][02];([^\x07\x18\x1a\x1b]{0,%d})(?:\x07|(?=\x1b))" % LONGEST)
"""OSC 0 and 2 (xterm's ctlseqs). An escape ends it whatever follows, as it does in the terminal of the page."""
_BEGUN = re.compile(rb"\x1b(?:\](?:[02](?:;[^\x07\x18\x1a\x1b]{0,%d})?)?)?\Z" % LONGEST)


class Titles:
    """Follows what is written to the terminal."""

    def __init__(self) -> None:
        self.text = ""
        """The last title, on one line, without anything that would not be seen; empty for none."""
        self._held = b""

    def feed(self, data: bytes) -> bool:
        """Read on; True when the title is another one now."""
        if not self._held and b"\x1b]" not in data and data[-1:] != b"\x1b":
            return False
        data = self._held + data
        before = self.text
        for found in _SET.finditer(data):
            self.text = one_line(found[1].decode("utf-8", "replace"), SHOWN)
        begun = _BEGUN.search(data, max(0, data.rfind(b"\x1b")))
        self._held = begun[0] if begun else b""
        return self.text != before
