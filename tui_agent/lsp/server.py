"""One language server for one root: what it can do, the files it was shown, what it finds wrong in them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from tui_agent.lsp.capabilities import CLIENT, PROVIDERS
from tui_agent.lsp.connection import Connection, Declined, Gone, LspFault, Silent
from tui_agent.lsp.languages import Command, Language
from tui_agent.lsp.limits import Limits
from tui_agent.lsp.positions import Encoding, Lines, to_units, uri_of
from tui_agent.platform.encoding import NotText, decode
from tui_agent.platform.files import FileFault, read_file, sha256_of
from tui_agent.symbols import Spot

FILE_CAP = 4 << 20
"""Bytes of a file that a server is shown."""
OPEN = 40
"""Files that are open at the same time; the one that was asked about longest ago is closed."""
PUBLISHED = 500
"""Files whose diagnostics are kept."""
PULL = "textDocument/diagnostic"
TOKENS = 100
"""Reports of progress that are followed at the same time."""


class NoSuchFile(Exception):
    """A file that can't be shown to a server; the message says why."""


class Document(msgspec.Struct):
    """A file as the server was shown it."""

    path: Path
    uri: str
    version: int
    text: str
    lines: Lines
    stamp: tuple[int, int, int]
    sha256: str
    """Of the bytes on disk."""


class LanguageServer:
    """Lives on the event loop that started it. Methods raise LspFault."""

    def __init__(self, language: Language, root: Path, limits: Limits) -> None:
        self.language = language
        self.root = root
        self.limits = limits
        self.documents: dict[str, Document] = {}
        self._connection: Connection
        self._capabilities: Mapping[str, Any] = {}
        self._registered: dict[str, str] = {}
        self._encoding: Encoding = "utf-16"
        self._published: dict[str, tuple[int | None, list[Any]]] = {}
        self._news = asyncio.Event()
        self._busy: set[str] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._silences = 0
        self._showing = asyncio.Lock()

    @classmethod
    async def start(
        cls, command: Command, language: Language, root: Path, limits: Limits, environment: Mapping[str, str]
    ) -> Self:
        """Start it and exchange what both sides can do."""
        made = cls(language, root, limits)
        made._connection = connection = await Connection.to_program(
            command.program,
            command.argv,
            cwd=root,
            environment=environment,
            answer=made._answer,
            hear=made._hear,
        )
        connection.at_end = made._news.set
        folder = {"uri": uri_of(str(root)), "name": root.name}
        params = {
            "processId": os.getpid(),
            "clientInfo": {"name": "tui-agent"},
            "rootUri": folder["uri"],
            "rootPath": str(root),
            "workspaceFolders": [folder],
            "capabilities": CLIENT,
        }
        try:
            result = await connection.request("initialize", params, limits.start)
            given = result.get("capabilities") if isinstance(result, dict) else None
            made._capabilities = given if isinstance(given, dict) else {}
            if made._capabilities.get("positionEncoding") in ("utf-8", "utf-32"):
                made._encoding = made._capabilities["positionEncoding"]
            connection.notify("initialized", {})
            connection.notify("workspace/didChangeConfiguration", {"settings": {}})
        except BaseException as fault:
            connection.stop(f"it did not start: {fault}")
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
        given = self._capabilities.get(PROVIDERS[method])
        return method in self._registered.values() or (given is not None and given is not False)

    async def ask(self, method: str, params: Any, seconds: float | None = None) -> Any:
        """Its answer. A server that falls silent again and again is ended."""
        try:
            result = await self._connection.request(method, params, seconds or self.limits.request)
        except Silent:
            self._silences += 1
            if self._silences >= self.limits.silences:
                self._connection.stop("it answers no more")
            raise
        except Declined:
            self._silences = 0
            raise
        self._silences = 0
        return result

    async def ready(self) -> None:
        """Until it has read the project, as far as it says so, or for `limits.indexing`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.limits.indexing):
                while not self._idle.is_set() and self.alive:
                    over = asyncio.ensure_future(self._connection.over.wait())
                    idle = asyncio.ensure_future(self._idle.wait())
                    try:
                        await asyncio.wait([over, idle], return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        over.cancel()
                        idle.cancel()

    def position(self, document: Document, spot: Spot) -> dict[str, int]:
        """The spot as the server counts."""
        line = document.lines[spot.line - 1]
        return {"line": spot.line - 1, "character": to_units(line, spot.column, self._encoding)}

    @property
    def encoding(self) -> Encoding:
        """How it counts columns."""
        return self._encoding

    async def close(self) -> None:
        """End it in order, and at the latest within 2 s and a little more."""
        await self._connection.close(self.limits.farewell)

    # --- the files it is shown ---

    async def show(self, path: Path, data: bytes | None = None) -> Document:
        """Open the file, or tell it what the file on disk says by now; with `data` as if that stood there. Raises
        NoSuchFile, LspFault."""
        async with self._showing:
            uri = uri_of(str(path))
            known = self.documents.pop(uri, None)
            try:
                document = await asyncio.to_thread(_read, path, uri, known, data)
            except NoSuchFile:
                if known is not None:
                    self._close(uri)
                raise
            self.documents[uri] = document
            if known is None:
                self._open(document)
            elif document is not known:
                self._change(document)
            while len(self.documents) > OPEN:
                oldest = next(iter(self.documents))
                del self.documents[oldest]
                self._close(oldest)
            return document

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

    def _open(self, document: Document) -> None:
        given = {
            "uri": document.uri,
            "languageId": self.language.id_of(document.path),
            "version": document.version,
            "text": document.text,
        }
        self._connection.notify("textDocument/didOpen", {"textDocument": given})

    def _change(self, document: Document) -> None:
        uri = document.uri
        if self._published.get(uri, (0, []))[0] is None:
            del self._published[uri]
        which = {"uri": uri, "version": document.version}
        change = {"textDocument": which, "contentChanges": [{"text": document.text}]}
        self._connection.notify("textDocument/didChange", change)
        self._connection.notify("textDocument/didSave", {"textDocument": {"uri": uri}})

    def _close(self, uri: str) -> None:
        self._published.pop(uri, None)
        self._connection.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    # --- what it finds wrong ---

    async def diagnostics(self, document: Document, seconds: float) -> list[Any]:
        """What it finds wrong in a file as it was shown, in its own form. Raises LspFault, Silent in time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._published_or_pulled(document)
        except TimeoutError:
            raise Silent(f"it did not check {document.path.name} within {seconds:g} s") from None

    async def _published_or_pulled(self, document: Document) -> list[Any]:
        """What it published of this version; of a server without versions what it said last, once it is quiet. A server
        that says, perhaps later, that it wants to be asked is asked."""
        while not self.can(PULL):
            version, items = self._published.get(document.uri, (-1, []))
            if version is not None and version >= document.version:
                return items
            self._news.clear()
            if not self.alive:
                raise Gone(self.why)
            if version is not None:
                await self._news.wait()
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.limits.settle):
                    await self._news.wait()
                    continue
            return items
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
            uri, items, version = params.get("uri"), params.get("diagnostics"), params.get("version")
            if isinstance(uri, str) and isinstance(items, list):
                self._published.pop(uri, None)
                self._published[uri] = (version if isinstance(version, int) else None, items)
                while len(self._published) > PUBLISHED:
                    del self._published[next(iter(self._published))]
                self._news.set()
        elif method == "$/progress":
            self._progress(str(params.get("token")), params.get("value"))

    def _progress(self, token: str, value: Any) -> None:
        kind = value.get("kind") if isinstance(value, dict) else None
        if kind == "begin" and len(self._busy) < TOKENS:
            self._busy.add(token)
        elif kind == "end":
            self._busy.discard(token)
        if self._busy:
            self._idle.clear()
        else:
            self._idle.set()

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
            case (
                "window/workDoneProgress/create"
                | "window/showMessageRequest"
                | "workspace/diagnostic/refresh"
            ):
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


def _read(path: Path, uri: str, known: Document | None, data: bytes | None) -> Document:
    """The file on disk as a document, or `data` in its place; `known` itself where nothing changed."""
    stamp = (-1, 0, 0)
    try:
        if data is None:
            stat = os.stat(path)
            stamp = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
            if known is not None and known.stamp == stamp:
                return known
            file = read_file(path, FILE_CAP)
            data, sha256 = file.data, file.sha256
        else:
            sha256 = sha256_of(data)
        if known is not None and known.sha256 == sha256:
            known.stamp = stamp
            return known
        text = decode(data).text
    except FileFault as fault:
        raise NoSuchFile(str(fault)) from fault
    except OSError as error:
        raise NoSuchFile(f"{path.name}: {error.strerror}") from error
    except NotText as error:
        raise NoSuchFile(f"{path.name} is no text") from error
    version = 1 if known is None else known.version + 1
    return Document(
        path=path, uri=uri, version=version, text=text, lines=Lines(text), stamp=stamp, sha256=sha256
    )


__all__ = ["Document", "LanguageServer", "LspFault", "NoSuchFile"]
