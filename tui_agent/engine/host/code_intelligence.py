"""Language servers for the tools, the check after a write, and the completion gate (T3, T4, W8).

Nothing here raises, and everything has a time limit. Servers are started on first use, only in trusted folders, and
shared within the session.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from tui_agent.common.bounded import put_bounded
from tui_agent.common.domain import FileChange
from tui_agent.common.symbols import (
    Diagnostic,
    Hierarchy,
    LocationKind,
    SourceLocation,
    SourcePosition,
    Symbol,
    Unavailable,
)
from tui_agent.events import Notice
from tui_agent.safety import trust
from tui_agent.safety.roots import Roots
from tui_agent.settings import Settings

if TYPE_CHECKING:
    from tui_agent.lsp.languages import Language
    from tui_agent.lsp.pool import ServerPool
    from tui_agent.lsp.queries import CodeServer
    from tui_agent.lsp.server import ServerLimits

log = logging.getLogger(__name__)

QUERY_TIMEOUT = 60.0
"""Seconds for one query, including the start of a server and indexing."""
MAX_FILES = 300
"""File versions whose diagnostics are remembered."""
GATE_TIMEOUT = 20.0
"""Seconds for all files checked by the completion gate."""

T = TypeVar("T")


class CodeIntelligence:
    """Implements `tools.base.Code` for one session."""

    def __init__(
        self,
        settings: Settings,
        roots: Roots,
        notify: Callable[[Notice], object],
        limits: ServerLimits | None = None,
        *,
        allowed: Callable[[], bool],
    ) -> None:
        """`allowed` returns True once the workspace is trusted (A8)."""
        self._settings = settings
        self._roots = roots
        self._notify = notify
        self._limits = limits
        self._pool: ServerPool | None = None
        self._baselines: dict[Path, asyncio.Task[None]] = {}
        self._diagnostic_counts: dict[tuple[str, str], Counter[int]] = {}
        """(Path, sha256) → number of each diagnostic, by `_identity`."""
        self._allowed = allowed

    # --- availability ---

    def obstacle(self) -> str:
        """Return why no server may be started; empty if one may."""
        if not self._settings.language_servers_on:
            return "language servers are switched off in the settings"
        return "" if self._allowed() else "this folder is not trusted"

    async def offered(self) -> bool:
        """Return True if a server for a language of the workspace is installed. Starts none."""
        if self.obstacle():
            return False
        pool = await self._servers()
        return bool(await asyncio.to_thread(_served_languages, pool))

    def set_settings(self, settings: Settings) -> None:
        """Use other settings from now on."""
        self._settings = settings

    async def close(self) -> None:
        """End all servers. They are started again on the next use, if that is still allowed."""
        for task in self._baselines.values():
            task.cancel()
        await asyncio.gather(*self._baselines.values(), return_exceptions=True)
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _servers(self) -> ServerPool:
        if self._pool is None:
            pool = await asyncio.to_thread(self._create_pool)
            self._pool = self._pool or pool
        return self._pool

    def _create_pool(self) -> ServerPool:
        """Create the pool for the workspace and its other trusted folders (A8). Imports a lot and does file IO."""
        from tui_agent.lsp.pool import ServerPool

        folders = self._roots.folders
        roots = (folders[0], *(folder for folder in folders[1:] if trust.is_trusted(folder)))

        def notify(level: Literal["info", "warning"], text: str) -> None:
            self._notify(Notice(level=level, text=text, code="code.server"))

        return ServerPool(roots, self._settings.language_servers, notify, self._limits, avoid=folders)

    # --- queries of the tools ---

    async def diagnostics(self, path: Path) -> tuple[Diagnostic, ...] | Unavailable:
        """See Code."""
        answer = await self._ask(path, lambda server: server.file_diagnostics(path, server.limits.indexing))
        return answer if isinstance(answer, Unavailable) else answer[1]

    async def outline(self, path: Path) -> tuple[Symbol, ...] | Unavailable:
        """See Code."""
        return await self._ask(path, lambda server: server.outline(path))

    async def locations(
        self, kind: LocationKind, path: Path, position: SourcePosition
    ) -> tuple[SourceLocation, ...] | Unavailable:
        """See Code."""
        return await self._ask(path, lambda server: server.locations(kind, path, position))

    async def hover(self, path: Path, position: SourcePosition) -> str | Unavailable:
        """See Code."""
        return await self._ask(path, lambda server: server.hover(path, position))

    async def calls(
        self, path: Path, position: SourcePosition, *, incoming: bool, outgoing: bool
    ) -> Hierarchy | Unavailable | None:
        """See Code."""
        return await self._ask(path, lambda server: server.calls(path, position, incoming=incoming, outgoing=outgoing))

    async def types(self, path: Path, position: SourcePosition) -> Hierarchy | Unavailable | None:
        """See Code."""
        return await self._ask(path, lambda server: server.types(path, position))

    async def symbols(self, name: str) -> tuple[Symbol, ...] | Unavailable:
        """See Code."""

        async def ask(pool: ServerPool) -> tuple[Symbol, ...] | Unavailable:
            from tui_agent.lsp.queries import CodeServer

            languages = await asyncio.to_thread(_served_languages, pool)
            if not languages:
                return Unavailable(reason="no language server for a language of this workspace is installed")
            queries = (
                pool.with_server(language, root, partial(CodeServer.symbols, name=name, example=example))
                for language, root, example in languages
            )
            answers = await asyncio.gather(*queries)
            symbols = [symbol for answer in answers if not isinstance(answer, Unavailable) for symbol in answer]
            reasons = [answer for answer in answers if isinstance(answer, Unavailable)]
            if not symbols and len(reasons) == len(answers):
                return reasons[0]
            return await asyncio.to_thread(_rank_symbols, name, symbols)

        return await self._limited(ask)

    async def _ask(
        self, path: Path, ask: Callable[[CodeServer], Awaitable[T | Unavailable]], seconds: float = QUERY_TIMEOUT
    ) -> T | Unavailable:
        """Query the server of a file."""
        return await self._limited(lambda pool: pool.with_file(path, ask), seconds)

    async def _limited(
        self, ask: Callable[[ServerPool], Awaitable[T | Unavailable]], seconds: float = QUERY_TIMEOUT
    ) -> T | Unavailable:
        """Query the servers, which first re-read changed files; any error gives `Unavailable`."""
        if why := self.obstacle():
            return Unavailable(reason=why)
        try:
            async with asyncio.timeout(seconds):
                pool = await self._servers()
                await pool.refresh()
                return await ask(pool)
        except TimeoutError:
            return Unavailable(reason=f"the language server took longer than {seconds:g} s")
        except Exception:
            log.exception("code intelligence failed")
            return Unavailable(reason="code intelligence failed inside; the details are in the debug log")

    # --- after a write, and in the completion gate ---

    def expect(self, path: Path, before: bytes | None) -> None:
        """Collect the diagnostics of a file before it is written, to recognize new errors afterwards.

        `before` is its content; None if it does not exist.
        """
        task = self._baselines.get(path)
        if self.obstacle() or (task is not None and not task.done()):
            return
        self._baselines = {other: task for other, task in self._baselines.items() if not task.done()}
        self._baselines[path] = asyncio.create_task(self._collect_baseline(path, before))

    async def _collect_baseline(self, path: Path, before: bytes | None) -> None:
        if before is not None:
            await self._diagnostics(path, QUERY_TIMEOUT, before)
        else:
            await self._ask(path, _start_only)

    async def check(self, change: FileChange) -> tuple[Diagnostic, ...] | None:
        """Return the diagnostics of a written file, new ones marked (T4).

        None if they are not available within the setting `timeouts.diagnostics`.
        """
        if self.obstacle() or change.after is None:
            return None
        path, seconds = Path(change.path), self._settings.timeouts.diagnostics
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        baseline = self._baselines.get(path)
        if baseline is not None:
            await asyncio.wait([baseline], timeout=seconds)
        diagnostics = await self._diagnostics(path, max(0.0, end - loop.time()))
        return None if diagnostics is None else self._mark_new(diagnostics, change.path, change.before)

    async def errors(self, changes: Iterable[FileChange]) -> dict[str, tuple[Diagnostic, ...]]:
        """Return the errors introduced by these changes, as far as known, by display name (W8)."""
        first: dict[str, FileChange] = {}
        for change in changes:
            first.setdefault(change.path, change)
        if self.obstacle() or not first:
            return {}
        loop = asyncio.get_running_loop()
        end = loop.time() + GATE_TIMEOUT
        errors_by_file: dict[str, tuple[Diagnostic, ...]] = {}
        for path, change in first.items():
            diagnostics = await self._diagnostics(Path(path), max(0.0, end - loop.time()))
            marked = self._mark_new(diagnostics or (), path, change.before)
            if errors := tuple(item for item in marked if item.kind == "error" and item.new):
                errors_by_file[change.display] = errors
        return errors_by_file

    async def _diagnostics(
        self, path: Path, seconds: float, data: bytes | None = None
    ) -> tuple[Diagnostic, ...] | None:
        """Return the diagnostics of the file on disk, or with the content `data`; None if not available in time."""
        limit = max(0.1, seconds)
        answer = await self._ask(path, lambda server: server.file_diagnostics(path, limit, data), seconds)
        if isinstance(answer, Unavailable):
            log.debug("no diagnostics of %s: %s", path, answer.reason)
            return None
        sha256, diagnostics = answer
        put_bounded(self._diagnostic_counts, (str(path), sha256), Counter(map(_identity, diagnostics)), MAX_FILES)
        return diagnostics

    def _mark_new(self, diagnostics: tuple[Diagnostic, ...], path: str, before: str | None) -> tuple[Diagnostic, ...]:
        """Mark the diagnostics that the file with the hash `before` did not have; all if it is unknown."""
        old = self._diagnostic_counts.get((path, before or ""), Counter()).copy()
        marked = []
        for diagnostic in diagnostics:
            old[_identity(diagnostic)] -= 1
            marked.append(msgspec.structs.replace(diagnostic, new=old[_identity(diagnostic)] < 0))
        return tuple(marked)


def _identity(diagnostic: Diagnostic) -> int:
    """Identify a diagnostic independently of its position."""
    return hash((diagnostic.kind, diagnostic.message, diagnostic.code))


async def _start_only(server: CodeServer) -> None:
    """Send no query: the server is started beforehand."""


def _served_languages(pool: ServerPool) -> list[tuple[Language, Path, Path]]:
    """Return the languages with an installed server, each with a root and an example file. Does file IO."""
    from tui_agent.lsp.languages import code_files, language_of_file
    from tui_agent.lsp.pool import served_languages

    suffixes = frozenset(suffix for language in pool.languages for suffix in language.suffixes)
    files: dict[tuple[str, Path], Path] = {}
    """Suffix and root → the first file."""
    for root in pool.roots:
        for entry in code_files(root, suffixes):
            path = Path(entry.path)
            files.setdefault((path.suffix.lower(), root), path)
    found = {suffix for suffix, _root in files}
    served = served_languages([each for each in pool.languages if not found.isdisjoint(each.suffixes)], pool.folders)
    examples: dict[tuple[str, Path], tuple[Language, Path, Path]] = {}
    for (_suffix, root), path in files.items():
        if (language := language_of_file(path, served)) is not None:
            examples.setdefault((language.name, root), (language, root, path))
    return list(examples.values())


def _rank_symbols(name: str, symbols: Iterable[Symbol]) -> tuple[Symbol, ...]:
    """Sort symbols by how well they match `name`, without duplicates."""
    wanted = name.casefold()

    def rank(symbol: Symbol) -> tuple[bool, bool, bool, str, int]:
        folded = symbol.name.casefold()
        return (symbol.name != name, folded != wanted, wanted not in folded, symbol.location.path, symbol.location.line)

    unique = {(symbol.name, symbol.location.path, symbol.location.line): symbol for symbol in symbols}
    return tuple(sorted(unique.values(), key=rank))
