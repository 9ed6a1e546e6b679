"""`/web`: the running session in a browser of this machine, beside the screen (X4)."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from tui_agent.frontends.web.addresses import PORT, CannotServe, listen, open_browser
from tui_agent.tui.base_app import BaseApp
from widgets.info_panels import LinkPanel

if TYPE_CHECKING:
    from tui_agent.frontends.web.app import SessionPage


class _Served:
    """A page that is served, and the task that ends it with the session."""

    def __init__(self, page: SessionPage) -> None:
        self.page = page
        self.ending = asyncio.create_task(self._until_closed())

    async def _until_closed(self) -> None:
        try:
            await self.page.ended()
        finally:
            try:
                await self.page.stop()
            finally:
                self.page.drop()


_SERVED: WeakKeyDictionary[BaseApp, _Served] = WeakKeyDictionary()


def serve_session(app: BaseApp, word: str) -> None:
    """Show a link to the page, and serve it if it is not served yet; `stop` ends that."""
    app.work(_stop if word == "stop" else _show, app, expected=(CannotServe, OSError))


async def _show(app: BaseApp) -> None:
    if app.session is None:
        return
    served = _SERVED.get(app)
    if served is None or served.ending.done():
        web = await asyncio.to_thread(importlib.import_module, "tui_agent.frontends.web.app")
        made: SessionPage = web.SessionPage(cast(Any, app.session), _listen())
        await made.start()
        served = _SERVED[app] = _Served(made)
    opened = open_browser(served.page.link())
    app.push_screen(LinkPanel(served.page.link(), opened))


def _listen() -> Any:
    """The usual port, or any other while somebody has that."""
    try:
        return listen("127.0.0.1", PORT)
    except CannotServe:
        return listen("127.0.0.1", 0)


async def _stop(app: BaseApp) -> None:
    served = _SERVED.pop(app, None)
    if served is None or served.ending.done():
        app.hints.show("this session is not shown in a browser")
        return
    served.ending.cancel()
    await asyncio.wait([served.ending])
    app.hints.show("the page is closed")
