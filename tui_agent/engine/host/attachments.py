"""What the user attaches to a message by naming it: read when the message is given to the model (H7)."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tui_agent.common.domain import Target
from tui_agent.engine.core.stream import JournalBroken
from tui_agent.events import Attachment, ContextAttached, Notice
from tui_agent.mentions.syntax import LineRange, Mention, mentions
from tui_agent.text import clean, mark_invisible
from tui_agent.tools.base import ToolError, ToolRefused
from tui_agent.tools.file_access import permit_read
from tui_agent.tools.line_sources import open_lines
from tui_agent.tools.list_files import list_folder
from tui_agent.tools.wording import MAX_RESULT_SIZE, is_shortened, printable_name

if TYPE_CHECKING:
    from tui_agent.engine.core.state import SessionStream
    from tui_agent.engine.host.environment import ToolEnvironment
    from tui_agent.engine.host.tool_context import CallContext

log = logging.getLogger(__name__)

TOTAL = 60_000
"""Characters of all that one message attaches."""
SHARE = 0.4
"""Of the window: what one message may attach at the most."""
CHARACTERS = 3
"""Characters that a token of code has at the least, for that share."""
LEAST = 500
"""Characters of room under which nothing more is attached."""
DEPTH = 2
"""Levels of a folder that are listed."""
CHUNK = 200
"""Lines that are read at a time."""


class Attachments:
    """Looks up what the messages of one session mention. A path counts as `read_file` would have it: what lies outside
    the roots or holds credentials is asked for (A2, A4)."""

    def __init__(self, stream: SessionStream, environment: ToolEnvironment) -> None:
        self._stream = stream
        self._environment = environment
        self.window: int | None = None
        """Tokens of the model's window, as far as is known."""

    async def attach(self, run: str) -> None:
        """Attach what the messages mention that were given to the model since the last time.

        What can't be attached is told to the user; their text stays as it is. Never raises but for cancellation, after
        which the messages that were not done with are still to be looked at.
        """
        state = self._stream.state
        for message, text in tuple(state.pending_mentions):
            found = await asyncio.to_thread(_found, text, self._environment)
            if found:
                await self._attach(message, found, run)
            state.mentions_handled(message)

    async def _attach(self, message: str, found: list[_Found], run: str) -> None:
        from tui_agent.engine.host.tool_context import CallContext

        ctx = CallContext(self._environment, run=run, node=run)
        try:
            items = await self._items(found, ctx, run)
        finally:
            ctx.close()
        if items:
            self._stream.emit(ContextAttached(message=message, items=tuple(items)), run=run)
            beneath = (f"{item.path}/*" if item.kind == "folder" else item.path for item in items)
            await self._environment.bring_rules(tuple(beneath), run)

    async def _items(self, found: list[_Found], ctx: CallContext, run: str) -> list[Attachment]:
        """What can be attached; the user is told of the rest."""
        items: list[Attachment] = []
        left = TOTAL if self.window is None else min(TOTAL, round(SHARE * CHARACTERS * self.window))
        for one in found:
            try:
                if left < LEAST:
                    raise ToolError("there is no room left; the agent reads it itself.", "too_large")
                item = await self._read(one, ctx, left)
            except ToolRefused:  # it says to the model what it is not to try; the user decided, or saw what did
                self._tell(one.place.text, "reading it was refused.", run)
            except ToolError as error:
                self._tell(one.place.text, str(error), run)
            except OSError as error:
                self._tell(one.place.text, f"{error.strerror or error}.", run)
            except JournalBroken:
                raise
            except Exception:
                log.exception("a mention could not be attached")
                self._tell(one.place.text, "it can't be read; the details are in the debug log.", run)
            else:
                left -= len(item.text)
                items.append(item)
        return items

    async def _read(self, one: _Found, ctx: CallContext, left: int) -> Attachment:
        if one.target is None:
            raise ToolError(one.fault, "not_found")
        await permit_read(ctx, one.target)
        cap = self._environment.settings.caps.attachment_characters
        if one.target.path.is_dir():
            return await asyncio.to_thread(_folder, one, self._environment.roots.folders, min(cap, left))
        room = min(left, cap if one.place.first is None else MAX_RESULT_SIZE)
        stop = threading.Event()
        try:
            item = await asyncio.to_thread(_file, one, room, stop)
        finally:
            stop.set()
        if item.sha256 is not None:
            self._environment.mark_seen(one.target.path, item.sha256)
        return item

    def _tell(self, mention: str, why: str, run: str) -> None:
        text = clean(f"{mention} is not attached: {why}")
        self._stream.emit(Notice(level="warning", text=text, code="attach.failed"), run=run)


class _Found(NamedTuple):
    """A mention and where it leads; `fault` says why nowhere."""

    place: LineRange
    target: Target | None
    fault: str = ""


def _found(text: str, environment: ToolEnvironment) -> list[_Found]:
    found: list[_Found] = []
    for mention in mentions(text):
        one = _led(mention, environment)
        if one is not None and not any(_same(one, other) for other in found):
            found.append(one)
    return found


def _led(mention: Mention, environment: ToolEnvironment) -> _Found | None:
    from tui_agent.safety.roots import PathError

    fault = "there is no such file."
    for place in mention.places:
        try:
            target = environment.roots.resolve(place.path)
        except PathError as error:
            fault = str(error)
            continue
        if os.path.exists(target.path):
            return _Found(place, target)
    shortest = mention.places[-1]
    return _Found(shortest, None, fault) if mention.certain else None


def _same(one: _Found, other: _Found) -> bool:
    if one.target is None or other.target is None:
        return one.place == other.place
    lines, others = ((each.place.first, each.place.last) for each in (one, other))
    return one.target.path == other.target.path and lines == others


# --- what the model gets --------------------------------------------------------------------


def _file(one: _Found, room: int, stop: threading.Event) -> Attachment:
    """A file or lines of it, as `read_file` shows them, in `room` characters. Raises ToolError and OSError."""
    target, place = one.target, one.place
    assert target is not None
    source = open_lines(target, None, stop)
    try:
        first = place.first or 1
        source.skip(first - 1)
        shown: list[str] = []
        size, number, ended, torn = 0, first, False, False
        while not ended and (place.last is None or number <= place.last):
            wanted = CHUNK if place.last is None else min(CHUNK, place.last - number + 1)
            lines = source.take(wanted)
            for line in lines:
                entry = mark_invisible(clean(f"{number}\t{line}"))
                if shown and size + len(entry) + 1 > room:
                    ended = True
                    break
                torn = torn or is_shortened(line) or len(entry) > max(room, LEAST)
                shown.append(entry[: max(room, LEAST)])
                size += len(entry) + 1
                number += 1
            ended = ended or len(lines) < wanted
        total, notes, sha256 = source.total, source.notes, source.sha256
    finally:
        source.close()
    if not shown and (total or first > 1):
        raise ToolError(f"it has only {total or 0:,} lines.", "out_of_range")
    label, note = _label(target.display, place, first, number - 1, total, torn)
    if torn:
        label += "; the ends of long lines are missing"
        note = f"{note}, long lines cut" if note else "long lines cut"
    if notes:
        label += f" [{'; '.join(notes)}]"
    return Attachment(
        display=f"{target.display}{place.text[place.text.rindex(':L') :] if place.first else ''}",
        path=str(target.path),
        kind="file" if place.first is None else "lines",
        label=label,
        text="\n".join(shown),
        note=note,
        sha256=sha256,
    )


def _label(display: str, place: LineRange, first: int, last: int, total: int | None, torn: bool) -> tuple[str, str]:
    """What the model is told of the lines, and what the user is told of those that are missing."""
    name = printable_name(display)
    of = "" if total is None else f" of {total:,}"
    if last < first:
        return f"{name}, an empty file", ""
    wanted = total if place.last is None else min(place.last, total or place.last)
    if place.first is None and last == total and not torn:
        return f"{name}, all of it ({total:,} lines)", ""
    lines = f"{name}, lines {first}-{last}{of}"
    if wanted is not None and last >= wanted:
        return lines, ""
    cut = f"cut after line {last:,}{of}"
    return f"{lines}, cut there; read_file with start_line={last + 1} gives the rest", cut


def _folder(one: _Found, roots: Sequence[Path], room: int) -> Attachment:
    """What is in a folder, in `room` characters. Raises ToolError."""
    target = one.target
    assert target is not None
    shown = str(list_folder(target.path, DEPTH, roots, threading.Event()).data)
    text = mark_invisible(clean(shown))
    note = ""
    if len(text) > room:
        text = text[:room].rpartition("\n")[0] or text[:room]
        note = f"cut after {text.count(chr(10)) + 1:,} entries"
    name = "the working folder" if target.display == "." else f"the folder {printable_name(target.display)}"
    label = f"What is in {name}, {DEPTH} levels deep" + (f", {note}; list_files gives more" if note else "")
    return Attachment(display=target.display, path=str(target.path), kind="folder", label=label, text=text, note=note)
