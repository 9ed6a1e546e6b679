"""What was shown of a session as the sections of a document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec

from tui_agent.domain import Answer, Diff, Editing, Reading, Running, Scope, Trusting
from tui_agent.export.content import Change, Code, Facts, Fold, Part, Prose, Section, Text
from tui_agent.text import clean, one_line, reveal, visible
from tui_agent.view import (
    ROLES,
    EndItem,
    Item,
    NoticeItem,
    Offer,
    Proposal,
    ReplyItem,
    RequestItem,
    SessionView,
    ShellItem,
    StepItem,
    ToolItem,
    UserItem,
)
from tui_agent.workplan import InstructionPlan, PlanStep, Summary

SHORT = 12
"""Lines of output that stand open."""
LONG_DIFF = 80
"""Lines of changes above which they are folded."""

TOOL_TONES = {"ok": "ok", "failed": "bad", "refused": "warn", "interrupted": "warn", "running": ""}
STEP_TONES = {"done": "ok", "failed": "bad", "skipped": "warn", "interrupted": "warn", "": ""}
LEVELS = {"info": "", "warning": "warn", "error": "bad"}
ENDINGS = {
    "done": ("ok", "Done"),
    "failed": ("bad", "Failed"),
    "interrupted": ("warn", "Stopped"),
    "limit": ("warn", "Stopped at the limit"),
    "refused": ("warn", "Refused"),
    "unreachable": ("bad", "No answer from the model"),
}
OUTCOMES = {
    "": ("", "waiting"),
    "accepted": ("ok", "accepted"),
    "edited": ("ok", "accepted, edited by the user"),
    "discarded": ("warn", "discarded"),
    "pending": ("", "not decided yet"),
}


def sections(view: SessionView, times: Mapping[str, str]) -> Iterator[Section]:
    """One for each thing that was shown, in order. `times` has when each message was said, by its id."""
    users = 0
    for item in view.items:
        if isinstance(item, UserItem):
            users += 1
            said = " ".join(
                filter(None, [times.get(item.id, ""), "while it worked" if item.steering else ""])
            )
            yield Section("user", f"You · {users}", note=said, parts=(Prose(shown(item.text), True),))
        else:
            yield from _section(item)
    for waiting in view.queue:
        yield Section("user", "You", note="not sent yet", parts=(Prose(shown(waiting.text), True),))
    if view.plan.text.strip():
        yield Section("document", "Plan document", parts=_plan_document(view.plan.text))
    if view.plan.proposal:
        yield Section("document", "Proposed plan document", parts=_plan_document(view.plan.proposal))


def _plan_document(text: str) -> tuple[Part, ...]:
    """The plan, what is at its head for the program apart."""
    head, mark, body = shown(text).removeprefix("---\n").partition("\n---\n")
    if text.startswith("---\n") and mark:
        return Fold("Front matter", (Code(head, "yaml"),)), Prose(body.strip("\n"), True)
    return (Prose(shown(text), True),)


def shown(text: str) -> str:
    """Text as it may stand in a document: no terminal control, and nothing that can't be seen (R-30, R-31)."""
    return reveal(clean(text)).strip("\n")


def duration(ms: int) -> str:
    """How long something took, in words; empty below a tenth of a second."""
    if ms < 100:
        return ""
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _note(*parts: str) -> str:
    return " · ".join(one_line(part, 300) for part in parts if part)


def _section(item: Item) -> Iterator[Section]:
    match item:
        case ReplyItem():
            yield from _reply(item)
        case ToolItem():
            yield _tool(item)
        case StepItem():
            yield _step(item)
        case NoticeItem(level=level, text=text, more=more):
            behind: tuple[Part, ...] = (Prose(shown(more)),) if more.strip() else ()
            yield Section("notice", one_line(text, 2_000), tone=LEVELS[level], parts=behind)
        case ShellItem(command=command, cwd=cwd, output=output, exit_code=code):
            ended = "stopped" if code is None else f"exit code {code}"
            yield Section(
                "shell",
                "You ran",
                one_line(visible(command), 2_000),
                _note(ended, cwd),
                "" if code == 0 else "warn",
                _output(output),
            )
        case EndItem():
            yield from _end(item)
        case RequestItem(proposal=proposal) if proposal is not None:
            yield _plan(item, proposal)
        case RequestItem(offer=offer) if offer is not None:
            yield _summary(item, offer)
        case RequestItem():
            yield _request_section(item)


# --- replies and tools ----------------------------------------------------------------------


def _reply(item: ReplyItem) -> Iterator[Section]:
    parts: list[Part] = []
    if item.thought.text.strip():
        took = duration(item.thought_ms)
        parts.append(Fold(f"Thinking · {took}" if took else "Thinking", (Prose(shown(item.thought.text)),)))
    if item.text.text.strip() and not item.role:
        parts.append(Prose(shown(item.text.text)))
    notes = [f"could not be used: {item.rejected.replace('_', ' ')}"] if item.rejected else []
    if item.interrupted:
        notes.append("stopped")
    elif item.stop == "length":
        notes.append("cut off at the limit of tokens")
    if item.retry is not None:
        parts.append(Text(f"Asked again ({item.retry.attempt} of {item.retry.of}): {shown(item.retry.why)}"))
    if item.fault is not None:
        parts.append(Text(shown(f"{item.fault.message} {item.fault.advice}").strip()))
    if parts:
        title = f"Agent, {ROLES.get(item.role, item.role)}" if item.role else "Agent"
        yield Section(
            "agent", title, note=_note(*notes), tone="bad" if item.fault else "", parts=tuple(parts)
        )


def _tool(item: ToolItem) -> Section:
    parts: list[Part] = []
    for request in item.requests:
        parts += _request(request, bool(item.diffs))
    parts += _changes(item)
    failed = item.result.error if item.result is not None and not item.result.success else None
    if failed:
        parts.append(Text(shown(failed)))
    text = item.text or item.output.text
    if text.strip() and shown(text).strip() != shown(failed or "").strip():
        parts += [Fold("Result", (Code(shown(text)),))] if item.diffs else _output(text)
    arguments = _arguments(item)
    if arguments and not item.diffs:
        parts.append(Fold("Arguments", (Code(arguments, "json"),)))
    state = {"running": "no end", "ok": ""}.get(item.status, item.status)
    recovered = "read out of the text" if item.call.recovered else ""
    return Section(
        "tool",
        one_line(item.call.name, 100),
        one_line(visible(item.title), 2_000),
        _note(state, duration(item.ms), recovered),
        TOOL_TONES[item.status],
        tuple(parts),
    )


def _arguments(item: ToolItem) -> str:
    if item.call.raw is not None:
        return shown(item.call.raw)
    if not item.call.arguments or [str(one) for one in item.call.arguments.values()] == [item.title]:
        return ""
    return shown(json.dumps(item.call.arguments, ensure_ascii=False, indent=2, default=str))


def _changes(item: ToolItem) -> list[Part]:
    changes: tuple[Part, ...] = tuple(Change(_seen(diff)) for diff in item.diffs)
    lines = sum(len(hunk.lines) for diff in item.diffs for hunk in diff.hunks)
    return [Fold(f"Changes · {lines} lines", changes)] if lines > LONG_DIFF else list(changes)


def _seen(diff: Diff) -> Diff:
    """A diff whose texts are fit for a document."""
    hunks = tuple(
        msgspec.structs.replace(hunk, lines=tuple(_line(line) for line in hunk.lines)) for hunk in diff.hunks
    )
    note = None if diff.note is None else one_line(diff.note, 300)
    return msgspec.structs.replace(diff, path=one_line(visible(diff.path), 1_000), hunks=hunks, note=note)


def _line(text: str) -> str:
    return reveal(clean(text.rstrip("\r\n"))).replace("\n", "␍")


def _output(text: str) -> tuple[Part, ...]:
    text = shown(text)
    if not text.strip():
        return ()
    lines = text.count("\n") + 1
    body = Code(text)
    return (body,) if lines <= SHORT else (Fold(f"Output · {lines} lines", (body,)),)


# --- requests -------------------------------------------------------------------------------


def _request(item: RequestItem, done: bool) -> list[Part]:
    """What was asked and what was answered; the diff only where it is not `done` and shown anyway."""
    rows: list[tuple[str, str]] = []
    parts: list[Part] = []
    match item.action:
        case Editing(display=display, diff=diff):
            rows.append(("asked", f"edit {visible(display)}"))
            if not done:
                parts.append(Change(_seen(diff)))
        case Running(command=command, cwd=cwd, reasons=reasons):
            rows += [("asked", f"run in {visible(cwd)}")]
            rows += [("because", shown("; ".join(reasons)))] if reasons else []
            parts.append(Code(visible(command), "sh"))
        case Reading(display=display):
            rows.append(("asked", f"read {visible(display)}"))
        case Trusting(folder=folder, found=found):
            rows.append(("asked", f"trust {visible(folder)}"))
            rows += [("holds", shown(", ".join(found)))] if found else []
        case None if item.question:
            rows.append(("question", shown(item.question)))
            rows += [("choices", shown(" · ".join(item.options)))] if item.options else []
        case None if item.dispute is not None:
            where = shown(item.dispute.where)
            rows.append(("asked", f"which of two changes of the plan shall hold: {where}"))
            parts += [Text("The agent's:"), Code(shown(item.dispute.ours))]
            parts += [Text("In the file:"), Code(shown(item.dispute.theirs))]
    rows += [("rule", shown(item.why))] if item.why and item.action is not None else []
    rows += [("void", shown(item.void))] if item.void else []
    rows.append(("answer", verdict(item.answer)))
    return [Facts(tuple(rows)), *parts]


def verdict(answer: Answer | None) -> str:
    """What was decided, in words."""
    if answer is None:
        return "none"
    by = "" if answer.by in ("user", "") else f" by {shown(answer.by)}"
    said = shown(answer.text)
    match answer.verdict:
        case "approve":
            scope = {Scope.SESSION: " for the session", Scope.ALWAYS: " always"}.get(answer.scope, "")
            hunks = (answer.data or {}).get("hunks")
            part = f", {len(hunks)} of its hunks" if isinstance(hunks, list) else ""
            return f"approved{scope}{by}{part}" + (f": {said}" if said else "")
        case "reject":
            return f"rejected{by}" + (f": {said}" if said else "")
        case "reply":
            return said
        case _:
            return "withdrawn"


def _request_section(item: RequestItem) -> Section:
    answered = item.answer is not None and item.answer.verdict in ("approve", "reply")
    title = "Question" if item.action is None and item.dispute is None else "Approval"
    return Section("request", title, tone="ok" if answered else "warn", parts=tuple(_request(item, False)))


# --- plans, steps, summaries ----------------------------------------------------------------


def _plan(item: RequestItem, proposal: Proposal) -> Section:
    name = "Recovery plan" if proposal.recovery else "Plan"
    marks = ["edited by the user"] if proposal.edited else []
    marks += ["made before"] if proposal.cached else []
    marks += ["no usable plan came"] if proposal.fallback else []
    decided = (
        verdict(item.answer) if item.answer is not None else "carried out" if not proposal.asks else "waiting"
    )
    rejected = item.answer is not None and item.answer.verdict == "reject"
    parts = _plan_parts(proposal.taken or proposal.plan)
    if proposal.faults:
        parts.append(Fold("What was wrong with it", tuple(Text(shown(one)) for one in proposal.faults)))
    tone = "warn" if rejected else "ok"
    return Section("plan", name, note=_note(decided, *marks), tone=tone, parts=tuple(parts))


def _plan_parts(plan: InstructionPlan) -> list[Part]:
    parts: list[Part] = [Text(shown(plan.approach))] if plan.approach else []
    if plan.prerequisites:
        parts.append(Facts(tuple(("needs", shown(one)) for one in plan.prerequisites)))
    for step in plan.steps:
        parts += _plan_step(step)
    check = tuple(
        (name, shown(text))
        for name, text in (("check", plan.check.command), ("so that", plan.check.criteria))
        if text
    )
    parts += [Facts(check)] if check else []
    for one in plan.alternatives:
        when = f" ({shown(one.when)})" if one.when else ""
        parts.append(Facts((("or", f"{shown(one.approach)}{when}"),)))
    return parts


def _plan_step(step: PlanStep) -> list[Part]:
    tool = f" [{step.tool}]" if step.tool else ""
    rows = [(str(step.number), shown(step.description + tool))]
    rows += [("expected", shown(step.expected))] if step.expected else []
    rows += [("if not", shown(step.fallback))] if step.fallback else []
    return [Facts(tuple(rows))]


def _step(item: StepItem) -> Section:
    parts: list[Part] = []
    for number, one in enumerate(item.verdicts):
        rows = [("expected", shown(one.expected))] if one.expected else []
        rows.append(("actual", ("✓ " if one.met else "✗ ") + (shown(one.actual) or "as expected" * one.met)))
        rows += [("command", visible(one.command))] if one.command else []
        parts.append(Facts(tuple(rows)))
        for other in item.recoveries:
            if other.after == number + 1:
                told = (other.error_class.replace("_", " "), other.cause, other.strategy)
                words = " · ".join(filter(None, told))
                parts.append(Facts((("instead" if other.by == "fallback" else "new plan", shown(words)),)))
    if item.text.strip() and item.outcome != "done":  # what a done step says is the last reply
        parts.append(Prose(shown(item.text)))
    number_of = f"Step {item.step.number}" + (f" of {item.of}" if item.of else "")
    said = one_line(item.step.description, 500)
    title = ": ".join(filter(None, [number_of, said])) if item.step.number else said or "Check"
    note = _note("" if item.outcome == "done" else item.outcome, duration(item.ms))
    return Section("step", title, note=note, tone=STEP_TONES[item.outcome], parts=tuple(parts))


def _summary(item: RequestItem, offer: Offer) -> Section:
    tone, words = OUTCOMES[offer.outcome]
    by = "" if offer.by == "model" else "made by the program"
    return Section(
        "summary",
        "Summary",
        note=_note(words, by),
        tone=tone,
        parts=tuple(_summary_parts(offer.taken or offer.summary)),
    )


def _summary_parts(summary: Summary) -> Iterator[Part]:
    rows = [
        (name, shown(text))
        for name, text in (
            ("action", summary.action),
            ("details", summary.details),
            ("result", summary.result),
            ("tools", ", ".join(summary.tools)),
            ("goal", summary.goal),
            ("status", summary.status),
        )
        if text
    ]
    for one in summary.criteria:
        notes = f" ({one.notes})" if one.notes else ""
        rows.append(("criterion", shown(f"{'✓' if one.completed else '○'} {one.description}{notes}")))
    for name, decisions in (("decided", summary.decisions_made), ("rejected", summary.decisions_rejected)):
        for note in decisions:
            others = f" (instead of {', '.join(note.alternatives)})" if note.alternatives else ""
            why = f" — {note.rationale}" if note.rationale else ""
            rows.append((name, shown(note.title + why + others)))
    yield Facts(tuple(rows))


def _end(item: EndItem) -> Iterator[Section]:
    tone, word = ENDINGS.get(item.outcome, ("warn", item.outcome))
    calls = f"{item.tool_calls} tool call{'s' if item.tool_calls != 1 else ''}" if item.tool_calls else ""
    parts: tuple[Part, ...] = (Prose(shown(item.text)),) if item.text.strip() else ()
    if parts or item.outcome != "done" or calls:
        yield Section("end", word, note=_note(calls, duration(item.ms)), tone=tone, parts=parts)
