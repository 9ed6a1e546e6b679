"""What the user wants of the plan, handed to the session: one edit after another, each made in the newest text."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from tui_agent.events import PlanDocChanged, PlanDocSettled, Record
from widgets.columns import Columns
from widgets.plan_edits import Edit, ListEdit, WordEdit, edited, inverse
from widgets.plan_panel import PlanPanel, Wish

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp

HEARD = 2.0
"""Seconds that an edit waits for the one before it to come back on the stream."""
REMEMBERED = 100
"""Edits that can be undone."""


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

    def look_at(self, record: Record) -> None:
        """A record arrived."""
        if isinstance(record.event, PlanDocChanged | PlanDocSettled):
            self._heard.set()

    def take(self, message: PlanPanel.Said) -> None:
        """The panel said what the user wants."""
        if message.hint:
            self.app.hints.say(message.hint)
        if message.wish is not None:
            self.do(message.wish)

    def do(self, wish: Wish) -> None:
        """Do it behind the screen; a failure ends the screen in order."""

        async def guarded() -> None:
            try:
                async with self._alone:
                    await self._do(wish)
            except Exception as error:  # the last net, as in the app
                self.app.fail(error)

        self.app.run_worker(guarded(), exit_on_error=False)

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
            await self._ask("settle_plan", wish == "accept")

    async def _edit(self, edit: Edit) -> bool:
        """True when the session took it."""
        try:
            text = await asyncio.to_thread(written, self.app.view.plan.text, edit)
        except CannotEdit as fault:
            self.app.hints.say(str(fault))
        else:
            if await self._ask("edit_plan", text):
                return True
        self.app.query_one(Columns).plan.show(self.app.view.plan, anew=True)
        return False

    async def _ask(self, name: str, argument: Any) -> bool:
        """Call a method of the session that not every session has, and wait until its effect is in the view."""
        method: Callable[[Any], Any] | None = getattr(self.app.session, name, None)
        if method is None:
            self.app.hints.say("the plan of this session can't be changed here")
            return False
        self._heard.clear()
        result = method(argument)
        if isawaitable(result):
            result = await result
        if result is False:
            return False
        with contextlib.suppress(TimeoutError):  # nothing changed, or saving waits for somebody
            await asyncio.wait_for(self._heard.wait(), HEARD)
        return True
