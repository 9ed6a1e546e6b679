from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.lsp.kit import LONG_LIMITS, PoolSetup, pool_setup, received, server_command
from tui_agent.common.symbols import SourcePosition, Unavailable
from tui_agent.lsp.documents import CHUNK, open_text
from tui_agent.lsp.pool import FileWatch, TreeSurvey
from tui_agent.lsp.queries import CodeServer
from tui_agent.lsp.results import MAX_DIAGNOSTICS, MAX_MESSAGE, trim_diagnostics
from tui_agent.lsp.server import MAX_OPEN, ServerLimits
from tui_agent.platform import supervisor

GOOD, BAD = "x = 1\n", "x = 1  # WRONG\n"


def with_(**changes: Any) -> ServerLimits:
    return msgspec.structs.replace(LONG_LIMITS, **changes)


async def found(setup: PoolSetup, path: Path) -> Any:
    answer = await setup.pool.with_file(path, lambda server: server.file_diagnostics(path, LONG_LIMITS.request))
    return answer if isinstance(answer, Unavailable) else answer[1]


async def definition(setup: PoolSetup, path: Path) -> Any:
    return await setup.pool.with_file(
        path, lambda server: server.locations("definitions", path, SourcePosition(line=1))
    )


async def serving(setup: PoolSetup, path: Path) -> CodeServer:
    await setup.pool.with_file(path, lambda server: server.sync(path))
    server = setup.pool.running(path)
    assert server is not None
    return server


# --- the files it is shown ---


async def test_file_is_sent_again_after_a_cancelled_sync(tmp_path: Path) -> None:
    async with pool_setup(tmp_path) as setup:
        path = setup.file("a.py", GOOD)
        assert await found(setup, path) == ()
        server = await serving(setup, path)
        path.write_text(BAD)
        busy = threading.Event()
        pool = ThreadPoolExecutor(1)  # the loop ends it
        asyncio.get_running_loop().set_default_executor(pool)
        pool.submit(busy.wait)
        showing = asyncio.create_task(server.sync(path))
        await asyncio.sleep(0)
        assert server._sync_lock.locked()
        showing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await showing
        busy.set()
        (wrong,) = await found(setup, path)
        assert wrong.kind == "error"
        assert len(setup.received("textDocument/didOpen")) == 1
        assert len(setup.received("textDocument/didChange")) == 1


async def test_empty_diagnostics_must_settle(tmp_path: Path) -> None:
    limits = with_(settle=0.05, settle_empty=60.0)
    async with pool_setup(tmp_path, "no-versions", "stages", limits=limits) as setup:
        path = setup.file("a.py", BAD)
        assert len(await found(setup, path)) == 1
        path.write_text(BAD * 2)
        assert len(await found(setup, path)) == 2


async def test_diagnostics_of_a_closed_file_are_dropped(tmp_path: Path) -> None:
    limits = with_(settle=0.05, settle_empty=60.0)
    async with pool_setup(tmp_path, "no-versions", limits=limits) as setup:
        path = setup.file("a.py", BAD)
        assert len(await found(setup, path)) == 1
        server = await serving(setup, path)
        for number in range(MAX_OPEN):
            await server.sync(setup.file(f"other{number}.py", BAD))
        assert await definition(setup, setup.root / "other1.py")  # what was said at the closing has come
        assert len(setup.received("textDocument/didClose")) == 1
        assert len(server._published) <= MAX_OPEN
        document = await server.sync(path)
        assert document.version > MAX_OPEN
        items = await server.diagnostics(document, LONG_LIMITS.request)
        assert len(items) == 1


@pytest.mark.parametrize("mode", ["own-spelling", "short-spelling"])
async def test_server_may_spell_uris_differently(tmp_path: Path, mode: str) -> None:
    async with pool_setup(tmp_path, mode) as setup:
        (setup.root / "(group)@1.2").mkdir()
        path = setup.file("(group)@1.2/a+b=c.py", BAD)
        (wrong,) = await found(setup, path)
    assert wrong.kind == "error"


async def test_diagnostics_of_other_files_are_dropped(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "everywhere", limits=with_(open_size=12)) as setup:
        path, other = setup.file("a.py", BAD), setup.file("b.py", BAD)
        assert len(await found(setup, path)) == 1
        server = await serving(setup, path)
        assert list(server._published) == [str(path)]
        (kept,) = server._published[str(path)].items
        assert kept["range"] == {"start": {"line": 0, "character": 9}}
        assert len(await found(setup, other)) == 1  # both are too much
        assert [document.path for document in server.documents.values()] == [other]
        assert list(server._published) == [str(other)]


def test_only_needed_fields_of_the_most_severe_diagnostics_are_kept() -> None:
    extent = {"start": {"line": 1, "character": 2, "junk": "x" * 99}, "end": {}}
    hint = {"severity": 4, "message": "h" * 10_000, "range": extent, "data": "x" * 10_000}
    error = {"message": {"kind": "markdown"}, "range": "nowhere", "severity": 99, "code": [1]}
    kept = trim_diagnostics([hint] * (MAX_DIAGNOSTICS + 5) + [error, "odd"])
    assert len(kept) == MAX_DIAGNOSTICS
    assert kept[0] == {
        "range": {"start": {"line": 0, "character": 0}}, "severity": 1, "code": "", "source": "", "message": ""
    }  # fmt: skip
    assert kept[1]["range"] == {"start": {"line": 1, "character": 2}}
    assert len(str(kept[1])) < MAX_MESSAGE * 2 + 200


@pytest.mark.parametrize(
    "text", ["", "plain", "ä\u2028" * CHUNK, '"\\\n\r\t\x7f😀' * (CHUNK // 3)], ids=["empty", "short", "wide", "odd"]
)
def test_text_is_sent_completely(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text(text, encoding="utf-8", newline="")
    document = open_text(tmp_path / "a.py", None, 1, text.encode())
    assert msgspec.json.decode(msgspec.json.encode({"text": document.text})) == {"text": text}


async def test_file_with_an_invalid_byte_is_opened(tmp_path: Path) -> None:
    async with pool_setup(tmp_path) as setup:
        path = setup.root / "a.py"
        path.write_bytes("# Wörter und Wörter und Wörter \n".encode() * 20 + b"# \xff\n" + BAD.encode())
        assert [one.line for one in await found(setup, path)] == [22]


# --- answers ---


async def test_large_result_does_not_block_the_event_loop(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "many") as setup:
        path = setup.file("a.py", "x")
        server = await serving(setup, path)
        many = await server.request("many", {})
        turns = 0

        async def ask(method: str, params: Any) -> Any:
            return many

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        server.request = ask  # type: ignore[method-assign]  # the answer itself is at hand
        server.supports = lambda method: True  # type: ignore[method-assign]  # whatever is asked
        going = asyncio.create_task(others())
        asks: list[Callable[[], Awaitable[Any]]] = [
            lambda: server.symbols("x", None),
            lambda: server.outline(path),
            lambda: server.locations("references", path, SourcePosition(line=1)),
        ]
        for one in asks:
            before = turns
            assert len(await one()) > 1_000
            assert turns - before > 20
        going.cancel()


# --- servers that say nothing, or too much ---


async def test_simultaneous_timeouts_count_as_one_silence(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "hang", limits=with_(request=1.5, max_timeouts=2, shutdown=0.2)) as setup:
        path = setup.file("a.py", "x")
        await found(setup, path)  # all that it says by itself has come
        answers = await asyncio.gather(*(definition(setup, path) for _ in range(4)))
        assert all("did not answer" in one.reason for one in answers)
        assert setup.pool.running(path) is not None
        await definition(setup, path)
        assert setup.pool.running(path) is None


async def test_notifications_prevent_a_silence(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "chatters", limits=with_(request=3.0, max_timeouts=1, shutdown=0.2)) as setup:
        path = setup.file("a.py", "x")
        assert "did not answer" in (await definition(setup, path)).reason
        assert setup.pool.running(path) is not None


async def test_earlier_starts_are_forgotten_after_a_long_run(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "crash", limits=with_(stable_after=0.0)) as setup:
        path = setup.file("a.py", "x")
        for _ in range(LONG_LIMITS.max_starts):
            assert "does not work here" not in (await definition(setup, path)).reason
        assert len(received(tmp_path, "start")) > LONG_LIMITS.max_starts


async def test_endless_progress_is_waited_for_once(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "never-ends", limits=with_(indexing=1.0)) as setup:
        path = setup.file("a.py", "x")
        assert isinstance(await definition(setup, path), tuple)
        server = await serving(setup, path)
        await server.wait_indexed()
        assert server._progress
        async with asyncio.timeout(0):
            await server.wait_indexed()  # at once
        for kind in ("begin", "report"):
            server._on_notification("$/progress", {"token": 2, "value": {"kind": kind}})
        assert server._is_busy()
        server._on_notification("$/progress", {"token": 2, "value": {"kind": "end"}})
        assert not server._is_busy()


# --- what changed on disk ---


class SlowWatch(FileWatch):
    """Looks when it may."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, frozenset({".py"}))
        self.may = threading.Event()
        self.looking = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.begun: list[int] = []
        self.most = self.now = 0

    def survey(self) -> TreeSurvey:
        survey = super().survey()
        self.begun.append(1)
        self._loop.call_soon_threadsafe(self.looking.set)
        self.now += 1
        self.most = max(self.most, self.now)
        self.may.wait(60)
        self.now -= 1
        return survey


async def test_surveys_are_sequential_and_shared(tmp_path: Path) -> None:
    async with pool_setup(tmp_path) as setup:
        path = setup.file("a.py", "x")
        server = await serving(setup, path)
        (berth,) = setup.pool._slots.values()
        berth.watch = watch = SlowWatch(setup.root)
        watch.commit(FileWatch.survey(watch))
        first = asyncio.create_task(setup.pool.refresh())
        await watch.looking.wait()
        setup.file("new.py", "y")
        others = [asyncio.create_task(setup.pool.refresh()) for _ in range(7)]
        await asyncio.sleep(0)
        watch.may.set()
        await asyncio.gather(first, *others)
        assert (len(watch.begun), watch.most) == (2, 1)
        # What nobody waited for is not lost.
        watch.may.clear()
        watch.looking.clear()
        path.write_text("changed")
        cut = asyncio.create_task(setup.pool.refresh())
        await watch.looking.wait()
        cut.cancel()
        await asyncio.wait([cut])
        watch.may.set()
        await setup.pool.refresh()
        await server.request("textDocument/hover", {"position": {"line": 0, "character": 0}})
        told = [
            (Path(one["uri"]).name, one["type"])
            for line in setup.received("workspace/didChangeWatchedFiles")
            for one in line[1]["changes"]
        ]
    assert told == [("new.py", 1), ("a.py", 2)]


# --- the end ---


async def test_close_stops_a_starting_server(tmp_path: Path) -> None:
    own = {"python": server_command(tmp_path, "hang-initialize", "deaf"), "go": server_command(tmp_path)}
    async with pool_setup(tmp_path, own=own) as setup:
        asking = asyncio.create_task(definition(setup, setup.file("a.py", "x")))
        while not received(tmp_path, "initialize"):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
        (pid,) = [start[1] for start in received(tmp_path, "start")]
        assert pid in supervisor.process_table()
        closing = asyncio.create_task(setup.pool.close())
        await asyncio.sleep(0)
        late = await definition(setup, setup.file("b.go", "x"))
        assert late == Unavailable(reason="the session is being closed")
        await closing
        assert pid not in supervisor.process_table()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
