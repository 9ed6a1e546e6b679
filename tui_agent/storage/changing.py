"""Changing a session that no process works in: its title, its records, its end (S3)."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from tui_agent import events as e
from tui_agent.platform.append import Appender, AppendError
from tui_agent.platform.locks import FileLock, InUse
from tui_agent.storage.chat_log import ChatLog
from tui_agent.storage.folder import (
    INFO_VERSION,
    JOURNAL,
    LOCK,
    LOG,
    SessionError,
    is_session,
    load_info,
    regular,
    version_of,
    write_info,
)
from tui_agent.storage.lines import to_line
from tui_agent.storage.recovery import Recovery
from tui_agent.text import Mask


def rename_session(path: Path, title: str, mask: Mask) -> str:
    """Write the title into journal and info; returns it. Raises SessionError."""
    if not title:
        raise SessionError("A title needs at least one letter.")
    with held(path, "It can be renamed once it has ended."):
        check_readable(path)
        add_records(path, [e.SessionTitled(title=title)], mask)
        info = load_info(path)
        if info is not None:
            write_info(path, msgspec.structs.replace(info, title=title))
    return title


def delete_session(path: Path) -> None:
    """Delete the folder; without its journal it is no session any more, whatever becomes of the rest.

    Raises SessionError.
    """
    with held(path, "Quit it first."):
        try:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(path / JOURNAL)
            shutil.rmtree(path)  # does not follow symlinks
        except OSError as error:
            if os.path.lexists(path / JOURNAL):
                raise SessionError(f"Session {path.name} could not be deleted: {error}.") from error
            raise SessionError(
                f"The conversation of session {path.name} is deleted, but files of it are left in {path}: {error}."
            ) from error


@contextlib.contextmanager
def held(path: Path, instead: str) -> Iterator[None]:
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
    if version_of(path) > INFO_VERSION:
        raise SessionError(f"Session {path.name} was last used by a newer tui-agent. Update to use it.")
    if not regular(path / JOURNAL):
        raise SessionError(f"Session {path.name} has no {JOURNAL}: there is nothing to go on with.")


def add_records(path: Path, new: Iterable[e.Event], mask: Mask, name: str = JOURNAL) -> None:
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
