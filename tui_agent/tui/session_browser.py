"""`/sessions`, `/rename`, `/fork` and the list of `--resume`: the catalog of sessions (S3)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from tui_agent.common.paths import data_dir, sessions_dir
from tui_agent.engine.core.stream import JournalBroken
from tui_agent.storage.folder import SessionError
from tui_agent.text import Mask, count_of
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.exit_codes import CONTINUE, ContinueIn
from widgets.dialog_keys import Keys
from widgets.session_picker import SessionPicker, SessionRow
from widgets.textual_private import driver_of

if TYPE_CHECKING:
    from textual.message_pump import MessagePump

    from tui_agent.engine.api import SessionApi
    from tui_agent.storage.catalog import SessionEntry

KEYS = Keys("sessions")
EXPECTED = (SessionError, JournalBroken, OSError)
"""Failures that are a sentence for the user."""
PAUSE = 0.15
"""Seconds without a key before the full text is searched."""
TOGETHER = 0.1
"""Seconds in which finds are gathered."""
SHORTEST = 2
"""Least letters for a search of the full text."""
FIRST = 0.05
"""Seconds after which the newest sessions are shown, while the others are looked for."""
SCREENFUL = 40
"""So many of them at least."""
LONGER = 8
"""So many times as long until more of them are shown."""
PREVIEW = 200
"""Lines of a preview."""
PREVIEWS = 64
"""Most cached previews."""


class SessionBrowser(SessionPicker):
    """The session picker with the catalog of sessions, which is read in threads."""

    def __init__(
        self,
        app: BaseApp,
        *,
        here: str,
        leave: Callable[[SessionEntry], None],
        gone: Callable[[], None] = lambda: None,
        text: str = "",
    ) -> None:
        """`leave` continues in another session, `gone` is called when the picker was closed without that; `text` is
        searched for at first."""
        super().__init__(text=text)
        self._base = app
        self._here = _real(here)
        self._leave, self._gone = leave, gone
        self._opened = False
        self._entries: dict[str, SessionEntry] = {}
        self._previews: dict[str, str] = {}
        self._mask = app.session.mask if app.session is not None else None
        self._wanted = ""
        self._listings = 0
        self._stop = threading.Event()
        self._searching = asyncio.Lock()
        """An old search ends, but that takes a moment; all at once they would take the threads that others need."""

    def begin(self) -> None:
        """Show the picker, and fill it."""
        self._do(self._begin)

    async def _begin(self) -> None:
        await self._base.push_screen(self, self._when_closed)
        await self._refill()

    def _when_closed(self, _: None) -> None:
        if not self._opened:
            self._gone()

    @property
    def _own(self) -> str:
        return self._base.session.id if self._base.session is not None else ""

    def _do(self, job: Callable[..., Awaitable[None]], *given: Any) -> None:
        self._base.work(job, *given, expected=EXPECTED, on_error=self.say)

    async def _refill(self, choose: str = "") -> None:
        """All sessions. The first time the newest are shown before the others are known."""
        loop, now = asyncio.get_running_loop(), self._base.activity.now()
        self._listings += 1
        number, first = self._listings, self.rows is None

        def show_page(found: list[tuple[SessionEntry, SessionRow]], more: bool) -> None:
            if number == self._listings:
                self._entries = {entry.id: entry for entry, _row in found}
                self.show_rows([row for _entry, row in found], choose, more=more)

        def tell(found: list[tuple[SessionEntry, SessionRow]]) -> None:
            if first:
                loop.call_soon_threadsafe(show_page, found, True)

        show_page(await asyncio.to_thread(self._read_list, now, tell), False)

    def _read_list(
        self, now: float, tell: Callable[[list[tuple[SessionEntry, SessionRow]]], None]
    ) -> list[tuple[SessionEntry, SessionRow]]:
        from tui_agent.storage import catalog

        if self._mask is None:
            from tui_agent.safety.secrets import values_to_mask

            self._mask = Mask(values_to_mask(os.environ, None))
        found: list[tuple[SessionEntry, SessionRow]] = []
        due = monotonic() + FIRST
        for entry in catalog.each(data_dir()):
            found.append((entry, self._row(entry, now)))
            if len(found) >= SCREENFUL and monotonic() >= due:
                tell(found[:])
                due = monotonic() + LONGER * FIRST
        return found

    def _row(self, entry: SessionEntry, now: float) -> SessionRow:
        mask, age = self._mask or Mask({}), session_age(entry.changed, now)
        facts = [age, file_size(entry.bytes)]
        if entry.model:
            facts.append(entry.model)
        if entry.parent:
            facts.append(f"fork of {entry.parent}")
        return SessionRow(
            id=entry.id,
            title=mask.mask(entry.title),
            age=age,
            where=_home_as_tilde(entry.workspace),
            facts=" · ".join(facts),
            here=entry.workspace == self._here,
            mine=entry.id == self._own,
            running=entry.running,
            problem=entry.problem,
        )

    # --- what the user wants ---

    def _search_messages(self, text: str, among: Sequence[str]) -> None:
        """Another search ends the one before."""
        self._stop.set()
        self._stop = stop = threading.Event()
        if among and len(text) >= SHORTEST:
            entries = [self._entries[id] for id in among if id in self._entries]
            self._do(self._search, text, entries, stop)

    async def _search(self, text: str, entries: list[SessionEntry], stop: threading.Event) -> None:
        await asyncio.sleep(PAUSE)
        loop = asyncio.get_running_loop()

        def tell(found: dict[str, str]) -> None:
            loop.call_soon_threadsafe(self._show_found, text, found, stop)

        async with self._searching:
            if not stop.is_set():
                await asyncio.to_thread(self._read_all, text, entries, stop, tell)

    def _read_all(
        self, text: str, entries: list[SessionEntry], stop: threading.Event, tell: Callable[[dict[str, str]], None]
    ) -> None:
        from tui_agent.storage import catalog

        found: dict[str, str] = {}
        told = monotonic()
        for entry in entries:
            for hit, line in catalog.search([entry], text, self._mask, stopped=stop.is_set):
                found[hit.id] = line
            if stop.is_set():
                return
            if found and monotonic() - told > TOGETHER:
                tell(found)
                found, told = {}, monotonic()
        if found:
            tell(found)

    def _show_found(self, text: str, found: dict[str, str], stop: threading.Event) -> None:
        if not stop.is_set():
            self.show_found(text, found)

    def _want_preview(self, id: str) -> None:
        """Only the last one that was wanted is shown."""
        self._wanted = id
        if id in self._previews:
            self.show_preview(id, self._previews[id])
        elif id in self._entries:
            self._do(self._look_into, self._entries[id])

    async def _look_into(self, entry: SessionEntry) -> None:
        from tui_agent.storage import catalog

        await asyncio.sleep(0)
        if entry.id != self._wanted:
            return
        text = await asyncio.to_thread(catalog.preview, entry, PREVIEW, self._mask)
        if len(self._previews) >= PREVIEWS:
            self._previews.pop(next(iter(self._previews)))
        self._previews[entry.id] = text
        if entry.id == self._wanted:
            self.show_preview(entry.id, text)

    def _open_session(self, id: str, *, sure: bool) -> None:
        """Problems are reported here, before this session is left."""
        entry = self._entries[id]
        if id == self._own:
            self.dismiss()
        elif entry.problem:
            self.say(entry.problem)
        elif entry.running:
            fork = KEYS.of("fork") or "/fork there"
            self.say(f"Another process has it open. {fork} continues in a fork.")
        elif not os.path.isdir(entry.workspace):
            folder = _home_as_tilde(entry.workspace) or "unknown"
            self.say(f"Its folder is gone: {folder}. tui-agent --resume {id} -C DIR opens it in another folder.")
        elif self._own and self._base.view.busy and not sure:
            key = KEYS.of("open").capitalize()
            text = f"A run is in progress here. {key} again stops it and opens the other session."
            self.ask_again(text, "open", id)
        elif not self._opened:
            self._opened = True
            self.leave()
            self._leave(entry)

    async def _rename_session(self, id: str, title: str) -> None:
        from tui_agent.storage import changes

        entry = self._entries[id]
        if id == self._own:
            if (naming := getattr(self._base.session, "naming", None)) is not None:
                await naming.rename(title)
        else:
            await asyncio.to_thread(changes.retitle_session, entry, title, self._mask)
        await self._refill(entry.id)

    async def _fork_session(self, id: str) -> None:
        """The copy is listed; opening it is another key."""
        from tui_agent.storage import changes

        copied = await asyncio.to_thread(changes.fork_session, self._entries[id], None, self._mask)
        await self._refill(copied)
        self.say("This is the fork. Enter opens it.")

    async def _delete_session(self, id: str) -> None:
        from tui_agent.storage import changes

        try:
            await asyncio.to_thread(changes.delete_session, self._entries[id])
        finally:
            self._previews.pop(id, None)
            await self._refill()

    def on_unmount(self) -> None:
        """Nothing is searched any more."""
        self._stop.set()


# --- words ----------------------------------------------------------------------------------


def session_age(then: float, now: float) -> str:
    """How long ago `then` was, in words; both are seconds since the epoch."""
    passed = max(0.0, now - then)
    if passed < 60:
        return "just now"
    if passed < 3600:
        return f"{int(passed // 60)} min ago"
    if passed < 24 * 3600:
        return f"{count_of(int(passed // 3600), 'hour')} ago"
    if passed < 14 * 24 * 3600:
        days = int(passed // (24 * 3600))
        return "yesterday" if days == 1 else f"{days} days ago"
    day = datetime.fromtimestamp(then)
    return f"{day.day} {day:%b}" if day.year == datetime.fromtimestamp(now).year else f"{day.day} {day:%b %Y}"


def file_size(count: int) -> str:
    """Bytes as a person reads them."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.1f} {unit}" if amount < 9.95 and unit != "B" else f"{amount:.0f} {unit}"


def _real(folder: str) -> str:
    try:
        return os.path.realpath(folder) if folder else ""
    except OSError:  # the folder that we are in is gone
        return ""


def _home_as_tilde(folder: str) -> str:
    home = os.path.realpath(os.path.expanduser("~"))
    inside = home != "/" and Path(folder).is_relative_to(home) if folder else False
    return "~" + folder[len(home) :] if inside else folder


TURNS = 100
"""Turns of the loop at most in which keys reach the field that they are for."""
QUIET = 5
"""So many of them without any: one may be between two queues."""

# --- commands -------------------------------------------------------------------------------


def show_sessions(app: BaseApp, words: str) -> None:
    """Find and reopen sessions; `words` are searched for at first."""
    if app.session is not None:
        browser = SessionBrowser(
            app, here=app.view.workspace, leave=lambda entry: _leave(app, entry, browser), text=words
        )
        browser.begin()


def rename_current_session(app: BaseApp, title: str) -> None:
    """Call this session so."""
    naming = getattr(app.session, "naming", None)
    if not title:
        app.hints.show("/rename needs the new title")
    elif naming is None:
        app.hints.show("this session can't be renamed here")
    else:
        app.work(naming.rename, title, expected=EXPECTED)


def fork_current_session(app: BaseApp, word: str) -> None:
    """Continue in a copy of this session; this one stays as it is. `now` stops the active run."""
    if app.session is None:
        return
    if app.view.busy and word != "now":
        app.hints.show("a run is in progress: /fork now stops it and continues in a fork")
        return
    app.work(_fork, app, app.session, expected=EXPECTED)


async def _fork(app: BaseApp, session: SessionApi) -> None:
    from tui_agent.storage import catalog, changes

    if app.view.busy:
        await session.interrupt(at_once=True)
    await session.wait()
    entry = await asyncio.to_thread(catalog.read_entry, sessions_dir() / session.id)
    copied = await asyncio.to_thread(changes.fork_session, entry, None, session.mask)
    await _rest(app, app.prompt)
    typed = app.prompt.written.whole  # the copy's, as all that comes from now on
    app.prompt.clear()
    _go_on(app, ContinueIn(copied, same_folder=True, typed_ahead=typed))


def _leave(app: BaseApp, entry: SessionEntry, browser: SessionBrowser) -> None:
    async def leave() -> None:
        await _rest(app, browser.field)
        same = entry.workspace == app.view.workspace
        _go_on(app, ContinueIn(entry.id, same_folder=same, typed_ahead=browser.typed_ahead))

    app.work(leave, expected=EXPECTED)


async def _rest(app: BaseApp, field: MessagePump) -> None:
    """Read no more keys; those that were read are in the field that they are typed into."""
    if (hand_over := getattr(driver_of(app), "hand_over_input", None)) is not None:
        await hand_over()
    await _arrived(app, field)


async def _arrived(app: BaseApp, field: MessagePump) -> None:
    """Return when the keys that were read are in `field`."""
    quiet = 0
    for _turn in range(TURNS):
        busy = app.message_queue_size or app.screen.message_queue_size or field.message_queue_size
        quiet = 0 if busy else quiet + 1
        if quiet > QUIET:
            return
        await asyncio.sleep(0)


def _go_on(app: BaseApp, following: ContinueIn) -> None:
    app.next_session = following
    app.exit(CONTINUE)


async def pick_session(app: BaseApp, open_chosen: Callable[[str], Awaitable[SessionApi]], here: str) -> SessionApi:
    """Let the user choose a session, then open it on this screen; `here` is the folder that the user is in. Without a
    choice the screen ends."""
    chosen: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    browser = SessionBrowser(app, here=here, leave=lambda entry: chosen.set_result(entry.id), gone=lambda: app.exit(0))
    browser.begin()
    id = await chosen
    await _arrived(app, browser.field)
    browser.dismiss()
    app.prompt.take_typed(browser.typed_ahead)
    return await open_chosen(id)
