"""What the session picker asks for, done in threads with the catalogue of sessions (S3)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from tui_agent.paths import data_dir
from tui_agent.text import Mask
from widgets.dialog_keys import Keys
from widgets.session_list import Row
from widgets.session_picker import SessionPicker
from widgets.status_line import ActivityLine

if TYPE_CHECKING:
    from tui_agent.storage.catalog import Entry
    from tui_agent.tui.app import TuiAgentApp

KEYS = Keys("sessions")
PAUSE = 0.15
"""Seconds without a key before all that was said is searched."""
TOGETHER = 0.1
"""Seconds in which finds are gathered."""
SHORTEST = 2
"""Letters from which on all that was said is searched."""
FIRST = 0.05
"""Seconds after which the newest sessions are shown, while the others are looked for."""
SCREENFUL = 40
"""So many of them at least."""
LONGER = 8
"""So many times as long until more of them are shown."""
PREVIEW = 200
"""Lines of a preview."""
PREVIEWS = 64
"""Previews that are kept."""


def do_behind(app: TuiAgentApp, job: Coroutine[Any, Any, Any], say: Callable[[str], Any]) -> None:
    """Do it behind the screen; why it can't be done is a sentence."""

    async def guarded() -> None:
        from tui_agent.engine.stream import JournalBroken
        from tui_agent.storage.folder import SessionError

        try:
            await job
        except (SessionError, JournalBroken, OSError) as error:
            say(str(error))
        except Exception as error:  # the last net: whatever it is, the user gets a sentence
            app.fail(error)

    app.run_worker(guarded(), exit_on_error=False)


class Finder:
    """What the picker wants, done in threads with the catalogue of sessions."""

    def __init__(
        self,
        app: TuiAgentApp,
        *,
        here: str,
        leave: Callable[[Entry], None],
        gone: Callable[[], None] = lambda: None,
        text: str = "",
    ) -> None:
        """`leave` goes on in another session, `gone` is called when the picker was closed without that; `text` is
        searched for at first."""
        self.app = app
        self.picker = SessionPicker(self, text=text)
        self._here = _real(here)
        self._leave, self._gone = leave, gone
        self._left = False
        self._entries: dict[str, Entry] = {}
        self._previews: dict[str, str] = {}
        self._mask = app.session.mask if app.session is not None else None
        self._wanted = ""
        self._listings = 0
        self._stop = threading.Event()
        self._searching = asyncio.Lock()
        """An old search ends, but that takes a moment; all at once they would take the threads that others need."""

    def begin(self) -> None:
        """Show the picker, and fill it."""
        self._do(self._begin())

    async def _begin(self) -> None:
        await self.app.push_screen(self.picker, self._closed)
        await self._list()

    def _closed(self, _: None) -> None:
        if not self._left:
            self._gone()

    @property
    def _own(self) -> str:
        return self.app.session.id if self.app.session is not None else ""

    def _do(self, job: Coroutine[Any, Any, None]) -> None:
        do_behind(self.app, job, self.picker.say)

    async def _list(self, choose: str = "") -> None:
        """All sessions. The first time the newest are shown before the others are known."""
        loop, now = asyncio.get_running_loop(), self.app.query_one(ActivityLine).now()
        self._listings += 1
        number, first = self._listings, self.picker.rows is None

        def show(found: list[tuple[Entry, Row]], more: bool) -> None:
            if number == self._listings:
                self._entries = {entry.id: entry for entry, _row in found}
                self.picker.show_rows([row for _entry, row in found], choose, more=more)

        def tell(found: list[tuple[Entry, Row]]) -> None:
            if first:
                loop.call_soon_threadsafe(show, found, True)

        show(await asyncio.to_thread(self._read_list, now, tell), False)

    def _read_list(
        self, now: float, tell: Callable[[list[tuple[Entry, Row]]], None]
    ) -> list[tuple[Entry, Row]]:
        from tui_agent.storage import catalog

        if self._mask is None:
            from tui_agent.safety.secrets import values_to_mask

            self._mask = Mask(values_to_mask(os.environ, None))
        found: list[tuple[Entry, Row]] = []
        due = monotonic() + FIRST
        for entry in catalog.each(data_dir()):
            found.append((entry, self._row(entry, now)))
            if len(found) >= SCREENFUL and monotonic() >= due:
                tell(found[:])
                due = monotonic() + LONGER * FIRST
        return found

    def _row(self, entry: Entry, now: float) -> Row:
        mask, age = self._mask or Mask({}), ago(entry.changed, now)
        facts = [age, size(entry.bytes)]
        if entry.model:
            facts.append(entry.model)
        if entry.parent:
            facts.append(f"fork of {entry.parent}")
        return Row(
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

    # --- what the picker wants ---

    def search(self, text: str, among: Sequence[str]) -> None:
        """See PickerDoor. Another search ends the one before."""
        self._stop.set()
        self._stop = stop = threading.Event()
        if among and len(text) >= SHORTEST:
            entries = [self._entries[id] for id in among if id in self._entries]
            self._do(self._search(text, entries, stop))

    async def _search(self, text: str, entries: list[Entry], stop: threading.Event) -> None:
        await asyncio.sleep(PAUSE)
        loop = asyncio.get_running_loop()

        def tell(found: dict[str, str]) -> None:
            loop.call_soon_threadsafe(self._found, text, found, stop)

        async with self._searching:
            if not stop.is_set():
                await asyncio.to_thread(self._read_all, text, entries, stop, tell)

    def _read_all(
        self, text: str, entries: list[Entry], stop: threading.Event, tell: Callable[[dict[str, str]], None]
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

    def _found(self, text: str, found: dict[str, str], stop: threading.Event) -> None:
        if not stop.is_set():
            self.picker.show_found(text, found)

    def look_into(self, id: str) -> None:
        """See PickerDoor. Only the last one that was wanted is shown."""
        self._wanted = id
        if id in self._previews:
            self.picker.show_preview(id, self._previews[id])
        elif id in self._entries:
            self._do(self._look_into(self._entries[id]))

    async def _look_into(self, entry: Entry) -> None:
        from tui_agent.storage import catalog

        await asyncio.sleep(0)
        if entry.id != self._wanted:
            return
        text = await asyncio.to_thread(catalog.preview, entry, PREVIEW, self._mask)
        if len(self._previews) >= PREVIEWS:
            self._previews.pop(next(iter(self._previews)))
        self._previews[entry.id] = text
        if entry.id == self._wanted:
            self.picker.show_preview(entry.id, text)

    def open(self, id: str, *, sure: bool) -> None:
        """See PickerDoor. What can't be opened is said here, before anything is left."""
        entry = self._entries[id]
        if id == self._own:
            self.picker.dismiss()
        elif entry.problem:
            self.picker.say(entry.problem)
        elif entry.running:
            fork = KEYS.of("fork") or "/fork there"
            self.picker.say(f"Another process has it open. {fork} makes a fork of it to go on with.")
        elif not os.path.isdir(entry.workspace):
            folder = _home_as_tilde(entry.workspace) or "unknown"
            self.picker.say(
                f"Its folder is gone: {folder}. tui-agent --resume {id} -C DIR says where it is now."
            )
        elif self._own and self.app.view.busy and not sure:
            key = KEYS.of("open").capitalize()
            text = f"A run goes on here. {key} again stops it and opens the other session."
            self.picker.say(text, again=("open", id))
        elif not self._left:
            self._left = True
            self.picker.leave()
            self._leave(entry)

    def rename(self, id: str, title: str) -> None:
        """See PickerDoor."""
        self._do(self._rename(self._entries[id], title))

    async def _rename(self, entry: Entry, title: str) -> None:
        from tui_agent.storage import catalog

        if entry.id == self._own:
            if (naming := getattr(self.app.session, "naming", None)) is not None:
                await naming.rename(title)
        else:
            await asyncio.to_thread(catalog.rename, entry, title, self._mask)
        await self._list(entry.id)

    def fork(self, id: str) -> None:
        """See PickerDoor. The copy is listed; opening it is another key."""
        self._do(self._fork(self._entries[id]))

    async def _fork(self, entry: Entry) -> None:
        from tui_agent.storage import catalog

        copied = await asyncio.to_thread(catalog.fork, entry, None, self._mask)
        await self._list(copied)
        self.picker.say("This is the fork. Enter opens it.")

    def delete(self, id: str) -> None:
        """See PickerDoor."""
        self._do(self._delete(self._entries[id]))

    async def _delete(self, entry: Entry) -> None:
        from tui_agent.storage import catalog

        try:
            await asyncio.to_thread(catalog.delete, entry)
        finally:
            self._previews.pop(entry.id, None)
            await self._list()

    def closed(self) -> None:
        """See PickerDoor."""
        self._stop.set()


# --- words ----------------------------------------------------------------------------------


def ago(then: float, now: float) -> str:
    """How long ago `then` was, in words; both are seconds since the epoch."""
    passed = max(0.0, now - then)
    if passed < 60:
        return "just now"
    if passed < 3600:
        return f"{int(passed // 60)} min ago"
    if passed < 24 * 3600:
        hours = int(passed // 3600)
        return f"{hours} hour{'s' if hours > 1 else ''} ago"
    if passed < 14 * 24 * 3600:
        days = int(passed // (24 * 3600))
        return "yesterday" if days == 1 else f"{days} days ago"
    day = datetime.fromtimestamp(then)
    return f"{day.day} {day:%b}" if day.year == datetime.fromtimestamp(now).year else f"{day.day} {day:%b %Y}"


def size(count: int) -> str:
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
