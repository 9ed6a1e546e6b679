"""Listing, searching and previewing sessions without an engine (S3).

Reads only as much of the files as necessary, in bounded memory, and never raises for the content of a folder.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from tui_agent import events as e
from tui_agent.events.run import outcome_word
from tui_agent.platform.locks import seems_held
from tui_agent.storage.folder import (
    INFO,
    INFO_VERSION,
    JOURNAL,
    LOCK,
    SessionError,
    SessionInfo,
    info_version,
    is_regular_file,
    load_info,
    session_folders,
    start_from_name,
)
from tui_agent.storage.journal import JournalReader, find_last, raw_lines
from tui_agent.storage.lines import JournalLine, parse_line
from tui_agent.text import SecretMask, clean, one_line
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView

MAX_TITLE_LENGTH = 100
"""Characters of a title."""
HEAD_SIZE = 256 << 10
TAIL_SIZE = 1 << 20
"""Bytes at the beginning and end of a journal that are read for lists and previews."""
MAX_COUNTED_FILES = 20_000
"""Files per folder whose sizes are added up."""
MAX_TITLE_SCAN = 1 << 30
"""Size up to which a journal is searched for its last title."""

_TEXT_RECORD = re.compile(rb'^\{"v":\d+,"seq":\d+,"at":"[^"]*","type":"(?:user\.said|reply\.ended|session\.titled)"')


class SessionEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a list. Texts are clean, on one line, and without recognizable secrets."""

    id: str
    """The folder's name."""
    title: str
    """The title, else the first message; empty if there is neither."""
    workspace: str
    """Absolute; empty if unknown."""
    changed: float
    """Seconds since the epoch."""
    bytes: int
    """Total size of its files."""
    running: bool
    """A process seems to have it open."""
    path: Path
    problem: str = ""
    """Why it can't be resumed, as a sentence; empty if no reason is known."""
    first_message: str = ""
    """The beginning of the first message."""
    started: str = ""
    """ISO 8601."""
    model: str = ""
    parent: str = ""
    """Id of the session it was forked from."""


# --- listing --------------------------------------------------------------------------------


def list_sessions(home: Path, workspace: Path | None = None) -> list[SessionEntry]:
    """Return the sessions under `home` (`paths.data_dir()`), newest first. Never raises.

    With `workspace` (symlinks are resolved) only its sessions. Blocks for about a millisecond per session.
    """
    return sorted(iter_sessions(home, workspace), key=lambda entry: (entry.changed, entry.id), reverse=True)


def iter_sessions(home: Path, workspace: Path | None = None) -> Iterator[SessionEntry]:
    """Yield the sessions lazily, about newest first. Never raises."""
    workspace_path = None if workspace is None else os.path.realpath(workspace)
    folders = [(_modified_at(path), path.name, path) for path in session_folders(home / "sessions", damaged=True)]
    for _changed_at, _name, path in sorted(folders, reverse=True):
        info = load_info(path) if workspace_path is not None and is_regular_file(path / INFO) else None
        if info is not None and info.workspace not in ("", workspace_path):
            continue  # avoids reading its other files
        entry = read_entry(path)
        if workspace_path is None or entry.workspace == workspace_path:
            yield entry


def latest_for(home: Path, workspace: Path) -> Path | None:
    """Return the folder of the session last used in `workspace`; one without messages only if there is no other."""
    newest: Path | None = None
    for entry in iter_sessions(home, workspace):
        if entry.first_message or _longer_than_head(entry.path / JOURNAL):
            return entry.path
        if newest is None and is_regular_file(entry.path / JOURNAL):
            newest = entry.path
    return newest


def _longer_than_head(journal: Path) -> bool:
    """True if there may be a message beyond the part that is read."""
    try:
        return is_regular_file(journal) and os.lstat(journal).st_size > HEAD_SIZE
    except OSError:
        return False


def read_entry(path: Path) -> SessionEntry:
    """Return what is known of the session in `path`. Never raises."""
    info, problem = _read_info(path)
    view = _fold_beginning(path / JOURNAL)
    first_message = one_line(SecretMask({}).mask(view.first_message[: MAX_TITLE_LENGTH * 20]), MAX_TITLE_LENGTH)
    info = info or SessionInfo(id=path.name, title=_last_title(path / JOURNAL))
    title = one_line(SecretMask({}).mask(info.title), MAX_TITLE_LENGTH) or first_message
    if view.workspace and not info.workspace:
        info = msgspec.structs.replace(info, workspace=os.path.realpath(view.workspace), model=info.model or view.model)
    return SessionEntry(
        id=path.name,
        title=title,
        workspace=info.workspace,
        changed=_modified_at(path),
        bytes=folder_size(path),
        running=seems_held(path / LOCK),
        path=path,
        problem=problem,
        first_message=first_message,
        started=one_line(info.started_at or start_from_name(path.name)),
        model=one_line(info.model),
        parent=one_line(info.parent, 200),
    )


def _read_info(path: Path) -> tuple[SessionInfo | None, str]:
    """Return the content of `session.json`, and why the session can't be opened."""
    info, newer = None, False
    if is_regular_file(path / INFO):
        info, newer = load_info(path), info_version(path) > INFO_VERSION
    if newer:
        return info, "It was last used by a newer tui-agent. Update to open it."
    if not is_regular_file(path / JOURNAL):
        return info, f"{JOURNAL} is missing: nothing to resume."
    if not os.access(path / JOURNAL, os.R_OK | os.W_OK):
        return info, f"You can't read and write its {JOURNAL}: check the permissions."
    return info, ""


def _fold_beginning(journal: Path) -> SessionView:
    """Fold the beginning of the journal up to the first message; an empty view if it can't be read."""
    view = SessionView()
    with contextlib.suppress(OSError):
        for line in _lines_between(journal, 0, HEAD_SIZE):
            if line.type in (e.SessionOpened.type, e.UserMessageAdded.type):
                fold_record(view, line.record())
            if line.type == e.UserMessageAdded.type:
                break
    return view


def _last_title(journal: Path) -> str:
    with contextlib.suppress(OSError):
        searchable = is_regular_file(journal) and os.lstat(journal).st_size <= MAX_TITLE_SCAN
        line = find_last(journal, e.SessionTitled.type) if searchable else None
        event = line.record().event if line is not None else None
        return event.title if isinstance(event, e.SessionTitled) else ""
    return ""


def _lines_between(journal: Path, begin: int, size: int) -> Iterator[JournalLine]:
    """Yield intact lines that start in the `size` bytes from `begin` on. Raises OSError."""
    if not is_regular_file(journal):
        return
    with open(journal, "rb") as file:
        for offset, raw, _size in raw_lines(file, begin):
            if offset >= begin + size:
                break
            if raw and (line := parse_line(raw)):
                yield line


def _modified_at(path: Path) -> float:
    for name in (path / JOURNAL, path):
        with contextlib.suppress(OSError):
            return os.lstat(name).st_mtime
    return 0.0


def folder_size(path: Path) -> int:
    """Return the total size of the files below `path`, up to a number of files. Never raises."""
    size = count = 0
    pending = [path]
    while pending and count < MAX_COUNTED_FILES:
        with contextlib.suppress(OSError):
            for child in os.scandir(pending.pop()):
                count += 1
                if child.is_dir(follow_symlinks=False):
                    pending.append(Path(child.path))
                else:
                    size += child.stat(follow_symlinks=False).st_size
    return size


# --- looking into them ----------------------------------------------------------------------


def search(
    entries: Iterable[SessionEntry],
    text: str,
    mask: SecretMask | None = None,
    *,
    each: int = 1,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[SessionEntry, str]]:
    """Find sessions whose title, messages or replies contain all words of `text`, ignoring case.

    Yields each with a line of context, at most `each` per session. Reads lazily; never raises. Secrets hidden by `mask`
    are neither shown nor found. `stopped` is polled for each line.
    """
    words = [word.casefold() for word in text.split()]
    mask = mask or SecretMask({})
    if not words:
        return
    for entry in entries:
        count = 0
        for candidate in _texts(entry, stopped):
            context = _context(candidate, words, mask)
            if context:
                yield entry, context
                count += 1
                if count == each:
                    break


def _texts(entry: SessionEntry, stopped: Callable[[], bool]) -> Iterator[str]:
    """Yield the title, then all messages and replies in order."""
    if entry.title:
        yield entry.title
    journal = entry.path / JOURNAL
    if not is_regular_file(journal):
        return
    with contextlib.suppress(OSError), open(journal, "rb") as file:
        for _offset, raw, _size in raw_lines(file, 0):
            if stopped():
                break
            line = parse_line(raw) if raw and _TEXT_RECORD.match(raw) else None
            event = line.record().event if line is not None else None
            if isinstance(event, e.UserMessageAdded) or (isinstance(event, e.ReplyEnded) and not event.role):
                yield event.text


def _context(text: str, words: list[str], mask: SecretMask) -> str:
    """Return one line around the first word, or an empty string unless all words occur."""
    folded = text.casefold()
    if not all(word in folded for word in words):
        return ""
    displayed = " ".join(clean(mask.mask(text)).split())
    folded = displayed.casefold()
    places = [folded.find(word) for word in words]
    if min(places) < 0:
        return ""
    begin = max(0, min(places) - 40)
    return ("…" if begin else "") + one_line(displayed[begin:], 160)


def preview(entry: SessionEntry, lines: int, mask: SecretMask | None = None) -> str:
    """Return the last `lines` lines of the conversation as plain text; user messages start with `› `.

    Clean and masked, not wrapped. Never raises.
    """
    mask = mask or SecretMask({})
    collected: list[str] = []
    try:
        size = os.lstat(entry.path / JOURNAL).st_size
        for line in _lines_between(entry.path / JOURNAL, max(0, size - TAIL_SIZE), TAIL_SIZE):
            collected += _preview_lines(line, mask)
            del collected[: -max(lines, 1) * 4]
    except OSError:
        return entry.problem
    if not collected:
        return entry.first_message
    return "\n".join(collected[-lines:]) if lines > 0 else ""


def _preview_lines(line: JournalLine, mask: SecretMask) -> list[str]:
    if line.type not in (e.UserMessageAdded.type, e.ReplyEnded.type, e.ToolStarted.type, e.RunEnded.type):
        return []
    match line.record().event:
        case e.UserMessageAdded(text=text):
            return ["› " + line for line in _display_lines(text, mask)]
        case e.ReplyEnded(text=text, role=""):
            return _display_lines(text, mask)
        case e.ToolStarted(call=call, title=title):
            return ["· " + one_line(mask.mask(f"{call.name} {title}"), 200)]
        case e.RunEnded(outcome=outcome) if outcome != "done":
            return [f"({outcome_word(outcome)})"]
    return []


def _display_lines(text: str, mask: SecretMask) -> list[str]:
    lines = clean(mask.mask(text)).strip().split("\n") if text.strip() else []
    return [one_line(line, 500) for line in lines if line.strip()]


def user_messages(entry: SessionEntry) -> list[e.UserMessageAdded]:
    """Return the user messages in order, at which a fork can start. Raises SessionError if unreadable.

    Texts are unchanged: the caller cleans and masks them.
    """
    try:
        return [
            event
            for line in JournalReader(entry.path / JOURNAL)
            if isinstance(line, JournalLine) and line.type == e.UserMessageAdded.type
            if isinstance(event := line.record().event, e.UserMessageAdded)
        ]
    except OSError as error:
        raise SessionError(f"{entry.id} can't be read: {error.strerror}.") from error
