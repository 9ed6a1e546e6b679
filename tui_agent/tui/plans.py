"""What the user wants of the plan, handed to the session: one edit after another, each made in the newest text."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from tui_agent.events import PlanDocChanged, PlanDocSettled, Record
from tui_agent.keymap import key_of
from tui_agent.tui.drafts import PLAN_FILE, Drafts
from widgets.columns import Columns
from widgets.plan_edits import Edit, ListEdit, WordEdit, edited, inverse
from widgets.plan_panel import PlanPanel, Wish

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp

HEARD = 2.0
"""Seconds that an edit waits for the one before it to come back on the stream."""
REMEMBERED = 100
"""Edits that can be undone."""


EDIT = "plan"
"""What the kept text of an edit belongs to: there is one plan in a session."""


class CannotEdit(Exception):
    """A sentence for the user: why an edit can't be made."""


def written(text: str, edit: Edit) -> str:
    """The plan document `text` after the edit, all else byte for byte. Raises CannotEdit."""
    from tui_agent.plan.markdown import parse
    from tui_agent.plan.writing import PlanTextError, write

    document = parse(text)
    if document.problem:
        raise CannotEdit(f"plan_doc.md can't be read: {document.problem}")
    plan = edited(document.plan, edit)
    if plan is None:
        raise CannotEdit("that is not in the plan any more, or another thing by now")
    try:
        return write(plan, document)
    except PlanTextError as fault:
        raise CannotEdit(str(fault)) from fault


class Plans:
    """Turns an edit of one value into the whole new text; everything else of the user's text stays as it is."""

    def __init__(self, app: TuiAgentApp) -> None:
        self.app = app
        self._alone = asyncio.Lock()
        self._heard = asyncio.Event()
        self._done: list[Edit] = []
        """What can be undone, the last one last."""
        self._drafts = Drafts(PLAN_FILE)
        self._told = ""
        """Digest of the text that the view shows: what others changed since is merged by the session."""
        self._proposed = ""
        """Digest of the proposal that the view shows: one that came after it is not taken unseen (R19.2)."""
        self._edits = 0
        """How often a text was kept."""
        self._looked = False

    def look_at(self, record: Record) -> None:
        """A record arrived."""
        if isinstance(record.event, PlanDocChanged | PlanDocSettled):
            self._heard.set()
            if isinstance(record.event, PlanDocChanged):
                if record.event.pending:
                    self._proposed = record.event.sha256
                else:
                    self._told = record.event.sha256
            if not self._looked:
                self._looked = True
                self._guarded(self._take_up())

    def take(self, message: PlanPanel.Said) -> None:
        """The panel said what the user wants."""
        if message.hint:
            self.app.hints.say(message.hint)
        if message.wish is not None:
            self.do(message.wish)
        if message.draft is not None:
            self._guarded(self._keep(message.draft))

    def do(self, wish: Wish) -> None:
        """Do it behind the screen; a failure ends the screen in order."""

        async def alone() -> None:
            async with self._alone:
                await self._do(wish)

        self._guarded(alone())

    def _guarded(self, job: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await job
            except Exception as error:  # the last net, as in the app
                self.app.fail(error)

        self.app.run_worker(guarded(), exit_on_error=False)

    async def _keep(self, draft: dict[str, Any]) -> None:
        """An edit in progress survives a crash; one that is done is dropped once the session has it."""
        session = self.app.session
        if session is None:
            return
        if draft:
            self._edits += 1
            await self._drafts.keep(session.id, draft, EDIT)
            return
        before = self._edits
        async with self._alone:
            if before == self._edits:  # no other edit was begun meanwhile
                await self._drafts.drop(session.id)

    async def _take_up(self) -> None:
        """Offer what was typed before a crash."""
        from widgets.plan_draft import restored

        session = self.app.session
        kept = None if session is None else await self._drafts.find(session.id, EDIT)
        draft = restored(kept) if kept is not None else None
        if draft is not None and self.app.query_one(Columns).plan.take_up(draft):
            self.app.hints.say(f"an edit of the plan is not finished · {key_of('plan')} goes on with it")

    def set_status(self, status: str) -> None:
        """How the work as a whole stands, as the user sees it."""
        reading = self.app.query_one(Columns).plan.reading
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
            elif await self._edit(inverse(self._done.pop())):
                self.app.hints.say("undone")
        elif self.app.view.plan.proposal is None:
            self.app.hints.say("nothing is proposed")
        else:
            await self._ask("settle_plan", wish == "accept", self._proposed)

    async def _edit(self, edit: Edit) -> bool:
        """True when the session took it."""
        try:
            plan, base = self.app.view.plan, self._told
            text = await asyncio.to_thread(written, plan.exact or plan.text, edit)
        except CannotEdit as fault:
            self.app.hints.say(str(fault))
        else:
            if await self._ask("edit_plan", text, base):
                return True
        self.app.query_one(Columns).plan.show(self.app.view.plan, anew=True)
        return False

    async def _ask(self, name: str, *arguments: Any) -> bool:
        """Call a method of the session that not every session has, and wait until its effect is in the view."""
        method: Callable[..., Any] | None = getattr(self.app.session, name, None)
        if method is None:
            self.app.hints.say("the plan of this session can't be changed here")
            return False
        self._heard.clear()
        result = method(*arguments)
        if isawaitable(result):
            result = await result
        if result is False:
            return False
        with contextlib.suppress(TimeoutError):  # nothing changed, or saving waits for somebody
            await asyncio.wait_for(self._heard.wait(), HEARD)
        return True
