"""What happens to files beside the edits themselves: pre-images, undo and rewind, what commands changed (K1)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from tui_agent.domain import Noun
from tui_agent.events.base import Event
from tui_agent.symbols import Diagnostic

Outcome: TypeAlias = Literal["restored", "already", "left", "aside", "failed"]
"""`already`: it was as it should be. `left`: somebody changed it since, and it was not touched. `aside`: the earlier
content was written beside it."""


class FileState(Noun, frozen=True, kw_only=True):
    """What lies at a path, by content."""

    kind: Literal["absent", "file", "folder", "link", "other"]
    sha256: str = ""
    """Of a file's bytes; of a link's target."""
    size: int = 0
    mode: int = 0
    """Permission bits of a file."""


class FileDiagnosed(Event, frozen=True, kw_only=True):
    """A language server found errors in a file that was just written (T4). The record's `node` is the call."""

    type: ClassVar[str] = "file.diagnosed"
    path: str
    """Absolute, resolved."""
    display: str
    found: tuple[Diagnostic, ...] = ()
    """Errors only, new ones marked."""


class FileSnapshotted(Event, frozen=True, kw_only=True):
    """A file is about to be edited; what lies there is kept (FAULTS 5.4). Durable before the edit.

    `file.changed` tells that the edit happened. Where it is missing, the bytes on disk tell.
    """

    type: ClassVar[str] = "file.snapshotted"
    path: str
    """Absolute, resolved."""
    display: str
    before: FileState
    after: str
    """sha256 of the bytes that the edit writes."""
    folders: tuple[str, ...] = ()
    """Folders that the edit makes on the way, the outermost first."""
    unkept: str = ""
    """Why what lies there could not be kept: then this edit can't be undone."""
    call: str = ""
    """Id of the tool call that edits."""


class Restoring(Noun, frozen=True, kw_only=True):
    """One file of an undo, with the states from and to which it goes."""

    path: str
    display: str
    before: FileState
    after: FileState
    folders: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    """The edits that this takes back or makes again: `file.snapshotted` records, counted from 1."""
    aside: bool = False
    """What was there is to be written beside it, and it stays as it is."""
    outcome: Outcome | Literal[""] = ""
    """Empty while it is not done."""
    why: str = ""
    """What kept it from being done; for `aside` where the content is."""


class UndoBegun(Event, frozen=True, kw_only=True):
    """These files go back. Durable before the first one is touched: without `undo.done` a crash cut it off."""

    type: ClassVar[str] = "undo.begun"
    id: str
    kind: Literal["undo", "redo", "rewind"]
    items: tuple[Restoring, ...]
    runs: tuple[str, ...] = ()


class UndoDone(Event, frozen=True, kw_only=True):
    """What became of every file."""

    type: ClassVar[str] = "undo.done"
    id: str
    kind: Literal["undo", "redo", "rewind"]
    outcome: Literal["done", "stopped", "rolled_back"]
    """`stopped`: some files failed. `rolled_back`: a cut-off undo was reversed."""
    items: tuple[Restoring, ...]
    runs: tuple[str, ...] = ()


class CheckpointsKept(Event, frozen=True, kw_only=True):
    """The user is content with what these runs did: `undo` passes them over."""

    type: ClassVar[str] = "checkpoints.kept"
    runs: tuple[str, ...]


class CommandChanged(Event, frozen=True, kw_only=True):
    """A command changed files, which undo can't take back (R18.4). The record's `node` is the call."""

    type: ClassVar[str] = "command.changed"
    command: str
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    more: int = 0
    """Further files that are not named."""
    unwatched: tuple[str, ...] = ()
    """What could not be watched, in words."""


class ConversationRewound(Event, frozen=True, kw_only=True):
    """The model no longer knows what was said since a message; the record of it stays (K1)."""

    type: ClassVar[str] = "conversation.rewound"
    run: str
    """The run before whose message the conversation goes on."""
    text: str
    """That message, to be said again in other words."""
    history: tuple[Any, ...]
    """The conversation as it is now, as `History.export` writes it."""
    cleared: bool = False
    """The user wants all of it forgotten (`/clear`, U5); plan, files and session stay as they are."""
