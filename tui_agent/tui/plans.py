"""The user's edits of the plan document, made one at a time in its newest text."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any

from tui_agent.events import PlanDocChanged, Record
from tui_agent.keys.keymap import key_of
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.edit_drafts import PLAN_FILE, EditDraftStore
from widgets.plan_document import Edit, FieldEdit, ListEdit, apply_edit, inverse_edit
from widgets.plan_panel import PlanChange, PlanPanel

ECHO_TIMEOUT = 2.0
"""Seconds to wait until an edit comes back on the stream."""
UNDO_LIMIT = 100
"""Number of edits that can be undone."""
DRAFT_KEY = "plan"


class PlanEditError(Exception):
    """An edit is impossible; the message tells the user why."""


def edited_plan(text: str, edit: Edit) -> str:
    """Return the plan document `text` with the edit; everything else stays byte for byte. Raises PlanEditError."""
    from tui_agent.plan.markdown import parse
    from tui_agent.plan.writing import PlanTextError, rewrite

    document = parse(text)
    if document.problem:
        raise PlanEditError(f"plan_doc.md can't be read: {document.problem}")
    plan = apply_edit(document.plan, edit)
    if plan is None:
        raise PlanEditError("the plan changed in the meantime; try again")
    try:
        return rewrite(plan, document).text
    except PlanTextError as fault:
        raise PlanEditError(str(fault)) from fault


class PlanEdits:
    """Applies changes of the plan panel in order, and saves an unfinished edit as a draft."""

    def __init__(self, app: BaseApp) -> None:
        self.app = app
        self._lock = asyncio.Lock()
        self._plan_changed = asyncio.Event()
        self._undo_stack: list[Edit] = []
        self._drafts = EditDraftStore(PLAN_FILE)
        self._text_digest = ""
        """Digest of the text in the view; the session merges later changes of others."""
        self._proposal_digest = ""
        """Digest of the proposal in the view: a later one must not be accepted unseen."""
        self._draft_saves = 0
        self._draft_restored = False

    def on_plan_doc(self, record: Record) -> None:
        """Note that the plan document changed or a proposal was decided; restore the draft with the first record."""
        self._plan_changed.set()
        if isinstance(record.event, PlanDocChanged):
            if record.event.pending:
                self._proposal_digest = record.event.sha256
            else:
                self._text_digest = record.event.sha256
        if not self._draft_restored:
            self._draft_restored = True
            self.app.work(self._restore_draft)

    def on_panel_message(self, message: PlanPanel.Update) -> None:
        """Show the hint, carry out the change and save the draft of a message from the plan panel."""
        if message.hint:
            self.app.hints.show(message.hint)
        if message.change is not None:
            self.enqueue(message.change)
        if message.draft is not None:
            self.app.work(self._save_draft, message.draft)

    def enqueue(self, change: PlanChange) -> None:
        """Carry out a change in the background, after earlier ones."""

        async def run_in_turn() -> None:
            async with self._lock:
                await self._carry_out(change)

        self.app.work(run_in_turn)

    async def _save_draft(self, draft: dict[str, Any]) -> None:
        """Save an unfinished edit; an empty `draft` deletes it once the session has the finished one."""
        session = self.app.session
        if session is None:
            return
        if draft:
            self._draft_saves += 1
            self._drafts.save(session.id, draft, DRAFT_KEY)
            return
        saves = self._draft_saves
        async with self._lock:
            if saves == self._draft_saves:  # no other edit has started since
                self._drafts.delete(session.id)

    async def _restore_draft(self) -> None:
        """Offer the unfinished edit of an earlier process."""
        from widgets.plan_document import restore_draft

        session = self.app.session
        saved = None if session is None else await self._drafts.load(session.id, DRAFT_KEY)
        draft = restore_draft(saved) if saved is not None else None
        if draft is not None and self.app.columns.plan.restore(draft):
            self.app.hints.show(f"you have an unfinished plan edit · {key_of('plan')} continues it")

    def set_status(self, status: str) -> None:
        """Set the status of the whole plan."""
        content = self.app.columns.plan.content
        if content is None:
            self.app.hints.show("this session has no plan")
        else:
            self.enqueue(FieldEdit("status", str(content.saved.status), status))

    async def _carry_out(self, change: PlanChange) -> None:
        if isinstance(change, ListEdit | FieldEdit):
            if await self._edit(change):
                self._undo_stack = [*self._undo_stack[1 - UNDO_LIMIT :], change]
        elif change == "undo":
            if not self._undo_stack:
                self.app.hints.show("nothing to undo in the plan")
            elif await self._edit(inverse_edit(self._undo_stack.pop())):
                self.app.hints.show("undone")
        elif (session := self.app.session) is None or self.app.view.plan.proposal is None:
            self.app.hints.show("no proposal")
        else:
            await self._apply(session.settle_plan(change == "accept", self._proposal_digest))

    async def _edit(self, edit: Edit) -> bool:
        """Have the session make an edit; return False, and tell the user, if it can't."""
        session = self.app.session
        try:
            plan, base = self.app.view.plan, self._text_digest
            text = await asyncio.to_thread(edited_plan, plan.exact_text or plan.text, edit)
        except PlanEditError as fault:
            self.app.hints.show(str(fault))
        else:
            if session is not None and await self._apply(session.edit_plan(text, base)):
                return True
        self.app.columns.plan.show(self.app.view.plan, force=True)
        return False

    async def _apply(self, change: Awaitable[bool]) -> bool:
        """Wait until the session has changed the plan and the view shows it."""
        self._plan_changed.clear()
        if not await change:
            return False
        with contextlib.suppress(TimeoutError):  # nothing changed, or a conflict waits for the user
            await asyncio.wait_for(self._plan_changed.wait(), ECHO_TIMEOUT)
        return True
