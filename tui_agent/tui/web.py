"""`/web`: shows the running session in a browser on this machine too (X4)."""

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


_SERVED: WeakKeyDictionary[BaseApp, tuple[SessionPage, asyncio.Task[None]]] = WeakKeyDictionary()
"""The served page of an app, and the task that stops it when it is cancelled or the session ends."""


def serve_session(app: BaseApp, argument: str) -> None:
    """Serve the page, if it is not served yet, and show a link to it; `stop` stops serving."""
    app.work(_stop if argument == "stop" else _show, app, expected=(CannotServe, OSError))


async def _show(app: BaseApp) -> None:
    if app.session is None:
        return
    page, task = _SERVED.get(app, (None, None))
    if page is None or task is None or task.done():
        web = await asyncio.to_thread(importlib.import_module, "tui_agent.frontends.web.app")
        page = cast("SessionPage", web.SessionPage(app.session, _listen()))
        await page.start()
        _SERVED[app] = page, asyncio.create_task(_serve_until_closed(page))
    opened = open_browser(page.link())
    app.push_screen(LinkPanel(page.link(), opened))


async def _serve_until_closed(page: SessionPage) -> None:
    try:
        await page.ended()
    finally:
        try:
            await page.stop()
        finally:
            page.drop()


def _listen() -> Any:
    """Listen on the usual port, or on a free one if that is taken."""
    try:
        return listen("127.0.0.1", PORT)
    except CannotServe:
        return listen("127.0.0.1", 0)


async def _stop(app: BaseApp) -> None:
    _page, task = _SERVED.pop(app, (None, None))
    if task is None or task.done():
        app.hints.show("this session is not shown in a browser")
        return
    task.cancel()
    await asyncio.wait([task])
    app.hints.show("the page is closed")
