"""What surfaces without a screen share: the event stream as plain text, line by line, exit codes, and signals."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TextIO

from tui_agent import events as e
from tui_agent.events.narration import Narration, narrate
from tui_agent.platform.pipes import print_error
from tui_agent.text import Mask, Masker, clean, one_line

EXIT_CODES = {"done": 0, "failed": 1, "refused": 3, "unreachable": 4, "limit": 5, "interrupted": 130}
"""Outcome of a run → status of the process (X3)."""
UNATTENDED = "No user is present to decide."
"""Why a request is refused where nobody is there."""
LINE_MAX = 300
"""Characters of a marked line."""


class PlainText:
    """Writes records to a text file as they come, without terminal control and without the secrets that `mask` knows.

    `speaker` stands in front of each reply. `hidden` are events that the caller shows in its own way.
    """

    def __init__(self, out: TextIO, mask: Mask, *, speaker: str = "", hidden: tuple[type[e.Event], ...] = ()) -> None:
        self._out = out
        self._mask = mask
        self._masker = Masker(mask)
        self._speaker = speaker
        self._hidden = hidden
        self._in_text = False
        self._reply = ""
        """The last reply, which the end of the run does not repeat."""
        self._refused: str | None = None
        """The call that was refused last: its result says the same."""

    def show(self, record: e.Record) -> None:
        """Write one record."""
        event = record.event
        if isinstance(event, e.TextDelta):
            self._out.write("" if self._in_text else self._speaker)
            self._out.write(self._masker.feed(clean(event.text)))
            self._in_text = True
        else:
            if isinstance(event, e.ApprovalAnswered) and event.answer.verdict != "approve":
                self._refused = record.node
            line = None if isinstance(event, self._hidden) else self._line(event)
            if line is not None or isinstance(event, e.ReplyEnded):
                self.end_line()
            if isinstance(event, e.ReplyEnded) and not event.role:
                self._reply = event.text
            if line is not None:
                self._out.write(self._mask.mask(line) + "\n")
        self._out.flush()

    def end_line(self) -> None:
        """Whatever is written next begins a line."""
        if self._in_text:
            self._out.write(self._masker.flush() + "\n")
            self._out.flush()
            self._in_text = False

    def _line(self, event: e.Event) -> str | None:
        match event:
            case e.SessionOpened(id=session, model=model, provider=provider, resumed=resumed):
                about = f" · {provider} {one_line(clean(model), 100)}" if model else ""
                return f"tui-agent · session {session}{about}{' · resumed' if resumed else ''}"
            case e.ToolStarted(call=call, title=title, agent=agent):
                recovered = " (recovered)" if call.recovered else ""
                return f"{'  ' if agent else ''}[Tool: {one_line(clean(call.name), 60)} {clean(title)}{recovered}]"
            case e.ToolFinished(call_id=call_id, result=result):
                if result.success or (result.code == "refused" and call_id == self._refused):
                    return None
                return f"  ✗ {one_line(clean(result.error or 'failed'), LINE_MAX)}"
            case e.RunEnded():
                return self._ending(event)
        return terminal_text(narrate(event))

    def _ending(self, event: e.RunEnded) -> str | None:
        text = event.facts if event.said else event.text
        if event.outcome == "done":
            return None if text == self._reply else clean(text)
        reply = f"{self._reply.strip()}\n\n"  # stands right above
        return f"{event.outcome}: {clean(text.removeprefix(reply))}"


def report_saving(failure: str | None) -> None:
    """Print why saving fails, or that it works again."""
    print_error(failure or "saving works again.")


def terminal_text(said: Narration | None) -> str | None:
    """A narration as clean lines for a terminal; None for what only the log has."""
    if said is None or said.mark is None:
        return None
    indent = "" if said.mark == "──" else "  "
    head = f"{indent}{said.mark} {one_line(clean(said.text), LINE_MAX)}" if said.mark else clean(said.text)
    if said.whole and said.more:
        lines = [line for line in clean(said.more).split("\n") if not line.startswith("   ")]  # no details of steps
        return "\n".join([head, *(f"  {one_line(line, LINE_MAX)}" for line in lines)])
    return head.rstrip(":")


def exit_code(outcome: str, *, refused: bool, changed: bool) -> int:
    """Of a run with this outcome: whether a request of it was refused for want of a user, whether it changed a file."""
    in_the_way = refused and (outcome == "done" or (outcome == "failed" and not changed))
    return EXIT_CODES["refused" if in_the_way else outcome]


class StopSignals:
    """The first signal ends everything in order; a second one does not wait for that."""

    def __init__(self) -> None:
        self.number = 0
        """Of the first one; 0 before."""
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

    async def came(self) -> None:
        """Until there is one."""
        await self._event.wait()

    @property
    def code(self) -> int:
        """The exit code: Ctrl+C is how one leaves."""
        return 0 if self.number in (0, signal.SIGINT) else 128 + self.number

    @property
    def reason(self) -> str:
        """Why the session is closed."""
        return f"signal {signal.Signals(self.number).name}" if self.number else "user"
