"""The language servers of a session: one for each language and root, started on first use and restarted (T3)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from tui_agent.common.symbols import Unavailable
from tui_agent.lsp.connection import LspError, ServerGone
from tui_agent.lsp.documents import NoSuchFile
from tui_agent.lsp.languages import (
    MAX_ENTRIES,
    Language,
    ServerCommand,
    code_files,
    commands,
    language_of_file,
    languages,
)
from tui_agent.lsp.queries import CodeServer
from tui_agent.lsp.server import ServerLimits
from tui_agent.platform.environment import child_environment
from tui_agent.platform.programs import path_outside

log = logging.getLogger(__name__)

MAX_NEW_FILES = 20
"""New files that are opened in a server without a query."""
T = TypeVar("T")
NoticeLevel = Literal["info", "warning"]


class ServerSlot:
    """The server of one language and root: its commands, its starts, and why it is not available."""

    def __init__(self, language: Language, root: Path) -> None:
        self.language = language
        self.root = root
        self.starting: asyncio.Task[CodeServer | Unavailable] | None = None
        self.server: CodeServer | None = None
        self.candidates: tuple[ServerCommand, ...] | None = None
        """Commands that remain to be tried; None before the search for them."""
        self.starts = 0
        self.started_at = 0.0
        """Time of the last start, on the monotonic clock."""
        self.has_worked = False
        """Whether the first candidate has started before, so that it is the one to restart."""
        self.next_start = 0.0
        self.failure = ""
        """Why it is no longer started; empty if it may be."""
        self.notified = False
        """Whether the user was notified of the failure."""
        self.watch = FileWatch(root, frozenset(language.suffixes))
        self.refreshing = asyncio.Lock()
        self.surveys = 0
        """Number of surveys of the disk started so far."""


class ServerPool:
    """The language servers of a session, bound to one event loop."""

    def __init__(
        self,
        roots: Sequence[Path],
        user_commands: Mapping[str, Sequence[str]],
        on_notice: Callable[[NoticeLevel, str], None],
        limits: ServerLimits | None = None,
        avoid: Sequence[Path] = (),
    ) -> None:
        """`user_commands`: the setting `language_servers`. `avoid`: further folders that no program is taken from.

        `on_notice` gets a sentence for the user about each server that starts or fails permanently.
        """
        self.roots = tuple(roots)
        self.folders = (*self.roots, *avoid)
        """Folders that no program is taken from."""
        self.limits = limits or ServerLimits()
        self.languages = languages(user_commands)
        self._on_notice = on_notice
        self._slots: dict[tuple[str, Path], ServerSlot] = {}
        self._closed = False

    def locate(self, path: Path) -> tuple[Language, Path] | Unavailable:
        """Return the language and root of a file."""
        inside = [root for root in self.roots if path.is_relative_to(root)]
        if not inside:
            return Unavailable(reason="the file is outside the workspace")
        language = language_of_file(path, self.languages)
        if language is None:
            kind = f"{path.suffix} files" if path.suffix else "files without an extension"
            return Unavailable(reason=f"no language server is known for {kind}")
        return language, max(inside, key=lambda root: len(root.parts))

    async def with_file(self, path: Path, work: Callable[[CodeServer], Awaitable[T]]) -> T | Unavailable:
        """Return the result of `work` with the server of a file; retried once if that server ends meanwhile."""
        place = self.locate(path)
        return place if isinstance(place, Unavailable) else await self.with_server(*place, work)

    async def with_server(
        self, language: Language, root: Path, work: Callable[[CodeServer], Awaitable[T]]
    ) -> T | Unavailable:
        """Return the result of `work` with the server of a language and root, like `with_file`."""
        slot = self._slots.setdefault((language.name, root), ServerSlot(language, root))
        for attempt in (1, 2):
            server = await self._server(slot)
            if isinstance(server, Unavailable):
                return server
            try:
                return await work(server)
            except NoSuchFile as error:
                return Unavailable(reason=str(error))
            except ServerGone as error:
                if attempt == 2:
                    return Unavailable(reason=f"the language server for {language.title} ended: {error}")
            except LspError as error:
                return Unavailable(reason=f"the language server for {language.title}: {error}")
        raise AssertionError("unreachable")

    def running(self, path: Path) -> CodeServer | None:
        """Return the server of a file if it is running."""
        place = self.locate(path)
        if isinstance(place, Unavailable):
            return None
        slot = self._slots.get((place[0].name, place[1]))
        server = slot.server if slot is not None else None
        return server if server is not None and server.alive else None

    async def refresh(self) -> None:
        """Report files that were written, created and deleted on disk since the last time to the running servers."""
        for slot in tuple(self._slots.values()):
            if slot.server is not None and slot.server.alive:
                await self._refresh_slot(slot)

    async def _refresh_slot(self, slot: ServerSlot) -> None:
        """Survey the disk and report the changes, one at a time.

        Callers that arrive during a survey share the next one, as only that is sure to include their changes. What a
        cancelled call did not report is reported by the next one.
        """
        earlier_surveys = slot.surveys
        async with slot.refreshing:
            server = slot.server
            if slot.surveys > earlier_surveys or server is None or not server.alive:
                return
            slot.surveys += 1
            survey = await asyncio.to_thread(slot.watch.survey)
            with contextlib.suppress(LspError):
                server.files_changed(survey.changes)
                await server.sync_all()
                # Servers may read reported files later, but open ones at once.
                for path in [path for path, kind in survey.changes if kind == CREATED][:MAX_NEW_FILES]:
                    with contextlib.suppress(NoSuchFile):
                        await server.sync(Path(path))
            if slot.server is server and server.alive:
                slot.watch.commit(survey)

    async def close(self) -> None:
        """Stop all servers and their processes."""
        self._closed = True
        for slot in tuple(self._slots.values()):
            if slot.starting is not None and not slot.starting.done():
                slot.starting.cancel()
                await asyncio.wait([slot.starting])
        servers = [slot.server for slot in self._slots.values() if slot.server is not None]
        if servers:
            await asyncio.gather(*(server.close() for server in servers), return_exceptions=True)

    # --- starting ---

    async def _server(self, slot: ServerSlot) -> CodeServer | Unavailable:
        """Return the server, started if necessary; cancelling a caller does not cancel the start for others."""
        if slot.server is not None and slot.server.alive:
            return slot.server
        if slot.starting is None or slot.starting.done():
            slot.starting = asyncio.create_task(self._start_slot(slot))
        return await asyncio.shield(slot.starting)

    async def _start_slot(self, slot: ServerSlot) -> CodeServer | Unavailable:
        if slot.server is not None:
            await slot.server.close()  # it must be gone before the next one starts
            reason, slot.server = slot.server.close_reason, None
            log.warning("the language server for %s ended: %s", slot.language.title, reason)
            if time.monotonic() - slot.started_at >= self.limits.stable_after:
                slot.starts = 0
            self._note_failure(slot, reason)
        while slot.server is None:
            unavailable = await self._unavailable(slot)
            if unavailable is not None:
                return unavailable
            await self._try_candidate(slot)
        return slot.server

    async def _unavailable(self, slot: ServerSlot) -> Unavailable | None:
        """Return why no server can be started now, or None."""
        title = slot.language.title
        if self._closed:
            return Unavailable(reason="the session is being closed")
        if slot.candidates is None:
            slot.candidates = await asyncio.to_thread(commands, slot.language, self.folders)
            if not slot.candidates:
                slot.failure = f"no language server for {title} is installed"
                slot.notified = True
        if slot.failure:
            return Unavailable(reason=slot.failure)
        if time.monotonic() < slot.next_start:
            return Unavailable(reason=f"the language server for {title} failed and will be restarted later")
        return None

    async def _try_candidate(self, slot: ServerSlot) -> None:
        assert slot.candidates
        command = slot.candidates[0]
        slot.starts, slot.started_at = slot.starts + 1, time.monotonic()
        slot.watch.commit(await asyncio.to_thread(slot.watch.survey))  # the server reads the disk after that
        environment = child_environment()
        environment["PATH"] = path_outside(self.folders, environment["PATH"])
        try:
            slot.server = await CodeServer.start(command, slot.language, slot.root, self.limits, environment)
            if not slot.has_worked:
                started = f"Started {command.argv[0]}, a language server for {slot.language.title}"
                self._on_notice("info", f"{started}; it may run the project's code.")
            slot.has_worked = True
        except LspError as error:
            log.warning("%s did not start: %s", command.program, error)
            if not slot.has_worked and len(slot.candidates) > 1:
                slot.candidates, slot.starts = slot.candidates[1:], 0
                return
            self._note_failure(slot, str(error), is_final=not slot.has_worked)

    def _note_failure(self, slot: ServerSlot, reason: str, *, is_final: bool = False) -> None:
        """Schedule the next start; with `is_final` or after too many starts the server is no longer started."""
        if is_final or slot.starts >= self.limits.max_starts:
            slot.failure = f"the language server for {slot.language.title} does not work here ({reason})"
        restarts = slot.starts - 2  # the first restart is immediate
        slot.next_start = time.monotonic() + (self.limits.backoff * 2**restarts if restarts >= 0 else 0)
        if slot.failure and not slot.notified:
            slot.notified = True
            text = f"{slot.failure[:1].upper()}{slot.failure[1:]}; continuing without it."
            self._on_notice("warning", text)


def served_languages(known: Sequence[Language], folders: Sequence[Path]) -> tuple[Language, ...]:
    """Return the languages for which a server is installed. Does file IO."""
    return tuple(language for language in known if commands(language, folders))


MAX_CHANGES = 2_000
"""Changes that one survey reports."""
MAX_FILES = 2 * MAX_ENTRIES
"""Maximum number of files tracked."""
CREATED, CHANGED, DELETED = 1, 2, 3
Stamp: TypeAlias = tuple[int, int]
"""Size and modification time."""


class TreeSurvey(NamedTuple):
    """The files on disk, and what has changed."""

    changes: list[tuple[str, int]]
    """Path and kind of each change since the last committed survey; empty for the first one."""
    files: dict[str, Stamp]


class FileWatch:
    """Tracks changes of the files of one root with certain suffixes, as far as `code_files` goes."""

    def __init__(self, root: Path, suffixes: frozenset[str], max_entries: int = MAX_ENTRIES) -> None:
        self._root = root
        self._suffixes = suffixes
        self._max_entries = max_entries
        self._committed: dict[str, Stamp] | None = None

    def survey(self) -> TreeSurvey:
        """Return the files and what has changed. Does file IO; may run in a thread whose caller was cancelled."""
        now: dict[str, Stamp] = {}
        for entry in code_files(self._root, self._suffixes, self._max_entries):
            with contextlib.suppress(OSError):
                now[entry.path] = _stamp(entry.stat(follow_symlinks=False))
        before = self._committed
        if before is None:
            return TreeSurvey([], now)
        deleted = []
        for path in before.keys() - now.keys():
            # It may still exist, beyond the limit of the walk.
            if (stamp := _file_at(path)) is None:
                deleted.append((path, DELETED))
            elif len(now) < MAX_FILES:
                now[path] = stamp
        changed = [
            (path, CHANGED if path in before else CREATED) for path, stamp in now.items() if before.get(path) != stamp
        ]
        return TreeSurvey([*deleted, *changed][:MAX_CHANGES], now)

    def commit(self, survey: TreeSurvey) -> None:
        """Mark the changes as reported: the next survey is compared with this one."""
        self._committed = survey.files


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_size, status.st_mtime_ns


def _file_at(path: str) -> Stamp | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return _stamp(status) if S_ISREG(status.st_mode) else None
