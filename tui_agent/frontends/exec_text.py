"""The text output of `tui-agent exec`: the answer on one stream, everything else on another (X3)."""

from __future__ import annotations

from typing import TextIO

from tui_agent import events as e
from tui_agent.frontends.plain import PlainText
from tui_agent.platform.pipes import discard
from tui_agent.text import SecretMask


def answer_of(event: e.RunEnded, last_reply: str) -> str:
    """Return the model's last words in a run, with the facts that the program adds to them.

    Empty if the run ended otherwise: at a limit, by an interrupt, without a server.
    """
    was_said = bool(event.said) or (bool(last_reply.strip()) and event.text.startswith(last_reply.strip()))
    return event.text if event.outcome == "done" or was_said else ""


class ExecText(PlainText):
    """Writes the answer to `out`, and to `notes` everything else: steps, tools, approvals, checks. What failed goes to
    `errors`.

    For a terminal, replies are written to `out` as they are generated. A pipe gets only the last one, and `notes` those
    before it.
    """

    def __init__(
        self, out: TextIO, notes: TextIO, errors: TextIO, mask: SecretMask, *, temporary: bool = False
    ) -> None:
        """`temporary`: the session can't be resumed."""
        super().__init__(out, mask, notes=notes)
        self._temporary = temporary
        self._errors = errors
        self._streams = out.isatty()
        self._held = ""
        """A reply that is the answer, unless something follows."""

    def show(self, record: e.Record) -> None:
        """Write one record. The end of the task's run is for `end`."""
        event = record.event
        if isinstance(event, e.TextDelta) and not self._streams:
            return
        super().show(record)
        if isinstance(event, e.ReplyEnded) and not event.role and not self._streams:
            self._held = event.text.strip()
        elif isinstance(event, e.Notice) and event.level == "error" and self._notes is not self._errors:
            self.write(event.text, self._errors)

    def write(self, line: str, stream: TextIO) -> None:
        """Write a line. Only a failure of `out` is one of the work: other streams are given up."""
        try:
            super().write(line, stream)
        except OSError:
            if stream is self._out:
                raise
            discard(stream)

    def end(self, event: e.RunEnded, answer: str) -> None:
        """Write the answer, and why the run was not done."""
        reason = self._outcome_text(event)
        if self._streams:
            self.end_line()
            if reason:
                self.write(reason, self._out if event.outcome == "done" else self._errors)
            return
        if self._held and self._held not in answer:
            self.end_line()
        self._held = ""
        if answer.strip():
            self.write(answer, self._out)
        if reason and event.outcome != "done":
            self.write(reason, self._errors)

    def end_line(self) -> None:
        """End an unfinished line of a reply; for a pipe, write the reply that was not the last one."""
        if self._held:
            self.write(self._held, self._notes)
            self._held = ""
        super().end_line()

    def _line(self, event: e.Event) -> str | None:
        match event:
            case e.ToolFinished(result=result) if result.code == "interrupted":
                return None  # the end of the run says by what
            case e.ContextAttached(items=(first, *_)) if first.kind == "input":
                return f"  ✓ Attached: {first.display}{f' ({first.note})' if first.note else ''}"
            case e.SummaryReviewed(outcome="pending") if self._temporary:
                return "  … Summary not reviewed."
        return super()._line(event)
