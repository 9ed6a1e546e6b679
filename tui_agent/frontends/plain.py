"""Shared by the surfaces without a screen: the event stream as plain text, exit codes and stop signals."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
from typing import Literal, TextIO, TypeGuard

from tui_agent import events as e
from tui_agent.common import paths
from tui_agent.common.domain import Answer
from tui_agent.common.errors import JournalBroken
from tui_agent.events.narration import Narration, answer_text, narrate
from tui_agent.events.refusals import Refusals
from tui_agent.platform.debug_log import start_debug_log
from tui_agent.platform.pipes import print_error
from tui_agent.safety.secrets import values_to_mask
from tui_agent.text import DisplayStream, SecretMask, clean, displayable, make_visible, one_line

EXIT_CODES = {"done": 0, "failed": 1, "refused": 3, "unreachable": 4, "limit": 5, "interrupted": 130}
"""Outcome of a run → exit code of the process (X3)."""
UNATTENDED = "No user is present to decide."
"""Reason for refusing a request when unattended."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk that takes no more data."""
_COMMAND = "run_terminal_command"
LINE_MAX = 300
"""Characters of a line that reports an event."""


class PlainText:
    """Writes records as plain text, displayable and with secrets masked.

    `speaker` precedes each reply. `hidden` are events that the caller prints itself. Replies go to `out`; everything
    else to `notes`, if given.
    """

    def __init__(
        self,
        out: TextIO,
        mask: SecretMask,
        *,
        speaker: str = "",
        hidden: tuple[type[e.Event], ...] = (),
        notes: TextIO | None = None,
    ) -> None:
        self._out = out
        self._notes = out if notes is None else notes
        self._mask = mask
        self._reply = DisplayStream(mask)
        self._speaker = speaker
        self._hidden = hidden
        self._in_reply = False
        self._last_reply = ""
        """Not repeated at the end of the run."""
        self._requests: set[str] = set()
        """Ids of the requests that were printed and are open."""
        self._refused_node: str | None = None
        """Node of the call refused last, whose result would repeat the refusal."""

    def show(self, record: e.Record) -> None:
        """Write one record."""
        event = record.event
        if isinstance(event, e.TextDelta):
            self._out.write("" if self._in_reply else self._speaker)
            self._out.write(self._reply.feed(clean(event.text)))
            self._in_reply = True
        else:
            if isinstance(event, e.ApprovalAnswered) and event.answer.verdict != "approve":
                self._refused_node = record.node
            line = None if isinstance(event, self._hidden) else self._line(event)
            if isinstance(event, e.ApprovalRequested) and line is not None:
                self._requests.add(event.id)
            if line is not None or isinstance(event, e.ReplyEnded):
                self.end_line()
            if isinstance(event, e.ReplyEnded) and not event.role:
                self._last_reply = event.text
            if line is not None:
                self.write(line, self._notes)
        self._out.flush()

    def write(self, line: str, stream: TextIO) -> None:
        """Write a text as a line, displayable and with secrets masked."""
        stream.write(displayable(self._mask.mask(clean(line))) + "\n")
        stream.flush()

    def end_line(self) -> None:
        """End an unfinished line of a reply."""
        if self._in_reply:
            self._out.write(self._reply.flush() + "\n")
            self._out.flush()
            self._in_reply = False

    def _line(self, event: e.Event) -> str | None:
        match event:
            case e.SessionOpened(id=session, model=model, provider=provider, resumed=resumed):
                label = f" · {' '.join(dict.fromkeys((provider, one_line(model, 100))))}" if model else ""
                return f"tui-agent · session {session}{label}{' · resumed' if resumed else ''}"
            case e.ToolStarted(call=call, title=title, agent=agent):
                recovered = " (recovered)" if call.recovered else ""
                return f"{'  ' if agent else ''}[Tool: {one_line(call.name, 60)} {make_visible(title)}{recovered}]"
            case e.ToolFinished():
                return self._result_text(event)
            case e.StepVerified(met=met, command=command, actual=actual) if command:
                text = f"Check `{make_visible(command)}` {'passed' if met else f'failed: {actual}'}"
                return f"  {'✓' if met else '✗'} {one_line(text, LINE_MAX)}"
            case e.ApprovalAnswered(id=request, answer=answer) if request in self._requests:
                self._requests.discard(request)
                mark = "✓" if answer.verdict == "approve" else "✗"
                return f"  {mark} {one_line(answer_text(answer), LINE_MAX)}"
            case e.PlanProposed(plan=plan, asks=False, faults=faults) if plan.is_the_request:
                return (
                    f"  ! There is no plan, and the task is one step. {one_line(faults[-1], LINE_MAX)}"
                    if faults
                    else None
                )
            case e.PlanReviewed(plan=plan, answer=answer, edited=True) if plan.is_the_request:
                return f"  … {one_line(answer.by[:1].upper() + answer.by[1:], LINE_MAX)}."
            case e.RunEnded():
                return self._outcome_text(event)
        return narration_text(narrate(event))

    def _result_text(self, event: e.ToolFinished) -> str | None:
        result = event.result
        if result.code == "interrupted":
            return "  ■ Stopped."
        if not result.success:
            is_repetition = result.code == "refused" and event.call_id == self._refused_node
            return None if is_repetition else f"  ✗ {one_line(result.error or 'failed', LINE_MAX)}"
        return "  ✓ exit code 0" if event.name == _COMMAND else None

    def _outcome_text(self, event: e.RunEnded) -> str | None:
        text = event.facts if event.said else event.text
        if event.outcome == "done":
            return None if text == self._last_reply else text or None
        repeated = f"{self._last_reply.strip()}\n\n"
        return event.ending(text.removeprefix(repeated))


def report_saving(failure: str | None) -> None:
    """Print why saving fails; None: it works again."""
    print_error(failure or "saving works again.")


def report_failure(error: Exception) -> int:
    """Print an unexpected exception as one sentence; return the exit code. The traceback goes to the debug log."""
    if not logging.getLogger("tui_agent").handlers:  # it failed before a session was opened
        with contextlib.suppress(paths.HomeNotFoundError):
            start_debug_log(paths.debug_log_file(), SecretMask(values_to_mask(os.environ)))
    logging.getLogger(__name__).error("the program failed", exc_info=error)
    with contextlib.suppress(OSError):  # stderr may be on the same disk
        print_error(failure_text(error))
    return EXIT_CODES["failed"]


def failure_text(error: Exception) -> str:
    """Return an unexpected exception as a sentence for the user."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return f"The disk is full{_place(error)}. Free some space, or set TUI_AGENT_HOME to a folder on another disk."
    if isinstance(error, OSError) and error.strerror:
        return f"This can't be done: {error.strerror}{_place(error)}."
    if isinstance(error, JournalBroken):
        return str(error)
    return f"Something went wrong inside tui-agent ({type(error).__name__}); the details are in {_debug_log()}."


def _place(error: OSError) -> str:
    return f": {error.filename}" if error.filename else ""


def _debug_log() -> str:
    try:
        return str(paths.debug_log_file())
    except paths.HomeNotFoundError:
        return "the debug log"


def narration_text(narration: Narration | None) -> str | None:
    """A narration as clean lines; None if it is only for the log."""
    if narration is None or narration.mark is None:
        return None
    mark, text = narration.mark, clean(narration.text)
    head = f"{'' if mark == '──' else '  '}{mark} {one_line(text, LINE_MAX)}" if mark else text
    if narration.shows_details and narration.details:
        lines = [
            line for line in clean(narration.details).split("\n") if not line.startswith("   ")
        ]  # details of steps
        return "\n".join([head, *(f"  {one_line(line, LINE_MAX)}" for line in lines)])
    return head.rstrip(":")


UserRequest = e.ApprovalRequested | e.PlanProposed | e.QuestionAsked | e.PlanDocConflict | e.SummaryProposed


def needs_answer(event: e.Event) -> TypeGuard[UserRequest]:
    """Whether the event is a request for the user."""
    return isinstance(event, UserRequest) and not (isinstance(event, e.PlanProposed) and not event.asks)


def unattended_answer(event: UserRequest, by: str) -> Answer:
    """The answer without a user: requests are rejected, and a summary stays pending until the next start (X3)."""
    verdict: Literal["withdrawn", "reject"] = "withdrawn" if isinstance(event, e.SummaryProposed) else "reject"
    return Answer(verdict=verdict, text=UNATTENDED, by=by)


def exit_code(outcome: str, refusals: Refusals) -> int:
    """The exit code of a run with this outcome, in which this was refused because no user was present."""
    return EXIT_CODES["refused" if refusals.prevented(outcome) else outcome]


class StopSignals:
    """Handles SIGINT, SIGTERM and SIGHUP: the first one starts a shutdown, a second one exits immediately."""

    def __init__(self) -> None:
        self.number = 0
        """The first signal; 0 for none."""
        self._event = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                loop.add_signal_handler(number, self._handle, number)

    def _handle(self, number: int) -> None:
        if self.number:
            os._exit(128 + number)
        self.number = number
        self._event.set()

    async def wait(self) -> None:
        """Wait for the first signal."""
        await self._event.wait()

    @property
    def code(self) -> int:
        """The exit code; Ctrl+C is the normal way to quit."""
        return 0 if self.number in (0, signal.SIGINT) else 128 + self.number

    @property
    def reason(self) -> str:
        """Reason for closing the session."""
        return f"signal {signal.Signals(self.number).name}" if self.number else "user"
