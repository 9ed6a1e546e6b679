"""What was shown of a session as the sections of a document. Texts are as they came: the printers clean them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from tui_agent import events as e
from tui_agent.common.domain import Diff, EditAction
from tui_agent.events.narration import (
    answer_text,
    diff_text,
    duration_text,
    fault_text,
    narrate,
    plan_text,
    recovery_text,
    summary_text,
    verification_text,
)
from tui_agent.text import clean, count_of, one_line, reveal, visible
from tui_agent.view.items import EndItem, NoticeItem, ReplyItem, RequestItem, SessionView, StepItem, ToolItem

SHORT = 12
"""Lines of output that stand open."""
LONG_DIFF = 80
"""Lines of changes above which they are folded."""
TONES = {"ok": "ok", "done": "ok", "failed": "bad", "unreachable": "bad", "error": "bad", "info": "", "running": ""}
"""Status of a call, outcome of a step or run, or level of a notice → tone; the others warn."""
ENDINGS = {
    "done": "Done",
    "failed": "Failed",
    "interrupted": "Stopped",
    "limit": "Stopped at the limit",
    "refused": "Refused",
    "unreachable": "No answer from the model",
}


class ProsePart(NamedTuple):
    """What somebody wrote, as markdown or as it comes. With `breaks` its lines end where they end."""

    text: str
    breaks: bool = False


class TextPart(NamedTuple):
    """One or several, without markup."""

    text: str


class CodePart(NamedTuple):
    """Lines to be read as they are; a diff with `language` `diff`."""

    text: str
    language: str = ""


class FoldedPart(NamedTuple):
    """What most readers pass over."""

    title: str
    parts: tuple[SectionPart, ...]


SectionPart: TypeAlias = "ProsePart | TextPart | CodePart | FoldedPart"


class ExportSection(NamedTuple):
    """One thing that happened. `tone` is `ok`, `bad`, `warn` or empty."""

    kind: str
    """`user`, `agent`, `tool`, `plan`, `step`, `summary`, `request`, `notice`, `shell`, `end`, `document`."""
    title: str = ""
    subject: str = ""
    """What it is about: a path, a command; set like code."""
    notes: tuple[str, ...] = ()
    """How long it took, what was decided."""
    tone: str = ""
    parts: tuple[SectionPart, ...] = ()

    @property
    def note(self) -> str:
        """The notes on one line."""
        return " · ".join(one_line(displayable(one), 300) for one in self.notes if one)


class ExportDocument(NamedTuple):
    """A session to be read."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: Iterable[ExportSection]
    """Made as they are asked for, each time anew: all of them at once may be much."""
    messages: tuple[str, ...] = ()
    """The first words of each message of the user's, in the order of their sections."""


def displayable(text: str) -> str:
    """Text as it may stand in a document: no terminal control, and nothing that can't be seen."""
    return reveal(clean(text)).strip("\n")


def message_titles(view: SessionView) -> tuple[str, ...]:
    """The first words of each message of the user's, queued ones included."""
    said = [item.text for item in view.items if isinstance(item, e.UserMessageAdded)]
    return tuple(_first_words(text) for text in (*said, *(one.text for one in view.queue)))


def _first_words(text: str) -> str:
    words = " ".join(displayable(text[:2_000])[:400].split())
    return (words if len(words) <= 90 else words[:89] + "…") or "(empty)"


class Sections:
    """One for each thing that was shown, in order, made anew by each iteration."""

    def __init__(self, view: SessionView, times: Mapping[str, str]) -> None:
        """`times` has when each message was sent, by its id."""
        self._view = view
        self._times = times

    def __iter__(self) -> Iterator[ExportSection]:
        users = 0
        for item in self._view.items:
            if isinstance(item, e.UserMessageAdded):
                users += 1
                notes = (self._times.get(item.id, ""), "while it worked" if item.steering else "")
                yield ExportSection("user", f"You · {users}", notes=notes, parts=(ProsePart(item.text, True),))
            elif (section := _section(item)) is not None:
                yield section
        for waiting in self._view.queue:
            yield ExportSection("user", "You", notes=("not sent yet",), parts=(ProsePart(waiting.text, True),))
        plan = self._view.plan
        for title, text in (("Plan document", plan.text), ("Proposed plan document", plan.proposal or "")):
            if text.strip():
                yield ExportSection("document", title, parts=_plan_document(text))


def _plan_document(text: str) -> tuple[SectionPart, ...]:
    """The plan; its front matter apart."""
    head, mark, body = text.removeprefix("---\n").partition("\n---\n")
    if text.startswith("---\n") and mark:
        return FoldedPart("Front matter", (CodePart(head, "yaml"),)), ProsePart(body.strip("\n"), True)
    return (ProsePart(text, True),)


def _section(item: object) -> ExportSection | None:
    match item:
        case ReplyItem():
            return _reply(item)
        case ToolItem():
            return _tool(item)
        case StepItem():
            return _step(item)
        case NoticeItem(level=level, text=text, more=more):
            details = (ProsePart(more),) if more.strip() else ()
            return ExportSection("notice", one_line(text, 2_000), tone=TONES.get(level, "warn"), parts=details)
        case e.UserShellCommand(command=command, cwd=cwd, output=output, exit_code=code):
            notes = ("stopped" if code is None else f"exit code {code}", cwd)
            return ExportSection(
                "shell", "You ran", _subject(command), notes, "" if code == 0 else "warn", _output(output)
            )
        case EndItem():
            return _end(item)
        case RequestItem():
            return _request(item)
    return None


def _subject(text: str) -> str:
    return one_line(visible(text), 2_000)


# --- replies and tools ----------------------------------------------------------------------


def _reply(item: ReplyItem) -> ExportSection | None:
    parts: list[SectionPart] = []
    if item.thought.text.strip():
        parts.append(
            FoldedPart(" · ".join(filter(None, ["Thinking", _took(item.thought_ms)])), (ProsePart(item.thought.text),))
        )
    if item.text.text.strip() and (item.agent or not item.role):
        parts.append(ProsePart(item.text.text))
    if item.retry is not None:
        parts.append(TextPart(f"Asked again ({item.retry.attempt} of {item.retry.of}): {item.retry.why}"))
    if item.fault is not None:
        parts.append(TextPart(fault_text(item.fault)))
    notes = (
        f"could not be used: {item.rejected.replace('_', ' ')}" if item.rejected else "",
        "stopped" if item.interrupted else "cut off at the token limit" if item.stop == "length" else "",
    )
    title = f"Agent, {item.does}" if item.does else "Agent"
    return ExportSection("agent", title, "", notes, "bad" if item.fault else "", tuple(parts)) if parts else None


def _took(ms: int) -> str:
    return duration_text(ms) if ms >= 100 else ""


def _tool(item: ToolItem) -> ExportSection:
    parts = [part for request in item.requests for part in _request_parts(request, bool(item.diffs))]
    diffs = tuple(part for diff in item.diffs for part in _diff(diff))
    lines = sum(len(hunk.lines) for diff in item.diffs for hunk in diff.hunks)
    parts += [FoldedPart(f"Changes · {lines} lines", diffs)] if lines > LONG_DIFF else diffs
    failed = (item.result.error or "") if item.result is not None and not item.result.success else ""
    parts += [TextPart(failed)] if failed else []
    live, text = displayable(item.output.text).strip(), item.text or item.output.text
    if live and live not in displayable(text):  # what was seen is more than what the model got
        parts += [*_output(live), FoldedPart("Result for the model", (CodePart(text),))]
    elif text.strip() and text.strip() != failed.strip():
        parts += [FoldedPart("Result", (CodePart(text),))] if item.diffs else _output(text)
    arguments = _arguments(item)
    parts += [FoldedPart("Arguments", (CodePart(arguments, "json"),))] if arguments and not item.diffs else []
    notes = (
        {"running": "not finished", "ok": ""}.get(item.status, item.status),
        _took(item.ms),
        "parsed from text" if item.call.recovered else "",
        "by a sub-agent" if item.agent else "",
    )
    tone = TONES.get(item.status, "warn")
    return ExportSection("tool", one_line(item.call.name, 100), _subject(item.title), notes, tone, tuple(parts))


def _arguments(item: ToolItem) -> str:
    if item.call.raw is not None:
        return item.call.raw
    if not item.call.arguments or [str(one) for one in item.call.arguments.values()] == [item.title]:
        return ""
    return json.dumps(item.call.arguments, ensure_ascii=False, indent=2, default=str)


def _output(text: str) -> tuple[SectionPart, ...]:
    text = displayable(text)
    if not text.strip():
        return ()
    lines = text.count("\n") + 1
    return (CodePart(text),) if lines <= SHORT else (FoldedPart(f"Output · {lines} lines", (CodePart(text),)),)


# --- requests -------------------------------------------------------------------------------


def _narrated(event: e.Event) -> tuple[SectionPart, ...]:
    """What the event says: its sentence, then the details."""
    said = narrate(event)
    if said is None:
        return ()
    if isinstance(event, e.ApprovalRequested) and isinstance(event.action, EditAction):
        return (TextPart(said.text), *_diff(event.action.diff)[1:])
    return (TextPart(said.text), TextPart(said.more)) if said.more else (TextPart(said.text),)


def _diff(diff: Diff) -> tuple[SectionPart, ...]:
    head = TextPart(f"{diff.kind} {visible(diff.path)} (+{diff.added} -{diff.removed})")
    lines = [reveal(clean(line.rstrip("\r\n"))).replace("\n", "␍") for line in diff_text(diff).split("\n")]
    return (head, CodePart("\n".join(lines), "diff")) if any(lines) else (head,)


def _request_parts(item: RequestItem, done: bool) -> tuple[SectionPart, ...]:
    """What was asked and what was answered; without the diff where it is `done` and stands there anyway."""
    asked: tuple[SectionPart, ...] = ()
    if item.action is not None:
        asked = _narrated(e.ApprovalRequested(id=item.id, action=item.action, digest="", why=item.why))
        asked = asked[:1] if done else asked
    elif item.dispute is not None:
        asked = _narrated(item.dispute)
    elif item.question:
        asked = _narrated(e.QuestionAsked(id=item.id, question=item.question, options=item.options))
    void = (TextPart(f"Void: {item.void}"),) if item.void else ()
    return (*asked, *void, TextPart(answer_text(item.answer) if item.answer else "Not answered."))


def _request(item: RequestItem) -> ExportSection:
    if item.proposal is not None:
        return _plan(item, item.proposal)
    if item.offer is not None:
        return _summary(item.offer, item.settled)
    answered = item.answer is not None and item.answer.verdict in ("approve", "reply")
    title = "Question" if item.action is None and item.dispute is None else "Approval"
    return ExportSection("request", title, tone="ok" if answered else "warn", parts=_request_parts(item, False))


def _plan(item: RequestItem, proposal: e.PlanProposed) -> ExportSection:
    """A plan, as it was approved or as it was made."""
    answer = item.answer
    notes = (
        answer_text(answer) if answer is not None else "waiting" if proposal.asks else "executed",
        "edited by the user" if item.review is not None and item.review.edited else "",
        "from the cache" if proposal.cached else "",
        "no valid plan" if proposal.fallback else "",
    )
    asked = (TextPart(f"Asked: {item.why}"),) if proposal.asks and item.why else ()
    faults = tuple(map(TextPart, proposal.faults))
    parts = (*asked, TextPart(plan_text(item.review.plan if item.review is not None else proposal.plan)))
    parts += (FoldedPart("Problems of earlier attempts", faults),) if faults else ()
    tone = "warn" if answer is not None and answer.verdict == "reject" else "ok"
    return ExportSection("plan", "Recovery plan" if proposal.recovery else "Plan", "", notes, tone, parts)


def _step(item: StepItem) -> ExportSection:
    """A step of a plan, and how it was checked."""
    parts: list[SectionPart] = []
    for number, one in enumerate(item.verdicts, 1):
        parts.append(TextPart(verification_text(one.met, one.expected, one.actual, one.by, one.command)))
        for after, other in item.recoveries:
            if after == number:
                words = recovery_text(other.by, other.error_class, other.cause, other.strategy)
                parts.append(TextPart(words))
    if item.text.strip() and item.outcome != "done":  # what a done step says is the last reply
        parts.append(ProsePart(item.text))
    said = narrate(e.StepStarted(step=item.step, of=item.of if item.step.number else 0))
    title = one_line(said.text if said else "", 500) or "Check"
    notes = ("" if item.outcome == "done" else item.outcome, _took(item.ms))
    return ExportSection(
        "step", title, "", notes, TONES.get(item.outcome, "warn") if item.outcome else "", tuple(parts)
    )


def _summary(offer: e.SummaryProposed, settled: e.SummaryReviewed | None) -> ExportSection:
    """A summary of the work, as it was accepted or as it was offered."""
    outcome, summary = (settled.outcome, settled.summary) if settled is not None else ("", offer.summary)
    notes = (outcome or "waiting", "" if offer.by == "model" else "written by the program")
    tone = {"accepted": "ok", "edited": "ok", "discarded": "warn"}.get(outcome, "")
    return ExportSection("summary", "Summary", "", notes, tone, (TextPart(summary_text(summary)),))


def _end(item: EndItem) -> ExportSection | None:
    parts = (ProsePart(item.text),) if item.text.strip() else ()
    if not parts and item.outcome == "done" and not item.tool_calls:
        return None
    calls = count_of(item.tool_calls, "tool call") if item.tool_calls else ""
    title = ENDINGS.get(item.outcome, item.outcome)
    return ExportSection("end", title, "", (calls, _took(item.ms)), TONES.get(item.outcome, "warn"), parts)
