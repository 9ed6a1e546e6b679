"""The engine in a thread of its own, so that the main thread can wait for a line, a record or Ctrl+C."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from tui_agent.engine.opening import open_session
from tui_agent.engine.session import Session
from tui_agent.engine.wishes import Wishes
from tui_agent.events import Record

T = TypeVar("T")
CLOSING = 15.0
"""Seconds that a session gets to close."""


class Backstage:
    """Opens a session on an event loop behind the main thread. All methods block and are for that thread.

    Records are asked for one by one, so that a slow terminal slows nothing but itself and nothing piles up.
    """

    def __init__(self) -> None:
        self.session: Session
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._records: AsyncIterator[Record]
        self._next: Future[Record | None] | None = None

    def open(self, wishes: Wishes) -> None:
        """Open the session. Raises CannotOpen."""
        self._thread.start()
        self.session = self.do(open_session(wishes))
        self._records = self.session.follow(self.session.begins)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` beside the engine and give its result; what it raises is raised here."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """The same without waiting."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], T]) -> T:
        """Call a plain function on the engine's thread."""

        async def called() -> T:
            return function()

        return self.do(called())

    def next(self, seconds: float | None = None) -> Record | None:
        """The next record; None at the end of the session, or when none came in `seconds`.

        A Ctrl+C while this waits loses no record.
        """
        if self._next is None:
            self._next = asyncio.run_coroutine_threadsafe(self._one(), self._loop)
        try:
            record = self._next.result(seconds)
        except (FutureTimeout, TimeoutError):
            return None
        self._next = None
        return record

    async def _one(self) -> Record | None:
        return await anext(self._records, None)

    def close(self, reason: str) -> None:
        """End the session in order, then the loop."""
        closing = self.start(self.session.close(reason))
        try:
            closing.result(CLOSING)
        except (FutureTimeout, TimeoutError):
            return
        finally:
            self.stop()

    def stop(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSING)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            pending = asyncio.all_tasks(self._loop)
            for task in pending:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
