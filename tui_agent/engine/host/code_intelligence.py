"""What language servers know, for the tools, for the check after a write and for the completion gate (T3, T4, W8).

Nothing here raises, and nothing takes longer than its limit. Servers are started in a trusted folder only, on
first use, and shared by all that works in the session.
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

ANSWER = 60.0
"""Seconds that one question may take, starting and indexing included."""
KEPT = 300
"""Files of which is remembered what was wrong in them."""
GATE = 20.0
"""Seconds for all files that the completion gate looks at."""

T = TypeVar("T")


class CodeIntelligence:
    """Implements `tools.base.Code` for one session."""

    def __init__(
        self,
        settings: Settings,
        roots: Roots,
        tell: Callable[[Notice], object],
        limits: ServerLimits | None = None,
        *,
        allowed: Callable[[], bool],
    ) -> None:
        """`allowed`: whether the workspace is trusted by now (A8)."""
        self._settings = settings
        self._roots = roots
        self._tell = tell
        self._limits = limits
        self._pool: ServerPool | None = None
        self._expecting: dict[Path, asyncio.Task[None]] = {}
        self._known: dict[tuple[str, str], Counter[int]] = {}
        """By path and sha256: how often which finding was in the file (`_which`)."""
        self._allowed = allowed

    # --- whether there is any ---

    def hindrance(self) -> str:
        """Why no server may be started; empty when it may."""
        if not self._settings.language_servers_on:
            return "language servers are switched off in the settings"
        return "" if self._allowed() else "this folder is not trusted"

    async def offered(self) -> bool:
        """Whether a server is installed for a language of the workspace. Starts none."""
        if self.hindrance():
            return False
        pool = await self._servers()
        return bool(await asyncio.to_thread(_present, pool))

    async def close(self) -> None:
        """End all servers; nothing of them is left afterwards."""
        for task in self._expecting.values():
            task.cancel()
        await asyncio.gather(*self._expecting.values(), return_exceptions=True)
        if self._pool is not None:
            await self._pool.close()

    async def _servers(self) -> ServerPool:
        if self._pool is None:
            made = await asyncio.to_thread(self._make_pool)
            self._pool = self._pool or made
        return self._pool

    def _make_pool(self) -> ServerPool:
        """For the workspace, and those of its other folders that are trusted (A8). Imports a lot and does file IO."""
        from tui_agent.lsp.pool import ServerPool

        folders = self._roots.folders
        roots = (folders[0], *(folder for folder in folders[1:] if trust.is_trusted(folder)))
        return ServerPool(roots, self._settings.language_servers, self._say, self._limits, avoid=folders)

    def _say(self, level: Literal["info", "warning"], text: str) -> None:
        self._tell(Notice(level=level, text=text, code="code.server"))

    # --- questions of the tools ---

    async def diagnostics(self, path: Path) -> tuple[Diagnostic, ...] | Unavailable:
        """See Code."""
        found = await self._ask(path, lambda server: server.file_diagnostics(path, server.limits.indexing))
        return found if isinstance(found, Unavailable) else found[1]

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

            present = await asyncio.to_thread(_present, pool)
            if not present:
                return Unavailable(reason="no language server for a language of this workspace is installed")
            asked = (
                pool.with_server(language, root, partial(CodeServer.symbols, name=name, example=example))
                for language, root, example in present
            )
            answers = await asyncio.gather(*asked)
            found = [symbol for one in answers if not isinstance(one, Unavailable) for symbol in one]
            reasons = [one for one in answers if isinstance(one, Unavailable)]
            if not found and len(reasons) == len(answers):
                return reasons[0]
            return await asyncio.to_thread(_likest, name, found)

        return await self._limited(ask)

    async def _ask(
        self, path: Path, ask: Callable[[CodeServer], Awaitable[T | Unavailable]], seconds: float = ANSWER
    ) -> T | Unavailable:
        """What `ask` gets from the server for a file."""
        return await self._limited(lambda pool: pool.with_file(path, ask), seconds)

    async def _limited(
        self, ask: Callable[[ServerPool], Awaitable[T | Unavailable]], seconds: float = ANSWER
    ) -> T | Unavailable:
        """The answer of servers that know the files on disk; `Unavailable` whatever goes wrong."""
        if why := self.hindrance():
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

    # --- after a write, and at the end ---

    def expect(self, path: Path, before: bytes | None) -> None:
        """A file is about to be written: what is wrong in it now is found out meanwhile, so that new errors can be
        told from old ones. `before`: its bytes; None where there is no file."""
        going = self._expecting.get(path)
        if self.hindrance() or (going is not None and not going.done()):
            return
        self._expecting = {known: task for known, task in self._expecting.items() if not task.done()}
        self._expecting[path] = asyncio.create_task(self._look(path, before))

    async def _look(self, path: Path, before: bytes | None) -> None:
        if before is not None:
            await self._found(path, ANSWER, before)
        else:
            await self._ask(path, _started)

    async def check(self, change: FileChange) -> tuple[Diagnostic, ...] | None:
        """What is wrong in a file that was just written, new errors marked; None when that can't be told within the
        setting `timeouts.diagnostics` (T4)."""
        if self.hindrance() or change.after is None:
            return None
        path, seconds = Path(change.path), self._settings.timeouts.diagnostics
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        expected = self._expecting.get(path)
        if expected is not None:
            await asyncio.wait([expected], timeout=seconds)
        found = await self._found(path, max(0.0, end - loop.time()))
        return None if found is None else self._marked(found, change.path, change.before)

    async def errors(self, changes: Iterable[FileChange]) -> dict[str, tuple[Diagnostic, ...]]:
        """The errors of files that were changed, by their shown names: those that were not there before the first of
        these changes, as far as that is known (W8)."""
        first: dict[str, FileChange] = {}
        for change in changes:
            first.setdefault(change.path, change)
        if self.hindrance() or not first:
            return {}
        loop = asyncio.get_running_loop()
        end = loop.time() + GATE
        wrong: dict[str, tuple[Diagnostic, ...]] = {}
        for path, change in first.items():
            found = await self._found(Path(path), max(0.0, end - loop.time()))
            marked = self._marked(found or (), path, change.before)
            if errors := tuple(one for one in marked if one.kind == "error" and one.new):
                wrong[change.display] = errors
        return wrong

    async def _found(self, path: Path, seconds: float, data: bytes | None = None) -> tuple[Diagnostic, ...] | None:
        """What is wrong in the file on disk, or would be if `data` stood in it; None when that can't be told in
        time."""

        limit = max(0.1, seconds)
        answer = await self._ask(path, lambda server: server.file_diagnostics(path, limit, data), seconds)
        if isinstance(answer, Unavailable):
            log.debug("no diagnostics of %s: %s", path, answer.reason)
            return None
        sha256, found = answer
        put_bounded(self._known, (str(path), sha256), Counter(map(_which, found)), KEPT)
        return found

    def _marked(self, found: tuple[Diagnostic, ...], path: str, before: str | None) -> tuple[Diagnostic, ...]:
        """`found` with those marked that were not in the file as it was `before`; all of them where that is not
        known."""
        old = self._known.get((path, before or ""), Counter()).copy()
        marked = []
        for one in found:
            old[_which(one)] -= 1
            marked.append(msgspec.structs.replace(one, new=old[_which(one)] < 0))
        return tuple(marked)


def _which(one: Diagnostic) -> int:
    """The same for findings that only stand in other places."""
    return hash((one.kind, one.message, one.code))


async def _started(server: CodeServer) -> None:
    """Nothing is asked yet."""


def _present(pool: ServerPool) -> list[tuple[Language, Path, Path]]:
    """Languages of the workspace that can be served: with the root, and a file of it. Does file IO."""
    from tui_agent.lsp.languages import code_files, language_of_file
    from tui_agent.lsp.pool import is_served

    known = is_served(pool.languages, pool.folders)
    suffixes = frozenset(suffix for language in known for suffix in language.suffixes)
    found: dict[tuple[str, Path], tuple[Language, Path, Path]] = {}
    for root in pool.roots if suffixes else ():
        for entry in code_files(root, suffixes):
            language = language_of_file(Path(entry.path), known)
            if language is not None:
                found.setdefault((language.name, root), (language, root, Path(entry.path)))
    return list(found.values())


def _likest(name: str, found: Iterable[Symbol]) -> tuple[Symbol, ...]:
    """Exact names first, then those that begin with it, then those that hold it; each symbol once."""
    wanted = name.casefold()

    def rank(symbol: Symbol) -> tuple[bool, bool, bool, str, int]:
        own = symbol.name.casefold()
        return (symbol.name != name, own != wanted, wanted not in own, symbol.location.path, symbol.location.line)

    once = {(one.name, one.location.path, one.location.line): one for one in found}
    return tuple(sorted(once.values(), key=rank))
