"""The tool context of a call: every action is decided by the rules or the user before it is executed (A4, A5, A9)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tui_agent.common.domain import (
    SAME_QUESTION,
    Action,
    Answer,
    CommandOutcome,
    EditAction,
    FileChange,
    Mode,
    ReadAction,
    Severity,
    Target,
    ToolResult,
    action_digest,
)
from tui_agent.common.hunks import HunkChoice
from tui_agent.common.workplan import PlanChange
from tui_agent.engine.core.approvals import approval_events, granted
from tui_agent.engine.core.shielded import complete_shielded
from tui_agent.engine.core.text_buffer import TextBuffer
from tui_agent.engine.host.command_watch import INTERRUPTED
from tui_agent.engine.host.edits import (
    BoundEdit,
    apply_choice,
    changed_error,
    choice_note,
    edit_action,
    rebase,
    watch_file,
)
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.engine.host.snapshots import SnapshotError
from tui_agent.events import ApprovalExecuted, CommandChangedFiles, DiagnosticsReported, Event, FileChanged, ToolOutput
from tui_agent.platform.file_faults import FileChangedError, FileFault
from tui_agent.platform.files import replace_file, sha256_of
from tui_agent.safety.roots import PathError
from tui_agent.text import Cleaner, one_line, pluralize
from tui_agent.tools.base import Code, EditResult, SubagentTask, ToolError, ToolRefused
from tui_agent.tools.code_output import format_diagnostics
from tui_agent.tools.search_workspace import find_ripgrep

if TYPE_CHECKING:
    from tui_agent.engine.host.command_guard import CommandGuard, GuardedCommand
    from tui_agent.engine.host.quarantine import QuarantinedEdit

NOT_APPROVED = "Not in the workspace, as only the user may make them and they did not approve"
"""Begins a note for the model about protected files that a command made."""
CHANGED = "changed on disk"
"""Reason why an approval is void."""
NO_WORKAROUND = " Do not try it by another way."
"""Ends a refusal, for the model only."""
OUTPUT_CAP = 256 * 1024
"""Maximum characters of live output of a call on the stream; the result has the rest."""
MAX_DIAGNOSTICS = 20
"""Errors of a file reported to the model after a write."""
MAX_REBASES = 20
"""How often an approved edit is based on a newer version of the file."""
MAX_REBASE_PAUSE = 0.05
"""Seconds between two of them, so that they don't keep step with the other program."""
OTHERS_KEPT = "Another program changed other lines of the file meanwhile; its changes were kept."
"""Feedback for the model."""
OUTPUT_INTERVAL = 0.1
"""Seconds for which live output is buffered."""

Delegate = Callable[[SubagentTask, str, str], Awaitable[ToolResult]]
"""Runs a sub-agent for a run and the node of a call (T5)."""


class Approval(NamedTuple):
    """Permission for one action, to be used once."""

    id: str
    answer: Answer
    cannot_undo: str = ""
    """Why the edit can't be undone, as shown to the user in the request."""


class CallClock:
    """The time limit of a call, paused while the user decides (T7)."""

    def __init__(self) -> None:
        self._deadline = asyncio.timeout(None)
        self._remaining: float | None = None
        self._paused = 0
        self.waited_ms = 0
        """Milliseconds spent waiting for the user."""

    def limit(self, seconds: float | None) -> asyncio.Timeout:
        """Return the limit as a context manager; None for a call with its own time limit."""
        self._deadline = asyncio.timeout(seconds)
        return self._deadline

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the limit."""
        now = asyncio.get_running_loop().time
        self._paused += 1
        if self._paused == 1:
            when = self._deadline.when()
            self._remaining = None if when is None else when - now()
            if when is not None:
                self._deadline.reschedule(None)
        try:
            yield
        finally:
            self._paused -= 1
            if self._paused == 0 and self._remaining is not None and not self._deadline.expired():
                self._deadline.reschedule(now() + self._remaining)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Pause the limit and count the time as waiting for the user."""
        started = time.monotonic()
        try:
            with self.paused():
                yield
        finally:
            self.waited_ms += round((time.monotonic() - started) * 1000)


def refusal(answer: Answer) -> str:
    """Return the message for the model about an answer other than approval."""
    if answer.verdict == "withdrawn":
        return "Interrupted by the user before they decided."
    if answer.by == "user":
        subject, reason = "The user", f" Their reason: {answer.text}"
    else:
        subject, reason = f'The rule "{answer.by}"', f" Reason: {answer.text}"
    return f"{subject} refused this.{reason if answer.text else ''}{NO_WORKAROUND}"


class CallContext:
    """Implements `tools.base.ToolContext` for one call."""

    def __init__(self, environment: ToolEnvironment, *, run: str, node: str, delegate: Delegate | None = None) -> None:
        self._environment = environment
        self._run = run
        self._node = node
        self.clock = CallClock()
        self._delegate = delegate
        self._live_output = _LiveOutput(self._emit_output)
        self._file = ""
        """File with the complete output, until announced in an event."""
        self.declined = False
        """True if a person rejected something, rather than a rule."""
        self.effects: CommandChangedFiles | None = None
        """File changes of the call's command, if surveyed."""
        self.had_effect = False
        """True once something with side effects was executed."""
        self._rebase: Callable[[], BoundEdit | None] = lambda: None
        """Bases the edit that is being decided on a newer version of the file, if it stays the same change."""
        self._asked_anew = False
        """True once a request was void since the file had changed: the next one is void only if it must be."""
        self.seen_files: dict[str, str] = {}
        """Path → hash of the files seen by this call."""
        self.scratch = environment.scratch
        self.roots = environment.roots.folders
        self.mode: Mode = environment.mode
        self.command_timeout = round(environment.settings.timeouts.command)
        self.command_timeout_max = round(environment.settings.timeouts.command_max)
        self.search_matches = environment.settings.caps.search_matches
        self.search_program = find_ripgrep(environment.roots.folders)
        self.code: Code = environment.code
        self.last_seen = environment.last_seen
        self.seen_content = environment.seen_content

    def resolve(self, path: str) -> Target:
        """See ToolContext."""
        try:
            return self._environment.roots.resolve(path)
        except PathError as error:
            raise ToolError(str(error), error.code) from error

    def mark_seen(self, path: Path, sha256: str, content: bytes | None = None) -> None:
        """See ToolContext."""
        self._environment.mark_seen(path, sha256, content)
        self.seen_files[str(path)] = sha256

    def output(self, text: str) -> None:
        """See ToolContext."""
        self._live_output.add(text)

    def close(self) -> None:
        """Flush the live output."""
        self._live_output.close()

    def _emit_output(self, text: str) -> None:
        file, self._file = self._file, ""
        self._environment.stream.emit(ToolOutput(text=text, file=file), run=self._run, node=self._node)

    # --- permission ---

    async def permit(self, action: ReadAction) -> None:
        """See ToolContext."""
        _require_complete(await self.approve(action))

    async def approve(self, action: Action, cannot_undo: str = "") -> Approval:
        """Get permission for `action`, by the rules or by asking the user.

        `cannot_undo` is the known reason why an edit can't be undone. Raises ToolRefused, and ToolError `changed` if
        the file changed in the meantime.
        """
        if not isinstance(action, ReadAction):
            return await self._permission(action, cannot_undo)
        asking, key = self._environment.pending_answers, action_digest(action)
        if (same_answer := await self._answer_to_same_question(key)) is not None:
            return self._approved(self._settle(action, same_answer), same_answer)
        answer = asking[key] = asyncio.get_running_loop().create_future()
        try:
            return await self._permission(action, cannot_undo, answer.set_result)
        finally:
            if not answer.done():
                answer.set_result(None)
            del asking[key]

    async def _permission(
        self, action: Action, cannot_undo: str, answered: Callable[[Answer], None] = lambda answer: None, why: str = ""
    ) -> Approval:
        """As `approve`; calls `answered` with the user's answer. `why` is shown instead of the rule."""
        environment = self._environment
        verdict = await environment.verdict(action, cannot_undo)
        if verdict.decision == "run":
            answer = Answer(verdict="approve", by=verdict.rule)
            return Approval(self._settle(action, answer), answer)
        if verdict.decision == "refuse":
            self._settle(action, Answer(verdict="reject", by=verdict.rule))
            raise ToolRefused(f"Not allowed: {verdict.rule}")
        harm = await environment.harm(action)
        ask, settle = approval_events(action, why or verdict.rule, () if harm else verdict.grants, harm)
        request, watchers = "", list[asyncio.Task[None]]()

        def ask_and_watch(request_id: str) -> Event:
            nonlocal request
            request = request_id
            if isinstance(action, EditAction):
                void = partial(environment.approvals.void, request, CHANGED, run=self._run, node=self._node)
                keeps = self._rebase if self._asked_anew else lambda: None
                watchers.append(asyncio.create_task(watch_file(action, void, keeps)))
            return ask(request)

        try:
            with self.clock.waiting():
                answer = await environment.approvals.decide(ask_and_watch, settle, run=self._run, node=self._node)
        finally:
            for task in watchers:
                task.cancel()
        if answer.verdict == "withdrawn" and answer.by == CHANGED and isinstance(action, EditAction):
            self._asked_anew = True
            raise changed_error(action)
        if answer.verdict == "approve":
            now = await environment.verdict(action, verdict.cannot_undo)
            if now.decision == "refuse":  # mode or trust changed while the user was asked
                raise ToolRefused(f"Not allowed: {now.rule}")
        answered(answer)
        if (grant := granted(verdict.grants, answer)) is not None:
            await environment.grants.add(grant)
        return self._approved(request, answer, verdict.cannot_undo)

    async def _answer_to_same_question(self, key: str) -> Answer | None:
        """Wait for the answer to another call's identical question, if there is one."""
        while (other := self._environment.pending_answers.get(key)) is not None:
            with self.clock.waiting():
                answer = await asyncio.shield(other)
            if answer is not None:
                by = SAME_QUESTION if answer.by == "user" else answer.by
                return Answer(verdict=answer.verdict, text=answer.text, by=by)
        return None

    def _settle(self, action: Action, answer: Answer) -> str:
        """Journal a decision made without asking."""
        return self._environment.approvals.settle(action, answer, run=self._run, node=self._node)

    def _approved(self, request: str, answer: Answer, cannot_undo: str = "") -> Approval:
        if answer.verdict != "approve":
            raise self._refused(answer)
        return Approval(request, answer, cannot_undo)

    def _refused(self, answer: Answer) -> ToolRefused:
        """Return the error for an answer other than approval."""
        self.declined = self.declined or (answer.verdict == "reject" and answer.by in ("user", SAME_QUESTION))
        return ToolRefused(refusal(answer))

    # --- edits ---

    async def edit(
        self, target: Target, before: bytes | None, after: bytes, *, expected: bytes | None = None
    ) -> EditResult:
        """See ToolContext."""
        action = await asyncio.to_thread(edit_action, target, before, after, self.roots)
        self._environment.code.expect(target.path, before)
        self._rebase = partial(rebase, target, before, after, action, self.roots)
        approval = await self.approve(action)
        chosen, note = action, ""
        if approval.answer.data:
            try:
                choice = HunkChoice.from_answer(approval.answer.data, action.diff)
            except ValueError as error:
                raise ToolRefused(f"Not done: {error}.") from error
            if not choice.selects_all(action.diff):
                after, chosen = await self._choose_hunks(action, before, after, choice)
                note = choice_note(action, choice)
        change, is_rebased = await self._write_on_current(approval, BoundEdit(target, before, after, chosen), action)
        expected = after if expected is None or chosen is not action else expected
        self.mark_seen(Path(change.path), sha256_of(expected), expected)
        counts = f"(+{change.added} -{change.removed})"
        notes = (counts, note, OTHERS_KEPT if is_rebased else "", await self._diagnostics(change))
        return EditResult(change, "\n".join(filter(None, notes)))

    async def _write_on_current(
        self, approval: Approval, edit: BoundEdit, proposed: EditAction
    ) -> tuple[FileChange, bool]:
        """Write the edit; when another program changes other lines of the file meanwhile, on top of its version.

        Returns the change, and whether it had to be merged. Raises ToolError `changed` if the same lines were changed,
        or if the file changes all the time.
        """
        current = edit
        for attempt in range(MAX_REBASES):
            is_rebased = attempt > 0
            try:
                partly = current.action is not proposed
                return await self._write(approval, current.action, current.after, partly=partly), is_rebased
            except ToolError as error:
                if error.code != "changed":
                    raise
            rebased = await asyncio.to_thread(rebase, *edit, self.roots)
            if rebased is None:
                raise changed_error(edit.action)
            current = rebased
            self._environment.code.expect(edit.target.path, current.before)
            await asyncio.sleep(random.uniform(0, MAX_REBASE_PAUSE))
        raise ToolError(
            f"{edit.action.display} is being saved by another program all the time; nothing was written. "
            "Ask the user to stop that program, or to close the file in it.",
            "changed",
        )

    async def _choose_hunks(
        self, action: EditAction, before: bytes | None, after: bytes, choice: HunkChoice
    ) -> tuple[bytes, EditAction]:
        """Return the content with the chosen hunks, and its edit. Raises ToolRefused."""
        if not action.splittable:
            raise ToolRefused("Not done: this change can only be taken as a whole.")
        content, chosen = await asyncio.to_thread(apply_choice, action, before, after, choice)
        if chosen.after == action.before or (before is None and not content):
            self.declined = True
            raise ToolRefused(f"The user took none of this change.{NO_WORKAROUND}")
        return content, chosen

    async def _write(self, approval: Approval, action: EditAction, content: bytes, *, partly: bool) -> FileChange:
        """Save a snapshot (K1), then replace the file atomically."""
        changed = changed_error(action)
        environment, snapshots = self._environment, self._environment.snapshots
        if (folder := environment.roots.missing_folder(Path(action.path))) is not None:
            text = f"{action.display} was not written: the folder {folder} no longer exists. Tell the user."
            raise ToolError(text, "not_found")
        if snapshots is not None:
            save_before = partial(snapshots.save_before, action, run=self._run, call=self._node)
            try:
                try:
                    await save_before(unkept=approval.cannot_undo)
                except SnapshotError as error:
                    await self.approve(action, str(error))
                    await save_before(unkept=str(error))
            except FileChangedError as error:
                raise changed from error
        await environment.stream.durable()
        await environment.before_change(self._run)
        self.had_effect = True

        def replace_and_snapshot() -> None:
            replace_file(Path(action.path), content, action.before)
            if snapshots is not None:
                snapshots.save_after(content)

        async def write() -> FileChange:
            await asyncio.to_thread(replace_and_snapshot)
            return self._emit_change(approval, action, partly)

        try:  # a thread can't be cancelled: what it does must be waited for and recorded
            return await complete_shielded(write())
        except FileChangedError as error:
            raise changed from error
        except FileFault as error:
            raise ToolError(str(error), error.code) from error

    def _emit_change(self, approval: Approval, action: EditAction, partly: bool) -> FileChange:
        change = FileChange(
            path=action.path,
            display=action.display,
            kind=action.diff.kind,
            added=action.diff.added,
            removed=action.diff.removed,
            before=action.before,
            after=action.after,
        )
        self._executed(approval, action, partly)
        self._environment.stream.emit(FileChanged(change=change, diff=action.diff), run=self._run, node=self._node)
        return change

    async def _diagnostics(self, change: FileChange) -> str:
        """Report the errors that a language server finds in a written file; return the feedback for the model (T4)."""
        with self.clock.paused():
            diagnostics = await self._environment.code.check(change)
        errors = tuple(diagnostic for diagnostic in diagnostics or () if diagnostic.kind == "error")
        if not errors:
            return ""
        event = DiagnosticsReported(path=change.path, display=change.display, found=errors[:MAX_DIAGNOSTICS])
        self._environment.stream.emit(event, run=self._run, node=self._node)
        new = sum(error.new for error in errors)
        head = f"{pluralize(len(errors), 'error')} in {change.display}"
        head += "" if new == len(errors) else f", {new} of them new"
        return f"[Diagnostics] {head}:\n{format_diagnostics(errors, MAX_DIAGNOSTICS)}"

    # --- commands ---

    async def run(self, command: str, cwd: str, timeout: int) -> CommandOutcome:
        """See ToolContext."""
        environment = self._environment
        mode = environment.approval_mode
        action = await environment.judge(command, Path(cwd) if cwd else environment.shell_cwd())
        approval = _require_complete(await self.approve(action))
        await environment.stream.durable()
        if action.severity is not Severity.NONE:
            await environment.before_change(self._run)
        self.had_effect = self.had_effect or not action.safe
        self._executed(approval, action)
        confined = await environment.sandbox_policy.confinement(action, mode)
        file = environment.output_file()
        self._file = str(file)
        run = partial(environment.run_command, action, confined, timeout, self.output, file)
        if action.safe or environment.guard is None:
            return await run()
        approved = approval.answer.by in ("user", SAME_QUESTION) and confined is None
        return await self._run_guarded(environment.guard, action.command, approved, run)

    async def _run_guarded(
        self, guard: CommandGuard, command: str, approved: bool, run: Callable[[], Awaitable[CommandOutcome]]
    ) -> CommandOutcome:
        """Run a command that may write, and ask the user about protected files that it made (A2)."""
        environment = self._environment
        with self.clock.paused():
            guarded = await guard.begin(command, approved=approved, run=self._run, call=self._node)
        jobs = {job.id for job in environment.jobs()}
        seconds: float | None = INTERRUPTED
        try:
            outcome = await run()
            seconds = None
        finally:
            ended = await complete_shielded(guard.end(guarded, seconds=seconds))
            self.effects = ended.changes
            if new := frozenset(job.id for job in environment.jobs()) - jobs:
                environment.follow_job(self._follow_job(new, guard.follow_job(guarded, ended.after), guard))
        notes = [outcome.note] if outcome.note else []
        notes += await self._decide_all(ended.edits, guarded, guard)
        return replace(outcome, note="\n".join(notes))

    async def _follow_job(self, jobs: frozenset[int], guarded: GuardedCommand, guard: CommandGuard) -> None:
        """Wait until processes that a command left behind have ended, and ask about protected files that they made."""
        await self._environment.jobs_ended(jobs)
        await self._decide_all(await complete_shielded(guard.end_job(guarded)), guarded, guard)

    async def _decide_all(
        self, edits: Sequence[QuarantinedEdit], guarded: GuardedCommand, guard: CommandGuard
    ) -> list[str]:
        """Ask about all of a command's protected files; return notes for the model."""
        kept: list[str] = []
        quarantined: list[str] = []
        for shown in edits:
            names = ", ".join(item.display for item in shown.items)
            (kept if await self._decide_about(shown, guarded, guard) else quarantined).append(names)
        notes = [f"The user approved these protected files: {', '.join(kept)}."] if kept else []
        return [*notes, *([f"{NOT_APPROVED}: {', '.join(quarantined)}. Tell them."] if quarantined else [])]

    async def _decide_about(self, shown: QuarantinedEdit, guarded: GuardedCommand, guard: CommandGuard) -> bool:
        """Ask whether to keep protected files that a command made; return whether they are in the workspace again."""
        why = (
            f"`{one_line(guarded.command, 100)}` made this protected file. It stays in quarantine unless you approve it"
        )
        try:
            approval = await self._permission(shown.action, "", why=why)
        except (ToolRefused, ToolError):
            await guard.report_quarantined(shown, guarded)
            return False
        self._executed(approval, shown.action)
        return not await complete_shielded(guard.release(shown, guarded))

    def _executed(self, approval: Approval, action: Action, partly: bool = False) -> None:
        event = ApprovalExecuted(id=approval.id, digest=action_digest(action), action=action if partly else None)
        self._environment.stream.emit(event, run=self._run, node=self._node)

    # --- the user, the plan, sub-agents ---

    async def ask(self, question: str, options: tuple[str, ...]) -> str:
        """See ToolContext."""
        if not self._environment.attended:
            raise ToolRefused("No user is present to answer. Decide by yourself or finish with what you know.")
        with self.clock.waiting():
            answer = await self._environment.approvals.question(question, options, run=self._run, node=self._node)
        if answer.verdict not in ("reply", "approve"):
            raise self._refused(answer)
        return answer.text

    async def delegate(self, subtask: SubagentTask) -> ToolResult:
        """See ToolContext."""
        if self._delegate is None:
            raise ToolRefused("Not allowed: no sub-agent can be started from here; look into it with the other tools.")
        return await self._delegate(subtask, self._run, self._node)

    def propose_plan(self, change: PlanChange) -> str:
        """See ToolContext."""
        mode, propose = self._environment.mode, self._environment.propose
        if mode.reads_only and mode is not Mode.PLAN:
            raise ToolRefused(f"Not allowed: {mode} mode proposes nothing for the plan; say it in your reply")
        if propose is None:
            raise ToolRefused("There is no plan document in this session; say it in your reply.")
        return propose(change)


def _require_complete(approval: Approval) -> Approval:
    """Return the approval. Raises ToolRefused if it covers only parts of the action."""
    if approval.answer.data:
        raise ToolRefused("The answer was given for parts of this, which it does not have. Nothing was done.")
    return approval


class _LiveOutput:
    """Cleans, buffers and bounds the output of a call."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._cleaner = Cleaner(colors=True)
        self._buffer = TextBuffer(emit, OUTPUT_INTERVAL)

    def add(self, text: str) -> None:
        if self._buffer.size > OUTPUT_CAP:
            return
        self._buffer.add(self._cleaner.feed(text))
        if self._buffer.size > OUTPUT_CAP:
            self._buffer.add("\n… more output follows; it is kept in the result.\n")

    def close(self) -> None:
        self._buffer.add(self._cleaner.flush())
        self._buffer.flush()
