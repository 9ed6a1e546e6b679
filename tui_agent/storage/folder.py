"""The files of a session's folder: creating and opening it, and setting unusable files aside."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from tui_agent import events as e
from tui_agent.common.paths import ensure_private_dir
from tui_agent.common.workplan import plan_template
from tui_agent.platform.append import sync_folder
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import atomic_write, read_file, remove_leftovers
from tui_agent.platform.locks import FileLock, shared_file_system
from tui_agent.platform.temporary import TemporaryFolder
from tui_agent.storage.journal import JournalReader
from tui_agent.storage.lines import JournalLine
from tui_agent.text import SecretMask, one_line
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView


def make_folder(sessions: Path, name: str) -> Path:
    """Create a folder in `sessions` called `name`, with a number if it exists. Raises OSError."""
    for number in range(1, 10_000):
        path = sessions / (name if number == 1 else f"{name}-{number}")
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{sessions / name} exists")


def write_new(path: Path, data: bytes) -> None:
    """Create a private file durably; it must not exist. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(fd, remaining) :]
        os.fsync(fd)
    finally:
        with contextlib.suppress(OSError):  # errors of the data were reported by fsync
            os.close(fd)


def is_regular_file(path: Path) -> bool:
    """True for a regular file, not a symlink or pipe, which can be read without blocking."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def set_aside(path: Path) -> None:
    """Rename an unusable file, if it exists, to preserve its content. Never raises."""
    for number in range(1, 100):
        target = path.with_name(f"{path.name}.unreadable-{number}")
        if not os.path.lexists(target):
            with contextlib.suppress(OSError):
                os.rename(path, target)
            return


JOURNAL = "events.jsonl"
LOG = "chat_history.log"
PLAN = "plan_doc.md"
INFO = "session.json"
LOCK = "lock"

INFO_VERSION = 1
MAX_INFO_SIZE = 1 << 20
"""Bytes of `session.json` that are read."""
MAX_FALLBACK_TITLE = 60

Status: TypeAlias = Literal["active", "ended", "crashed"]


_SESSION_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}.*", re.DOTALL)


class SessionError(Exception):
    """A session can't be found or opened; the message says why and what to do."""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of `session.json`, a cache of what the journal says. Times are ISO 8601."""

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
    """Id of the session it was forked from."""
    version: int = INFO_VERSION


class SessionFolder:
    """A session opened by this process, which holds the folder's lock until `close`."""

    def __init__(self, path: Path, lock: FileLock, info: SessionInfo) -> None:
        self.path = path
        self.id = path.name
        self.info = info
        self.journal = path / JOURNAL
        self.log = path / LOG
        self.plan = path / PLAN
        self.warning = _file_system_warning(path)
        """A warning for the user if the file system may not support locks and syncing."""
        self._lock = lock
        self._scratch: Path | None = None
        self._temporary: TemporaryFolder | None = None
        """The scratch folder, if it is outside the session's folder."""

    @classmethod
    def create(
        cls, sessions: Path, *, workspace: Path, model: str, mode: str, now: datetime | None = None
    ) -> SessionFolder:
        """Create a session named by its start time. Raises OSError."""
        now = now or datetime.now().astimezone()
        missing = [folder for folder in (sessions, *sessions.parents) if not folder.exists()]
        path = make_folder(ensure_private_dir(sessions), folder_name(now))
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(shutil.rmtree, path, ignore_errors=True)  # it has no content yet
            for parent in missing:  # a session is durable only if its parent folders are
                with contextlib.suppress(PermissionError):
                    sync_folder(parent.parent)
            lock = FileLock(path / LOCK)
            cleanup.callback(lock.release)
            at = now.isoformat(timespec="milliseconds")
            root = os.path.realpath(workspace)
            info = SessionInfo(id=path.name, started_at=at, updated_at=at, workspace=root, model=model, mode=mode)
            plan = plan_template(round(now.timestamp() * 1000)).encode()
            for name, data in ((PLAN, plan), (LOG, b""), (JOURNAL, b"")):
                write_new(path / name, data)
            folder = cls(path, lock, info)
            folder.save()
            sync_folder(path.parent)
            cleanup.pop_all()
        return folder

    @classmethod
    def open(cls, path: Path) -> SessionFolder:
        """Open a session. Raises InUse, SessionError (no session, or of a newer version) or OSError."""
        if not path.is_dir() or not os.path.lexists(path / JOURNAL):
            raise SessionError(f"There is no session in {path}.")
        if not is_regular_file(path / JOURNAL):
            raise SessionError(f"{JOURNAL} in {path} is not a regular file: nothing to resume.")
        lock = FileLock(path / LOCK)
        try:
            remove_leftovers(path, time.time())
            if info_version(path) > INFO_VERSION:
                raise SessionError(
                    f"Session {path.name} was last used by a newer tui-agent. Update to open it; nothing was changed."
                )
            saved_info = load_info(path)
            if saved_info is None:
                set_aside(path / INFO)
            if os.path.lexists(path / LOG) and not is_regular_file(path / LOG):
                set_aside(path / LOG)  # it is rebuilt from the journal
            info = msgspec.structs.replace(saved_info or rebuild_info(path), id=path.name, status="active")
            folder = cls(path, lock, info)
            folder.save()
        except BaseException:
            lock.release()
            raise
        return folder

    def save(self, **changes: str) -> SessionInfo:
        """Set fields of `info` and write `session.json`. Write errors are ignored: it is only a cache."""
        self.info = msgspec.structs.replace(self.info, **changes)
        write_info(self.path, self.info)
        return self.info

    def scratch(self) -> Path:
        """Return the scratch folder, outside the workspace, created on first use (T6). Raises OSError."""
        if self._scratch is None:
            inside = self.path / "scratch"
            workspace = Path(self.info.workspace or os.sep)
            if self.info.workspace and Path(os.path.realpath(inside)).is_relative_to(workspace):
                self._temporary = TemporaryFolder("scratch")
                self._scratch = self._temporary.path
            else:
                inside.mkdir(mode=0o700, exist_ok=True)
                self._scratch = inside
        return self._scratch

    def close(self, status: Status = "ended", now: datetime | None = None) -> None:
        """Delete the scratch folder, record the status, and release the lock."""
        if not self._lock.held:
            return
        if self._temporary is not None:
            self._temporary.remove()
        shutil.rmtree(self.path / "scratch", ignore_errors=True)  # does not follow symlinks
        self._scratch = self._temporary = None
        now = now or datetime.now().astimezone()
        self.save(status=status, updated_at=now.isoformat(timespec="milliseconds"))
        self._lock.release()


# --- finding sessions -----------------------------------------------------------------------


def find_session(sessions: Path, prefix: str) -> Path:
    """Return the session whose id is or starts with `prefix`. Raises SessionError unless there is exactly one."""
    matches = [path.name for path in session_folders(sessions) if prefix and path.name.startswith(prefix)]
    if prefix in matches or len(matches) == 1:
        return sessions / (prefix if prefix in matches else matches[0])
    if not matches:
        if prefix and prefix == os.path.basename(prefix) and is_session(sessions / prefix):
            raise SessionError(f"{one_line(prefix)} can't be resumed: its {JOURNAL} is missing or not a file.")
        raise SessionError(f"No session id starts with {one_line(prefix)!r}.")
    listed = ", ".join(sorted(matches)[:5])
    raise SessionError(f"{len(matches)} session ids start with {one_line(prefix)!r}: {listed}. Use more of the id.")


INFO_EVENTS = {
    e.SessionOpened.type,
    e.SessionClosed.type,
    e.SessionForked.type,
    e.SessionTitled.type,
    e.ModelChanged.type,
    e.ModeChanged.type,
    e.UserMessageAdded.type,
}
"""Records that contain data of `session.json`."""


def rebuild_info(path: Path) -> SessionInfo:
    """Rebuild the data of `session.json` from the journal."""
    view, started, last = SessionView(), start_from_name(path.name), None
    for line in JournalReader(path / JOURNAL):
        if not isinstance(line, JournalLine):
            continue
        if line.type in INFO_EVENTS:
            record = line.record()
            fold_record(view, record)
            started = started or record.at
        last = line
    return SessionInfo(
        id=path.name,
        title=view.title or one_line(SecretMask({}).mask(view.first_message), MAX_FALLBACK_TITLE),
        started_at=started,
        updated_at="" if last is None else last.record().at,
        workspace=os.path.realpath(view.workspace) if view.workspace else "",
        model=view.model,
        mode=view.mode,
        status="ended" if view.closed else "crashed",
        parent=view.parent,
    )


def folder_name(now: datetime) -> str:
    """Return the folder name: `YYYY-MM-DDTHH:mm:ss.SSS` and the zone as `Z` or `+HHMM` (S1)."""
    zone = now.strftime("%z") or "+0000"
    stamp = now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}"
    return stamp + ("Z" if zone == "+0000" else zone)


def is_session(path: Path) -> bool:
    """True for a session's folder, damaged or not: it has a journal or an info file, or a session's name."""
    if path.is_symlink() or not path.is_dir():
        return False
    return is_regular_file(path / JOURNAL) or is_regular_file(path / INFO) or bool(_SESSION_NAME.fullmatch(path.name))


# --- parts ----------------------------------------------------------------------------------


def session_folders(sessions: Path, *, damaged: bool = False) -> Iterator[Path]:
    """Yield the folders below `sessions` with a journal; `damaged` includes sessions that lost theirs."""
    try:
        entries = list(os.scandir(sessions))
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):
            path = sessions / entry.name
            if entry.is_dir(follow_symlinks=False) and (
                is_session(path) if damaged else is_regular_file(path / JOURNAL)
            ):
                yield path


def _load_info_fields(path: Path) -> dict[str, Any]:
    """Read `session.json` in `path`; empty if it is unreadable."""
    try:
        fields = msgspec.json.decode(read_file(path / INFO, MAX_INFO_SIZE).data)
    except (FileFault, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def load_info(path: Path) -> SessionInfo | None:
    """Return the content of `session.json` in `path`; None if it is unreadable or of a newer version."""
    try:
        info = msgspec.convert(_load_info_fields(path), SessionInfo)
    except msgspec.ValidationError:
        return None
    return info if info.version <= INFO_VERSION and info.id else None


def write_info(path: Path, info: SessionInfo) -> None:
    """Write `session.json` into `path`, ignoring errors: the journal has the data."""
    fields = msgspec.to_builtins(info)
    if not info.parent:
        del fields["parent"]
    data = msgspec.json.format(msgspec.json.encode(fields)) + b"\n"
    with contextlib.suppress(OSError, FileFault):
        atomic_write(path / INFO, data)


def info_version(path: Path) -> int:
    """Return the version of `session.json` in `path`; 0 if it is unreadable."""
    version = _load_info_fields(path).get("version", 0)
    return version if isinstance(version, int) else 0


def start_from_name(name: str) -> str:
    """Return the start time in a folder's name as ISO 8601, or an empty string."""
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
        f"The session is stored on {kind}: locks may not work between machines, and saved data may be lost "
        "in a crash. Set TUI_AGENT_HOME to a folder on a local disk."
    )
