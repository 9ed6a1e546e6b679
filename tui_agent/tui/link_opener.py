"""Opens links of the transcript: files in the user's editor, URLs in the browser after their target was shown."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from tui_agent.frontends.web.addresses import open_browser
from tui_agent.text import one_line
from tui_agent.tui.base_app import READING_SPEED, BaseApp
from tui_agent.tui.file_locator import file_in, resolved
from widgets.links import place_of, targets_of
from widgets.palette import Palette, PaletteRow
from widgets.transcript import Transcript

SECOND_CLICK: Final = 4.0
"""Seconds in which a second click on a URL opens it, or longer if reading the target takes longer."""
RECENT_BLOCKS: Final = 100
"""Number of blocks at the end whose links can be listed."""
LOOK_SECONDS: Final = 1.0
"""Seconds that the list waits for files to be looked for."""
MAX_SHOWN: Final = 200
"""Characters of a target in a hint."""


def link_targets(transcript: Transcript) -> list[str]:
    """Return the targets of the links in the newest blocks, each once: newest block first, in its order."""
    recent = [block for block in transcript.blocks[: -RECENT_BLOCKS - 1 : -1] if block.is_visible]
    width, styles = transcript.columns, transcript.text_styles
    return list(dict.fromkeys(target for block in recent for target in targets_of(block.lines(width, styles))))


class LinkList(Palette):
    """Lists the links of the session, and opens the chosen one."""

    PLACEHOLDER = "search links"
    EMPTY = "no link matches"
    EFFECT = "open"


class LinkOpener:
    """Opens links that the user clicks or chooses."""

    def __init__(self, app: BaseApp, *, clock: Callable[[], float] = monotonic) -> None:
        self._app = app
        self._clock = clock

    def click(self, target: str) -> None:
        """Open a file at once; a URL on the second click, as the first one shows where it leads."""
        shown, at = self._app.shown_link
        patience = max(SECOND_CLICK, len(target) / READING_SPEED)
        if place_of(target) is not None or (shown == target and self._clock() - at <= patience):
            self._app.shown_link = "", float("-inf")
            self.open(target)
            return
        self._app.shown_link = target, self._clock()
        self._app.hints.show(f"click again to open {one_line(target, MAX_SHOWN, exact=True)}")

    def open(self, target: str) -> None:
        """Open a file in the editor, or a URL in the browser; without a browser here, the URL is copied."""
        place = place_of(target)
        if place is not None:
            self._app.work(self._open_file, place.path, place.line)
        elif not open_browser(target):
            self._app.work(self._app.copy_text, target, "no browser here · ")

    async def _open_file(self, path: str, line: int) -> None:
        from tui_agent.tui.external_editor import open_at_line

        folder = self._app.view.workspace
        if await asyncio.to_thread(file_in, folder, path) != path:
            self._app.hints.show(f"{one_line(os.path.basename(path), MAX_SHOWN)} is no longer in the workspace")
            return
        await open_at_line(self._app, path, line)

    def show_list(self) -> None:
        """List the links of the newest messages, with where they lead."""
        targets = link_targets(self._app.transcript)
        if self._app.locate.is_idle:
            self._push_list(targets)
        else:  # messages that were not painted yet name files
            self._app.work(self._show_list_later)

    async def _show_list_later(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._app.locate.settled()
        self._push_list(link_targets(self._app.transcript))

    def _push_list(self, targets: Sequence[str]) -> None:
        if not targets:
            self._app.hints.show("there are no links in the last messages")
            return
        folder = self._app.view.workspace
        self._app.push_screen(LinkList([_row(target, folder) for target in targets], self.open))


def _row(target: str, folder: str) -> PaletteRow:
    place = place_of(target)
    if place is None:
        return PaletteRow(target, one_line(target, MAX_SHOWN, exact=True), "in the browser")
    name = os.path.relpath(place.path, resolved(folder))  # known since the file was found
    return PaletteRow(target, one_line(f"{name}:{place.line}" if place.line else name, MAX_SHOWN), "in your editor")


def show_links(app: BaseApp, _: str) -> None:
    """List the links of the newest messages; Enter opens one."""
    LinkOpener(app).show_list()
