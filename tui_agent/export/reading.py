"""From a session's journal to a document and its text: everything that was shown, without secrets (A7, S3)."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from tui_agent import events as e
from tui_agent.export.content import Document
from tui_agent.export.sections import Sections, messages
from tui_agent.export.words import shown
from tui_agent.storage.folder import JOURNAL, regular
from tui_agent.storage.journal import JournalReader
from tui_agent.storage.lines import Damage, Line
from tui_agent.text import Mask, one_line
from tui_agent.view import SessionView, Veil, fold

Format: TypeAlias = Literal["markdown", "html"]
ENDINGS: dict[Format, str] = {"markdown": ".md", "html": ".html"}
"""Format → how the file's name ends."""
PIECES = (e.ReplyText.type, e.ReplyThought.type)
UNSEEN = (e.StateSaved.type, e.ReplyPhase.type)
"""Records of which a document shows nothing."""


def export(path: Path, form: Format, mask: Mask) -> Iterator[str]:
    """The session in folder `path` as the text of a file, piece by piece, to be written as UTF-8; it may be running.

    `mask` hides secrets. Blocks as long as reading all of it takes, before the first piece. Raises OSError.
    """
    if not regular(path / JOURNAL):
        raise FileNotFoundError(errno.ENOENT, f"{JOURNAL} is missing")
    document = gather(path / JOURNAL, mask, path.name)
    if form == "html":
        from tui_agent.export.html import pieces
    else:
        from tui_agent.export.markdown import pieces
    return pieces(document)


def gather(journal: Path, mask: Mask, id: str = "", *, unsigned: bool = False) -> Document:
    """What the journal of session `id` holds, as a document. Damaged places are counted. Raises OSError.

    `unsigned` is for scenes."""
    gathering = Gathering(mask)
    for item in JournalReader(journal, unsigned=unsigned):
        gathering.take(item)
    gathering.end()
    return gathering.document(id)


class Gathering:
    """Folds a journal line by line. The pieces of a reply are passed over when its end has all of it, as it mostly
    does: they are most of a journal."""

    def __init__(self, mask: Mask) -> None:
        """`mask` hides secrets."""
        self._mask = mask
        self._view, self._veil = SessionView(), Veil(mask)
        self._times: dict[str, str] = {}
        self._first = self._last = self._said = self._parent = ""
        self._damaged = 0
        self._held: dict[tuple[str, str], list[Line]] = {}

    def take(self, item: Line | Damage) -> None:
        """The next line, or a damage in its place."""
        if isinstance(item, Damage):
            self._damaged += item.why != "retried"
        elif item.type in PIECES:
            self._held.setdefault((item.node, item.type), []).append(item)
        elif item.type not in UNSEEN:
            self._take(item.record())

    def end(self) -> None:
        """The journal is over: what has no end is shown as far as it came."""
        self._release_all()
        over = e.Record(seq=self._view.seq + 1, at=self._last, event=e.SessionClosed(reason=""))
        for held in self._veil.records(over)[:-1]:  # what the beginning of a secret may stand in
            fold(self._view, msgspec.structs.replace(held, seq=self._view.seq + 1))

    def _release_all(self) -> None:
        for key in [*self._held]:
            self._release(key)

    def _take(self, record: e.Record) -> None:
        event = record.event
        self._first, self._last = self._first or record.at, record.at
        match event:
            case e.UserSaid(id=message, text=text):
                self._times[message] = clock(record.at)
                self._said = self._said or self._mask.mask(text)
            case e.SessionForked(parent=name):
                self._parent = name
            case e.ReplyEnded(text=text, thought=thought):
                for type, whole in ((e.ReplyText.type, text), (e.ReplyThought.type, thought)):
                    if whole:
                        self._held.pop((record.node, type), None)
                    else:
                        self._release((record.node, type))
            case e.RunEnded() | e.SessionOpened() | e.SessionClosed():
                self._release_all()
        fold(self._view, record, self._veil)

    def _release(self, key: tuple[str, str]) -> None:
        """Pieces of a reply count after all."""
        for line in self._held.pop(key, ()):
            seq, self._view.seq = self._view.seq, line.seq - 1
            fold(self._view, line.record(), self._veil)
            self._view.seq = max(seq, line.seq)

    def document(self, id: str) -> Document:
        """All that was taken, of session `id`."""
        view, damaged = self._view, self._damaged
        facts = [
            ("session", id or view.id),
            ("workspace", view.workspace),
            ("model", " · ".join(filter(None, [view.model, view.provider]))),
            ("strategy", f"{view.strategy} · {view.strategy_why}" if view.strategy_why else ""),
            ("from", clock(self._first)),
            ("to", clock(self._last)),
            ("fork of", self._parent),
            ("written by", f"tui-agent {view.version}" if view.version else ""),
            (
                "not readable",
                f"{damaged} place{'s' if damaged != 1 else ''} of the journal" if damaged else "",
            ),
        ]
        return Document(
            title=one_line(view.title, 200) or one_line(self._said, 100) or "A session without a message",
            facts=tuple((name, one_line(shown(text), 500)) for name, text in facts if text),
            sections=Sections(view, self._times),
            messages=messages(view),
        )


def clock(at: str) -> str:
    """A record's time to the second, without its zone: `2026-01-07 10:00:01`."""
    return one_line(at[:19].replace("T", " "), 19)
