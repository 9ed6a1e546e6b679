"""The file of the plan document: merged with concurrent changes by others, replaced atomically (P3, P4)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec import structs

from tui_agent.common.bounded import put_bounded
from tui_agent.common.domain import FrozenValue
from tui_agent.plan.document import Plan
from tui_agent.plan.markdown import Document, parse
from tui_agent.plan.merge import Choice, Conflict, MergeResult, merge_plans
from tui_agent.plan.writing import SKELETON, PlanTextError, rewrite
from tui_agent.platform.file_faults import FileChangedError, FileFault, FileTooLargeError, fault_of
from tui_agent.platform.files import FileBytes, read_file, replace_file, sha256_of
from tui_agent.platform.syscalls import OS, OsCalls

CAP = 16 << 20
"""Maximum bytes of a plan document."""
MAX_REPLACED = 16
"""Replaced files that stay open: another writer may be several saves behind."""
QUIET_PERIOD = 0.12
"""Seconds without a write after which a text is considered complete."""
_SETTLED = 0.01
"""Seconds without a write before a text is read: editors write in parts."""
_PATIENCE = 0.5
"""Seconds to wait for a writer."""
_MAX_ATTEMPTS = 200
_MAX_VERSIONS = 200


@dataclass
class _OpenFile:
    fd: int
    sha256: str


class ReplacedFiles:
    """The files last replaced under a name, watched for late writes. Does file IO."""

    def __init__(self) -> None:
        self.unreadable: OSError | None = None
        """Error that prevented reading one of them."""
        self._open_files: list[_OpenFile] = []
        self._withdrawn: list[_OpenFile] = []
        """Files that had the name only during a rollback; many of them may come at once."""
        self._unread_texts: list[bytes] = []
        self._saved_texts: dict[str, None] = {}
        """Hashes of texts of which nothing can be lost: merged, or copied."""

    def note_saved(self, sha256: str | None) -> None:
        """Note that the text with that hash was merged or copied; None is ignored."""
        if sha256 is not None:
            put_bounded(self._saved_texts, sha256, None, _MAX_VERSIONS)

    def is_saved(self, sha256: str) -> bool:
        """Return whether the text with that hash was merged or copied."""
        return sha256 in self._saved_texts

    @contextlib.contextmanager
    def replacing(self, path: Path, sha256: str | None) -> Iterator[None]:
        """Keep the current file at `path`, with that hash, open while the block replaces it."""
        with contextlib.ExitStack() as stack:
            opened = None
            if sha256 is not None:
                with contextlib.suppress(OSError):
                    opened = _OpenFile(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), sha256)
                    stack.callback(_close, opened.fd)
            yield
            stack.pop_all()
        if opened is not None:
            self._add(self._open_files, opened)

    def watch(self, fd: int, sha256: str) -> None:
        """Watch an open file that was withdrawn, and had that hash; `close` closes it."""
        self._add(self._withdrawn, _OpenFile(fd, sha256))

    def _add(self, files: list[_OpenFile], opened: _OpenFile) -> None:
        files.append(opened)
        while len(files) > MAX_REPLACED:
            self._unread_texts += self._read_changed(files[0], None, last=True)
            _close(files.pop(0).fd)

    def late_writes(self, current: os.stat_result | None, *, last: bool = False) -> list[bytes]:
        """Return the texts written into them since the last call; with `last`, even incomplete ones.

        `current` is the file that has the name now: after a rollback it may be one of them. Does not raise:
        `unreadable` has the error, and the file is read again the next time.
        """
        texts, self._unread_texts = self._unread_texts, []
        for old in (*self._open_files, *self._withdrawn):
            texts += self._read_changed(old, current, last=last)
        return texts

    def close(self) -> None:
        """Close all files. Does not raise."""
        for files in (self._open_files, self._withdrawn):
            while files:
                _close(files.pop().fd)

    def _read_changed(self, old: _OpenFile, current: os.stat_result | None, *, last: bool) -> list[bytes]:
        started = time.monotonic()
        try:
            if current is not None and os.path.samestat(current, os.fstat(old.fd)):
                return []
            while (data := _read_all(old.fd)) and (sha256 := sha256_of(data)) != old.sha256:
                if self.is_saved(sha256):
                    old.sha256 = sha256
                    break
                quiet = time.time() - os.fstat(old.fd).st_mtime > QUIET_PERIOD
                if last or quiet or time.monotonic() - started > _PATIENCE:
                    old.sha256 = sha256
                    return [data]
                time.sleep(_SETTLED)  # a write is in progress
        except OSError as error:
            self.unreadable = error
        return []


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):  # the descriptor is closed in any case
        os.close(fd)


def _read_all(fd: int) -> bytes:
    data = bytearray()
    while chunk := os.pread(fd, 1 << 20, len(data)):
        data += chunk
    return bytes(data)


class Unreadable(FrozenValue, frozen=True, kw_only=True):
    """The file is not a valid plan. It is left unchanged until the user decides."""

    reason: str
    text: str | None = None
    """Its text, for a repair by the model; None if it is binary or too large."""
    sha256: str | None = None


class SaveResult(NamedTuple):
    """A successful save, or one that was not needed."""

    document: Document
    written: bool = True
    merged: bool = False
    """Changes made by others were merged."""
    copies: tuple[Path, ...] = ()
    """Saved copies of texts written by others at the same moment."""


class SaveConflict(NamedTuple):
    """Nothing was written: resolve the conflicts, then call `save` again with `choices`."""

    conflicts: tuple[Conflict, ...]
    document: Document
    """The file's content."""


class RefreshResult(NamedTuple):
    """The result of rereading the file."""

    plan: Plan
    """The file's plan merged with our unsaved changes."""
    changed: bool
    """True if others changed the file since the last read."""
    conflicts: tuple[Conflict, ...] = ()
    copies: tuple[Path, ...] = ()
    """As in SaveResult."""


Outcome: TypeAlias = SaveResult | SaveConflict | Unreadable


class _FileState(NamedTuple):
    document: Document
    sha256: str | None
    """Hash of the current file; None if there is none."""
    changed: bool
    """True if others changed the file."""


class PlanStore:
    """The plan document of a session. Call `load` first. Methods do file IO."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time, calls: OsCalls = OS) -> None:
        self.path = path
        self._clock = clock
        self._calls = calls
        self._lock = threading.Lock()
        self.document = parse(SKELETON)
        """The file's content as of the last read or save."""
        self._sha256: str | None = None
        self.plan = self.document.plan
        """The plan as of the last read or save: shown in the panel, and the base of changes."""
        self._versions: dict[int, Plan] = {}
        self._replaced = ReplacedFiles()
        self._briefly_visible: dict[int, tuple[bytes, ...]] = {}
        """Version of our text that had to be rolled back → the other writer's texts that it had replaced."""
        self._to_copy: list[bytes] = []
        """Texts of others that still must be saved as copies."""
        self._copies: list[Path] = []

    # --- reading ---

    def load(self) -> Document | Unreadable:
        """Read the file for the first time; a missing one is an empty plan. Raises FileFault."""
        with self._lock:
            state = self._read_state()
            if isinstance(state, Unreadable):
                return state
            self._remember(state.document, state.sha256, state.document.plan)
            return state.document

    def refresh(self) -> RefreshResult | Unreadable:
        """Read the file again if others changed it. Writes nothing. Raises FileFault."""
        with self._lock:
            self._check_replaced()
            state = self._read_state()
            if isinstance(state, Unreadable):
                return state
            self._save_hidden_text(state)
            if not state.changed:
                return RefreshResult(self.plan, changed=False, copies=self._pop_copies())
            theirs = state.document.plan
            merged = self._merge(self.plan, theirs, {})
            if not merged.conflicts:
                self._remember(state.document, state.sha256, merged.plan)
            return RefreshResult(merged.plan, True, merged.conflicts, self._pop_copies())

    # --- saving ---

    def plan_of_version(self, version: int) -> Plan | None:
        """Return the plan that was saved or read with that version; None if it is too old."""
        with self._lock:
            return self._versions.get(version)

    def save(
        self, plan: Plan, since: Plan, choices: Mapping[str, Choice] | None = None, over: Document | None = None
    ) -> Outcome:
        """Write `plan`, which is based on `since` (a `plan` of this store), with a new version.

        Changes made by others are merged; if both sides changed the same value, nothing is written and the conflicts
        are returned. `over` is the document to write into for edits of the whole text, used only if nobody else changed
        the file. Raises FileFault.
        """
        with self._lock:
            self._check_replaced()
            for _ in range(_MAX_ATTEMPTS):
                state = self._read_state()
                if isinstance(state, Unreadable):
                    return state
                self._save_hidden_text(state)
                outcome = self._try_save(plan, since, state, choices or {}, over)
                if outcome is not None:
                    return outcome
            raise FileFault(self.path, "is constantly being rewritten by another program", "busy")

    def _try_save(
        self, plan: Plan, since: Plan, state: _FileState, choices: Mapping[str, Choice], over: Document | None
    ) -> Outcome | None:
        """Try to save once; None if others wrote in between."""
        target = state.document if over is None or state.changed else over
        conflicts: tuple[Conflict, ...] = ()
        merged, theirs = structs.replace(plan, created_at=self.plan.created_at or plan.created_at), state.document.plan
        if since != self.plan:
            ours = merge_plans(since, plan, self.plan, choices)
            conflicts, merged = ours.conflicts, ours.plan
        if state.changed:
            both = self._merge(merged, theirs, choices)
            conflicts, merged = (*conflicts, *both.conflicts), both.plan
        if conflicts:
            return SaveConflict(conflicts, state.document)
        unchanged = merged.content == theirs.content and target.text == state.document.text
        if state.sha256 is not None and unchanged:
            self._remember(state.document, state.sha256, merged)
            return SaveResult(state.document, written=False, merged=state.changed, copies=self._pop_copies())
        version = max(theirs.version, self.plan.version, *self._versions, 0) + 1
        now = round(self._clock() * 1000)
        merged = structs.replace(merged, version=version, updated_at=now, created_at=merged.created_at or now)
        try:
            document = rewrite(merged, target)
        except PlanTextError as error:
            return Unreadable(reason=str(error), text=state.document.text, sha256=state.sha256)
        try:
            with self._replaced.replacing(self.path, state.sha256):
                sha256 = self._replace_file(self.path, document.text.encode("utf-8"), state.sha256)
        except FileChangedError as error:
            # Our text may have been visible for a moment: whoever read it then continues from it, and not from their
            # own save, which it had replaced.
            self._versions[version] = document.plan
            put_bounded(self._briefly_visible, version, error.displaced, MAX_REPLACED)
            self._to_copy += filter(None, error.overtaken)
            self._make_copies()
            return None
        self._replaced.note_saved(state.sha256)
        self._remember(document, sha256, document.plan)
        with contextlib.suppress(FileFault):  # saved; the copies are tried again later
            self._check_replaced()
        return SaveResult(document, merged=state.changed, copies=self._pop_copies())

    def _merge(self, ours: Plan, theirs: Plan, choices: Mapping[str, Choice]) -> MergeResult:
        """Merge our plan with the file's, which may be based on any of our versions."""
        base = self._versions.get(theirs.version)
        return merge_plans(base or self.document.plan, ours, theirs, choices, cautious=base is None)

    def save_copy(self, sha256: str) -> Path | None:
        """Save a copy of the file if it still has that hash. Raises FileFault."""
        with self._lock:
            file = self._read_file()
            return self._copy(file.data) if file.sha256 == sha256 else None

    def replace(self, text: str, expected_sha256: str | None) -> SaveResult | Unreadable:
        """Replace an unreadable document by `text`, after saving a copy of it.

        Raises FileFault, and FileChangedError if the file no longer has the hash `expected_sha256`.
        """
        with self._lock:
            document = parse(text)
            if document.problem:
                return Unreadable(reason=document.problem, text=text)
            if expected_sha256 is not None:
                self._copies.append(self._copy(self._read_file().data))
            sha256 = self._replace_file(self.path, text.encode("utf-8"), expected_sha256)
            self._remember(document, sha256, document.plan)
            return SaveResult(document, copies=self._pop_copies())

    def close(self) -> tuple[Path, ...]:
        """Check the replaced files a last time and close them; return the saved copies.

        Raises FileFault if a text could not be read or copied; a second call returns the copies that were saved.
        """
        with self._lock:
            self._replaced.unreadable = None
            try:
                self._check_replaced(last=True)
            finally:
                self._replaced.close()
            if (error := self._replaced.unreadable) is not None:
                raise fault_of(error, self.path) from error
            return self._pop_copies()

    # --- the file ---

    def _read_file(self) -> FileBytes:
        return read_file(self.path, CAP, follow=True, beneath=self.path.parent)

    def _replace_file(self, path: Path, data: bytes, expected_sha256: str | None) -> str:
        """Return the hash of the new content."""
        return replace_file(
            path,
            data,
            expected_sha256,
            follow=True,
            beneath=self.path.parent,
            mode=0o600,
            staged=False,
            on_withdrawn=self._replaced.watch,
            calls=self._calls,
        ).sha256

    def _read_state(self) -> _FileState | Unreadable:
        """Read the file, waiting until no write is in progress."""
        started = time.monotonic()
        while True:
            timed_out = time.monotonic() - started > _PATIENCE
            try:
                file: FileBytes | None = self._read_file()
            except FileTooLargeError as error:
                return Unreadable(reason=f"it is too large for a plan ({error.size:,} bytes)")
            except FileFault as fault:
                if fault.code != "not_found":
                    raise
                file = None
            if file is None:
                if timed_out or self._sha256 is None:
                    return _FileState(self.document, None, False)
            elif file.sha256 == self._sha256:
                return _FileState(self.document, file.sha256, False)
            elif timed_out or self._is_complete(file, _SETTLED):
                document = _document(file.data)
                if timed_out or not self._may_be_torn(document) or self._is_complete(file, QUIET_PERIOD):
                    if document is None:
                        text = _readable_text(file.data)
                        return Unreadable(reason="it is not UTF-8 text", text=text, sha256=file.sha256)
                    if document.problem:
                        return Unreadable(reason=document.problem, text=document.text, sha256=file.sha256)
                    return _FileState(document, file.sha256, True)
            time.sleep(_SETTLED / 2)  # polling in a thread: there is no event for a completed write

    def _may_be_torn(self, document: Document | None) -> bool:
        """Return True if the text may be incomplete: our last line is missing."""
        if document is None or document.problem:
            return True
        last = next((line for line in reversed(self.document.lines) if line.strip()), "")
        return last not in document.lines

    def _is_complete(self, file: FileBytes, quiet: float) -> bool:
        """Return True if the file was not written for `quiet` seconds."""
        try:
            status = os.stat(file.path)
        except OSError:
            return False
        return bool(file.data) and status.st_size == len(file.data) and time.time() - status.st_mtime > quiet

    def _remember(self, document: Document, sha256: str | None, plan: Plan) -> None:
        """Set the known state of the file, and our plan."""
        self.document, self._sha256, self.plan = document, sha256, plan
        self._replaced.note_saved(sha256)
        put_bounded(self._versions, document.plan.version, document.plan, _MAX_VERSIONS)

    # --- writes by others at the same moment ---

    def _save_hidden_text(self, state: _FileState) -> None:
        """Save copies of another writer's texts if they continued from ours, which had replaced them for a moment."""
        if state.changed:
            self._to_copy += self._briefly_visible.pop(state.document.plan.version, ())
            self._make_copies()

    def _check_replaced(self, *, last: bool = False) -> None:
        """Save copies of late writes. Raises FileFault."""
        current = None
        with contextlib.suppress(OSError):
            current = os.stat(self.path)
        self._to_copy += self._replaced.late_writes(current, last=last)
        self._make_copies()

    def _make_copies(self) -> None:
        """Save the pending copies, and of what these had replaced too. Raises FileFault; the rest is tried again."""
        while self._to_copy:
            text = self._to_copy[0]
            if not self._replaced.is_saved(sha256 := sha256_of(text)):
                self._copies.append(self._copy(text))
                self._replaced.note_saved(sha256)
            document = _document(text)
            hidden = self._briefly_visible.pop(document.plan.version, ()) if document is not None else ()
            self._to_copy[:1] = hidden

    def _copy(self, data: bytes) -> Path:
        """Save bytes in a file next to the plan document."""
        mark = sha256_of(data)[:8]
        with contextlib.suppress(OSError):  # a file that can't be compared counts as different
            for existing in self.path.parent.glob(f"{self.path.stem}.aside-*-{mark}{self.path.suffix}"):
                if existing.is_file() and existing.read_bytes() == data:
                    return existing
        stamp = datetime.fromtimestamp(self._clock()).strftime("%Y%m%d-%H%M%S")
        name = f"{self.path.stem}.aside-{stamp}-{mark}{self.path.suffix}"
        copy = self.path.with_name(name)
        with contextlib.suppress(FileChangedError):  # the same bytes are there already
            self._replace_file(copy, data, None)
        return copy

    def _pop_copies(self) -> tuple[Path, ...]:
        copies, self._copies = tuple(self._copies), []
        return copies


def _document(data: bytes) -> Document | None:
    try:
        return parse(data.decode("utf-8"))
    except UnicodeDecodeError:
        return None


def _readable_text(data: bytes) -> str | None:
    """Return the text in partly binary data; None if there is hardly any."""
    text = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in data.decode("utf-8", "replace"))
    return text if text.strip("\ufffd \n\t") and 5 * text.count("\ufffd") < len(text) else None
