"""Export a session's journal to a file: everything that was shown, with secrets masked (A7, S3)."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal, TypeAlias, cast

import msgspec

from tui_agent import events as e
from tui_agent.export.sections import ExportDocument, Sections, message_titles, trimmed_text
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, replace_file
from tui_agent.storage.folder import JOURNAL, is_regular_file
from tui_agent.storage.journal import JournalReader, without_deltas
from tui_agent.storage.lines import Damage
from tui_agent.text import SecretMask, one_line, pluralize
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView
from tui_agent.view.redactor import Redactor

Format: TypeAlias = Literal["markdown", "html"]
SUFFIXES: dict[str, Format] = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}
"""File suffix → format; the first suffix of a format is the default."""
IGNORED_EVENTS = (e.StateSaved.type, e.ReplyPhase.type)
"""Events that are not exported."""
BUFFER_BYTES = 1 << 20


def export_session(path: Path, form: Format, mask: SecretMask) -> Iterator[str]:
    """Yield the text of the session in folder `path`, which may be running, in pieces.

    Reads the whole journal first, which blocks. Raises OSError.
    """
    if not is_regular_file(path / JOURNAL):
        raise FileNotFoundError(errno.ENOENT, f"{JOURNAL} is missing")
    document = read_document(path / JOURNAL, mask, path.name)
    if form == "html":
        from tui_agent.export.html import html_pieces

        return html_pieces(document)
    from tui_agent.export.markdown import markdown_pieces

    return markdown_pieces(document)


def read_document(journal: Path, mask: SecretMask, id: str = "") -> ExportDocument:
    """Read the journal of session `id` into a masked document; damaged records are counted. Raises OSError."""
    view, redactor = SessionView(), Redactor(mask)
    times: dict[str, str] = {}
    first = last = ""
    damaged = 0
    for item in without_deltas(JournalReader(journal)):
        if isinstance(item, Damage):
            damaged += item.why != "retried"
        elif item.type not in IGNORED_EVENTS:
            record = item.record()
            first, last = first or record.at, record.at
            if isinstance(event := record.event, e.UserMessageAdded):
                times[event.id] = format_record_time(record.at)
            fold_record(view, record, redactor)
    closed = e.Record(seq=view.seq + 1, at=last, event=e.SessionClosed(reason=""))
    for withheld in redactor.records(closed)[:-1]:  # text that could have been the start of a secret
        fold_record(view, msgspec.structs.replace(withheld, seq=view.seq + 1))
    facts = [
        ("session", id or view.id),
        ("workspace", view.workspace),
        ("model", " · ".join(filter(None, [view.model, view.provider]))),
        ("strategy", f"{view.strategy} · {view.strategy_why}" if view.strategy_why else ""),
        ("from", format_record_time(first)),
        ("to", format_record_time(last)),
        ("fork of", view.parent),
        ("written by", f"tui-agent {view.version}" if view.version else ""),
        ("not readable", f"{pluralize(damaged, 'place')} of the journal" if damaged else ""),
    ]
    return ExportDocument(
        title=one_line(view.title, 200) or one_line(view.first_message, 100) or "A session without messages",
        facts=tuple((name, one_line(trimmed_text(text), 500)) for name, text in facts if text),
        sections=Sections(view, times),
        messages=message_titles(view),
    )


def format_record_time(at: str) -> str:
    """A record's time without fractions and zone, such as `2026-01-07 10:00:01`."""
    return one_line(at[:19].replace("T", " "), 19)


# --- files ----------------------------------------------------------------------------------


class ExportError(Exception):
    """The export can't be written; the message is for the user."""


def export_format(name: str) -> Format | None:
    """The format for a file name; None if its suffix is not known."""
    return SUFFIXES.get(os.path.splitext(name)[1].lower())


def export_target(name: str, folder: Path, id: str, form: Format, *, replace: bool = False) -> Path:
    """The file to write: `name` relative to `folder`; if that is a folder, a file named after the session in it.

    Raises ExportError, so that errors are found before the session is read.
    """
    path = folder / os.path.expanduser(name)
    if path.is_dir():
        path /= "session-" + id.replace(":", "-") + next(suffix for suffix, each in SUFFIXES.items() if each == form)
    if not path.parent.is_dir():
        raise ExportError(f"There is no folder {path.parent}. Create it, or choose another one.")
    if os.path.lexists(path) and not replace:
        raise ExportError(f"{path} already exists.")
    return path


def write_export(session: Path, form: Format, mask: SecretMask, path: Path, *, replace: bool = False) -> None:
    """Export the session in folder `session` to the file `path`, atomically and readable by its owner only.

    Blocks. Memory use does not depend on the length of the session. Raises ExportError.
    """
    try:
        pieces = export_session(session, form, mask)
    except OSError as error:
        raise ExportError(f"{session.name} can't be read: {error.strerror}.") from error
    try:
        old_hash = read_file(path).sha256 if replace and os.path.lexists(path) else None
        with _temporary_file(session) as file:
            file.writelines(piece.encode("utf-8", "replace") for piece in pieces)
            file.flush()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                # a memory map can be hashed and written like bytes
                replace_file(path, cast(bytes, content), old_hash, follow=True, mode=0o600)
    except FileFault as error:
        raise ExportError(f"The export was not written: {error}") from error
    except OSError as error:
        raise ExportError(f"The export was not written: {error.strerror}.") from error


def _temporary_file(session: Path) -> IO[bytes]:
    """An unnamed file, on the session's disk if possible."""
    try:
        return tempfile.TemporaryFile(dir=session, buffering=BUFFER_BYTES)
    except OSError:
        return tempfile.TemporaryFile(buffering=BUFFER_BYTES)
