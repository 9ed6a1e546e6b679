"""What this client tells a server that it can do, and where a server says what it can."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from tui_agent.common.newest import keep_newest
from tui_agent.common.symbols import SourcePosition
from tui_agent.common.tables import read_table
from tui_agent.lsp.connection import RequestRejected, RpcConnection, ServerGone, ServerTimeout
from tui_agent.lsp.documents import NoSuchFile, OpenDocument, open_text
from tui_agent.lsp.languages import Language, ServerCommand
from tui_agent.lsp.positions import Encoding, path_of, to_units, uri_of
from tui_agent.lsp.results import trim_hover

_client = partial(read_table, __file__, "client.json")
"""What this client tells a server that it can do (`capabilities`), and by method the field of a server's capabilities
that offers it (`providers`)."""
OPEN = 40
"""Files that are open at the same time; the one that was asked about longest ago is closed."""
PULL = "textDocument/diagnostic"
TOKENS = 100
"""Reports of progress that are followed at the same time."""


class ServerLimits(msgspec.Struct, frozen=True):
    """How long a language server is waited for, and how often it may fail: seconds, unless said otherwise."""

    start: float = 25.0
    """Until it has answered `initialize`."""
    request: float = 15.0
    """For one request."""
    indexing: float = 20.0
    """While it says that it is still reading the project; then it is asked all the same."""
    young: float = 10.0
    """After its start, in which it may read the project without saying so: a question about all of it counts once it
    is answered the same twice."""
    again: float = 0.5
    """Between these two."""
    backoff: float = 2.0
    """Before it is started a second time; doubled each time."""
    starts: int = 3
    """How often it is started in a session."""
    sound: float = 600.0
    """In which it served well, so that its earlier starts count no more."""
    silences: int = 2
    """Requests in a row without a word from it after which it is ended."""
    farewell: float = 1.0
    """To end by itself when it is asked to."""
    settle: float = 0.25
    """In which a server that gives no versions may correct the diagnostics that it published."""
    settle_empty: float = 1.0
    """The same where it published that there are none: the first of several stages finds little."""
    open_size: int = 32_000_000
    """Characters of all files that are open at the same time; the last one is open whatever its size."""


class PublishedDiagnostics(NamedTuple):
    """What a server announced to be wrong in a file."""

    version: int | None
    """Of the document; None from a server that does not say."""
    items: list[dict[str, Any]]
    at: float
    """When, on the loop's clock."""


class LanguageServer:
    """Lives on the event loop that started it. Methods raise LspError."""

    def __init__(self, language: Language, root: Path, limits: ServerLimits) -> None:
        self.language = language
        self.root = root
        self.limits = limits
        self.documents: dict[str, OpenDocument] = {}
        self._connection: RpcConnection
        self._capabilities: Mapping[str, Any] = {}
        self._registered: dict[str, str] = {}
        self.encoding: Encoding = "utf-16"
        """How it counts columns."""
        self._published: dict[str, PublishedDiagnostics] = {}
        """Of the open files, by path: every server spells addresses its own way."""
        self._shown = 0
        """How often it was shown a text."""
        self._news = asyncio.Event()
        self._busy: dict[str, float] = {}
        """What it says it is at, and when it said so last, in that order."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._silences = 0
        self._silent_at = 0.0
        self._began = asyncio.get_running_loop().time()
        self._showing = asyncio.Lock()

    @classmethod
    async def start(
        cls,
        command: ServerCommand,
        language: Language,
        root: Path,
        limits: ServerLimits,
        environment: Mapping[str, str],
    ) -> Self:
        """Start it and exchange what both sides can do."""
        made = cls(language, root, limits)
        made._connection = connection = await RpcConnection.to_program(
            command.program, command.argv, cwd=root, environment=environment, answer=made._answer, hear=made._hear
        )
        connection.at_end = made._news.set
        folder = {"uri": uri_of(str(root)), "name": root.name}
        params = {
            "processId": os.getpid(),
            "clientInfo": {"name": "tui-agent"},
            "rootUri": folder["uri"],
            "rootPath": str(root),
            "workspaceFolders": [folder],
            "capabilities": _client()["capabilities"],
        }
        try:
            result = await connection.request("initialize", params, limits.start)
            given = result.get("capabilities") if isinstance(result, dict) else None
            made._capabilities = given if isinstance(given, dict) else {}
            if made._capabilities.get("positionEncoding") in ("utf-8", "utf-32"):
                made.encoding = made._capabilities["positionEncoding"]
            connection.notify("initialized", {})
            connection.notify("workspace/didChangeConfiguration", {"settings": {}})
        except BaseException as fault:
            connection.stop(f"it did not start: {fault}")
            await connection.gone()
            raise
        return made

    # --- asking ---

    @property
    def alive(self) -> bool:
        """True until it ends or is ended."""
        return not self._connection.why

    @property
    def why(self) -> str:
        """Why it is over."""
        return self._connection.why

    def can(self, method: str) -> bool:
        """True when it said that it answers `method`."""
        given = self._capabilities.get(_client()["providers"][method])
        return method in self._registered.values() or (given is not None and given is not False)

    async def ask(self, method: str, params: Any, seconds: float | None = None) -> Any:
        """Its answer. A server that falls silent again and again is ended."""
        began, seconds = asyncio.get_running_loop().time(), seconds or self.limits.request
        try:
            result = await self._connection.request(method, params, seconds)
        except ServerTimeout:
            self._note_silence(began, seconds)
            raise
        except RequestRejected:
            self._silences = 0
            raise
        self._silences = 0
        return result

    async def ask_project(self, method: str, params: Any) -> Any:
        """Its answer to a question about all files, which a server that has just started may not have read yet."""
        result = await self.ask(method, params)
        while asyncio.get_running_loop().time() - self._began < self.limits.young:
            await asyncio.sleep(self.limits.again)
            before, result = result, await self.ask(method, params)
            if result == before:
                break
        return result

    def _note_silence(self, began: float, seconds: float) -> None:
        """A request was not answered: that counts where nothing else was heard for half of the time either, and once
        for requests that waited side by side."""
        now, heard = asyncio.get_running_loop().time(), self._connection.heard
        if began < self._silent_at or now - heard < seconds / 2 or self._working():
            return
        self._silences = 1 if heard > self._silent_at else self._silences + 1
        self._silent_at = now
        if self._silences >= self.limits.silences:
            self._connection.stop("it no longer responds")

    def _working(self) -> bool:
        """Whether it says that it is at work; a report that is not continued for `limits.indexing` counts no more."""
        return bool(self._busy) and self._patience() > 0

    def _patience(self) -> float:
        latest = next(reversed(self._busy.values()))
        return latest + self.limits.indexing - asyncio.get_running_loop().time()

    async def ready(self) -> None:
        """Until it has read the project, as far as it says so, or for `limits.indexing`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.limits.indexing):
                while self._working() and self.alive:
                    over = asyncio.ensure_future(self._connection.over.wait())
                    idle = asyncio.ensure_future(self._idle.wait())
                    both, first = [over, idle], asyncio.FIRST_COMPLETED
                    try:
                        await asyncio.wait(both, timeout=self._patience(), return_when=first)
                    finally:
                        over.cancel()
                        idle.cancel()

    def position(self, document: OpenDocument, spot: SourcePosition) -> dict[str, int]:
        """The spot as the server counts."""
        line = document.lines[spot.line - 1]
        return {"line": spot.line - 1, "character": to_units(line, spot.column, self.encoding)}

    async def close(self) -> None:
        """End it in order, and at the latest within 2 s and a little more."""
        await self._connection.close(self.limits.farewell)

    # --- the files it is shown ---

    async def show(self, path: Path, data: bytes | None = None) -> OpenDocument:
        """Open the file, or tell it what the file on disk says by now; with `data` as if that stood there. Raises
        NoSuchFile, LspError."""
        async with self._showing:
            uri = uri_of(str(path))
            known = self.documents.get(uri)
            try:
                document = await asyncio.to_thread(open_text, path, known, self._shown + 1, data)
            except NoSuchFile:
                if known is not None:
                    self._close(uri)
                raise
            self.documents.pop(uri, None)
            self.documents[uri] = document
            if document is not known:
                self._shown += 1
                if known is None:
                    self._open(document)
                else:
                    self._change(document)
                document.text = msgspec.Raw()
            self._close_old()
            return document

    def _close_old(self) -> None:
        size = sum(document.size for document in self.documents.values())
        while len(self.documents) > OPEN or (size > self.limits.open_size and len(self.documents) > 1):
            oldest = next(iter(self.documents.values()))
            size -= oldest.size
            self._close(oldest.uri)

    async def refresh(self) -> None:
        """Tell it of every open file what stands on disk by now."""
        for document in tuple(self.documents.values()):
            with contextlib.suppress(NoSuchFile):
                await self.show(document.path)

    def files_changed(self, changes: Iterable[tuple[str, int]]) -> None:
        """Paths that were created (1), changed (2) or deleted (3) on disk."""
        events = [{"uri": uri_of(path), "type": kind} for path, kind in changes]
        if events:
            self._connection.notify("workspace/didChangeWatchedFiles", {"changes": events})

    def _open(self, document: OpenDocument) -> None:
        self._published.pop(path_of(document.uri), None)
        given = {
            "uri": document.uri,
            "languageId": self.language.id_of(document.path),
            "version": document.version,
            "text": document.text,
        }
        self._connection.notify("textDocument/didOpen", {"textDocument": given})

    def _change(self, document: OpenDocument) -> None:
        uri = document.uri
        self._published.pop(path_of(uri), None)
        which = {"uri": uri, "version": document.version}
        change = {"textDocument": which, "contentChanges": [{"text": document.text}]}
        self._connection.notify("textDocument/didChange", change)
        self._connection.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    def _close(self, uri: str) -> None:
        self.documents.pop(uri, None)
        self._published.pop(path_of(uri), None)
        self._connection.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    # --- what it finds wrong ---

    async def diagnostics(self, document: OpenDocument, seconds: float) -> list[Any]:
        """What it finds wrong in a file as it was shown, in its own form. Raises LspError, ServerTimeout in time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._published_or_pulled(document)
        except TimeoutError:
            raise ServerTimeout(f"it did not check {document.path.name} within {seconds:g} s") from None

    async def _published_or_pulled(self, document: OpenDocument) -> list[Any]:
        """What it published of this version; of a server without versions what it said last, once it is quiet. A server
        that says, perhaps later, that it wants to be asked is asked."""
        while not self.can(PULL):
            told = self._published.get(path_of(document.uri))
            if told is not None and told.version is not None and told.version >= document.version:
                return told.items
            self._news.clear()
            if not self.alive:
                raise ServerGone(self.why)
            if told is None or told.version is not None:
                await self._news.wait()
                continue
            # An empty list may as well be the first of several stages.
            quiet = self.limits.settle if told.items else self.limits.settle_empty
            left = told.at + quiet - asyncio.get_running_loop().time()
            if left <= 0 and (told.items or not self._working()):
                return told.items
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left if left > 0 else self.limits.settle_empty):
                    await self._news.wait()
        params = {"textDocument": {"uri": document.uri}}
        # Not by `ask`: that it is cut short is no silence that counts.
        report = await self._connection.request(PULL, params, self.limits.start)
        found = report.get("items") if isinstance(report, dict) else None
        return found if isinstance(found, list) else []

    # --- what it says and asks by itself ---

    def _hear(self, method: str, params: Any) -> None:
        if not isinstance(params, dict):
            return
        if method == "textDocument/publishDiagnostics":
            path, items = path_of(params.get("uri")), params.get("diagnostics")
            if isinstance(items, list) and uri_of(path) in self.documents:
                given, now = params.get("version"), asyncio.get_running_loop().time()
                version = given if isinstance(given, int) else None
                self._published[path] = PublishedDiagnostics(version, trim_hover(items), now)
                self._news.set()
        elif method == "$/progress":
            self._progress(str(params.get("token")), params.get("value"))

    def _progress(self, token: str, value: Any) -> None:
        kind = value.get("kind") if isinstance(value, dict) else None
        known = self._busy.pop(token, None) is not None
        if kind == "begin" or (kind == "report" and known):
            keep_newest(self._busy, token, asyncio.get_running_loop().time(), TOKENS)
        if self._busy:
            self._idle.clear()
        else:
            self._idle.set()
            self._news.set()

    def _answer(self, method: str, params: Any) -> Any:
        """The result of what it asks. Raises LookupError for what we don't do."""
        match method:
            case "workspace/configuration":
                items = params.get("items") if isinstance(params, dict) else None
                return [None for _ in items] if isinstance(items, list) else []
            case "workspace/workspaceFolders":
                return [{"uri": uri_of(str(self.root)), "name": self.root.name}]
            case "client/registerCapability" | "client/unregisterCapability":
                return self._register(method, params)
            case "workspace/applyEdit":
                return {"applied": False, "failureReason": "edits are made with the agent's own tools"}
            case "window/showDocument":
                return {"success": False}
            case "window/workDoneProgress/create" | "window/showMessageRequest" | "workspace/diagnostic/refresh":
                return None
        raise LookupError(method)

    def _register(self, method: str, params: Any) -> None:
        given = params if isinstance(params, dict) else {}
        # The protocol itself misspells the second one.
        for one in given.get("registrations") or given.get("unregisterations") or ():
            self._news.set()
            if isinstance(one, dict) and len(self._registered) < 1_000:
                if method == "client/registerCapability":
                    self._registered[str(one.get("id"))] = str(one.get("method"))
                else:
                    self._registered.pop(str(one.get("id")), None)
