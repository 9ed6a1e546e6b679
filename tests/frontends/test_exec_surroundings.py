from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
import termios
from pathlib import Path

import pytest

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import session_options
from tests.frontends.test_exec import ExecRunner, server_flags
from tui_agent.engine.opening import open_session

HELLO = scenario("hi", "hello · you")
DEADLINE = 20.0


@pytest.fixture
def run(tmp_path: Path) -> ExecRunner:
    return ExecRunner(tmp_path)


async def run_in_shell(
    run: ExecRunner, redirection: str, *args: str, cwd: Path | None = None, **env: str
) -> tuple[int, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", f'exec "$@" {redirection}', "sh",
        sys.executable, "-m", "tui_agent", "exec", *args,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**run.env, **env}, cwd=cwd or run.workspace,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode is not None
    return process.returncode, out, err


def buffered_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder)


@pytest.mark.parametrize(
    ("redirection", "args", "code"),
    [
        (">&-", (), 0),
        pytest.param(">&-", ("--json",), 0, marks=pytest.mark.nightly),
        pytest.param("2>&-", (), 0, marks=pytest.mark.nightly),
        pytest.param("<&-", (), 0, marks=pytest.mark.nightly),
        ("<&-", ("--answers",), 0),
        ("<&- >&- 2>&-", ("--json", "--answers"), 0),
        (">/dev/full", (), 1),
        pytest.param(">/dev/full", ("--json",), 1, marks=pytest.mark.nightly),
    ],
)
async def test_streams_that_are_closed_or_broken(
    run: ExecRunner, redirection: str, args: tuple[str, ...], code: int
) -> None:
    async with serve(HELLO, strict=True) as server:
        exit_code, _, err = await run_in_shell(run, redirection, "hi", *args, *server_flags(server, "openai"))
        assert len(server.requests) == 1 or code
    assert b"Traceback" not in err
    assert b"Exception" not in err
    assert exit_code == code, err.decode()


async def test_no_task_on_a_closed_input(run: ExecRunner) -> None:
    code, _, err = await run_in_shell(run, "<&-", "-")
    assert code == 2
    assert b"Traceback" not in err


@pytest.mark.parametrize("reader", ["head -n 1", "grep -m 1 'sleep 60'"])  # the second leaves after the last line
async def test_a_reader_that_leaves_ends_the_work(run: ExecRunner, reader: str) -> None:
    sleeping = scenario("sleep", step("", call("run_terminal_command", command="sleep 60")), "done")
    async with serve(sleeping, strict=True) as server:
        flags = server_flags(server, "openai")
        after = f"2>&1 | {reader} >/dev/null; exit 7"
        code, _, err = await run_in_shell(run, after, "sleep", "--approve", "all", *flags)
        assert code == 7
    assert b"Traceback" not in err


async def test_output_in_a_narrow_encoding(run: ExecRunner) -> None:
    async with serve(HELLO, strict=True) as server:
        flags = server_flags(server, "openai")
        code, out, err = await run_in_shell(run, "", "hi", *flags, PYTHONIOENCODING="ascii")
        assert (code, out) == (0, b"hello ? you\n")
        assert b"tui-agent ? session" in err
        code, out, err = await run_in_shell(run, "", "hi", "--json", *flags, PYTHONIOENCODING="ascii")
    assert (code, err) == (0, b"")
    assert "hello · you" in out.decode("utf-8")


async def test_a_task_that_is_no_unicode(run: ExecRunner) -> None:
    async with serve(scenario("", "hello"), strict=True) as server:
        flags = server_flags(server, "openai")
        code, out, err = await run_in_shell(run, "", os.fsdecode(b"say \xfe"), "--json", *flags)
    assert (code, err) == (0, b"")
    assert all(json.loads(line) for line in out.splitlines())


async def test_a_folder_whose_name_is_no_unicode(run: ExecRunner) -> None:
    folder = os.fsdecode(os.fsencode(run.workspace) + b"-\xff")
    os.mkdir(folder)
    code, _, err = await run_in_shell(run, "", "hi", "--provider", "scripted", cwd=Path(folder))
    assert code == 2
    assert b"UTF-8" in err and b"Traceback" not in err


async def test_a_folder_that_is_gone(run: ExecRunner, tmp_path: Path) -> None:
    removed = tmp_path / "gone"
    removed.mkdir()
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", sys.executable, "-m", "tui_agent", "exec", "hi",
        "--provider", "scripted",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=run.env, cwd=removed,
    )  # fmt: skip
    _, err = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode == 2
    assert b"Traceback" not in err
    assert b"folder" in err


async def test_a_task_that_is_no_utf8(run: ExecRunner) -> None:
    async with serve(scenario("", "understood"), strict=True) as server:
        result = await run("-", *server_flags(server, "openai"), stdin=b"caf\xe9")
    assert result.code == 0, result.err


async def test_a_stop_while_opening_leaves_no_traceback(run: ExecRunner) -> None:
    async with serve(scenario("hi", step("hello", delay=60)), strict=True) as server:
        process = await run.start("hi", *server_flags(server, "openai"))
        while not (run.home / "tui-agent").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.001)
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode in (130, -signal.SIGINT)
    assert b"Traceback" not in err


async def test_nohup_is_respected(run: ExecRunner) -> None:
    slow = scenario("hi", step("hello", delay=1.0))
    async with serve(slow, strict=True) as server:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", 'trap "" HUP; exec "$@"', "sh",
            sys.executable, "-m", "tui_agent", "exec", "hi", "-C", str(run.workspace),
            *server_flags(server, "openai"),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=run.env,
        )  # fmt: skip
        await server.wait_for_request(1)
        process.send_signal(signal.SIGHUP)
        out, err = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode == 0, err.decode()
    assert b"hello" in out


@pytest.mark.slow
async def test_a_slow_reader_does_not_hold_up_a_stop(run: ExecRunner) -> None:
    long = scenario("long", step(("w" * 200 + " ") * 50_000))
    read, write = os.pipe()  # nobody reads, so it is full soon
    async with serve(long, strict=True, pace=0.001) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tui_agent", "exec", "long", "--json", "-C", str(run.workspace),
            *server_flags(server, "openai"), stdout=write, stderr=asyncio.subprocess.DEVNULL, env=run.env,
        )  # fmt: skip
        os.close(write)
        exchange = await server.wait_for_request(1)
        while buffered_bytes(read) < 60_000:  # noqa: ASYNC110 - another process fills it
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(exchange.finished.wait(), DEADLINE)
        assert exchange.outcome == "disconnected"
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), DEADLINE) == 130
    os.close(read)


async def test_messages_left_from_before_do_not_hold_up_a_stop(
    run: ExecRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(run.home))
    monkeypatch.setenv("TUI_AGENT_HOME", str(run.home / "tui-agent"))
    slow = [scenario("first", step("one", delay=60)), scenario("second", step("two", delay=60))]
    async with serve(*slow, strict=True) as server:
        session = await open_session(session_options(server, run.workspace))
        await session.send("first")
        await session.send("second")
        await session.close()
        process = await run.start("third", "--continue", "--json", *server_flags(server, "openai"))
        await server.wait_for_request(len(server.requests) + 1)
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode == 130, err.decode()


async def test_a_session_that_can_not_be_saved_ends_with_a_sentence(run: ExecRunner) -> None:
    slow = scenario("hi", step("hello", call("read_file", path="adder.py"), delay=1.0), "done")
    async with serve(slow, strict=True) as server:
        process = await run.start("hi", "--json", *server_flags(server, "openai"))
        await server.wait_for_request(1)
        session = run.session()
        session.rename(session.with_name("away"))
        _, err = await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode == 1
    assert b"Traceback" not in err
    assert b"tui-agent:" in err


async def test_one_session_for_one_process(run: ExecRunner) -> None:
    slow = scenario("hi", step("hello", delay=60))
    async with serve(slow, strict=True) as server:
        flags = server_flags(server, "openai")
        process = await run.start("hi", *flags)
        await server.wait_for_request(1)
        second = await run("hi", "--resume", run.session().name, *flags)
        assert second.code == 2
        assert "in use" in second.err
        process.terminate()
        await asyncio.wait_for(process.communicate(), DEADLINE)


async def test_continue_and_resume_exclude_each_other(run: ExecRunner) -> None:
    result = await run("hi", "--continue", "--resume", "2026")
    assert result.code == 2
    assert "--resume" in result.err


async def test_two_stops_in_a_row_are_obeyed(run: ExecRunner) -> None:
    async with serve(scenario("hi", step("hello", delay=60)), strict=True) as server:
        process = await run.start("hi", *server_flags(server, "openai"))
        await server.wait_for_request(1)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.communicate(), DEADLINE)
    assert process.returncode in (130, 143)
