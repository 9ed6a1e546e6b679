"""A language server: its open files, requests to it, and the diagnostics it publishes."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from tui_agent.common.bounded import put_bounded
from tui_agent.common.symbols import SourcePosition
from tui_agent.lsp.connection import RequestRejected, RpcConnection, ServerGone, ServerTimeout
from tui_agent.lsp.documents import NoSuchFile, OpenDocument, open_text
from tui_agent.lsp.languages import Language, ServerCommand
from tui_agent.lsp.positions import Encoding, as_dict, as_list, path_of, to_units, uri_of
from tui_agent.lsp.results import trim_diagnostics
from tui_agent.text.patterns import read_table

_client = partial(read_table, __package__, "client.json")
"""This client's `capabilities`, and by method the field of a server's capabilities that offers it (`providers`)."""
MAX_OPEN = 40
"""Files that are open at the same time; the least recently used one is closed."""
PULL_DIAGNOSTICS = "textDocument/diagnostic"
MAX_TOKENS = 100
"""Tasks whose progress is followed at the same time."""
MAX_REGISTRATIONS = 1_000


class ServerLimits(msgspec.Struct, frozen=True):
    """Time limits of a language server in seconds, and how often it may fail."""

    start: float = 25.0
    """For the reply to `initialize`."""
    request: float = 15.0
    """For one request."""
    indexing: float = 20.0
    """For reading the project, while it reports progress; then it is asked anyway."""
    warmup: float = 10.0
    """After its start, when it may still be reading the project without reporting it: a request about the whole project
    is repeated until two results are equal."""
    retry_interval: float = 0.5
    """Between two such requests."""
    backoff: float = 2.0
    """Before the second restart; doubled for each further one."""
    max_starts: int = 3
    """Number of starts in a session."""
    stable_after: float = 600.0
    """Running time after which earlier starts no longer count."""
    max_timeouts: int = 2
    """Number of consecutive requests without any response after which it is stopped."""
    shutdown: float = 1.0
    """For the reply to `shutdown`, and for exiting."""
    settle: float = 0.25
    """During which a server without versions may correct published diagnostics."""
    settle_empty: float = 1.0
    """The same for an empty list, which may be the result of the first of several stages."""
    open_size: int = 32_000_000
    """Characters of all files that are open at the same time; one file may be larger."""


class PublishedDiagnostics(NamedTuple):
    """The diagnostics that a server published for a file."""

    version: int | None
    """Of the document; None from a server without versions."""
    items: list[dict[str, Any]]
    time: float
    """On the loop's clock."""


class LanguageServer:
    """A running server, bound to the event loop that started it. Methods raise LspError."""

    def __init__(self, language: Language, root: Path, limits: ServerLimits) -> None:
        self.language = language
        self.root = root
        self.limits = limits
        self.documents: dict[str, OpenDocument] = {}
        """Open files by URI, the one that was used last at the end."""
        self._connection: RpcConnection
        self._capabilities: Mapping[str, Any] = {}
        self._registered: dict[str, str] = {}
        """Methods that were registered later, by registration id."""
        self.encoding: Encoding = "utf-16"
        """How the server counts columns."""
        self._published: dict[str, PublishedDiagnostics] = {}
        """Diagnostics of the open files by path, as every server spells URIs in its own way."""
        self._last_version = 0
        self._changed = asyncio.Event()
        """Set when new diagnostics may be available, or when no more will come."""
        self._progress: dict[str, float] = {}
        """Tokens of the tasks that the server reports, with the time of the latest report, oldest first."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._timeouts = 0
        self._last_timeout = 0.0
        self._started = asyncio.get_running_loop().time()
        self._sync_lock = asyncio.Lock()

    @classmethod
    async def start(
        cls,
        command: ServerCommand,
        language: Language,
        root: Path,
        limits: ServerLimits,
        environment: Mapping[str, str],
    ) -> Self:
        """Start the program and exchange capabilities."""
        server = cls(language, root, limits)
        server._connection = connection = await RpcConnection.start(
            command.program,
            command.argv,
            cwd=root,
            environment=environment,
            on_request=server._on_request,
            on_notification=server._on_notification,
        )
        connection.on_closed = server._on_closed
        params = {
            "processId": os.getpid(),
            "clientInfo": {"name": "tui-agent"},
            "rootUri": uri_of(str(root)),
            "rootPath": str(root),
            "workspaceFolders": server._folders(),
            "capabilities": _client()["capabilities"],
        }
        try:
            result = await connection.request("initialize", params, limits.start)
            server._capabilities = as_dict(as_dict(result).get("capabilities"))
            if server._capabilities.get("positionEncoding") in ("utf-8", "utf-32"):
                server.encoding = server._capabilities["positionEncoding"]
            connection.notify("initialized", {})
            connection.notify("workspace/didChangeConfiguration", {"settings": {}})
        except BaseException as error:
            connection.stop(f"it did not start: {error}")
            await connection.wait_gone()
            raise
        return server

    def _on_closed(self) -> None:
        self._idle.set()
        self._changed.set()

    def _folders(self) -> list[dict[str, str]]:
        return [{"uri": uri_of(str(self.root)), "name": self.root.name}]

    # --- requests ---

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return not self._connection.close_reason

    @property
    def close_reason(self) -> str:
        """Why it ended."""
        return self._connection.close_reason

    def supports(self, method: str) -> bool:
        """Whether the server offers `method`."""
        capability = self._capabilities.get(_client()["providers"][method])
        return method in self._registered.values() or capability not in (None, False)

    async def request(self, method: str, params: Any) -> Any:
        """Return the result of a request. A server that repeatedly does not respond is stopped."""
        start = asyncio.get_running_loop().time()
        try:
            result = await self._connection.request(method, params, self.limits.request)
        except ServerTimeout:
            self._count_timeout(start)
            raise
        except RequestRejected:
            self._timeouts = 0
            raise
        self._timeouts = 0
        return result

    async def request_project(self, method: str, params: Any) -> Any:
        """Return the result of a request about all files, which a new server may not have indexed yet."""
        result = await self.request(method, params)
        while asyncio.get_running_loop().time() - self._started < self.limits.warmup:
            await asyncio.sleep(self.limits.retry_interval)
            previous, result = result, await self.request(method, params)
            if result == previous:
                break
        return result

    def _count_timeout(self, start: float) -> None:
        """Count a request that timed out, if nothing else was received for half of the time either.

        Concurrent requests count once.
        """
        now, last_received = asyncio.get_running_loop().time(), self._connection.last_received
        if start < self._last_timeout or now - last_received < self.limits.request / 2 or self._is_busy():
            return
        self._timeouts = 1 if last_received > self._last_timeout else self._timeouts + 1
        self._last_timeout = now
        if self._timeouts >= self.limits.max_timeouts:
            self._connection.stop("it no longer responds")

    def _is_busy(self) -> bool:
        """Whether it reports work; a report that is not updated for `limits.indexing` no longer counts."""
        return bool(self._progress) and self._remaining_patience() > 0

    def _remaining_patience(self) -> float:
        latest = next(reversed(self._progress.values()))
        return latest + self.limits.indexing - asyncio.get_running_loop().time()

    async def wait_indexed(self) -> None:
        """Wait until it reports no more work, such as reading the project, for at most `limits.indexing`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.limits.indexing):
                while self._is_busy() and self.alive:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._remaining_patience()):
                            await self._idle.wait()

    def position(self, document: OpenDocument, position: SourcePosition) -> dict[str, int]:
        """Return a position in the protocol's form."""
        line = document.lines[position.line - 1]
        return {"line": position.line - 1, "character": to_units(line, position.column, self.encoding)}

    async def close(self) -> None:
        """End the server, within little more than 2 s."""
        await self._connection.close(self.limits.shutdown)

    # --- documents ---

    async def sync(self, path: Path, data: bytes | None = None) -> OpenDocument:
        """Open the file, or send its current content, or `data` instead. Raises NoSuchFile, LspError."""
        async with self._sync_lock:
            uri = uri_of(str(path))
            opened = self.documents.get(uri)
            try:
                document = await asyncio.to_thread(open_text, path, opened, self._last_version + 1, data)
            except NoSuchFile:
                if opened is not None:
                    self._close(uri)
                raise
            self.documents.pop(uri, None)
            self.documents[uri] = document
            if document is not opened:
                self._last_version += 1
                self._send_text(document, is_new=opened is None)
                document.text = msgspec.Raw()
            self._close_oldest()
            return document

    def _close_oldest(self) -> None:
        size = sum(document.size for document in self.documents.values())
        while len(self.documents) > MAX_OPEN or (size > self.limits.open_size and len(self.documents) > 1):
            oldest = next(iter(self.documents.values()))
            size -= oldest.size
            self._close(oldest.uri)

    async def sync_all(self) -> None:
        """Send the current content of all open files."""
        for document in tuple(self.documents.values()):
            with contextlib.suppress(NoSuchFile):
                await self.sync(document.path)

    def files_changed(self, changes: Iterable[tuple[str, int]]) -> None:
        """Report paths that were created (1), changed (2) or deleted (3) on disk."""
        events = [{"uri": uri_of(path), "type": kind} for path, kind in changes]
        if events:
            self._connection.notify("workspace/didChangeWatchedFiles", {"changes": events})

    def _send_text(self, document: OpenDocument, *, is_new: bool) -> None:
        uri, version, text = document.uri, document.version, document.text
        self._published.pop(path_of(uri), None)
        if is_new:
            item = {"uri": uri, "languageId": self.language.id_of(document.path), "version": version, "text": text}
            self._connection.notify("textDocument/didOpen", {"textDocument": item})
        else:
            change = {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]}
            self._connection.notify("textDocument/didChange", change)
            self._connection.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    def _close(self, uri: str) -> None:
        self.documents.pop(uri, None)
        self._published.pop(path_of(uri), None)
        self._connection.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    # --- diagnostics ---

    async def diagnostics(self, document: OpenDocument, seconds: float) -> list[Any]:
        """Return the diagnostics for the file's content as sent, in the protocol's form. Raises LspError."""
        try:
            async with asyncio.timeout(seconds):
                return await self._wait_for_diagnostics(document)
        except TimeoutError:
            raise ServerTimeout(f"it did not check {document.path.name} within {seconds:g} s") from None

    async def _wait_for_diagnostics(self, document: OpenDocument) -> list[Any]:
        """Return the diagnostics published for this version or, by a server without versions, the latest ones.

        They are requested from a server that offers pulled diagnostics, perhaps registered only during the wait.
        """
        while not self.supports(PULL_DIAGNOSTICS):
            published = self._published.get(path_of(document.uri))
            if published and published.version is not None and published.version >= document.version:
                return published.items
            self._changed.clear()
            if not self.alive:
                raise ServerGone(self.close_reason)
            if published is None or published.version is not None:
                await self._changed.wait()
                continue
            # An empty list may be the result of the first of several stages.
            quiet = self.limits.settle if published.items else self.limits.settle_empty
            remaining = published.time + quiet - asyncio.get_running_loop().time()
            if remaining <= 0 and (published.items or not self._is_busy()):
                return published.items
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining if remaining > 0 else self.limits.settle_empty):
                    await self._changed.wait()
        params = {"textDocument": {"uri": document.uri}}
        # Not `self.request`: a timeout of the caller must not count as a failure of the server.
        report = await self._connection.request(PULL_DIAGNOSTICS, params, self.limits.start)
        return as_list(as_dict(report).get("items"))

    # --- incoming messages ---

    def _on_notification(self, method: str, params: Any) -> None:
        fields = as_dict(params)
        if method == "textDocument/publishDiagnostics":
            path, items, version = path_of(fields.get("uri")), fields.get("diagnostics"), fields.get("version")
            if isinstance(items, list) and uri_of(path) in self.documents:
                self._published[path] = PublishedDiagnostics(
                    version if isinstance(version, int) else None,
                    trim_diagnostics(items),
                    asyncio.get_running_loop().time(),
                )
                self._changed.set()
        elif method == "$/progress":
            self._on_progress(str(fields.get("token")), as_dict(fields.get("value")).get("kind"))

    def _on_progress(self, token: str, kind: object) -> None:
        is_known = self._progress.pop(token, None) is not None
        if kind == "begin" or (kind == "report" and is_known):
            put_bounded(self._progress, token, asyncio.get_running_loop().time(), MAX_TOKENS)
        if self._progress:
            self._idle.clear()
        else:
            self._idle.set()
            self._changed.set()

    def _on_request(self, method: str, params: Any) -> Any:
        """Return the result of a request by the server. Raises LookupError for unsupported methods."""
        fields = as_dict(params)
        match method:
            case "workspace/configuration":
                return [None for _ in as_list(fields.get("items"))]
            case "workspace/workspaceFolders":
                return self._folders()
            case "client/registerCapability":
                for registration in map(as_dict, fields.get("registrations") or ()):
                    if len(self._registered) < MAX_REGISTRATIONS:
                        self._registered[str(registration.get("id"))] = str(registration.get("method"))
                self._changed.set()
                return None
            case "client/unregisterCapability":
                for registration in map(as_dict, fields.get("unregisterations") or ()):  # the protocol's spelling
                    self._registered.pop(str(registration.get("id")), None)
                return None
            case "workspace/applyEdit":
                return {"applied": False, "failureReason": "edits are made with the agent's own tools"}
            case "window/showDocument":
                return {"success": False}
            case "window/workDoneProgress/create" | "window/showMessageRequest" | "workspace/diagnostic/refresh":
                return None
        raise LookupError(method)
