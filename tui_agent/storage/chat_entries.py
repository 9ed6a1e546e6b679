"""What chat_history.log says of the events that need no memory: each becomes a few (role, text) entries (S2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tui_agent import events as e
from tui_agent.domain import Action, Answer, Diff, Editing, Fault, Reading, Running, Scope, Trusting
from tui_agent.storage import file_entries as files
from tui_agent.storage import plan_entries as plan

OPENING = "What would you like to build?"
"""The session's opening question when its first event names none (seed 000)."""

Entries: TypeAlias = list[tuple[str, str]]
"""Roles are SYSTEM, USER, AGENT, TOOL_CALL and TOOL_RESULT."""


def duration(ms: float) -> str:
    """Milliseconds as a reader says it: `0.4 s`, `12 s`, `2 min 5 s`."""
    seconds = max(0.0, ms) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def system(text: str) -> Entries:
    return [("SYSTEM", text)]


def diff_text(diff: Diff) -> str:
    """The diff as unified lines under one headline."""
    lines: list[str] = []
    for hunk in diff.hunks:
        lines.append(f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@")
        lines.extend(hunk.lines)
    if diff.note:
        lines.append(f"({diff.note})")
    return "\n".join(lines)


def action_text(action: Action) -> str:
    """What would be done, in one line; for an edit the diff follows on the next ones."""
    match action:
        case Reading():
            return f"read {action.display}"
        case Editing(diff=diff):
            return f"{diff.kind} {action.display} (+{diff.added} -{diff.removed})"
        case Running():
            risk = f", severity {action.severity}" if action.severity else ""
            return f"run `{action.command}` in {action.cwd}{risk}"
        case Trusting():
            found = f", which holds {', '.join(action.found)}" if action.found else ""
            return f"trust the folder {action.folder}{found}"


def answer_text(answer: Answer) -> str:
    reach = {Scope.ONCE: "", Scope.SESSION: " for this session", Scope.ALWAYS: " always"}[answer.scope]
    by = "" if answer.by == "user" else f" by {answer.by}"
    match answer.verdict:
        case "approve":
            return f"Approved{reach}{by}{parts_text(answer)}."
        case "reject":
            return f"Rejected{by}: {answer.text}" if answer.text else f"Rejected{by}."
        case "withdrawn":
            return f"Withdrawn: {answer.text}" if answer.text else "Withdrawn."
        case "reply":
            return f"Answered{by}: {answer.text}"


def parts_text(answer: Answer) -> str:
    """What was made of an edit before it was approved (R4.6)."""
    data = answer.data or {}
    taken, edits = data.get("hunks"), data.get("edits")
    said = f", {count(len(taken), 'hunk')} of it" if isinstance(taken, list) else ""
    return said + (f", {len(edits)} changed by hand" if isinstance(edits, dict) and edits else "")


def fault_text(fault: Fault) -> str:
    return f"Error: {fault.message}" + (f"\n{fault.advice}" if fault.advice else "")


def _opened(event: e.SessionOpened) -> Entries:
    about = f"{event.model} ({event.provider}), mode {event.mode}, approval {event.approval_mode}"
    where = f"in {event.workspace}" + ("" if event.trusted else ", not trusted")
    if event.resumed:
        return system(f"Session resumed {where}: {about}.")
    return [*system(event.question or OPENING), *system(f"Session started {where}: {about}.")]


def _recovered(event: e.SessionRecovered) -> Entries:
    said: list[str] = []
    if event.damaged:
        place = f" at byte {event.offset}" if event.offset is not None else ""
        said.append(f"{count(event.damaged, 'damaged record')} kept{place}.")
    if event.interrupted:
        said.append(f"{count(len(event.interrupted), 'tool call')} interrupted, outcome unknown.")
    if event.void:
        said.append(f"{count(len(event.void), 'open request')} void.")
    return system(" ".join(["Recovered after a crash.", *said]))


def _shell(event: e.ShellRan) -> Entries:
    ended = "no exit code" if event.exit_code is None else f"exit code {event.exit_code}"
    output = event.output.rstrip("\n")
    return [("USER", f"!{event.command}"), ("TOOL_RESULT", f"{ended}\n{output}" if output else ended)]


def _notice(event: e.Notice) -> Entries:
    head = {"info": "", "warning": "Warning: ", "error": "Error: "}[event.level]
    return system(head + event.text)


def _attached(event: e.ContextAttached) -> Entries:
    parts = [
        f"Attached: {item.label}:\n{item.text}" if item.text else f"Attached: {item.label}."
        for item in event.items
    ]
    return system("\n".join(parts))


def _question(event: e.QuestionAsked) -> Entries:
    options = "".join(f"\n  {number}. {text}" for number, text in enumerate(event.options, 1))
    return system(f"Question: {event.question}{options}")


def _mode(event: e.ModeChanged) -> Entries:
    by = "" if event.by == "user" else f" (by {event.by})"
    return system(f"Mode {event.mode}, approval {event.approval_mode}{by}.")


def _retry(event: e.RetryWaiting) -> Entries:
    return system(f"{event.why} Trying again in {event.seconds:g} s ({event.attempt} of {event.of}).")


def _answered(event: e.ApprovalAnswered) -> Entries:
    grant = f" Granted: {event.grant.kind} {event.grant.pattern}" if event.grant else ""
    return system(answer_text(event.answer) + grant)


Words: TypeAlias = Callable[[Any], Entries]

WORDS: dict[type[e.Event], Words] = {
    e.SessionOpened: _opened,
    e.SessionClosed: lambda event: system(f"Session closed ({event.reason})."),
    e.SessionRecovered: _recovered,
    e.SessionForked: lambda event: system(f"This session is a fork of {event.parent}."),
    e.SessionTitled: lambda event: system(f"Title: {event.title}"),
    e.ModeChanged: _mode,
    e.ModelChanged: lambda event: system(f"Model {event.model} ({event.provider})."),
    e.RoleChanged: lambda event: system(f"Model for {event.role}: {event.model or 'as set up'}."),
    e.Notice: _notice,
    e.UserSaid: lambda event: [("USER", event.text)],
    e.ContextAttached: _attached,
    e.MessageQueued: lambda event: system(f"Queued: {event.text}"),
    e.MessageChanged: lambda event: system(f"Queued message changed: {event.text}"),
    e.MessageMoved: lambda _: system("Queued message moved."),
    e.MessageWithdrawn: lambda _: system("Queued message withdrawn."),
    e.ShellRan: _shell,
    e.StageEntered: lambda event: system(f"Stage: {event.title or event.stage}"),
    e.RetryWaiting: _retry,
    e.ApprovalAnswered: _answered,
    e.ApprovalVoided: lambda event: system(f"The approval that is asked for is void: {event.reason}."),
    e.GrantRevoked: lambda event: system(f"Taken back: {event.grant.kind} {event.grant.pattern}"),
    e.QuestionAsked: _question,
    e.QuestionAnswered: lambda event: system(answer_text(event.answer)),
    e.RequestClassified: lambda event: system(plan.classified(event)),
    e.PlanProposed: lambda event: system(plan.proposed(event)),
    e.PlanReviewed: lambda event: system(plan.reviewed(event)),
    e.StepStarted: lambda event: system(plan.started(event)),
    e.StepVerified: lambda event: system(plan.verified(event)),
    e.StepRecovering: lambda event: system(plan.recovering(event)),
    e.StepFinished: lambda event: system(f"Step {event.outcome} in {duration(event.ms)}."),
    e.CompletionRefused: lambda event: system(f"Not done yet: {event.why}."),
    e.PlanDocChanged: lambda event: system(text) if (text := plan.document(event)) else [],
    e.PlanDocConflict: lambda event: system(
        f"Conflict in the plan document, {event.where}.\nThe agent's: {event.ours}\nYours: {event.theirs}"
    ),
    e.PlanDocSettled: lambda event: system(answer_text(event.answer)),
    e.SummaryOffered: lambda event: system(plan.offered(event)),
    e.SummarySettled: lambda event: system(plan.settled(event)),
    e.FileSnapshotted: lambda event: system(text) if (text := files.snapshotted(event)) else [],
    e.UndoDone: lambda event: system(files.done(event)),
    e.CheckpointsKept: lambda event: system(files.kept(event)),
    e.CommandChanged: lambda event: system(files.command(event)),
    e.ConversationRewound: lambda event: system(files.rewound(event)),
    e.Unknown: lambda event: system(f"An event that this version does not know: {event.name}"),
}
"""Events that are missing here, and are not told of by `ChatLog` itself, leave no line."""
