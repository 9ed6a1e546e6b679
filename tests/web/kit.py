"""A session with its page on a free port, and an HTTP client with the token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.doubles.page_session import FakePageSession
from tests.engine.kit import run_session
from tui_agent.frontends.web.addresses import listen
from tui_agent.frontends.web.app import SessionPage

JSON = {"Content-Type": "application/json"}
TIMEOUT = 60.0


async def log_in(client: httpx.AsyncClient, address: str, ticket: str) -> None:
    """Exchange a ticket for the cookie and use its path, as a browser does."""
    answer = await client.post(f"{address}/enter", json={"ticket": ticket})
    assert answer.status_code == 200, answer.text
    client.base_url = httpx.URL(address + answer.json()["path"])


class PageClient:
    """An HTTP client of a page."""

    def __init__(self, session: Any, page_server: SessionPage) -> None:
        self.session = session
        self.page_server = page_server
        # The server closes idle connections: none is reused, as a request could meet that moment.
        limits = httpx.Limits(max_keepalive_connections=0)
        self.http = httpx.AsyncClient(base_url=page_server.address, timeout=TIMEOUT, trust_env=False, limits=limits)

    async def enter(self, link: str = "") -> PageClient:
        ticket = (link or self.page_server.link()).partition("#")[2]
        await log_in(self.http, self.page_server.address, ticket)
        return self

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.http.post(path, json=body)

    def events(self, after: int | None = None, path: str = "/events") -> Stream:
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        return Stream(self.http, "GET", path, headers, None)

    def chat(self, message: str) -> Stream:
        return Stream(self.http, "POST", "/chat", {}, {"message": message})


class Event:
    def __init__(self, name: str, data: Any, id: int | None) -> None:
        self.name, self.data, self.id = name, data, id

    def __repr__(self) -> str:
        return f"{self.id}:{self.name}"


class Stream:
    """A stream of server-sent events."""

    def __init__(self, client: httpx.AsyncClient, method: str, path: str, headers: dict[str, str], body: Any) -> None:
        self._request = client.build_request(method, path, headers=headers, json=body)
        self._client = client
        self.received: list[Event] = []

    async def __aenter__(self) -> Stream:
        self.response = await self._client.send(self._request, stream=True)
        assert self.response.status_code == 200, self.response.status_code
        self._events = self._read()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._events.aclose()
        await self.response.aclose()

    async def _read(self) -> AsyncGenerator[Event, None]:
        fields: dict[str, str] = {}
        async for line in self.response.aiter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                id = int(fields["id"]) if "id" in fields else None
                event = Event(fields.get("event", "message"), json.loads(fields["data"]), id)
                self.received.append(event)
                yield event
                fields = {}

    async def until(self, name: str, **data: Any) -> Event:
        async with asyncio.timeout(TIMEOUT):
            async for event in self._events:
                shown = event.data.get("data", event.data)
                if event.name == name and all(shown.get(key) == value for key, value in data.items()):
                    return event
        raise AssertionError(f"no {name}: {self.received}")

    async def rest(self) -> list[Event]:
        async with asyncio.timeout(TIMEOUT):
            async for _ in self._events:
                pass
        return self.received


@asynccontextmanager
async def serve_fake_session(session: FakePageSession) -> AsyncIterator[PageClient]:
    """Serve the page of a fake session."""
    page_server = SessionPage(session, listen("127.0.0.1", 0))
    await page_server.start()
    client = PageClient(session, page_server)
    try:
        yield client
    finally:
        await client.http.aclose()
        await session.close()
        await page_server.stop()


@asynccontextmanager
async def serve_session(server: Any, workspace: Path, **options: Any) -> AsyncIterator[PageClient]:
    async with run_session(server, workspace, **options) as session:
        page_server = SessionPage(session, listen("127.0.0.1", 0))
        await page_server.start()
        client = PageClient(session, page_server)
        try:
            yield client
        finally:
            await client.http.aclose()
            await page_server.stop()
