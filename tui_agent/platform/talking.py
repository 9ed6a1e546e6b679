"""A program that is spoken to: bytes to its standard input, bytes from its standard output, errors to the debug log."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from tui_agent.platform.capture import Capture
from tui_agent.platform.pipes import CHUNK, read_chunk
from tui_agent.platform.proc import Child, ProcessError, Stage
from tui_agent.text import clean

log = logging.getLogger(__name__)

SEND_CAP = 16 << 20
"""Bytes that may wait for a program that does not read them."""
ERROR_LINES = 2_000
"""Lines of its errors that go to the debug log."""
ERROR_WIDTH = 500


class Clogged(Exception):
    """The program does not read what it is sent."""


class _Sink(asyncio.BaseProtocol):
    """Knows whether the pipe is closed: a closed one can't be aborted."""

    lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class Talk(Child):
    """A running program on the event loop that started it; its whole tree is dead within 2 s of `stop` (R-50)."""

    def __init__(self, capture: Capture) -> None:
        super().__init__(capture)
        self._hear: Callable[[bytes], None] = lambda data: None
        self._over: Callable[[], None] = lambda: None
        self._sending: asyncio.WriteTransport | None = None
        self._sink = _Sink()
        self._source = -1
        self._errors = -1
        self._error_lines = 0
        self._unread = bytearray()
        """Output that came before anybody listened."""
        self._name = ""

    @classmethod
    async def with_program(
        cls,
        program: Path,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        hear: Callable[[bytes], None],
        over: Callable[[], None],
    ) -> Self:
        """Start `program`. `hear` gets its output on the event loop, `over` is called once when that has ended.

        Raises ProcessError.
        """
        stage = Stage(program=str(program), argv=tuple(argv))
        start = cls.start([stage], cwd=cwd, environment=environment, capture=Capture())
        starting = asyncio.ensure_future(start)
        try:
            talk = await asyncio.shield(starting)
            talk._name = program.name
            await talk._connect()
        except BaseException:
            # Nobody else knows of it: whoever gave up waiting waits until nothing of it is left.
            with contextlib.suppress(ProcessError):
                talk = await starting
                talk.stop()
                await talk.gone()
            raise
        talk._hear, talk._over = hear, over
        if talk._unread:
            hear(bytes(talk._unread))
            talk._unread.clear()
        if talk._eof.is_set():
            talk._hang_up()
        return talk

    async def _connect(self) -> None:
        pipe = os.fdopen(self._source, "wb", 0)
        self._source = -1
        try:
            self._sending, self._sink = await self._loop.connect_write_pipe(_Sink, pipe)
        except BaseException:
            pipe.close()
            raise

    def _open(self, *ends: int) -> None:
        with contextlib.ExitStack() as closing:
            theirs, self._source = os.pipe()
            closing.callback(os.close, theirs)
            try:
                self._errors, said = os.pipe()
                closing.callback(os.close, said)
                super()._open(theirs, said)
            except OSError:
                self._shut()
                raise
        os.set_blocking(self._errors, False)
        self._loop.add_reader(self._errors, self._complains)

    def send(self, data: bytes) -> None:
        """Hand `data` on. Raises Clogged when too much waits already; what is sent to a dead program is lost."""
        if self._sending is None or self._sending.is_closing():
            return
        if self._sending.get_write_buffer_size() > SEND_CAP:
            raise Clogged
        self._sending.write(data)

    def end_input(self) -> None:
        """Close its standard input."""
        if self._sending is not None:
            self._sending.close()

    def _readable(self) -> None:
        data = read_chunk(self._output)
        if data is None:
            return
        if not data:
            self._end_of_output()
        elif self._sending is None:
            self._unread += data[: CHUNK * 16 - len(self._unread)]
        else:
            self._hear(data)

    def _end_of_output(self) -> None:
        ended = self._eof.is_set()
        super()._end_of_output()
        if not ended and self._sending is not None:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._sending is not None and not self._sink.lost:
            self._sending.abort()
        self._over()

    async def _close(self) -> None:
        await super()._close()
        self._shut()

    def _shut(self) -> None:
        """Close the ends of pipes that are still held."""
        if self._source >= 0:
            os.close(self._source)
            self._source = -1
        self._silence()

    def _complains(self) -> None:
        data = read_chunk(self._errors)
        if data is None:
            return
        if not data:
            self._silence()
            return
        for line in data.splitlines():
            self._error_lines += 1
            if self._error_lines <= ERROR_LINES:
                text = clean(line[:ERROR_WIDTH].decode("utf-8", "replace"))
                log.debug("%s: %s", self._name or "a program", text)

    def _silence(self) -> None:
        if self._errors >= 0:
            self._loop.remove_reader(self._errors)
            with contextlib.suppress(OSError):
                os.close(self._errors)
            self._errors = -1


__all__ = ["Clogged", "Talk"]
