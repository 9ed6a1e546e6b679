"""`/output`: shows the full output of a call, from its file or from memory."""

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
from tui_agent.view.items import Item as ViewItem
from tui_agent.view.items import ToolItem
from widgets.output_pager import OutputPager, OutputWindow

if TYPE_CHECKING:
    from tui_agent.platform.text_pages import PageRow, Pages

_OUTPUT_FILE = re.compile(r"output-[0-9a-f]{8}\.txt")
"""Names of files with the full output of a command."""
MASK_CONTEXT = 150
"""Lines around the shown ones that are masked with them, as a secret may span lines."""
OUTPUT_DELETED = "The full output was deleted when the earlier process ended; this is the part the agent received."

Item: TypeAlias = ToolItem | UserShellCommand


def show_output(app: BaseApp, _: str) -> None:
    """Show the output of the call that is selected in the progress tree, or of the newest one."""
    items = _outputs(app.view.items)
    if not items:
        app.hints.show("no call has printed anything yet")
        return
    selected = app.columns.progress.chosen_item
    index = items.index(selected) if selected in items else len(items) - 1
    app.push_screen(OutputPager(Outputs(app, items, index)))


def _outputs(items: list[ViewItem]) -> list[Item]:
    return [item for item in items if isinstance(item, ToolItem | UserShellCommand) and _has_output(item)]


def _has_output(item: Item) -> bool:
    if isinstance(item, UserShellCommand):
        return bool(item.output)
    return bool(item.text or item.output.text or item.output_file)


class Outputs:
    """The pager's source of text (`PagerApi`). Files are read in threads; one output is open at a time."""

    def __init__(self, app: BaseApp, items: list[Item], index: int) -> None:
        self.app = app
        self._items = items
        self._index = index
        self._older = app.view.older
        """Number of items before these that are not loaded."""
        self._pages: Pages | None = None
        self._reads_file = False
        self._stop = threading.Event()
        """Set when the open output is closed; ends searching and counting."""
        self._line_count: asyncio.Future[None] | None = None
        self.note = ""

    @property
    def _item(self) -> Item:
        return self._items[self._index]

    @property
    def title(self) -> str:
        """Name of the call."""
        item = self._item
        if isinstance(item, UserShellCommand):
            return f"! {one_line(item.command, 300)}"
        return f"{item.call.name} {one_line(item.title, 300)}"

    @property
    def growing(self) -> bool:
        """True while the call is running."""
        return isinstance(self._item, ToolItem) and self._item.status == "running"

    # --- lines ---

    async def read_window(self, offset: int, above: int, below: int) -> OutputWindow:
        """Return `above` and `below` lines around the byte `offset`; -1 is the end."""
        await self._refresh()
        pages = self._pages
        if pages is None:  # closed in the meantime
            return OutputWindow()
        window = await asyncio.to_thread(self._window, pages, offset, above, below)
        if (window.lines is None or self.growing) and (self._line_count is None or self._line_count.done()):
            self._line_count = asyncio.ensure_future(asyncio.to_thread(pages.count_lines, self._stop))
        return window

    def _window(self, pages: Pages, offset: int, above: int, below: int) -> OutputWindow:
        size = pages.size
        offset = size if offset < 0 else offset
        rows_above = pages.rows_before(offset, above)
        rows = [*rows_above, *pages.rows_from(offset, below)]
        texts = self._masked_texts(pages, rows)
        lines = [(row.start, row.end, text) for row, text in zip(rows, texts, strict=True)]
        return OutputWindow(
            lines[: len(rows_above)], lines[len(rows_above) :], size, pages.line_number(offset), pages.line_count()
        )

    def _masked_texts(self, pages: Pages, rows: list[PageRow]) -> list[str]:
        """Mask rows together with their surroundings: a secret may begin or end outside of them (A7)."""
        if self.app.session is None or not rows:
            return [row.text for row in rows]
        before = pages.rows_before(rows[0].start, MASK_CONTEXT)
        texts = [row.text for row in (*before, *rows, *pages.rows_from(rows[-1].end, MASK_CONTEXT))]
        masked = self.app.session.mask.mask("\n".join(texts), keep_lines=True).split("\n")
        if len(masked) != len(texts):
            return ["[not shown: contains a secret]"] * len(rows)
        return masked[len(before) : len(before) + len(rows)]

    async def _refresh(self) -> None:
        """Open the output, switch to its file once there is one, and update text that is in memory."""
        item, stop = self._item, self._stop
        if self._pages is None or (isinstance(item, ToolItem) and item.output_file and not self._reads_file):
            pages, note = await asyncio.to_thread(_open_pages, item)
            if stop is not self._stop:  # closed in the meantime, or another output was opened
                pages.close()
                return
            if note is None or self._pages is None:
                self._close()
                self._pages, self._reads_file, self.note = pages, note is None, note or ""
                return
            self.note = note
        if self.growing and not self._reads_file:
            self._pages.replace(_available_bytes(item))

    async def find(self, text: str, offset: int, *, backwards: bool) -> int | None:
        """Return the start of the next line with `text` after `offset`, or before it if `backwards`."""
        pages = self._pages
        if pages is None:
            return None

        def search() -> int | None:
            match = pages.find(text, offset, back=backwards, stop=self._stop)
            return None if match is None else pages.row_start(match)

        return await asyncio.to_thread(search)

    async def line(self, number: int) -> int | None:
        """Return the start of line `number`."""
        return None if self._pages is None else await asyncio.to_thread(self._pages.line_offset, number)

    async def turn(self, by: int) -> bool:
        """Go to an older (`by` > 0) or newer output; return False if there is none."""
        index = self._index - by
        if index < 0 and self._older:
            await self.app.transcript.read_older()
            older, self._older = _outputs(self.app.view.items[: self._older]), self.app.view.older
            index, self._items = index + len(older), older + self._items
        if not 0 <= index < len(self._items):
            return False
        self._index = index
        self._close()
        return True

    def _close(self) -> None:
        self._stop.set()
        self._stop = threading.Event()
        if self._pages is not None:
            self._pages.close()
        self._pages, self._reads_file = None, False

    def closed(self) -> None:
        """Release the output: the pager was closed."""
        self._close()


def _open_pages(item: Item) -> tuple[Pages, str | None]:
    """Open the output's file; without one, the text in memory, with a note for the user.

    The note is None if the file could be opened.
    """
    from tui_agent.platform.text_pages import Pages

    note = ""
    if isinstance(item, ToolItem) and _OUTPUT_FILE.fullmatch(Path(item.output_file).name):
        with suppress(OSError, ValueError):
            return Pages(Path(item.output_file)), None
        if item.status != "running" and "[…" in item.text:
            note = OUTPUT_DELETED
    return Pages(data=_available_bytes(item)), note


def _available_bytes(item: Item) -> bytes:
    """Return the output that is in memory: live output while the call runs, then the text the agent got."""
    if isinstance(item, UserShellCommand):
        text = item.output
    elif item.status == "running" or not item.text:
        text = item.output.text
    else:
        data = item.result.data if item.result is not None else None
        text = data if isinstance(data, str) and len(data) > len(item.text) else item.text
    return text.encode("utf-8", "replace")
