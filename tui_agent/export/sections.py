"""The sections of an exported document, from a session's view. Texts are raw: the writers clean them."""

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
from tui_agent.text import displayable, make_visible, one_line, pluralize
from tui_agent.view.items import EndItem, NoticeItem, ReplyItem, RequestItem, SessionView, StepItem, ToolItem

MAX_OPEN_OUTPUT = 12
"""Lines of output that are not collapsed."""
MAX_OPEN_DIFF = 80
"""Lines of diffs that are not collapsed."""
TONES = {"ok": "ok", "done": "ok", "failed": "bad", "unreachable": "bad", "error": "bad", "info": "", "running": ""}
"""Status of a call, outcome of a step or run, or level of a notice → tone; `warn` for the others."""
OUTCOME_TITLES = {
    "done": "Done",
    "failed": "Failed",
    "interrupted": "Stopped",
    "limit": "Stopped at the limit",
    "refused": "Refused",
    "unreachable": "No answer from the model",
}


class ProsePart(NamedTuple):
    """Markdown of a message; `hard_breaks` keeps its line breaks."""

    text: str
    hard_breaks: bool = False


class TextPart(NamedTuple):
    """Lines of text without markup."""

    text: str


class CodePart(NamedTuple):
    """Preformatted lines; `language` is `diff` for a diff."""

    text: str
    language: str = ""


class FoldedPart(NamedTuple):
    """Collapsed details."""

    title: str
    parts: tuple[SectionPart, ...]


SectionPart: TypeAlias = "ProsePart | TextPart | CodePart | FoldedPart"


class ExportSection(NamedTuple):
    """One item of the session. `tone` is `ok`, `bad`, `warn` or ""."""

    kind: str
    """`user`, `agent`, `tool`, `plan`, `step`, `summary`, `request`, `notice`, `shell`, `end`, `document`."""
    title: str = ""
    subject: str = ""
    """Path or command, written as code."""
    notes: tuple[str, ...] = ()
    """Duration, decision and the like."""
    tone: str = ""
    parts: tuple[SectionPart, ...] = ()

    @property
    def note(self) -> str:
        """The notes on one line."""
        return " · ".join(one_line(trimmed_text(note), 300) for note in self.notes if note)


class ExportDocument(NamedTuple):
    """An exported session."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: Iterable[ExportSection]
    """Created lazily on each iteration, to save memory."""
    messages: tuple[str, ...] = ()
    """The first words of each user message, in order."""


def trimmed_text(text: str) -> str:
    """Displayable text without blank lines around it."""
    return displayable(text).strip("\n")


def message_titles(view: SessionView) -> tuple[str, ...]:
    """The first words of each user message, including queued ones."""
    sent = [item.text for item in view.items if isinstance(item, e.UserMessageAdded)]
    return tuple(_first_words(text) for text in (*sent, *(queued.text for queued in view.queue)))


def _first_words(text: str) -> str:
    words = " ".join(trimmed_text(text[:2_000])[:400].split())
    return (words if len(words) <= 90 else words[:89] + "…") or "(empty)"


class Sections:
    """The sections in order, created on each iteration."""

    def __init__(self, view: SessionView, times: Mapping[str, str]) -> None:
        """`times`: message id → time it was sent."""
        self._view = view
        self._times = times

    def __iter__(self) -> Iterator[ExportSection]:
        count = 0
        for item in self._view.items:
            if isinstance(item, e.UserMessageAdded):
                count += 1
                notes = (self._times.get(item.id, ""), "while it worked" if item.steering else "")
                yield ExportSection("user", f"You · {count}", notes=notes, parts=(ProsePart(item.text, True),))
            elif (section := _section(item)) is not None:
                yield section
        for queued in self._view.queue:
            yield ExportSection("user", "You", notes=("not sent yet",), parts=(ProsePart(queued.text, True),))
        plan = self._view.plan
        for title, text in (("Plan document", plan.text), ("Proposed plan document", plan.proposal or "")):
            if text.strip():
                yield ExportSection("document", title, parts=_plan_document(text))


def _plan_document(text: str) -> tuple[SectionPart, ...]:
    """The plan document with collapsed front matter."""
    front_matter, delimiter, body = text.removeprefix("---\n").partition("\n---\n")
    if text.startswith("---\n") and delimiter:
        return FoldedPart("Front matter", (CodePart(front_matter, "yaml"),)), ProsePart(body.strip("\n"), True)
    return (ProsePart(text, True),)


def _section(item: object) -> ExportSection | None:
    match item:
        case ReplyItem():
            return _reply_section(item)
        case ToolItem():
            return _tool_section(item)
        case StepItem():
            return _step_section(item)
        case NoticeItem(level=level, text=text, details=more):
            details = (ProsePart(more),) if more.strip() else ()
            return ExportSection("notice", one_line(text, 2_000), tone=TONES.get(level, "warn"), parts=details)
        case e.UserShellCommand(command=command, cwd=cwd, output=output, exit_code=code):
            notes = ("stopped" if code is None else f"exit code {code}", cwd)
            return ExportSection(
                "shell", "You ran", _subject_line(command), notes, "" if code == 0 else "warn", _output_parts(output)
            )
        case EndItem():
            return _end_section(item)
        case RequestItem():
            return _request_section(item)
    return None


def _subject_line(text: str) -> str:
    return one_line(text, 2_000, exact=True)


# --- replies and tools ----------------------------------------------------------------------


def _reply_section(item: ReplyItem) -> ExportSection | None:
    parts: list[SectionPart] = []
    if item.reasoning.text.strip():
        title = " · ".join(filter(None, ["Thinking", _duration(item.reasoning_ms)]))
        parts.append(FoldedPart(title, (ProsePart(item.reasoning.text),)))
    if item.text.text.strip() and (item.agent or not item.role):
        parts.append(ProsePart(item.text.text))
    if item.retry is not None:
        parts.append(TextPart(f"Asked again ({item.retry.attempt} of {item.retry.of}): {item.retry.why}"))
    if item.fault is not None:
        parts.append(TextPart(fault_text(item.fault)))
    notes = (
        f"could not be used: {item.rejected.replace('_', ' ')}" if item.rejected else "",
        "stopped" if item.interrupted else "cut off at the token limit" if item.stop_reason == "length" else "",
    )
    title = f"Agent, {item.purpose}" if item.purpose else "Agent"
    return ExportSection("agent", title, "", notes, "bad" if item.fault else "", tuple(parts)) if parts else None


def _duration(ms: int) -> str:
    return duration_text(ms) if ms >= 100 else ""


def _tool_section(item: ToolItem) -> ExportSection:
    parts = [part for request in item.requests for part in _request_parts(request, bool(item.diffs))]
    diffs = tuple(part for diff in item.diffs for part in _diff_parts(diff))
    lines = sum(len(hunk.lines) for diff in item.diffs for hunk in diff.hunks)
    parts += [FoldedPart(f"Changes · {lines} lines", diffs)] if lines > MAX_OPEN_DIFF else diffs
    error = (item.result.error or "") if item.result is not None and not item.result.success else ""
    parts += [TextPart(error)] if error else []
    output, result = trimmed_text(item.output.text).strip(), item.text or item.output.text
    if output and output not in trimmed_text(result):  # the screen showed more than the model got
        parts += [*_output_parts(output), FoldedPart("Result for the model", (CodePart(result),))]
    elif result.strip() and result.strip() != error.strip():
        parts += [FoldedPart("Result", (CodePart(result),))] if item.diffs else _output_parts(result)
    arguments = _arguments(item)
    parts += [FoldedPart("Arguments", (CodePart(arguments, "json"),))] if arguments and not item.diffs else []
    notes = (
        {"running": "not finished", "ok": ""}.get(item.status, item.status),
        _duration(item.ms),
        "parsed from text" if item.call.recovered else "",
        "by a sub-agent" if item.agent else "",
    )
    tone = TONES.get(item.status, "warn")
    return ExportSection("tool", one_line(item.call.name, 100), _subject_line(item.title), notes, tone, tuple(parts))


def _arguments(item: ToolItem) -> str:
    if item.call.raw is not None:
        return item.call.raw
    if not item.call.arguments or [str(value) for value in item.call.arguments.values()] == [item.title]:
        return ""
    return json.dumps(item.call.arguments, ensure_ascii=False, indent=2, default=str)


def _output_parts(text: str) -> tuple[SectionPart, ...]:
    text = trimmed_text(text)
    if not text.strip():
        return ()
    lines = text.count("\n") + 1
    return (
        (CodePart(text),) if lines <= MAX_OPEN_OUTPUT else (FoldedPart(f"Output · {lines} lines", (CodePart(text),)),)
    )


# --- requests -------------------------------------------------------------------------------


def _narration_parts(event: e.Event) -> tuple[SectionPart, ...]:
    """The event in words: a sentence and the details."""
    narration = narrate(event)
    if narration is None:
        return ()
    sentence = TextPart(narration.text)
    if isinstance(event, e.ApprovalRequested) and isinstance(event.action, EditAction):
        return (sentence, *_diff_parts(event.action.diff)[1:])
    return (sentence, TextPart(narration.details)) if narration.details else (sentence,)


def _diff_parts(diff: Diff) -> tuple[SectionPart, ...]:
    head = TextPart(f"{diff.kind} {make_visible(diff.path)} (+{diff.added} -{diff.removed})")
    lines = [make_visible(line.rstrip("\r\n"), lookalikes=False) for line in diff_text(diff).split("\n")]
    return (head, CodePart("\n".join(lines), "diff")) if any(lines) else (head,)


def _request_parts(item: RequestItem, has_diff: bool) -> tuple[SectionPart, ...]:
    """Request and answer, without details if the section already shows the diff."""
    request: tuple[SectionPart, ...] = ()
    if item.action is not None:
        request = _narration_parts(e.ApprovalRequested(id=item.id, action=item.action, digest="", why=item.why))
        request = request[:1] if has_diff else request
    elif item.conflict is not None:
        request = _narration_parts(item.conflict)
    elif item.question:
        request = _narration_parts(e.QuestionAsked(id=item.id, question=item.question, options=item.options))
    void = (TextPart(f"Void: {item.void_reason}"),) if item.void_reason else ()
    return (*request, *void, TextPart(answer_text(item.answer) if item.answer else "Not answered."))


def _request_section(item: RequestItem) -> ExportSection:
    if item.proposal is not None:
        return _plan_section(item, item.proposal)
    if item.summary is not None:
        return _summary_section(item.summary, item.summary_review)
    is_answered = item.answer is not None and item.answer.verdict in ("approve", "reply")
    title = "Question" if item.action is None and item.conflict is None else "Approval"
    return ExportSection("request", title, tone="ok" if is_answered else "warn", parts=_request_parts(item, False))


def _plan_section(item: RequestItem, proposal: e.PlanProposed) -> ExportSection:
    """A plan as approved, or else as proposed."""
    answer = item.answer
    notes = (
        answer_text(answer) if answer is not None else "waiting" if proposal.asks else "executed",
        "edited by the user" if item.plan_review is not None and item.plan_review.edited else "",
        "from the cache" if proposal.cached else "",
        "no valid plan" if proposal.fallback else "",
    )
    reason = (TextPart(f"Asked: {item.why}"),) if proposal.asks and item.why else ()
    faults = tuple(map(TextPart, proposal.faults))
    parts = (*reason, TextPart(plan_text(item.plan_review.plan if item.plan_review is not None else proposal.plan)))
    parts += (FoldedPart("Problems of earlier attempts", faults),) if faults else ()
    tone = "warn" if answer is not None and answer.verdict == "reject" else "ok"
    return ExportSection("plan", "Recovery plan" if proposal.recovery else "Plan", "", notes, tone, parts)


def _step_section(item: StepItem) -> ExportSection:
    """A step of a plan with its verifications."""
    parts: list[SectionPart] = []
    for number, verdict in enumerate(item.verifications, 1):
        text = verification_text(verdict.met, verdict.expected, verdict.actual, verdict.by, verdict.command)
        parts.append(TextPart(text))
        for after, recovery in item.recoveries:
            if after == number:
                text = recovery_text(recovery.by, recovery.error_class, recovery.cause, recovery.strategy)
                parts.append(TextPart(text))
    if item.text.strip() and item.outcome != "done":  # the text of a done step is the last reply
        parts.append(ProsePart(item.text))
    narration = narrate(e.StepStarted(step=item.step, of=item.of if item.step.number else 0))
    title = one_line(narration.text if narration else "", 500) or "Check"
    notes = ("" if item.outcome == "done" else item.outcome, _duration(item.ms))
    return ExportSection(
        "step", title, "", notes, TONES.get(item.outcome, "warn") if item.outcome else "", tuple(parts)
    )


def _summary_section(proposal: e.SummaryProposed, review: e.SummaryReviewed | None) -> ExportSection:
    """A summary as accepted, or else as proposed."""
    outcome, summary = (review.outcome, review.summary) if review is not None else ("", proposal.summary)
    notes = (outcome or "waiting", "" if proposal.by == "model" else "written by the program")
    tone = {"accepted": "ok", "edited": "ok", "discarded": "warn"}.get(outcome, "")
    return ExportSection("summary", "Summary", "", notes, tone, (TextPart(summary_text(summary)),))


def _end_section(item: EndItem) -> ExportSection | None:
    parts = (ProsePart(item.text),) if item.text.strip() else ()
    if not parts and item.outcome == "done" and not item.tool_calls:
        return None
    calls = pluralize(item.tool_calls, "tool call") if item.tool_calls else ""
    title = OUTCOME_TITLES.get(item.outcome, item.outcome)
    return ExportSection("end", title, "", (calls, _duration(item.ms)), TONES.get(item.outcome, "warn"), parts)
