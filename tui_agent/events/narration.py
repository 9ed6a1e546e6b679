"""Texts of events, shared by the log, `exec`, line mode, exports and the notices of the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tui_agent import events as e
from tui_agent.common.domain import (
    SAME_QUESTION,
    Action,
    Answer,
    Diff,
    EditAction,
    Fault,
    FolderTrustState,
    Harm,
    ReadAction,
    RunAction,
    Severity,
    TrustAction,
)
from tui_agent.common.hunks import format_hunk
from tui_agent.common.workplan import DecisionNote, InstructionPlan, Summary, format_plan
from tui_agent.events.grant_texts import APPROVED, grant_text
from tui_agent.text import file_size, make_visible, pluralize

OPENING = "What would you like to build?"
"""The opening question of a session whose first event has none."""
MAX_TARGETS = 3
"""Paths named of those that a critical command would destroy."""
MAX_NAMES = 8
"""Files named in one line."""
MAX_COMMAND = 80
"""Characters of a command that are quoted."""
MAX_DETAILS = 100
"""Files that are named with the reason why undo does not cover them."""


class Narration(NamedTuple):
    """The text of an event, neither cleaned nor masked."""

    text: str
    """A sentence, or the heading of `details`."""
    details: str = ""
    """A diff, a plan, a list of files."""
    mark: str | None = None
    """Mark of the line in a terminal: `✓`, `✗`, `?` …, or empty for none; None: the line is only in the log."""
    level: e.Level = "info"
    role: str = "SYSTEM"
    """Role of the entry in chat_history.log."""
    shows_details: bool = False
    """A terminal shows the details, too."""


def narrate(event: e.Event) -> Narration | None:
    """Return the text of an event, or None if it has none.

    Replies, tool calls and their output are left to the caller: their text depends on what was printed before.
    """
    narrator = _NARRATORS.get(type(event))
    narration = None if narrator is None else narrator(event)
    return Narration(narration) if isinstance(narration, str) else narration


# --- texts of values --------------------------------------------------------------------------


def duration_text(ms: float) -> str:
    """Return milliseconds as text: `0.4 s`, `12 s`, `2 min 5 s`, `1 h 3 min`."""
    seconds = max(0.0, ms) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes} min {remainder} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def diff_text(diff: Diff) -> str:
    """Return the hunks of a diff in unified format, and its note."""
    return "\n".join([*map(format_hunk, diff.hunks), *([f"({diff.note})"] if diff.note else [])])


def action_text(action: Action) -> str:
    """Return an action as one line."""
    match action:
        case ReadAction():
            return f"read {action.display}"
        case EditAction(diff=diff):
            return f"{diff.kind} {action.display} (+{diff.added} -{diff.removed})"
        case RunAction():
            risk = "" if action.severity is Severity.NONE else f", severity {action.severity}"
            return f"run `{make_visible(action.command)}` in {make_visible(action.cwd)}{risk}"
        case TrustAction():
            contents = f", which contains {', '.join(map(make_visible, action.contents))}" if action.contents else ""
            risks = f" ({' '.join(action.risks)})" if action.risks else ""
            return f"trust the folder {make_visible(action.folder)}{contents}{risks}"


def trust_texts(action: TrustAction) -> tuple[str, str]:
    """Return the sentence before the contents of a folder that may be trusted, and the one behind them."""
    if action.contents:
        head = "If you trust it, this is read and followed, from now on and whenever it changes:"
    else:
        head = "Nothing in it is read and followed yet. AGENTS.md, settings, git and language servers would be."
    below = "Folders below it are asked about on their own." if action.risks else "This covers the folders below it."
    return head, f"{below} /trust shows and revokes it."


def trust_state(state: FolderTrustState) -> str:
    """Return whether, since when and through which folder a folder is trusted."""
    if not state.trusted:
        return "not trusted"
    through = f", through {state.through}" if state.through else ""
    return f"trusted since {local_minute(state.since)}{through}" if state.since else "trusted for this session only"


def local_minute(at: str) -> str:
    """Return an ISO 8601 time in local time, to the minute; another text as it is."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return at


_FILE_FLAGS = {
    "outside": ("outside the workspace", "outside the workspace"),
    "protected": ("protected", "protected"),
    "sensitive": ("sensitive", "sensitive"),
    "credentials": ("known to contain secrets", "credentials"),
}
"""Flag of an action on a file → its text, and the words by which a reason for asking says the same."""


def file_warning(action: EditAction | ReadAction, why: str) -> tuple[str, bool]:
    """Return what is unusual about a file beyond what the reason `why` says, and whether `why` says any of it."""
    flags = [texts for name, texts in _FILE_FLAGS.items() if getattr(action, name, False)]
    unsaid = [text for text, words in flags if words not in why]
    return f"This file is {' and '.join(unsaid)}." if unsaid else "", len(unsaid) < len(flags)


def harm_texts(harm: Harm) -> list[str]:
    """Return what a critical command would destroy, and whether a sandbox stops it, as sentences."""
    count = f"{'' if harm.complete else 'at least '}{pluralize(harm.files, 'file')}, {file_size(harm.bytes)}"
    names = ", ".join(harm.targets[:MAX_TARGETS])
    names += f" and {len(harm.targets) - MAX_TARGETS} more" if len(harm.targets) > MAX_TARGETS else ""
    if harm.files:
        texts = [f"It would destroy {count}, in {names}."]
    elif harm.targets:
        texts = [f"It would destroy {names}; no files were counted there."]
    else:
        texts = ["What it would destroy can't be counted."]
    where = "It runs in the sandbox" if harm.sandboxed else "Not sandboxed: it can change everything that you can"
    return [*texts, f"{where}, and undo can't bring it back."]


def answer_text(answer: Answer) -> str:
    """Return the answer to a request as a sentence."""
    by = _by(answer.by)
    if answer.verdict == "approve":
        head = f"{APPROVED[answer.scope].capitalize()}{by}{_edits_text(answer)}"
    else:
        rejected = "Rejected" if answer.by in ("user", SAME_QUESTION) else "Refused"  # a person rejects, a rule refuses
        head = {"reject": f"{rejected}{by}", "withdrawn": "Withdrawn", "reply": f"Answered{by}"}[answer.verdict]
    return f"{head}: {answer.text}" if answer.text else f"{head}."


def _by(author: str) -> str:
    return f" ({author})" if author not in ("user", "") else ""


def _edits_text(answer: Answer) -> str:
    """Return how the user changed an edit before approving it."""
    data = answer.data or {}
    hunks, edits = data.get("hunks"), data.get("edits")
    text = f", {pluralize(len(hunks), 'hunk')} of it" if isinstance(hunks, list) else ""
    return text + (f", {len(edits)} changed by hand" if isinstance(edits, dict) and edits else "")


def fault_text(fault: Fault) -> str:
    """Return why a reply failed, and what the user can do."""
    return f"Error: {fault.message}" + (f"\n{fault.advice}" if fault.advice else "")


def plan_text(plan: InstructionPlan) -> str:
    """Return an instruction plan with its alternatives."""
    alternatives = [f"Or: {item.approach}{f' ({item.when})' if item.when else ''}" for item in plan.alternatives]
    return "\n".join([format_plan(plan), *alternatives])


def summary_text(summary: Summary) -> str:
    """Return the summary of a run, one field per line."""
    fields = {"Action": "action", "Details": "details", "Result": "result", "Goal": "goal", "Status": "status"}
    lines = [f"{name}: {text}" for name, field in fields.items() if (text := getattr(summary, field))]
    lines += [f"Tools: {', '.join(summary.tools)}"] if summary.tools else []
    for criterion in summary.criteria:
        notes = f" ({criterion.notes})" if criterion.notes else ""
        lines.append(f"- [{'x' if criterion.completed else ' '}] {criterion.description}{notes}")
    lines += [f"Decided: {_decision(note)}" for note in summary.decisions_made]
    lines += [f"Rejected: {_decision(note)}" for note in summary.decisions_rejected]
    return "\n".join(lines)


def _decision(note: DecisionNote) -> str:
    why = f" ({note.rationale})" if note.rationale else ""
    return f"{note.title}{why}" + (f", instead of {', '.join(note.alternatives)}" if note.alternatives else "")


def verification_text(met: bool, expected: str, actual: str, by: str, command: str) -> str:
    """Return the expected and actual outcome of a step, or of the check `command`."""
    subject = f"Check `{command}`" if command else "Outcome"
    expectation = f" Expected: {expected}." if expected else ""
    return f"{subject}: {'met' if met else 'not met'}, by {by}.{expectation} Actual: {actual}"


def recovery_text(by: str, error_class: str, cause: str, strategy: str) -> str:
    """Return why a step failed, and what is tried next."""
    kind = f" ({error_class.replace('_', ' ')})" if error_class else ""
    head = "Fallback" if by == "fallback" else "Recovery planning"
    return f"{head}{kind}. Cause: {cause} Next: {strategy}"


def _quoted(text: str) -> str:
    text = " ".join(text.split())
    return f"“{text if len(text) <= 80 else text[:79] + '…'}”"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


# --- the session ------------------------------------------------------------------------------


def _opened(event: e.SessionOpened) -> str:
    setup = f"{event.model} ({event.provider}), mode {event.mode}, approval {event.approval_mode}"
    place = f"in {event.workspace}" + ("" if event.trusted else ", not trusted")
    return f"Session {'resumed' if event.resumed else 'started'} {place}: {setup}."


def _recovered(event: e.SessionRecovered) -> Narration:
    """Only the log has the line if nothing was left open and nothing is damaged."""
    findings: list[str] = []
    if len(event.interrupted) == 1:
        findings.append(
            "One tool call was interrupted: its outcome is unknown. It is not run again, and the model is informed."
        )
    elif event.interrupted:
        findings.append(
            f"{len(event.interrupted)} tool calls were interrupted: their outcome is unknown. "
            "They are not run again, and the model is informed."
        )
    if event.void:
        requests = "One pending request is" if len(event.void) == 1 else f"{len(event.void)} pending requests are"
        findings.append(f"{requests} void: no action was taken.")
    if event.damaged:
        records = "One record" if event.damaged == 1 else f"{event.damaged} records"
        findings.append(f"{records} of the session could not be read; the bytes are preserved.")
    text = " ".join(["The session was not closed properly.", *findings])
    return Narration(text, mark="!" if findings else None, level="warning")


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


def _effort(event: e.EffortChanged) -> str:
    if event.role:
        return f"Reasoning effort for {event.role}: {event.effort}."
    return f"Reasoning effort: {event.effort or event.effective or 'default'}."


def _model(event: e.ModelChanged) -> Narration:
    server = f"{event.provider}, {event.server}" if event.server not in ("", event.provider) else event.provider
    return Narration(f"Model {event.model} ({server}).", mark="" if event.by == "user" else None)


# --- a run ------------------------------------------------------------------------------------


def _retry(event: e.RetryScheduled) -> Narration:
    return Narration(f"{event.why} Retrying in {event.seconds:g} s ({event.attempt} of {event.of}).", mark="…")


def _compacted(event: e.ContextCompacted) -> Narration:
    changes: list[str] = []
    if event.summary:
        by = "the model" if event.by == "model" else "the program"
        changes.append(f"older steps summarized by {by}")
    if event.entries:
        changes.append(f"last {event.entries} entries of the plan's log kept in full")
    if event.users:
        changes.append("your latest message kept" if event.users == 1 else f"your last {event.users} messages kept")
    if event.cut:
        changes.append(f"long results cut to {event.cut:,} characters")
    size = f"Context compacted from about {event.before:,} to {event.after:,} tokens"
    return Narration(f"{size}: {', '.join(changes)}." if changes else f"{size}.", event.summary)


def _asked(event: e.ApprovalRequested) -> Narration:
    match event.action:
        case EditAction(diff=diff):
            details = diff_text(diff)
        case RunAction(reasons=reasons, env_changes=changes):
            rows = [f"- {text}" for text in (harm_texts(event.harm) if event.harm else ())]
            rows += [*(f"- because {reason}" for reason in reasons), *(f"- env {change}" for change in changes)]
            details = "\n".join(rows)
        case _:
            details = ""
    return Narration(f"Approval requested: {action_text(event.action)} ({event.why})", details, "?")


def _answered(event: e.ApprovalAnswered) -> Narration:
    grant = f" Granted: {grant_text(event.grant)}" if event.grant else ""
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
    lines = "\n".join(f"- line {diagnostic.line}: {diagnostic.message}" for diagnostic in event.found)
    first = f"the first on line {event.found[0].line}"
    return Narration(f"{event.display}: {pluralize(len(event.found), 'error')}, {first}", lines, "!", "warning")


# --- the staged workflow and the plan ---------------------------------------------------------


def _classified(event: e.RequestClassified) -> Narration:
    classification = event.classified
    access = "Needs write access." if classification.needs_write else "Read-only."
    text = f"Classified as: {classification.intent} · {classification.task_type} · {classification.complexity}"
    return Narration(text, f"{access} {classification.reasoning}".rstrip())


def _proposed(event: e.PlanProposed) -> Narration:
    kind = "Recovery plan" if event.recovery else "Plan"
    source = " from the cache" if event.cached else ", written by the program" if event.fallback else ""
    review = "needs review" if event.asks else "not reviewed"
    head = f"{kind}{source}, confidence {event.plan.confidence:.0%}; {review}: {event.why}".rstrip(": ")
    faults = [f"Earlier attempt failed: {fault}" for fault in event.faults]
    return Narration(head, "\n".join([plan_text(event.plan), *faults]), "", shows_details=True)


def _reviewed(event: e.PlanReviewed) -> Narration:
    answer = event.answer
    if answer.verdict == "reject":
        verb = "rejected" if answer.by == "user" else "refused"
        return Narration(f"Plan {verb}{_by(answer.by)}" + (f": {answer.text}" if answer.text else "."), mark="✗")
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
    """The log has the complete plan document, word for word."""
    if event.pending:
        return Narration("Proposed change to the plan (not written yet):", event.text, "?")
    if event.by == "template":
        return None
    mark = "✓" if event.by in ("user", "editor") else None
    return Narration(f"Plan document changed by {event.by}:", event.text, mark)


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
    restored = [
        item.display + (" (deleted)" if item.outcome == "restored" and item.after.kind == "absent" else "")
        for item in event.items
        if item.outcome in ("restored", "already")
    ]
    others = [item for item in event.items if item.outcome not in ("restored", "already")]
    verb = {"undo": "Undone", "redo": "Redone", "rewind": "Rewound"}[event.kind]
    head = "Rolled back an interrupted undo" if event.outcome == "rolled_back" else verb
    text = f"{head}: {pluralize(len(restored), 'file')}" + (f" ({_names(restored)})" if restored else "")
    if others:
        text += f"; not {pluralize(len(others), 'file')} ({_names([item.display for item in others])})"
    details = "\n".join(f"{item.display}: {_undo_outcome(item)}" for item in others)
    if len(restored) > MAX_NAMES:
        details = "\n".join(filter(None, [*restored, details]))
    details = "\n".join(filter(None, [details, commands_text(event.commands, event.uncovered, event.protected)]))
    text += f". Not undone: {_names(event.protected)}" if event.protected else ""
    text += f". Other effects of {_commands(event.commands)} are not undone" if event.commands else ""
    return Narration(f"{text}.", details, "!" if others else "✓", "warning" if others else "info", shows_details=True)


def _undo_outcome(item: e.RestoredFile) -> str:
    if item.outcome == "aside":
        return f"the earlier content is in {item.why}"
    if item.outcome == "left":
        return f"left unchanged: {item.why}"
    return f"not done: {item.why}" if item.why else "not tried"


def commands_text(commands: Sequence[str], uncovered: Sequence[str], protected: Sequence[str]) -> str:
    """Return what undo could not revert of these commands, in sentences; empty without commands."""
    parts: list[str] = []
    if commands:
        scope = "outside the files of the workspace (git, network, databases, processes)"
        parts.append(f"Undo can't revert what commands did {scope}: {_commands(commands)}.")
    if uncovered:
        parts.append(f"Files that undo does not cover were changed by: {_commands(uncovered)}.")
    if protected:
        parts.append(f"Undo leaves protected files as commands made them: {', '.join(protected)}.")
    return "\n".join(parts)


def _commands(commands: Sequence[str]) -> str:
    return _names([f"`{' '.join(command.split())[:MAX_COMMAND]}`" for command in commands])


def _command_changed(event: e.CommandChangedFiles) -> Narration | None:
    groups = (("created", event.created), ("changed", event.changed), ("deleted", event.deleted))
    parts = [f"{verb} {_names(names)}" for verb, names in groups if names]
    parts += [f"{event.more} more"] if event.more else []
    unwatched = ", ".join(event.unwatched)
    if unwatched and not parts and event.covered and not event.protected and not event.beyond and not event.files:
        return Narration(f"Undo does not cover: {unwatched}.")
    parts += [f"not watched: {unwatched}"] if unwatched else []
    names = [*event.created, *event.changed, *event.deleted]
    details = names if len(names) > MAX_NAMES else []
    if not event.covered:
        text = f"Undo can't revert what this command did: {'; '.join(parts)}."
        return Narration(text, "\n".join(details))
    unkept = [f"{file.display}: {file.unkept}" for file in event.files if file.unkept]
    parts += [f"undo leaves protected files: {_names(event.protected)}"] if event.protected else []
    if unkept or event.beyond:
        parts.append(f"undo does not cover {pluralize(len(unkept) + event.beyond, 'file')}")
    if not parts:
        return None
    return Narration(f"The command's changes: {'; '.join(parts)}.", "\n".join([*details, *unkept[:MAX_DETAILS]]))


def _quarantined(event: e.FilesQuarantined) -> Narration:
    verbs = {"create": "created", "modify": "changed", "delete": "deleted"}
    names = _names([f"{file.display} ({verbs[file.kind]})" for file in event.files])
    details = "\n".join(f"{file.display}: {file.moved_to}" for file in event.files if file.moved_to)
    command = " ".join(event.command.split())[:MAX_COMMAND]
    text = f"In quarantine unless you approve: protected files that `{command}` made: {names}."
    return Narration(text, details, "!", "warning")


def _rewound(event: e.ConversationRewound) -> Narration:
    if event.cleared:
        text = "Conversation cleared: the model no longer sees earlier messages. The plan stays; /redo undoes this."
    elif not event.run:
        text = "The conversation is restored to where it was before the rewind."
    else:
        text = f"The model no longer sees the conversation from this message on: {_quoted(event.text)}"
    return Narration(text, mark="")


_NARRATORS: dict[type[e.Event], Callable[[Any], Narration | str | None]] = {
    e.SessionOpened: _opened,
    e.SessionClosed: lambda event: f"Session closed ({event.reason}).",
    e.SessionRecovered: _recovered,
    e.SessionForked: _forked,
    e.SessionTitled: lambda event: f"Title: {event.title}",
    e.ModeChanged: _mode,
    e.TrustChanged: lambda event: f"The folder is {'trusted' if event.trusted else 'not trusted any longer'}.",
    e.SandboxChanged: lambda event: (
        f"Sandbox: {event.sandbox}{', for all commands' if event.sandbox_required else ''}"
        f"{', with the network' if event.sandbox_network else ''}."
    ),
    e.ModelChanged: _model,
    e.RoleChanged: lambda event: f"Model for {event.role}: {event.model or 'the configured one'}.",
    e.EffortChanged: _effort,
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
    e.GrantRevoked: lambda event: f"Revoked: {grant_text(event.grant)}",
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
    e.FilesQuarantined: _quarantined,
    e.ConversationRewound: _rewound,
    e.UnknownEvent: lambda event: f"Event unknown to this version: {event.name}",
}
