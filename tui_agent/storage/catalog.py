"""The sessions there are: listed, searched and looked into, without an engine (S3).

Lists and looks read only what is needed of the files, in bounded memory, and never raise for what is in a folder.
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
    info_version,
    load_info,
    regular,
    session_folders,
    start_in,
)
from tui_agent.storage.journal import JournalReader, find_last
from tui_agent.storage.lines import MAX_LINE, JournalLine, parse_line
from tui_agent.text import SecretMask, clean, one_line
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView

TITLE_MAX = 100
"""Characters of a title."""
HEAD = 256 << 10
TAIL = 1 << 20
"""Bytes of a journal's beginning and end that a list or a preview looks at."""
COUNTED = 20_000
"""Files of one folder whose sizes are added up."""
LARGE = 1 << 30
"""Bytes of a journal in which a title is looked for from the end."""

_TEXT_RECORD = re.compile(rb'^\{"v":\d+,"seq":\d+,"at":"[^"]*","type":"(?:user\.said|reply\.ended|session\.titled)"')


class SessionEntry(msgspec.Struct, frozen=True, kw_only=True):
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


# --- listing --------------------------------------------------------------------------------


def sessions(home: Path, workspace: Path | None = None) -> list[SessionEntry]:
    """The sessions under `home` (`paths.data_dir()`), newest first; with `workspace` (links are followed) only those
    that work there. Blocks for about a millisecond a session. Never raises."""
    return sorted(each(home, workspace), key=lambda one: (one.changed, one.id), reverse=True)


def each(home: Path, workspace: Path | None = None) -> Iterator[SessionEntry]:
    """The same one by one, looked at as they are asked for, for whom the first ones are enough to begin with. Never
    raises."""
    real = None if workspace is None else os.path.realpath(workspace)
    folders = [(_modified_at(path), path.name, path) for path in session_folders(home / "sessions", damaged=True)]
    for _changed_at, _name, path in sorted(folders, reverse=True):
        info = load_info(path) if real is not None and regular(path / INFO) else None
        if info is not None and info.workspace not in ("", real):
            continue  # spares all the rest, of which there may be much
        entry = read_entry(path)
        if real is None or entry.workspace == real:
            yield entry


def latest_for(home: Path, workspace: Path) -> Path | None:
    """The folder of the session last used in `workspace` (symlinks resolved); one in which nothing was said counts
    only when there is no other."""
    newest: Path | None = None
    for entry in each(home, workspace):
        if entry.said or _longer_than_head(entry.path / JOURNAL):
            return entry.path
        if newest is None and regular(entry.path / JOURNAL):
            newest = entry.path
    return newest


def _longer_than_head(journal: Path) -> bool:
    """True where a message may stand behind what a list looks at."""
    try:
        return regular(journal) and os.lstat(journal).st_size > HEAD
    except OSError:
        return False


def read_entry(path: Path) -> SessionEntry:
    """What is known of the session in `path`. Never raises."""
    info, problem = _info(path)
    view = _beginning(path / JOURNAL)
    said = one_line(SecretMask({}).mask(view.first_message[: TITLE_MAX * 20]), TITLE_MAX)
    known = info or SessionInfo(id=path.name, title=_last_title(path / JOURNAL))
    title = one_line(SecretMask({}).mask(known.title), TITLE_MAX) or said
    if view.workspace and not known.workspace:
        known = msgspec.structs.replace(
            known, workspace=os.path.realpath(view.workspace), model=known.model or view.model
        )
    return SessionEntry(
        id=path.name,
        title=title,
        workspace=known.workspace,
        changed=_modified_at(path),
        bytes=folder_bytes(path),
        running=seems_held(path / LOCK),
        path=path,
        problem=problem,
        said=said,
        started=one_line(known.started_at or start_in(path.name)),
        model=one_line(known.model),
        parent=one_line(known.parent, 200),
    )


def _info(path: Path) -> tuple[SessionInfo | None, str]:
    """What `session.json` says, and what keeps the session from being opened."""
    info, newer = None, False
    if regular(path / INFO):
        info, newer = load_info(path), info_version(path) > INFO_VERSION
    if newer:
        return info, "It was last used by a newer tui-agent. Update to open it."
    if not regular(path / JOURNAL):
        return info, f"{JOURNAL} is missing: nothing to resume."
    if not os.access(path / JOURNAL, os.R_OK | os.W_OK):
        return info, f"You can't read and write its {JOURNAL}: check the permissions."
    return info, ""


def _beginning(journal: Path) -> SessionView:
    """What the journal's first bytes tell, up to the first message; an empty view when they can't be read."""
    view = SessionView()
    with contextlib.suppress(OSError):
        for line in _lines_between(journal, 0, HEAD):
            if line.type in (e.SessionOpened.type, e.UserMessageAdded.type):
                fold_record(view, line.record())
            if line.type == e.UserMessageAdded.type:
                break
    return view


def _last_title(journal: Path) -> str:
    with contextlib.suppress(OSError):
        known = regular(journal) and os.lstat(journal).st_size <= LARGE
        line = find_last(journal, e.SessionTitled.type) if known else None
        event = line.record().event if line is not None else None
        return event.title if isinstance(event, e.SessionTitled) else ""
    return ""


def _lines_between(journal: Path, begin: int, size: int) -> Iterator[JournalLine]:
    """Intact lines that begin within `size` bytes from `begin` on; not one that `begin` cuts. Raises OSError."""
    if not regular(journal):
        return
    with open(journal, "rb") as file:
        file.seek(max(0, begin - 1))
        if begin > 0:
            file.readline(MAX_LINE)  # the rest of the line before
        while file.tell() < begin + size and (raw := file.readline(MAX_LINE)):
            line = parse_line(raw)
            if line is not None:
                yield line


def _modified_at(path: Path) -> float:
    for name in (path / JOURNAL, path):
        with contextlib.suppress(OSError):
            return os.lstat(name).st_mtime
    return 0.0


def folder_bytes(path: Path) -> int:
    """Of all files below `path`, as far as they are counted. Never raises."""
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


# --- looking into them ----------------------------------------------------------------------


def search(
    entries: Iterable[SessionEntry],
    text: str,
    mask: SecretMask | None = None,
    *,
    each: int = 1,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[SessionEntry, str]]:
    """Sessions in whose title, messages or replies all words of `text` stand together, whatever their case; with a
    line of context. At most `each` hits a session. Reads as it goes; never raises.

    `mask` hides secrets in what is shown, and what it hides is not found. `stopped` is asked line by line; once it is
    true nothing more is read.
    """
    words = [word.casefold() for word in text.split()]
    mask = mask or SecretMask({})
    if not words:
        return
    for entry in entries:
        count = 0
        for spoken in _texts(entry, stopped):
            context = _context(spoken, words, mask)
            if context:
                yield entry, context
                count += 1
                if count == each:
                    break


def _texts(entry: SessionEntry, stopped: Callable[[], bool]) -> Iterator[str]:
    """The title, then all that was said, the earliest first."""
    if entry.title:
        yield entry.title
    journal = entry.path / JOURNAL
    if not regular(journal):
        return
    with contextlib.suppress(OSError), open(journal, "rb") as file:
        while not stopped() and (raw := file.readline(MAX_LINE)):
            if not _TEXT_RECORD.match(raw):
                continue
            line = parse_line(raw)
            event = line.record().event if line is not None else None
            if isinstance(event, e.UserMessageAdded) or (isinstance(event, e.ReplyEnded) and not event.role):
                yield event.text


def _context(text: str, words: list[str], mask: SecretMask) -> str:
    """One line around the first of the words; empty when not all are there."""
    folded = text.casefold()
    if not all(word in folded for word in words):
        return ""
    shown = " ".join(clean(mask.mask(text)).split())
    folded = shown.casefold()
    places = [folded.find(word) for word in words]
    if min(places) < 0:
        return ""
    begin = max(0, min(places) - 40)
    return ("…" if begin else "") + one_line(shown[begin:], 160)


def preview(entry: SessionEntry, lines: int, mask: SecretMask | None = None) -> str:
    """The end of the conversation as plain text, at most `lines` lines; what the user said begins with `› `.

    Clean and masked; the lines are not wrapped. Never raises.
    """
    mask = mask or SecretMask({})
    kept: list[str] = []
    try:
        size = os.lstat(entry.path / JOURNAL).st_size
        for line in _lines_between(entry.path / JOURNAL, max(0, size - TAIL), TAIL):
            kept += _preview_lines(line, mask)
            del kept[: -max(lines, 1) * 4]
    except OSError:
        return entry.problem
    if not kept:
        return entry.said
    return "\n".join(kept[-lines:]) if lines > 0 else ""


def _preview_lines(line: JournalLine, mask: SecretMask) -> list[str]:
    if line.type not in (e.UserMessageAdded.type, e.ReplyEnded.type, e.ToolStarted.type, e.RunEnded.type):
        return []
    match line.record().event:
        case e.UserMessageAdded(text=text):
            return ["› " + one for one in _display_lines(text, mask)]
        case e.ReplyEnded(text=text, role=""):
            return _display_lines(text, mask)
        case e.ToolStarted(call=call, title=title):
            return ["· " + one_line(mask.mask(f"{call.name} {title}"), 200)]
        case e.RunEnded(outcome=outcome) if outcome != "done":
            return [f"({outcome})"]
    return []


def _display_lines(text: str, mask: SecretMask) -> list[str]:
    lines = clean(mask.mask(text)).strip().split("\n") if text.strip() else []
    return [one_line(line, 500) for line in lines if line.strip()]


def messages(entry: SessionEntry) -> list[e.UserMessageAdded]:
    """What the user said, in order: where a fork can begin. Texts are exact: to be cleaned and masked by whoever shows
    them. Raises SessionError when it can't be read."""
    try:
        return [
            event
            for line in JournalReader(entry.path / JOURNAL)
            if isinstance(line, JournalLine) and line.type == e.UserMessageAdded.type
            if isinstance(event := line.record().event, e.UserMessageAdded)
        ]
    except OSError as error:
        raise SessionError(f"{entry.id} can't be read: {error.strerror}.") from error
