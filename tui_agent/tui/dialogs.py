"""Which dialog is open: requests in the order they came, and the first-run screen when no model was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tui_agent.domain import Editing
from tui_agent.events import Notice, Record
from tui_agent.tui.docking import Docking, docks
from tui_agent.view import RequestItem
from widgets.first_run import FirstRun
from widgets.modal import RequestModal
from widgets.panel import Sheet
from widgets.transcript import Transcript

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp

NO_SERVER = "server.missing"
"""Code of the notice that no model can be had."""


def _kind(request: RequestItem) -> type[RequestModal]:
    """Loaded when one of them is asked first."""
    if request.dispute is not None:
        from widgets.plan_conflict import ConflictModal

        return ConflictModal
    if isinstance(request.action, Editing):
        from widgets.edit_modal import EditModal

        return EditModal
    if request.action is None:
        from widgets.question import QuestionModal

        return QuestionModal
    from widgets.approval_modal import ApprovalModal

    return ApprovalModal


class Dialogs:
    """At most one request is asked at a time; an answer is bound to the request that it was shown for."""

    def __init__(self, app: TuiAgentApp, *, clock: Callable[[], float], stillness: float) -> None:
        self.app = app
        self._clock = clock
        self._stillness = stillness
        self.docking = Docking(app, clock=clock, stillness=stillness)
        self._decided: set[str] = set()
        self._missing = ""
        """What was tried, until the first-run screen said so."""

    def look_at(self, record: Record) -> None:
        """A record arrived; a missing server is worth a screen before the first message only."""
        event = record.event
        if not isinstance(event, Notice) or event.code != NO_SERVER or self.app.session is None:
            return
        if record.seq > self.app.session.begins and not self.app.view.tree.roots:
            self._missing = self.app.session.mask.mask(event.text)
            self.app.call_later(self.ask_next)

    def ask_next(self) -> None:
        """Show the oldest request that waits; close a dialog whose request was settled elsewhere."""
        app = self.app
        if app.session is None or app.view.seq <= app.session.begins:
            return  # what was open in a session's past is void
        self.docking.show([one for one in self._waiting if docks(one)])
        if isinstance(app.screen, Sheet) and (self._modal or self._asking):
            app.screen.dismiss()
            app.call_later(self.ask_next)
            return
        if isinstance(app.screen, RequestModal):
            if app.screen.saving or app.screen.request.id in app.view.pending:
                app.screen.look_again()
                return
            app.screen.dismiss()
        waiting = [one for one in self._waiting if not docks(one)]
        if waiting:
            self.close_first_run()
            app.screen_stack[0].query_one(Transcript).catch_up()
            app.push_screen(_kind(waiting[0])(waiting[0], clock=self._clock, stillness=self._stillness))
        elif self._missing and not app.view.busy:
            told, self._missing = self._missing, ""
            app.push_screen(FirstRun(told, clock=self._clock, stillness=self._stillness))

    @property
    def _waiting(self) -> list[RequestItem]:
        return [one for key, one in self.app.view.pending.items() if key not in self._decided]

    @property
    def _modal(self) -> bool:
        return any(not docks(one) for one in self.app.view.pending.values())

    @property
    def _asking(self) -> bool:
        return any(isinstance(screen, RequestModal) for screen in self.app.screen_stack)

    def answered(self, message: RequestModal.Answered) -> None:
        """Hand an answer on and go to the next request."""
        app = self.app
        self._decided.add(message.request)
        self.docking.decided(message.request)
        self.docking.hush()
        modal = app.screen if isinstance(app.screen, RequestModal) else None
        modal = modal if modal is not None and modal.request.id == message.request else None
        taken = app.session is not None and app.session.answer(message.request, message.answer)
        if taken and modal is not None and message.answer.verdict == "approve":
            modal.save()
            app.run_worker(self._saved(modal), exit_on_error=False)
        else:
            if modal is not None:
                modal.dismiss()
            app.call_later(self.ask_next)

    async def _saved(self, modal: RequestModal) -> None:
        """The dialog goes once its answer is on disk: what was approved begins then (FAULTS A14)."""
        if self.app.session is not None:
            await self.app.session.saved(modal.request.id)
        modal.saving = False
        if modal is self.app.screen:
            modal.dismiss()
        self.app.call_later(self.ask_next)

    def close_first_run(self) -> None:
        """It is not needed any more."""
        if isinstance(self.app.screen, FirstRun):
            self.app.screen.dismiss()
