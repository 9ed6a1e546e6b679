"""A session of the engine with its page on a free port of this machine, and an HTTP client that was let in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.doubles.page_session import FakePageSession
from tests.engine.kit import opened
from tui_agent.frontends.web.addresses import listen
from tui_agent.frontends.web.app import SessionPage

JSON = {"Content-Type": "application/json"}
PATIENCE = 60.0


async def let_in(client: httpx.AsyncClient, address: str, ticket: str) -> None:
    """Exchange a ticket for the cookie, and go where it holds, as a browser does."""
    answer = await client.post(f"{address}/enter", json={"ticket": ticket})
    assert answer.status_code == 200, answer.text
    client.base_url = httpx.URL(address + answer.json()["path"])


class Served:
    """What a test holds."""

    def __init__(self, session: Any, serving: SessionPage) -> None:
        self.session = session
        self.serving = serving
        self.client = httpx.AsyncClient(base_url=serving.address, timeout=PATIENCE, trust_env=False)

    async def enter(self, link: str = "") -> Served:
        ticket = (link or self.serving.link()).partition("#")[2]
        await let_in(self.client, self.serving.address, ticket)
        return self

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.client.post(path, json=body)

    def events(self, after: int | None = None, path: str = "/events") -> Stream:
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        return Stream(self.client, "GET", path, headers, None)

    def chat(self, message: str) -> Stream:
        return Stream(self.client, "POST", "/chat", {}, {"message": message})


class Event:
    def __init__(self, name: str, data: Any, id: int | None) -> None:
        self.name, self.data, self.id = name, data, id

    def __repr__(self) -> str:
        return f"{self.id}:{self.name}"


class Stream:
    """Server-sent events as they come."""

    def __init__(self, client: httpx.AsyncClient, method: str, path: str, headers: dict[str, str], body: Any) -> None:
        self._request = client.build_request(method, path, headers=headers, json=body)
        self._client = client
        self.seen: list[Event] = []

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
                self.seen.append(event)
                yield event
                fields = {}

    async def until(self, name: str, **data: Any) -> Event:
        async with asyncio.timeout(PATIENCE):
            async for event in self._events:
                shown = event.data.get("data", event.data)
                if event.name == name and all(shown.get(key) == value for key, value in data.items()):
                    return event
        raise AssertionError(f"no {name}: {self.seen}")

    async def rest(self) -> list[Event]:
        async with asyncio.timeout(PATIENCE):
            async for _ in self._events:
                pass
        return self.seen


@asynccontextmanager
async def faced(door: FakePageSession) -> AsyncIterator[Served]:
    """A page without a session behind it."""
    serving = SessionPage(door, listen("127.0.0.1", 0))
    await serving.start()
    one = Served(door, serving)
    try:
        yield one
    finally:
        await one.client.aclose()
        await door.close()
        await serving.stop()


@asynccontextmanager
async def served(server: Any, workspace: Path, **more: Any) -> AsyncIterator[Served]:
    async with opened(server, workspace, **more) as session:
        serving = SessionPage(session, listen("127.0.0.1", 0))
        await serving.start()
        one = Served(session, serving)
        try:
            yield one
        finally:
            await one.client.aclose()
            await serving.stop()
