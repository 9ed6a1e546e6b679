"""models.json while a session goes on: made on first run, read again when it changes; the last good one counts (M5)."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tui_agent.domain import Fault, ModelInfo
from tui_agent.events import Notice
from tui_agent.models import catalog as file
from tui_agent.models.base import Model
from tui_agent.models.catalog import Catalog, CatalogRead
from tui_agent.paths import ensure_private_dir
from tui_agent.platform.files import FileFault

log = logging.getLogger(__name__)

BAD = "models.bad"
"""Code of the notice that names mistakes in the file."""
READ = "models.read"
"""Code of the notice that a changed file holds."""
DESCRIBED = 20
"""Models of the server that a new file asks for their windows."""
_DESCRIBING = 5.0
"""Seconds for that."""
_SETTLING = 0.3
"""Seconds after which a file that can't be read is looked at again: somebody may be writing it (I06)."""
_STEP = 250
"""Milliseconds between looks at what the system reported."""
_LOOK = 5_000
"""Milliseconds after which the file is looked at unasked: not every file system reports changes."""


class LiveCatalog:
    """The catalogue in the file at `path`; the built-in one before it is opened, and while there is none."""

    def __init__(self, path: Path, tell: Callable[[Notice], object]) -> None:
        self._path = path
        self._tell = tell
        self._watching: asyncio.Task[None] | None = None
        self._said: tuple[str, ...] = ()
        self._read: tuple[int, ...] = ()
        self.current: Catalog = file.built_in()
        self.opened = False
        self.configured = False
        """True when `current` came from the user's file."""
        self.changed: Callable[[], None] = lambda: None
        """Called after a changed file was taken."""

    async def open(self, model: Model, serves: Callable[[], Awaitable[Sequence[str] | Fault]]) -> None:
        """Read the file. Where there is none, make one of what `model`'s server has, which `serves` finds out; a
        server that has nothing yet, or can't be asked, leaves that to a later start: what is there is never written
        over."""
        found = await self._reading()
        if found.missing and model.provider != "scripted":
            served = await serves()
            if served and not isinstance(served, Fault):
                await self._create(model, served)
                found = await self._reading()
        self._take(found, first=True)
        self.opened = True

    async def _reading(self) -> CatalogRead:
        self._read = await asyncio.to_thread(self._stamp)
        return await asyncio.to_thread(file.read, self._path)

    def _stamp(self) -> tuple[int, ...]:
        """What differs when the file does."""
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns

    async def _create(self, model: Model, served: Sequence[str]) -> None:
        infos = await described(model, served)
        try:
            await asyncio.to_thread(file.create, self._path, infos, model.provider)
        except (FileFault, OSError) as error:
            log.warning("%s could not be made: %s", self._path, error)

    def _take(self, found: CatalogRead, *, first: bool = False) -> bool:
        """Let a good reading count; tell what is wrong, but the same mistakes only once. True when it counts."""
        said = tuple(str(problem) for problem in found.problems)
        if said and said != self._said:
            kept = "what was read before" if self.configured else "the built-in list"
            end = "The rest of the file counts." if found.catalog else f"Until it is right, {kept} counts."
            text = "\n".join((*said[:8], *(["…"] if len(said) > 8 else []), end))
            level = "warning" if found.catalog else "error"
            self._tell(Notice(level=level, text=text, code=BAD))  # type: ignore[arg-type]  # both are levels
        self._said = said
        if found.catalog is None or (not first and found.catalog == self.current):
            return False
        self.current, self.configured = found.catalog, True
        return True

    # --- changes ---

    def watch(self) -> None:
        """Read the file again whenever it changes, until `aclose`."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        try:
            watchfiles = await asyncio.to_thread(importlib.import_module, "watchfiles")
            await asyncio.to_thread(ensure_private_dir, self._path.parent)
            # The folder, not the file: an editor that saves puts another file in its place.
            async for _ in watchfiles.awatch(
                self._path.parent,
                watch_filter=lambda _, name: Path(name).name == self._path.name,
                recursive=False,
                step=_STEP,
                debounce=4 * _STEP,
                rust_timeout=_LOOK,
                yield_on_timeout=True,
            ):
                if await asyncio.to_thread(self._stamp) != self._read:
                    await self.reload()
        except (OSError, RuntimeError) as error:
            log.warning("%s is not watched: %s", self._path, error)

    async def reload(self, *, quietly: bool = False) -> None:
        """Read the file again. While it is wrong or gone the last good reading stays. `quietly`: what changed in it is
        ours and was told."""
        found = await self._reading()
        if found.catalog is None:
            await asyncio.sleep(_SETTLING)
            found = await self._reading()
        if self._take(found):
            if not quietly:
                text = "models.json was read again and holds from now on."
                self._tell(Notice(level="info", text=text, code=READ))
            self.changed()

    async def aclose(self) -> None:
        """Watch no longer."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching


async def described(model: Model, served: Sequence[str]) -> list[ModelInfo]:
    """What the server says of its models: of the first ones, as far as it says so in time."""
    known: dict[str, ModelInfo] = {}

    async def ask(name: str) -> None:
        info = await model.describe(name)
        if not isinstance(info, Fault):
            known[name] = info

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DESCRIBING):
            await asyncio.gather(*(ask(name) for name in served[:DESCRIBED]))
    return [known.get(name) or ModelInfo(name=name) for name in served]
