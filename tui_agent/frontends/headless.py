"""`tui-agent exec`: run one task without a screen; prints the answer, or the events as JSON lines (X3)."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal, TextIO

import msgspec

from tui_agent import events as e
from tui_agent.common.domain import Answer, EditAction, RunAction, Scope, Severity, TrustAction
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOpenError, SessionOptions
from tui_agent.engine.session import Session, ending_for
from tui_agent.events.refusals import Refusals
from tui_agent.frontends.exec_text import ExecText, answer_of
from tui_agent.frontends.plain import (
    EXIT_CODES,
    StopSignals,
    UserRequest,
    exit_code,
    needs_answer,
    report_saving,
    unattended_answer,
)
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, replace_file
from tui_agent.platform.pipes import detach_stdout, print_error, wait_until_unread
from tui_agent.storage.lines import encode_json
from tui_agent.text import SecretMask, clean, displayable, one_line
from tui_agent.text.json_values import map_strings
from tui_agent.text.masking import SECRET_MARK, restore_secrets
from tui_agent.view.redactor import UNMASKED_EVENTS, Delta, Redactor

_NO_TRUST = "exec without --trust: the session is read-only"
_RAW_CONTROL = re.compile("[\x7f-\x9f]")
"""Control characters that JSON does not escape."""
MAX_REFUSED = 3
"""Refused actions that are named at the end."""
ANSWER_MAX = 1 << 20
"""Bytes of one answer line."""
EARLY_ANSWERS_MAX = 1_000
"""Answers accepted before they are requested."""


class Headless(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `exec`."""

    task: str
    approve: str = "safe"
    """`none`, `safe`, `edits` or `all`."""
    json: bool = False
    """Print the records as in the journal, but with secrets masked (A7)."""
    read_answers: bool = False
    """Read answers as JSON lines from standard input (`--answers`)."""
    attached: str = ""
    """Text from standard input, for the model beside the task."""
    quiet: bool = False
    """Print nothing on stderr but errors."""
    last_message: Path | None = None
    """File that gets the answer."""
    deadline: float | None = None
    """`time.monotonic()` at which the run is stopped, and `seconds` for the text about it."""
    seconds: float = 0.0


class Exec:
    """One headless run: prints events, and answers requests according to the options."""

    def __init__(self, session: Session, options: Headless, out: TextIO, *, temporary: bool = False) -> None:
        self._session = session
        self._options = options
        self._out = out
        self._notes = open(os.devnull, "w", encoding="utf-8") if options.quiet else sys.stderr  # noqa: SIM115  # closed by run
        self._plain = ExecText(out, self._notes, sys.stderr, session.mask, temporary=temporary)
        self._redactor = Redactor(session.mask)
        self._waiting: list[e.Record] = []
        """The last record, if the end of its text may be the beginning of a secret (`--json`)."""
        self._answers = AnswerReader(session) if options.read_answers else None
        self._refusals = Refusals()
        self._message_id = self._run = ""
        self._last_reply = self._answer_text = ""
        self._timed_out = False
        self._outcome = ""
        """Outcome of the task's run; "" if its end was not printed."""

    async def run(self) -> int:
        """Run the task and return the exit code."""
        signals = StopSignals()
        interrupting = asyncio.create_task(self._interrupt_on(signals))
        self._session.watch_saving(report_saving)
        if self._answers is not None:
            self._answers.start()
        printing = asyncio.create_task(self._follow())
        working = asyncio.create_task(self._work())
        unread = asyncio.create_task(wait_until_unread(self._out))
        try:
            # Printing ends first if it fails; without a reader nobody would answer either.
            ended, _ = await asyncio.wait([printing, working, unread], return_when="FIRST_COMPLETED")
        finally:
            if self._answers is not None:
                self._answers.stop()
            await self._session.close(signals.reason if signals.number else "exec ended")
            interrupting.cancel()
            unread.cancel()
        await working
        try:
            await printing
            if unread in ended and working not in ended:
                raise BrokenPipeError
        except OSError as error:
            detach_stdout()
            if isinstance(error, BrokenPipeError):
                return EXIT_CODES["interrupted"]
            print_error(f"the output can't be written: {error.strerror}")
            return EXIT_CODES["failed"]
        finally:
            if self._notes is not sys.stderr:
                self._notes.close()
        return self._report_end(self._exit_code(signals.number))

    def _report_end(self, code: int) -> int:
        """Report what no record could tell, and return the exit code: never 0 if the session or the answer is not
        saved."""
        unsaved = self._session.unsaved
        if self._options.last_message is not None and not self._save_answer(self._options.last_message):
            code = code or EXIT_CODES["failed"]
        if unsaved is not None:
            print_error(str(unsaved))
        elif code == EXIT_CODES["refused"]:
            if texts := self._refused_texts():  # what a person rejects is told by the end of the run
                print_error(f"not done without what was refused: {texts}. See --approve and --answers.")
        elif not self._outcome and code == EXIT_CODES["failed"]:
            print_error("the task did not end, and nothing was printed about it: see the debug log.")
        return code or (EXIT_CODES["failed"] if unsaved is not None else 0)

    def _refused_texts(self) -> str:
        texts = self._refusals.prevented(self._outcome)
        more = f" and {len(texts) - MAX_REFUSED} more" if len(texts) > MAX_REFUSED else ""
        return self._session.mask.mask("; ".join(one_line(text, 200) for text in texts[:MAX_REFUSED])) + more

    def _save_answer(self, file: Path) -> bool:
        """Write the answer into a file, as it is on stdout; return whether that worked."""
        text = displayable(self._session.mask.mask(clean(self._answer_text)))
        try:
            content = f"{text}\n".encode("utf-8", "replace") if text else b""
            old_hash = read_file(file).sha256 if os.path.lexists(file) else None
            replace_file(file, content, old_hash, follow=True, mode=0o600)
        except FileFault as error:
            print_error(f"the answer was not written: {error}")
            return False
        return True

    async def _work(self) -> None:
        self._message_id = await self._session.send(self._options.task, attached=self._options.attached)
        remaining = None if self._options.deadline is None else self._options.deadline - time.monotonic()
        try:
            async with asyncio.timeout(remaining):
                await self._session.wait()
        except TimeoutError:
            self._timed_out = True
            text = f"The time limit of {self._options.seconds:g} s (--timeout) was reached."
            await self._session.interrupt(at_once=True, ending=e.RunEnded(outcome="limit", text=text))
            await self._session.wait()

    def _exit_code(self, signal_number: int) -> int:
        if signal_number and (signal_number != signal.SIGINT or not self._outcome):
            return 128 + signal_number
        outcome = self._outcome or ("limit" if self._timed_out else "failed")
        return exit_code(outcome, self._refusals)

    async def _interrupt_on(self, signals: StopSignals) -> None:
        await signals.wait()
        await self._session.interrupt(at_once=True, ending=ending_for(signals.reason))

    async def _follow(self) -> None:
        """Print every record until the session ends, and answer requests."""
        async for record in self._session.follow(self._session.replay_end):
            self._track(record)
            await asyncio.to_thread(self._print, record)  # the reader may be slow
            if needs_answer(record.event):
                self._answer(record.event)
            if isinstance(record.event, e.RunEnded) and self._is_end(record):
                self._outcome = record.event.outcome

    def _track(self, record: e.Record) -> None:
        event = record.event
        if isinstance(event, e.UserMessageAdded) and event.id == self._message_id:
            self._run = record.run
        if record.run in ("", self._run):
            self._refusals.feed(record)
        if isinstance(event, e.ReplyEnded) and not event.role and record.run == self._run:
            self._last_reply = event.text
        if isinstance(event, e.RunEnded) and self._is_end(record):
            self._answer_text = answer_of(event, self._last_reply)

    def _is_end(self, record: e.Record) -> bool:
        """Whether this is the end of the task's run."""
        return isinstance(record.event, e.RunEnded) and "" != self._run == record.run

    def _print(self, record: e.Record) -> None:
        if self._options.json:
            for masked in self._masked(record):
                self._out.write(_json_line(masked) + "\n")
            self._out.flush()
        elif isinstance(record.event, e.RunEnded) and self._is_end(record):
            self._plain.end(record.event, self._answer_text)
        else:
            self._plain.show(record)

    def _masked(self, record: e.Record) -> list[e.Record]:
        """Return the masked records to print: a text that may end in a secret waits for the next record."""
        *ends, masked = self._redactor.records(record)
        ready, self._waiting = self._waiting, []
        for end in ends:
            growing, last = end.event, ready[-1] if ready else None
            if last and isinstance(last.event, Delta) and (last.node, last.event.type) == (end.node, growing.type):
                text = last.event.text + getattr(growing, "text", "")
                ready[-1] = msgspec.structs.replace(last, event=msgspec.structs.replace(last.event, text=text))
            else:
                ready.append(end)
        if isinstance(masked.event, UNMASKED_EVENTS):
            masked = msgspec.structs.replace(masked, event=self._redactor.redact(masked.event))
        is_held = isinstance(record.event, Delta) and masked.event != record.event
        (self._waiting if is_held else ready).append(masked)
        return ready

    def _answer(self, event: UserRequest) -> None:
        """Answer by the options; always-ask actions and trust are refused in any case."""
        answer: Answer | None = None
        match event:
            case e.ApprovalRequested(action=TrustAction()):
                answer = Answer(verdict="reject", text="`exec` trusts a folder only with --trust.", by=_NO_TRUST)
            case _ if self._answers is not None:
                self._answers.add_request(event)
            case e.ApprovalRequested() if self._options.approve == "all" and _is_covered_by_all(event):
                answer = Answer(verdict="approve", by="--approve all")
            case e.ApprovalRequested() | e.QuestionAsked():
                answer = unattended_answer(event, f"--approve {self._options.approve}")
        if answer is not None:
            self._session.answer(event.id, answer)


def _json_line(record: e.Record) -> str:
    """The record in the form of events.jsonl, without the checksum."""
    fields = {
        "v": e.VERSION,
        "seq": record.seq,
        "at": record.at,
        "type": record.event.type,
        "run": record.run,
        "node": record.node,
        "parent": record.parent,
        "data": e.to_data(record.event),
    }
    line = encode_json(fields).decode()
    return _RAW_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


def _is_covered_by_all(event: e.ApprovalRequested) -> bool:
    match event.action:
        case EditAction(outside=outside, protected=protected):
            return not outside and not protected
        case RunAction(always_ask=always, credentials=credentials, outside=outside, severity=severity):
            return not (always or credentials or outside) and severity is not Severity.CRITICAL
        case _:
            return False


def run_exec(session_options: SessionOptions, options: Headless) -> int:
    """Run a task from the command line; return the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8" if options.json else None, errors="replace")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="replace")
    return asyncio.run(exec_task(session_options, options))


async def exec_task(session_options: SessionOptions, options: Headless) -> int:
    """Open a session, run the task and return the exit code."""
    try:
        session = await open_session(session_options)
    except SessionOpenError as error:
        print_error(str(error))
        return error.code
    return await Exec(session, options, sys.stdout, temporary=session_options.temporary).run()


# --- answers on standard input --------------------------------------------------------------


class AnswerLine(msgspec.Struct, forbid_unknown_fields=True):
    """One answer. Without an `id` it is for the oldest open request, or else for the next one."""

    verdict: Literal["approve", "reject", "reply"]
    id: str = ""
    scope: Scope = Scope.ONCE
    text: str = ""
    data: dict[str, Any] | None = None
    """An edited plan or summary, the resolution of a conflict, or the hunks of an edit (`Answer.data`)."""


def _exact(data: dict[str, Any] | None, request: UserRequest, mask: SecretMask) -> dict[str, Any] | None:
    """Return the data of an answer with the secrets that were printed masked.

    Raises ValueError with a sentence for the user if it is not clear which ones are meant.
    """
    texts: list[str] = []

    def collect(text: str) -> str:
        texts.append(text)
        return text

    map_strings(e.to_data(request), collect)
    proposed = "\n".join(texts)

    def restore(text: str) -> str:
        restored = restore_secrets(text, proposed, mask)
        if any(mark not in proposed for mark in SECRET_MARK.findall(restored)):
            raise ValueError("it contains a masked secret that was not in the request; write the secret itself")
        return restored

    exact: dict[str, Any] | None = map_strings(data, restore)
    return exact


class AnswerReader:
    """Reads answers in a thread and passes them to the session in order.

    When the input ends, open and later requests are refused.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[str, UserRequest] = {}
        """Id → open request."""
        self._early: list[AnswerLine] = []
        self._ended = False
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Start reading."""
        threading.Thread(target=self._read, name="answers", daemon=True).start()

    def stop(self) -> None:
        """Ignore further answers."""
        self._ended = True

    def add_request(self, event: UserRequest) -> None:
        """Register an open request, and answer it if an answer was read already."""
        self._open[event.id] = event
        for line in self._early:
            if line.id in ("", event.id):
                self._early.remove(line)
                self._settle(event.id, line)
                return
        if self._ended:
            self._refuse(event.id)

    def _read(self) -> None:
        try:
            with os.fdopen(os.dup(sys.stdin.fileno()), "rb") as lines:
                while raw := lines.readline(ANSWER_MAX):
                    if raw.strip():
                        self._call_on_loop(self._parse_line, raw)
        except OSError as error:
            print_error(f"answers can't be read: {error.strerror}")
        self._call_on_loop(self._end)

    def _call_on_loop(self, function: object, *values: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *values)  # type: ignore[arg-type]  # only two methods are passed
        except RuntimeError:
            return  # the program has ended

    def _parse_line(self, raw: bytes) -> None:
        try:
            line = msgspec.json.decode(raw, type=AnswerLine)
        except msgspec.DecodeError as error:
            print_error(f"an answer was not understood: {error}")
            return
        request = line.id or next(iter(self._open), "")
        if request in self._open:
            self._settle(request, line)
        elif len(self._early) < EARLY_ANSWERS_MAX:
            self._early.append(line)
        else:
            print_error("too many answers without a request; one was dropped")

    def _settle(self, request: str, line: AnswerLine) -> None:
        try:
            data = _exact(line.data, self._open[request], self._session.mask)
        except ValueError as error:
            print_error(f"an answer was not used: {error}")
            if self._ended:
                self._refuse(request)
            return
        del self._open[request]
        self._session.answer(request, Answer(verdict=line.verdict, scope=line.scope, text=line.text, data=data))

    def _end(self) -> None:
        self._ended = True
        for request in tuple(self._open):
            self._refuse(request)

    def _refuse(self, request: str) -> None:
        self._session.answer(request, unattended_answer(self._open.pop(request), "--answers ended"))
