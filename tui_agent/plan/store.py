"""The file plan_doc.md: read, saved, and never taken away from whoever else writes it (P3, P4, FAULTS 5.3).

All methods block; callers on the event loop use a thread.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec import structs

from tui_agent.domain import Noun
from tui_agent.plan.document import Plan
from tui_agent.plan.markdown import Document, parse
from tui_agent.plan.merge import Choice, Conflict, merge
from tui_agent.plan.replaced import KEPT, QUIET, Replaced
from tui_agent.plan.writing import SKELETON, PlanTextError, rewrite
from tui_agent.platform.file_faults import fault_of
from tui_agent.platform.files import (
    FileBytes,
    FileChangedError,
    FileFault,
    FileTooLargeError,
    read_file,
    replace_file,
)
from tui_agent.platform.oscalls import OS, OsCalls

CAP = 16 << 20
"""Bytes of a plan document that are read."""

_SETTLED = 0.01
"""Seconds without a write after which a text counts as whole: editors write in pieces."""
_PATIENCE = 0.5
_TRIES = 200
_VERSIONS = 200


class Unreadable(Noun, frozen=True, kw_only=True):
    """The file can't be taken for a plan. It is left as it is until the user decides."""

    reason: str
    text: str | None = None
    """Its text, for a repair by the model; None when it is no text or too large."""
    sha256: str | None = None


class Saved(NamedTuple):
    """A save that happened, or was not needed."""

    document: Document
    written: bool = True
    merged: bool = False
    """Somebody else's changes went in, too."""
    aside: tuple[Path, ...] = ()
    """Texts that somebody wrote at the very same moment; each is kept in a file of its own."""


class Conflicted(NamedTuple):
    """Nothing was written: these questions come first, then the same call with `choices`."""

    conflicts: tuple[Conflict, ...]
    document: Document
    """What the file says."""


class Seen(NamedTuple):
    """A look at the file."""

    plan: Plan
    """The file's plan together with what of ours is not in the file."""
    changed: bool
    """Whether the file was changed by somebody else since the last look."""
    unsaved: bool = False
    """The file lacks something of ours: a text from before our last save was written over it."""
    conflicts: tuple[Conflict, ...] = ()
    aside: tuple[Path, ...] = ()


Outcome: TypeAlias = Saved | Conflicted | Unreadable


class _Found(NamedTuple):
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
        self._document = parse(SKELETON)
        self._sha256: str | None = None
        self._plan = self._document.plan
        self._versions: dict[int, Plan] = {}
        self._replaced = Replaced()
        self._glimpsed: dict[int, bytes] = {}
        """Version of a text of ours that had to be taken back → the text of theirs that it was taken back for."""
        self._late: list[bytes] = []
        """Texts of others that are to be kept aside and are not yet."""
        self._aside: list[Path] = []

    @property
    def plan(self) -> Plan:
        """The plan as of the last look or save: what the panel shows and what changes start from."""
        return self._plan

    @property
    def document(self) -> Document:
        """The file's text as of the last look or save."""
        return self._document

    # --- looking ---

    def load(self) -> Document | Unreadable:
        """Read the file for the first time; an absent one reads as the empty plan. Raises FileFault."""
        with self._lock:
            found = self._find()
            if isinstance(found, _Found):
                self._note(found.document, found.sha256, found.document.plan)
                return found.document
            return found

    def refresh(self) -> Seen | Unreadable:
        """Look whether somebody else changed the file. Writes nothing. Raises FileFault."""
        with self._lock:
            self._look_back()
            found = self._find()
            if isinstance(found, Unreadable):
                return found
            self._mind_glimpsed(found)
            if not found.theirs:
                return Seen(self._plan, changed=False, aside=self._taken())
            theirs = found.document.plan
            base = self._versions.get(theirs.version)
            merged = merge(base or self._document.plan, self._plan, theirs, cautious=base is None)
            if not merged.conflicts:
                self._note(found.document, found.sha256, merged.plan)
            unsaved = _content(merged.plan) != _content(theirs)
            return Seen(merged.plan, True, unsaved, merged.conflicts, self._taken())

    # --- saving ---

    def known(self, version: int) -> Plan | None:
        """The plan as it was saved or seen under that version; None when that is too long ago."""
        with self._lock:
            return self._versions.get(version)

    def save(
        self,
        plan: Plan,
        since: Plan,
        choices: Mapping[str, Choice] | None = None,
        over: Document | None = None,
    ) -> Outcome:
        """Write `plan`, which somebody made from `since` (a `plan` of this store), with the version counted up.

        Changes that others made meanwhile are kept; where both changed the same value, nothing is written and the
        conflicts are returned. `over` is the text to write into, notes and all, for somebody who edited the whole of
        it; it is taken only where nobody else changed the file. Raises FileFault when the file can't be written.
        """
        with self._lock:
            self._look_back()
            for _ in range(_TRIES):
                found = self._find()
                if isinstance(found, Unreadable):
                    return found
                self._mind_glimpsed(found)
                outcome = self._attempt(plan, since, found, choices or {}, over)
                if outcome is not None:
                    return outcome
            raise FileFault(self.path, "is being written again and again by another program", "busy")

    def _attempt(
        self, plan: Plan, since: Plan, found: _Found, choices: Mapping[str, Choice], over: Document | None
    ) -> Outcome | None:
        """One try: None when somebody wrote in between."""
        ground = found.document if over is None or found.theirs else over
        ours = merge(since, plan, self._plan, choices)
        conflicts, whole = ours.conflicts, ours.plan
        theirs = found.document.plan
        if found.theirs:
            base = self._versions.get(theirs.version)
            both = merge(base or self._document.plan, whole, theirs, choices, cautious=base is None)
            conflicts, whole = (*conflicts, *both.conflicts), both.plan
        if conflicts:
            return Conflicted(conflicts, found.document)
        same = _content(whole) == _content(theirs) and ground.text == found.document.text
        if found.sha256 is not None and same:
            self._note(found.document, found.sha256, whole)
            return Saved(found.document, written=False, merged=found.theirs, aside=self._taken())
        version = max(theirs.version, self._plan.version, *self._versions, 0) + 1
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
            self._glimpsed[version] = error.displaced
            self._late += filter(None, error.overtaken)
            self._keep_late()
            return None
        self._note(document, done.sha256, document.plan)
        with contextlib.suppress(FileFault):  # the save is done; what is to be kept aside is tried again
            self._look_back()
        return Saved(document, merged=found.theirs, aside=self._taken())

    def keep(self, sha256: str) -> Path | None:
        """Keep a copy of the file, which has that hash, beside it; None when it has other bytes. Raises FileFault."""
        with self._lock:
            found = read_file(self.path, CAP, follow=True, beneath=self.path.parent)
            return self._copy(found.data) if found.sha256 == sha256 else None

    def put(self, text: str, expected_sha256: str | None) -> Saved | Unreadable:
        """Put a whole text in the place of one that can't be read, which is kept aside first.

        Raises FileFault; FileChangedError when the file no longer has the hash `expected_sha256`.
        """
        with self._lock:
            document = parse(text)
            if document.problem:
                return Unreadable(reason=document.problem, text=text)
            if expected_sha256 is not None:
                self._aside.append(
                    self._copy(read_file(self.path, follow=True, beneath=self.path.parent).data)
                )
            data = text.encode("utf-8")
            done = replace_file(
                self.path, data, expected_sha256, follow=True, beneath=self.path.parent, mode=0o600
            )
            self._note(document, done.sha256, document.plan)
            return Saved(document, aside=self._taken())

    def close(self) -> tuple[Path, ...]:
        """Look a last time for a text that was written into a file that we had replaced; where it is kept.

        Raises FileFault when such a text could not be read or kept; nothing is left open, and another call gives what
        was kept.
        """
        with self._lock:
            self._replaced.unreadable = None
            try:
                self._look_back(last=True)
            finally:
                self._replaced.close()
            if (error := self._replaced.unreadable) is not None:
                raise fault_of(error, self.path) from error
            return self._taken()

    # --- what lies on disk ---

    def _find(self) -> _Found | Unreadable:
        """The file as it is when nobody is in the middle of writing it."""
        began = time.monotonic()
        while True:
            late = time.monotonic() - began > _PATIENCE
            try:
                found: FileBytes | None = read_file(self.path, CAP, follow=True, beneath=self.path.parent)
            except FileTooLargeError as error:
                return Unreadable(reason=f"it has {error.size:,} bytes, more than a plan may have")
            except FileFault as fault:
                if fault.code != "not_found":
                    raise
                found = None
            if found is None:
                if late or self._sha256 is None:
                    return _Found(self._document, None, False)
            elif found.sha256 == self._sha256:
                return _Found(self._document, found.sha256, False)
            elif late or self._whole(found, _SETTLED):
                document = _document(found.data)
                if not late and self._torn(document) and not self._whole(found, QUIET):
                    time.sleep(_SETTLED / 2)
                    continue
                if document is None:
                    reason = "it holds bytes that are no UTF-8 text"
                    return Unreadable(reason=reason, text=_legible(found.data), sha256=found.sha256)
                if document.problem:
                    return Unreadable(reason=document.problem, text=document.text, sha256=found.sha256)
                return _Found(document, found.sha256, True)
            time.sleep(_SETTLED / 2)  # this runs in a thread, and a writer has no bell to ring

    def _torn(self, document: Document | None) -> bool:
        """Whether the text might be the first part of one: our last line is not in it."""
        if document is None or document.problem:
            return True
        last = next((line for line in reversed(self._document.lines) if line.strip()), "")
        return last not in document.lines

    def _whole(self, found: FileBytes, quiet: float) -> bool:
        """Whether nobody has written it for `quiet` seconds."""
        try:
            status = os.stat(found.path)
        except OSError:
            return False
        return (
            bool(found.data) and status.st_size == len(found.data) and time.time() - status.st_mtime > quiet
        )

    def _note(self, document: Document, sha256: str | None, plan: Plan) -> None:
        """From here on this is what we know of the file, and what we hold."""
        self._document, self._sha256, self._plan = document, sha256, plan
        self._versions.pop(document.plan.version, None)
        self._versions[document.plan.version] = document.plan
        while len(self._versions) > _VERSIONS:
            del self._versions[next(iter(self._versions))]

    # --- a save of somebody else's that hits the file which we have just replaced ---

    def _mind_glimpsed(self, found: _Found) -> None:
        """Keep aside what they had saved, when they went on from a text of ours that hid it from them for a moment."""
        if not found.theirs:
            return
        if hidden := self._glimpsed.pop(found.document.plan.version, b""):
            self._late.append(hidden)
            self._keep_late()
        while len(self._glimpsed) > KEPT:
            del self._glimpsed[next(iter(self._glimpsed))]

    def _look_back(self, *, last: bool = False) -> None:
        """Raises FileFault."""
        self._late += self._replaced.written_late(last=last)
        self._keep_late()

    def _keep_late(self) -> None:
        """Raises FileFault when a text can't be kept aside now; it is the first one for the next look."""
        while self._late:
            self._aside.append(self._copy(self._late[0]))
            del self._late[0]

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

    def _taken(self) -> tuple[Path, ...]:
        taken, self._aside = tuple(self._aside), []
        return taken


def _document(data: bytes) -> Document | None:
    try:
        return parse(data.decode("utf-8"))
    except UnicodeDecodeError:
        return None


def _legible(data: bytes) -> str | None:
    """The text among bytes that are not all text; None when there is hardly any."""
    text = "".join(
        one if one.isprintable() or one in "\n\t" else "\ufffd" for one in data.decode("utf-8", "replace")
    )
    return text if text.strip("\ufffd \n\t") and 5 * text.count("\ufffd") < len(text) else None


def _content(plan: Plan) -> Plan:
    return structs.replace(plan, version=0, updated_at=0)
