"""Answers to approvals and questions as JSON lines on standard input (`exec --answers`)."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from typing import Any, Literal

import msgspec

from tui_agent.domain import Answer, Scope
from tui_agent.engine.session import Session

LINE_MAX = 1 << 20
"""Bytes of one answer."""
EARLY_MAX = 1_000
"""Answers that may be given before they are asked for."""


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """One answer. Without an `id` it goes to the oldest open request, or to the next one."""

    verdict: Literal["approve", "reject", "reply"]
    id: str = ""
    scope: Scope = Scope.ONCE
    text: str = ""
    data: dict[str, Any] | None = None
    """An edited plan or summary, which side of a conflict is taken, or which hunks of an edit (`Answer.data`)."""


Refusal = Literal["reject", "withdrawn"]
"""How a request is settled when nobody is left: a plan is rejected, a summary stays open for the next start."""


class Answers:
    """Reads answers in a thread and hands them to the session in order.

    When the input ends, what is still open and what is asked later is refused: nobody is left to answer.
    """

    def __init__(self, session: Session, fd: int | None = None) -> None:
        self._session = session
        self._fd = sys.stdin.fileno() if fd is None else fd
        self._open: dict[str, Refusal] = {}
        self._early: list[Line] = []
        self._ended = False
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._read, name="answers", daemon=True).start()

    def stop(self) -> None:
        """Take no more answers."""
        self._ended = True

    def asked(self, request: str, refuse: Refusal = "reject") -> None:
        """A request is open; answer it with what was given for it already, if anything."""
        self._open[request] = refuse
        for line in self._early:
            if line.id in ("", request):
                self._early.remove(line)
                self._settle(request, line)
                return
        if self._ended:
            self._refuse(request)

    def _read(self) -> None:
        try:
            with os.fdopen(os.dup(self._fd), "rb") as lines:
                while raw := lines.readline(LINE_MAX):
                    if raw.strip():
                        self._hand(self._take, raw)
        except OSError as error:
            sys.stderr.write(f"tui-agent: answers can't be read: {error.strerror}\n")
        self._hand(self._end)

    def _hand(self, function: object, *values: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *values)  # type: ignore[arg-type]  # our own two methods
        except RuntimeError:
            return  # the program has ended

    def _take(self, raw: bytes) -> None:
        try:
            line = msgspec.json.decode(raw, type=Line)
        except msgspec.DecodeError as error:
            sys.stderr.write(f"tui-agent: an answer was not understood: {error}\n")
            return
        request = line.id or next(iter(self._open), "")
        if request in self._open:
            self._settle(request, line)
        elif len(self._early) < EARLY_MAX:
            self._early.append(line)
        else:
            sys.stderr.write("tui-agent: too many answers to what was not asked; one was dropped\n")

    def _settle(self, request: str, line: Line) -> None:
        del self._open[request]
        answer = Answer(verdict=line.verdict, scope=line.scope, text=line.text, data=line.data)
        self._session.answer(request, answer)

    def _end(self) -> None:
        self._ended = True
        for request in tuple(self._open):
            self._refuse(request)

    def _refuse(self, request: str) -> None:
        verdict = self._open.pop(request)
        answer = Answer(verdict=verdict, text="No user is present to decide.", by="--answers ended")
        self._session.answer(request, answer)
