"""One job for command, screen and page: get a model from the first of its sources that works (L2)."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tui_agent.models import ollama_models
from tui_agent.models.faults import WireFault
from tui_agent.models.local import library
from tui_agent.models.local.download import DownloadLimits, download, file_hash
from tui_agent.models.local.library import LibraryError, LocalFile
from tui_agent.models.local.parts import in_thread
from tui_agent.models.local.progress import DownloadFailed, Meter, OnProgress, Progress
from tui_agent.models.local.sources import (
    OllamaSource,
    PackageSource,
    PathSource,
    Source,
    SourceError,
    WebSource,
    resolve,
)
from tui_agent.models.wire import Wire
from tui_agent.text import file_size

_TRY_NEXT = ("unreachable", "not_found", "denied")
"""Failures of a source that say nothing about the next one."""


class GetModel:
    """Gets one model. `run` may be cancelled and started again: it continues."""

    def __init__(
        self,
        sources: Sequence[Source],
        on_progress: OnProgress,
        *,
        typed: str = "",
        copy: bool = False,
        ollama: Wire | None = None,
        env: Mapping[str, str] | None = None,
        limits: DownloadLimits = DownloadLimits(),  # noqa: B008  # immutable
    ) -> None:
        """`typed` is what the user typed, `copy`: copy a file on this machine, `ollama`: the connection to an Ollama
        server, which is not closed."""
        self._sources = tuple(sources)
        self._on_progress = on_progress
        self._typed, self._copy, self._ollama, self._limits = typed, copy, ollama, limits
        self._env = os.environ if env is None else env
        self.progress = Progress()
        """The last that was reported."""

    async def look(self) -> Source:
        """Return the first source that can be asked, with what is known of its files. Raises DownloadFailed."""
        problems: list[str] = []
        while self._sources:
            try:
                source = await resolve(self._sources[0], self._env)
            except SourceError as error:
                problems.append(str(error))
                if len(self._sources) == 1:
                    raise DownloadFailed(" ".join(problems), error.code) from error
                self._sources = self._sources[1:]
                self._report(Progress(stage="waiting", note=f"{error} Trying another source."))
            else:
                self._sources = (source, *self._sources[1:])
                return source
        raise DownloadFailed("There is no source for this model.", "not_found")

    async def run(self) -> LocalFile | None:
        """Get the model; None if it is on the Ollama server now. Raises DownloadFailed."""
        problems: list[str] = []
        while True:
            source = await self.look()
            try:
                return await self._get(source)
            except DownloadFailed as error:
                problems.append(str(error))
                if error.code not in _TRY_NEXT or len(self._sources) == 1:
                    raise DownloadFailed(" ".join(problems), error.code) from error
                self._sources = self._sources[1:]
                self._report(Progress(stage="waiting", note=f"{error} Trying another source."))

    def _report(self, progress: Progress) -> None:
        self.progress = progress
        self._on_progress(progress)

    async def _get(self, source: Source) -> LocalFile | None:
        if isinstance(source, OllamaSource):
            await self._pull(source.name)
            return None
        try:
            if isinstance(source, PathSource):
                return await self._add(source)
            assert isinstance(source, WebSource | PackageSource)
            path = await download(source, self._report, typed=self._typed, env=self._env, limits=self._limits)
            found = await in_thread(_recorded, path, source)
        except LibraryError as error:
            code = error.code if error.code in ("in_use", "no_space") else "failed"
            raise DownloadFailed(str(error), code) from error
        if found is None:
            raise DownloadFailed(f"{path.name} has been removed meanwhile.", "failed")
        return found

    async def _add(self, source: PathSource) -> LocalFile:
        """Register or copy a file; being cancelled ends the copy. Raises LibraryError."""
        stop = threading.Event()
        adding = asyncio.create_task(in_thread(library.add, source.path, copy=self._copy, stopped=stop.is_set))
        try:
            return await asyncio.shield(adding)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([adding])
            if not adding.cancelled():
                adding.exception()  # it was stopped, which is not reported
            raise

    async def _pull(self, name: str) -> None:
        if self._ollama is None:
            raise DownloadFailed("There is no Ollama server. Start it with `ollama serve`.", "unreachable")
        meter = Meter(self._report)

        def report(status: str, done: int, total: int | None) -> None:
            meter.total = total
            meter.report(done, "checking" if status.startswith(("verifying", "writing")) else "downloading")

        try:
            await ollama_models.pull(self._ollama, name, report)
        except WireFault as error:
            code = "unreachable" if error.fault.kind == "unreachable" else "failed"
            raise DownloadFailed(error.fault.full_message, code) from error


def _recorded(path: Path, source: WebSource | PackageSource) -> LocalFile | None:
    """Note where a file is from, unless it was there before; return the model. Blocks. Raises LibraryError."""
    found, sha256 = library.find(str(path)), file_hash(source)
    is_known = found is not None and (found.sha256 == sha256 if sha256 else found.origin == source.origin)
    if found is None or is_known:
        return found
    library.record(path, origin=source.origin, sha256=sha256)
    return library.find(str(path))


def describe_progress(progress: Progress) -> str:
    """Return the progress in words, such as `1.2 GB of 4.7 GB, 12 MB/s, 5 min left`."""
    done = file_size(progress.done)
    parts = [done if progress.total is None else f"{done} of {file_size(progress.total)}"]
    if progress.rate:
        parts.append(f"{file_size(round(progress.rate))}/s")
    if (left := progress.seconds_left) is not None and progress.stage == "downloading":
        parts.append(f"{describe_seconds(left)} left")
    text = ", ".join(parts)
    return f"checking: {text}" if progress.stage == "checking" else text


def describe_seconds(seconds: float) -> str:
    """Return a duration in words, such as `5 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
