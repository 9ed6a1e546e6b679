"""From a session's journal to a document, its text and a file: everything that was shown, without secrets (A7, S3)."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Literal, TypeAlias, cast

import msgspec

from tui_agent import events as e
from tui_agent.export.sections import ExportDocument, Sections, displayable, message_titles
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, replace_file
from tui_agent.storage.folder import JOURNAL, regular
from tui_agent.storage.journal import JournalReader, without_pieces
from tui_agent.storage.lines import Damage
from tui_agent.text import Mask, count_of, one_line
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView
from tui_agent.view.redactor import Redactor

Format: TypeAlias = Literal["markdown", "html"]
ENDINGS: dict[Format, str] = {"markdown": ".md", "html": ".html"}
"""Format → how the file's name ends."""
UNSEEN = (e.StateSaved.type, e.ReplyPhase.type)
"""Records of which a document shows nothing."""


def export_session(path: Path, form: Format, mask: Mask) -> Iterator[str]:
    """The session in folder `path` as the text of a file, piece by piece, to be written as UTF-8; it may be running.

    `mask` hides secrets. Blocks as long as reading all of it takes, before the first piece. Raises OSError.
    """
    if not regular(path / JOURNAL):
        raise FileNotFoundError(errno.ENOENT, f"{JOURNAL} is missing")
    document = read_document(path / JOURNAL, mask, path.name)
    if form == "html":
        from tui_agent.export.html import html_pieces

        return html_pieces(document)
    from tui_agent.export.markdown import markdown_pieces

    return markdown_pieces(document)


def read_document(journal: Path, mask: Mask, id: str = "") -> ExportDocument:
    """What the journal of session `id` holds, as a document. `mask` hides secrets. Damaged places are counted. Raises
    OSError."""
    view, redactor = SessionView(), Redactor(mask)
    times: dict[str, str] = {}
    first = last = ""
    damaged = 0
    for item in without_pieces(JournalReader(journal)):
        if isinstance(item, Damage):
            damaged += item.why != "retried"
        elif item.type not in UNSEEN:
            record = item.record()
            first, last = first or record.at, record.at
            if isinstance(event := record.event, e.UserMessageAdded):
                times[event.id] = clock(record.at)
            fold_record(view, record, redactor)
    over = e.Record(seq=view.seq + 1, at=last, event=e.SessionClosed(reason=""))
    for held in redactor.records(over)[:-1]:  # what the beginning of a secret may stand in
        fold_record(view, msgspec.structs.replace(held, seq=view.seq + 1))
    facts = [
        ("session", id or view.id),
        ("workspace", view.workspace),
        ("model", " · ".join(filter(None, [view.model, view.provider]))),
        ("strategy", f"{view.strategy} · {view.strategy_why}" if view.strategy_why else ""),
        ("from", clock(first)),
        ("to", clock(last)),
        ("fork of", view.parent),
        ("written by", f"tui-agent {view.version}" if view.version else ""),
        ("not readable", f"{count_of(damaged, 'place')} of the journal" if damaged else ""),
    ]
    return ExportDocument(
        title=one_line(view.title, 200) or one_line(view.first_message, 100) or "A session without messages",
        facts=tuple((name, one_line(displayable(text), 500)) for name, text in facts if text),
        sections=Sections(view, times),
        messages=message_titles(view),
    )


def clock(at: str) -> str:
    """A record's time to the second, without its zone: `2026-01-07 10:00:01`."""
    return one_line(at[:19].replace("T", " "), 19)


# --- into a file ----------------------------------------------------------------------------


BUFFER = 1 << 20


class ExportError(Exception):
    """It can't be written; the message says why and what to do."""


def export_format(name: str) -> Format | None:
    """The format that a file's name asks for; None when it says nothing."""
    endings: dict[str, Format] = {".html": "html", ".htm": "html", ".md": "markdown", ".markdown": "markdown"}
    return endings.get(os.path.splitext(name)[1].lower())


def export_target(name: str, folder: Path, id: str, form: Format, *, replace: bool = False) -> Path:
    """The file to write, looked at before all the work: `name`, in `folder` when it is relative; a new one when it is
    empty or a folder. Raises ExportError."""
    path = folder / os.path.expanduser(name)
    if path.is_dir():
        path /= "session-" + id.replace(":", "-") + ENDINGS[form]
    if not path.parent.is_dir():
        raise ExportError(f"There is no folder {path.parent}. Create it, or choose another one.")
    if os.path.lexists(path) and not replace:
        raise ExportError(f"{path} already exists.")
    return path


def write_export(session: Path, form: Format, mask: Mask, path: Path, *, replace: bool = False) -> None:
    """Export the session in folder `session` to the file `path`, for its owner alone, whole or not at all.

    Blocks. However long the session, its text is never in memory as a whole. Raises ExportError.
    """
    try:
        pieces = export_session(session, form, mask)
    except OSError as error:
        raise ExportError(f"{session.name} can't be read: {error.strerror}.") from error
    try:
        there = read_file(path).sha256 if replace and os.path.lexists(path) else None
        with _scratch(session) as scratch:
            _fill(scratch, pieces)
            with mmap.mmap(scratch.fileno(), 0, access=mmap.ACCESS_READ) as content:
                # it is read, hashed and written like bytes, page by page
                replace_file(path, cast(bytes, content), there, follow=True, mode=0o600)
    except FileFault as error:
        raise ExportError(f"The export was not written: {error}") from error
    except OSError as error:
        raise ExportError(f"The export was not written: {error.strerror}.") from error


def _scratch(session: Path) -> IO[bytes]:
    """A file without a name, on the disk that holds the session if it takes one."""
    try:
        return tempfile.TemporaryFile(dir=session, buffering=BUFFER)
    except OSError:
        return tempfile.TemporaryFile(buffering=BUFFER)


def _fill(scratch: IO[bytes], pieces: Iterable[str]) -> None:
    for piece in pieces:
        scratch.write(piece.encode("utf-8", "replace"))
    scratch.flush()
