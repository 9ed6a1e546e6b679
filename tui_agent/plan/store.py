"""The file of the plan document: read while others write it, merged with what they wrote, replaced atomically (P3)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
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

KEPT = 16
"""Files that stay open: the writer may be several saves of ours behind."""
QUIET = 0.12
"""Seconds without a write after which what was written is whole."""
_WRITER_PATIENCE = 0.5
_STEP = 0.01


@dataclass
class _OpenFile:
    fd: int
    sha256: str


class ReplacedFiles:
    """The last files that lay under a name. Blocks, as the disk does."""

    def __init__(self) -> None:
        self.unreadable: OSError | None = None
        """Why what may have been written into one of them is not known; None while all can be read."""
        self._open_files: list[_OpenFile] = []
        self._unread_texts: list[bytes] = []

    @contextmanager
    def replacing(self, path: Path, sha256: str | None) -> Iterator[None]:
        """The file at `path`, whose bytes have that hash, is replaced meanwhile; kept when nothing is raised."""
        try:
            fd = None if sha256 is None else os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            fd = None
        try:
            yield
        except BaseException:
            if fd is not None:
                _close(fd)
            raise
        if fd is not None and sha256 is not None:
            self._open_files.append(_OpenFile(fd, sha256))
        while len(self._open_files) > KEPT:
            self._unread_texts += self._seen(self._open_files[0], last=True)
            _close(self._open_files.pop(0).fd)

    def written_late(self, *, last: bool = False) -> list[bytes]:
        """What was written into them since the last look; with `last` also what may be torn. Never raises: a file
        that can't be read is looked at again the next time, and `unreadable` tells of it."""
        found, self._unread_texts = self._unread_texts, []
        for old in self._open_files:
            found += self._seen(old, last=last)
        return found

    def close(self) -> None:
        """Let go of all. Never raises."""
        while self._open_files:
            _close(self._open_files.pop().fd)

    def _seen(self, old: _OpenFile, *, last: bool) -> list[bytes]:
        try:
            return self._of(old, last=last)
        except OSError as error:
            self.unreadable = error
            return []

    @staticmethod
    def _of(old: _OpenFile, *, last: bool) -> list[bytes]:
        began = time.monotonic()
        while (data := _all_of(old.fd)) and (sha256 := sha256_of(data)) != old.sha256:
            quiet = time.time() - os.fstat(old.fd).st_mtime > QUIET
            if last or quiet or time.monotonic() - began > _WRITER_PATIENCE:
                old.sha256 = sha256
                return [data]
            time.sleep(_STEP)  # somebody is in the middle of it
        return []


def _close(fd: int) -> None:
    with suppress(OSError):  # it was only read, and the descriptor is gone whatever `close` reports
        os.close(fd)


def _all_of(fd: int) -> bytes:
    data = bytearray()
    while piece := os.pread(fd, 1 << 20, len(data)):
        data += piece
    return bytes(data)


CAP = 16 << 20
"""Bytes of a plan document that are read."""

_SETTLED = 0.01
"""Seconds without a write after which a text counts as whole: editors write in pieces."""
_PATIENCE = 0.5
_TRIES = 200
_VERSIONS = 200


class Unreadable(FrozenValue, frozen=True, kw_only=True):
    """The file can't be taken for a plan. It is left as it is until the user decides."""

    reason: str
    text: str | None = None
    """Its text, for a repair by the model; None when it is no text or too large."""
    sha256: str | None = None


class SaveResult(NamedTuple):
    """A save that happened, or was not needed."""

    document: Document
    written: bool = True
    merged: bool = False
    """Somebody else's changes went in, too."""
    aside: tuple[Path, ...] = ()
    """Texts that somebody wrote at the very same moment; each is kept in a file of its own."""


class SaveConflict(NamedTuple):
    """Nothing was written: these questions come first, then the same call with `choices`."""

    conflicts: tuple[Conflict, ...]
    document: Document
    """What the file says."""


class RefreshResult(NamedTuple):
    """A look at the file."""

    plan: Plan
    """The file's plan together with what of ours is not in the file."""
    changed: bool
    """Whether the file was changed by somebody else since the last look."""
    conflicts: tuple[Conflict, ...] = ()
    aside: tuple[Path, ...] = ()


Outcome: TypeAlias = SaveResult | SaveConflict | Unreadable


class _FileState(NamedTuple):
    document: Document
    sha256: str | None
    """Hash of what lies under the name now; None for nothing."""
    theirs: bool
    """Whether the document is news to us."""


class PlanStore:
    """The plan document of one session. `load` comes first."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time, calls: OsCalls = OS) -> None:
        self.path = path
        self._clock = clock
        self._calls = calls
        self._lock = threading.Lock()
        self.document = parse(SKELETON)
        """The file's text as of the last look or save."""
        self._sha256: str | None = None
        self.plan = self.document.plan
        """The plan as of the last look or save: what the panel shows and what changes start from."""
        self._versions: dict[int, Plan] = {}
        self._replaced = ReplacedFiles()
        self._briefly_visible: dict[int, bytes] = {}
        """Version of a text of ours that had to be taken back → the text of theirs that it was taken back for."""
        self._to_copy: list[bytes] = []
        """Texts of others that are to be kept aside and are not yet."""
        self._copies: list[Path] = []

    # --- looking ---

    def load(self) -> Document | Unreadable:
        """Read the file for the first time; an absent one reads as the empty plan. Raises FileFault."""
        with self._lock:
            found = self._find()
            if isinstance(found, _FileState):
                self._remember(found.document, found.sha256, found.document.plan)
                return found.document
            return found

    def refresh(self) -> RefreshResult | Unreadable:
        """Look whether somebody else changed the file. Writes nothing. Raises FileFault."""
        with self._lock:
            self._check_replaced()
            found = self._find()
            if isinstance(found, Unreadable):
                return found
            self._save_hidden_text(found)
            if not found.theirs:
                return RefreshResult(self.plan, changed=False, aside=self._take_copies())
            theirs = found.document.plan
            merged = self._merge(self.plan, theirs, {})
            if not merged.conflicts:
                self._remember(found.document, found.sha256, merged.plan)
            return RefreshResult(merged.plan, True, merged.conflicts, self._take_copies())

    # --- saving ---

    def known(self, version: int) -> Plan | None:
        """The plan as it was saved or seen under that version; None when that is too long ago."""
        with self._lock:
            return self._versions.get(version)

    def save(
        self, plan: Plan, since: Plan, choices: Mapping[str, Choice] | None = None, over: Document | None = None
    ) -> Outcome:
        """Write `plan`, which somebody made from `since` (a `plan` of this store), with the version counted up.

        Changes that others made meanwhile are kept; where both changed the same value, nothing is written and the
        conflicts are returned. `over` is the text to write into, notes and all, for somebody who edited the whole of
        it; it is taken only where nobody else changed the file. Raises FileFault when the file can't be written.
        """
        with self._lock:
            self._check_replaced()
            for _ in range(_TRIES):
                found = self._find()
                if isinstance(found, Unreadable):
                    return found
                self._save_hidden_text(found)
                outcome = self._attempt(plan, since, found, choices or {}, over)
                if outcome is not None:
                    return outcome
            raise FileFault(self.path, "is constantly being rewritten by another program", "busy")

    def _attempt(
        self, plan: Plan, since: Plan, found: _FileState, choices: Mapping[str, Choice], over: Document | None
    ) -> Outcome | None:
        """One try: None when somebody wrote in between."""
        ground = found.document if over is None or found.theirs else over
        conflicts: tuple[Conflict, ...] = ()
        whole, theirs = structs.replace(plan, created_at=self.plan.created_at or plan.created_at), found.document.plan
        if since != self.plan:
            ours = merge_plans(since, plan, self.plan, choices)
            conflicts, whole = ours.conflicts, ours.plan
        if found.theirs:
            both = self._merge(whole, theirs, choices)
            conflicts, whole = (*conflicts, *both.conflicts), both.plan
        if conflicts:
            return SaveConflict(conflicts, found.document)
        same = whole.content == theirs.content and ground.text == found.document.text
        if found.sha256 is not None and same:
            self._remember(found.document, found.sha256, whole)
            return SaveResult(found.document, written=False, merged=found.theirs, aside=self._take_copies())
        version = max(theirs.version, self.plan.version, *self._versions, 0) + 1
        now = round(self._clock() * 1000)
        whole = structs.replace(whole, version=version, updated_at=now, created_at=whole.created_at or now)
        try:
            document = rewrite(whole, ground)
        except PlanTextError as error:
            return Unreadable(reason=str(error), text=found.document.text, sha256=found.sha256)
        data = document.text.encode("utf-8")
        try:
            with self._replaced.replacing(self.path, found.sha256):
                done = replace_file(
                    self.path, data, found.sha256,
                    follow=True, beneath=self.path.parent, mode=0o600, calls=self._calls,
                )  # fmt: skip
        except FileChangedError as error:
            # For a moment it may have lain under the name: whoever read it then builds on it, and not on their own
            # save that it was swapped with.
            self._versions[version] = document.plan
            self._briefly_visible[version] = error.displaced
            self._to_copy += filter(None, error.overtaken)
            self._make_copies()
            return None
        self._remember(document, done.sha256, document.plan)
        with contextlib.suppress(FileFault):  # the save is done; what is to be kept aside is tried again
            self._check_replaced()
        return SaveResult(document, merged=found.theirs, aside=self._take_copies())

    def _merge(self, ours: Plan, theirs: Plan, choices: Mapping[str, Choice]) -> MergeResult:
        """Ours and what the file says by now, which may have started from any version of ours."""
        base = self._versions.get(theirs.version)
        return merge_plans(base or self.document.plan, ours, theirs, choices, cautious=base is None)

    def keep(self, sha256: str) -> Path | None:
        """Keep a copy of the file, which has that hash, beside it; None when it has other bytes. Raises FileFault."""
        with self._lock:
            found = read_file(self.path, CAP, follow=True, beneath=self.path.parent)
            return self._copy(found.data) if found.sha256 == sha256 else None

    def put(self, text: str, expected_sha256: str | None) -> SaveResult | Unreadable:
        """Put a whole text in the place of one that can't be read, which is kept aside first.

        Raises FileFault; FileChangedError when the file no longer has the hash `expected_sha256`.
        """
        with self._lock:
            document = parse(text)
            if document.problem:
                return Unreadable(reason=document.problem, text=text)
            if expected_sha256 is not None:
                self._copies.append(self._copy(read_file(self.path, follow=True, beneath=self.path.parent).data))
            data = text.encode("utf-8")
            done = replace_file(self.path, data, expected_sha256, follow=True, beneath=self.path.parent, mode=0o600)
            self._remember(document, done.sha256, document.plan)
            return SaveResult(document, aside=self._take_copies())

    def close(self) -> tuple[Path, ...]:
        """Look a last time for a text that was written into a file that we had replaced; where it is kept.

        Raises FileFault when such a text could not be read or kept; nothing is left open, and another call gives what
        was kept.
        """
        with self._lock:
            self._replaced.unreadable = None
            try:
                self._check_replaced(last=True)
            finally:
                self._replaced.close()
            if (error := self._replaced.unreadable) is not None:
                raise fault_of(error, self.path) from error
            return self._take_copies()

    # --- what lies on disk ---

    def _find(self) -> _FileState | Unreadable:
        """The file as it is when nobody is in the middle of writing it."""
        began = time.monotonic()
        while True:
            late = time.monotonic() - began > _PATIENCE
            try:
                found: FileBytes | None = read_file(self.path, CAP, follow=True, beneath=self.path.parent)
            except FileTooLargeError as error:
                return Unreadable(reason=f"it is too large for a plan ({error.size:,} bytes)")
            except FileFault as fault:
                if fault.code != "not_found":
                    raise
                found = None
            if found is None:
                if late or self._sha256 is None:
                    return _FileState(self.document, None, False)
            elif found.sha256 == self._sha256:
                return _FileState(self.document, found.sha256, False)
            elif late or self._whole(found, _SETTLED):
                document = _document(found.data)
                if not late and self._torn(document) and not self._whole(found, QUIET):
                    time.sleep(_SETTLED / 2)
                    continue
                if document is None:
                    reason = "it is not UTF-8 text"
                    return Unreadable(reason=reason, text=_legible(found.data), sha256=found.sha256)
                if document.problem:
                    return Unreadable(reason=document.problem, text=document.text, sha256=found.sha256)
                return _FileState(document, found.sha256, True)
            time.sleep(_SETTLED / 2)  # this runs in a thread, and a writer has no bell to ring

    def _torn(self, document: Document | None) -> bool:
        """Whether the text might be the first part of one: our last line is not in it."""
        if document is None or document.problem:
            return True
        last = next((line for line in reversed(self.document.lines) if line.strip()), "")
        return last not in document.lines

    def _whole(self, found: FileBytes, quiet: float) -> bool:
        """Whether nobody has written it for `quiet` seconds."""
        try:
            status = os.stat(found.path)
        except OSError:
            return False
        return bool(found.data) and status.st_size == len(found.data) and time.time() - status.st_mtime > quiet

    def _remember(self, document: Document, sha256: str | None, plan: Plan) -> None:
        """From here on this is what we know of the file, and what we hold."""
        self.document, self._sha256, self.plan = document, sha256, plan
        put_bounded(self._versions, document.plan.version, document.plan, _VERSIONS)

    # --- a save of somebody else's that hits the file which we have just replaced ---

    def _save_hidden_text(self, found: _FileState) -> None:
        """Keep aside what they had saved, when they went on from a text of ours that hid it from them for a moment."""
        if not found.theirs:
            return
        if hidden := self._briefly_visible.pop(found.document.plan.version, b""):
            self._to_copy.append(hidden)
            self._make_copies()
        while len(self._briefly_visible) > KEPT:
            del self._briefly_visible[next(iter(self._briefly_visible))]

    def _check_replaced(self, *, last: bool = False) -> None:
        """Raises FileFault."""
        self._to_copy += self._replaced.written_late(last=last)
        self._make_copies()

    def _make_copies(self) -> None:
        """Raises FileFault when a text can't be kept aside now; it is the first one for the next look."""
        while self._to_copy:
            self._copies.append(self._copy(self._to_copy[0]))
            del self._to_copy[0]

    def _copy(self, data: bytes) -> Path:
        """Keep bytes in a file beside the plan."""
        mark = hashlib.sha256(data).hexdigest()[:8]
        with contextlib.suppress(OSError):  # what can't be compared is another text
            for there in self.path.parent.glob(f"{self.path.stem}.aside-*-{mark}{self.path.suffix}"):
                if there.is_file() and there.read_bytes() == data:
                    return there
        stamp = datetime.fromtimestamp(self._clock()).strftime("%Y%m%d-%H%M%S")
        name = f"{self.path.stem}.aside-{stamp}-{mark}{self.path.suffix}"
        place = self.path.with_name(name)
        with contextlib.suppress(FileChangedError):  # the same bytes are there already
            replace_file(place, data, None, follow=True, beneath=self.path.parent, mode=0o600)
        return place

    def _take_copies(self) -> tuple[Path, ...]:
        taken, self._copies = tuple(self._copies), []
        return taken


def _document(data: bytes) -> Document | None:
    try:
        return parse(data.decode("utf-8"))
    except UnicodeDecodeError:
        return None


def _legible(data: bytes) -> str | None:
    """The text among bytes that are not all text; None when there is hardly any."""
    text = "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in data.decode("utf-8", "replace"))
    return text if text.strip("\ufffd \n\t") and 5 * text.count("\ufffd") < len(text) else None
