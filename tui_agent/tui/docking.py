"""Which plan or summary is decided in the dock, between transcript and composer: the oldest one that waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.containers import Vertical

from tui_agent.tui.drafts import Drafts, offered
from tui_agent.view import RequestItem
from widgets.docked import Docked

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp


def docks(request: RequestItem) -> bool:
    """True for what is decided in the dock and not in a dialog."""
    return request.proposal is not None or request.offer is not None


class Docking:
    """Opens and closes what stands in the dock, and keeps what is edited there."""

    def __init__(self, app: TuiAgentApp, *, clock: Callable[[], float], stillness: float) -> None:
        self.app = app
        self.place = Vertical(id="dock")
        self.place.display = False
        self._clock = clock
        self._stillness = stillness
        self._drafts = Drafts()
        self._shown = ""
        """Id of the request that is shown, or about to be."""
        self._ending = False

    @property
    def widget(self) -> Docked | None:
        """What stands there."""
        docked = (one for one in self.place.children if isinstance(one, Docked))
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
        draft = None if session is None else await self._drafts.find(session.id, request.id, offered(request))
        if self._shown != request.id:
            return
        from widgets.plan_review import PlanReview  # not before one of them is needed
        from widgets.summary_editor import SummaryEditor

        kind = PlanReview if request.proposal is not None else SummaryEditor
        widget = kind(
            request,
            clock=self._clock,
            stillness=self._stillness,
            draft=draft,
            keep=partial(self._keep, request),
        )
        self.place.display = True
        await self.place.mount(widget)

    def _keep(self, request: RequestItem, draft: dict[str, Any]) -> None:
        if self.app.session is None:
            return
        given = self.app.session.id, draft, request.id, offered(request)
        if self._ending:
            self._drafts.keep_here(*given)
        else:
            self.app.run_worker(self._drafts.keep(*given), exit_on_error=False)

    def keep_last(self) -> None:
        """Write what is edited here and now: the program is about to end, and with it what it does beside."""
        self._ending = True
        if self.widget is not None:
            self.widget.keep_last()

    def close(self) -> None:
        """Make room; the focus goes back to the composer if it was here."""
        self._shown = ""
        widget = self.widget
        if widget is None:
            return
        focused = widget.has_focus_within
        self.place.display = False
        widget.remove()
        if focused:
            screen = self.app.screen_stack[0]
            screen.set_focus(screen.query_one("#prompt"))

    def hush(self) -> None:
        """A dialog over it is gone: what is typed on is not meant for it."""
        if self.widget is not None:
            self.widget.hush()

    def decided(self, request: str) -> None:
        """The user decided; nothing of it needs to be kept."""
        if request == self._shown and self.app.session is not None:
            self.app.run_worker(self._drafts.drop(self.app.session.id), exit_on_error=False)
