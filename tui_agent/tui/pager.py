"""`/output`: all that a call printed, from the file that holds it or from what is at hand (R17.2)."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tui_agent.text import one_line
from tui_agent.view.items import ShellItem, ToolItem
from widgets.output_pager import OutputPager
from widgets.pager_door import Sight
from widgets.tool_tree import ToolTree

if TYPE_CHECKING:
    from tui_agent.platform.pages import Pages, Row
    from tui_agent.tui.app import TuiAgentApp

_OURS = re.compile(r"output-[0-9a-f]{8}\.txt")
"""How files with all of an output are named."""
AROUND = 150
"""Lines before and behind those that are shown in which a secret may begin or end."""
GONE = "The file with all of it is gone with the earlier process; this is what the agent was given."

Item: TypeAlias = ToolItem | ShellItem


def show(app: TuiAgentApp, _: str) -> None:
    """Show the output of the call that is chosen in the progress, else the newest one."""
    items = [item for item in app.view.items if isinstance(item, ToolItem | ShellItem) and _says(item)]
    if not items:
        app.hints.say("no call has printed anything yet")
        return
    tree = app.query_one(ToolTree)
    place = len(items) - 1
    if tree.has_focus and (chosen := _chosen(tree)) in items:
        place = items.index(chosen)
    app.push_screen(OutputPager(Outputs(app, items, place)))


def _chosen(tree: ToolTree) -> object:
    at = tree.rows[tree.selected] if tree.selected < len(tree.rows) else -1
    node = tree.view.tree.nodes[at] if at >= 0 else None
    return tree.view.items[node.item] if node is not None and node.item >= 0 else None


def _says(item: Item) -> bool:
    if isinstance(item, ShellItem):
        return bool(item.output)
    return bool(item.text or item.output.text or item.file)


class Outputs:
    """What the pager wants. Files are read in threads; one output is open at a time."""

    def __init__(self, app: TuiAgentApp, items: list[Item], place: int) -> None:
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
        """See PagerDoor."""
        item = self._item
        if isinstance(item, ShellItem):
            return f"! {one_line(item.command, 300)}"
        return f"{item.call.name} {one_line(item.title, 300)}"

    @property
    def growing(self) -> bool:
        """See PagerDoor."""
        return isinstance(self._item, ToolItem) and self._item.status == "running"

    # --- lines ---

    async def look(self, place: int, above: int, below: int) -> Sight:
        """See PagerDoor."""
        await self._refresh()
        pages = self._pages
        if pages is None:  # closed meanwhile
            return Sight()
        sight = await asyncio.to_thread(self._looked, pages, place, above, below)
        if (sight.lines is None or self.growing) and (self._counting is None or self._counting.done()):
            self._counting = asyncio.ensure_future(asyncio.to_thread(pages.count, self._stop))
        return sight

    def _looked(self, pages: Pages, place: int, above: int, below: int) -> Sight:
        size = pages.size
        place = size if place < 0 else place
        rows, under = pages.above(place, above), pages.below(place, below)
        texts = self._masked(pages, [*rows, *under])
        shown = [(row.place, row.end, text) for row, text in zip((*rows, *under), texts, strict=True)]
        return Sight(shown[: len(rows)], shown[len(rows) :], size, pages.number(place), pages.lines())

    def _masked(self, pages: Pages, rows: list[Row]) -> list[str]:
        """What they say without secrets: one that is long may begin and end out of sight (A7)."""
        if self.app.session is None or not rows:
            return [row.text for row in rows]
        before = pages.above(rows[0].place, AROUND)
        texts = [row.text for row in (*before, *rows, *pages.below(rows[-1].end, AROUND))]
        masked = self.app.session.mask.mask("\n".join(texts), keep_lines=True).split("\n")
        if len(masked) != len(texts):
            return ["[not shown: it holds a secret]"] * len(rows)
        return masked[len(before) : len(before) + len(rows)]

    async def _refresh(self) -> None:
        """Open what is to be read; go over to the file as soon as there is one."""
        item, stop = self._item, self._stop
        if self._pages is None or (isinstance(item, ToolItem) and item.file and not self._from_file):
            pages, note = await asyncio.to_thread(_opened, item)
            if stop is not self._stop:  # closed meanwhile, or turned to another one
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
        """See PagerDoor."""
        pages = self._pages
        if pages is None:
            return None

        def found() -> int | None:
            at = pages.find(text, place, back=back, stop=self._stop)
            return None if at is None else pages.row_of(at)

        return await asyncio.to_thread(found)

    async def line(self, number: int) -> int | None:
        """See PagerDoor."""
        return None if self._pages is None else await asyncio.to_thread(self._pages.place_of, number)

    async def turn(self, by: int) -> bool:
        """See PagerDoor. The older ones come first."""
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
        """See PagerDoor."""
        self._close()


def _opened(item: Item) -> tuple[Pages, str | None]:
    """The file with all of it; else what is at hand, and what should be known of that."""
    from tui_agent.platform.pages import Pages

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
    if isinstance(item, ShellItem):
        return item.output
    if item.status == "running" or not item.text:
        return item.output.text
    data = item.result.data if item.result is not None else None
    return data if isinstance(data, str) and len(data) > len(item.text) else item.text
