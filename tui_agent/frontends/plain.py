"""The event stream as plain text for a terminal or a pipe: what was said, done and decided, line by line."""

from __future__ import annotations

from typing import TextIO

from tui_agent.domain import Editing, Reading, Running
from tui_agent.events import (
    ApprovalAnswered,
    ApprovalAsked,
    FileChanged,
    FileDiagnosed,
    Notice,
    QuestionAsked,
    Record,
    ReplyEnded,
    ReplyText,
    RetryWaiting,
    RunEnded,
    SessionOpened,
    SessionRecovered,
    ToolFinished,
    ToolStarted,
)
from tui_agent.frontends.plan_lines import plan_line
from tui_agent.text import Mask, Masker, clean, one_line


class PlainText:
    """Writes records to a text file as they come: no control of a model or tool, and no secret that `mask` knows."""

    def __init__(self, out: TextIO, mask: Mask) -> None:
        self._out = out
        self._mask = mask
        self._masker = Masker(mask)
        self._in_text = False
        self._said = ""
        self._refused: str | None = None
        """The call that was refused last; that its result says so, too, is no news."""

    def show(self, record: Record) -> None:
        """Write one record."""
        event = record.event
        if isinstance(event, ReplyText):
            self._out.write(self._masker.feed(clean(event.text)))
            self._out.flush()
            self._in_text = True
            return
        if isinstance(event, ApprovalAnswered) and event.answer.verdict != "approve":
            self._refused = record.node
        line = self._line(event)
        if isinstance(event, ReplyEnded) and not event.role:
            self._said = event.text
        if line is None and not isinstance(event, ReplyEnded):
            return
        if self._in_text:
            self._out.write(self._masker.flush() + "\n")
            self._in_text = False
        if line is not None:
            self._out.write(self._mask.mask(line) + "\n")
        self._out.flush()

    def _line(self, event: object) -> str | None:
        match event:
            case SessionOpened(id=session, model=model, provider=provider):
                about = f" · {provider} {one_line(clean(model), 100)}" if model else ""
                return f"tui-agent · session {session}{about}"
            case ToolStarted(call=call, title=title, agent=agent):
                recovered = " (recovered)" if call.recovered else ""
                inside = "  " if agent else ""
                return f"{inside}[Tool: {one_line(clean(call.name), 60)} {clean(title)}{recovered}]"
            case ToolFinished(call_id=call, result=result) if not result.success:
                if result.code == "refused" and call == self._refused:
                    return None
                return f"  ✗ {one_line(clean(result.error or 'failed'), 300)}"
            case FileChanged(change=change):
                return f"  ✓ {clean(change.display)}  +{change.added} −{change.removed}"
            case FileDiagnosed(display=display, found=found):
                errors = "1 error" if len(found) == 1 else f"{len(found)} errors"
                return f"  ! {clean(display)}: {errors}, the first in line {found[0].line}" if found else None
            case ApprovalAsked(action=action, why=why):
                return f"  ? {_asks(action)} — {clean(why)}"
            case ApprovalAnswered(answer=answer) if answer.verdict != "approve":
                return f"  ✗ refused ({clean(answer.by)})"
            case RunEnded(outcome=outcome) as ended:
                return self._ending(outcome, ended.facts if ended.said else ended.text)
        return _remark(event)

    def _ending(self, outcome: str, text: str) -> str | None:
        if outcome == "done":
            return None if text == self._said else clean(text)
        said = f"{self._said.strip()}\n\n"  # stands above already
        return f"{outcome}: {clean(text.removeprefix(said))}"


def _remark(event: object) -> str | None:
    match event:
        case QuestionAsked(question=question):
            return f"  ? {one_line(clean(question), 300)}"
        case SessionRecovered():
            told = event.told()
            return f"warning: {told}" if told else None
        case Notice(level=level, text=text):
            return f"{level}: {clean(text)}"
        case RetryWaiting(attempt=attempt, of=of, seconds=seconds, why=why):
            return f"  … {clean(why)} Trying again in {seconds:.0f} s ({attempt} of {of})."
    return plan_line(event)


def _asks(action: object) -> str:
    match action:
        case Editing(display=display, diff=diff):
            return f"edit {clean(display)} (+{diff.added} −{diff.removed})"
        case Running(command=command):
            return f"run {one_line(clean(command), 200)}"
        case Reading(display=display):
            return f"read {clean(display)}"
    return "trust this folder"
