"""The catalog during a session: created on first use, reloaded when it changes; the last valid one is used (M5)."""

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

INVALID = "models.bad"
"""Code of the notice about errors in the file."""
RELOADED = "models.read"
"""Code of the notice about a reloaded file."""
MAX_DESCRIBED = 20
"""Maximum models that are described when the file is created."""
_DESCRIBE_TIMEOUT = 5.0
"""Seconds for all of their descriptions."""
_RETRY_DELAY = 0.3
"""Seconds after which an invalid file is read again: it may have been incomplete."""


class LiveCatalog:
    """The catalog in the file at `path`; the built-in one until `open`, and as long as no file exists."""

    def __init__(self, path: Path, notify: Callable[[Notice], object]) -> None:
        self._path = path
        self._notify = notify
        self._watching: asyncio.Task[None] | None = None
        self._reported: tuple[str, ...] = ()
        self._file_stamp: FileStamp | None = None
        self.current: Catalog = file.built_in_catalog()
        self.opened = False
        self.paused = False
        """Ignore changes of the file, until whoever set this calls `reload`."""
        self.configured = False
        """True if `current` was read from the user's file."""
        self.on_change: Callable[[], None] = lambda: None
        """Called after a changed file was loaded."""

    async def open(self, model: Model, list_models: Callable[[], Awaitable[Sequence[str] | Fault]]) -> None:
        """Read the file, or create it from the models that the server of `model` has according to `list_models`.

        If the server has none, or can't be reached, the file is created at a later start. It is never overwritten.
        """
        result = await self._read()
        if result.missing and model.provider != "scripted":
            served = await list_models()
            if served and not isinstance(served, Fault):
                infos = await describe_models(model, served)
                try:
                    await asyncio.to_thread(file.create_models_file, self._path, infos, model.provider)
                except (FileFault, OSError) as error:
                    log.warning("%s could not be created: %s", self._path, error)
                result = await self._read()
        self._apply(result, first=True)
        self.opened = True

    async def _read(self) -> CatalogRead:
        self._file_stamp = file_stamp(self._path)
        return await asyncio.to_thread(file.read_catalog, self._path)

    def _apply(self, result: CatalogRead, *, first: bool = False) -> bool:
        """Use a valid catalog, and report problems once. True if the catalog changed."""
        problems = tuple(map(str, result.problems))
        if problems and problems != self._reported:
            fallback = "the previous content" if self.configured else "the built-in list"
            end = "The rest of the file is used." if result.catalog else f"Until it is fixed, {fallback} is used."
            text = "\n".join((*problems[:8], *(["…"] if len(problems) > 8 else []), end))
            level = "warning" if result.catalog else "error"
            self._notify(Notice(level=level, text=text, code=INVALID))  # type: ignore[arg-type]  # both are levels
        self._reported = problems
        if result.catalog is None or (not first and result.catalog == self.current):
            return False
        self.current, self.configured = result.catalog, True
        return True

    # --- changes ---

    def watch(self) -> None:
        """Reload the file whenever it changes, until `aclose`."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        async with contextlib.aclosing(file_changes(self._path, self._file_stamp)) as changes:
            async for _ in changes:
                if not self.paused and file_stamp(self._path) != self._file_stamp:
                    await self.reload()

    async def reload(self, *, quietly: bool = False) -> None:
        """Reload the file; if it is invalid or missing, keep the last catalog. `quietly` omits the notice."""
        result = await self._read()
        if result.catalog is None:
            await asyncio.sleep(_RETRY_DELAY)
            result = await self._read()
        if self._apply(result):
            if not quietly:
                text = "models.json was reloaded and is in effect."
                self._notify(Notice(level="info", text=text, code=RELOADED))
            self.on_change()

    async def aclose(self) -> None:
        """Stop watching the file."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching


async def describe_models(model: Model, served: Sequence[str]) -> list[ModelInfo]:
    """Describe the server's models: the first ones, and only as far as the server answers in time."""
    infos: dict[str, ModelInfo] = {}

    async def ask(name: str) -> None:
        info = await model.describe(name)
        if not isinstance(info, Fault):
            infos[name] = info

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DESCRIBE_TIMEOUT):
            await asyncio.gather(*(ask(name) for name in served[:MAX_DESCRIBED]))
    return [infos.get(name) or ModelInfo(name=name) for name in served]
