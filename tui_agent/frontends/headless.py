"""`tui-agent exec`: one task without a screen, as plain text or as JSON lines of the event stream (X3)."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import sys
from typing import TextIO

import msgspec

from tui_agent.domain import Answer, Editing, Running, Severity, Trusting
from tui_agent.engine.opening import open_session
from tui_agent.engine.session import Session
from tui_agent.engine.wishes import CannotOpen, Wishes
from tui_agent.events import (
    VERSION,
    ApprovalAnswered,
    ApprovalAsked,
    FileChanged,
    PlanDocConflict,
    PlanProposed,
    QuestionAsked,
    Record,
    RunEnded,
    SummaryOffered,
    UserSaid,
    to_data,
)
from tui_agent.frontends.answers import Answers
from tui_agent.frontends.plain import PlainText
from tui_agent.storage.lines import encode
from tui_agent.text import clean

_NO_TRUST = "exec without --trust: the session is read-only"
_RAW_CONTROL = re.compile("[\x7f-\x9f]")
"""What JSON lets through but a terminal obeys."""
EXIT_CODES = {
    "done": 0,
    "failed": 1,
    "refused": 3,
    "unreachable": 4,
    "limit": 5,
    "interrupted": 130,
}
"""Outcome of the run → status of the process (X3)."""


class Headless(msgspec.Struct, frozen=True, kw_only=True):
    """How `exec` was asked to work."""

    task: str
    approve: str = "safe"
    """`none`, `safe`, `edits` or `all`."""
    json: bool = False
    """Print the records as they are journaled: exact, secrets included (A7). Plain output is masked."""
    read_answers: bool = False
    """Answers come as JSON lines on standard input (`--answers`)."""


class Exec:
    """One headless run: prints what happens and answers what asks by its flags."""

    def __init__(self, session: Session, options: Headless, out: TextIO) -> None:
        self._session = session
        self._options = options
        self._out = out
        self._plain = PlainText(out, session.mask)
        self._answers = Answers(session) if options.read_answers else None
        self._refused = self._changed = False
        self._signal: int | None = None
        self._message = ""
        self._outcome = ""
        """Of the task's own run; empty when its end could not be shown."""

    async def work(self) -> int:
        """Run the task to its end and return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                loop.add_signal_handler(number, self._stop, number)
        self._session.tell_saving(_tell_saving)
        if self._answers is not None:
            self._answers.start()
        printing = asyncio.create_task(self._follow())
        working = asyncio.create_task(self._task_done())
        try:
            # Printing ends first when nobody takes the output any more: then nobody would answer either.
            await asyncio.wait([printing, working], return_when="FIRST_COMPLETED")
        finally:
            if self._answers is not None:
                self._answers.stop()
            await self._session.close("exec ended")
        await working
        try:
            await printing
        except OSError as error:
            _leave_stdout()
            if isinstance(error, BrokenPipeError):
                return EXIT_CODES["interrupted"]
            sys.stderr.write(f"tui-agent: the output can't be written: {error.strerror}\n")
            return EXIT_CODES["failed"]
        return self._exit_code()

    async def _task_done(self) -> None:
        self._message = await self._session.send(self._options.task)
        await self._session.wait()

    def _exit_code(self) -> int:
        if self._signal is not None and (self._signal != signal.SIGINT or not self._outcome):
            return 128 + self._signal
        if self._refused and (self._outcome == "done" or (self._outcome == "failed" and not self._changed)):
            return EXIT_CODES["refused"]
        return EXIT_CODES[self._outcome or "failed"]

    def _stop(self, number: int) -> None:
        """The first signal stops the run in order; a second one does not wait for that."""
        if self._signal is not None:
            os._exit(128 + number)
        self._signal = number
        self._stopping = asyncio.ensure_future(self._session.interrupt(at_once=True))

    async def _follow(self) -> None:
        """Print every record up to the end of the session, and decide what asks."""
        run = ""
        async for record in self._session.follow(self._session.begins):
            await asyncio.to_thread(self._print, record)  # whoever reads it may be slow
            event = record.event
            match event:
                case UserSaid(id=said) if said == self._message:
                    run = record.run
                case ApprovalAsked() | QuestionAsked():
                    self._decide(event)
                case (
                    PlanProposed(id=request, asks=True)
                    | SummaryOffered(id=request)
                    | PlanDocConflict(id=request)
                ) if self._answers is not None:
                    self._answers.asked(
                        request, refuse="reject" if isinstance(event, PlanProposed) else "withdrawn"
                    )
                case ApprovalAnswered(answer=answer) if answer.verdict == "reject" and answer.by not in (
                    "user",
                    _NO_TRUST,
                ):
                    self._refused = self._refused or record.run in ("", run)
                case FileChanged() if run and record.run == run:
                    self._changed = True
                case RunEnded(outcome=outcome) if run and record.run == run:
                    self._outcome = outcome

    def _print(self, record: Record) -> None:
        if self._options.json:
            self._out.write(_line(record) + "\n")
            self._out.flush()
        else:
            self._plain.show(record)

    def _decide(self, event: ApprovalAsked | QuestionAsked) -> None:
        """Answer by the flags. What is on the always-ask list is refused, whatever they say, and so is trust (R-03)."""
        if isinstance(event, ApprovalAsked) and isinstance(event.action, Trusting):
            text = "Only --trust makes `exec` trust a folder."
            self._session.answer(event.id, Answer(verdict="reject", text=text, by=_NO_TRUST))
            return
        if self._answers is not None:
            self._answers.asked(event.id)
            return
        if isinstance(event, ApprovalAsked) and self._options.approve == "all" and _may_all(event):
            self._session.answer(event.id, Answer(verdict="approve", by="--approve all"))
            return
        flag = f"--approve {self._options.approve}"
        text = "No user is present to decide."
        self._session.answer(event.id, Answer(verdict="reject", text=text, by=flag))


def _tell_saving(failure: str | None) -> None:
    sys.stderr.write(f"tui-agent: {clean(failure) if failure else 'saving works again.'}\n")


def _leave_stdout() -> None:
    """The reader has gone: let nothing be written there when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _line(record: Record) -> str:
    """The record as it stands in events.jsonl, without its checksum."""
    fields = {
        "v": VERSION,
        "seq": record.seq,
        "at": record.at,
        "type": record.event.type,
        "run": record.run,
        "node": record.node,
        "parent": record.parent,
        "data": to_data(record.event),
    }
    line = encode(fields).decode()
    return _RAW_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def _may_all(event: ApprovalAsked) -> bool:
    match event.action:
        case Editing(outside=outside, protected=protected):
            return not outside and not protected
        case Running(always_ask=always, severity=severity):
            return not always and severity is not Severity.CRITICAL
        case _:
            return False


async def _main(wishes: Wishes, options: Headless) -> int:
    try:
        session = await open_session(wishes)
    except CannotOpen as error:
        sys.stderr.write(f"tui-agent: {clean(str(error))}\n")
        return error.code
    return await Exec(session, options, sys.stdout).work()


def run(wishes: Wishes, options: Headless) -> int:
    """Open a session, work on the task, return the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8" if options.json else None, errors="replace")
    return asyncio.run(_main(wishes, options))
