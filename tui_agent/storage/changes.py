"""Changing a session that is not open: its title, its records, deleting it; and forking sessions (S3).

A copy becomes a session only when it is complete. The original is only read, so it may be open: the copy then ends with
its last intact record.
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
from tui_agent.storage.catalog import MAX_TITLE_LENGTH, SessionEntry
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
    is_regular_file,
    is_session,
    load_info,
    make_folder,
    rebuild_info,
    start_from_name,
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
    """Rename a session and return the title as stored. Raises SessionError.

    `mask` hides secrets in `chat_history.log`, whose missing end may have to be rewritten.
    """
    path, title = entry.path, one_line(title, MAX_TITLE_LENGTH)
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
    """Delete a session with all its files. Raises SessionError if it is open or a file can't be deleted.

    The journal goes first: without it the folder is no longer a session.
    """
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
    """Hold the session's lock. Raises SessionError, with the advice `instead` if it is in use."""
    if not is_session(path):
        raise SessionError(f"There is no session in {path}.")
    try:
        lock = FileLock(path / LOCK)
    except InUse as error:
        raise SessionError(f"{error} {instead}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise SessionError(f"Session {path.name} can't be locked: {reason}. Nothing was changed.") from error
    with lock:
        yield


def check_readable(path: Path) -> None:
    """Raise SessionError if this program can't resume the session."""
    if info_version(path) > INFO_VERSION:
        raise SessionError(f"Session {path.name} was last used by a newer tui-agent. Update to use it.")
    if not is_regular_file(path / JOURNAL):
        raise SessionError(f"Session {path.name} has no {JOURNAL}: nothing to resume.")


def add_records(path: Path, new_events: Iterable[e.Event], mask: SecretMask, name: str = JOURNAL) -> None:
    """Append events to a session's journal, called `name`, and log, durably. The caller holds the lock.

    Raises SessionError; the journal is intact then, with or without them.
    """
    try:
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(contextlib.closing(Appender(path / LOG, lines=False)))
            chat = ChatLog(mask)
            last = Recovery(path / name, log, chat).run().last
            journal = stack.enter_context(contextlib.closing(Appender(path / name)))
            journal.end_line()
            size = log.size
            lines: list[bytes] = []
            texts: list[bytes] = []
            for seq, event in enumerate(new_events, last + 1):
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


BLOBS = "blobs"
PARTIAL_JOURNAL = "events.jsonl.part"
"""The journal while copying: a folder without a journal is no session."""
COMPANION_FILES = re.compile(r"rejected-[^/]*\.txt|plan_doc\.aside-[^/]*\.md")
"""Files named by records or the plan that must be copied too."""
QUEUE_EVENTS = {e.MessageQueued.type, e.MessageWithdrawn.type, e.UserMessageAdded.type}
"""Events that determine the queue."""
CHUNK_SIZE = 1 << 20
FORK_SUFFIX = " (fork)"


class ForkPoint(msgspec.Struct):
    """Where a copy ends, and the state at that point."""

    size: int = 0
    """Number of copied records."""
    log: int | None = None
    """Size of the log up to there; None for all of it."""
    before: str = ""
    """Text of the message before which it ends."""
    view: SessionView = msgspec.field(default_factory=SessionView)
    """The queue and, if needed, the plan document."""


def fork_session(entry: SessionEntry, at: str | None = None, mask: SecretMask | None = None) -> str:
    """Fork a session and return the new id. Raises SessionError.

    Copies everything, or with `at` (the id of a user message) what was there before that message. The original may be
    open and is not changed.
    """
    source = entry.path
    check_readable(source)
    try:
        with contextlib.ExitStack() as cleanup:
            target = make_folder(source.parent, folder_name(datetime.now().astimezone()))
            cleanup.callback(shutil.rmtree, target, ignore_errors=True)
            with FileLock(target / LOCK):
                _copy_session(source, target, at, entry.title, mask or SecretMask({}))
            cleanup.pop_all()
    except OSError as error:
        raise SessionError(f"Session {source.name} could not be copied: {error}.") from error
    return target.name


def _copy_session(source: Path, target: Path, at: str | None, title: str, mask: SecretMask) -> None:
    # The log comes before the journal: records missing in the copied log are added to it later.
    _copy(source / LOG, target / LOG)
    fork_point = _copy_journal(source / JOURNAL, target / PARTIAL_JOURNAL, at)
    if fork_point.log is not None:
        os.truncate(target / LOG, min(fork_point.log, (target / LOG).stat().st_size))
    _copy_plan(source, target, fork_point, at)
    for name in _companion_files(source):
        _copy(source / name, target / name)
    _link_blobs(source / BLOBS, target / BLOBS)
    forked = e.SessionForked(parent=source.name, before=fork_point.before)
    remaining = [e.MessageWithdrawn(id=message.id) for message in fork_point.view.queue]
    title = title.removesuffix(FORK_SUFFIX) + FORK_SUFFIX if title else ""
    titled = [e.SessionTitled(title=title)] if title else []
    add_records(target, [forked, *remaining, *titled], mask, PARTIAL_JOURNAL)
    os.rename(target / PARTIAL_JOURNAL, target / JOURNAL)
    info = load_info(source) or rebuild_info(target)
    now = datetime.now().astimezone().isoformat(timespec="milliseconds")
    write_info(
        target,
        msgspec.structs.replace(
            info,
            id=target.name,
            title=title,
            started_at=start_from_name(target.name),
            updated_at=now,
            status="ended",
            parent=source.name,
        ),
    )
    sync_folder(target)
    sync_folder(target.parent)


def _copy_journal(source: Path, target: Path, at: str | None) -> ForkPoint:
    """Copy the intact records in order, byte for byte. Raises SessionError, OSError."""
    fork_point = ForkPoint()
    is_complete = at is None
    folded_types = QUEUE_EVENTS if is_complete else {*QUEUE_EVENTS, e.PlanDocChanged.type}
    with open(target, "xb", opener=_open_private) as out:
        for line in JournalReader(source):
            if not isinstance(line, JournalLine):
                continue
            if at is not None and line.type == e.UserMessageAdded.type:
                event = line.record().event
                if isinstance(event, e.UserMessageAdded) and event.id == at:
                    fork_point.before, fork_point.log, is_complete = event.text, line.log, True
                    break
            if line.type in folded_types:
                fold_record(fork_point.view, line.record())
            out.write(line.raw)
            fork_point.size += 1
        out.flush()
        os.fsync(out.fileno())
    if not is_complete:
        raise SessionError(f"There is no message {one_line(at or '')!r} in session {source.parent.name}.")
    if not fork_point.size:
        raise SessionError(f"No record of session {source.parent.name} can be read: nothing to copy.")
    return fork_point


def _copy_plan(source: Path, target: Path, fork_point: ForkPoint, at: str | None) -> None:
    """Copy the plan document as of the cut, or the current one."""
    if at is None and is_regular_file(source / PLAN):
        _copy(source / PLAN, target / PLAN)
        return
    milliseconds = round(datetime.now().timestamp() * 1000)
    text = fork_point.view.plan.text if fork_point.view.plan.changed_by else plan_template(milliseconds)
    write_new(target / PLAN, text.encode("utf-8", "surrogateescape"))


def _companion_files(source: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for item in os.scandir(source):
            if COMPANION_FILES.fullmatch(item.name) and item.is_file(follow_symlinks=False):
                yield item.name


def _link_blobs(source: Path, target: Path) -> None:
    """Link the blobs, which never change, or copy them where hard links are not supported."""
    if source.is_symlink() or not source.is_dir():
        return
    os.mkdir(target, 0o700)
    for folder in os.scandir(source):
        if not folder.is_dir(follow_symlinks=False):
            continue
        os.mkdir(target / folder.name, 0o700)
        for item in os.scandir(folder.path):
            if item.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):  # the original may be pruning
                    _link_or_copy(Path(item.path), target / folder.name / item.name)
        sync_folder(target / folder.name)
    sync_folder(target)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:
        _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    """Copy the current bytes of a regular file durably; a missing one becomes empty. Raises OSError."""
    with open(target, "xb", opener=_open_private) as out:
        if os.path.lexists(source):
            with open(source, "rb", opener=_open_private) as file:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    shutil.copyfileobj(file, out, CHUNK_SIZE)
        out.flush()
        os.fsync(out.fileno())


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
