from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.doubles.job import COMMAND, FIXED, REPORT, TASK, environment, job_scenario, make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.nightly import sampled
from tui_agent.__main__ import main
from tui_agent.engine.host.tool_context import CallContext
from tui_agent.frontends import headless
from tui_agent.frontends.plain import EXIT_CODES


class ExecResult:
    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out.decode()
        self.err = err.decode()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [record["data"] for record in self.records if record["type"] == name]


class ExecRunner:
    """Runs `tui-agent exec` in a temporary workspace: in this process, which is ten times as fast, or as a process."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.workspace = make_workspace(folder / "work")
        self.env = environment(self.home)
        self.started: list[asyncio.subprocess.Process] = []

    async def close(self) -> None:
        """End the processes that a failed test left behind."""
        for process in self.started:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def start(self, *args: str, stdin: int | None = None, **env: str) -> asyncio.subprocess.Process:
        """Start a process. Its input is a pipe if it reads it, else empty."""
        reads = not {"-", "--answers"}.isdisjoint(args)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tui_agent", "exec", "-C", str(self.workspace), *args,
            stdin=stdin or (asyncio.subprocess.PIPE if reads else asyncio.subprocess.DEVNULL), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**self.env, **env}, cwd=self.home, limit=2**24,
        )  # fmt: skip
        self.started.append(process)
        return process

    async def __call__(self, *args: str, stdin: bytes = b"", **env: str) -> ExecResult:
        """Run in this process, from the command line to the exit code."""
        input_file = self.home.with_name("stdin")
        input_file.write_bytes(stdin)
        stdout, stderr = io.BytesIO(), io.BytesIO()
        out, err = (
            io.TextIOWrapper(stream, "utf-8", errors="replace", write_through=True) for stream in (stdout, stderr)
        )
        task: list[Any] = []

        def capture_task(*options: Any) -> int:
            task.extend(options)
            return 0

        with (
            input_file.open(encoding="utf-8") as lines,
            patch.dict(os.environ, {**self.env, **env}, clear=True),
            patch.object(sys, "stdin", lines),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.chdir(self.home),
            patch.object(headless, "run_exec", capture_task),
        ):
            try:
                code = main(["exec", "-C", str(self.workspace), *args])
            except SystemExit as end:
                assert isinstance(end.code, int)
                code = end.code
            if task:
                code = await headless.exec_task(*task)
        return ExecResult(code, stdout.getvalue(), stderr.getvalue())

    async def process(self, *args: str, stdin: bytes = b"", **env: str) -> ExecResult:
        """Run as a process."""
        process = await self.start(*args, stdin=asyncio.subprocess.PIPE, **env)
        out, err = await process.communicate(stdin)
        assert process.returncode is not None
        return ExecResult(process.returncode, out, err)

    def session(self) -> Path:
        (folder,) = (self.home / "tui-agent" / "sessions").iterdir()
        return folder


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[ExecRunner]:
    program = ExecRunner(tmp_path)
    yield program
    await program.close()


def server_flags(server: MockServer, provider: str) -> list[str]:
    url = server.url + ("/v1" if provider == "openai" else "")
    return ["--provider", provider, "--base-url", url, "--model", "mock-model", "--trust"]


@pytest.mark.parametrize("provider", sampled(["openai", "ollama"], 1))
async def test_the_job_is_done_over_http(run: ExecRunner, provider: str) -> None:
    async with serve(job_scenario(), strict=True) as server:
        result = await run.process(TASK, "--json", "--approve", "all", *server_flags(server, provider))
    assert result.code == 0, result.out + result.err
    assert (run.workspace / "adder.py").read_text() == FIXED
    assert [data["name"] for data in result.of("tool.finished")] == ["read_file", "edit_file", "run_terminal_command"]
    assert all(data["result"]["success"] for data in result.of("tool.finished"))
    assert result.of("run.ended")[-1]["outcome"] == "done"
    assert result.of("reply.ended")[-1]["text"] == REPORT
    assert [record["seq"] for record in result.records] == list(range(1, len(result.records) + 1))


async def test_the_job_is_done_by_the_scripted_model(run: ExecRunner) -> None:
    file = run.home / "job.json"
    file.write_text(json.dumps({"scenarios": [job_scenario()], "default_response": {"content": "?"}}))
    result = await run(TASK, "--approve", "all", "--trust", "--provider", "scripted", "--scenarios", str(file))
    assert result.code == 0, result.out + result.err
    assert (run.workspace / "adder.py").read_text() == FIXED
    assert result.out == f"{REPORT}\n"
    assert f"[Tool: run_terminal_command {COMMAND}]\n  ✓ exit code 0\n" in result.err
    assert "I look at it first." in result.err and REPORT not in result.err


async def test_everything_printed_is_in_the_journal_and_the_log(run: ExecRunner) -> None:
    async with serve(job_scenario(), strict=True) as server:
        result = await run(TASK, "--json", "--approve", "all", *server_flags(server, "openai"))
    journal = [json.loads(line) for line in (run.session() / "events.jsonl").read_text().splitlines()]
    printed = {record["seq"]: record["type"] for record in result.records}
    assert printed.items() <= {record["seq"]: record["type"] for record in journal}.items()
    log = (run.session() / "chat_history.log").read_text()
    assert f"USER: {TASK}" in log
    assert "TOOL_CALL: read_file(" in log
    assert REPORT in log


@pytest.mark.parametrize(
    ("approve", "code", "changes_file"), [("none", 3, False), ("safe", 3, False), ("edits", 3, True), ("all", 0, True)]
)
async def test_what_may_happen_without_a_person(run: ExecRunner, approve: str, code: int, changes_file: bool) -> None:
    async with serve(job_scenario(), strict=True) as server:
        result = await run(TASK, "--json", "--approve", approve, *server_flags(server, "openai"))
    assert result.code == code, result.out + result.err
    assert ((run.workspace / "adder.py").read_text() == FIXED) == changes_file
    assert bool(result.of("approval.executed")) == (approve in ("edits", "all"))


@pytest.mark.parametrize("command", ["rm -rf ~/", "git push origin main", "npm publish"])
async def test_what_always_asks_is_refused_even_with_all(run: ExecRunner, command: str) -> None:
    wipe = scenario("wipe", step("", call("run_terminal_command", command=command)), "could not")
    async with serve(wipe, strict=True) as server:
        result = await run("wipe", "--json", "--approve", "all", *server_flags(server, "openai"))
    assert result.code == 3
    assert run.home.exists()
    assert not result.of("approval.executed")


SHOWS_ENVIRONMENT = ("env", "printenv", "set", "export -p", "declare -x", "ls; env | sort")


async def test_all_approves_no_command_that_shows_the_environment_and_text_says_how_each_was_decided(
    run: ExecRunner,
) -> None:
    commands = (*SHOWS_ENVIRONMENT, "git stash drop; touch made")
    show = scenario("show", *(step("", call("run_terminal_command", command=text)) for text in commands), "end")
    async with serve(show, strict=True) as server:
        result = await run("show", "--approve", "all", *server_flags(server, "openai"))
    assert result.code == 3 and (run.workspace / "made").exists()
    assert result.err.count("? Approval requested: ") == len(commands)
    assert result.err.count("✗ Refused (--approve all)") == len(SHOWS_ENVIRONMENT)
    assert result.err.count("✓ Approved (--approve all)") == 1
    assert "PATH=" not in result.out + result.err


async def test_a_protected_file_is_refused_even_with_all(run: ExecRunner) -> None:
    plant = scenario("plant", step("", call("write_file", path=".git/hooks/pre-commit", content="x")), "no")
    async with serve(plant, strict=True) as server:
        result = await run("plant", "--json", "--approve", "all", *server_flags(server, "openai"))
    assert result.code == 3
    assert not (run.workspace / ".git").exists()


async def test_an_untrusted_folder_is_read_only(run: ExecRunner) -> None:
    (run.workspace / "AGENTS.md").write_text("SECRET RULES OF THE FOLDER")
    async with serve(job_scenario(), strict=True) as server:
        flags = [flag for flag in server_flags(server, "openai") if flag != "--trust"]
        result = await run(TASK, "--json", "--approve", "all", *flags)
        bodies = json.dumps([request.body for request in server.requests])
    assert result.code == 3
    assert (run.workspace / "adder.py").read_text() != FIXED
    assert "SECRET RULES" not in bodies


async def test_an_answer_given_beforehand_does_not_trust_the_folder(run: ExecRunner) -> None:
    (run.workspace / "AGENTS.md").write_text("SECRET RULES OF THE FOLDER")
    lines = b'{"verdict": "approve"}\n' * 3
    async with serve(job_scenario(), strict=True) as server:
        flags = [flag for flag in server_flags(server, "openai") if flag != "--trust"]
        result = await run(TASK, "--json", "--answers", *flags, stdin=lines)
        bodies = json.dumps([request.body for request in server.requests])
    assert (run.workspace / "adder.py").read_text() != FIXED
    assert "SECRET RULES" not in bodies
    assert not (run.home / "tui-agent" / "trust.json").exists()
    assert result.code == 3


async def test_a_trusted_folder_gives_its_rules(run: ExecRunner) -> None:
    (run.workspace / "AGENTS.md").write_text("RULES OF THE FOLDER")
    (run.home / "AGENTS.md").write_text("RULES OF THE USER")
    async with serve(job_scenario(), strict=True) as server:
        await run(TASK, "--approve", "all", *server_flags(server, "openai"))
        system = server.requests[0].messages[0]["content"]
    assert system.index("RULES OF THE USER") < system.index("RULES OF THE FOLDER")


async def test_answers_from_standard_input(run: ExecRunner) -> None:
    lines = b'{"verdict": "reject", "text": "use another file"}\n{"verdict": "approve"}\n'
    async with serve(job_scenario(), strict=True) as server:
        result = await run(TASK, "--json", "--answers", *server_flags(server, "openai"), stdin=lines)
        last = server.requests[-1].messages
    assert result.code == 1, result.out + result.err
    verdicts = [data["answer"]["verdict"] for data in result.of("approval.answered")]
    assert verdicts == ["reject", "approve"]
    assert "since the change was refused" in result.of("run.ended")[-1]["text"]
    assert any("use another file" in str(message["content"]) for message in last)


async def test_a_bad_answer_is_named_and_the_next_one_counts(run: ExecRunner) -> None:
    lines = b'yes please\n{"verdict": "approve"}\n{"verdict": "approve"}\n'
    async with serve(job_scenario(), strict=True) as server:
        result = await run(TASK, "--json", "--answers", *server_flags(server, "openai"), stdin=lines)
    assert result.code == 0
    assert "answer" in result.err


async def test_a_server_that_is_not_there(run: ExecRunner) -> None:
    result = await run("hello", "--provider", "ollama", "--base-url", "http://127.0.0.1:9", "--trust")
    assert result.code == 4
    assert "127.0.0.1:9" in result.err and not result.out
    assert "Traceback" not in result.out + result.err


async def test_the_limit_of_rounds(run: ExecRunner) -> None:
    async with serve(job_scenario(), strict=True) as server:
        result = await run(TASK, "--json", "--approve", "all", "--max-iterations", "2", *server_flags(server, "openai"))
    assert result.code == 5
    ended = result.of("run.ended")[-1]
    assert ended["outcome"] == "limit" and "`iterations` settings" in ended["text"]


@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], 2))
async def test_a_signal_ends_it_in_order(run: ExecRunner, number: signal.Signals) -> None:
    sleeping = scenario("sleep", step("", call("run_terminal_command", command="sleep 60")), "done")
    async with serve(sleeping, strict=True) as server:
        process = await run.start("sleep", "--json", "--approve", "all", *server_flags(server, "openai"))
        assert process.stdout is not None
        async for line in process.stdout:
            if json.loads(line)["type"] == "approval.executed":
                break
        process.send_signal(number)
        rest, err = await asyncio.wait_for(process.communicate(), 50)
    assert process.returncode == 128 + number, err.decode()
    types = [json.loads(line)["type"] for line in rest.splitlines()]
    assert "run.ended" in types
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    "args",
    [(), ("  ",), ("task", "--approve", "everything"), ("task", "-C", "/nowhere/at/all"), ("task", "--resume", "1999")],
)
async def test_wrong_usage(run: ExecRunner, args: tuple[str, ...]) -> None:
    result = await run(*args)
    assert result.code == 2
    assert result.err.strip()
    assert "Traceback" not in result.err


async def test_a_task_from_standard_input(run: ExecRunner) -> None:
    async with serve(scenario("the long task", "understood"), strict=True) as server:
        result = await run("-", *server_flags(server, "openai"), stdin=b"the long task\nof two lines")
    assert result.code == 0
    assert "understood" in result.out


async def test_a_session_goes_on(run: ExecRunner) -> None:
    talk = [scenario("first thing", "noted the first"), scenario("second thing", "noted the second")]
    async with serve(*talk, strict=True) as server:
        flags = server_flags(server, "openai")
        await run("first thing", *flags)
        session = run.session().name
        continued = await run("second thing", "--continue", "--json", *flags)
        resumed = await run("first thing", "--resume", session[:10], "--json", *flags)
        texts = [message["content"] for message in server.requests[-1].messages[1:]]
    assert continued.code == resumed.code == 0, continued.err + resumed.err
    assert texts[:4] == ["first thing", "noted the first", "second thing", "noted the second"]
    seqs = [record["seq"] for record in continued.records + resumed.records]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert seqs[0] > 1


@pytest.mark.parametrize("flags", [[], ["--json"]])
async def test_no_control_character_reaches_the_output(run: ExecRunner, flags: list[str]) -> None:
    evil = "\x1b]0;pwn\x07\x9b31m\x7f\x85"
    (run.workspace / f"n{evil}.txt").write_text(evil)
    talk = scenario(
        "talk",
        step(f"text{evil}", call("run_terminal_command", command=f"cat *.txt # {evil}")),
        step("", call(f"no{evil}tool", **{f"a{evil}": evil}), call("write_file", path=evil, content=evil)),
        step("", call("list_files"), call("ask_user", question=evil, options=[evil])),
        f"done{evil}",
    )
    async with serve(talk, strict=True) as server:
        flags_used = [f"coder{evil}" if flag == "mock-model" else flag for flag in server_flags(server, "openai")]
        result = await run("talk", *flags, "--approve", "all", *flags_used)
    assert "done" in result.out
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", result.out + result.err)
    log = (run.session() / "chat_history.log").read_text()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", log)


async def test_a_secret_in_the_reply_is_masked(run: ExecRunner) -> None:
    token = "canary-7f3a9c-long"
    talk = scenario("talk", f"You gave me {token} as a key, and AKIAIOSFODNN7EXAMPLZ as another.")
    async with serve(talk, strict=True, token=token) as server:
        result = await run("talk", *server_flags(server, "openai"), LLM_AUTH_TOKEN=token)
    assert result.code == 0, result.err
    assert "as a key, and" in result.out and "⟨secret LLM_AUTH_TOKEN, 18 characters⟩" in result.out
    assert token not in result.out and "AKIAIOSFODNN7EXAMPLZ" not in result.out


async def test_the_server_token_never_leaves(run: ExecRunner) -> None:
    token = "canary-7f3a9c"
    show = scenario("show", step("", call("run_terminal_command", command="env; echo done")), "seen")
    async with serve(show, strict=True, token=token) as server:
        flags = (*server_flags(server, "openai"), "--json", "--answers")
        result = await run("show", *flags, stdin=b'{"verdict": "approve"}\n', LLM_AUTH_TOKEN=token)
    assert result.code == 0 and "done" in result.of("tool.finished")[0]["text"]
    assert token not in result.out + result.err
    for file in run.home.rglob("*"):
        if file.is_file():
            assert token.encode() not in file.read_bytes(), file


@pytest.mark.slow
async def test_a_refused_edit_of_the_demo_is_told_once_and_not_as_done(run: ExecRunner) -> None:
    done = await run.process("--demo", "--approve", "none", TMPDIR=str(run.home), TUI_AGENT_MODE="agent")
    assert done.code == 3
    assert done.out.count("The edit was not applied") == 1
    assert "❌ Not fixed: the edit was rejected" in done.err
    assert "tests pass" not in done.out and "Do not try" not in done.out + done.err


async def test_a_folder_that_is_gone_is_not_created_again_and_the_task_has_failed(run: ExecRunner) -> None:
    approve = CallContext.approve

    async def approve_and_remove(self: CallContext, *args: Any) -> Any:
        approval = await approve(self, *args)
        shutil.rmtree(run.workspace)
        return approval

    write = scenario("write", step("", call("write_file", path="src/n.py", content="x = 1\n")), "Done.")
    async with serve(write) as server:
        with patch.object(CallContext, "approve", approve_and_remove):
            result = await run("write it", "--approve", "all", *server_flags(server, "openai"))
    assert not run.workspace.exists() and "no longer exists" in result.err, result.err
    assert result.code == EXIT_CODES["failed"]
