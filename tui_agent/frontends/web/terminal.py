"""The full screen in a browser: a program in a pseudo-terminal, and the page that shows it (X4)."""

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
from tui_agent.platform.interactive import Size, TerminalProgram, clamp_size
from tui_agent.text import one_line

HANGUP_SECONDS = 300.0
"""Seconds without a browser after which the program is ended."""
SEND_SECONDS = 30.0
"""Seconds after which a browser that accepts no data is disconnected."""
REPAINT_SECONDS = 2.0
"""Time limit for the program to repaint after a browser has reconnected."""
WEBSOCKET_MAX = 4 << 20
"""Size limit of a message in bytes; a paste is one message, and a megabyte is larger as JSON."""
SIZE = (80, 24)
TAKEN_OVER = 4000
"""Close code when another browser shows the screen."""
POLICY_VIOLATION = 1008
RESET = b"\x1bc"

PAGE_HEADERS = {
    # the emulator writes style rules for its cells and colors into the page
    "content-security-policy": POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'"),
    "permissions-policy": "camera=(), geolocation=(), microphone=(), clipboard-read=()",
}
EMULATOR = {"textual.js": "static/js/textual.js", "xterm.css": "static/css/xterm.css"}
"""Files of xterm.js in the package textual-serve."""

log = logging.getLogger(__name__)


def emulator_files() -> dict[str, bytes]:
    """Read the terminal emulator from its package, without importing it. Raises CannotServe if it is missing."""
    spec = importlib.util.find_spec("textual_serve")
    try:
        if spec is None or not spec.submodule_search_locations:
            raise FileNotFoundError("textual-serve")
        folder = Path(next(iter(spec.submodule_search_locations)))
        return {name: (folder / path).read_bytes() for name, path in EMULATOR.items()}
    except OSError as error:
        raise CannotServe(
            "The terminal for the page is missing: pip install 'textual-serve==1.1.3'. "
            "Without it, `tui-agent web` shows the page."
        ) from error


class Screen:
    """A program in a pseudo-terminal. It starts with the first browser and is shown by the latest one only.

    It keeps running while a page is reloaded, and is ended `hangup_seconds` after the last browser left.
    """

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], hangup_seconds: float = HANGUP_SECONDS
    ) -> None:
        self._argv = argv
        self._cwd = cwd
        self._environment = environment
        self._hangup_seconds = hangup_seconds
        self._program: TerminalProgram | None = None
        self._pump: asyncio.Task[None] | None = None
        self._viewer: WebSocket | None = None
        self._titles = TitleParser()
        self._starting = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._sending: asyncio.Future[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._ignore_input_until = 0.0
        """Loop time: until then a reconnected browser shows nothing yet, so its input is ignored."""
        self._hangup_timer: asyncio.TimerHandle | None = None
        self._end_task: asyncio.Task[None] | None = None
        self._is_over = False
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The exit code."""
        self.was_abandoned = False
        """It was ended because no browser reconnected."""

    @property
    def pid(self) -> int | None:
        """Process id of the running program, or None."""
        return None if self._program is None or self.ended.done() else self._program.pid

    async def show(self, viewer: WebSocket, size: Size) -> None:
        """Show the screen in a browser and process its input until the browser or the program ends."""
        async with self._starting:
            previous, self._viewer = self._viewer, None
            if previous is not None:
                self._close_in_background(previous, TAKEN_OVER)
            if self._is_over:
                await _close(viewer, 1001)
                return
            self._cancel_hangup()
            try:
                await self._attach(viewer, size)
            except OSError as error:
                log.error("the screen can't be started", exc_info=error)
                self._finish(1)
                await _close(viewer, 1011)
                return
        try:
            await self._receive(viewer)
        except (WebSocketDisconnect, RuntimeError):  # it left or was disconnected
            pass
        except ValueError:
            await _close(viewer, POLICY_VIOLATION)
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
            self._sending.cancel()  # the previous browser may accept no data
        async with self._writing:
            self._viewer = viewer
            await self._send(viewer, RESET)
            if self._titles.text:
                await self._send_title(viewer)
        self._ignore_input_until = asyncio.get_running_loop().time() + REPAINT_SECONDS
        self._program.resize(size)
        self._program.signal(signal.SIGCONT)  # sets all modes and repaints, as after `fg`
        self._program.request_redraw()  # an external editor that has the terminal now

    async def _pump_output(self, program: TerminalProgram) -> None:
        while data := await program.read():
            async with self._writing:
                has_new_title = self._titles.feed(data)
                if self._viewer is not None:
                    await self._send(self._viewer, data)
                    self._ignore_input_until = 0.0
                if has_new_title and self._viewer is not None:
                    await self._send_title(self._viewer)
        self._finish(await program.end())
        viewer, self._viewer = self._viewer, None
        if viewer is not None:
            await _close(viewer, 1000)

    async def _send_title(self, viewer: WebSocket) -> None:
        await self._send(viewer, json.dumps(["title", self._titles.text]))

    async def _send(self, viewer: WebSocket, data: bytes | str) -> None:
        """Send bytes to the terminal in the page, or text to the page itself; disconnect a browser that fails."""
        send = viewer.send_bytes(data) if isinstance(data, bytes) else viewer.send_text(data)
        self._sending = asyncio.ensure_future(send)
        await asyncio.wait([self._sending], timeout=SEND_SECONDS)
        sending, self._sending = self._sending, None
        if not sending.done():
            sending.cancel()
        elif not sending.cancelled():
            failure = sending.exception()
            if failure is None:
                return
            if not isinstance(failure, WebSocketDisconnect | RuntimeError | OSError):
                log.error("the screen can't be shown", exc_info=failure)
        if self._viewer is viewer:
            self._viewer = None
            self._schedule_hangup()
        self._close_in_background(viewer, POLICY_VIOLATION)

    def _close_in_background(self, viewer: WebSocket, code: int) -> None:
        """Close the socket of a browser that may accept no data."""
        task = asyncio.create_task(_close(viewer, code, SEND_SECONDS))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _receive(self, viewer: WebSocket) -> None:
        """Process messages from the page. Raises ValueError for an invalid one."""
        program = self._program
        assert program is not None
        while True:
            message = await viewer.receive()
            if message["type"] != "websocket.receive":
                return
            kind, value = _parse_message(message.get("text"))
            if self._viewer is not viewer:
                return
            if kind == "stdin" and isinstance(value, str):
                if asyncio.get_running_loop().time() >= self._ignore_input_until:
                    await program.write(value.encode("utf-8", "replace"))
            elif kind == "resize" and isinstance(value, dict):
                program.resize(_parse_size(value))
            elif kind not in ("ping", "focus", "blur"):
                raise ValueError(kind)

    # --- ending ---

    def _cancel_hangup(self) -> None:
        if self._hangup_timer is not None:
            self._hangup_timer.cancel()
            self._hangup_timer = None

    def _schedule_hangup(self) -> None:
        self._cancel_hangup()
        if not self._is_over:
            self._hangup_timer = asyncio.get_running_loop().call_later(self._hangup_seconds, self._hang_up)

    def _hang_up(self) -> None:
        self.was_abandoned = True
        self._end_task = asyncio.ensure_future(self.end())

    def _finish(self, code: int) -> None:
        self._is_over = True
        if not self.ended.done():
            self.ended.set_result(code)

    async def end(self) -> None:
        """End the program if it runs."""
        self._is_over = True
        self._cancel_hangup()
        async with self._starting:
            if self._program is None or self._pump is None:
                self._finish(0)
                return
        await self._program.end()
        await asyncio.gather(self._pump, return_exceptions=True)


def _parse_message(text: str | None) -> tuple[str, Any]:
    try:
        message = json.loads(text or "")
    except RecursionError as error:
        raise ValueError("too deep") from error
    if not isinstance(message, list) or not 1 <= len(message) <= 2 or not isinstance(message[0], str):
        raise ValueError("not a message of the page")
    return message[0], message[1] if len(message) == 2 else None


def _parse_size(value: dict[str, Any]) -> Size:
    width, height = value.get("width"), value.get("height")
    if type(width) is not int or type(height) is not int:
        raise ValueError("no size")
    return clamp_size(width, height)


def _parse_number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 6 else default


async def _close(viewer: WebSocket, code: int, seconds: float = 1.0) -> None:
    if viewer.application_state == WebSocketState.CONNECTED:
        with contextlib.suppress(RuntimeError, OSError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(seconds):
                await viewer.close(code)


class ScreenPage(PageServer):
    """Serves the page of a screen."""

    page = "terminal.html"
    page_headers = PAGE_HEADERS
    websocket_max = WEBSOCKET_MAX

    def __init__(self, screen: Screen, listener: socket.socket) -> None:
        """Raises CannotServe if the terminal emulator is missing."""
        self._screen = screen
        super().__init__(listener, WebSocketRoute("/terminal", self._terminal), files=emulator_files())

    async def _terminal(self, viewer: WebSocket) -> None:
        await viewer.accept()
        query = viewer.query_params
        width, height = _parse_number(query.get("width"), SIZE[0]), _parse_number(query.get("height"), SIZE[1])
        size = clamp_size(width, height)
        await self._screen.show(viewer, size)

    async def stop(self) -> None:
        """End the program and close port and connections."""
        await self._screen.end()
        await super().stop()


MAX_TITLE_BYTES = 4096
"""Longer titles are ignored."""
MAX_TITLE = 160
"""Characters of a title that are sent to the page."""
_SET_TITLE = re.compile(rb"\x1b\][02];([^\x07\x18\x1a\x1b]{0,%d})(?:\x07|(?=\x1b))" % MAX_TITLE_BYTES)
"""OSC 0 and 2 (xterm's ctlseqs). Any escape ends it, as in the emulator."""
_INCOMPLETE = re.compile(rb"\x1b(?:\](?:[02](?:;[^\x07\x18\x1a\x1b]{0,%d})?)?)?\Z" % MAX_TITLE_BYTES)
"""A title sequence that is incomplete at the end of the data."""


class TitleParser:
    """Finds the titles that a program sets in its output."""

    def __init__(self) -> None:
        self.text = ""
        """The last title as one clean line; "" for none."""
        self._incomplete = b""

    def feed(self, data: bytes) -> bool:
        """Process output; return True if the title has changed."""
        if not self._incomplete and b"\x1b]" not in data and data[-1:] != b"\x1b":
            return False
        data = self._incomplete + data
        previous = self.text
        for match in _SET_TITLE.finditer(data):
            self.text = one_line(match[1].decode("utf-8", "replace"), MAX_TITLE)
        incomplete = _INCOMPLETE.search(data, max(0, data.rfind(b"\x1b")))
        self._incomplete = incomplete[0] if incomplete else b""
        return self.text != previous
