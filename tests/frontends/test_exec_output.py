from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from tests.doubles.job import COMMAND, FIXED, REPORT, TASK, job_scenario
from tests.doubles.mock import call, scenario, serve, step
from tests.frontends.test_exec import ExecRunner, server_flags
from tui_agent.events.schema import line_schema, schema_text
from tui_agent.frontends import piped_input

SCENES = Path(__file__).resolve().parents[1] / "scenes"


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[ExecRunner]:
    program = ExecRunner(tmp_path)
    yield program
    await program.close()


@pytest.fixture(scope="module")
def check_line() -> Any:
    return fastjsonschema.compile(line_schema())


# --- the answer -----------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_answer_of_the_demo_is_all_there_is_on_stdout(run: ExecRunner) -> None:
    done, quiet = await asyncio.gather(
        run.process("--demo", "-C", str(run.home / "demo"), "--approve", "all", TUI_AGENT_MODE="agent"),
        run.process("--demo", "-C", str(run.home / "other"), "--approve", "all", "-q", TUI_AGENT_MODE="agent"),
    )
    assert done.code == 0, done.err
    assert done.out.startswith("Done: all tests pass.\n") and done.out.endswith("counts what `words` returns.\n")
    assert "Tool:" not in done.out and "Step" not in done.out and "Summary" not in done.out
    for text in ("── Step 1 of 3", "[Tool: edit_file", "✓ Check `python3 -m unittest` passed", "Summary proposed"):
        assert text in done.err
    assert (quiet.code, quiet.out, quiet.err) == (0, done.out, "")


async def test_what_is_quiet_still_tells_why_it_failed(run: ExecRunner) -> None:
    result = await run("hello", "--quiet", "--provider", "ollama", "--base-url", "http://127.0.0.1:9", "--trust")
    assert result.code == 4 and not result.out
    assert result.err.startswith("unreachable: ") and "127.0.0.1:9" in result.err


@pytest.mark.parametrize("form", [(), ("--json",), ("--quiet",)])
async def test_the_answer_is_in_the_file_that_is_named(run: ExecRunner, form: tuple[str, ...]) -> None:
    file = run.home / "answer.txt"
    file.write_text("an earlier answer")
    async with serve(job_scenario(), strict=True) as server:
        flags = server_flags(server, "openai")
        result = await run(TASK, "--approve", "all", "--last-message", str(file), *form, *flags)
        assert (result.code, file.read_text()) == (0, f"{REPORT}\n")
        limited = await run(TASK, "--approve", "all", "--max-iterations", "1", "-o", str(file), *form, *flags)
    assert (limited.code, file.read_text()) == (5, "")


async def test_a_file_that_can_not_be_written_is_found_before_the_work(run: ExecRunner) -> None:
    result = await run("hi", "-o", str(run.home / "none" / "answer.txt"), "--provider", "scripted")
    assert result.code == 2 and "there is no folder" in result.err and not result.out
    os.mkfifo(run.home / "pipe")
    for file, kind in ((run.home, "a folder"), (run.home / "pipe", "no regular file"), (Path("/dev/null"), "no reg")):
        result = await run("hi", "-o", str(file), "--provider", "scripted")
        assert result.code == 2 and f"is {kind}" in result.err and not result.out


async def test_a_file_for_the_answer_keeps_who_may_read_it(run: ExecRunner) -> None:
    file = run.home / "answer.txt"
    file.write_text("earlier")
    file.chmod(0o644)
    async with serve(scenario("", "done")) as server:
        flags = server_flags(server, "openai")
        assert (await run("hi", "-o", str(file), *flags)).code == 0
        assert (await run("hi", "-o", str(run.home / "new.txt"), *flags)).code == 0
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("done\n", 0o644)
    assert stat.S_IMODE((run.home / "new.txt").stat().st_mode) == 0o600


async def test_who_stops_reading_stderr_does_not_stop_the_work(run: ExecRunner) -> None:
    async with serve(job_scenario(), strict=True) as server:
        reading, writing = os.pipe()
        os.close(reading)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tui_agent", "exec", "-C", str(run.workspace), TASK, "--approve", "all",
            *server_flags(server, "openai"), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=writing, env=run.env, cwd=run.home,
        )  # fmt: skip
        os.close(writing)
        run.started.append(process)
        out, _ = await process.communicate()
    assert (process.returncode, out.decode()) == (0, f"{REPORT}\n")
    assert (run.workspace / "adder.py").read_text() == FIXED


# --- the time limit -------------------------------------------------------------------------


def running_commands() -> bytes:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(file.read_bytes())
    return b"\n".join(found)


async def test_a_time_limit_ends_the_run_and_its_processes(run: ExecRunner) -> None:
    sleeping = scenario("sleep", step("", call("run_terminal_command", command="sleep 612.75")), "done")
    async with serve(sleeping, strict=True) as server:
        flags = server_flags(server, "openai")
        result = await run("sleep", "--approve", "all", "--timeout", "3", *flags)
    assert result.code == 5 and not result.out
    assert "limit: The time limit of 3 s (--timeout) was reached." in result.err and "the user" not in result.err
    assert "[Tool: run_terminal_command sleep 612.75]" in result.err
    assert b"612.75" not in running_commands()


async def test_a_time_limit_covers_the_wait_for_input(run: ExecRunner) -> None:
    process = await run.start("hi", "--timeout", "0.2", "--provider", "scripted", stdin=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    err = await process.stderr.read()
    assert await process.wait() == 5 and b"--timeout" in err


async def test_a_stop_signal_is_not_the_user(run: ExecRunner) -> None:
    sleeping = scenario("sleep", step("", call("run_terminal_command", command="sleep 600")), "done")
    async with serve(sleeping, strict=True) as server:
        process = await run.start("sleep", "--approve", "all", *server_flags(server, "openai"))
        assert process.stderr is not None
        await process.stderr.readuntil(b"sleep 600]")
        process.send_signal(signal.SIGTERM)
        _, err = await process.communicate()
    assert process.returncode == 143
    assert b"stopped: the program was stopped by SIGTERM." in err
    assert b"by the user" not in err


# --- standard input -------------------------------------------------------------------------


async def test_what_is_piped_in_is_attached_to_the_task(run: ExecRunner) -> None:
    async with serve(scenario("explain", "a diff"), strict=True) as server:
        result = await run("explain", *server_flags(server, "openai"), stdin=b"@app.route\nsecond line\n")
        messages = [message["content"] for message in server.requests[-1].messages[1:]]
    assert (result.code, result.out) == (0, "a diff\n")
    assert "standard input, all of it (2 lines):\n@app.route\nsecond line" in messages[0]
    assert messages[-1].endswith("\n\nexplain")
    assert "✓ Attached: standard input" in result.err and "not attached" not in result.err


async def test_a_long_input_is_cut_and_that_is_said(run: ExecRunner) -> None:
    async with serve(scenario("explain", "long"), strict=True) as server:
        flags = server_flags(server, "openai")
        result = await run("explain", *flags, stdin=b"".join(b"line %d of many\n" % n for n in range(20_000)))
        messages = [message["content"] for message in server.requests[-1].messages[1:]]
    assert result.code == 0 and "Standard input is cut after line " in result.err
    assert "of 20,000 lines, cut there:\nline 0 of many" in messages[0] and len(messages[0]) < 70_000


@pytest.mark.parametrize(
    ("data", "problem"), [(b"\x7fELF\0", "not text"), (b"x" * (piped_input.MAX_SIZE + 1), "more than")]
)
async def test_input_that_is_no_text_for_a_task_is_refused(run: ExecRunner, data: bytes, problem: str) -> None:
    result = await run("explain", "--provider", "scripted", stdin=data)
    assert result.code == 2 and problem in result.err


async def test_the_end_of_an_input_is_waited_for_and_that_is_said(run: ExecRunner) -> None:
    async with serve(scenario("explain", "late"), strict=True) as server:
        flags = server_flags(server, "openai")
        process = await run.start("explain", *flags, stdin=asyncio.subprocess.PIPE)
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write(b"at ")
        assert b"reading standard input" in await process.stderr.readline()
        out, _ = await process.communicate(b"last")
        assert out == b"late\n" and "at last" in server.requests[-1].messages[1]["content"]


async def test_a_pipe_that_is_left_open_does_not_stop_the_work(run: ExecRunner) -> None:
    async with serve(scenario("explain", "done"), strict=True) as server:
        process = await run.start("explain", *server_flags(server, "openai"), stdin=asyncio.subprocess.PIPE)
        assert process.stdout is not None and process.stderr is not None
        assert await process.stdout.read() == b"done\n"
        assert b"nothing was piped in within 3 s" in await process.stderr.read()
        assert await process.wait() == 0


async def test_what_is_quiet_does_not_tell_that_nothing_was_piped_in(run: ExecRunner) -> None:
    async with serve(scenario("explain", "done"), strict=True) as server:
        process = await run.start("explain", "-q", *server_flags(server, "openai"), stdin=asyncio.subprocess.PIPE)
        assert process.stdout is not None and process.stderr is not None
        assert await process.stdout.read() == b"done\n"
        assert await process.stderr.read() == b"" and await process.wait() == 0


# --- the exit code --------------------------------------------------------------------------


async def test_a_refused_read_does_not_spoil_a_finished_job(run: ExecRunner) -> None:
    (run.workspace / ".env").write_text("KEY=value\n")
    job = job_scenario()
    job["steps"].insert(0, step("", call("read_file", path=".env")))
    async with serve(job, strict=True) as server:
        result = await run(TASK, "--approve", "all", *server_flags(server, "openai"))
    assert "✗ Refused (--approve all)" in result.err and (run.workspace / "adder.py").read_text() == FIXED
    assert (result.code, result.out) == (0, f"{REPORT}\n")


async def test_a_job_that_is_only_a_refused_read_is_refused(run: ExecRunner) -> None:
    (run.workspace / ".env").write_text("KEY=value\n")
    show = scenario("show", step("", call("read_file", path=".env")), "I was not allowed to.")
    async with serve(show, strict=True) as server:
        result = await run("show", *server_flags(server, "openai"))
    assert result.code == 3
    assert "not done without what was refused: read .env. See --approve and --answers." in result.err


async def test_what_a_refused_step_of_a_plan_was_is_named(run: ExecRunner) -> None:
    result = await run("--demo", "--quiet")
    assert result.code == 3 and "Not done: Nothing was changed." in result.out
    assert (
        "not done without what was refused: modify wordcount/counting.py (+2 -1). See --approve and --answers."
        in result.err
    )


async def test_a_plan_that_a_person_rejects_is_not_called_what_was_refused(run: ExecRunner) -> None:
    answers = b'{"verdict": "reject", "text": "no"}\n' * 3
    result = await run("--demo", "--answers", stdin=answers, TUI_AGENT_MODE="agent")
    assert result.code == 3, result.err
    assert "refused: The plan was rejected" in result.err
    assert "not done without what was refused" not in result.err


async def test_a_refused_edit_that_is_made_later_is_no_reason(run: ExecRunner) -> None:
    answers = b'{"verdict": "reject", "text": "not yet"}\n' + b'{"verdict": "approve"}\n' * 3
    job = job_scenario()
    job["steps"].insert(1, step("", call("edit_file", path="adder.py", old_string="a - b", new_string="b + a")))
    async with serve(job, strict=True) as server:
        result = await run(TASK, "--answers", *server_flags(server, "openai"), stdin=answers)
    assert result.code == 0, result.err


# --- what is printed about the work ---------------------------------------------------------


async def test_what_has_no_plan_says_why_in_a_line(run: ExecRunner) -> None:
    async with serve(scenario("", "Hello there.")) as server:
        result = await run("hi", *server_flags(server, "openai"), TUI_AGENT_MODE="agent")
    assert (result.code, result.out) == (0, "Hello there.\n")
    assert "Plan" not in result.err and "Approach" not in result.err
    assert "  ! There is no plan, and the task is one step. The reply is no plan: there is no JSON object" in result.err


async def test_commands_that_ran_say_how_they_ended(run: ExecRunner) -> None:
    commands = (COMMAND, "true")
    steps = [step("", call("run_terminal_command", command=text)) for text in commands]
    async with serve(scenario("check", *steps, "Checked."), strict=True) as server:
        result = await run("check", "--approve", "all", *server_flags(server, "openai"))
    assert f"[Tool: run_terminal_command {COMMAND}]\n" in result.err
    assert "exit code 1" in result.err.partition(COMMAND + "]")[2].partition("[Tool")[0]
    assert "[Tool: run_terminal_command true]\n  ✓ exit code 0\n" in result.err


# --- JSON lines -----------------------------------------------------------------------------


async def test_every_line_of_a_run_is_as_the_schema_says(run: ExecRunner, check_line: Any) -> None:
    wipe = scenario("wipe", step("", call("run_terminal_command", command="rm -rf ~/")), "could not")
    ask = scenario("ask", step("", call("ask_user", question="Which?", options=["a", "b"])), "no answer")
    async with serve(job_scenario(), wipe, ask) as server:
        flags = ("--json", "--approve", "all", *server_flags(server, "openai"))
        results = [await run(task, *flags, stdin=b"piped") for task in (TASK, "wipe", "ask")]
    for result in results:
        assert len(result.records) > 10
        for record in result.records:
            check_line(record)


@pytest.mark.slow
async def test_every_line_of_the_demo_is_as_the_schema_says(run: ExecRunner, check_line: Any) -> None:
    flags = ("--demo", "-C", str(run.home / "demo"), "--json", "--approve", "all", "--accept-plan", "--accept-summary")
    result = await run.process(*flags, TUI_AGENT_MODE="agent")
    assert result.code == 0
    assert not {"plan.proposed", "step.verified", "summary.settled"} - {record["type"] for record in result.records}
    for record in result.records:
        check_line(record)


def test_recorded_sessions_are_as_the_schema_says_and_others_are_not(check_line: Any) -> None:
    types = set()
    for path in sorted(SCENES.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            record.pop("crc", None)
            types.add(record["type"])
            check_line(record)
    assert len(types) > 40
    changes: tuple[dict[str, Any], ...] = (
        {"type": "run.stopped"},
        {"data": {"outcome": "fine"}},
        {"data": {}},
        {"extra": 1},
        {"seq": 0},
    )
    for wrong in changes:
        end = {"v": 1, "seq": 1, "at": "", "type": "run.ended", "run": "", "node": "", "parent": ""}
        check_line(end | {"data": {"outcome": "done"}})
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            check_line({**end, "data": {"outcome": "done"}, **wrong})


async def test_the_schema_can_be_printed(run: ExecRunner) -> None:
    result = await run("--json-schema")
    assert result.code == 0 and json.loads(result.out) == json.loads(schema_text())
