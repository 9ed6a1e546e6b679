"""`/output`: all that a call printed, from the file that holds it or from what is at hand."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tui_agent.events import UserShellCommand
from tui_agent.text import one_line
from tui_agent.tui.base_app import BaseApp
from tui_agent.view.items import ToolItem
from widgets.output_pager import OutputPager, OutputWindow

if TYPE_CHECKING:
    from tui_agent.platform.text_pages import PageRow, Pages

_OURS = re.compile(r"output-[0-9a-f]{8}\.txt")
"""How files with all of an output are named."""
AROUND = 150
"""Lines around the shown ones in which a secret may begin or end."""
GONE = "The full output was deleted when the earlier process ended; this is the part the agent received."

Item: TypeAlias = ToolItem | UserShellCommand


def show_output(app: BaseApp, _: str) -> None:
    """Show the output of the call that is chosen in the progress, else the newest one."""
    items = [item for item in app.view.items if isinstance(item, ToolItem | UserShellCommand) and _has_output(item)]
    if not items:
        app.hints.show("no call has printed anything yet")
        return
    chosen = app.columns.progress.chosen_item
    place = items.index(chosen) if chosen in items else len(items) - 1
    app.push_screen(OutputPager(Outputs(app, items, place)))


def _has_output(item: Item) -> bool:
    if isinstance(item, UserShellCommand):
        return bool(item.output)
    return bool(item.text or item.output.text or item.file)


class Outputs:
    """Serves the pager. Files are read in threads; one output is open at a time."""

    def __init__(self, app: BaseApp, items: list[Item], place: int) -> None:
        self.app = app
        self._items = items
        self._place = place
        self._pages: Pages | None = None
        self._from_file = False
        self._stop = threading.Event()
        self._counting: asyncio.Future[None] | None = None
        self.note = ""

    @property
    def _item(self) -> Item:
        return self._items[self._place]

    @property
    def title(self) -> str:
        """See PagerApi."""
        item = self._item
        if isinstance(item, UserShellCommand):
            return f"! {one_line(item.command, 300)}"
        return f"{item.call.name} {one_line(item.title, 300)}"

    @property
    def growing(self) -> bool:
        """See PagerApi."""
        return isinstance(self._item, ToolItem) and self._item.status == "running"

    # --- lines ---

    async def look(self, place: int, above: int, below: int) -> OutputWindow:
        """See PagerApi."""
        await self._refresh()
        pages = self._pages
        if pages is None:  # closed meanwhile
            return OutputWindow()
        sight = await asyncio.to_thread(self._read_window, pages, place, above, below)
        if (sight.lines is None or self.growing) and (self._counting is None or self._counting.done()):
            self._counting = asyncio.ensure_future(asyncio.to_thread(pages.count, self._stop))
        return sight

    def _read_window(self, pages: Pages, place: int, above: int, below: int) -> OutputWindow:
        size = pages.size
        place = size if place < 0 else place
        rows, under = pages.above(place, above), pages.below(place, below)
        texts = self._masked_texts(pages, [*rows, *under])
        shown = [(row.place, row.end, text) for row, text in zip((*rows, *under), texts, strict=True)]
        return OutputWindow(shown[: len(rows)], shown[len(rows) :], size, pages.number(place), pages.lines())

    def _masked_texts(self, pages: Pages, rows: list[PageRow]) -> list[str]:
        """What they say without secrets: one that is long may begin and end out of sight (A7)."""
        if self.app.session is None or not rows:
            return [row.text for row in rows]
        before = pages.above(rows[0].place, AROUND)
        texts = [row.text for row in (*before, *rows, *pages.below(rows[-1].end, AROUND))]
        masked = self.app.session.mask.mask("\n".join(texts), keep_lines=True).split("\n")
        if len(masked) != len(texts):
            return ["[not shown: contains a secret]"] * len(rows)
        return masked[len(before) : len(before) + len(rows)]

    async def _refresh(self) -> None:
        """Open what is to be read; go over to the file as soon as there is one."""
        item, stop = self._item, self._stop
        if self._pages is None or (isinstance(item, ToolItem) and item.file and not self._from_file):
            pages, note = await asyncio.to_thread(_open_pages, item)
            if stop is not self._stop:  # closed meanwhile, or another output was opened
                pages.close()
                return
            if note is None or self._pages is None:
                self._close()
                self._pages, self._from_file, self.note = pages, note is None, note or ""
                return
            self.note = note
        if self.growing and not self._from_file:
            self._pages.replace(_bytes(item))

    async def find(self, text: str, place: int, *, back: bool) -> int | None:
        """See PagerApi."""
        pages = self._pages
        if pages is None:
            return None

        def found() -> int | None:
            at = pages.find(text, place, back=back, stop=self._stop)
            return None if at is None else pages.row_of(at)

        return await asyncio.to_thread(found)

    async def line(self, number: int) -> int | None:
        """See PagerApi."""
        return None if self._pages is None else await asyncio.to_thread(self._pages.place_of, number)

    async def turn(self, by: int) -> bool:
        """See PagerApi. The older ones come first."""
        place = self._place - by
        if not 0 <= place < len(self._items):
            return False
        self._place = place
        self._close()
        return True

    def _close(self) -> None:
        self._stop.set()
        self._stop = threading.Event()
        if self._pages is not None:
            self._pages.close()
        self._pages, self._from_file = None, False

    def closed(self) -> None:
        """See PagerApi."""
        self._close()


def _open_pages(item: Item) -> tuple[Pages, str | None]:
    """The file with all of it; else what is at hand, and what should be known of that."""
    from tui_agent.platform.text_pages import Pages

    note = ""
    if isinstance(item, ToolItem) and _OURS.fullmatch(Path(item.file).name):
        with suppress(OSError, ValueError):
            return Pages(Path(item.file)), None
        if item.status != "running" and "[…" in item.text:
            note = GONE
    return Pages(data=_bytes(item)), note


def _bytes(item: Item) -> bytes:
    return _text(item).encode("utf-8", "replace")


def _text(item: Item) -> str:
    """What is at hand of an output: as it came while it runs, afterwards what the agent was given."""
    if isinstance(item, UserShellCommand):
        return item.output
    if item.status == "running" or not item.text:
        return item.output.text
    data = item.result.data if item.result is not None else None
    return data if isinstance(data, str) and len(data) > len(item.text) else item.text
