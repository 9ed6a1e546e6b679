"""`/sessions`, `/rename`, `/fork`, and the list of `--resume`: the catalogue of sessions behind the screen (S3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tui_agent.paths import sessions_dir
from tui_agent.tui.finder import Finder, do_behind
from tui_agent.tui.leaving import GO_ON, GoOn

if TYPE_CHECKING:
    from textual.message_pump import MessagePump

    from tui_agent.storage.catalog import Entry
    from tui_agent.tui.app import TuiAgentApp
    from tui_agent.tui.door import SessionDoor

TURNS = 100
"""Turns of the loop at most in which keys reach the field that they are for."""
QUIET = 5
"""So many of them without any: one may be between two queues."""

# --- commands -------------------------------------------------------------------------------


def show(app: TuiAgentApp, words: str) -> None:
    """Find and reopen sessions; `words` are searched for at first."""
    if app.session is not None:
        finder = Finder(
            app, here=app.view.workspace, leave=lambda entry: _leave(app, entry, finder), text=words
        )
        finder.begin()


def rename(app: TuiAgentApp, title: str) -> None:
    """Call this session so."""
    naming = getattr(app.session, "naming", None)
    if not title:
        app.hints.say("/rename takes the new title")
    elif naming is None:
        app.hints.say("this session can't be renamed here")
    else:
        do_behind(app, naming.rename(title), app.hints.say)


def fork(app: TuiAgentApp, word: str) -> None:
    """A copy of this session, to go on in; this one stays as it is. `now` stops the run that goes on."""
    if app.session is None:
        return
    if app.view.busy and word != "now":
        app.hints.say("a run goes on here: /fork now stops it and goes on in a fork")
        return
    do_behind(app, _fork(app, app.session), app.hints.say)


async def _fork(app: TuiAgentApp, session: SessionDoor) -> None:
    from tui_agent.storage import catalog

    if app.view.busy:
        await session.interrupt(at_once=True)
    if (written := getattr(session, "wait", None)) is not None:
        await written()
    entry = await asyncio.to_thread(catalog.look, sessions_dir() / session.id)
    copied = await asyncio.to_thread(catalog.fork, entry, None, session.mask)
    await _rest(app, app.composer.prompt)
    typed = app.composer.prompt.written.whole  # the copy's, as all that comes from now on
    app.composer.prompt.clear()
    _go_on(app, GoOn(copied, same_folder=True, typed=typed))


def _leave(app: TuiAgentApp, entry: Entry, finder: Finder) -> None:
    async def leave() -> None:
        await _rest(app, finder.picker.field)
        same = entry.workspace == app.view.workspace
        _go_on(app, GoOn(entry.id, same_folder=same, typed=finder.picker.typed_ahead))

    do_behind(app, leave(), app.hints.say)


async def _rest(app: TuiAgentApp, field: MessagePump) -> None:
    """Read no more keys; those that were read are in the field that they are typed into."""
    if (hold := getattr(app._driver, "hold", None)) is not None:
        await hold()
    await _arrived(app, field)


async def _arrived(app: TuiAgentApp, field: MessagePump) -> None:
    """Return when the keys that were read are in `field`."""
    quiet = 0
    for _turn in range(TURNS):
        busy = app.message_queue_size or app.screen.message_queue_size or field.message_queue_size
        quiet = 0 if busy else quiet + 1
        if quiet > QUIET:
            return
        await asyncio.sleep(0)


def _go_on(app: TuiAgentApp, following: GoOn) -> None:
    app.following = following
    app.exit(GO_ON)


async def pick(
    app: TuiAgentApp, open_chosen: Callable[[str], Awaitable[SessionDoor]], here: str
) -> SessionDoor:
    """Let the user choose a session, then open it on this screen; `here` is the folder that the user is in. Without a
    choice the screen ends."""
    chosen: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    finder = Finder(app, here=here, leave=lambda entry: chosen.set_result(entry.id), gone=lambda: app.exit(0))
    finder.begin()
    id = await chosen
    await _arrived(app, finder.picker.field)
    finder.picker.dismiss()
    app.composer.prompt.take_typed(finder.picker.typed_ahead)
    return await open_chosen(id)
