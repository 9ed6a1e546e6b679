"""Saved copies of the plan document, which was edited while it was being replaced: offered for merging (P3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from tui_agent.common.domain import Answer
from tui_agent.engine.core.approvals import Approvals
from tui_agent.engine.core.shielded import end_tasks
from tui_agent.events import Event, PlanDocChanged, QuestionAnswered, QuestionAsked
from tui_agent.plan.document import Plan
from tui_agent.plan.markdown import Document, parse
from tui_agent.plan.merge import merge_plans
from tui_agent.plan.store import CAP, PlanStore
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file
from tui_agent.storage.folder import JOURNAL
from tui_agent.storage.journal import JournalReader
from tui_agent.storage.lines import JournalLine
from tui_agent.text import pluralize

log = logging.getLogger(__name__)

MERGE, LEAVE = "Merge it", "Leave it"
"""Options of the question about a saved copy."""
MAX_REMEMBERED = 50
"""Saved copies whose state is remembered."""
DECIDED, MERGING = "", "merging"

SavePlan = Callable[[Plan, Plan, str], Awaitable[bool]]
"""Saves a plan, given the plan it was derived from and a description of its origin for questions."""


def fold_saved_copies(copies: dict[str, str], event: Event) -> dict[str, str]:
    """Return the state of each saved copy, by name, after `event`.

    The state is `DECIDED`, `MERGING` until the merge is written, or the id of the open question.
    """
    match event:
        case QuestionAsked(id=request, about=name) if name:
            others = [(other, state) for other, state in copies.items() if other != name]
            return dict([*others, (name, request)][-MAX_REMEMBERED:])
        case QuestionAnswered(id=request, answer=answer) if request in copies.values():
            if answer.verdict == "withdrawn":
                return {name: value for name, value in copies.items() if value != request}
            state = MERGING if _accepts_merge(answer) else DECIDED
            return {name: state if value == request else value for name, value in copies.items()}
        case PlanDocChanged(by="merge"):
            return {name: DECIDED if value == MERGING else value for name, value in copies.items()}
    return copies


class SavedCopies(msgspec.Struct):
    """Offers the saved copies of a session one after another."""

    store: PlanStore
    approvals: Approvals
    save: SavePlan
    _queue: list[Path] = []
    _task: asyncio.Task[None] | None = None

    def offer(self, path: Path) -> None:
        """Ask in the background whether to merge this copy, unless it has nothing new."""
        self._queue = [*self._queue, path]
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._offer_all())

    async def offer_undecided(self, states: dict[str, str]) -> None:
        """Offer the copies from earlier processes that are undecided according to `fold_saved_copies`."""
        for path in await asyncio.to_thread(_undecided, self.store.path, states):
            self.offer(path)

    async def close(self) -> None:
        """Stop asking."""
        await end_tasks(self._task)

    async def _offer_all(self) -> None:
        while self._queue:
            path, *self._queue = self._queue
            try:
                await self._offer(path)
            except FileFault as fault:
                log.warning("%s could not be merged: %s", path, fault)
            except Exception:
                log.exception("%s could not be merged", path)

    async def _offer(self, path: Path) -> None:
        document = await asyncio.to_thread(_read, path)
        if document is None or document.problem:
            return
        base = self.store.plan_of_version(document.plan.version)
        if base is None:  # the copy is based on a version from an earlier process
            journal = self.store.path.with_name(JOURNAL)
            base = await asyncio.to_thread(_journaled_plan, journal, document.plan.version) or Plan()
        merged = merge_plans(base, document.plan, self.store.plan)
        new_lines = [line for line in document.lines if line.strip() and line not in self.store.document.lines]
        if not merged.conflicts and merged.plan.content == self.store.plan.content:
            return
        text = (
            f"Your edits to plan_doc.md, saved while the agent was writing it, are in {path}. This copy differs in "
            f"{pluralize(len(new_lines), 'line')}. Merge its goal, criteria, decisions and log into the plan? Your own "
            "notes stay only in the copy."
        )
        answer = await self.approvals.question(
            text, (MERGE, LEAVE), run="", node="", about=path.name, otherwise="leaves the copy as it is"
        )
        if _accepts_merge(answer):
            await self.save(document.plan, base, path.name)


def _accepts_merge(answer: Answer) -> bool:
    return answer.verdict == "reply" and answer.text.strip().casefold() in (MERGE.casefold(), "yes", "merge")


def _undecided(plan: Path, states: dict[str, str]) -> list[Path]:
    """Return the undecided copies next to the plan document, oldest first."""
    copies = plan.parent.glob(f"{plan.stem}.aside-*{plan.suffix}")
    return sorted(copy for copy in copies if states.get(copy.name) != DECIDED and copy.is_file())


def _journaled_plan(journal: Path, version: int) -> Plan | None:
    """Return the last plan with that version in the journal of a session, or None."""
    last = None
    for line in JournalReader(journal):
        if not isinstance(line, JournalLine) or line.type != PlanDocChanged.type:
            continue
        event = line.record().event
        if isinstance(event, PlanDocChanged) and not event.pending:
            plan = parse(event.text).plan
            last = plan if plan.version == version else last
    return last


def _read(path: Path) -> Document | None:
    try:
        return parse(read_file(path, CAP).data.decode("utf-8"))
    except UnicodeDecodeError:
        return None
