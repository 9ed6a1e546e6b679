"""Opens pending requests, in a dialog or in the panel above the composer, and the first-run screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget

from tui_agent.common.domain import Answer, EditAction
from tui_agent.events import SERVER_MISSING, Notice, Record
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.edit_drafts import EditDraftStore, proposed_content
from tui_agent.view.items import RequestItem
from widgets.first_run import FirstRun
from widgets.panel import Sheet
from widgets.request_view import GuardedModal, RequestModal, RequestPanel
from widgets.textual_private import is_being_removed

if TYPE_CHECKING:
    from tui_agent.engine.api import SessionApi

ASIDE = "aside"
"""Name of the dialog that is set aside among the installed screens."""


def opens_in_panel(request: RequestItem) -> bool:
    """Return True for plans and summaries, which are reviewed in the panel instead of a dialog."""
    return request.proposal is not None or request.summary is not None


class RequestDock:
    """Shows one plan or summary above the composer and saves the user's edits as a draft.

    The panel answers the session directly; it closes when the record of the answer arrives.
    """

    def __init__(self, app: BaseApp, *, clock: Callable[[], float], quiet_seconds: float) -> None:
        self.app = app
        self.container = Vertical(id="dock")
        self.container.display = False
        self._clock = clock
        self._quiet_seconds = quiet_seconds
        self._drafts = EditDraftStore()
        self._request: RequestItem | None = None
        """The request that is open or about to open."""
        self._is_covered = False
        """Whether a dialog is open, which has the place of the panel."""
        self._focused: Widget | None = None
        """What had the focus before."""

    @property
    def panel(self) -> RequestPanel | None:
        """The open panel."""
        panels = (child for child in self.container.children if isinstance(child, RequestPanel))
        return next((panel for panel in panels if not is_being_removed(panel)), None)

    @property
    def has_field_focus(self) -> bool:
        """True while a field of the panel has the focus."""
        panel = self.panel
        return panel is not None and panel.has_focus_within and not panel.has_focus

    def show(self, pending: Sequence[RequestItem]) -> None:
        """Open the oldest pending request, and close the panel if its request is settled."""
        if any(request is self._request for request in pending):
            return
        self._close()
        if pending:
            self._request = pending[0]
            self.app.work(self._open, pending[0])

    async def _open(self, request: RequestItem) -> None:
        session = self.app.session
        if session is None:
            return
        draft = await self._drafts.load(session.id, request.id, proposed_content(request))
        if self._request is not request:
            return
        from widgets.plan_review import PlanReview  # not before one of them is needed
        from widgets.summary_editor import SummaryEditor

        panel_class = PlanReview if request.proposal is not None else SummaryEditor
        panel = panel_class(
            request,
            clock=self._clock,
            quiet_seconds=self._quiet_seconds,
            draft=draft,
            on_draft=partial(self._save_draft, session.id, request),
        )
        panel.on_answer = partial(self._answer, session)
        self.container.display = not self._is_covered
        await self.container.mount(panel)

    def make_place(self, is_covered: bool) -> None:
        """Hide the panel while a dialog covers the screen, then show it again."""
        is_changed = is_covered is not self._is_covered
        self._is_covered = is_covered
        if not is_changed or (panel := self.panel) is None or panel.answered:
            return
        screen = self.app.screen_stack[0]
        if is_covered:
            self._focused = screen.focused  # hiding it moves the focus
        self.container.display = not is_covered
        if not is_covered:
            focused, self._focused = self._focused, None
            if focused is not None and focused.is_attached and panel in focused.ancestors_with_self:
                screen.set_focus(focused)
            elif screen.focused in (None, self.app.prompt):
                screen.set_focus(panel)

    def _answer(self, session: SessionApi, request: str, answer: Answer) -> bool:
        """Give the user's answer to the session, and show what follows from it; return whether it was the first."""
        accepted = session.answer(request, answer)
        self.app.transcript.follow()
        return accepted

    def _save_draft(self, session_id: str, request: RequestItem, draft: dict[str, Any]) -> None:
        self._drafts.save(session_id, draft, request.id, proposed_content(request))

    def save_draft_now(self) -> None:
        """Write pending edits before the program ends."""
        if self.panel is not None:
            self.panel.flush_draft()
            self._drafts.flush()

    def _close(self) -> None:
        """Remove the panel, and the draft of a request that the user decided on."""
        request, self._request = self._request, None
        answer = request.answer if request is not None else None
        if answer is not None and answer.verdict != "withdrawn" and self.app.session is not None:
            self._drafts.delete(self.app.session.id)
        if (panel := self.panel) is None:
            return
        had_focus = panel.has_focus_within
        self.container.display = False
        panel.remove()
        if had_focus:
            self.app.screen_stack[0].set_focus(self.app.prompt)

    def disarm(self) -> None:
        """Ignore keys for a moment: a dialog that covered the panel has just closed."""
        if self.panel is not None:
            self.panel.disarm()


def _modal_class(request: RequestItem) -> type[RequestModal]:
    """Import the dialog for a request when it is first needed."""
    if request.conflict is not None:
        from widgets.plan_conflict import ConflictModal

        return ConflictModal
    if isinstance(request.action, EditAction):
        from widgets.edit_modal import EditModal

        return EditModal
    if request.action is None:
        from widgets.question import ChoiceModal, QuestionModal

        return ChoiceModal if request.otherwise else QuestionModal
    from widgets.approval_modal import ApprovalModal

    return ApprovalModal


class RequestDialogs:
    """Shows at most one dialog at a time; an answer is bound to the request that it was shown for."""

    def __init__(
        self,
        app: BaseApp,
        *,
        clock: Callable[[], float],
        quiet_seconds: float,
        show_server_dialog: Callable[..., object],
    ) -> None:
        self.app = app
        self._clock = clock
        self._quiet_seconds = quiet_seconds
        self._show_server_dialog = show_server_dialog
        self.dock = RequestDock(app, clock=clock, quiet_seconds=quiet_seconds)
        self._covered_height = 0
        """Number of lines at the bottom that the open dialog covers."""
        self._aside: RequestModal | None = None
        """The dialog that makes place for the session's screen."""
        self._answered: set[str] = set()
        """Ids of answered requests, whose records may still be on their way."""
        self._missing_server = ""
        """Notice about the servers that were tried, until the first-run screen shows it."""

    def on_notice(self, record: Record) -> None:
        """Remember a missing server for the first-run screen, unless a message was sent already."""
        session, event = self.app.session, record.event
        if not isinstance(event, Notice) or event.code != SERVER_MISSING or session is None:
            return
        if record.seq > session.replay_end and not self.app.view.tree.roots:
            self._missing_server = session.mask.mask(event.text)
            self.app.call_later(self.show_next)

    def show_next(self) -> None:
        """Open the oldest pending request, and close a dialog whose request was settled elsewhere."""
        app = self.app
        if app.session is None or app.view.seq <= app.session.replay_end:
            return  # requests of an earlier process are void
        pending = list(app.view.pending.values())
        self.dock.show([request for request in pending if opens_in_panel(request)])
        for_dialog = [request for request in pending if not opens_in_panel(request)]
        if self._waits_aside():
            return
        modal = next((screen for screen in app.screen_stack if isinstance(screen, RequestModal)), None)
        is_settled = modal is not None and modal.request.id not in app.view.pending
        if isinstance(app.screen, Sheet) and (is_settled or (for_dialog and modal is None)):
            app.screen.dismiss()
            app.call_later(self.show_next)
            return
        if modal is not None and modal is not app.screen:  # under a panel that the user opened
            modal.request_updated()
            return
        if isinstance(app.screen, RequestModal):
            if app.screen.saving or app.screen.request.id in app.view.pending:
                app.screen.request_updated()
                return
            app.screen.dismiss()
        unanswered = [request for request in for_dialog if request.id not in self._answered]
        if unanswered:
            if isinstance(app.screen, FirstRun):  # it comes back after the request
                self._missing_server = app.screen.explanation
            self.close_first_run()
            app.transcript.catch_up()
            modal = _modal_class(unanswered[0])(unanswered[0], clock=self._clock, quiet_seconds=self._quiet_seconds)
            modal.on_answer = self.answer
            app.push_screen(modal)
            modal.call_after_refresh(self.show_draft)
            return
        self.cover(0)
        if self._missing_server and not app.view.busy:
            text, self._missing_server = self._missing_server, ""
            self._show_server_dialog(text, clock=self._clock, quiet_seconds=self._quiet_seconds)

    # --- the screen below ---

    @property
    def is_aside(self) -> bool:
        """Whether a dialog makes place for the session's screen."""
        return self._aside is not None

    def show_draft(self) -> None:
        """Show in the open dialog what was typed so far."""
        if isinstance(self.app.screen, GuardedModal):
            self.app.screen.show_draft(self.app.prompt.text)

    def cover(self, height: int) -> None:
        """Move the content of the session's screen up, above `height` lines that a dialog covers."""
        self._covered_height = height
        self._cover(checks=2)

    def _cover(self, checks: int) -> None:
        """Do so, and `checks` times again after the next layouts: the sizes may be those before a resize."""
        app, height = self.app, self._covered_height
        if not any(isinstance(screen, RequestModal) for screen in app.screen_stack):
            height = 0  # the dialog has been closed in the meantime
        screen, columns = app.screen_stack[0], app.columns
        bottom = max((child.region.bottom for child in screen.children if child.display), default=columns.region.bottom)
        below = bottom - columns.region.bottom
        """Lines below the content, whatever is covered."""
        padding = max(0, min(height - below, app.size.height - columns.region.y - below - 1))
        if padding != screen.styles.padding.bottom:
            screen.styles.padding = (0, 0, padding, 0)
        self.dock.make_place(height > 0)
        if checks and height:
            app.call_after_refresh(self._cover, checks - 1)

    def set_aside(self) -> None:
        """Let the session's screen have the keys; the dialog, with all that was done in it, comes back with
        `bring_back`."""
        modal = self.app.screen
        if not isinstance(modal, RequestModal) or modal.answered:
            return
        self._aside = modal
        self.app.install_screen(modal, ASIDE)  # so that it is kept
        self.app.pop_screen()
        self.cover(0)
        self.app.activity.set_texts(waiting="a request waits · esc goes back to it")
        self.app.call_after_refresh(self._follow)

    def follow_focus(self) -> None:
        """Bring a dialog back soon if the composer has the focus then."""
        self.app.call_later(self._follow)

    def _follow(self) -> None:
        app = self.app
        if self.is_aside and not isinstance(app.screen, ModalScreen) and app.focused in (None, app.prompt):
            self.bring_back()

    def bring_back(self) -> None:
        """Show the dialog that was set aside; it accepts keys after its quiet period."""
        if (modal := self._take_aside()) is not None:
            self.app.push_screen(modal)
            modal.call_after_refresh(self.show_draft)

    def _take_aside(self) -> RequestModal | None:
        modal, self._aside = self._aside, None
        if modal is not None:
            self.app.uninstall_screen(modal)
            self.app.activity.set_texts(waiting="")
        return modal

    def _waits_aside(self) -> bool:
        """Return whether a dialog is set aside; one whose request is settled is removed."""
        if self._aside is None:
            return False
        if self._aside.request.id in self.app.view.pending:
            self._aside.request_updated()
            return True
        if (modal := self._take_aside()) is not None:
            modal.remove()
        return False

    def answer(self, request: str, answer: Answer) -> None:
        """Give the answer of a dialog to the session; an approval keeps the dialog open until it is on disk.

        The first answer to a request wins, whichever surface it comes from.
        """
        app = self.app
        self._answered.add(request)
        self.dock.disarm()
        modal = app.screen if isinstance(app.screen, RequestModal) and app.screen.request.id == request else None
        accepted = app.session is not None and app.session.answer(request, answer)
        if accepted and modal is not None and answer.verdict == "approve":
            modal.save()
            app.work(self._close_when_saved, modal)
        else:
            if modal is not None:
                modal.dismiss()
            app.call_later(self.show_next)

    async def _close_when_saved(self, modal: RequestModal) -> None:
        """Close the dialog once its answer is on disk: only then does the approved action start."""
        if self.app.session is not None:
            await self.app.session.saved(modal.request.id)
        modal.saving = False
        modal.dismiss()
        self.app.call_later(self.show_next)

    def close_first_run(self) -> None:
        """Close the first-run screen if it is open."""
        if isinstance(self.app.screen, FirstRun):
            self.app.screen.dismiss()
