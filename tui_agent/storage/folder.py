"""A session's folder: its name, its files, who works in it, and finding it again (S1, S3, R2.3, R2.6)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from tui_agent import events as e
from tui_agent.paths import ensure_private_dir
from tui_agent.platform.append import sync_folder
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import atomic_write, read_file, remove_leftovers
from tui_agent.platform.locks import FileLock, seems_held, shared_file_system
from tui_agent.storage.journal import records
from tui_agent.storage.session_files import keep_aside
from tui_agent.storage.session_files import make_folder as make_folder  # catalog and forks use these, too
from tui_agent.storage.session_files import regular as regular
from tui_agent.storage.session_files import write_new as write_new
from tui_agent.text import Mask, one_line

JOURNAL = "events.jsonl"
LOG = "chat_history.log"
PLAN = "plan_doc.md"
INFO = "session.json"
LOCK = "lock"

INFO_VERSION = 1
INFO_SIZE = 1 << 20
"""Bytes of `session.json` that are read."""
TITLE_LENGTH = 60

PLAN_TEMPLATE = """\
---
status: planning
createdAt: {milliseconds}
updatedAt: {milliseconds}
version: 1
---

# Plan: [Goal to be defined]

**Status:** planning

## Goal
[User will provide goal]

## Acceptance Criteria
- [ ] [Criteria will be added once goal is defined]

## Decisions Made
[No decisions yet]

## Decisions Rejected
[No rejected decisions yet]

## Execution Log
[No actions taken yet]
"""
"""The plan document of a new session (P2): bracketed placeholders read as empty. Times are epoch milliseconds."""

Status: TypeAlias = Literal["active", "ended", "crashed"]


_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}.*", re.DOTALL)


class SessionError(Exception):
    """A session can't be found or opened; the message says why and what to do."""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `session.json` holds: a cache, all of it can be told from the journal. Times are ISO 8601."""

    id: str
    title: str = ""
    started_at: str = ""
    updated_at: str = ""
    workspace: str = ""
    """Absolute, resolved."""
    model: str = ""
    mode: str = ""
    status: Status = "active"
    parent: str = ""
    """Id of the session that it is a fork of."""
    version: int = INFO_VERSION


class SessionFolder:
    """A session that this process works in: it holds the folder's lock until `close`."""

    def __init__(self, path: Path, lock: FileLock, info: SessionInfo) -> None:
        self.path = path
        self.id = path.name
        self.info = info
        self.journal = path / JOURNAL
        self.log = path / LOG
        self.plan = path / PLAN
        self.warning = _file_system_warning(path)
        """A sentence for the user when the folder lies where locks and saving may not hold (A24)."""
        self._lock = lock
        self._scratch: Path | None = None

    @classmethod
    def create(
        cls, sessions: Path, *, workspace: Path, model: str, mode: str, now: datetime | None = None
    ) -> SessionFolder:
        """A new session, named by its start. Two of one millisecond get two folders. Raises OSError."""
        now = now or datetime.now().astimezone()
        new = [folder for folder in (sessions, *sessions.parents) if not folder.exists()]
        path = make_folder(ensure_private_dir(sessions), folder_name(now))
        try:
            for made in new:  # a session that can be lost with the folder around it is not durable
                with contextlib.suppress(PermissionError):
                    sync_folder(made.parent)
            lock = FileLock(path / LOCK)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
        at = now.isoformat(timespec="milliseconds")
        info = SessionInfo(
            id=path.name,
            started_at=at,
            updated_at=at,
            workspace=os.path.realpath(workspace),
            model=model,
            mode=mode,
        )
        plan = PLAN_TEMPLATE.format(milliseconds=round(now.timestamp() * 1000)).encode()
        try:
            for name, data in ((PLAN, plan), (LOG, b""), (JOURNAL, b"")):
                write_new(path / name, data)
            folder = cls(path, lock, info)
            folder.save()
            sync_folder(path.parent)
        except BaseException:
            lock.release()
            shutil.rmtree(path, ignore_errors=True)  # nothing was said in it
            raise
        return folder

    @classmethod
    def open(cls, path: Path) -> SessionFolder:
        """An existing session. Raises InUse, SessionError (not a session, or of a newer program) or OSError."""
        if not path.is_dir() or not os.path.lexists(path / JOURNAL):
            raise SessionError(f"There is no session in {path}.")
        if not regular(path / JOURNAL):
            raise SessionError(f"{JOURNAL} in {path} is no regular file: there is nothing to go on with.")
        lock = FileLock(path / LOCK)
        try:
            remove_leftovers(path, time.time())
            if version_of(path) > INFO_VERSION:
                raise SessionError(
                    f"Session {path.name} was last used by a newer tui-agent. Update to open it; nothing was changed."
                )
            known = load_info(path)
            if known is None:
                keep_aside(path / INFO)
            if os.path.lexists(path / LOG) and not regular(path / LOG):
                keep_aside(path / LOG)  # it is told again from the journal
            info = msgspec.structs.replace(known or rebuild(path), id=path.name, status="active")
            folder = cls(path, lock, info)
            folder.save()
        except BaseException:
            lock.release()
            raise
        return folder

    def save(self, **changes: str) -> SessionInfo:
        """Set fields of `info` and write `session.json`. A failed write is no loss and is not reported."""
        self.info = msgspec.structs.replace(self.info, **changes)
        write_info(self.path, self.info)
        return self.info

    def scratch(self) -> Path:
        """The folder for temporary files, outside the workspace, made on first use (T6). Raises OSError."""
        if self._scratch is None:
            inside = self.path / "scratch"
            workspace = Path(self.info.workspace or os.sep)
            if self.info.workspace and Path(os.path.realpath(inside)).is_relative_to(workspace):
                self._scratch = Path(tempfile.mkdtemp(prefix="tui-agent-"))
            else:
                inside.mkdir(mode=0o700, exist_ok=True)
                self._scratch = inside
        return self._scratch

    def close(self, status: Status = "ended", now: datetime | None = None) -> None:
        """Empty the scratch folder, note how the session ended, and give the lock back."""
        if not self._lock.held:
            return
        for scratch in (self._scratch, self.path / "scratch"):
            if scratch is not None:
                shutil.rmtree(scratch, ignore_errors=True)  # does not follow symlinks
        self._scratch = None
        now = now or datetime.now().astimezone()
        self.save(status=status, updated_at=now.isoformat(timespec="milliseconds"))
        self._lock.release()


# --- finding sessions -----------------------------------------------------------------------


def list_sessions(sessions: Path) -> tuple[SessionInfo, ...]:
    """All sessions, the last used first. What `session.json` can't tell is told by the journal."""
    found = [(_touched(path), path.name, _summary(path)) for path in _folders(sessions)]
    return tuple(info for _, _, info in sorted(found, key=lambda item: item[:2], reverse=True))


def latest_for(sessions: Path, workspace: Path) -> Path | None:
    """The folder of the session last used in `workspace` (symlinks resolved); one in which nothing was said counts
    only when there is no other."""
    real = os.path.realpath(workspace)
    mine = [sessions / info.id for info in list_sessions(sessions) if info.workspace == real]
    return next((path for path in mine if _has_message(path)), mine[0] if mine else None)


def find(sessions: Path, prefix: str) -> Path:
    """The one session whose id is `prefix` or begins with it. Raises SessionError when none or several do."""
    names = [path.name for path in _folders(sessions)]
    hits = [name for name in names if name == prefix] or [
        name for name in names if prefix and name.startswith(prefix)
    ]
    if len(hits) == 1:
        return sessions / hits[0]
    if not hits:
        if prefix and prefix == os.path.basename(prefix) and is_session(sessions / prefix):
            raise SessionError(
                f"{one_line(prefix)} is no session to go on with: its {JOURNAL} is missing or no file."
            )
        raise SessionError(f"No session's id begins with {one_line(prefix)!r}.")
    listed = ", ".join(sorted(hits)[:5])
    raise SessionError(
        f"{len(hits)} sessions begin with {one_line(prefix)!r}: {listed}. Give more of the id."
    )


def rebuild(path: Path) -> SessionInfo:
    """What the journal in `path` tells of the session; constant memory, one pass."""
    info = SessionInfo(id=path.name, started_at=start_in(path.name), status="crashed")
    said = ""
    for record in records(path / JOURNAL):
        event = record.event
        changes: dict[str, str] = {"updated_at": record.at}
        match event:
            case e.SessionOpened():
                changes |= {
                    "workspace": os.path.realpath(event.workspace),
                    "model": event.model,
                    "mode": event.mode,
                }
                changes |= {"status": "crashed", "started_at": info.started_at or record.at}
            case e.SessionClosed():
                changes["status"] = "ended"
            case e.SessionForked():
                changes |= {"parent": event.parent, "started_at": info.started_at or record.at}
            case e.SessionTitled():
                changes["title"] = event.title
            case e.ModelChanged():
                changes["model"] = event.model
            case e.ModeChanged():
                changes["mode"] = event.mode
            case e.UserSaid() if not said:
                said = one_line(Mask({}).mask(event.text), TITLE_LENGTH)
        info = msgspec.structs.replace(info, **changes)
    return msgspec.structs.replace(info, title=info.title or said)


def folder_name(now: datetime) -> str:
    """`YYYY-MM-DDTHH:mm:ss.SSS` and the zone as `Z` or `+HHMM` (S1)."""
    zone = now.strftime("%z") or "+0000"
    stamp = now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}"
    return stamp + ("Z" if zone == "+0000" else zone)


def is_session(path: Path) -> bool:
    """Whether `path` is a session's folder, damaged or not: a real folder with a journal or an info of ours, or one
    that is named as only sessions are."""
    if path.is_symlink() or not path.is_dir():
        return False
    return regular(path / JOURNAL) or regular(path / INFO) or bool(_STAMP.fullmatch(path.name))


# --- parts ----------------------------------------------------------------------------------


def _folders(sessions: Path) -> Iterator[Path]:
    try:
        entries = list(os.scandir(sessions))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) and regular(sessions / entry.name / JOURNAL):
            yield sessions / entry.name


def _summary(path: Path) -> SessionInfo:
    info = load_info(path) or rebuild(path)
    status = info.status
    if status != "ended":
        status = "active" if seems_held(path / LOCK) else "crashed"
    return msgspec.structs.replace(info, id=path.name, status=status)


def load_info(path: Path) -> SessionInfo | None:
    """What `session.json` in `path` holds; None when it can't be read or is of a newer version."""
    try:
        data = read_file(path / INFO, INFO_SIZE).data
        info = msgspec.json.decode(data, type=SessionInfo)
    except (FileFault, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return info if info.version <= INFO_VERSION and info.id else None


def write_info(path: Path, info: SessionInfo) -> None:
    """Write `session.json` into `path`. What fails is no loss: the journal holds it all."""
    fields = msgspec.to_builtins(info)
    if not info.parent:
        del fields["parent"]
    data = msgspec.json.format(msgspec.json.encode(fields)) + b"\n"
    with contextlib.suppress(OSError, FileFault):
        atomic_write(path / INFO, data)


def version_of(path: Path) -> int:
    """The version that `session.json` in `path` names; 0 when it can't be read."""
    try:
        data = msgspec.json.decode(read_file(path / INFO, INFO_SIZE).data)
    except (FileFault, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0
    version = data.get("version", 0) if isinstance(data, dict) else 0
    return version if isinstance(version, int) else 0


def _touched(path: Path) -> int:
    try:
        return os.stat(path / JOURNAL).st_mtime_ns
    except OSError:
        return 0


def _has_message(path: Path) -> bool:
    """Whether anything was said, judged by the journal's beginning."""
    try:
        with open(path / JOURNAL, "rb") as file:
            head = file.read(1 << 18)
    except OSError:
        return False
    return len(head) == 1 << 18 or b'"type":"user.said"' in head


def start_in(name: str) -> str:
    """The start that a folder's name tells, as ISO 8601; empty when it is no such name."""
    stamp, zone = name[:23], name[23:].partition("-" if name[23:24] != "-" else "\0")[0]
    text = stamp + ("+00:00" if zone in ("Z", "") else zone)
    try:
        return datetime.fromisoformat(text).isoformat(timespec="milliseconds")
    except ValueError:
        return ""


def _file_system_warning(path: Path) -> str | None:
    kind = shared_file_system(path)
    if kind is None:
        return None
    return (
        f"The session lies on {kind}: there, locks may not hold between machines and saved data may be lost "
        "in a crash. Set TUI_AGENT_HOME to a folder on a local disk."
    )
