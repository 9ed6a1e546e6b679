"""models.json while a session goes on: made on first run, read again when it changes; the last good one counts (M5)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tui_agent.common.domain import Fault, ModelInfo
from tui_agent.events import Notice
from tui_agent.models import catalog as file
from tui_agent.models.base import Model
from tui_agent.models.catalog import Catalog, CatalogRead
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.watching import FileStamp, file_changes, file_stamp

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
"""Seconds after which a file that can't be read is looked at again: somebody may be writing it."""


class LiveCatalog:
    """The catalogue in the file at `path`; the built-in one before it is opened, and while there is none."""

    def __init__(self, path: Path, tell: Callable[[Notice], object]) -> None:
        self._path = path
        self._tell = tell
        self._watching: asyncio.Task[None] | None = None
        self._said: tuple[str, ...] = ()
        self._read: FileStamp | None = None
        self.current: Catalog = file.built_in_catalog()
        self.opened = False
        self.paused = False
        """Changes of the file are not read: whoever set this writes it, and calls `reload` then."""
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
        self._read = file_stamp(self._path)
        return await asyncio.to_thread(file.read_catalog, self._path)

    async def _create(self, model: Model, served: Sequence[str]) -> None:
        infos = await described(model, served)
        try:
            await asyncio.to_thread(file.create_models_file, self._path, infos, model.provider)
        except (FileFault, OSError) as error:
            log.warning("%s could not be made: %s", self._path, error)

    def _take(self, found: CatalogRead, *, first: bool = False) -> bool:
        """Let a good reading count; tell what is wrong, but the same mistakes only once. True when it counts."""
        said = tuple(str(problem) for problem in found.problems)
        if said and said != self._said:
            kept = "the previous content" if self.configured else "the built-in list"
            end = "The rest of the file is used." if found.catalog else f"Until it is fixed, {kept} is used."
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
        async with contextlib.aclosing(file_changes(self._path, self._read)) as seen:
            async for _ in seen:
                if not self.paused and file_stamp(self._path) != self._read:
                    await self.reload()

    async def reload(self, *, quietly: bool = False) -> None:
        """Read the file again. While it is wrong or gone the last good reading stays. `quietly`: what changed in it is
        ours and was told."""
        found = await self._reading()
        if found.catalog is None:
            await asyncio.sleep(_SETTLING)
            found = await self._reading()
        if self._take(found):
            if not quietly:
                text = "models.json was reloaded and is in effect."
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
