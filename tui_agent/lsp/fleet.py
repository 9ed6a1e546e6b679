"""The servers of a session: one for each language and root, started on first use, restarted a few times (T3)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from tui_agent.lsp.connection import Gone, LspFault
from tui_agent.lsp.documents import NoSuchFile
from tui_agent.lsp.languages import Command, Language, commands, language_of, languages
from tui_agent.lsp.limits import Limits
from tui_agent.lsp.server import LanguageServer
from tui_agent.lsp.watching import CREATED, Watch
from tui_agent.platform.environment import child_environment
from tui_agent.platform.programs import path_outside
from tui_agent.symbols import Unavailable

log = logging.getLogger(__name__)

OPENED = 20
"""New files that a server is shown without being asked about them."""
T = TypeVar("T")
Told = Literal["info", "warning"]


class Berth:
    """The place of one server: which command serves, how often it was started, why it can't be had."""

    def __init__(self, language: Language, root: Path) -> None:
        self.language = language
        self.root = root
        self.starting: asyncio.Task[LanguageServer | Unavailable] | None = None
        self.server: LanguageServer | None = None
        self.found: tuple[Command, ...] | None = None
        """Commands that are left to be tried; None before they were looked for."""
        self.starts = 0
        self.began = 0.0
        """When it was started last, on the monotonic clock."""
        self.worked = False
        """The first command of `found` has started before: it is the one to start again."""
        self.next_start = 0.0
        self.given_up = ""
        self.told = False
        self.watch = Watch(root, frozenset(language.suffixes))
        self.looking = asyncio.Lock()
        self.looks = self.looked = 0
        """Looks at the disk that were begun, and the last one of which the server was told."""


class Fleet:
    """Lives on one event loop. `tell` gets sentences for the user: of each server that is started or given up."""

    def __init__(
        self,
        roots: Sequence[Path],
        own: Mapping[str, Sequence[str]],
        tell: Callable[[Told, str], None],
        limits: Limits | None = None,
        avoid: Sequence[Path] = (),
    ) -> None:
        """`own`: the setting `language_servers`. `avoid`: further folders in which no program is looked for."""
        self.roots = tuple(roots)
        self.folders = (*self.roots, *avoid)
        """Where no program is taken from (R-04)."""
        self.limits = limits or Limits()
        self.languages = languages(own)
        self._tell = tell
        self._berths: dict[tuple[str, Path], Berth] = {}
        self._closed = False

    def place_of(self, path: Path) -> tuple[Language, Path] | Unavailable:
        """The language and root of a file."""
        inside = [root for root in self.roots if path.is_relative_to(root)]
        if not inside:
            return Unavailable(why="the file lies outside of the workspace")
        language = language_of(path, self.languages)
        if language is None:
            kind = f"{path.suffix} files" if path.suffix else "files without an ending"
            return Unavailable(why=f"no language server is known for {kind}")
        return language, max(inside, key=lambda root: len(root.parts))

    async def with_file(self, path: Path, work: Callable[[LanguageServer], Awaitable[T]]) -> T | Unavailable:
        """What `work` makes of the server for a file; done once more where that server ends meanwhile."""
        place = self.place_of(path)
        return place if isinstance(place, Unavailable) else await self.with_server(*place, work)

    async def with_server(
        self, language: Language, root: Path, work: Callable[[LanguageServer], Awaitable[T]]
    ) -> T | Unavailable:
        """The same for a language."""
        berth = self._berths.setdefault((language.name, root), Berth(language, root))
        for attempt in (1, 2):
            server = await self._server(berth)
            if isinstance(server, Unavailable):
                return server
            try:
                return await work(server)
            except NoSuchFile as error:
                return Unavailable(why=str(error))
            except Gone as fault:
                if attempt == 2:
                    return Unavailable(why=f"the language server for {language.title} ended: {fault}")
            except LspFault as fault:
                return Unavailable(why=f"the language server for {language.title}: {fault}")
        raise AssertionError("unreachable")

    def running(self, path: Path) -> LanguageServer | None:
        """The server of a file, if it runs at the moment."""
        place = self.place_of(path)
        if isinstance(place, Unavailable):
            return None
        berth = self._berths.get((place[0].name, place[1]))
        server = berth.server if berth is not None else None
        return server if server is not None and server.alive else None

    async def refresh(self) -> None:
        """Tell the running servers what was written, created and deleted on disk since the last time."""
        for berth in tuple(self._berths.values()):
            if berth.server is not None and berth.server.alive:
                await self._catch_up(berth)

    async def _catch_up(self, berth: Berth) -> None:
        """One look at a time. All who came while one was going on share the next: only that surely saw what they mean.
        What is cut short is told by the next one."""
        came = berth.looks
        async with berth.looking:
            server = berth.server
            if berth.looked > came or server is None or not server.alive:
                return
            berth.looks += 1
            number = berth.looks
            look = await asyncio.to_thread(berth.watch.look)
            with contextlib.suppress(LspFault):
                server.files_changed(look.changes)
                await server.refresh()
                # Servers put off looking at what they are told of; what is open counts at once.
                for path in [path for path, kind in look.changes if kind == CREATED][:OPENED]:
                    with contextlib.suppress(NoSuchFile):
                        await server.show(Path(path))
            if berth.server is server and server.alive:
                berth.watch.keep(look)
                berth.looked = number

    async def close(self) -> None:
        """End all servers; nothing of them is left afterwards."""
        self._closed = True
        for berth in tuple(self._berths.values()):
            if berth.starting is not None and not berth.starting.done():
                berth.starting.cancel()
                await asyncio.wait([berth.starting])
        servers = [berth.server for berth in self._berths.values() if berth.server is not None]
        if servers:
            await asyncio.gather(*(server.close() for server in servers), return_exceptions=True)

    # --- starting ---

    async def _server(self, berth: Berth) -> LanguageServer | Unavailable:
        """The server, started if need be; whoever gives up waiting does not end the start for the others."""
        if berth.server is not None and berth.server.alive:
            return berth.server
        if berth.starting is None or berth.starting.done():
            berth.starting = asyncio.create_task(self._bring_up(berth))
        return await asyncio.shield(berth.starting)

    async def _bring_up(self, berth: Berth) -> LanguageServer | Unavailable:
        if berth.server is not None:
            await berth.server.close()  # nothing of it is left beside the next one
            why, berth.server = berth.server.why, None
            log.warning("the language server for %s ended: %s", berth.language.title, why)
            if time.monotonic() - berth.began >= self.limits.sound:
                berth.starts = 0
            self._failed(berth, why)
        while berth.server is None:
            hindrance = await self._hindrance(berth)
            if hindrance is not None:
                return hindrance
            await self._start(berth)
        return berth.server

    async def _hindrance(self, berth: Berth) -> Unavailable | None:
        """Why no server can be started now; None when one can."""
        title = berth.language.title
        if self._closed:
            return Unavailable(why="the session is being closed")
        if berth.found is None:
            berth.found = await asyncio.to_thread(commands, berth.language, self.folders)
            if not berth.found:
                berth.given_up = f"no language server for {title} is installed"
                berth.told = True
        if berth.given_up:
            return Unavailable(why=berth.given_up)
        if time.monotonic() < berth.next_start:
            return Unavailable(why=f"the language server for {title} failed and is started again later")
        return None

    async def _start(self, berth: Berth) -> None:
        assert berth.found
        command = berth.found[0]
        berth.starts, berth.began = berth.starts + 1, time.monotonic()
        berth.watch.keep(await asyncio.to_thread(berth.watch.look))  # it reads the disk after that
        environment = child_environment()
        environment["PATH"] = path_outside(self.folders, environment["PATH"])
        try:
            berth.server = await LanguageServer.start(
                command, berth.language, berth.root, self.limits, environment
            )
            if not berth.worked:
                what = f"Started {command.argv[0]} to understand {berth.language.title}"
                self._tell("info", f"{what}; it may run code of the project.")
            berth.worked = True
        except LspFault as fault:
            log.warning("%s did not start: %s", command.program, fault)
            if not berth.worked and len(berth.found) > 1:
                berth.found, berth.starts = berth.found[1:], 0
                return
            self._failed(berth, str(fault), hopeless=not berth.worked)

    def _failed(self, berth: Berth, why: str, *, hopeless: bool = False) -> None:
        """Note a failure. A server that never started is not tried again in this session."""
        if hopeless or berth.starts >= self.limits.starts:
            berth.given_up = f"the language server for {berth.language.title} does not work here ({why})"
        again = berth.starts - 2  # the first time at once
        berth.next_start = time.monotonic() + (self.limits.backoff * 2**again if again >= 0 else 0)
        if berth.given_up and not berth.told:
            berth.told = True
            text = f"{berth.given_up[:1].upper()}{berth.given_up[1:]}; the work goes on without it."
            self._tell("warning", text)


def served(known: Sequence[Language], folders: Sequence[Path]) -> tuple[Language, ...]:
    """The languages of `known` for which a server is installed. Does file IO."""
    return tuple(language for language in known if commands(language, folders))


__all__ = ["Fleet", "served"]
