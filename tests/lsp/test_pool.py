from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.lsp.kit import LONG_LIMITS, pool_setup, received, server_command
from tests.waiting import wait_until
from tui_agent.common.symbols import Diagnostic, SourceLocation, SourcePosition, Unavailable
from tui_agent.platform import supervisor

WORSE = "x = 1\n😀 = 2  # WRONG\n"
SPOT = SourcePosition(line=1)


def pids(folder: Path) -> list[int]:
    return [start[1] for start in received(folder, "start")]


async def test_one_server_serves_all_files_of_its_language_and_is_gone_after_close(tmp_path: Path) -> None:
    async with pool_setup(tmp_path) as setup:
        one, two = setup.file("one.py", "a"), setup.file("two.py", "b")
        asks = [definition(setup, path) for path in (one, two, one)]
        answers = await asyncio.gather(*asks)
        assert answers == [(SourceLocation(path=str(path), line=1, end_line=1),) for path in (one, two, one)]
        assert len(pids(tmp_path)) == 1
        assert len(setup.received("textDocument/didOpen")) == 2
        assert setup.said == [("info", setup.said[0][1])]
        assert "may run the project's code" in setup.said[0][1]
    assert pids(tmp_path)[0] not in supervisor.process_table()
    assert [line[0] for line in received(tmp_path)][-2:] == ["shutdown", "exit"]


async def test_a_server_starts_in_the_workspace_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "k")
    monkeypatch.setenv("LLM_AUTH_TOKEN", "t")
    async with pool_setup(tmp_path) as setup:
        path = setup.file("one.py", "a")
        await setup.pool.with_file(path, lambda server: server.outline(path))
        (start,) = setup.received("start")
        (given,) = setup.received("initialize")
    assert start[2] == str(setup.root)
    assert "PATH" in start[3]
    assert not {"MY_API_KEY", "LLM_AUTH_TOKEN", "TUI_AGENT_HOME"} & set(start[3])
    assert given[1]["workspaceFolders"][0]["uri"] == f"file://{setup.root}"


@pytest.mark.parametrize("modes", [(), ("utf-8",)])
async def test_column_after_an_astral_character(tmp_path: Path, modes: tuple[str, ...]) -> None:
    async with pool_setup(tmp_path, *modes) as setup:
        path = setup.file("a.py", "x\r\n😀é = name\n")
        spot = SourcePosition(line=2, column=5)
        found = await setup.pool.with_file(path, lambda server: server.hover(path, spot))
    assert found == ("at 1:9" if modes else "at 1:6")


@pytest.mark.parametrize("modes", [(), ("no-versions",), ("pull",)], ids=["versions", "no versions", "pull"])
async def test_diagnostics_are_those_of_the_file_on_disk(tmp_path: Path, modes: tuple[str, ...]) -> None:
    limits = msgspec.structs.replace(LONG_LIMITS, settle=0.5)
    async with pool_setup(tmp_path, *modes, limits=limits) as setup:
        path = setup.file("a.py", "x = 1\n")

        async def found() -> Any:
            answer = await setup.pool.with_file(path, lambda server: server.file_diagnostics(path, LONG_LIMITS.request))
            assert not isinstance(answer, Unavailable)
            return answer[1]

        assert await found() == ()
        path.write_text(WORSE, encoding="utf-8")
        (wrong,) = await found()
        assert wrong == Diagnostic(kind="error", line=2, column=9, message="wrong: 😀 = 2  # WRONG", code="W1")
        path.write_text("x = 2\n")
        assert await found() == ()
        assert len(setup.received("textDocument/didOpen")) == 1
        assert [line[1]["textDocument"]["version"] for line in setup.received("textDocument/didChange")] == [2, 3]


async def test_waiting_for_diagnostics_is_limited(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "mute") as setup:
        path = setup.file("a.py", "x")
        found = await setup.pool.with_file(path, lambda server: server.file_diagnostics(path, 0.2))
        assert isinstance(found, Unavailable)
        assert "0.2 s" in found.reason
        assert isinstance(await definition(setup, path), tuple)  # it goes on


async def test_requests_of_the_server_are_answered(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "asks") as setup:
        path = setup.file("a.py", "x")
        await setup.pool.with_file(path, lambda server: server.hover(path, SPOT))
        await setup.pool.with_file(path, lambda server: server.hover(path, SPOT))
        answers = {line[4]: line[2] or line[3] for line in setup.received() if line[0] is None}
        server = setup.pool.running(path)
        assert server is not None
        assert server.supports("textDocument/documentSymbol")  # registered later
        assert not server.supports("workspace/symbol")
    assert answers["c"] == [None, None]
    assert answers["e"]["applied"] is False
    assert answers["x"]["code"] == -32601
    assert answers["o"]["code"] == -32603
    assert set(answers) == {"c", "p", "e", "x", "r", "o"}


async def test_a_server_that_reads_the_project_is_waited_for(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "indexing") as setup:
        path = setup.file("a.py", "x")
        await definition(setup, path)
    methods = [line[0] for line in received(tmp_path)]
    assert methods.index("indexed") < methods.index("textDocument/definition")


async def test_external_file_changes_are_reported(tmp_path: Path) -> None:
    async with pool_setup(tmp_path) as setup:
        one = setup.file("one.py", "a")
        await definition(setup, one)
        setup.file("one.py", "changed")
        setup.file("new.py", "b")
        await setup.pool.refresh()
        await definition(setup, one)
        (told,) = setup.received("workspace/didChangeWatchedFiles")
        changes = {(Path(one["uri"]).name, one["type"]) for one in told[1]["changes"]}
        assert changes == {("one.py", 2), ("new.py", 1)}
        assert setup.received("textDocument/didChange")[-1][1]["contentChanges"] == [{"text": "changed"}]


async def test_invalid_and_duplicate_results_are_dropped(tmp_path: Path) -> None:
    async with pool_setup(tmp_path) as setup:
        path = setup.file("a.py", "x\n" * 50)
        found = await setup.pool.with_file(path, lambda server: server.locations("references", path, SPOT))
        assert found == tuple(SourceLocation(path=str(path), line=line, end_line=line) for line in range(1, 41))


async def test_unsupported_queries_are_unavailable(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "no-hover") as setup:
        path = setup.file("a.py", "x")
        found = await setup.pool.with_file(path, lambda server: server.hover(path, SPOT))
        assert found == Unavailable(reason="the language server for Python can't tell types")


# --- servers that fail ---


async def definition(setup: Any, path: Path) -> Any:
    return await setup.pool.with_file(path, lambda server: server.locations("definitions", path, SPOT))


@pytest.mark.parametrize("mode", ["too-long", "too-short", "noise"])
async def test_noise_and_wrong_lengths_are_skipped(tmp_path: Path, mode: str) -> None:
    async with pool_setup(tmp_path, mode) as setup:
        path = setup.file("a.py", "x")
        for _ in range(3):
            found = await definition(setup, path)
            while mode == "too-long" and isinstance(found, Unavailable):
                found = await definition(setup, path)
            assert isinstance(found, tuple)
        assert len(pids(tmp_path)) == 1


async def test_too_large_reply_is_an_error(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "huge") as setup:
        path = setup.file("a.py", "x")
        found = await definition(setup, path)
        assert isinstance(found, Unavailable)
        assert "bytes" in found.reason
        assert await setup.pool.with_file(path, lambda server: server.hover(path, SPOT)) == "at 0:0"


async def test_flooding_server_is_stopped(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "flood") as setup:
        path = setup.file("a.py", "x")
        found = await definition(setup, path)
        assert isinstance(found, Unavailable)
        assert "other than LSP messages" in found.reason
        assert len(pids(tmp_path)) == 2  # tried once more


async def test_reasons_for_an_unavailable_server(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, own={"python": ("no-such-server",)}) as setup:
        for path, why in (
            (setup.file("a.py", "x"), "no language server for Python is installed"),
            (setup.file("a.xyz", "x"), "no language server is known for .xyz files"),
            (tmp_path / "b.py", "the file is outside the workspace"),
        ):
            assert await definition(setup, path) == Unavailable(reason=why)
        assert setup.said == []


async def test_binary_or_missing_file_is_not_opened(tmp_path: Path) -> None:
    async with pool_setup(tmp_path) as setup:
        path = setup.root / "a.py"
        path.write_bytes(b"\0\1\2\3" * 100)
        found = await definition(setup, path)
        assert isinstance(found, Unavailable)
        found = await definition(setup, setup.root / "none.py")
        assert isinstance(found, Unavailable)


async def test_a_server_that_crashes_is_started_again_and_then_given_up(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "crash") as setup:
        path = setup.file("a.py", "x")
        first, second, third = [await definition(setup, path) for _ in range(3)]
        assert "ended" in first.reason
        assert "does not work here" in second.reason
        assert third == second
        assert len(pids(tmp_path)) == LONG_LIMITS.max_starts
        assert [level for level, _ in setup.said] == ["info", "warning"]
        assert "continuing without it" in setup.said[-1][1]


async def test_a_server_that_crashes_once_is_not_noticed(tmp_path: Path) -> None:
    async with pool_setup(tmp_path, "crash-once") as setup:
        path = setup.file("a.py", "x")
        assert isinstance(await definition(setup, path), tuple)
        assert len(pids(tmp_path)) == 2
        assert [level for level, _ in setup.said] == ["info"]


async def test_restart_is_delayed_after_crashes(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LONG_LIMITS, backoff=3600.0, max_starts=9)
    async with pool_setup(tmp_path, "crash", limits=limits) as setup:
        path = setup.file("a.py", "x")
        await definition(setup, path)
        found = await definition(setup, path)
        assert "will be restarted later" in found.reason
        assert len(pids(tmp_path)) == 2


async def test_next_command_is_tried_if_the_first_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, mode in (("basedpyright-langserver", "dies"), ("pylsp", "well")):
        words = " ".join(f"'{word}'" for word in server_command(tmp_path, mode))
        (folder / name).write_text(f"#!/bin/sh\nexec {words}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    async with pool_setup(tmp_path, own={}) as setup:
        path = setup.file("a.py", "x")
        assert isinstance(await definition(setup, path), tuple)
        assert "pylsp" in setup.said[0][1]
        assert len(pids(tmp_path)) == 2


async def test_a_server_that_never_answers_the_first_request_is_given_up(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LONG_LIMITS, start=2.0)
    async with pool_setup(tmp_path, "hang-initialize", limits=limits) as setup:
        path = setup.file("a.py", "x")
        first = await definition(setup, path)
        assert "does not work here" in first.reason
        started = pids(tmp_path)
        assert await definition(setup, path) == first
        assert pids(tmp_path) == started  # it is not tried again
        assert len(pids(tmp_path)) <= 1


async def test_hanging_server_is_restarted(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LONG_LIMITS, request=0.5, max_timeouts=2, shutdown=0.2)
    async with pool_setup(tmp_path, "hang", limits=limits) as setup:
        path = setup.file("a.py", "x")
        # All that it says by itself has come.
        await setup.pool.with_file(path, lambda server: server.file_diagnostics(path, LONG_LIMITS.request))
        first = await definition(setup, path)
        assert "did not answer within 0.5 s" in first.reason
        second = await definition(setup, path)
        assert "did not answer" in second.reason
        third = await definition(setup, path)  # by a new one
        assert "did not answer" in third.reason
        assert len(pids(tmp_path)) == 2


async def test_cancelling_one_caller_does_not_cancel_the_start(tmp_path: Path) -> None:
    async with pool_setup(tmp_path) as setup:
        path = setup.file("a.py", "x")
        for _ in range(5):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await definition(setup, path)
        assert isinstance(await definition(setup, path), tuple)
        assert len(pids(tmp_path)) == 1


async def test_stubborn_server_and_its_processes_are_killed(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(LONG_LIMITS, shutdown=0.2)
    async with pool_setup(tmp_path, "stubborn", limits=limits) as setup:
        path = setup.file("a.py", "x")
        await definition(setup, path)
        (pid,) = pids(tmp_path)
        assert pid in supervisor.process_table()
    assert pid not in supervisor.process_table()


def test_no_server_outlives_a_killed_program(tmp_path: Path) -> None:
    ours = tmp_path / "ours.py"
    ours.write_text(
        "import asyncio, os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.lsp.kit import pool_setup\n"
        "from tests.lsp.test_pool import definition\n"
        "async def main():\n"
        "    async with pool_setup(Path(sys.argv[1])) as setup:\n"
        "        await definition(setup, setup.file('a.py', 'x'))\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).resolve().parents[2]
    env = {"PYTHONPATH": str(root), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    os.waitstatus_to_exitcode(
        os.waitpid(os.posix_spawn(sys.executable, [sys.executable, str(ours), str(tmp_path)], env), 0)[1]
    )
    (pid,) = pids(tmp_path)
    wait_until(lambda: pid not in supervisor.process_table())
