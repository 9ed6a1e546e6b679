"""A copy of a session that goes its own way: built whole beside the others, and a session only at the end (S3).

The original is read only, so it may be running: then the copy goes up to its last intact record.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from tui_agent import events as e
from tui_agent.platform.append import sync_folder
from tui_agent.platform.locks import FileLock
from tui_agent.storage.changing import add_records, check_readable
from tui_agent.storage.folder import (
    JOURNAL,
    LOCK,
    LOG,
    PLAN,
    PLAN_TEMPLATE,
    SessionError,
    folder_name,
    load_info,
    make_folder,
    rebuild,
    regular,
    start_in,
    write_info,
    write_new,
)
from tui_agent.storage.journal import JournalReader
from tui_agent.storage.lines import Line
from tui_agent.text import Mask, one_line

BLOBS = "blobs"
PART = "events.jsonl.part"
"""The journal while the copy is made: without a journal a folder is no session."""
BESIDE = re.compile(r"rejected-[^/]*\.txt|plan_doc\.aside-[^/]*\.md")
"""Files that records or the plan name and that the copy needs too."""
CHUNK = 1 << 20
FORK = " (fork)"


class Cut(msgspec.Struct):
    """Where the copy ends, and what is known there."""

    size: int = 0
    """Records that are copied."""
    log: int | None = None
    """Bytes of the log that belong to them; None for all."""
    before: str = ""
    """The text of the message before which it ends."""
    queued: dict[str, None] = msgspec.field(default_factory=dict)
    """Messages that wait there."""
    plan: str | None = None
    """The plan document's text there, as far as it is looked for."""


def copy_session(source: Path, at: str | None, title: str, mask: Mask) -> Path:
    """The folder of the copy: all of the session in `source`, or what was there before the message with id `at`.

    `title` is the original's, `mask` hides secrets in the copy's log. Raises SessionError.
    """
    check_readable(source)
    target: Path | None = None
    try:
        now = datetime.now().astimezone()
        target = make_folder(source.parent, folder_name(now))
        with FileLock(target / LOCK):
            _fill(source, target, at, title, mask)
    except OSError as error:
        _clear(target)
        raise SessionError(f"Session {source.name} could not be copied: {error}.") from error
    except BaseException:
        _clear(target)
        raise
    return target


def _clear(target: Path | None) -> None:
    if target is not None:
        shutil.rmtree(target, ignore_errors=True)


def _fill(source: Path, target: Path, at: str | None, title: str, mask: Mask) -> None:
    # the log before the journal: what it tells is then in the journal for sure, and what it lacks is told again
    _copy(source / LOG, target / LOG)
    cut = _copy_journal(source / JOURNAL, target / PART, at)
    if cut.log is not None:
        os.truncate(target / LOG, min(cut.log, (target / LOG).stat().st_size))
    _copy_plan(source, target, cut, at)
    for name in _beside(source):
        _copy(source / name, target / name)
    _link_blobs(source / BLOBS, target / BLOBS)
    forked = e.SessionForked(parent=source.name, before=cut.before)
    left = [e.MessageWithdrawn(id=message) for message in cut.queued]
    title = title.removesuffix(FORK) + FORK if title else ""
    titled = [e.SessionTitled(title=title)] if title else []
    add_records(target, [forked, *left, *titled], mask, PART)
    os.rename(target / PART, target / JOURNAL)
    info = load_info(source) or rebuild(target)
    at_now = datetime.now().astimezone().isoformat(timespec="milliseconds")
    write_info(
        target,
        msgspec.structs.replace(
            info,
            id=target.name,
            title=title,
            started_at=start_in(target.name),
            updated_at=at_now,
            status="ended",
            parent=source.name,
        ),
    )
    sync_folder(target)
    sync_folder(target.parent)


def _copy_journal(source: Path, target: Path, at: str | None) -> Cut:
    """The intact records in the order of their numbers; their bytes as they are. Raises SessionError, OSError."""
    cut = Cut()
    found = at is None
    with open(target, "xb", opener=_private) as out:
        for line in JournalReader(source):
            if not isinstance(line, Line):
                continue
            if at is not None and line.type == e.UserSaid.type:
                event = line.record().event
                if isinstance(event, e.UserSaid) and event.id == at:
                    cut.before, cut.log, found = event.text, line.log, True
                    break
            _note(cut, line, at is not None)
            out.write(line.raw)
            cut.size += 1
        out.flush()
        os.fsync(out.fileno())
    if not found:
        raise SessionError(f"There is no message {one_line(at or '')!r} in session {source.parent.name}.")
    if not cut.size:
        raise SessionError(f"No record of session {source.parent.name} can be read: nothing to copy.")
    return cut


_NOTED = frozenset(
    (
        e.MessageQueued.type,
        e.MessageWithdrawn.type,
        e.UserSaid.type,
        e.PlanDocChanged.type,
    )
)


def _note(cut: Cut, line: Line, plans: bool) -> None:
    if line.type not in _NOTED or (line.type == e.PlanDocChanged.type and not plans):
        return
    match line.record().event:
        case e.MessageQueued(id=message):
            cut.queued[message] = None
        case e.MessageWithdrawn(id=message) | e.UserSaid(id=message):
            cut.queued.pop(message, None)
        case e.PlanDocChanged(pending=False, text=text):
            cut.plan = text


def _copy_plan(source: Path, target: Path, cut: Cut, at: str | None) -> None:
    """The plan document as it was at the cut; of the whole session as it is."""
    if at is None and regular(source / PLAN):
        _copy(source / PLAN, target / PLAN)
        return
    milliseconds = round(datetime.now().timestamp() * 1000)
    text = PLAN_TEMPLATE.format(milliseconds=milliseconds) if cut.plan is None else cut.plan
    write_new(target / PLAN, text.encode("utf-8", "surrogateescape"))


def _beside(source: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for one in os.scandir(source):
            if BESIDE.fullmatch(one.name) and one.is_file(follow_symlinks=False):
                yield one.name


def _link_blobs(source: Path, target: Path) -> None:
    """Contents never change under their name, so both sessions may have the same file; copied where links can't be."""
    if source.is_symlink() or not source.is_dir():
        return
    os.mkdir(target, 0o700)
    for folder in os.scandir(source):
        if not folder.is_dir(follow_symlinks=False):
            continue
        os.mkdir(target / folder.name, 0o700)
        for one in os.scandir(folder.path):
            if one.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):  # the original may be pruning
                    _link(Path(one.path), target / folder.name / one.name)
        sync_folder(target / folder.name)
    sync_folder(target)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:
        _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    """The bytes that a regular file has now, durably; nothing where there is none. Raises OSError."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        fd = -1
    with open(target, "xb", opener=_private) as out:
        if fd < 0:
            return
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            left = status.st_size if stat.S_ISREG(status.st_mode) else 0
            while left > 0 and (data := file.read(min(left, CHUNK))):
                out.write(data)
                left -= len(data)
        out.flush()
        os.fsync(out.fileno())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
