"""`/sessions`, `/rename`, `/fork` and the picker of `--resume` (S3)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from tui_agent.common.errors import JournalBroken
from tui_agent.common.paths import data_dir, sessions_dir
from tui_agent.storage.folder import SessionError
from tui_agent.text import SecretMask, file_size, pluralize
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
"""Errors whose message is shown to the user."""
SEARCH_DELAY = 0.15
"""Seconds without a key before messages are searched."""
BATCH_SECONDS = 0.1
"""Seconds for which search results are collected before they are shown."""
MIN_SEARCH_LENGTH = 2
"""Minimum characters for a search of messages."""
FIRST_PAGE_SECONDS = 0.05
"""Seconds after which the newest sessions are shown while the others are being read."""
NEXT_PAGE_SECONDS = 0.4
"""Seconds until more of them are shown."""
PAGE_SIZE = 40
"""Minimum number of sessions to show."""
PREVIEW_LINES = 200
MAX_PREVIEWS = 64
"""Maximum number of cached previews."""
MAX_TURNS = 100
"""Maximum turns of the event loop in which keys reach their field."""
QUIET_TURNS = 5
"""Turns without queued messages after which no key is left: one may be between two queues."""

Listing: TypeAlias = "list[tuple[SessionEntry, SessionRow]]"


class SessionBrowser(SessionPicker):
    """The session picker on the catalog of sessions, which is read in threads."""

    def __init__(
        self,
        app: BaseApp,
        *,
        here: str,
        on_chosen: Callable[[SessionEntry], None],
        on_cancelled: Callable[[], None] = lambda: None,
        query: str = "",
    ) -> None:
        """Start with sessions of the folder `here` and a search for `query`."""
        super().__init__(query=query)
        self._base = app
        self._here = _real_path(here)
        self._on_chosen, self._on_cancelled = on_chosen, on_cancelled
        self._is_done = False
        self._entries: dict[str, SessionEntry] = {}
        self._previews: dict[str, str] = {}
        self._mask = app.session.mask if app.session is not None else None
        self._preview_id = ""
        """Id of the session whose preview is wanted."""
        self._listings = 0
        self._stop_search = threading.Event()
        self._search_lock = asyncio.Lock()
        """Searches end with a delay; running one at a time leaves threads for other work."""

    def begin(self) -> None:
        """Open the picker and fill it."""

        async def open_and_fill() -> None:
            await self._base.push_screen(self, self._on_dismissed)
            await self._refill()

        self._run_job(open_and_fill)

    def _on_dismissed(self, _: None) -> None:
        if not self._is_done:
            self._on_cancelled()

    @property
    def _own_id(self) -> str:
        return self._base.session.id if self._base.session is not None else ""

    def _run_job(self, job: Callable[..., Awaitable[None]], *args: Any) -> None:
        self._base.work(job, *args, expected=EXPECTED, on_error=self.show_message)

    async def _refill(self, selected: str = "") -> None:
        """List all sessions; the first time, show the newest before the others are read."""
        loop, now = asyncio.get_running_loop(), self._base.activity.now()
        self._listings += 1
        number, is_first = self._listings, self.rows is None

        def show(listing: Listing, more: bool) -> None:
            if number == self._listings:
                self._entries = {entry.id: entry for entry, _row in listing}
                self.show_rows([row for _entry, row in listing], selected, more=more)

        def on_page(listing: Listing) -> None:
            if is_first:
                loop.call_soon_threadsafe(show, listing, True)

        show(await asyncio.to_thread(self._read_catalog, now, on_page), False)

    def _read_catalog(self, now: float, on_page: Callable[[Listing], None]) -> Listing:
        from tui_agent.storage import catalog

        if self._mask is None:
            from tui_agent.safety.secrets import values_to_mask

            self._mask = SecretMask(values_to_mask(os.environ))
        listing: Listing = []
        due = monotonic() + FIRST_PAGE_SECONDS
        for entry in catalog.iter_sessions(data_dir()):
            listing.append((entry, self._row(entry, now)))
            if len(listing) >= PAGE_SIZE and monotonic() >= due:
                on_page(listing[:])
                due = monotonic() + NEXT_PAGE_SECONDS
        return listing

    def _row(self, entry: SessionEntry, now: float) -> SessionRow:
        mask, age = self._mask or SecretMask({}), session_age(entry.changed, now)
        facts = [age, file_size(entry.bytes)]
        if entry.model:
            facts.append(entry.model)
        if entry.parent:
            facts.append(f"fork of {entry.parent}")
        return SessionRow(
            id=entry.id,
            title=mask.mask(entry.title),
            age=age,
            folder=_home_as_tilde(entry.workspace),
            facts=" · ".join(facts),
            is_here=entry.workspace == self._here,
            is_current=entry.id == self._own_id,
            is_running=entry.running,
            problem=entry.problem,
        )

    # --- the picker's hooks ---

    def _search_messages(self, text: str, ids: Sequence[str]) -> None:
        """Search the messages of the sessions `ids`; a running search is stopped."""
        self._stop_search.set()
        self._stop_search = stop = threading.Event()
        if ids and len(text) >= MIN_SEARCH_LENGTH:
            entries = [self._entries[id] for id in ids if id in self._entries]
            self._run_job(self._search, text, entries, stop)

    async def _search(self, text: str, entries: list[SessionEntry], stop: threading.Event) -> None:
        await asyncio.sleep(SEARCH_DELAY)
        loop = asyncio.get_running_loop()

        def show(matches: dict[str, str]) -> None:
            if not stop.is_set():
                self.show_found(text, matches)

        def on_batch(matches: dict[str, str]) -> None:
            loop.call_soon_threadsafe(show, matches)

        async with self._search_lock:
            if not stop.is_set():
                await asyncio.to_thread(self._search_in_thread, text, entries, stop, on_batch)

    def _search_in_thread(
        self,
        text: str,
        entries: list[SessionEntry],
        stop: threading.Event,
        on_batch: Callable[[dict[str, str]], object],
    ) -> None:
        from tui_agent.storage import catalog

        batch: dict[str, str] = {}
        reported_at = monotonic()
        for entry in entries:
            for match, line in catalog.search([entry], text, self._mask, stopped=stop.is_set):
                batch[match.id] = line
            if stop.is_set():
                return
            if batch and monotonic() - reported_at > BATCH_SECONDS:
                on_batch(batch)
                batch, reported_at = {}, monotonic()
        if batch:
            on_batch(batch)

    def _request_preview(self, id: str) -> None:
        """Show the preview of a session, unless another one is wanted by then."""
        self._preview_id = id
        if id in self._previews:
            self.show_preview(id, self._previews[id])
        elif id in self._entries:
            self._run_job(self._load_preview, self._entries[id])

    async def _load_preview(self, entry: SessionEntry) -> None:
        from tui_agent.storage import catalog

        await asyncio.sleep(0)
        if entry.id != self._preview_id:
            return
        text = await asyncio.to_thread(catalog.preview, entry, PREVIEW_LINES, self._mask)
        if len(self._previews) >= MAX_PREVIEWS:
            self._previews.pop(next(iter(self._previews)))
        self._previews[entry.id] = text
        if entry.id == self._preview_id:
            self.show_preview(entry.id, text)

    def _open_session(self, id: str, *, confirmed: bool) -> None:
        """Choose a session, or report why it can't be opened; a run here is only stopped if `confirmed`."""
        entry = self._entries[id]
        if id == self._own_id:
            self.dismiss()
        elif entry.problem:
            self.show_message(entry.problem)
        elif entry.running:
            fork = KEYS.label("fork") or "/fork there"
            self.show_message(f"Another process has it open. {fork} continues in a fork.")
        elif not os.path.isdir(entry.workspace):
            folder = _home_as_tilde(entry.workspace) or "unknown"
            self.show_message(
                f"Its folder is gone: {folder}. tui-agent --resume {id} -C DIR opens it in another folder."
            )
        elif self._own_id and self._base.view.busy and not confirmed:
            key = KEYS.label("open").capitalize()
            text = f"A run is in progress here. {key} again stops it and opens the other session."
            self.confirm(text, "open", id)
        elif not self._is_done:
            self._is_done = True
            self.start_typeahead()
            self._on_chosen(entry)

    async def _rename_session(self, id: str, title: str) -> None:
        from tui_agent.storage import changes

        entry = self._entries[id]
        if id == self._own_id:
            if (naming := getattr(self._base.session, "naming", None)) is not None:
                await naming.rename(title)
        else:
            await asyncio.to_thread(changes.retitle_session, entry, title, self._mask)
        await self._refill(entry.id)

    async def _fork_session(self, id: str) -> None:
        """Fork a session and select the fork, without opening it."""
        from tui_agent.storage import changes

        fork = await asyncio.to_thread(changes.fork_session, self._entries[id], None, self._mask)
        await self._refill(fork)
        self.show_message("This is the fork. Enter opens it.")

    async def _delete_session(self, id: str) -> None:
        from tui_agent.storage import changes

        try:
            await asyncio.to_thread(changes.delete_session, self._entries[id])
        finally:
            self._previews.pop(id, None)
            await self._refill()

    def on_unmount(self) -> None:
        """Stop a running search."""
        self._stop_search.set()


# --- formatting -----------------------------------------------------------------------------


def session_age(then: float, now: float) -> str:
    """Describe how long ago `then` was; both are seconds since the epoch."""
    passed = max(0.0, now - then)
    if passed < 60:
        return "just now"
    if passed < 3600:
        return f"{int(passed // 60)} min ago"
    if passed < 24 * 3600:
        return f"{pluralize(int(passed // 3600), 'hour')} ago"
    if passed < 14 * 24 * 3600:
        days = int(passed // (24 * 3600))
        return "yesterday" if days == 1 else f"{days} days ago"
    day = datetime.fromtimestamp(then)
    return f"{day.day} {day:%b}" if day.year == datetime.fromtimestamp(now).year else f"{day.day} {day:%b %Y}"


def _real_path(folder: str) -> str:
    try:
        return os.path.realpath(folder) if folder else ""
    except OSError:  # the current folder is gone
        return ""


def _home_as_tilde(folder: str) -> str:
    home = os.path.realpath(os.path.expanduser("~"))
    inside = home != "/" and Path(folder).is_relative_to(home) if folder else False
    return "~" + folder[len(home) :] if inside else folder


# --- commands -------------------------------------------------------------------------------


def show_sessions(app: BaseApp, query: str) -> None:
    """Open the session picker, with an initial search for `query`."""
    if app.session is not None:
        browser = SessionBrowser(
            app, here=app.view.workspace, on_chosen=lambda entry: _switch_to(app, entry, browser), query=query
        )
        browser.begin()


def rename_current_session(app: BaseApp, title: str) -> None:
    """Give this session another title."""
    naming = getattr(app.session, "naming", None)
    if not title:
        app.hints.show("/rename needs the new title")
    elif naming is None:
        app.hints.show("this session can't be renamed here")
    else:
        app.work(naming.rename, title, expected=EXPECTED)


def fork_current_session(app: BaseApp, argument: str) -> None:
    """Continue in a copy of this session; `now` stops the active run."""
    if app.session is None:
        return
    if app.view.busy and argument != "now":
        app.hints.show("a run is in progress: /fork now stops it and continues in a fork")
        return
    app.work(_fork, app, app.session, expected=EXPECTED)


async def _fork(app: BaseApp, session: SessionApi) -> None:
    from tui_agent.storage import catalog, changes

    if app.view.busy:
        await session.interrupt(at_once=True)
    await session.wait()
    entry = await asyncio.to_thread(catalog.read_entry, sessions_dir() / session.id)
    fork = await asyncio.to_thread(changes.fork_session, entry, None, session.mask)
    await _hand_over_input(app, app.prompt)
    draft = app.prompt.draft.full_text  # belongs to the fork now
    app.prompt.clear()
    _continue_in(app, ContinueIn(fork, same_folder=True, typed_ahead=draft))


def _switch_to(app: BaseApp, entry: SessionEntry, browser: SessionBrowser) -> None:
    async def switch() -> None:
        await _hand_over_input(app, browser.field)
        same_folder = entry.workspace == app.view.workspace
        _continue_in(app, ContinueIn(entry.id, same_folder=same_folder, typed_ahead=browser.field.value))

    app.work(switch, expected=EXPECTED)


async def _hand_over_input(app: BaseApp, field: MessagePump) -> None:
    """Stop reading keys, and wait until those that were read are in `field`."""
    if (hand_over := getattr(driver_of(app), "hand_over_input", None)) is not None:
        await hand_over()
    await _wait_for_keys(app, field)


async def _wait_for_keys(app: BaseApp, field: MessagePump) -> None:
    """Return when the keys that were read are in `field`."""
    quiet = 0
    for _turn in range(MAX_TURNS):
        busy = app.message_queue_size or app.screen.message_queue_size or field.message_queue_size
        quiet = 0 if busy else quiet + 1
        if quiet > QUIET_TURNS:
            return
        await asyncio.sleep(0)


def _continue_in(app: BaseApp, session: ContinueIn) -> None:
    app.next_session = session
    app.exit(CONTINUE)


async def pick_session(app: BaseApp, open_chosen: Callable[[str], Awaitable[SessionApi]], here: str) -> SessionApi:
    """Let the user choose a session and open it in this app; the app ends if the user cancels.

    `here` is the current folder.
    """
    chosen: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    browser = SessionBrowser(
        app, here=here, on_chosen=lambda entry: chosen.set_result(entry.id), on_cancelled=lambda: app.exit(0)
    )
    browser.begin()
    id = await chosen
    await _wait_for_keys(app, browser.field)
    browser.dismiss()
    app.prompt.append_text(browser.field.value)
    return await open_chosen(id)
