from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.doubles.file_server import FakeFile
from tests.doubles.gguf import QWEN, gguf_bytes
from tests.doubles.raw_server import FakeConnection, FakeRawServer
from tests.waiting import wait_for, within_timeout
from tui_agent.common import paths
from tui_agent.models.local import download as downloading
from tui_agent.models.local import library, parts
from tui_agent.models.local.download import DownloadLimits, download
from tui_agent.models.local.progress import DownloadFailed, Progress
from tui_agent.models.local.sources import WebFile, WebSource
from tui_agent.platform.locks import FileLock

CONTENT = gguf_bytes(data=3_000_000)
HASH = hashlib.sha256(CONTENT).hexdigest()
QUICK = DownloadLimits(delay=0.0, silence=30.0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "state"))
    return paths.models_dir()


def source(
    server: FakeRawServer, path: str = "/m.gguf", size: int | None = None, sha256: str = "", token: str = ""
) -> WebSource:
    file = WebFile(url=server.url + path, name="m.gguf", size=size, sha256=sha256)
    return WebSource(files=(file,), origin=server.url + path, token=token)


async def get(wanted: WebSource, limits: DownloadLimits = QUICK, seen: list[Progress] | None = None) -> Path:
    seen = [] if seen is None else seen
    return await within_timeout(download(wanted, seen.append, typed="what", env={}, limits=limits))


async def failure(wanted: WebSource, limits: DownloadLimits = QUICK) -> DownloadFailed:
    with pytest.raises(DownloadFailed) as failed:
        await get(wanted, limits)
    assert str(failed.value).endswith(".")
    return failed.value


def left(folder: Path) -> list[str]:
    """Return the models and incomplete files, but not locks and empty folders."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return sorted(str(path.relative_to(folder)) for path in files)


async def test_a_file_appears_when_it_is_complete_and_checked(folder: Path) -> None:
    file, seen = FakeFile(CONTENT, hold=asyncio.Event()), list[Progress]()
    async with FakeRawServer({"/m.gguf": file}) as server:
        getting = asyncio.create_task(get(source(server, size=len(CONTENT), sha256=HASH), seen=seen))
        await wait_for(lambda: seen and seen[-1].done > 0)
        assert library.local_files() == []
        assert file.hold is not None
        file.hold.set()
        path = await getting
    assert path == folder / "m.gguf" and path.read_bytes() == CONTENT
    assert left(folder) == ["m.gguf"] and [one.name for one in library.local_files()] == ["m"]
    assert seen[-1].stage == "checking" and seen[-1].done == seen[-1].total == len(CONTENT)
    assert oct(folder.stat().st_mode)[-3:] == "700"


async def test_a_broken_connection_is_continued(folder: Path) -> None:
    file = FakeFile(CONTENT, breaks=[1000, 2_000_000, 0])
    async with FakeRawServer({"/m.gguf": file}) as server:
        path = await get(source(server))
    assert path.read_bytes() == CONTENT
    assert file.ranges_asked == ["", "bytes=1000-", "bytes=2001000-", "bytes=2001000-"]


async def test_a_server_that_never_gets_further_is_given_up_and_the_part_is_kept(folder: Path) -> None:
    file = FakeFile(CONTENT, breaks=[5000, *[0] * 20])
    async with FakeRawServer({"/m.gguf": file}) as server:
        failed = await failure(source(server), DownloadLimits(delay=0.0, attempts=3))
        assert failed.code == "unreachable" and "kept" in str(failed)
        ((state, size),) = parts.incomplete_files()
        assert (state.name, state.source, state.size, size) == ("m.gguf", "what", len(CONTENT), 5000)
        file.breaks.clear()
        assert (await get(source(server))).read_bytes() == CONTENT
    assert file.ranges_asked[-1] == "bytes=5000-" and parts.incomplete_files() == []


async def test_cancelling_keeps_the_part(folder: Path) -> None:
    file = FakeFile(CONTENT, hold=asyncio.Event())
    part = library.parts_dir() / "m.gguf" / "m.gguf"
    async with FakeRawServer({"/m.gguf": file}) as server:
        getting = asyncio.create_task(get(source(server)))
        await wait_for(lambda: part.exists() and part.stat().st_size)
        getting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await getting
        ((_, size),) = parts.incomplete_files()
        file.hold = None
        assert (await get(source(server))).read_bytes() == CONTENT
    assert file.ranges_asked == ["", f"bytes={size}-"]


async def test_a_killed_process_leaves_a_part_that_the_next_continues(folder: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from tui_agent.models.local.download import download\n"
        "from tui_agent.models.local.sources import WebFile, WebSource\n"
        "file = WebFile(url=sys.argv[1], name='m.gguf')\n"
        "report = lambda progress: print(progress.done, flush=True)\n"
        "asyncio.run(download(WebSource(files=(file,), origin='x'), report, env={}))\n"
    )
    content = gguf_bytes(data=12_000_000)
    file = FakeFile(content, hold=asyncio.Event())
    async with FakeRawServer({"/m.gguf": file}) as server:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, f"{server.url}/m.gguf", stdout=asyncio.subprocess.PIPE
        )
        part = library.parts_dir() / "m.gguf" / "m.gguf"
        await wait_for(lambda: part.exists() and part.stat().st_size >= 1 << 20)
        child.send_signal(signal.SIGKILL)
        await child.wait()
        size = part.stat().st_size
        assert library.local_files() == []
        file.hold = None
        assert (await get(source(server))).read_bytes() == content
    assert file.ranges_asked == ["", f"bytes={size}-"] and left(folder) == ["m.gguf"]


async def test_a_changed_file_starts_over(folder: Path) -> None:
    file, seen = FakeFile(CONTENT, breaks=[5000, *[0] * 2]), list[Progress]()
    async with FakeRawServer({"/m.gguf": file}) as server:
        await failure(source(server), DownloadLimits(delay=0.0, attempts=2))
        file.content, file.etag, file.breaks = gguf_bytes(data=2_000_000), '"two"', []
        assert (await get(source(server), seen=seen)).read_bytes() == file.content
    assert any("starting over" in progress.note for progress in seen)


async def test_a_server_without_ranges_starts_over(folder: Path) -> None:
    file, seen = FakeFile(CONTENT, ranges=False, breaks=[5000]), list[Progress]()
    async with FakeRawServer({"/m.gguf": file}) as server:
        assert (await get(source(server), seen=seen)).read_bytes() == CONTENT
    assert any("starting over" in progress.note for progress in seen)


async def test_without_an_etag_only_a_known_hash_allows_to_continue(folder: Path) -> None:
    for sha256, ranges in ((HASH, ["", "bytes=5000-"]), ("", ["", ""])):
        file = FakeFile(CONTENT, etag="", breaks=[5000])
        async with FakeRawServer({"/m.gguf": file}) as server:
            path = await get(source(server, sha256=sha256))
        assert path.read_bytes() == CONTENT and file.ranges_asked == ranges
        path.unlink()


async def test_a_mirror_continues_what_has_the_same_hash(folder: Path) -> None:
    first, second = FakeFile(CONTENT, breaks=[5000, 0, 0]), FakeFile(CONTENT, etag='"other"')
    async with FakeRawServer({"/m.gguf": first, "/mirror/m.gguf": second}) as server:
        await failure(source(server, sha256=HASH), DownloadLimits(delay=0.0, attempts=1))
        await get(source(server, "/mirror/m.gguf", sha256=HASH))
    assert second.ranges_asked == ["bytes=5000-"]


async def test_another_address_without_a_hash_starts_over(folder: Path) -> None:
    first, second = FakeFile(CONTENT, breaks=[5000, 0, 0]), FakeFile(CONTENT)
    async with FakeRawServer({"/m.gguf": first, "/other/m.gguf": second}) as server:
        await failure(source(server), DownloadLimits(delay=0.0, attempts=1))
        await get(source(server, "/other/m.gguf"))
    assert second.ranges_asked == [""]


async def test_a_wrong_hash_deletes_the_part_and_says_so(folder: Path) -> None:
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT)}) as server:
        failed = await failure(source(server, sha256="ab" * 32))
    assert failed.code == "wrong" and "SHA-256" in str(failed) and "deleted" in str(failed)
    assert left(folder) == []


async def test_a_size_that_differs_from_the_list_is_refused(folder: Path) -> None:
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT)}) as server:
        failed = await failure(source(server, size=len(CONTENT) + 1))
    assert failed.code == "wrong" and left(folder) == []


async def test_what_is_not_a_model_is_refused_at_its_first_bytes(folder: Path) -> None:
    page = FakeFile(b"<!doctype html>" + bytes(50_000_000), hold=asyncio.Event())
    async with FakeRawServer({"/m.gguf": page}) as server:
        failed = await failure(source(server))
    assert failed.code == "wrong" and "GGUF" in str(failed) and left(folder) == []


async def test_a_damaged_model_is_deleted(folder: Path) -> None:
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT[:300])}) as server:
        failed = await failure(source(server))
    assert failed.code == "wrong" and left(folder) == []


async def test_a_file_of_unknown_size_is_downloaded(folder: Path) -> None:
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT, announces=False)}) as server:
        assert (await get(source(server))).read_bytes() == CONTENT


async def test_a_full_disk_is_noticed_before_the_download(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1_000_000))
    file = FakeFile(CONTENT)
    async with FakeRawServer({"/m.gguf": file}) as server:
        failed = await failure(source(server))
    assert failed.code == "no_space" and "3.0 MB more" in str(failed) and "1.0 MB are free" in str(failed)


async def test_only_one_process_downloads_a_model(folder: Path) -> None:
    paths.ensure_private_dir(library.parts_dir())
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT)}) as server:
        with FileLock(library.parts_dir() / "m.gguf.lock"):
            failed = await failure(source(server))
        assert failed.code == "in_use" and str(os.getpid()) in str(failed)
        assert server.requests == []
        await get(source(server))


async def test_a_complete_model_is_not_downloaded_again(folder: Path) -> None:
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT)}) as server:
        library.record(await get(source(server)), origin=source(server).origin)
        await get(source(server, size=len(CONTENT)))
        assert len(server.requests) == 1
        assert "another model m" in str(await failure(source(server, size=5)))


async def test_another_file_of_the_same_name_is_neither_taken_for_this_one_nor_replaced(folder: Path) -> None:
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT), "/other/m.gguf": FakeFile(CONTENT)}) as server:
        path = await get(source(server, sha256=HASH))
        library.record(path, origin=source(server).origin, sha256=HASH)
        for other in (source(server, "/other/m.gguf"), source(server, size=len(CONTENT), sha256="ab" * 32)):
            failed = await failure(other)
            assert failed.code == "failed" and "another model m" in str(failed) and "models remove m" in str(failed)
        await get(source(server, "/other/m.gguf", sha256=HASH))
        assert len(server.requests) == 1


async def test_a_file_that_the_index_does_not_know_is_recognized_by_its_hash(folder: Path) -> None:
    paths.ensure_private_dir(folder)
    (folder / "m.gguf").write_bytes(CONTENT)
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT)}) as server:
        assert "another model m" in str(await failure(source(server, size=len(CONTENT))))
        assert "another model m" in str(await failure(source(server, sha256="ab" * 32)))
        assert await get(source(server, sha256=HASH)) == folder / "m.gguf"
        assert server.requests == []


async def test_a_file_that_appears_meanwhile_is_not_replaced(folder: Path) -> None:
    file = FakeFile(CONTENT, hold=asyncio.Event())
    async with FakeRawServer({"/m.gguf": file}) as server:
        getting = asyncio.create_task(failure(source(server)))
        await wait_for(lambda: file.ranges_asked)
        (folder / "m.gguf").write_bytes(b"mine")
        assert file.hold is not None
        file.hold.set()
        assert "another model m" in str(await getting)
    assert (folder / "m.gguf").read_bytes() == b"mine"
    assert parts.find_incomplete("m") == (library.parts_dir() / "m.gguf", parts_size(folder))


def parts_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / ".part" / "m.gguf").iterdir())


# --- answers that end early, and files that change ------------------------------------------


async def test_a_body_that_ends_early_is_continued(folder: Path) -> None:
    asked: list[str] = []

    async def short(connection: FakeConnection) -> None:
        asked.append(connection.request.headers.get("range", ""))
        start = int(asked[-1].removeprefix("bytes=").removesuffix("-") or 0)
        end = min(start + 1_000_000, len(CONTENT))
        if not start:  # neither length nor chunks: the connection is the end
            await connection.head(200, ETag='"one"')
            await connection.body(CONTENT[:end])
            connection.close()
            return
        span = f"bytes {start}-{end - 1}/{len(CONTENT)}"
        await connection.head(206, length=end - start, ETag='"one"', Content_Range=span)
        await connection.body(CONTENT[start:end])

    async with FakeRawServer({"/m.gguf": short}) as server:
        path = await get(source(server, size=len(CONTENT)))
    assert path.read_bytes() == CONTENT
    assert asked == ["", "bytes=1000000-", "bytes=2000000-", "bytes=3000000-"]


async def test_what_ends_early_again_and_again_is_kept(folder: Path) -> None:
    async def short(connection: FakeConnection) -> None:
        await connection.head(200, ETag='"one"')
        await connection.body(CONTENT[:5000])
        connection.close()

    async with FakeRawServer({"/m.gguf": short}) as server:
        failed = await failure(source(server, size=len(CONTENT)), DownloadLimits(delay=0.0, attempts=2))
    assert failed.code == "unreachable" and "ended m.gguf early" in str(failed) and "kept" in str(failed)
    ((_, size),) = parts.incomplete_files()
    assert size == 5000


async def test_a_page_instead_of_the_file_does_not_delete_the_part(folder: Path) -> None:
    file = FakeFile(CONTENT, breaks=[5000])
    async with FakeRawServer({"/m.gguf": file}) as server:
        await failure(source(server, size=len(CONTENT)), DownloadLimits(attempts=0))
        file.content, file.etag = b"GGUF, not found", '"page"'
        assert (await failure(source(server, size=len(CONTENT)))).code == "wrong"
    ((_, size),) = parts.incomplete_files()
    assert size == 5000


async def test_a_server_that_ignores_if_range_does_not_mix_two_files(folder: Path) -> None:
    file, seen = FakeFile(CONTENT, breaks=[5000]), list[Progress]()
    async with FakeRawServer({"/m.gguf": file}) as server:
        await failure(source(server), DownloadLimits(attempts=0))
        file.content, file.etag, file.minds = gguf_bytes(data=2_999_000), '"two"', False
        path = await get(source(server), seen=seen)
    assert path.read_bytes() == file.content and file.ranges_asked == ["", "bytes=5000-", ""]
    assert any("starting over" in progress.note for progress in seen)


@pytest.mark.parametrize(
    "span",
    [f"bytes 0-1/{'9' * 5000}", f"bytes {'1' * 5000}-9/9", "bytes", "bytes ٣-٤/٥"],
    ids=["size", "start", "none", "digits"],
)
async def test_a_range_that_can_not_be_read_is_a_sentence(folder: Path, span: str) -> None:
    async def strange(connection: FakeConnection) -> None:
        await connection.head(206, length=4, Content_Range=span)
        await connection.body(b"GGUF")

    async with FakeRawServer({"/m.gguf": strange}) as server:
        assert "without saying which" in str(await failure(source(server)))


async def test_a_redirect_to_no_address_is_a_sentence(folder: Path) -> None:
    async def away(connection: FakeConnection) -> None:
        await connection.answer(302, Location="http://[x/")

    async with FakeRawServer({"/m.gguf": away}) as server:
        failed = await failure(source(server))
    assert failed.code == "unreachable" and "http://[x/" in str(failed)


# --- threads --------------------------------------------------------------------------------


async def test_nothing_blocks_the_event_loop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocking: list[str] = []

    def watch(target: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(target, name)

        def watched(*args: Any, **named: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                blocking.append(name)
            return original(*args, **named)

        monkeypatch.setattr(target, name, watched)

    for target, name in (
        (os, "fsync"), (os, "truncate"), (os, "pread"), (os, "link"), (Path, "unlink"), (parts, "atomic_write"),
        (downloading, "_write_last"), (parts.Part, "delete"), (parts.Part, "check_space"), (library, "local_files"),
    ):  # fmt: skip
        watch(target, name)
    changed = FakeFile(CONTENT, breaks=[5000])
    async with FakeRawServer(
        {"/m.gguf": FakeFile(CONTENT, ranges=False, breaks=[5000]), "/c/m.gguf": changed}
    ) as server:
        (await get(source(server, size=len(CONTENT)))).unlink()
        await failure(source(server, "/c/m.gguf"), DownloadLimits(attempts=0))
        changed.content, changed.etag, changed.minds = CONTENT[:4000], '"two"', True
        await failure(source(server, "/c/m.gguf", sha256="ab" * 32))
    assert blocking == ["unlink"]  # that of this test


async def test_a_download_that_is_cancelled_while_it_writes_keeps_the_bytes_in_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, go_on, in_thread = threading.Event(), threading.Event(), parts.in_thread

    async def slowly(function: Callable[..., Any], *args: Any) -> Any:
        def wait_first(*args: Any) -> Any:
            writing.set()
            go_on.wait(30.0)
            return function(*args)

        return await in_thread(wait_first if function.__name__ == "write" else function, *args)

    monkeypatch.setattr(downloading, "in_thread", slowly)
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT)}) as server:
        getting = asyncio.create_task(get(source(server)))
        await wait_for(writing.is_set)
        getting.cancel()
        await asyncio.sleep(0)
        assert not getting.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await getting
    there = (library.parts_dir() / "m.gguf" / "m.gguf").read_bytes()
    assert len(there) >= 1 << 20 and CONTENT.startswith(there)


async def test_a_silent_server_is_given_up(folder: Path) -> None:
    async def silent(connection: FakeConnection) -> None:
        await connection.head(200, length=100)
        await connection.gone()

    async with FakeRawServer({"/m.gguf": silent}) as server:
        failed = await failure(source(server), DownloadLimits(delay=0.0, silence=0.05, attempts=1))
    assert failed.code == "unreachable" and "sent nothing" in str(failed)


async def test_a_trickling_server_is_given_up(folder: Path) -> None:
    async def trickle(connection: FakeConnection) -> None:
        await connection.head(200, length=1_000_000)
        await connection.body(b"GGUF")
        while True:  # until the client leaves
            await connection.body(b"x")
            await asyncio.sleep(0)

    slow = DownloadLimits(delay=0.0, attempts=0, slow_seconds=0.05, slow_bytes=1_000_000)
    async with FakeRawServer({"/m.gguf": trickle}) as server:
        failed = await failure(source(server), slow)
    assert "almost nothing" in str(failed)


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(404, "not_found", "does not have"), (403, "denied", "HF_TOKEN"), (401, "denied", "HF_TOKEN")],
)
async def test_a_refusal_is_a_sentence(folder: Path, status: int, code: str, words: str) -> None:
    file = FakeFile(CONTENT, refusals=[status])
    async with FakeRawServer({"/m.gguf": file}) as server:
        failed = await failure(source(server))
    assert failed.code == code and words in str(failed)


async def test_a_busy_server_is_asked_again(folder: Path) -> None:
    file, seen = FakeFile(CONTENT, refusals=[503, 429]), list[Progress]()
    async with FakeRawServer({"/m.gguf": file}) as server:
        assert (await get(source(server), seen=seen)).read_bytes() == CONTENT
    assert [progress.note for progress in seen if progress.stage == "waiting"] != []


async def test_a_token_is_not_sent_to_the_host_of_a_redirect(folder: Path) -> None:
    async with FakeRawServer({"/real/m.gguf": FakeFile(CONTENT)}) as other, FakeRawServer() as server:

        async def near(connection: FakeConnection) -> None:
            await connection.answer(302, Location="/near")

        async def far(connection: FakeConnection) -> None:
            await connection.answer(302, Location=f"{other.url}/real/m.gguf?signature=1")

        server.routes = {"/m.gguf": near, "/near": far}
        await get(source(server, token="secret"))
        assert [request.headers.get("authorization") for request in server.requests] == ["Bearer secret"] * 2
        assert [request.headers.get("authorization") for request in other.requests] == [None]
        assert other.requests[0].path == "/real/m.gguf?signature=1"


async def test_redirects_end(folder: Path) -> None:
    async def again(connection: FakeConnection) -> None:
        await connection.answer(302, Location="/m.gguf")

    async with FakeRawServer({"/m.gguf": again}) as server:
        assert "redirects too often" in str(await failure(source(server)))


async def test_a_model_in_several_files(folder: Path) -> None:
    first = gguf_bytes(QWEN | {"split.no": 0, "split.count": 2}, data=600)
    halves = [first, gguf_bytes({"split.no": 1, "split.count": 2}, data=600)]
    files = [FakeFile(halves[0]), FakeFile(halves[1], refusals=[404])]
    names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    async with FakeRawServer({f"/{name}": file for name, file in zip(names, files, strict=True)}) as server:
        wanted = WebSource(
            files=tuple(
                WebFile(url=f"{server.url}/{name}", name=name, size=len(half), sha256=hashlib.sha256(half).hexdigest())
                for name, half in zip(names, halves, strict=True)
            ),
            origin="x",
        )
        await failure(wanted)
        assert library.local_files() == [] and not list(folder.glob("*.gguf"))
        path = await get(wanted)
        assert path == folder / names[0] and [one.name for one in library.local_files()] == ["m"]
        assert files[0].ranges_asked == [""] and left(folder) == names
        # a process that is killed while it moves the files
        part = paths.ensure_private_dir(library.parts_dir() / names[0])
        for name, file, half in zip(names, wanted.files, halves, strict=True):
            state = parts.PartState(name=name, url=file.url, size=len(half), sha256=file.sha256, verified=True)
            parts.Part(part, name).save(state)
        os.rename(folder / names[1], part / names[1])
        ((state, _),) = parts.incomplete_files()
        assert state.name == names[1]
        assert await get(wanted) == path and left(folder) == names and len(server.requests) == 3


async def test_the_disk_must_have_room_for_all_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=(200 << 20) + 5_000_000))
    async with FakeRawServer() as server:
        names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
        files = tuple(WebFile(url=f"{server.url}/{name}", name=name, size=3_000_000) for name in names)
        failed = await failure(WebSource(files=files, origin="x"))
        assert failed.code == "no_space" and "6.0 MB more" in str(failed) and server.requests == []


async def test_what_a_killed_process_leaves_after_the_end_is_not_an_incomplete_download(folder: Path) -> None:
    part = parts.Part(library.parts_dir() / "m.gguf", "m.gguf")
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT)}) as server:
        for linked in (True, False):  # killed before and after the old name of the file is removed
            paths.ensure_private_dir(part.path.parent)
            part.path.write_bytes(CONTENT)
            url = source(server).origin
            part.save(parts.PartState(name="m.gguf", source="what", url=url, size=len(CONTENT), verified=True))
            os.link(part.path, folder / "m.gguf")
            if not linked:
                part.path.unlink()
            assert await get(source(server)) == folder / "m.gguf" and left(folder) == ["m.gguf"]
            paths.ensure_private_dir(part.path.parent)
            part.save(parts.PartState(name="m.gguf", source="what", url=url, size=len(CONTENT), verified=True))
            assert parts.incomplete_files() == [] and left(folder) == ["m.gguf"]
            (folder / "m.gguf").unlink()
        assert server.requests == []


async def test_an_incomplete_download_is_discarded_unless_it_runs(folder: Path) -> None:
    file = FakeFile(CONTENT, hold=asyncio.Event())
    async with FakeRawServer({"/m.gguf": file}) as server:
        getting = asyncio.create_task(get(source(server)))
        part = library.parts_dir() / "m.gguf" / "m.gguf"
        await wait_for(lambda: part.exists() and part.stat().st_size)
        found = parts.find_incomplete("M")
        assert found is not None and found[0] == part.parent and parts.find_incomplete("other") is None
        with pytest.raises(DownloadFailed, match=str(os.getpid())):
            await asyncio.to_thread(parts.discard_incomplete, found[0])
        getting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await getting
    await asyncio.to_thread(parts.discard_incomplete, found[0])
    assert left(folder) == [] and parts.find_incomplete("m.gguf") is None


async def test_reports_are_few_and_never_go_back(folder: Path) -> None:
    seen: list[Progress] = []
    async with FakeRawServer({"/m.gguf": FakeFile(gguf_bytes(data=20_000_000))}) as server:
        await get(source(server), seen=seen)
    downloading = [progress.done for progress in seen if progress.stage == "downloading"]
    assert downloading == sorted(downloading) and len(downloading) < 100
