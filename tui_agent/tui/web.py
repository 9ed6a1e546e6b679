"""`/web`: the running session in a browser of this machine, beside the screen (X4)."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from tui_agent.frontends.web import browsing
from tui_agent.frontends.web.addresses import PORT, CannotServe, listen
from widgets.link_panel import LinkPanel

if TYPE_CHECKING:
    from tui_agent.frontends.web.serving import Serving
    from tui_agent.tui.app import TuiAgentApp


class _Served:
    """A page that is served, and the task that ends it with the session."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.ending = asyncio.create_task(self._until_closed())

    async def _until_closed(self) -> None:
        try:
            await self.serving.ended()
        finally:
            try:
                await self.serving.stop()
            finally:
                self.serving.drop()


_SERVED: WeakKeyDictionary[TuiAgentApp, _Served] = WeakKeyDictionary()


def show(app: TuiAgentApp, word: str) -> None:
    """Show a link to the page, and serve it if it is not served yet; `stop` ends that."""
    app.run_worker(_stop(app) if word == "stop" else _show(app), exit_on_error=False)


async def _show(app: TuiAgentApp) -> None:
    if app.session is None:
        return
    served = _SERVED.get(app)
    if served is None or served.ending.done():
        serving = await asyncio.to_thread(importlib.import_module, "tui_agent.frontends.web.serving")
        try:
            listener = _listen()
        except CannotServe as error:
            app.hints.say(str(error))
            return
        made: Serving = serving.Serving(cast(Any, app.session), listener)
        await made.start()
        served = _SERVED[app] = _Served(made)
    opened = browsing.show(served.serving.link())
    app.push_screen(LinkPanel(served.serving.link(), opened))


def _listen() -> Any:
    """The usual port, or any other while somebody has that."""
    try:
        return listen("127.0.0.1", PORT)
    except CannotServe:
        return listen("127.0.0.1", 0)


async def _stop(app: TuiAgentApp) -> None:
    served = _SERVED.pop(app, None)
    if served is None or served.ending.done():
        app.hints.say("this session is not shown in a browser")
        return
    served.ending.cancel()
    await asyncio.wait([served.ending])
    app.hints.say("the page is closed")
