"""The plan document as the session's memory: read, watched, and changed only with the user's consent (P1 to P6)."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec

from tui_agent.common.bounded import put_bounded
from tui_agent.common.domain import Answer
from tui_agent.common.workplan import CriterionChange, DecisionNote, PlanChange, Summary
from tui_agent.engine.core.approvals import Approvals
from tui_agent.engine.core.saved_copies import SavedCopies
from tui_agent.engine.core.shielded import complete_shielded, end_tasks
from tui_agent.engine.core.stream import EventStream
from tui_agent.engine.plan_doc.excerpt import ExcerptCache
from tui_agent.engine.plan_doc.repair import Repair, Rewrite, choose_text
from tui_agent.events import Notice, PlanDocChanged, PlanDocResolved
from tui_agent.plan.document import Criterion, Decision, LogEntry, Plan, PlanStatus, to_minute
from tui_agent.plan.markdown import Document, parse
from tui_agent.plan.merge import Choice, align, merge_plans
from tui_agent.plan.store import PlanStore, SaveConflict, SaveResult, Unreadable
from tui_agent.plan.writing import PlanTextError, rewrite
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import sha256_of
from tui_agent.platform.watching import FileStamp, file_changes, file_stamp
from tui_agent.text import one_line
from tui_agent.tools.base import ToolError

log = logging.getLogger(__name__)

NAME = "plan_doc.md"
MAX_TEXTS = 200
"""Emitted texts that are remembered as the base of edits."""
PROPOSAL = "proposal"
"""Id of the event about the user's decision on the proposal."""
By = Literal["template", "summary", "review", "user", "editor", "merge", "repair"]


class PendingChange(msgspec.Struct, frozen=True):
    """A change of the plan `base` to `target`."""

    base: Plan
    target: Plan
    user_change: PlanChange = PlanChange()
    """Parts written by the user: they override edits of the document made in the meantime."""
    at: dt.datetime | None = None
    """Time of `user_change`."""

    def apply(self, plan: Plan, omitted: list[str]) -> Plan:
        """Apply the change to `plan`; what the user changed since `base` takes precedence.

        Descriptions of the omitted parts are appended to `omitted`.
        """
        changed = self.target if plan == self.base else self._merge_into(plan, omitted)
        return changed if self.at is None else with_change(changed, self.user_change, self.at)

    def _merge_into(self, plan: Plan, omitted: list[str]) -> Plan:
        base, target = self.base, self.target
        rows, added = _without_edited_criteria(base.acceptance_criteria, target, plan, omitted)
        old, logged = base.execution_log, target.execution_log
        merged = merge_plans(base, msgspec.structs.replace(target, acceptance_criteria=rows, execution_log=old), plan)
        omitted.extend(conflict.item or conflict.where for conflict in merged.conflicts)
        result, status = merged.plan, merged.plan.status
        criteria = (*result.acceptance_criteria, *added)
        if status is PlanStatus.COMPLETED and not all(criterion.completed for criterion in criteria):
            status = PlanStatus.IN_PROGRESS if plan.status == base.status != status else status
        entries = (*result.execution_log, *logged[len(old) :])
        return msgspec.structs.replace(result, status=status, acceptance_criteria=criteria, execution_log=entries)


def proposal(plan: Plan, change: PlanChange, now: dt.datetime) -> PendingChange:
    """Return the change that the model proposes; reworded criteria are added.

    Raises ToolError for an unknown status, or an unknown criterion that is not marked as added.
    """
    if change.status and change.status not in list(PlanStatus):
        raise ToolError(f"status must be one of {', '.join(PlanStatus)}.", "bad_arguments")
    old = plan.acceptance_criteria
    if change.replace_criteria:
        texts = [criterion.description for criterion in change.criteria]
        rows = tuple(_find(old, text) or Criterion(description=text) for text in texts)
        goal = change.goal or plan.goal
        return PendingChange(plan, msgspec.structs.replace(plan, goal=goal, acceptance_criteria=rows or old))
    for criterion in change.criteria:
        text = criterion.description
        if not criterion.added and _find(old, text) is None:
            existing = "; ".join(row.description for row in old[:30]) or "none yet: add them first"
            raise ToolError(f"The plan has no criterion {text[:100]!r}. Its criteria: {existing}.", "not_found")
    return PendingChange(plan, with_change(plan, change, now))


def accepted_change(offered: Summary, final: Summary, base: Plan, now: dt.datetime) -> PendingChange:
    """Return the change of an accepted summary, `offered` for the plan `base` and edited by the user to `final`."""
    user_change = PlanChange(
        goal=final.goal if final.goal != offered.goal else "",
        status=final.status if final.status != offered.status and final.status in list(PlanStatus) else "",
        criteria=tuple(criterion for criterion in final.criteria if criterion not in offered.criteria),
    )
    return PendingChange(base, with_summary(base, final, now), user_change, now)


def _without_edited_criteria(
    base: tuple[Criterion, ...], target: Plan, plan: Plan, omitted: list[str]
) -> tuple[tuple[Criterion, ...], tuple[Criterion, ...]]:
    """Return the target criteria without changes to those that the user edited in `plan`, and the new criteria."""
    rows = list(target.acceptance_criteria)
    ours, theirs = align(base, rows), align(base, plan.acceptance_criteria)
    for at, old in enumerate(base):
        edited = plan.acceptance_criteria[theirs[at]] if at in theirs else None
        if at in ours and rows[ours[at]] != old and edited not in (old, rows[ours[at]]):
            omitted.append(old.description)
            rows[ours[at]] = old
    existing = set(ours.values())
    added = (row for at, row in enumerate(rows) if at not in existing)
    new = (row for row in added if _find(plan.acceptance_criteria, row.description) is None)
    return tuple(rows[at] for at in sorted(existing)), tuple(new)


def describe_proposal(plan: Plan) -> str:
    """Describe the proposed plan for the model."""
    lines = ["Proposed; the user decides whether it is written. It counts for your work from now on.", ""]
    lines.append(f"Goal: {plan.goal or '(none)'} ({plan.status}, {plan.completed}/{len(plan.acceptance_criteria)})")
    lines += [f"- [{'x' if row.completed else ' '}] {row.description}" for row in plan.acceptance_criteria[:50]]
    return "\n".join(lines)


def with_summary(plan: Plan, summary: Summary, now: dt.datetime) -> Plan:
    """Return the plan with an accepted summary: log entry, met criteria, decisions, status."""
    entry = LogEntry(
        action=summary.action, details=summary.details, result=summary.result, tools=summary.tools, when=to_minute(now)
    )
    changed = with_change(plan, summary, now)
    criteria, status = changed.acceptance_criteria, changed.status
    if summary.status not in list(PlanStatus):
        if criteria and all(row.completed for row in criteria):
            status = PlanStatus.COMPLETED
        elif status in (PlanStatus.PLANNING, PlanStatus.COMPLETED):
            status = PlanStatus.IN_PROGRESS
    return msgspec.structs.replace(changed, status=status, execution_log=(*plan.execution_log, entry))


def with_change(plan: Plan, change: PlanChange | Summary, now: dt.datetime) -> Plan:
    """Return the plan with a change: goal, status, criteria, decisions."""
    when = to_minute(now)

    def dated(notes: Iterable[DecisionNote]) -> list[Decision]:
        return [Decision(**msgspec.structs.asdict(note), when=when) for note in notes]

    return msgspec.structs.replace(
        plan,
        goal=change.goal or plan.goal,
        status=PlanStatus(change.status) if change.status in list(PlanStatus) else plan.status,
        acceptance_criteria=_update_criteria(plan.acceptance_criteria, change.criteria),
        decisions_made=(*plan.decisions_made, *dated(change.decisions_made)),
        decisions_rejected=(*plan.decisions_rejected, *dated(change.decisions_rejected)),
    )


def _find(criteria: Iterable[Criterion], description: str) -> Criterion | None:
    """Return the criterion with the same wording, ignoring case, spaces and a trailing period."""

    def key(text: str) -> str:
        return " ".join(text.lower().split()).rstrip(".")

    return next((criterion for criterion in criteria if key(criterion.description) == key(description)), None)


def _update_criteria(criteria: tuple[Criterion, ...], changes: Iterable[CriterionChange]) -> tuple[Criterion, ...]:
    rows = list(criteria)
    for change in changes:
        completed, text = change.completed, change.description.strip()
        if (row := _find(rows, text)) is not None:
            notes = change.notes or row.notes
            rows[rows.index(row)] = msgspec.structs.replace(row, completed=completed, notes=notes)
        elif text:
            rows.append(Criterion(description=text, completed=completed, notes=change.notes))
    return tuple(rows)


class PlanMemory:
    """Manages the plan document of a session. Call `open` first and `close` last."""

    def __init__(
        self,
        folder: Path,
        stream: EventStream,
        approvals: Approvals,
        *,
        attended: bool,
        accept: bool = False,
        entries: int = 10,
    ) -> None:
        self.path = folder / NAME
        self._store = PlanStore(self.path)
        self._stream = stream
        self._approvals = approvals
        self._attended = attended
        self._excerpt = ExcerptCache(entries)
        self._window: Callable[[], int | None] = lambda: None
        self._proposals: list[PendingChange] = []
        """The model's pending proposals, not on disk (P6)."""
        self._accepted: list[PendingChange] = []
        """Accepted summaries that are not written yet."""
        self._unreadable: Unreadable | None = None
        """Set while the file is not a valid plan: then it is never written (P3)."""
        self._texts: dict[str, Plan] = {}
        """Hash of an emitted text → its plan."""
        self._proposed = ""
        """Hash of the last emitted proposal."""
        self._repair = Repair(self._store, stream, approvals, attended, accept)
        self.saved_copies = SavedCopies(self._store, approvals, self._merge)
        self._closing = False
        self._watching: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def open(self, last_sha256: str = "", proposal: str = "") -> None:
        """Read the document, or create it from the template, and start watching it.

        `last_sha256` is the hash of the last emitted text: only a different one is emitted again. `proposal` is the
        pending proposal of an earlier process.
        """
        stamp = file_stamp(self.path)
        try:
            if await asyncio.to_thread(self._load):
                await self._save(self._store.plan, self._store.plan, "template")
            elif self._unreadable is None:
                sha256 = sha256_of(self._store.document.text.encode())
                self._remember(sha256)
                if sha256 != last_sha256:
                    self._emit("editor" if last_sha256 else "template")
                if proposal:
                    self._restore_proposal(proposal, sha256 == last_sha256)
        except FileFault as fault:
            self._report_fault(fault)
        self._watching = asyncio.create_task(self._watch(stamp))

    def _restore_proposal(self, text: str, is_current: bool) -> None:
        """Restore the pending proposal of an earlier process, unless the plan has changed since (P6)."""
        plan, proposed = self._store.plan, parse(text)
        if is_current and not proposed.problem and proposed.plan != plan:
            self._proposals, self._proposed = [PendingChange(plan, proposed.plan)], sha256_of(text.encode())
            return
        self._notice(
            "The plan has changed since the session ended, so the pending proposal was dropped.", "plan_doc.refused"
        )
        self._stream.emit(PlanDocResolved(id=PROPOSAL, answer=Answer(verdict="withdrawn", by="session")))

    def connect(self, rewrite: Rewrite, window: Callable[[], int | None]) -> None:
        """Connect the model: `rewrite` repairs an unreadable document (P3), `window` returns the context window."""
        self._repair.rewrite, self._window = rewrite, window

    async def close(self) -> None:
        """Stop watching; copies of texts written at the last moment are saved."""
        self._closing = True
        await self.saved_copies.close()
        await end_tasks(self._watching)
        for _ in range(2):  # if the first call fails, the second one returns the saved copies
            try:
                self._report_saved_copies(await asyncio.to_thread(self._store.close))
            except FileFault as fault:
                self._report_fault(fault)
            else:
                break

    # --- reading ---

    @property
    def plan(self) -> Plan:
        """The plan including proposals, which is in effect for the model in this run."""
        plan = self._store.plan
        for change in self._proposals:
            plan = change.apply(plan, [])
        return plan

    @property
    def pending(self) -> bool:
        """True if there are pending proposals."""
        return bool(self._proposals)

    def text(self, entries: int | None = None) -> str:
        """Return the excerpt for the model (P5, H2), without proposals; empty for an empty document."""
        return self._excerpt.text(self._store.document, entries, self._window())

    def proposals(self) -> str:
        """Describe the pending proposals for the end of a request (H1); empty without any."""
        return describe_proposal(self.plan) if self.pending else ""

    # --- changing ---

    async def repair(self) -> bool:
        """Repair an unreadable document: the model proposes once per text, the user decides (P3). True if readable."""
        if self._unreadable is None:
            return True
        try:
            if await self._repair.run(self._unreadable):
                self._unreadable = None
                self._emit("repair")
        except FileFault as fault:
            self._report_fault(fault)
        return self._unreadable is None

    async def accept(self, summary: Summary, offered: Summary, since: Plan) -> bool:
        """Write an accepted summary with the proposals (W9). False if it must wait until the document is writable.

        It was `offered` for the plan `since`; the user's later edits of the document take precedence.
        """
        with contextlib.suppress(FileFault):  # reported when writing
            await self.refresh()
        self._accepted.append(accepted_change(offered, summary, since, dt.datetime.now()))
        if not (written := await self._write_pending("summary")):
            self._notice("What you accepted will be written as soon as plan_doc.md is writable.", "plan_doc.owed")
        return written

    async def settle(self, accept: bool, by: By = "review", sha256: str = "") -> bool:
        """Write or drop the proposals (P6). False if there are none, or they were not written.

        `sha256` is the hash of the proposal that the user decided on; a different one is not written.
        """
        if not self.pending:
            return False
        if sha256 and sha256 != self._proposed:
            self._notice("The proposal has changed. Review it again.", "plan_doc.refused")
            return False
        if accept and not await self._write_pending(by):
            return False
        if not accept:
            self._proposals.clear()
        if by == "user":
            answer = Answer(verdict="approve" if accept else "reject")
            self._stream.emit(PlanDocResolved(id=PROPOSAL, answer=answer))
        if not accept or self.pending:
            self._emit(by)
        return True

    async def edit(self, text: str, base: str = "") -> bool:
        """Write the user's edit of the whole text. False if it was not written.

        `base` is the sha256 of the emitted text that was edited: later changes are merged, and conflicts are asked
        about. Without it, the text replaces the current content.
        """
        edited = parse(text)
        if edited.problem:
            self._notice(f"The plan was not changed: {edited.problem}.", "plan_doc.refused")
            return False
        async with self._lock:
            since = self._texts.get(base) if base else self._store.plan
            if since is None:
                self._notice(
                    "The plan was not changed: your edit is based on an old version. Make it again.", "plan_doc.refused"
                )
                return False
            is_current = base in ("", sha256_of(self._store.document.text.encode()))
            return await self._save(edited.plan, since, "user", over=edited if is_current else None)

    def propose(self, change: PlanChange) -> str:
        """Add a proposal of the model, pending until the user decides (P6).

        Returns a description of the proposed plan. Raises ToolError for an invalid proposal.
        """
        self._proposals.append(proposal(self.plan, change, dt.datetime.now()))
        self._emit_proposal()
        return describe_proposal(self.plan)

    async def _write_pending(self, by: By, *, proposals: bool = True) -> bool:
        """Write the accepted summaries and, with `proposals`, the pending proposals."""
        omitted: list[str] = []
        async with self._lock:
            plan = since = self._store.plan
            proposed = len(self._proposals) if proposals else 0
            for change in (*self._proposals[:proposed], *self._accepted):
                plan = change.apply(plan, omitted)
            written = await self._save(plan, since, by, proposed=proposed, accepted=len(self._accepted))
        if written and omitted:
            items = ", ".join(one_line(item, 80) for item in dict.fromkeys(omitted))
            self._notice(
                f"You edited plan_doc.md in the meantime; your text was kept, and this was left out: {items}.",
                "plan_doc.kept",
            )
        return written

    async def _merge(self, plan: Plan, since: Plan, source: str) -> bool:
        async with self._lock:
            return await self._save(plan, since, "merge", source=source)

    async def _save(
        self,
        plan: Plan,
        since: Plan,
        by: By,
        *,
        over: Document | None = None,
        proposed: int = 0,
        accepted: int = 0,
        source: str = "",
    ) -> bool:
        """Write the plan, asking about conflicts; it includes this many proposals and accepted summaries.

        A started write is completed despite cancellation, so that it is always reported.
        """
        if self._unreadable is not None and not await self.repair():
            self._notice(
                "plan_doc.md can't be read, so nothing is written to it. Fix it or move it away.", "plan_doc.unread"
            )
            return False
        choices: dict[str, Choice] = {}

        async def write_shielded() -> SaveResult | SaveConflict | Unreadable:
            outcome = await asyncio.to_thread(self._store.save, plan, since, choices, over)
            if isinstance(outcome, SaveResult):
                del self._proposals[:proposed], self._accepted[:accepted]
                self._report_saved_copies(outcome.copies)
                if outcome.written or outcome.merged:
                    self._emit(by)
            return outcome

        try:
            while not isinstance(outcome := await complete_shielded(write_shielded()), SaveResult):
                if isinstance(outcome, Unreadable):
                    self._set_unreadable(outcome)
                    if not await self.repair():
                        return False
                    continue
                for conflict in outcome.conflicts:
                    choice = await choose_text(conflict, self._approvals, source) if self._attended else "both"
                    if choice is None:
                        return False
                    choices[conflict.id] = choice
        except FileFault as fault:
            self._report_fault(fault)
            return False
        return True

    # --- external changes ---

    async def _watch(self, since: FileStamp | None) -> None:
        async with contextlib.aclosing(file_changes(self.path, since)) as changes:
            async for _ in changes:
                try:
                    await self.refresh()
                    if self._accepted and self._unreadable is None:
                        await self._write_pending("summary", proposals=False)
                except FileFault as fault:
                    self._report_fault(fault)
                except Exception:
                    log.exception("plan_doc.md could not be checked")

    async def refresh(self) -> None:
        """Read external changes of the file. Raises FileFault."""
        async with self._lock:
            result = await asyncio.to_thread(self._store.refresh)
            if isinstance(result, Unreadable):
                self._set_unreadable(result)
                return
            self._unreadable = None
            self._report_saved_copies(result.copies)
            if result.changed and not result.conflicts:
                self._emit("editor")

    def _load(self) -> bool:
        """Read the file for the first time; True if it did not exist."""
        new = not self.path.exists()
        result = self._store.load()
        if isinstance(result, Unreadable):
            self._set_unreadable(result)
        return new

    def _set_unreadable(self, unreadable: Unreadable) -> None:
        previous, self._unreadable = self._unreadable, unreadable
        if previous is None or previous.sha256 != unreadable.sha256:
            self._notice(
                f"plan_doc.md is not a valid plan: {unreadable.reason}. It is left unchanged. Fix it or move it away; "
                "otherwise the model proposes a repair with your next message, and you decide.",
                "plan_doc.unread",
            )

    # --- events ---

    def _emit(self, by: By) -> None:
        """Emit the saved document, then the proposal if there is one."""
        text = self._store.document.text
        sha256 = sha256_of(text.encode())
        self._remember(sha256)
        self._stream.emit(PlanDocChanged(text=text, by=by, sha256=sha256))
        if self.pending:
            self._emit_proposal()

    def _emit_proposal(self) -> None:
        text = self._store.document.text
        try:
            text = rewrite(self.plan, self._store.document).text
        except PlanTextError:
            log.warning("a proposal can't be shown in the document as it is")
        self._proposed = sha256_of(text.encode())
        self._stream.emit(PlanDocChanged(text=text, by="review", sha256=self._proposed, pending=True))

    def _remember(self, sha256: str) -> None:
        put_bounded(self._texts, sha256, self._store.document.plan, MAX_TEXTS)

    def _notice(self, text: str, code: str) -> None:
        self._stream.emit(Notice(level="warning", text=text, code=code))

    def _report_saved_copies(self, copies: Iterable[Path]) -> None:
        for copy in copies:
            self._notice(
                f"plan_doc.md was edited while it was being written; that text is saved in {copy}.", "plan_doc.aside"
            )
            if self._attended and not self._closing:
                self.saved_copies.offer(copy)

    def _report_fault(self, fault: FileFault) -> None:
        log.warning("plan_doc.md: %s", fault)
        self._notice(f"The plan document could not be saved or read: {fault}", "plan_doc.failed")
