"""Group D: commands that misbehave, run by a session."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import environment
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.faults.kit import command, run_calls
from tests.waiting import wait_for, within_timeout
from tui_agent.common.domain import RunAction
from tui_agent.events import Notice, ToolFinished, ToolOutput
from tui_agent.platform import supervisor

FLAGS = {"mode": "direct", "sandbox": "off"}


async def until_dead(pids: list[int]) -> None:
    await wait_for(lambda: not any(pid in supervisor.process_table() for pid in pids))


@pytest.mark.parametrize(
    "flood", ["yes", "head -c 9999999999 /dev/zero | tr '\\0' x", "cat /dev/urandom"], ids=["lines", "line", "binary"]
)
async def test_d01_d02_a_flood_is_stopped_at_once(flood: str, workspace: Path) -> None:
    talk = scenario("go", step("", command(f"echo $$ > pid; echo begun; {flood}", timeout_seconds=600)))
    async with (
        serve(talk, scenario("again", "well"), strict=True) as server,
        run_session(server, workspace, flags=FLAGS) as session,
    ):
        watch = SessionDriver(session)
        await session.send("go")
        await watch.until_event(ToolOutput)
        pid = int((workspace / "pid").read_text())
        assert pid in supervisor.process_table()  # it floods
        await within_timeout(session.interrupt())
        await until_dead([pid])
        await watch.ended()
        assert watch.of(ToolFinished)[-1].result.code == "interrupted"
        assert sum(len(event.text) for event in watch.of(ToolOutput)) < 1_000_000
        await session.send("again")
        assert (await watch.ended()).text == "well"


NARROW = """
set -e
mount -t tmpfs -o size=64m none "$1"
echo 'kept' > "$1/kept.txt"
shift_to=$1; shift
cd "$shift_to"
"$@" || true
cat kept.txt >&2
ls >&2
"""


def may_mount(folder: Path) -> bool:
    words = ["unshare", "-Urm", "mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    return (
        shutil.which("unshare") is not None and subprocess.run(words, check=False, capture_output=True).returncode == 0
    )


async def test_d03_e11_a_disk_of_64_mib_that_runs_full(workspace: Path, tmp_path: Path) -> None:
    if not may_mount(workspace):
        pytest.skip("needs unshare and leave to mount in a namespace")
    home = tmp_path / "home"
    home.mkdir()
    talk = scenario(
        "go",
        step("", call("read_file", path="kept.txt")),
        step("", command("head -c 200000000 /dev/zero > big", timeout_seconds=120)),
        step("", call("write_file", path="kept.txt", content="lost\n" * 2_000)),
        step("", call("write_file", path="new.txt", content="x" * 9_000)),
        "done",
    )
    async with serve(talk, strict=True) as server:
        process = await asyncio.create_subprocess_exec(
            "unshare", "-Urm", "sh", "-c", NARROW, "sh", str(workspace),
            sys.executable, "-m", "tui_agent", "exec", "go", "--json", "--mode", "direct", "--approve", "all", "--trust", "--provider", "openai",
            "--base-url", server.url + "/v1", "--model", "mock-model",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=environment(home), limit=2**24,
        )  # fmt: skip
        out, err = await process.communicate()
    records = [json.loads(line) for line in out.splitlines()]
    finished = [one["data"] for one in records if one["type"] == "tool.finished"]
    assert [one["result"]["success"] for one in finished] == [True, False, False, False], err.decode()
    assert "No space left" in finished[1]["text"]  # the disk did run full
    assert all("space" in one["text"].lower() or "full" in one["text"].lower() for one in finished[2:])
    notices = [one["data"] for one in records if one["type"] == "notice" and one["data"].get("code") == "disk.full"]
    assert len(notices) == 1 and "MiB are free" in notices[0]["text"]
    assert err.decode().splitlines()[-3:] == ["kept", "big", "kept.txt"]  # old content intact, no litter


async def test_d04_a_command_without_end_is_ended(workspace: Path) -> None:
    story = await run_calls(workspace, command("echo $$ > pid; echo partly; sleep 600; echo after", timeout_seconds=1))
    pid = int((workspace / "pid").read_text())
    assert story.result().code == "timeout"
    assert "partly" in story.text().splitlines() and "after" not in story.text().splitlines()
    await until_dead([pid])


BOMB = "f() {{ echo $BASHPID > p/$BASHPID; if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & fi; trap '' TERM; sleep 600; }}; mkdir p; f {}"
DEPTH = int(os.environ.get("TUI_AGENT_BOMB", "5"))
"""Generations of the bomb: 2 to the power of it and more processes."""


async def test_d08_a_fork_bomb_is_stopped_to_the_last_process(workspace: Path) -> None:
    talk = scenario("go", step("", command(BOMB.format(DEPTH), timeout_seconds=600)))
    count = 2 ** (DEPTH + 1) - 1
    async with (
        serve(talk, scenario("again", "well"), strict=True) as server,
        run_session(server, workspace, flags=FLAGS) as session,
    ):
        watch = SessionDriver(session)
        await session.send("go")
        following = asyncio.create_task(watch.until_event(ToolFinished))
        await wait_for(lambda: (workspace / "p").exists() and len(os.listdir(workspace / "p")) >= count)
        pids = [int(name) for name in os.listdir(workspace / "p")]
        assert sum(pid in supervisor.process_table() for pid in pids) == count  # all of them are there
        await session.interrupt()
        await until_dead(pids)
        await following
        await watch.ended()
        await session.send("again")
        assert (await watch.ended()).text == "well"


HIDERS = """
setsid sleep 600 & echo $! > p/a
(setsid sh -c 'echo $$ > p/b; sleep 600' &) &
nohup sh -c 'trap "" TERM HUP; echo $$ > p/c; sleep 600; sleep 600' > nohup.out 2>&1 &
sleep 600 & echo $! > p/d; disown -a
((sh -c 'echo $$ > p/e; exec sleep 600' &) &)
sleep 600
"""
ROUNDS = int(os.environ.get("TUI_AGENT_DAEMONS", "3"))


async def test_d07_what_hides_from_its_shell_is_found_and_ended(workspace: Path) -> None:
    talk = scenario("go", step("", command(HIDERS, timeout_seconds=600)))
    for number in range(ROUNDS):
        (workspace / str(number) / "p").mkdir(parents=True)
        await hide_and_stop(workspace / str(number), talk)


async def hide_and_stop(folder: Path, talk: dict[str, Any]) -> None:
    async with serve(talk, strict=True) as server, run_session(server, folder, flags=FLAGS) as session:
        watch = SessionDriver(session)
        await session.send("go")
        following = asyncio.create_task(watch.until_event(ToolFinished))
        await wait_for(lambda: len([file for file in (folder / "p").iterdir() if file.read_text().strip()]) == 5)
        pids = [int(file.read_text()) for file in (folder / "p").iterdir()]
        assert all(pid in supervisor.process_table() for pid in pids)  # all five are there
        await session.interrupt()
        await until_dead(pids)
        assert (await following).result.code == "interrupted"


async def test_d09_d10_what_reads_gets_an_end_and_no_terminal(workspace: Path) -> None:
    story = await run_calls(
        workspace,
        command("cat; read x; python3 -; head -n1; echo left $?", timeout_seconds=60),
        command("(exec </dev/tty) 2>&1; stty raw 2>&1; echo still", timeout_seconds=60),
        command(
            "sudo -S true 2>&1; ssh -o BatchMode=no h.invalid 2>&1; git commit 2>&1; echo past", timeout_seconds=60
        ),
    )
    assert all(story.result(place).code != "timeout" for place in range(3))
    assert "left" in story.text(0) and "still" in story.text(1) and "past" in story.text(2)
    assert "No such device" in story.text(1)


async def test_d11_d14_what_a_command_leaves_is_told_to_the_next(workspace: Path, tmp_path: Path) -> None:
    (workspace / "sub").mkdir()
    (workspace / "gone").mkdir()
    story = await run_calls(
        workspace,
        command("cd sub; export K=1; set -e; false"),
        command("exec sh -c 'exit 9'"),
        command("pwd; echo $K; touch here"),
        command("cd ../gone && rmdir ../gone"),
        command("touch back"),
        command("cd .. && true"),
        command("touch outside"),
    )
    assert [story.result(place).success for place in range(3)] == [False, False, True]
    assert "replaced" in story.text(1) and (workspace / "sub" / "here").exists()
    assert str(workspace / "sub") in story.text(2)
    assert "is gone" in story.text(3) and (workspace / "back").exists()
    assert "outside the workspace" in story.text(5)
    last = story.asked[story.order[-1]]
    assert isinstance(last, RunAction) and last.cwd == str(tmp_path) and last.always_ask  # shown where it runs
    assert (tmp_path / "outside").exists()


async def test_d15_commands_run_in_the_folder_that_is_shown(workspace: Path) -> None:
    (workspace / "sub").mkdir()
    story = await run_calls(
        workspace,
        command("(sleep 0.2; pwd > late; pwd) & pwd"),
        command("cd sub"),
        command("pwd"),
        command("pwd", cwd="."),
        command("pwd > here; true", cwd="sub"),
        command("until [ -s ../late ]; do :; done; cat ../late > seen"),
    )
    answers = [record.event for record in story.watch.records if record.event.type == "approval.answered"]
    assert len(answers) == 6 and len(story.asked) == 3  # three ran unasked
    sub = str(workspace / "sub")
    assert sub in story.text(2) and story.text(3).splitlines()[1] == str(workspace)
    shown = [action.cwd for action in story.asked.values() if isinstance(action, RunAction)]
    assert shown == [str(workspace), sub, sub]
    assert (workspace / "sub" / "here").read_text().strip() == sub
    assert (workspace / "late").read_text().strip() == str(workspace)


async def test_d16_an_end_by_a_signal_is_named(workspace: Path) -> None:
    story = await run_calls(workspace, command("bash -c 'kill -SEGV $$'"), command("bash -c 'kill -KILL $$'"))
    assert "139" in story.text(0) and "SIGSEGV" in story.text(0)
    assert "137" in story.text(1) and "out of memory" in story.text(1)


@pytest.mark.parametrize("text", ["touch made; echo " + "x" * 101_000, "touch made\0"], ids=["too large", "NUL"])
async def test_d17_an_impossible_command_is_refused_with_the_reason(text: str, workspace: Path) -> None:
    story = await run_calls(workspace, command(text))
    assert not story.result().success and story.result().code != "defect"
    assert len(str(story.result().error)) > 20
    assert not (workspace / "made").exists()


async def test_d23_of_many_reading_calls_one_hangs(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    hanging = tmp_path / "bin" / "rg"
    hanging.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    hanging.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for number in range(9):
        (workspace / f"f{number}").write_text(f"text {number}\n")
    reads = [call("read_file", path=f"f{number}") for number in range(9)]
    talk = scenario("go", step("", call("search_workspace", query="text"), *reads))
    async with serve(talk, strict=True) as server, run_session(server, workspace, flags=FLAGS) as session:
        watch = SessionDriver(session)
        await session.send("go")
        for _ in reads:
            finished = await watch.until_event(ToolFinished)
            assert finished.name == "read_file" and finished.result.success
        assert len(watch.of(ToolFinished)) == 9
        await wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
        pid = int((tmp_path / "pid").read_text())
        assert pid in supervisor.process_table()  # it hangs
        await session.interrupt()
        await until_dead([pid])
        assert (await watch.until_event(ToolFinished)).result.code == "interrupted"


async def test_e14_a_workspace_that_goes_away_leaves_the_session_whole(workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n")
    talk = scenario(
        "go",
        step("", call("read_file", path="a.txt")),
        step("", command(f"mv {workspace} {workspace}.moved")),
        step("", call("read_file", path="a.txt")),
        step("", call("write_file", path="b/c.txt", content="x\n")),
        step("", call("list_files")),
        step("", call("search_workspace", query="one")),
        step("", command("echo here; touch x")),
        "done",
    )
    async with serve(talk, scenario("again", "well"), strict=True) as server:
        async with run_session(server, workspace, flags=FLAGS) as session:
            watch = SessionDriver(session)
            await session.send("go")
            assert (await watch.ended()).outcome == "done"
            await session.send("again")
            assert (await watch.ended()).text == "well"
    results = [event.result for event in watch.of(ToolFinished)]
    assert results[0].success and results[1].success
    assert not any(result.success for result in results[2:6]), results[2:6]
    assert "defect" not in [result.code for result in results]
    notices = [notice for notice in watch.of(Notice) if notice.code == "folder.gone"]
    assert len(notices) == 1 and str(workspace) in notices[0].text
    assert not workspace.exists()  # nothing made it anew
    assert (workspace.with_name("work.moved") / "a.txt").read_text() == "one\n"
