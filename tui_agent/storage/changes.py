"""Changing a session that no process works in: its title, its records, its end; and copies of it (S3).

A copy is built whole beside the others, and is a session only at the end. The original is read only, so it may be
running: then the copy goes up to its last intact record.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from tui_agent import events as e
from tui_agent.common.workplan import plan_template
from tui_agent.platform.append import Appender, AppendError, sync_folder
from tui_agent.platform.locks import FileLock, InUse
from tui_agent.storage.catalog import TITLE_MAX, SessionEntry
from tui_agent.storage.chat_log import ChatLog
from tui_agent.storage.folder import (
    INFO_VERSION,
    JOURNAL,
    LOCK,
    LOG,
    PLAN,
    SessionError,
    folder_name,
    info_version,
    is_session,
    load_info,
    make_folder,
    rebuild,
    regular,
    start_in,
    write_info,
    write_new,
)
from tui_agent.storage.journal import JournalReader
from tui_agent.storage.lines import JournalLine, to_line
from tui_agent.storage.recovery import Recovery
from tui_agent.text import SecretMask, one_line
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView


def retitle_session(entry: SessionEntry, title: str, mask: SecretMask | None = None) -> str:
    """Give a session another title, for good; returns the title as it is kept. Raises SessionError.

    `mask` hides secrets in `chat_history.log`, should the end of it have been lost and be written again.
    """
    path, title = entry.path, one_line(title, TITLE_MAX)
    if not title:
        raise SessionError("A title needs at least one letter.")
    with session_lock(path, "Rename it once it has ended."):
        check_readable(path)
        add_records(path, [e.SessionTitled(title=title)], mask or SecretMask({}))
        info = load_info(path)
        if info is not None:
            write_info(path, msgspec.structs.replace(info, title=title))
    return title


def delete_session(entry: SessionEntry) -> None:
    """Delete a session and all its files for good; without its journal it is no session any more, whatever becomes of
    the rest. Raises SessionError: when it is running, or when a file can't be deleted."""
    path = entry.path
    with session_lock(path, "Quit it first."):
        try:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(path / JOURNAL)
            shutil.rmtree(path)  # does not follow symlinks
        except OSError as error:
            if os.path.lexists(path / JOURNAL):
                raise SessionError(f"Session {path.name} could not be deleted: {error}.") from error
            raise SessionError(
                f"The conversation of session {path.name} is deleted, but some files remain in {path}: {error}."
            ) from error


@contextlib.contextmanager
def session_lock(path: Path, instead: str) -> Iterator[None]:
    """Hold the session's lock. Raises SessionError; when it is in use, with `instead` as what to do."""
    if not is_session(path):
        raise SessionError(f"There is no session in {path}.")
    try:
        lock = FileLock(path / LOCK)
    except InUse as error:
        raise SessionError(f"{error} {instead}") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise SessionError(f"Session {path.name} can't be locked: {why}. Nothing was changed.") from error
    with lock:
        yield


def check_readable(path: Path) -> None:
    """Raises SessionError when the session can't be gone on with by this program."""
    if info_version(path) > INFO_VERSION:
        raise SessionError(f"Session {path.name} was last used by a newer tui-agent. Update to use it.")
    if not regular(path / JOURNAL):
        raise SessionError(f"Session {path.name} has no {JOURNAL}: nothing to resume.")


def add_records(path: Path, new: Iterable[e.Event], mask: SecretMask, name: str = JOURNAL) -> None:
    """Append events to a session's journal, called `name`, and log as the engine does, durably. Under its lock only.

    Raises SessionError; the journal is whole then, with or without them.
    """
    log = journal = None
    try:
        log = Appender(path / LOG, lines=False)
        chat = ChatLog(mask)
        seq = Recovery(path / name, log, chat).run().last
        journal = Appender(path / name)
        journal.heal()
        size = log.size
        lines: list[bytes] = []
        texts: list[bytes] = []
        for event in new:
            seq += 1
            at = datetime.now().astimezone().isoformat(timespec="milliseconds")
            record = e.Record(seq=seq, at=at, event=event)
            lines.append(to_line(record, size))
            texts.append(chat.project(record).encode())
            size += len(texts[-1])
        journal.append(lines)
        journal.sync()
        log.append(texts)
        log.sync()
    except AppendError as error:
        raise SessionError(f"Session {path.name} can't be written: {error}.") from error
    except OSError as error:
        raise SessionError(f"Session {path.name} can't be read: {error}.") from error
    finally:
        for one in (log, journal):
            if one is not None:
                one.close()


BLOBS = "blobs"
PART = "events.jsonl.part"
"""The journal while the copy is made: without a journal a folder is no session."""
COMPANIONS = re.compile(r"rejected-[^/]*\.txt|plan_doc\.aside-[^/]*\.md")
"""Files that records or the plan name and that the copy needs too."""
QUEUE = {e.MessageQueued.type, e.MessageWithdrawn.type, e.UserMessageAdded.type}
"""What tells which messages wait."""
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
    view: SessionView = msgspec.field(default_factory=SessionView)
    """The messages that wait there, and the plan document as far as it is looked for."""


def fork_session(entry: SessionEntry, at: str | None = None, mask: SecretMask | None = None) -> str:
    """A copy of the session under a new id, which is returned: all of it, or with `at` (the id of a message of the
    user's) what was there before that message. The original may be running and is not touched. Raises SessionError.
    """
    source = entry.path
    check_readable(source)
    target: Path | None = None
    try:
        now = datetime.now().astimezone()
        target = make_folder(source.parent, folder_name(now))
        with FileLock(target / LOCK):
            _fill(source, target, at, entry.title, mask or SecretMask({}))
    except OSError as error:
        _clear(target)
        raise SessionError(f"Session {source.name} could not be copied: {error}.") from error
    except BaseException:
        _clear(target)
        raise
    return target.name


def _clear(target: Path | None) -> None:
    if target is not None:
        shutil.rmtree(target, ignore_errors=True)


def _fill(source: Path, target: Path, at: str | None, title: str, mask: SecretMask) -> None:
    # the log before the journal: what it tells is then in the journal for sure, and what it lacks is told again
    _copy(source / LOG, target / LOG)
    cut = _copy_journal(source / JOURNAL, target / PART, at)
    if cut.log is not None:
        os.truncate(target / LOG, min(cut.log, (target / LOG).stat().st_size))
    _copy_plan(source, target, cut, at)
    for name in _companion_files(source):
        _copy(source / name, target / name)
    _link_blobs(source / BLOBS, target / BLOBS)
    forked = e.SessionForked(parent=source.name, before=cut.before)
    left = [e.MessageWithdrawn(id=message.id) for message in cut.view.queue]
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
    folded = QUEUE if found else {*QUEUE, e.PlanDocChanged.type}
    with open(target, "xb", opener=_private) as out:
        for line in JournalReader(source):
            if not isinstance(line, JournalLine):
                continue
            if at is not None and line.type == e.UserMessageAdded.type:
                event = line.record().event
                if isinstance(event, e.UserMessageAdded) and event.id == at:
                    cut.before, cut.log, found = event.text, line.log, True
                    break
            if line.type in folded:
                fold_record(cut.view, line.record())
            out.write(line.raw)
            cut.size += 1
        out.flush()
        os.fsync(out.fileno())
    if not found:
        raise SessionError(f"There is no message {one_line(at or '')!r} in session {source.parent.name}.")
    if not cut.size:
        raise SessionError(f"No record of session {source.parent.name} can be read: nothing to copy.")
    return cut


def _copy_plan(source: Path, target: Path, cut: Cut, at: str | None) -> None:
    """The plan document as it was at the cut; of the whole session as it is."""
    if at is None and regular(source / PLAN):
        _copy(source / PLAN, target / PLAN)
        return
    milliseconds = round(datetime.now().timestamp() * 1000)
    text = cut.view.plan.text if cut.view.plan.by else plan_template(milliseconds)
    write_new(target / PLAN, text.encode("utf-8", "surrogateescape"))


def _companion_files(source: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for one in os.scandir(source):
            if COMPANIONS.fullmatch(one.name) and one.is_file(follow_symlinks=False):
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
