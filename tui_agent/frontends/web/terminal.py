"""The full screen in a browser: a program in a terminal of its own, and the page that shows it (X4, R-40)."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import logging
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from tui_agent.frontends.web.addresses import CannotServe
from tui_agent.frontends.web.entering import Entrance, missing, refused
from tui_agent.frontends.web.guard import POLICY, Refused
from tui_agent.frontends.web.serving import DAY, Listening
from tui_agent.frontends.web.titles import Titles
from tui_agent.platform.terminals import Size, TerminalProgram, fitting

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
        self._parting: set[asyncio.Task[None]] = set()
        self._deaf_till = 0.0
        """A browser came back to it, and shows nothing yet: what is typed there is not meant for what it will show."""
        self._leaving: asyncio.TimerHandle | None = None
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
                self._part(before, TAKEN)
            if self._over:
                await _close(viewer, 1001)
                return
            self._stay()
            try:
                await self._attach(viewer, size)
            except OSError as error:
                log.error("the screen can't be started", exc_info=error)
                self._end_with(1)
                await _close(viewer, 1011)
                return
        try:
            await self._listen(viewer)
        except (WebSocketDisconnect, RuntimeError):  # it left, or was told to
            pass
        except ValueError:
            await _close(viewer, BAD)
        finally:
            if self._viewer is viewer:
                self._viewer = None
                self._wait_for_another()

    async def _attach(self, viewer: WebSocket, size: Size) -> None:
        if self._program is None:
            self._program = await TerminalProgram.start(
                self._argv, cwd=self._cwd, environment=self._environment, size=size
            )
            self._viewer = viewer
            self._pump = asyncio.create_task(self._show_all(self._program))
            return
        if self._sending is not None:
            self._sending.cancel()  # to a browser that takes nothing, and has no part in it any more
        async with self._writing:
            self._viewer = viewer
            await self._tell(viewer, RESET)
            if self._titles.text:
                await self._title(viewer)
        self._deaf_till = asyncio.get_running_loop().time() + PAINTING
        self._program.resize(size)
        self._program.signal(signal.SIGCONT)  # it sets all modes and paints all anew, as behind `fg`
        self._program.look_again()  # an editor that it lent the terminal to

    async def _show_all(self, program: TerminalProgram) -> None:
        while data := await program.read():
            async with self._writing:
                another = self._titles.feed(data)
                if self._viewer is not None:
                    await self._tell(self._viewer, data)
                    self._deaf_till = 0.0
                if another and self._viewer is not None:
                    await self._title(self._viewer)
        self._end_with(await program.end())
        viewer, self._viewer = self._viewer, None
        if viewer is not None:
            await _close(viewer, 1000)

    async def _title(self, viewer: WebSocket) -> None:
        await self._tell(viewer, json.dumps(["title", self._titles.text]))

    async def _tell(self, viewer: WebSocket, data: bytes | str) -> None:
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
            self._wait_for_another()
        self._part(viewer, BAD)

    def _part(self, viewer: WebSocket, code: int) -> None:
        """Close the socket of one that may take nothing at the moment, without waiting for it."""
        task = asyncio.create_task(_close(viewer, code, STUCK))
        self._parting.add(task)
        task.add_done_callback(self._parting.discard)

    async def _listen(self, viewer: WebSocket) -> None:
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
                if asyncio.get_running_loop().time() >= self._deaf_till:
                    await program.write(value.encode("utf-8", "replace"))
            elif kind == "resize" and isinstance(value, dict):
                program.resize(_size(value.get("width"), value.get("height")))
            elif kind not in ("ping", "focus", "blur"):
                raise ValueError(kind)

    # --- the end ---

    def _stay(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None

    def _wait_for_another(self) -> None:
        self._stay()
        if not self._over:
            self._leaving = asyncio.get_running_loop().call_later(self._patience, self._give_up)

    def _give_up(self) -> None:
        self.left = True
        self._ends = asyncio.ensure_future(self.end())

    def _end_with(self, code: int) -> None:
        self._over = True
        if not self.ended.done():
            self.ended.set_result(code)

    async def end(self) -> None:
        """End the program, if there is one."""
        self._over = True
        self._stay()
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
    return fitting(width, height)


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 6 else default


async def _close(viewer: WebSocket, code: int, within: float = 1.0) -> None:
    if viewer.application_state == WebSocketState.CONNECTED:
        with contextlib.suppress(RuntimeError, OSError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(within):
                await viewer.close(code)


class ServingScreen:
    """The page of a screen while it is served: `start`, then `link()` for every browser, at the end `stop`."""

    def __init__(self, screen: Screen, listening: Listening) -> None:
        """Raises CannotServe where the terminal for the page is missing."""
        self._screen = screen
        self._listening = listening
        self.address = listening.address
        self._entrance = Entrance(
            listening.tickets,
            address=listening.address,
            cookie=listening.cookie,
            page="terminal.html",
            headers=PAGE_HEADERS,
            more=emulator(),
        )

    async def start(self) -> None:
        """Answer browsers."""
        app = Starlette(
            routes=[WebSocketRoute("/terminal", self._terminal), *self._entrance.routes()],
            exception_handlers={Refused: refused, HTTPException: missing},
        )
        app.router.redirect_slashes = False
        await self._listening.start(app, frame=FRAME)

    def link(self, seconds: float = DAY) -> str:
        """An address that lets one browser in, once, within that time."""
        return self._entrance.link(seconds)

    async def _terminal(self, socket: WebSocket) -> None:
        await socket.accept()
        asked = socket.query_params
        size = fitting(_number(asked.get("width"), SIZE[0]), _number(asked.get("height"), SIZE[1]))
        await self._screen.show(socket, size)

    async def stop(self) -> None:
        """End the program, and let go of port and connections."""
        await self._screen.end()
        await self._listening.stop()
