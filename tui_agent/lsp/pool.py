"""The servers of a session: one for each language and root, started on first use, restarted a few times (T3)."""

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
from tui_agent.lsp.languages import ENTRIES, Language, ServerCommand, code_files, commands, language_of_file, languages
from tui_agent.lsp.queries import CodeServer
from tui_agent.lsp.server import ServerLimits
from tui_agent.platform.environment import child_environment
from tui_agent.platform.programs import path_outside

log = logging.getLogger(__name__)

OPENED = 20
"""New files that a server is shown without being asked about them."""
T = TypeVar("T")
Told = Literal["info", "warning"]


class ServerSlot:
    """The place of one server: which command serves, how often it was started, why it can't be had."""

    def __init__(self, language: Language, root: Path) -> None:
        self.language = language
        self.root = root
        self.starting: asyncio.Task[CodeServer | Unavailable] | None = None
        self.server: CodeServer | None = None
        self.found: tuple[ServerCommand, ...] | None = None
        """Commands that are left to be tried; None before they were looked for."""
        self.starts = 0
        self.began = 0.0
        """When it was started last, on the monotonic clock."""
        self.worked = False
        """The first command of `found` has started before: it is the one to start again."""
        self.next_start = 0.0
        self.given_up = ""
        self.told = False
        self.watch = FileWatch(root, frozenset(language.suffixes))
        self.looking = asyncio.Lock()
        self.looks = self.looked = 0
        """Looks at the disk that were begun, and the last one of which the server was told."""


class ServerPool:
    """Lives on one event loop. `tell` gets sentences for the user: of each server that is started or given up."""

    def __init__(
        self,
        roots: Sequence[Path],
        own: Mapping[str, Sequence[str]],
        tell: Callable[[Told, str], None],
        limits: ServerLimits | None = None,
        avoid: Sequence[Path] = (),
    ) -> None:
        """`own`: the setting `language_servers`. `avoid`: further folders in which no program is looked for."""
        self.roots = tuple(roots)
        self.folders = (*self.roots, *avoid)
        """Where no program is taken from."""
        self.limits = limits or ServerLimits()
        self.languages = languages(own)
        self._tell = tell
        self._slots: dict[tuple[str, Path], ServerSlot] = {}
        self._closed = False

    def place_of(self, path: Path) -> tuple[Language, Path] | Unavailable:
        """The language and root of a file."""
        inside = [root for root in self.roots if path.is_relative_to(root)]
        if not inside:
            return Unavailable(why="the file is outside the workspace")
        language = language_of_file(path, self.languages)
        if language is None:
            kind = f"{path.suffix} files" if path.suffix else "files without an extension"
            return Unavailable(why=f"no language server is known for {kind}")
        return language, max(inside, key=lambda root: len(root.parts))

    async def with_file(self, path: Path, work: Callable[[CodeServer], Awaitable[T]]) -> T | Unavailable:
        """What `work` makes of the server for a file; done once more where that server ends meanwhile."""
        place = self.place_of(path)
        return place if isinstance(place, Unavailable) else await self.with_server(*place, work)

    async def with_server(
        self, language: Language, root: Path, work: Callable[[CodeServer], Awaitable[T]]
    ) -> T | Unavailable:
        """The same for a language."""
        slot = self._slots.setdefault((language.name, root), ServerSlot(language, root))
        for attempt in (1, 2):
            server = await self._server(slot)
            if isinstance(server, Unavailable):
                return server
            try:
                return await work(server)
            except NoSuchFile as error:
                return Unavailable(why=str(error))
            except ServerGone as fault:
                if attempt == 2:
                    return Unavailable(why=f"the language server for {language.title} ended: {fault}")
            except LspError as fault:
                return Unavailable(why=f"the language server for {language.title}: {fault}")
        raise AssertionError("unreachable")

    def running(self, path: Path) -> CodeServer | None:
        """The server of a file, if it runs at the moment."""
        place = self.place_of(path)
        if isinstance(place, Unavailable):
            return None
        slot = self._slots.get((place[0].name, place[1]))
        server = slot.server if slot is not None else None
        return server if server is not None and server.alive else None

    async def refresh(self) -> None:
        """Tell the running servers what was written, created and deleted on disk since the last time."""
        for slot in tuple(self._slots.values()):
            if slot.server is not None and slot.server.alive:
                await self._catch_up(slot)

    async def _catch_up(self, slot: ServerSlot) -> None:
        """One look at a time. All who came while one was going on share the next: only that surely saw what they mean.
        What is cut short is told by the next one."""
        came = slot.looks
        async with slot.looking:
            server = slot.server
            if slot.looked > came or server is None or not server.alive:
                return
            slot.looks += 1
            number = slot.looks
            look = await asyncio.to_thread(slot.watch.look)
            with contextlib.suppress(LspError):
                server.files_changed(look.changes)
                await server.refresh()
                # Servers put off looking at what they are told of; what is open counts at once.
                for path in [path for path, kind in look.changes if kind == CREATED][:OPENED]:
                    with contextlib.suppress(NoSuchFile):
                        await server.show(Path(path))
            if slot.server is server and server.alive:
                slot.watch.keep(look)
                slot.looked = number

    async def close(self) -> None:
        """End all servers; nothing of them is left afterwards."""
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
        """The server, started if need be; whoever gives up waiting does not end the start for the others."""
        if slot.server is not None and slot.server.alive:
            return slot.server
        if slot.starting is None or slot.starting.done():
            slot.starting = asyncio.create_task(self._bring_up(slot))
        return await asyncio.shield(slot.starting)

    async def _bring_up(self, slot: ServerSlot) -> CodeServer | Unavailable:
        if slot.server is not None:
            await slot.server.close()  # nothing of it is left beside the next one
            why, slot.server = slot.server.why, None
            log.warning("the language server for %s ended: %s", slot.language.title, why)
            if time.monotonic() - slot.began >= self.limits.sound:
                slot.starts = 0
            self._failed(slot, why)
        while slot.server is None:
            hindrance = await self._hindrance(slot)
            if hindrance is not None:
                return hindrance
            await self._start(slot)
        return slot.server

    async def _hindrance(self, slot: ServerSlot) -> Unavailable | None:
        """Why no server can be started now; None when one can."""
        title = slot.language.title
        if self._closed:
            return Unavailable(why="the session is being closed")
        if slot.found is None:
            slot.found = await asyncio.to_thread(commands, slot.language, self.folders)
            if not slot.found:
                slot.given_up = f"no language server for {title} is installed"
                slot.told = True
        if slot.given_up:
            return Unavailable(why=slot.given_up)
        if time.monotonic() < slot.next_start:
            return Unavailable(why=f"the language server for {title} failed and will be restarted later")
        return None

    async def _start(self, slot: ServerSlot) -> None:
        assert slot.found
        command = slot.found[0]
        slot.starts, slot.began = slot.starts + 1, time.monotonic()
        slot.watch.keep(await asyncio.to_thread(slot.watch.look))  # it reads the disk after that
        environment = child_environment()
        environment["PATH"] = path_outside(self.folders, environment["PATH"])
        try:
            slot.server = await CodeServer.start(command, slot.language, slot.root, self.limits, environment)
            if not slot.worked:
                what = f"Started {command.argv[0]}, a language server for {slot.language.title}"
                self._tell("info", f"{what}; it may run the project's code.")
            slot.worked = True
        except LspError as fault:
            log.warning("%s did not start: %s", command.program, fault)
            if not slot.worked and len(slot.found) > 1:
                slot.found, slot.starts = slot.found[1:], 0
                return
            self._failed(slot, str(fault), hopeless=not slot.worked)

    def _failed(self, slot: ServerSlot, why: str, *, hopeless: bool = False) -> None:
        """Note a failure. A server that never started is not tried again in this session."""
        if hopeless or slot.starts >= self.limits.starts:
            slot.given_up = f"the language server for {slot.language.title} does not work here ({why})"
        again = slot.starts - 2  # the first time at once
        slot.next_start = time.monotonic() + (self.limits.backoff * 2**again if again >= 0 else 0)
        if slot.given_up and not slot.told:
            slot.told = True
            text = f"{slot.given_up[:1].upper()}{slot.given_up[1:]}; continuing without it."
            self._tell("warning", text)


def is_served(known: Sequence[Language], folders: Sequence[Path]) -> tuple[Language, ...]:
    """The languages of `known` for which a server is installed. Does file IO."""
    return tuple(language for language in known if commands(language, folders))


__all__ = ["ServerPool", "is_served"]


FEW = 2_000
"""Changes that one look reports."""
KEPT = 2 * ENTRIES
"""Files that are known."""
CREATED, CHANGED, DELETED = 1, 2, 3
Stamp: TypeAlias = tuple[int, int]
"""Size and time of change."""


class TreeSurvey(NamedTuple):
    """What a look found."""

    changes: list[tuple[str, int]]
    """Path and kind of each change since the look that was kept last; nothing where none was."""
    files: dict[str, Stamp]


class FileWatch:
    """Knows the files of one root that end in one of some suffixes, as far as `code_files` goes."""

    def __init__(self, root: Path, suffixes: frozenset[str], entries: int = ENTRIES) -> None:
        self._root = root
        self._suffixes = suffixes
        self._entries = entries
        self._known: dict[str, Stamp] | None = None

    def look(self) -> TreeSurvey:
        """What is there, and what changed. Does file IO; may be done in a thread that nobody waits for any more."""
        now: dict[str, Stamp] = {}
        for entry in code_files(self._root, self._suffixes, self._entries):
            with contextlib.suppress(OSError):
                now[entry.path] = _stamp(entry.stat(follow_symlinks=False))
        before = self._known
        if before is None:
            return TreeSurvey([], now)
        deleted = []
        for path in before.keys() - now.keys():
            # It may only have come to lie behind the end of the walk.
            if (stamp := _file_at(path)) is None:
                deleted.append((path, DELETED))
            elif len(now) < KEPT:
                now[path] = stamp
        changed = [
            (path, CHANGED if path in before else CREATED) for path, stamp in now.items() if before.get(path) != stamp
        ]
        return TreeSurvey([*deleted, *changed][:FEW], now)

    def keep(self, look: TreeSurvey) -> None:
        """Its changes were told: the next look starts from there."""
        self._known = look.files


def _stamp(stat: os.stat_result) -> Stamp:
    return stat.st_size, stat.st_mtime_ns


def _file_at(path: str) -> Stamp | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return _stamp(found) if S_ISREG(found.st_mode) else None
