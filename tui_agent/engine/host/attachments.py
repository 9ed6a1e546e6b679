"""Attachments: the content of the files and folders mentioned in a message (H7)."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tui_agent.common.domain import Target
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.core.history import STANDARD_INPUT
from tui_agent.engine.core.tokens import characters_in_window
from tui_agent.events import Attachment, ContextAttached, Notice
from tui_agent.mentions.syntax import Mention, MentionTarget, mentions
from tui_agent.text import clean, mark_invisible, pluralize
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

MAX_TOTAL = 60_000
"""Maximum characters attached to one message."""
WINDOW_SHARE = 0.4
"""Maximum share of the context window attached to one message."""
MIN_ROOM = 500
"""Remaining characters below which nothing more is attached."""
FOLDER_DEPTH = 2
"""Levels of a folder that are listed."""
CHUNK_LINES = 200
"""Lines read at a time."""


class Attachments:
    """Attaches what messages mention.

    As with `read_file`, paths outside the roots or with credentials need approval (A2, A4).
    """

    def __init__(self, stream: SessionStream, environment: ToolEnvironment) -> None:
        self._stream = stream
        self._environment = environment
        self.window: int | None = None
        """Size of the context window in tokens, if known."""

    async def attach(self, run: str, inputs: dict[str, str]) -> None:
        """Resolve the pending mentions of all messages; a notice reports what can't be attached.

        `inputs` maps ids of messages to text from standard input to attach to them; attached ones are removed. Raises
        only cancellation and JournalBroken; the remaining messages then stay pending.
        """
        state = self._stream.state
        for message, text in tuple(state.pending_mentions):
            resolved = await asyncio.to_thread(_resolve_mentions, text, self._environment)
            if resolved or message in inputs:
                await self._attach(message, resolved, inputs.pop(message, ""), run)
            state.mentions_handled(message)

    async def _attach(self, message: str, resolved: list[_ResolvedMention], piped: str, run: str) -> None:
        from tui_agent.engine.host.tool_context import CallContext

        ctx = CallContext(self._environment, run=run, node=run)
        try:
            items = await self._read_all(resolved, piped, ctx, run)
        finally:
            ctx.close()
        if items:
            self._stream.emit(ContextAttached(message=message, items=tuple(items)), run=run)
            touched = (f"{item.path}/*" if item.kind == "folder" else item.path for item in items if item.path)
            await self._environment.add_rules(tuple(touched), run)

    async def _read_all(
        self, resolved: list[_ResolvedMention], piped: str, ctx: CallContext, run: str
    ) -> list[Attachment]:
        """Read the attachments, after the text `piped`; emit notices about those that can't be read."""
        items: list[Attachment] = []
        room = characters_in_window(self.window, WINDOW_SHARE, MAX_TOTAL)
        if piped:
            items.append(_piped_text(piped, room))
            room -= len(items[0].text)
            if items[0].note:
                text = f"Standard input is {items[0].note}. For all of it, save it to a file and name that in the task."
                self._stream.emit(Notice(level="warning", text=text, code="attach.cut"), run=run)
        for mention in resolved:
            try:
                if room < MIN_ROOM:
                    raise ToolError("there is no room left; the agent reads it itself.", "too_large")
                item = await self._read(mention, ctx, room)
            except ToolRefused:  # its message is meant for the model
                self._report_failure(mention.place.text, "reading it was refused.", run)
            except ToolError as error:
                self._report_failure(mention.place.text, str(error), run)
            except OSError as error:
                self._report_failure(mention.place.text, f"{error.strerror or error}.", run)
            except JournalBroken:
                raise
            except Exception:
                log.exception("a mention could not be attached")
                self._report_failure(mention.place.text, "it can't be read; the details are in the debug log.", run)
            else:
                room -= len(item.text)
                items.append(item)
        return items

    async def _read(self, mention: _ResolvedMention, ctx: CallContext, room: int) -> Attachment:
        if mention.target is None:
            raise ToolError(mention.fault, "not_found")
        await permit_read(ctx, mention.target)
        cap = self._environment.settings.caps.attachment_characters
        if mention.target.path.is_dir():
            return await asyncio.to_thread(_read_folder, mention, self._environment.roots.folders, min(cap, room))
        room = min(room, cap if mention.place.first is None else MAX_RESULT_SIZE)
        stop = threading.Event()
        try:
            item = await asyncio.to_thread(_read_lines, mention, room, stop)
        finally:
            stop.set()
        if item.sha256 is not None:
            self._environment.mark_seen(mention.target.path, item.sha256)
        return item

    def _report_failure(self, mention: str, reason: str, run: str) -> None:
        text = clean(f"{mention} is not attached: {reason}")
        self._stream.emit(Notice(level="warning", text=text, code="attach.failed"), run=run)


class _ResolvedMention(NamedTuple):
    """A mention and its file or folder; without one, `fault` says why."""

    place: MentionTarget
    target: Target | None
    fault: str = ""


def _resolve_mentions(text: str, environment: ToolEnvironment) -> list[_ResolvedMention]:
    unique: dict[object, _ResolvedMention] = {}
    for mention in mentions(text):
        resolved = _resolve(mention, environment)
        if resolved is not None:
            place, target = resolved.place, resolved.target
            unique.setdefault(place if target is None else (target.path, place.first, place.last), resolved)
    return list(unique.values())


def _resolve(mention: Mention, environment: ToolEnvironment) -> _ResolvedMention | None:
    from tui_agent.safety.roots import PathError

    fault = "there is no such file."
    for place in mention.targets:
        try:
            target = environment.roots.resolve(place.path)
        except PathError as error:
            fault = str(error)
            continue
        if os.path.exists(target.path):
            return _ResolvedMention(place, target)
    shortest = mention.targets[-1]
    return _ResolvedMention(shortest, None, fault) if mention.certain else None


# --- reading -------------------------------------------------------------------------------


def _piped_text(text: str, room: int) -> Attachment:
    """Return standard input, up to `room` characters."""
    lines = [mark_invisible(clean(line)) for line in text.removesuffix("\n").split("\n")]
    kept, size = 0, 0
    while kept < len(lines) and size + len(lines[kept]) < room:
        size += len(lines[kept]) + 1
        kept += 1
    complete = kept == len(lines)
    total = pluralize(len(lines), "line")
    if complete:
        part = f"all of it ({total})"
    else:
        part = f"{f'lines 1-{kept}' if kept else 'the beginning of line 1'} of {total}, cut there"
    return Attachment(
        display=STANDARD_INPUT,
        path="",
        kind="input",
        label=f"{STANDARD_INPUT}, {part}",
        text="\n".join(lines[:kept]) if kept else lines[0][:room],
        note="" if complete else f"cut after line {kept:,} of {len(lines):,}" if kept else "cut within its first line",
    )


def _read_lines(mention: _ResolvedMention, room: int, stop: threading.Event) -> Attachment:
    """Read a file, or lines of it, as `read_file` does, up to `room` characters. Raises ToolError and OSError."""
    target, place = mention.target, mention.place
    assert target is not None
    source = open_lines(target, None, stop)
    try:
        first = place.first or 1
        source.skip(first - 1)
        entries: list[str] = []
        size, number, ended, is_cut = 0, first, False, False
        while not ended and (place.last is None or number <= place.last):
            requested = CHUNK_LINES if place.last is None else min(CHUNK_LINES, place.last - number + 1)
            lines = source.take(requested)
            for line in lines:
                entry = mark_invisible(clean(f"{number}\t{line}"))
                if entries and size + len(entry) + 1 > room:
                    ended = True
                    break
                is_cut = is_cut or is_shortened(line) or len(entry) > max(room, MIN_ROOM)
                entries.append(entry[: max(room, MIN_ROOM)])
                size += len(entry) + 1
                number += 1
            ended = ended or len(lines) < requested
        total, notes, sha256 = source.total, source.notes, source.sha256
    finally:
        source.close()
    if not entries and (total or first > 1):
        raise ToolError(f"it has only {total or 0:,} lines.", "out_of_range")
    label, note = _label(target.display, place, first, number - 1, total, is_cut)
    if is_cut:
        label += "; the ends of long lines are missing"
        note = f"{note}, long lines cut" if note else "long lines cut"
    if notes:
        label += f" [{'; '.join(notes)}]"
    return Attachment(
        display=f"{target.display}{place.text[place.text.rindex(':L') :] if place.first else ''}",
        path=str(target.path),
        kind="file" if place.first is None else "lines",
        label=label,
        text="\n".join(entries),
        note=note,
        sha256=sha256,
    )


def _label(
    display: str, place: MentionTarget, first: int, last: int, total: int | None, is_cut: bool
) -> tuple[str, str]:
    """Return the label for the model, and the note for the user about missing lines."""
    name = printable_name(display)
    out_of = "" if total is None else f" of {total:,}"
    if last < first:
        return f"{name}, an empty file", ""
    requested = total if place.last is None else min(place.last, total or place.last)
    if place.first is None and last == total and not is_cut:
        return f"{name}, all of it ({total:,} lines)", ""
    lines = f"{name}, lines {first}-{last}{out_of}"
    if requested is not None and last >= requested:
        return lines, ""
    note = f"cut after line {last:,}{out_of}"
    return f"{lines}, cut there; read_file with start_line={last + 1} gives the rest", note


def _read_folder(mention: _ResolvedMention, roots: Sequence[Path], room: int) -> Attachment:
    """List a folder, in up to `room` characters. Raises ToolError."""
    target = mention.target
    assert target is not None
    listing = list_folder(target.path, FOLDER_DEPTH, roots, threading.Event()).data
    text = mark_invisible(clean(str(listing)))
    note = ""
    if len(text) > room:
        text = text[:room].rpartition("\n")[0] or text[:room]
        note = f"cut after {text.count(chr(10)) + 1:,} entries"
    name = "the working folder" if target.display == "." else f"the folder {printable_name(target.display)}"
    label = f"What is in {name}, {FOLDER_DEPTH} levels deep" + (f", {note}; list_files gives more" if note else "")
    return Attachment(display=target.display, path=str(target.path), kind="folder", label=label, text=text, note=note)
