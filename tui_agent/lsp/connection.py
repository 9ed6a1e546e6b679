"""Requests, answers and notifications over the pipes of one server (JSON-RPC 2.0, LSP 3.17)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from tui_agent.lsp.framing import Framing, Garbled, Message, framed
from tui_agent.platform.proc import ProcessError
from tui_agent.platform.talking import Clogged, Talk
from tui_agent.text import one_line

log = logging.getLogger(__name__)

AGAIN = (-32800, -32801, -32802)
"""Codes of a request that the server gave up because something changed meanwhile: asked once more."""
_UNKNOWN = {"code": -32601, "message": "not supported"}
_FAILED = {"code": -32603, "message": "it could not be understood"}


class LspFault(Exception):
    """A request that was not answered. The message is a clause for people."""


class Gone(LspFault):
    """The server has ended, or is ended for what it wrote."""


class Silent(LspFault):
    """No answer came in time."""


class Declined(LspFault):
    """The server answered with an error, whose `code` JSON-RPC or the protocol defines."""

    def __init__(self, message: str, code: object = None) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """One running server. `answer` gives the result of what it asks, `hear` gets what it announces."""

    def __init__(
        self, name: str, answer: Callable[[str, Any], Any], hear: Callable[[str, Any], None]
    ) -> None:
        self.name = name
        self._answer = answer
        self._hear = hear
        self._framing = Framing()
        self._talk: Talk | None = None
        self.at_end: Callable[[], None] = lambda: None
        """Called when it is over."""
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self.why = ""
        """Why it is over; empty as long as it is not."""
        self.over = asyncio.Event()
        self.heard = asyncio.get_running_loop().time()
        """When something came last, on the loop's clock."""

    @classmethod
    async def to_program(
        cls,
        program: str,
        argv: tuple[str, ...],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        answer: Callable[[str, Any], Any],
        hear: Callable[[str, Any], None],
    ) -> Self:
        """Start a server. Raises Gone when that is not possible."""
        made = cls(Path(program).name, answer, hear)
        try:
            made._talk = await Talk.with_program(
                Path(program),
                argv,
                cwd=cwd,
                environment=environment,
                hear=made._take,
                over=lambda: made._end("it ended"),
            )
        except ProcessError as error:
            raise Gone(f"it can't be started: {error}") from error
        return made

    async def request(self, method: str, params: Any, seconds: float) -> Any:
        """The result. Raises LspFault."""
        try:
            return await self._request(method, params, seconds)
        except Declined as declined:
            if declined.code not in AGAIN:
                raise
            return await self._request(method, params, seconds)

    async def _request(self, method: str, params: Any, seconds: float) -> Any:
        self._count += 1
        number = self._count
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        answered = False
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            async with asyncio.timeout(seconds):
                result = await answer
            answered = True
            return result
        except TimeoutError:
            raise Silent(f"it did not answer within {seconds:g} s") from None
        except LspFault:
            answered = True
            raise
        finally:
            self._waiting.pop(number, None)
            if not answered and not self.why:
                with contextlib.suppress(LspFault):
                    self.notify("$/cancelRequest", {"id": number})

    def notify(self, method: str, params: Any) -> None:
        """Tell something. Raises Gone."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: Message) -> None:
        if self.why or self._talk is None:
            raise Gone(self.why or "it was not started")
        try:
            self._talk.send(framed(message))
        except Clogged:
            self._end("it does not read what it is sent")
            raise Gone(self.why) from None

    # --- what comes ---

    def _take(self, data: bytes) -> None:
        self.heard = asyncio.get_running_loop().time()
        try:
            messages = self._framing.feed(data)
        except Garbled as error:
            self._end(str(error))
            return
        for message in messages:
            try:
                self._take_message(message)
            except Exception:
                log.warning("a message of %s could not be taken in", self.name, exc_info=True)

    def _take_message(self, message: Message) -> None:
        method, number = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self._take_answer(message)
        elif number is None:
            self._hear(method, message.get("params"))
        else:
            reply: Message = {"jsonrpc": "2.0", "id": number}
            try:
                reply["result"] = self._answer(method, message.get("params"))
            except LookupError:
                reply["error"] = _UNKNOWN
            except Exception:
                log.warning("%s of %s could not be answered", method, self.name, exc_info=True)
                reply["error"] = _FAILED
            with contextlib.suppress(Gone):
                self._send(reply)

    def _take_answer(self, message: Message) -> None:
        number = message.get("id")
        answer = self._waiting.get(number) if isinstance(number, int) else None
        if answer is None or answer.done():
            return
        error = message.get("error")
        if error is None:
            answer.set_result(message.get("result"))
            return
        told = error if isinstance(error, dict) else {}
        text = one_line(str(told.get("message") or "it reports an error"), 200)
        answer.set_exception(Declined(text, told.get("code")))

    # --- the end ---

    def _end(self, why: str) -> None:
        if self.why:
            return
        self.why = why
        log.debug("%s is over: %s", self.name, why)
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Gone(why))
        self.over.set()
        self.at_end()
        if self._talk is not None:
            self._talk.stop()

    def stop(self, why: str) -> None:
        """End it now; its processes are dead within 2 s."""
        self._end(why)

    async def close(self, seconds: float) -> None:
        """Ask it to end, wait that long for it, then make sure that nothing of it is left."""
        if not self.why:
            with contextlib.suppress(LspFault):
                await self.request("shutdown", None, seconds)
                self.notify("exit", None)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self.over.wait()
        self._end("it was ended")
        await self.gone()

    async def gone(self) -> None:
        """Until nothing of an ended one is left."""
        if self._talk is not None:
            await self._talk.gone()
