"""Texts of plan_doc.md that were kept aside because somebody wrote them while it was replaced: offered for merging."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from tui_agent.engine.approvals import Approvals
from tui_agent.plan.document import Plan
from tui_agent.plan.markdown import Document, parse
from tui_agent.plan.merge import merge
from tui_agent.plan.store import CAP, PlanStore
from tui_agent.platform.files import FileFault, read_file

log = logging.getLogger(__name__)

MERGE, LEAVE = "Merge it", "Leave it"
"""The answers to the question what shall become of such a text."""

Save = Callable[[Plan, Plan, str], Awaitable[bool]]
"""Save a plan that somebody made from another one; the words say where it comes from, for questions."""


class Asides(msgspec.Struct):
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

    async def close(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

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
        base = self.store.known(document.plan.version) or Plan()
        new = merge(base, document.plan, self.store.plan)
        notes = [one for one in document.lines if one.strip() and one not in self.store.document.lines]
        if not new.conflicts and _content(new.plan) == _content(self.store.plan):
            return
        text = (
            f"What you saved to plan_doc.md while it was being written is kept in {place}. It differs in "
            f"{len(notes)} {'line' if len(notes) == 1 else 'lines'}. Merge its goal, criteria, decisions and log into "
            "the plan? Notes of your own stay in the copy only."
        )
        answer = await self.approvals.question(text, (MERGE, LEAVE), run="", node="")
        if answer.verdict == "reply" and answer.text.strip().casefold() in (MERGE.casefold(), "yes", "merge"):
            await self.save(document.plan, base, place.name)


def _read(place: Path) -> Document | None:
    try:
        return parse(read_file(place, CAP).data.decode("utf-8"))
    except UnicodeDecodeError:
        return None


def _content(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, version=0, updated_at=0)
