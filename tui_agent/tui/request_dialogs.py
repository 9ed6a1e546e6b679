"""Which request is open: in a dialog, or in the panel between transcript and composer; and the first-run screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from textual.containers import Vertical

from tui_agent.common.domain import Answer, EditAction
from tui_agent.events import Notice, Record
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.edit_drafts import EditDraftStore, offered_data
from tui_agent.view.items import RequestItem
from widgets.first_run import FirstRun
from widgets.panel import Sheet
from widgets.request_view import RequestModal, RequestPanel


def in_panel(request: RequestItem) -> bool:
    """True for what is decided in the panel and not in a dialog."""
    return request.proposal is not None or request.offer is not None


class RequestDock:
    """Opens and closes the panel between transcript and composer, and saves what is edited there."""

    def __init__(
        self, app: BaseApp, decide: Callable[[str, Answer], object], *, clock: Callable[[], float], stillness: float
    ) -> None:
        self.app = app
        self.container = Vertical(id="dock")
        self.container.display = False
        self._clock = clock
        self._stillness = stillness
        self._decide = decide
        self._drafts = EditDraftStore()
        self._shown = ""
        """Id of the request that is shown, or about to be."""

    @property
    def widget(self) -> RequestPanel | None:
        """The open request's widget."""
        docked = (one for one in self.container.children if isinstance(one, RequestPanel))
        return next((one for one in docked if not one.leaving), None)

    @property
    def typing(self) -> bool:
        """True while one of its fields has the focus."""
        widget = self.widget
        return widget is not None and widget.has_focus_within and not widget.has_focus

    def show(self, waiting: Sequence[RequestItem]) -> None:
        """Show the oldest of these; close what was settled elsewhere."""
        ids = [one.id for one in waiting]
        if self._shown in ids:
            return
        self.close()
        if waiting:
            self._shown = ids[0]
            self.app.run_worker(self._open(waiting[0]), exit_on_error=False)

    async def _open(self, request: RequestItem) -> None:
        session = self.app.session
        draft = None if session is None else await self._drafts.find(session.id, request.id, offered_data(request))
        if self._shown != request.id:
            return
        from widgets.plan_review import PlanReview  # not before one of them is needed
        from widgets.summary_editor import SummaryEditor

        kind = PlanReview if request.proposal is not None else SummaryEditor
        widget = kind(
            request, clock=self._clock, stillness=self._stillness, draft=draft, keep=partial(self._save_draft, request)
        )
        widget.decide = self._decide
        self.container.display = True
        await self.container.mount(widget)

    def _save_draft(self, request: RequestItem, draft: dict[str, Any]) -> None:
        if self.app.session is not None:
            self._drafts.save(self.app.session.id, draft, request.id, offered_data(request))

    def save_draft_now(self) -> None:
        """Write what is edited: the program is about to end."""
        if self.widget is not None:
            self.widget.keep_last()
            self._drafts.wait()

    def close(self) -> None:
        """Make room; the focus goes back to the composer if it was here."""
        self._shown = ""
        widget = self.widget
        if widget is None:
            return
        focused = widget.has_focus_within
        self.container.display = False
        widget.remove()
        if focused:
            self.app.screen_stack[0].set_focus(self.app.prompt)

    def hush(self) -> None:
        """A dialog over it is gone: what is typed on is not meant for it."""
        if self.widget is not None:
            self.widget.hush()

    def decided(self, request: str) -> None:
        """The user decided; its draft is no longer needed."""
        if request == self._shown and self.app.session is not None:
            self._drafts.drop(self.app.session.id)


NO_SERVER = "server.missing"
"""Code of the notice that no model can be had."""


def _kind(request: RequestItem) -> type[RequestModal]:
    """Loaded when one of them is asked first."""
    if request.dispute is not None:
        from widgets.plan_conflict import ConflictModal

        return ConflictModal
    if isinstance(request.action, EditAction):
        from widgets.approval_modal import EditModal

        return EditModal
    if request.action is None:
        from widgets.question import QuestionModal

        return QuestionModal
    from widgets.approval_modal import ApprovalModal

    return ApprovalModal


class RequestDialogs:
    """At most one request is asked at a time; an answer is bound to the request that it was shown for."""

    def __init__(self, app: BaseApp, *, clock: Callable[[], float], stillness: float) -> None:
        self.app = app
        self._clock = clock
        self._stillness = stillness
        self.dock = RequestDock(app, self.answer, clock=clock, stillness=stillness)
        self._decided: set[str] = set()
        self._missing = ""
        """What was tried, until the first-run screen shows it."""

    def on_notice(self, record: Record) -> None:
        """A missing server is worth a screen before the first message only."""
        session, event = self.app.session, record.event
        if not isinstance(event, Notice) or event.code != NO_SERVER or session is None:
            return
        if record.seq > session.begins and not self.app.view.tree.roots:
            self._missing = session.mask.mask(event.text)
            self.app.call_later(self.ask_next)

    def ask_next(self) -> None:
        """Show the oldest request that waits; close a dialog whose request was settled elsewhere."""
        app = self.app
        if app.session is None or app.view.seq <= app.session.begins:
            return  # what was open in a session's past is void
        self.dock.show([one for one in self._waiting if in_panel(one)])
        waits = any(not in_panel(one) for one in app.view.pending.values())
        if isinstance(app.screen, Sheet) and (waits or any(isinstance(one, RequestModal) for one in app.screen_stack)):
            app.screen.dismiss()
            app.call_later(self.ask_next)
            return
        if isinstance(app.screen, RequestModal):
            if app.screen.saving or app.screen.request.id in app.view.pending:
                app.screen.look_again()
                return
            app.screen.dismiss()
        waiting = [one for one in self._waiting if not in_panel(one)]
        if waiting:
            self.close_first_run()
            app.transcript.catch_up()
            modal = _kind(waiting[0])(waiting[0], clock=self._clock, stillness=self._stillness)
            modal.decide = self.answer
            app.push_screen(modal)
        elif self._missing and not app.view.busy:
            told, self._missing = self._missing, ""
            app.push_screen(FirstRun(told, clock=self._clock, stillness=self._stillness))

    @property
    def _waiting(self) -> list[RequestItem]:
        return [one for key, one in self.app.view.pending.items() if key not in self._decided]

    def answer(self, request: str, answer: Answer) -> None:
        """Hand an answer on and go to the next request. The first answer wins; the record of it comes back on the
        stream."""
        app = self.app
        self._decided.add(request)
        self.dock.decided(request)
        self.dock.hush()
        modal = app.screen if isinstance(app.screen, RequestModal) and app.screen.request.id == request else None
        taken = app.session is not None and app.session.answer(request, answer)
        if taken and modal is not None and answer.verdict == "approve":
            modal.save()
            app.run_worker(self._saved(modal), exit_on_error=False)
        else:
            if modal is not None:
                modal.dismiss()
            app.call_later(self.ask_next)

    async def _saved(self, modal: RequestModal) -> None:
        """Close the dialog once its answer is on disk: the approved action starts then."""
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
