"""The user's edits of the plan, handed to the session one after another, each made in the newest text."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

from tui_agent.events import PlanDocChanged, Record
from tui_agent.keys.keymap import key_of
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.edit_drafts import PLAN_FILE, EditDraftStore
from widgets.plan_document import Edit, ListEdit, WordEdit, apply_edit, inverse_edit
from widgets.plan_panel import PlanPanel, Wish

HEARD = 2.0
"""Seconds that an edit waits for the one before it to come back on the stream."""
REMEMBERED = 100
"""Edits that can be undone."""


EDIT = "plan"
"""Key of a saved edit: there is one plan in a session."""


class PlanEditError(Exception):
    """A sentence for the user: why an edit can't be made."""


def edited_plan(text: str, edit: Edit) -> str:
    """The plan document `text` after the edit, all else byte for byte. Raises PlanEditError."""
    from tui_agent.plan.markdown import parse
    from tui_agent.plan.writing import PlanTextError, write

    document = parse(text)
    if document.problem:
        raise PlanEditError(f"plan_doc.md can't be read: {document.problem}")
    plan = apply_edit(document.plan, edit)
    if plan is None:
        raise PlanEditError("the plan changed in the meantime; try again")
    try:
        return write(plan, document)
    except PlanTextError as fault:
        raise PlanEditError(str(fault)) from fault


class PlanEdits:
    """Turns an edit of one value into the whole new text; everything else of the user's text stays as it is."""

    def __init__(self, app: BaseApp) -> None:
        self.app = app
        self._alone = asyncio.Lock()
        self._heard = asyncio.Event()
        self._done: list[Edit] = []
        """What can be undone, the last one last."""
        self._drafts = EditDraftStore(PLAN_FILE)
        self._base = ""
        """Digest of the text that the view shows: what others changed since is merged by the session."""
        self._proposed = ""
        """Digest of the proposal that the view shows: a later one is not accepted unseen."""
        self._edits = 0
        """How often a text was saved."""
        self._looked = False

    def on_plan_doc(self, record: Record) -> None:
        """The plan document changed, or a proposal was decided."""
        self._heard.set()
        if isinstance(record.event, PlanDocChanged):
            if record.event.pending:
                self._proposed = record.event.sha256
            else:
                self._base = record.event.sha256
        if not self._looked:
            self._looked = True
            self.app.work(self._restore_draft)

    def take(self, message: PlanPanel.Said) -> None:
        """A message of the plan panel."""
        if message.hint:
            self.app.hints.say(message.hint)
        if message.wish is not None:
            self.do(message.wish)
        if message.draft is not None:
            self.app.work(self._keep, message.draft)

    def do(self, wish: Wish) -> None:
        """Do it in the background, after earlier wishes."""

        async def alone() -> None:
            async with self._alone:
                await self._do(wish)

        self.app.work(alone)

    async def _keep(self, draft: dict[str, Any]) -> None:
        """An edit in progress survives a crash; one that is done is dropped once the session has it."""
        session = self.app.session
        if session is None:
            return
        if draft:
            self._edits += 1
            self._drafts.save(session.id, draft, EDIT)
            return
        before = self._edits
        async with self._alone:
            if before == self._edits:  # no other edit was begun meanwhile
                self._drafts.drop(session.id)

    async def _restore_draft(self) -> None:
        """Offer what was typed before a crash."""
        from widgets.plan_document import restore_draft

        session = self.app.session
        kept = None if session is None else await self._drafts.find(session.id, EDIT)
        draft = restore_draft(kept) if kept is not None else None
        if draft is not None and self.app.columns.plan.take_up(draft):
            self.app.hints.say(f"you have an unfinished plan edit · {key_of('plan')} continues it")

    def set_status(self, status: str) -> None:
        """Set the status of the whole plan."""
        reading = self.app.columns.plan.reading
        if reading is None:
            self.app.hints.say("this session has no plan")
        else:
            self.do(WordEdit("status", str(reading.saved.status), status))

    async def _do(self, wish: Wish) -> None:
        if isinstance(wish, ListEdit | WordEdit):
            if await self._edit(wish):
                self._done = [*self._done[1 - REMEMBERED :], wish]
        elif wish == "undo":
            if not self._done:
                self.app.hints.say("nothing to undo in the plan")
            elif await self._edit(inverse_edit(self._done.pop())):
                self.app.hints.say("undone")
        elif (session := self.app.session) is None or self.app.view.plan.proposal is None:
            self.app.hints.say("no proposal")
        else:
            await self._ask(session.settle_plan(wish == "accept", self._proposed))

    async def _edit(self, edit: Edit) -> bool:
        """True when the session took it."""
        session = self.app.session
        try:
            plan, base = self.app.view.plan, self._base
            text = await asyncio.to_thread(edited_plan, plan.exact or plan.text, edit)
        except PlanEditError as fault:
            self.app.hints.say(str(fault))
        else:
            if session is not None and await self._ask(session.edit_plan(text, base)):
                return True
        self.app.columns.plan.show(self.app.view.plan, anew=True)
        return False

    async def _ask(self, change: Awaitable[bool]) -> bool:
        """Have the session change its plan, and wait until that is in the view."""
        self._heard.clear()
        if not await change:
            return False
        with contextlib.suppress(TimeoutError):  # nothing changed, or saving waits for somebody
            await asyncio.wait_for(self._heard.wait(), HEARD)
        return True
