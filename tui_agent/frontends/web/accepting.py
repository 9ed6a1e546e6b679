"""Accepts the connections of a page: a few at a time, so that a flood of them takes neither descriptors nor time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

BURST = 48
"""Connections that are accepted at once."""
PER_SECOND = 200.0
"""Connections that are accepted in a second after a burst; the kernel keeps the others waiting, up to its backlog."""
PAUSE_SECONDS = 0.02
"""Pause once a burst is used up."""
RETRY_SECONDS = 1.0
"""Pause if the process has no descriptors left."""


class Acceptor:
    """Accepts connections of `listener` from its creation until `stop`; the listener itself stays open."""

    def __init__(self, listener: socket.socket, create_protocol: Callable[[], asyncio.Protocol]) -> None:
        self._listener = listener
        self._create_protocol = create_protocol
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[object]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._allowance = float(BURST)
        self._updated = self._loop.time()
        self._resume()

    def stop(self) -> None:
        """Accept nothing more."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    def _wait(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(seconds, self._resume)

    def _accept(self) -> None:
        """Accept one connection; the loop calls again while there are more."""
        now = self._loop.time()
        self._allowance = min(float(BURST), self._allowance + (now - self._updated) * PER_SECOND)
        self._updated = now
        if self._allowance < 1.0:
            self._wait(PAUSE_SECONDS)
            return
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            self._wait(RETRY_SECONDS)
            return
        self._allowance -= 1.0
        connection.setblocking(False)
        task = asyncio.ensure_future(self._connect(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._create_protocol, connection)
        except OSError:
            connection.close()
