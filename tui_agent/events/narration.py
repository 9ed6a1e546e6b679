"""Events in words: the one wording that the log, `exec`, the REPL, exports and the notices of the screen share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tui_agent import events as e
from tui_agent.common.domain import Action, Answer, Diff, EditAction, Fault, ReadAction, RunAction, Scope, TrustAction
from tui_agent.common.hunks import format_hunk
from tui_agent.common.workplan import DecisionNote, InstructionPlan, Summary, format_plan
from tui_agent.text import pluralize

OPENING = "What would you like to build?"
"""The opening question of a session whose first event names none."""
NAMED = 8
"""Files that one line names."""


class Narration(NamedTuple):
    """What an event says, in plain text that is neither cleaned nor masked."""

    text: str
    """A sentence, or the headline of `more`."""
    details: str = ""
    """What belongs to it: a diff, a plan, the list of files."""
    mark: str | None = None
    """How a terminal marks the line: `✓`, `✗`, `?` …, or `` for an unmarked one; None: only the log has it."""
    level: e.Level = "info"
    role: str = "SYSTEM"
    """Who speaks in chat_history.log."""
    shows_details: bool = False
    """A terminal shows `more` as well."""


def narrate(event: e.Event) -> Narration | None:
    """What `event` says; None for one that says nothing by itself.

    Replies, tool calls, their output and changes of files are left to the caller: their text depends on what was
    printed before.
    """
    words = _WORDS.get(type(event))
    said = None if words is None else words(event)
    return Narration(said) if isinstance(said, str) else said


# --- phrases ----------------------------------------------------------------------------------


def duration_text(ms: float) -> str:
    """Milliseconds in words: `0.4 s`, `12 s`, `2 min 5 s`, `1 h 3 min`."""
    seconds = max(0.0, ms) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def diff_text(diff: Diff) -> str:
    """The hunks of a diff as unified lines, and its note."""
    return "\n".join([*map(format_hunk, diff.hunks), *([f"({diff.note})"] if diff.note else [])])


def action_text(action: Action) -> str:
    """What would be done, in one line."""
    match action:
        case ReadAction():
            return f"read {action.display}"
        case EditAction(diff=diff):
            return f"{diff.kind} {action.display} (+{diff.added} -{diff.removed})"
        case RunAction():
            risk = f", severity {action.severity}" if action.severity else ""
            return f"run `{action.command}` in {action.cwd}{risk}"
        case TrustAction():
            found = f", which contains {', '.join(action.contents)}" if action.contents else ""
            return f"trust the folder {action.folder}{found}"


def answer_text(answer: Answer) -> str:
    """What was decided about a request."""
    by = _by(answer.by)
    match answer.verdict:
        case "approve":
            reach = {Scope.ONCE: "", Scope.SESSION: " for this session", Scope.ALWAYS: " always"}[answer.scope]
            return f"Approved{reach}{by}{_parts_text(answer)}" + (f": {answer.text}" if answer.text else ".")
        case "reject":
            return f"Rejected{by}: {answer.text}" if answer.text else f"Rejected{by}."
        case "withdrawn":
            return f"Withdrawn: {answer.text}" if answer.text else "Withdrawn."
        case "reply":
            return f"Answered{by}: {answer.text}"


def _by(who: str) -> str:
    return f" ({who})" if who not in ("user", "") else ""


def _parts_text(answer: Answer) -> str:
    """What was made of an edit before it was approved."""
    data = answer.data or {}
    taken, edits = data.get("hunks"), data.get("edits")
    said = f", {pluralize(len(taken), 'hunk')} of it" if isinstance(taken, list) else ""
    return said + (f", {len(edits)} changed by hand" if isinstance(edits, dict) and edits else "")


def fault_text(fault: Fault) -> str:
    """What went wrong with a reply, and what the user can do."""
    return f"Error: {fault.message}" + (f"\n{fault.advice}" if fault.advice else "")


def plan_text(plan: InstructionPlan) -> str:
    """An instruction plan with its alternatives."""
    others = [f"Or: {one.approach}{f' ({one.when})' if one.when else ''}" for one in plan.alternatives]
    return "\n".join([format_plan(plan), *others])


def summary_text(summary: Summary) -> str:
    """The summary of a run."""
    fields = {"Action": "action", "Details": "details", "Result": "result", "Goal": "goal", "Status": "status"}
    lines = [f"{name}: {text}" for name, field in fields.items() if (text := getattr(summary, field))]
    lines += [f"Tools: {', '.join(summary.tools)}"] if summary.tools else []
    for one in summary.criteria:
        lines.append(
            f"- [{'x' if one.completed else ' '}] {one.description}" + (f" ({one.notes})" if one.notes else "")
        )
    lines += [f"Decided: {_decision(one)}" for one in summary.decisions_made]
    lines += [f"Rejected: {_decision(one)}" for one in summary.decisions_rejected]
    return "\n".join(lines)


def _decision(note: DecisionNote) -> str:
    why = f" ({note.rationale})" if note.rationale else ""
    return f"{note.title}{why}" + (f", instead of {', '.join(note.alternatives)}" if note.alternatives else "")


def verification_text(met: bool, expected: str, actual: str, by: str, command: str) -> str:
    """Expected and actual outcome of a step, or of the check that runs `command`."""
    what = f"Check `{command}`" if command else "Outcome"
    wanted = f" Expected: {expected}." if expected else ""
    return f"{what}: {'met' if met else 'not met'}, by {by}.{wanted} Actual: {actual}"


def recovery_text(by: str, error_class: str, cause: str, strategy: str) -> str:
    """What failed, and what is tried instead."""
    kind = f" ({error_class.replace('_', ' ')})" if error_class else ""
    how = "Fallback" if by == "fallback" else "Recovery planning"
    return f"{how}{kind}. Cause: {cause} Next: {strategy}"


def _quoted(text: str) -> str:
    said = " ".join(text.split())
    return f"“{said if len(said) <= 80 else said[:79] + '…'}”"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


# --- the session ------------------------------------------------------------------------------


def _opened(event: e.SessionOpened) -> str:
    about = f"{event.model} ({event.provider}), mode {event.mode}, approval {event.approval_mode}"
    where = f"in {event.workspace}" + ("" if event.trusted else ", not trusted")
    return f"Session {'resumed' if event.resumed else 'started'} {where}: {about}."


def _recovered(event: e.SessionRecovered) -> Narration:
    """Empty text when nothing was left open and nothing is damaged."""
    said: list[str] = []
    if event.interrupted:
        calls = len(event.interrupted)
        said.append(
            "One tool call was interrupted: its outcome is unknown. It is not run again, and the model is informed."
            if calls == 1
            else f"{calls} tool calls were interrupted: their outcome is unknown. "
            "They are not run again, and the model is informed."
        )
    if event.void:
        requests = "One pending request is" if len(event.void) == 1 else f"{len(event.void)} pending requests are"
        said.append(f"{requests} void: no action was taken.")
    if event.damaged:
        records = "One record" if event.damaged == 1 else f"{event.damaged} records"
        said.append(f"{records} of the session could not be read; the bytes are preserved.")
    text = " ".join(["The session was not closed properly.", *said])
    return Narration(text, mark="!" if said else None, level="warning")


def _forked(event: e.SessionForked) -> str:
    before = f", which continued here with: {_quoted(event.before)}" if event.before.split() else ""
    return f"This session is a fork of {event.parent}{before}."


def _notice(event: e.Notice) -> Narration:
    head = {"info": "", "warning": "Warning: ", "error": "Error: "}[event.level]
    return Narration(head + event.text, mark="", level=event.level)


def _attached(event: e.ContextAttached) -> Narration:
    names = [item.display + (f" ({item.note})" if item.note else "") for item in event.items]
    texts = [f"{item.label}:\n{item.text}" if item.text else f"{item.label}." for item in event.items]
    return Narration(f"Attached: {', '.join(names)}", "\n".join(texts))


def _shell(event: e.UserShellCommand) -> Narration:
    ended = "no exit code" if event.exit_code is None else f"exit code {event.exit_code}"
    return Narration(ended, event.output.rstrip("\n"), role="TOOL_RESULT")


def _mode(event: e.ModeChanged) -> Narration:
    by = "" if event.by == "user" else f" (by {event.by})"
    return Narration(f"Mode {event.mode}, approval {event.approval_mode}{by}.", mark="")


def _model(event: e.ModelChanged) -> Narration:
    return Narration(f"Model {event.model} ({event.provider}).", mark="" if event.by == "user" else None)


# --- a run ------------------------------------------------------------------------------------


def _retry(event: e.RetryScheduled) -> Narration:
    return Narration(f"{event.why} Retrying in {event.seconds:g} s ({event.attempt} of {event.of}).", mark="…")


def _compacted(event: e.ContextCompacted) -> Narration:
    what: list[str] = []
    if event.summary:
        by = "the model" if event.by == "model" else "the program"
        what.append(f"older steps summarized by {by}")
    if event.entries:
        what.append(f"last {event.entries} entries of the plan's log kept in full")
    if event.users:
        what.append("your latest message kept" if event.users == 1 else f"your last {event.users} messages kept")
    if event.cut:
        what.append(f"long results cut to {event.cut:,} characters")
    size = f"Context compacted from about {event.before:,} to {event.after:,} tokens"
    return Narration(f"{size}: {', '.join(what)}." if what else f"{size}.", event.summary)


def _asked(event: e.ApprovalRequested) -> Narration:
    match event.action:
        case EditAction(diff=diff):
            more = diff_text(diff)
        case RunAction(reasons=reasons, env_changes=changes):
            more = "\n".join([*(f"- because {one}" for one in reasons), *(f"- env {one}" for one in changes)])
        case _:
            more = ""
    return Narration(f"Approval requested: {action_text(event.action)} ({event.why})", more, "?")


def _answered(event: e.ApprovalAnswered) -> Narration:
    grant = f" Granted: {event.grant.kind} {event.grant.pattern}" if event.grant else ""
    return Narration(answer_text(event.answer) + grant, mark=None if event.answer.verdict == "approve" else "✗")


def _question(event: e.QuestionAsked) -> Narration:
    options = "\n".join(f"  {number}. {text}" for number, text in enumerate(event.options, 1))
    return Narration(f"Question: {event.question}", options, "?")


def _changed(event: e.FileChanged) -> Narration:
    change = event.change
    verb = {"create": "Created", "modify": "Changed", "delete": "Deleted"}[change.kind]
    return Narration(f"{verb} {change.display} (+{change.added} -{change.removed})", diff_text(event.diff), "✓")


def _diagnosed(event: e.DiagnosticsReported) -> Narration | None:
    if not event.found:
        return None
    lines = "\n".join(f"- line {one.line}: {one.message}" for one in event.found)
    first = f"the first on line {event.found[0].line}"
    return Narration(f"{event.display}: {pluralize(len(event.found), 'error')}, {first}", lines, "!", "warning")


# --- the staged workflow and the plan ---------------------------------------------------------


def _classified(event: e.RequestClassified) -> Narration:
    found = event.classified
    writes = "Needs write access." if found.needs_write else "Read-only."
    text = f"Classified as: {found.intent} · {found.task_type} · {found.complexity}"
    return Narration(text, f"{writes} {found.reasoning}".rstrip())


def _proposed(event: e.PlanProposed) -> Narration:
    how = "Recovery plan" if event.recovery else "Plan"
    source = " from the cache" if event.cached else ", written by the program" if event.fallback else ""
    asks = "needs review" if event.asks else "no review"
    head = f"{how}{source}, confidence {event.plan.confidence:.2f}; {asks}: {event.why}".rstrip(": ")
    faults = [f"Earlier attempt failed: {one}" for one in event.faults]
    return Narration(head, "\n".join([plan_text(event.plan), *faults]), "", shows_details=True)


def _reviewed(event: e.PlanReviewed) -> Narration:
    answer = event.answer
    if answer.verdict == "reject":
        return Narration(f"Plan rejected{_by(answer.by)}" + (f": {answer.text}" if answer.text else "."), mark="✗")
    if answer.verdict != "approve":
        return Narration("Plan review withdrawn.")
    if event.alternative is not None:
        return Narration(f"Plan: alternative {event.alternative + 1} chosen{_by(answer.by)}.")
    if event.edited:
        return Narration(f"Plan edited and approved{_by(answer.by)}:", plan_text(event.plan), "", shows_details=True)
    return Narration(f"Plan approved{_by(answer.by)}.")


def _step_started(event: e.StepStarted) -> Narration:
    number = f"Step {event.step.number} of {event.of}: " if event.of else ""
    return Narration(number + event.step.description, mark="──")


def _verified(event: e.StepVerified) -> Narration:
    text = verification_text(event.met, event.expected, event.actual, event.by, event.command)
    return Narration(text, mark=None if event.met else "✗")


def _document(event: e.PlanDocChanged) -> Narration | None:
    """The plan document as a whole: the log holds what was accepted, word for word."""
    if event.pending:
        return Narration("Proposed change to the plan (not written yet):", event.text, "?")
    if event.by == "template":
        return None
    shown = "✓" if event.by in ("user", "editor") else None
    return Narration(f"Plan document changed by {event.by}:", event.text, shown)


def _conflict(event: e.PlanDocConflict) -> Narration:
    return Narration(f"Conflict in the plan document, {event.where}.", f"Agent: {event.ours}\nYou: {event.theirs}", "?")


def _settled(event: e.SummaryReviewed) -> Narration:
    mark = {"accepted": "✓", "edited": "✓", "discarded": "✗", "pending": "…"}[event.outcome]
    if event.outcome == "edited":
        return Narration(f"Summary edited{_by(event.by)}:", summary_text(event.summary), mark)
    if event.outcome == "pending":
        return Narration("Summary left for review at the next interactive start.", mark=mark)
    return Narration(f"Summary {event.outcome}{_by(event.by)}.", mark=mark)


# --- undo and the effects of commands ---------------------------------------------------------


def _snapshotted(event: e.FileSnapshotted) -> Narration | None:
    return Narration(f"{event.display} can't be undone: {event.unkept}.", level="warning") if event.unkept else None


def _undone(event: e.UndoFinished) -> Narration:
    well = [item.display for item in event.items if item.outcome in ("restored", "already")]
    left = [item for item in event.items if item.outcome not in ("restored", "already")]
    done = {"undo": "Undone", "redo": "Redone", "rewind": "Rewound"}[event.kind]
    head = "Rolled back an interrupted undo" if event.outcome == "rolled_back" else done
    text = f"{head}: {pluralize(len(well), 'file')}" + (f" ({_names(well)})" if well else "")
    if left:
        text += f"; not {pluralize(len(left), 'file')} ({_names([item.display for item in left])})"
    more = "\n".join(f"{item.display}: {_undo_outcome(item)}" for item in left)
    if len(well) > NAMED:
        more = "\n".join(filter(None, [*well, more]))
    return Narration(f"{text}.", more, "!" if left else "✓", "warning" if left else "info", shows_details=True)


def _undo_outcome(item: e.RestoredFile) -> str:
    if item.outcome == "aside":
        return f"the earlier content is in {item.why}"
    if item.outcome == "left":
        return f"left unchanged: {item.why}"
    return f"not done: {item.why}" if item.why else "not tried"


def _command_changed(event: e.CommandChangedFiles) -> Narration:
    groups = (("created", event.created), ("changed", event.changed), ("deleted", event.deleted))
    parts = [f"{what} {_names(names)}" for what, names in groups if names]
    parts += [f"{event.more} more"] if event.more else []
    parts += [f"not watched: {', '.join(event.unwatched)}"] if event.unwatched else []
    names = [*event.created, *event.changed, *event.deleted]
    text = f"Undo can't revert what this command did: {'; '.join(parts)}."
    return Narration(text, "\n".join(names) if len(names) > NAMED else "")


def _rewound(event: e.ConversationRewound) -> Narration:
    if event.cleared:
        text = "Conversation cleared: the model no longer sees earlier messages. The plan stays; /redo undoes this."
    elif not event.run:
        text = "The conversation is restored to where it was before the rewind."
    else:
        text = f"The model no longer sees the conversation from this message on: {_quoted(event.text)}"
    return Narration(text, mark="")


_WORDS: dict[type[e.Event], Callable[[Any], Narration | str | None]] = {
    e.SessionOpened: _opened,
    e.SessionClosed: lambda event: f"Session closed ({event.reason}).",
    e.SessionRecovered: _recovered,
    e.SessionForked: _forked,
    e.SessionTitled: lambda event: f"Title: {event.title}",
    e.ModeChanged: _mode,
    e.ModelChanged: _model,
    e.RoleChanged: lambda event: f"Model for {event.role}: {event.model or 'the configured one'}.",
    e.Notice: _notice,
    e.UserMessageAdded: lambda event: Narration(event.text, role="USER"),
    e.ContextAttached: _attached,
    e.MessageQueued: lambda event: f"Queued: {event.text}",
    e.MessageChanged: lambda event: f"Queued message changed: {event.text}",
    e.MessageMoved: lambda _: "Queued message moved.",
    e.MessageWithdrawn: lambda _: "Queued message withdrawn.",
    e.UserShellCommand: _shell,
    e.StageStarted: lambda event: f"Stage: {event.title or event.stage}",
    e.RetryScheduled: _retry,
    e.ContextCompacted: _compacted,
    e.ApprovalRequested: _asked,
    e.ApprovalAnswered: _answered,
    e.ApprovalVoided: lambda event: Narration(f"The pending request is void: {event.reason}.", mark="!"),
    e.GrantRevoked: lambda event: f"Revoked: {event.grant.kind} {event.grant.pattern}",
    e.QuestionAsked: _question,
    e.QuestionAnswered: lambda event: answer_text(event.answer),
    e.FileChanged: _changed,
    e.DiagnosticsReported: _diagnosed,
    e.RequestClassified: _classified,
    e.PlanProposed: _proposed,
    e.PlanReviewed: _reviewed,
    e.StepStarted: _step_started,
    e.StepVerified: _verified,
    e.StepRecoveryStarted: lambda event: Narration(
        recovery_text(event.by, event.error_class, event.cause, event.strategy), mark="…"
    ),
    e.StepFinished: lambda event: f"Step {event.outcome} in {duration_text(event.ms)}.",
    e.CompletionRefused: lambda event: Narration(f"Not done yet: {event.why}", mark="…", level="warning"),
    e.PlanDocChanged: _document,
    e.PlanDocConflict: _conflict,
    e.PlanDocResolved: lambda event: answer_text(event.answer),
    e.SummaryProposed: lambda event: Narration(
        f"Summary proposed by the {event.by}:", summary_text(event.summary), "", shows_details=True
    ),
    e.SummaryReviewed: _settled,
    e.FileSnapshotted: _snapshotted,
    e.UndoFinished: _undone,
    e.CheckpointsKept: lambda event: f"Kept the file changes of {pluralize(len(event.runs), 'run')}.",
    e.CommandChangedFiles: _command_changed,
    e.ConversationRewound: _rewound,
    e.UnknownEvent: lambda event: f"Event unknown to this version: {event.name}",
}
