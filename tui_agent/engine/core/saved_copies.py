"""Texts of plan_doc.md that were kept aside because somebody wrote them while it was replaced: offered for merging."""

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

log = logging.getLogger(__name__)

MERGE, LEAVE = "Merge it", "Leave it"
"""The answers to the question what shall become of such a text."""
REMEMBERED = 50
"""Texts of which it is remembered what was decided."""
DECIDED, MERGING = "", "merging"

Save = Callable[[Plan, Plan, str], Awaitable[bool]]
"""Save a plan that somebody made from another one; the words say where it comes from, for questions."""


def folded(copies: dict[str, str], event: Event) -> dict[str, str]:
    """What is known of each text, by its name, after `event`: `DECIDED`, `MERGING` while that is not written yet, or
    the id of the question about it. One whose question nobody answered is none of them."""
    match event:
        case QuestionAsked(id=request, about=name) if name:
            rest = [(key, value) for key, value in copies.items() if key != name]
            return dict([*rest, (name, request)][-REMEMBERED:])
        case QuestionAnswered(id=request, answer=answer) if request in copies.values():
            if answer.verdict == "withdrawn":
                return {name: value for name, value in copies.items() if value != request}
            became = MERGING if _merges(answer) else DECIDED
            return {name: became if value == request else value for name, value in copies.items()}
        case PlanDocChanged(by="merge"):
            return {name: DECIDED if value == MERGING else value for name, value in copies.items()}
    return copies


class SavedCopies(msgspec.Struct):
    """Offers the texts of one session, one after the other."""

    store: PlanStore
    approvals: Approvals
    save: Save
    _waiting: list[Path] = []
    _task: asyncio.Task[None] | None = None

    def offer(self, place: Path) -> None:
        """Ask, behind what goes on, whether that text shall be merged; not where it holds nothing new."""
        self._waiting = [*self._waiting, place]
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._offer_all())

    async def again(self, known: dict[str, str]) -> None:
        """Offer those that lie here since the session was open before and that nobody decided about, by `folded`."""
        there = await asyncio.to_thread(_undecided, self.store.path, known)
        for place in there:
            self.offer(place)

    async def close(self) -> None:
        """Ask no more."""
        await end_tasks(self._task)

    async def _offer_all(self) -> None:
        while self._waiting:
            place, *self._waiting = self._waiting
            try:
                await self._offer(place)
            except FileFault as fault:
                log.warning("%s could not be merged: %s", place, fault)
            except Exception:
                log.exception("%s could not be merged", place)

    async def _offer(self, place: Path) -> None:
        document = await asyncio.to_thread(_read, place)
        if document is None or document.problem:
            return
        base = self.store.known(document.plan.version)
        if base is None:  # it was written for a plan of an earlier start
            journal = self.store.path.with_name(JOURNAL)
            base = await asyncio.to_thread(_told, journal, document.plan.version) or Plan()
        new = merge_plans(base, document.plan, self.store.plan)
        notes = [one for one in document.lines if one.strip() and one not in self.store.document.lines]
        if not new.conflicts and new.plan.content == self.store.plan.content:
            return
        text = (
            f"Your edits to plan_doc.md, saved while the agent was writing it, are in {place}. This copy differs in "
            f"{len(notes)} {'line' if len(notes) == 1 else 'lines'}. Merge its goal, criteria, decisions and log into "
            "the plan? Your own notes stay only in the copy."
        )
        answer = await self.approvals.question(text, (MERGE, LEAVE), run="", node="", about=place.name)
        if _merges(answer):
            await self.save(document.plan, base, place.name)


def _merges(answer: Answer) -> bool:
    return answer.verdict == "reply" and answer.text.strip().casefold() in (MERGE.casefold(), "yes", "merge")


def _undecided(plan: Path, known: dict[str, str]) -> list[Path]:
    """The texts beside the plan's, the oldest first, that are not decided about."""
    there = plan.parent.glob(f"{plan.stem}.aside-*{plan.suffix}")
    return sorted(one for one in there if known.get(one.name) != DECIDED and one.is_file())


def _told(journal: Path, version: int) -> Plan | None:
    """The plan of that version as it was told last, by the journal of a session; None when it never was."""
    found = None
    for line in JournalReader(journal):
        if not isinstance(line, JournalLine) or line.type != PlanDocChanged.type:
            continue
        event = line.record().event
        if isinstance(event, PlanDocChanged) and not event.pending:
            plan = parse(event.text).plan
            found = plan if plan.version == version else found
    return found


def _read(place: Path) -> Document | None:
    try:
        return parse(read_file(place, CAP).data.decode("utf-8"))
    except UnicodeDecodeError:
        return None
