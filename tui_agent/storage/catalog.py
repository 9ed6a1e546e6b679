"""The sessions there are: listed, searched, looked into, renamed, forked and deleted, without an engine (S3, R2.3).

Lists and looks read only what is needed of the files, in bounded memory, and never raise for what is in a folder.
What changes a session takes its lock first and raises SessionError with a sentence that says what to do.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from tui_agent import events as e
from tui_agent.platform.locks import seems_held
from tui_agent.storage.folder import (
    INFO,
    INFO_VERSION,
    JOURNAL,
    LOCK,
    SessionError,
    SessionInfo,
    is_session,
    load_info,
    regular,
    start_in,
    version_of,
)
from tui_agent.storage.journal import JournalReader, find_last
from tui_agent.storage.lines import MAX_LINE, Line, parse
from tui_agent.text import Mask, clean, one_line

TITLE_MAX = 100
"""Characters of a title."""
HEAD = 256 << 10
TAIL = 1 << 20
"""Bytes of a journal's beginning and end that a list or a preview looks at."""
COUNTED = 20_000
"""Files of one session whose sizes are added up."""
SMALL = 1 << 20
"""Bytes of a `session.json` or lock at most."""
LARGE = 1 << 30
"""Bytes of a journal in which a title is looked for from the end."""

_SPOKEN = re.compile(
    rb'^\{"v":\d+,"seq":\d+,"at":"[^"]*","type":"(?:user\.said|reply\.ended|session\.titled)"'
)


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One session as a list shows it. Texts are clean, masked by the shapes of keys, and on one line."""

    id: str
    """The folder's name."""
    title: str
    """What it was called, else its first message; empty when nothing was said."""
    workspace: str
    """Absolute; empty when it is not known."""
    changed: float
    """Seconds since the epoch."""
    bytes: int
    """Of all its files."""
    running: bool
    """A process seems to work in it."""
    path: Path
    problem: str = ""
    """Why it can't be gone on with, as a sentence; empty when nothing is known against it."""
    said: str = ""
    """The beginning of its first message."""
    started: str = ""
    """ISO 8601."""
    model: str = ""
    parent: str = ""
    """Id of the session that it is a fork of."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the user's: where a fork can begin."""

    id: str
    text: str
    """Exact: to be cleaned and masked by whoever shows it."""
    at: str
    """ISO 8601."""


# --- listing --------------------------------------------------------------------------------


def sessions(home: Path, workspace: Path | None = None) -> list[Entry]:
    """The sessions under `home` (`paths.data_dir()`), newest first; with `workspace` (links are followed) only those
    that work there. Blocks for about a millisecond a session. Never raises."""
    return sorted(each(home, workspace), key=lambda one: (one.changed, one.id), reverse=True)


def each(home: Path, workspace: Path | None = None) -> Iterator[Entry]:
    """The same one by one, looked at as they are asked for, for whom the first ones are enough to begin with. Never
    raises."""
    real = None if workspace is None else os.path.realpath(workspace)
    folders = [(_changed(path), path.name, path) for path in _folders(home / "sessions")]
    for _changed_at, _name, path in sorted(folders, reverse=True):
        entry = look(path)
        if real is None or entry.workspace == real:
            yield entry


def look(path: Path) -> Entry:
    """What is known of the session in `path`. Never raises."""
    info, problem = _info(path)
    first, titled, opened = _beginning(path / JOURNAL), "", None
    if first is not None:
        opened = first[1]
        if info is None:
            titled = _last_title(path / JOURNAL)
    said = one_line(Mask({}).mask(first[0]), TITLE_MAX) if first is not None else ""
    known = info or SessionInfo(id=path.name)
    title = one_line(Mask({}).mask(known.title or titled), TITLE_MAX) or said
    if opened is not None and not known.workspace:
        known = msgspec.structs.replace(
            known, workspace=os.path.realpath(opened.workspace), model=known.model or opened.model
        )
    return Entry(
        id=path.name,
        title=title,
        workspace=known.workspace,
        changed=_changed(path),
        bytes=_bytes(path),
        running=_running(path / LOCK),
        path=path,
        problem=problem,
        said=said,
        started=one_line(known.started_at or start_in(path.name)),
        model=one_line(known.model),
        parent=one_line(known.parent, 200),
    )


def _folders(folder: Path) -> Iterator[Path]:
    try:
        found = list(os.scandir(folder))
    except OSError:
        return
    for one in found:
        with contextlib.suppress(OSError):
            if one.is_dir(follow_symlinks=False) and is_session(folder / one.name):
                yield folder / one.name


def _info(path: Path) -> tuple[SessionInfo | None, str]:
    """What `session.json` says, and what keeps the session from being opened."""
    info, newer = None, False
    if regular(path / INFO) and os.lstat(path / INFO).st_size <= SMALL:
        info, newer = load_info(path), version_of(path) > INFO_VERSION
    if newer:
        return info, "It was last used by a newer tui-agent. Update to open it."
    if not regular(path / JOURNAL):
        return info, f"{JOURNAL} is missing: there is nothing to go on with."
    if not os.access(path / JOURNAL, os.R_OK | os.W_OK):
        return info, f"{JOURNAL} can't be read and written by you."
    return info, ""


def _beginning(journal: Path) -> tuple[str, e.SessionOpened | None] | None:
    """The first message and the first opening among the journal's first bytes; None when it can't be read."""
    said, opened = "", None
    try:
        for line in _lines_between(journal, 0, HEAD):
            if line.type == e.SessionOpened.type and opened is None:
                event = line.record().event
                opened = event if isinstance(event, e.SessionOpened) else None
            elif line.type == e.UserSaid.type:
                event = line.record().event
                said = event.text[: TITLE_MAX * 20] if isinstance(event, e.UserSaid) else ""
                break
    except OSError:
        return None
    return said, opened


def _last_title(journal: Path) -> str:
    with contextlib.suppress(OSError):
        known = regular(journal) and os.lstat(journal).st_size <= LARGE
        line = find_last(journal, e.SessionTitled.type) if known else None
        event = line.record().event if line is not None else None
        return event.title if isinstance(event, e.SessionTitled) else ""
    return ""


def _lines_between(journal: Path, begin: int, size: int) -> Iterator[Line]:
    """Intact lines that begin within `size` bytes from `begin` on; not one that `begin` cuts. Raises OSError."""
    if not regular(journal):
        return
    with open(journal, "rb") as file:
        file.seek(max(0, begin - 1))
        if begin > 0:
            file.readline(MAX_LINE)  # the rest of the line before
        while file.tell() < begin + size and (raw := file.readline(MAX_LINE)):
            line = parse(raw, 0, unsigned=False)
            if line is not None:
                yield line


def _changed(path: Path) -> float:
    for name in (path / JOURNAL, path):
        with contextlib.suppress(OSError):
            return os.lstat(name).st_mtime
    return 0.0


def _bytes(path: Path) -> int:
    size = count = 0
    waiting = [path]
    while waiting and count < COUNTED:
        with contextlib.suppress(OSError):
            for one in os.scandir(waiting.pop()):
                count += 1
                if one.is_dir(follow_symlinks=False):
                    waiting.append(Path(one.path))
                else:
                    size += one.stat(follow_symlinks=False).st_size
    return size


def _running(lock: Path) -> bool:
    return regular(lock) and os.lstat(lock).st_size <= SMALL and seems_held(lock)


# --- looking into them ----------------------------------------------------------------------


def search(
    entries: Iterable[Entry],
    text: str,
    mask: Mask | None = None,
    *,
    each: int = 1,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Entry, str]]:
    """Sessions in whose title, messages or replies all words of `text` stand together, whatever their case; with a
    line of context. At most `each` hits a session. Reads as it goes; never raises.

    `mask` hides secrets in what is shown, and what it hides is not found. `stopped` is asked line by line; once it is
    true nothing more is read.
    """
    words = [word.casefold() for word in text.split()]
    mask = mask or Mask({})
    if not words:
        return
    for entry in entries:
        count = 0
        for told in _spoken(entry, stopped):
            context = _context(told, words, mask)
            if context:
                yield entry, context
                count += 1
                if count == each:
                    break


def _spoken(entry: Entry, stopped: Callable[[], bool]) -> Iterator[str]:
    """The title, then all that was said, the earliest first."""
    if entry.title:
        yield entry.title
    journal = entry.path / JOURNAL
    if not regular(journal):
        return
    with contextlib.suppress(OSError), open(journal, "rb") as file:
        while not stopped() and (raw := file.readline(MAX_LINE)):
            if not _SPOKEN.match(raw):
                continue
            line = parse(raw, 0, unsigned=False)
            event = line.record().event if line is not None else None
            if isinstance(event, e.UserSaid) or (isinstance(event, e.ReplyEnded) and not event.role):
                yield event.text


def _context(told: str, words: list[str], mask: Mask) -> str:
    """One line around the first of the words; empty when not all are there."""
    folded = told.casefold()
    if not all(word in folded for word in words):
        return ""
    shown = " ".join(clean(mask.mask(told)).split())
    folded = shown.casefold()
    places = [folded.find(word) for word in words]
    if min(places) < 0:
        return ""
    begin = max(0, min(places) - 40)
    return ("…" if begin else "") + one_line(shown[begin:], 160)


def preview(entry: Entry, lines: int, mask: Mask | None = None) -> str:
    """The end of the conversation as plain text, at most `lines` lines; what the user said begins with `› `.

    Clean and masked; the lines are not wrapped. Never raises.
    """
    mask = mask or Mask({})
    kept: list[str] = []
    try:
        size = os.lstat(entry.path / JOURNAL).st_size
        for line in _lines_between(entry.path / JOURNAL, max(0, size - TAIL), TAIL):
            kept += _told(line, mask)
            del kept[: -max(lines, 1) * 4]
    except OSError:
        return entry.problem
    if not kept:
        return entry.said
    return "\n".join(kept[-lines:]) if lines > 0 else ""


def _told(line: Line, mask: Mask) -> list[str]:
    if line.type not in (e.UserSaid.type, e.ReplyEnded.type, e.ToolStarted.type, e.RunEnded.type):
        return []
    match line.record().event:
        case e.UserSaid(text=text):
            return ["› " + one for one in _shown(text, mask)]
        case e.ReplyEnded(text=text, role=""):
            return _shown(text, mask)
        case e.ToolStarted(call=call, title=title):
            return ["· " + one_line(mask.mask(f"{call.name} {title}"), 200)]
        case e.RunEnded(outcome=outcome) if outcome != "done":
            return [f"({outcome})"]
    return []


def _shown(text: str, mask: Mask) -> list[str]:
    lines = clean(mask.mask(text)).strip().split("\n") if text.strip() else []
    return [one_line(line, 500) for line in lines if line.strip()]


def messages(entry: Entry) -> list[Said]:
    """What the user said, in order. Raises SessionError when it can't be read."""
    try:
        return [
            Said(id=event.id, text=event.text, at=record.at)
            for line in JournalReader(entry.path / JOURNAL)
            if isinstance(line, Line) and line.type == e.UserSaid.type
            for record in (line.record(),)
            if isinstance(event := record.event, e.UserSaid)
        ]
    except OSError as error:
        raise SessionError(f"{entry.id} can't be read: {error.strerror}.") from error


# --- changing them --------------------------------------------------------------------------


def rename(entry: Entry, title: str, mask: Mask | None = None) -> str:
    """Give a session another title, for good; returns the title as it is kept. Raises SessionError.

    `mask` hides secrets in `chat_history.log`, should the end of it have been lost and be written again.
    """
    from tui_agent.storage.changing import rename_session

    return rename_session(entry.path, one_line(title, TITLE_MAX), mask or Mask({}))


def fork(entry: Entry, at: str | None = None, mask: Mask | None = None) -> str:
    """A copy of the session under a new id, which is returned: all of it, or with `at` (the id of a message of the
    user's) what was there before that message. The original may be running and is not touched. Raises SessionError.
    """
    from tui_agent.storage.forking import copy_session

    return copy_session(entry.path, at, entry.title, mask or Mask({})).name


def delete(entry: Entry) -> None:
    """Delete a session and all its files for good. Raises SessionError: when it is running, or when a file can't be
    deleted."""
    from tui_agent.storage.changing import delete_session

    delete_session(entry.path)
