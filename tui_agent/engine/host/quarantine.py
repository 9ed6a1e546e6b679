"""Protected files that a command made: moved out of the workspace until the user has decided about them (A2).

`<session>/quarantine` holds them. While a command runs, a note in the data folder says how the workspace was, so that
the next start can do the same for a command that ran when the program was killed, and undo knows its changes (K1).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tui_agent.checkpoints import disk
from tui_agent.checkpoints.snapshot import WorkspaceSnapshots
from tui_agent.checkpoints.store import BlobStore, StoreError
from tui_agent.common import paths
from tui_agent.common.domain import EditAction
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.host.command_watch import UnfinishedCommand
from tui_agent.engine.host.protected_changes import ABSENT_STATE, ProtectedChange, ProtectedNames, is_obeyed
from tui_agent.events import CommandFile, FileState, Notice, QuarantinedFile
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import atomic_write, read_file, sha256_of
from tui_agent.platform.locks import FileLock, InUse
from tui_agent.platform.safe_open import open_folder
from tui_agent.safety.roots import Roots
from tui_agent.storage.folder import LOCK
from tui_agent.text import pluralize
from tui_agent.tools.diffs import diff_bytes

log = logging.getLogger(__name__)

FOLDER = "quarantine"
"""Name of the folder of the files in a session's folder."""
MAX_SHOWN_FILES = 100
"""Files of a folder whose content is shown."""
MAX_SHOWN_SIZE = 256 * 1024
"""Bytes of one file, and of a folder's files, that are shown."""


# --- moving --------------------------------------------------------------------------------------


def plan_items(
    changes: Iterable[ProtectedChange], folder: Path, display: dict[str, str]
) -> tuple[QuarantinedFile, ...]:
    """Return where each changed path will go: into `folder`, which is new."""
    items: list[QuarantinedFile] = []
    for number, change in enumerate(changes, 1):
        target = folder / str(number) / os.path.basename(change.path)
        items.append(
            QuarantinedFile(
                path=change.path,
                display=display[change.path],
                kind=change.kind,
                moved_to=str(target) if os.path.lexists(change.path) else "",
                before=change.before,
            )
        )
    return tuple(items)


def move_out(item: QuarantinedFile, store: BlobStore) -> QuarantinedFile:
    """Move the command's version away and write the earlier content back. Never raises for disk errors.

    Does nothing that was done already, so that it can be repeated after a crash.
    """
    path = Path(item.path)
    try:
        data = store.get(item.before.sha256) if item.before.kind in ("file", "link") else b""
        if item.moved_to and not os.path.lexists(item.moved_to):
            _move(path, Path(item.moved_to))
        if item.before.kind in ("file", "link") and not os.path.lexists(path):
            disk.apply_state(path, ABSENT_STATE, item.before, data)
    except (StoreError, FileFault, OSError, ValueError) as error:
        return msgspec.structs.replace(item, restored=False, why=str(error))
    return item


def _move(path: Path, target: Path) -> None:
    """Move a path without following links, also to another file system. Raises OSError."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open_folder(path.parent) as folder:
        try:
            status = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        with contextlib.suppress(OSError):
            os.rename(path.name, target, src_dir_fd=folder)
            return
        if stat.S_ISDIR(status.st_mode):
            shutil.copytree(path, target, symlinks=True)
            shutil.rmtree(path.name, dir_fd=folder)
            return
        if stat.S_ISLNK(status.st_mode) or stat.S_ISREG(status.st_mode):
            shutil.copy2(path, target, follow_symlinks=False)
        os.unlink(path.name, dir_fd=folder)


DONE = {"create": "created", "modify": "changed", "delete": "deleted"}


def quarantine_text(items: Sequence[QuarantinedFile]) -> str:
    """Return where quarantined files are, for the user."""
    places = [
        f"{item.display} ({DONE[item.kind]})" + (f" is in {item.moved_to}" if item.moved_to else "") for item in items
    ]
    return f"In quarantine, as a command made {pluralize(len(items), 'protected file')}: {'; '.join(places)}."


def split_by_approval(
    changes: Sequence[ProtectedChange], command: str
) -> tuple[list[ProtectedChange], list[ProtectedChange]]:
    """Divide changes by a command that the user saw: those that need approval all the same, and the others.

    What this program obeys needs it unless the command names the file.
    """
    suspect = [change for change in changes if is_obeyed(change.path) and os.path.basename(change.path) not in command]
    return suspect, [change for change in changes if change not in suspect]


# --- asking --------------------------------------------------------------------------------------


class QuarantinedEdit(msgspec.Struct, frozen=True):
    """What a command made of one or several protected files, as the user is asked about it."""

    items: tuple[QuarantinedFile, ...]
    action: EditAction
    digest: str
    """Of the shown content: what is released must have it."""


def as_edit(items: Sequence[QuarantinedFile], store: BlobStore) -> QuarantinedEdit:
    """Show the content of quarantined files as one edit."""
    digest = content_digest(items)
    if len(items) == 1 and items[0].before.kind in ("absent", "file"):
        item = items[0]
        before = _content(store, item.before)
        after = _file_content(item)
        if not item.moved_to or after is not None:
            diff = diff_bytes(item.display, before, after)
            action = EditAction(
                path=item.path,
                display=item.display,
                diff=diff,
                before=item.before.sha256 or None,
                after=sha256_of(after or b""),
                protected=True,
            )
            return QuarantinedEdit(tuple(items), action, digest)
    text = "".join(_as_text(item) for item in items)
    display = items[0].display if len(items) == 1 else f"{len(items)} protected files"
    diff = diff_bytes(display, None, text.encode("utf-8", "replace"))
    is_new = len(items) == 1 and items[0].kind == "create"
    path = items[0].path if is_new else f"{items[0].moved_to or items[0].path}.approval"
    return QuarantinedEdit(
        tuple(items),
        EditAction(path=path, display=display, diff=diff, before=None, after=digest, protected=True),
        digest,
    )


def _content(store: BlobStore, state: FileState) -> bytes | None:
    with contextlib.suppress(StoreError):
        return store.get(state.sha256) if state.kind == "file" else None
    return None


def _file_content(item: QuarantinedFile) -> bytes | None:
    """Return a small regular file as bytes, else None."""
    with contextlib.suppress(FileFault):
        return read_file(Path(item.moved_to), MAX_SHOWN_SIZE, follow=False).data if item.moved_to else None
    return None


def _as_text(item: QuarantinedFile) -> str:
    if not item.moved_to:
        return f"── {item.display}: deleted\n"
    top = Path(item.moved_to)
    parts: list[str] = []
    size = 0
    for number, path in enumerate(_files_below(top)):
        name = item.display if path == top else f"{item.display}/{os.path.relpath(path, top)}"
        if number >= MAX_SHOWN_FILES or size > MAX_SHOWN_SIZE:
            parts.append("── … more files\n")
            break
        is_sample = path.name.endswith(".sample") and path.parent.name == "hooks"
        text = "(an example, which git does not run)" if is_sample else _describe(path, MAX_SHOWN_SIZE - size)
        size += len(text)
        parts.append(f"── {name}\n{text}\n")
    return "".join(parts) or f"── {item.display}: an empty folder\n"


def _describe(path: Path, limit: int) -> str:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return f"(a symbolic link to {os.readlink(path)})"
        if not stat.S_ISREG(status.st_mode):
            return "(a pipe, socket or device)"
        data = read_file(path, limit, follow=False).data
        return f"(binary, {len(data):,} bytes)" if b"\0" in data else data.decode("utf-8", "replace")
    except (OSError, FileFault) as error:
        return f"({error})"


def _files_below(path: Path) -> list[Path]:
    """Return the path itself if it is no folder, else the files in it, sorted."""
    if path.is_symlink() or not path.is_dir():
        return [path]
    return sorted(
        Path(folder, name)
        for folder, folders, names in os.walk(path)
        for name in (*names, *(name for name in folders if os.path.islink(os.path.join(folder, name))))
    )


def content_digest(items: Iterable[QuarantinedFile]) -> str:
    """Return the hash of names, kinds, permissions and contents of quarantined files."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(repr((item.path, item.kind, item.before.sha256)).encode("utf-8", "surrogateescape"))
        for path in _files_below(Path(item.moved_to)) if item.moved_to else ():
            with contextlib.suppress(OSError, FileFault):
                state = disk.read_state(path)
                digest.update(
                    repr((str(path), state.kind, state.sha256, state.mode)).encode("utf-8", "surrogateescape")
                )
    return digest.hexdigest()


# --- releasing --------------------------------------------------------------------------------


def release(shown: QuarantinedEdit) -> tuple[tuple[CommandFile, ...], tuple[str, ...]]:
    """Write what the user approved to the workspace; return the changed files, and what could not be written."""
    if content_digest(shown.items) != shown.digest:
        return (), tuple(f"{item.display}: it changed after you had seen it" for item in shown.items)
    done: list[CommandFile] = []
    problems: list[str] = []
    for item in shown.items:
        try:
            done += _release(item)
        except (FileFault, OSError, ValueError) as error:
            problems.append(f"{item.display}: {error}")
    return tuple(done), tuple(problems)


def _release(item: QuarantinedFile) -> list[CommandFile]:
    path, source = Path(item.path), Path(item.moved_to)
    if not item.moved_to:
        after, data = ABSENT_STATE, b""
    elif source.is_dir() and not source.is_symlink():
        if item.before.kind in ("file", "link"):
            disk.apply_state(path, item.before, ABSENT_STATE, b"")
        if os.path.lexists(path):
            raise FileExistsError("it exists again")
        with open_folder(path.parent, create=True):  # a fresh copy: the command may still hold the old one open
            shutil.copytree(source, path, symlinks=True)
        shutil.rmtree(source)
        return []
    else:
        after = disk.read_state(source)
        data = os.fsencode(os.readlink(source)) if after.kind == "link" else read_file(source, follow=False).data
    folders = disk.missing_folders(path)
    disk.apply_state(path, item.before, after, data, set_mode=True)
    if item.moved_to:
        source.unlink()
    return [CommandFile(path=item.path, display=item.display, before=item.before, after=after, folders=folders)]


# --- notes for the next start --------------------------------------------------------------------


class CommandNote(msgspec.Struct):
    """What the next start must know while a command runs, or files are in quarantine."""

    session: str
    """Folder of the session."""
    command: str = ""
    """The command that runs; empty if none does."""
    approved: bool = False
    """The user has seen the command."""
    protected: dict[str, FileState] = {}
    """The protected files of the workspace before it."""
    files: list[QuarantinedFile] = []
    """Files in quarantine that nobody has decided about."""
    unfinished: UnfinishedCommand | None = None
    """The command whose changes are not in the session's journal yet."""


def note_file(workspace: Path, session: Path) -> Path:
    """Return where the note of a session is, if there is one."""
    return paths.command_notes_dir(workspace) / f"{session.name}.json"


def save_note(workspace: Path, session: Path, note: CommandNote) -> None:
    """Write or, if it says nothing, delete a session's note, durably. Raises FileFault, OSError."""
    file = note_file(workspace, session)
    if not note.command and not note.files and note.unfinished is None:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)
            file.parent.rmdir()  # unless another session has a note
        return
    paths.ensure_private_dir(file.parent)
    atomic_write(file, _encoded(note))


def _encoded(note: CommandNote) -> bytes:
    try:
        return msgspec.json.encode(note)
    except UnicodeEncodeError:  # file names with lone surrogates, which UTF-8 can't encode
        import json

        return json.dumps(msgspec.to_builtins(note)).encode()


def read_notes(workspace: Path) -> list[tuple[Path, CommandNote]]:
    """Return the notes about a workspace with their files. Damaged ones are skipped."""
    import json

    notes: list[tuple[Path, CommandNote]] = []
    with contextlib.suppress(OSError):
        for file in sorted(paths.command_notes_dir(workspace).glob("*.json")):
            with contextlib.suppress(OSError, ValueError, msgspec.ValidationError):
                notes.append((file, msgspec.convert(json.loads(file.read_bytes()), CommandNote)))
    return notes


def recover(roots: Roots, *, attended: bool, opened: Path | None = None) -> tuple[Notice, ...]:
    """Move out what commands made of protected files while the program was killed; return what to tell the user.

    What else they changed is added to the notes; the user is told of it unless `opened` is the session, which journals
    it. Notes about quarantined files are kept until an `attended` start has told of them. Does file IO; never raises.
    """
    notices: list[Notice] = []

    def tell(text: str, code: str = "command.quarantined") -> None:
        notices.append(Notice(level="warning", text=text, code=code))

    for file, note in read_notes(roots.folders[0]):
        session = Path(note.session)
        is_gone = not session.is_dir()
        try:
            lock = None if is_gone else FileLock(session / LOCK)
        except InUse:
            continue
        except OSError:
            lock = None
        try:
            note.files = [item for item in note.files if not item.moved_to or os.path.lexists(item.moved_to)]
            if is_gone:
                note.unfinished = None
            if note.command:
                _recover_command(roots, session, note)
                if note.unfinished is not None and session.name != (opened.name if opened else ""):
                    tell(note.unfinished.describe(session.name), "command.unfinished")
            if note.files:
                tell(quarantine_text(note.files))
            if note.command or attended or is_gone:
                note.command, note.protected = "", {}
                note.files = [] if attended else note.files
                save_note(roots.folders[0], session, note)
        except (OSError, FileFault, StoreError, ValueError) as error:
            tell(f"What a command made of protected files could not be checked ({file.name}): {error}")
        finally:
            if lock is not None:
                lock.release()
    return tuple(notices)


def _recover_command(roots: Roots, session: Path, note: CommandNote) -> None:
    """Move out what the interrupted command of a note made, and add it to the note."""
    store = BlobStore(session)
    changes = _changes_since(roots, note, store)
    if note.approved:
        changes, _ = split_by_approval(changes, note.command)
    display = {change.path: roots.display(Path(change.path)) for change in changes}
    items = plan_items(changes, session / FOLDER / f"recovered-{os.urandom(4).hex()}", display)
    if items:
        session.mkdir(mode=0o700, exist_ok=True)
        save_note(roots.folders[0], session, msgspec.structs.replace(note, files=[*note.files, *items]))
    moved = [item for item in (move_out(item, store) for item in items) if item.restored]
    note.files += moved
    if note.unfinished is not None:
        note.unfinished.compare(store, ProtectedNames(roots).__contains__, [item.path for item in moved])


def has_unfinished(workspace: Path, session: Path) -> bool:
    """Return whether opening a session journals the changes of a command. Does file IO."""
    file = note_file(workspace, session)
    return any(each == file and note.unfinished is not None for each, note in read_notes(workspace))


async def report_unfinished(stream: SessionStream, workspace: Path, session: Path) -> None:
    """Journal, once, what a command of the session changed that ran when the program was killed (K1)."""
    file = note_file(workspace, session)
    notes = await asyncio.to_thread(lambda: [note for each, note in read_notes(workspace) if each == file])
    for note in notes:
        if note.unfinished is None:
            continue
        for event in await asyncio.to_thread(note.unfinished.missing_events, stream):
            stream.emit(event, run=note.unfinished.run, node=note.unfinished.call)
        note.unfinished = None
        try:
            await stream.durable()
            await asyncio.to_thread(save_note, workspace, session, note)
        except (JournalBroken, OSError, FileFault) as error:  # the next start finds it in the journal
            log.warning("the note about a command can't be removed: %s", error)


def _changes_since(roots: Roots, note: CommandNote, store: BlobStore) -> list[ProtectedChange]:
    """Compare the protected files with those of a note."""
    names = ProtectedNames(roots)
    snapshots = WorkspaceSnapshots(store, lambda _: lambda _: False, names.__contains__, saves=False)
    now = snapshots.take(roots.folders)
    known_folders = {os.path.dirname(path) for path in note.protected}
    changes: dict[str, ProtectedChange] = {}
    for path, known in now.files.items():
        before = note.protected.get(path)
        if before is None and path in names:
            top = _top_folder(path, names, known_folders, roots)
            changes.setdefault(top, ProtectedChange(top, "create", ABSENT_STATE))
        elif before is not None and before.sha256 and known.state.sha256 and before != known.state:
            changes[path] = ProtectedChange(path, "modify", before)
    for path, before in note.protected.items():
        if (
            before.sha256
            and path not in now.files
            and not os.path.lexists(path)
            and os.path.isdir(os.path.dirname(path))
        ):
            changes[path] = ProtectedChange(path, "delete", before)
    return list(changes.values())


def _top_folder(path: str, names: ProtectedNames, known: set[str], roots: Roots) -> str:
    """Return the topmost protected folder around a new file that held nothing protected before, or else the file."""
    top, folder = path, os.path.dirname(path)
    while any(folder.startswith(f"{root}/") for root in roots.folders):
        if names.has_folder(folder) and not any(f"{other}/".startswith(f"{folder}/") for other in known):
            top = folder
        folder = os.path.dirname(folder)
    return top
