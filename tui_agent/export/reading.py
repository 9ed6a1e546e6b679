"""From a session's journal to a document and its text: everything that was shown, without secrets (A7, S3)."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Literal, TypeAlias

from tui_agent import events as e
from tui_agent.export.content import Document
from tui_agent.export.sections import sections, shown
from tui_agent.storage.folder import JOURNAL, regular
from tui_agent.storage.journal import read
from tui_agent.storage.lines import Damage
from tui_agent.text import Mask, one_line
from tui_agent.view import SessionView, Veil, fold

Format: TypeAlias = Literal["markdown", "html"]
ENDINGS: dict[Format, str] = {"markdown": ".md", "html": ".html"}
"""Format → how the file's name ends."""


def export(path: Path, form: Format, mask: Mask) -> str:
    """The session in folder `path` as the text of a file, to be written as UTF-8; it may be running.

    `mask` hides secrets. Blocks as long as reading all of it takes. Raises OSError.
    """
    if not regular(path / JOURNAL):
        raise FileNotFoundError(errno.ENOENT, f"{JOURNAL} is missing")
    document = gather(path / JOURNAL, mask, path.name)
    if form == "html":
        from tui_agent.export.html import html

        return html(document)
    from tui_agent.export.markdown import markdown

    return markdown(document)


def gather(journal: Path, mask: Mask, id: str = "", *, unsigned: bool = False) -> Document:
    """What the journal of session `id` holds, as a document. Damaged places are counted. Raises OSError.

    `unsigned` is for scenes."""
    view, veil = SessionView(), Veil(mask)
    times: dict[str, str] = {}
    first = last = said = parent = ""
    damaged = 0
    for record in read(journal, unsigned=unsigned):
        if isinstance(record, Damage):
            damaged += record.why != "retried"
            continue
        first, last = first or record.at, record.at
        match record.event:
            case e.UserSaid(id=message, text=text):
                times[message] = clock(record.at)
                said = said or mask.mask(text)
            case e.SessionForked(parent=name):
                parent = name
        fold(view, record, veil)
    facts = [
        ("session", id or view.id),
        ("workspace", view.workspace),
        ("model", " · ".join(filter(None, [view.model, view.provider]))),
        ("from", clock(first)),
        ("to", clock(last)),
        ("fork of", parent),
        ("written by", f"tui-agent {view.version}" if view.version else ""),
        ("not readable", f"{damaged} place{'s' if damaged != 1 else ''} of the journal" if damaged else ""),
    ]
    return Document(
        title=one_line(view.title, 200) or one_line(said, 100) or "A session without a message",
        facts=tuple((name, one_line(shown(text), 500)) for name, text in facts if text),
        sections=tuple(sections(view, times)),
    )


def clock(at: str) -> str:
    """A record's time to the second, without its zone: `2026-01-07 10:00:01`."""
    return one_line(at[:19].replace("T", " "), 19)
