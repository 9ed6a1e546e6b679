from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import BROKEN, FIXED, REPORT, TASK, environment, job_scenario, make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.doubles.terminal import Terminal
from tui_agent.frontends.line_mode import terminal as line_terminal

COLOR = re.compile(rb"\x1b\[[0-9;]*m")


class Home:
    """A home with a workspace, where `tui-agent repl` is started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "home"
        self.folder.mkdir()
        self.workspace = make_workspace(folder / "work")
        self.env = environment(self.folder)
        self.data = self.folder / "tui-agent"

    def arguments(self, server: MockServer, *flags_added: str) -> list[str]:
        flags = ["--provider", "openai", "--base-url", f"{server.url}/v1", "--model", "mock-model"]
        return ["-m", "tui_agent", "repl", "-C", str(self.workspace), *flags, *flags_added]

    async def pipe(self, server: MockServer, lines: str | bytes, *flags_added: str, **env: str) -> tuple[int, str, str]:
        """Run with lines from a pipe; return exit code, output and errors."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, *self.arguments(server, *flags_added),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**self.env, **env}, cwd=self.folder,
        )  # fmt: skip
        try:
            out, err = await process.communicate(lines.encode() if isinstance(lines, str) else lines)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    def terminal(self, server: MockServer, *flags_added: str, **env: str) -> Terminal:
        return Terminal(
            *self.arguments(server, *flags_added),
            size=(110, 60),
            env={**self.env, **env},
            cwd=self.folder,
            whole_env=True,
        )

    def session(self) -> str:
        return max(path.name for path in (self.data / "sessions").iterdir())

    def records(self) -> list[dict[str, Any]]:
        lines = (self.data / "sessions" / self.session() / "events.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@contextlib.asynccontextmanager
async def closing(terminal: Terminal) -> AsyncIterator[Terminal]:
    try:
        yield terminal
    finally:
        terminal.close()


def occurs(terminal: Terminal, text: str, times: int) -> Callable[[], bool]:
    return lambda: terminal.bytes.decode("utf-8", "replace").count(text) >= times


def is_prompting(terminal: Terminal) -> Callable[[], bool]:
    return lambda: terminal.text.rstrip().endswith("You:")


# --- in a pipe ------------------------------------------------------------------------------


async def test_a_pipe_is_read_line_by_line_and_nobody_is_asked(home: Home) -> None:
    hello = scenario("hello", "Hi.\x1b]0;owned\x07 Twice\x1b[2J hi.")
    async with serve(hello, job_scenario(), strict=True) as server:
        lines = f"hello\n\n   \n!echo out; echo err >&2; exit 3\n/no-such\n/stauts\n/status\n{TASK}\n"
        code, out, err = await home.pipe(server, lines, "--trust")
    assert code == 3, out + err
    assert (home.workspace / "adder.py").read_text() == BROKEN
    assert "You: hello\nAgent: Hi. Twice hi.\n" in out
    assert "[Tool: read_file adder.py]" in out
    assert "You: !echo out; echo err >&2; exit 3\nout\nerr\n[exit code 3]\n" in out
    assert "Unknown command /no-such; /help lists them. A leading space sends it." in out
    assert "Unknown command /stauts; did you mean /status?" in out
    assert "  ✗ Refused (no terminal)" in out
    assert REPORT in out
    assert out.count("You: ") == 6
    assert not set("\x1b\x07\r") & set(out)
    assert [r["data"]["outcome"] for r in home.records() if r["type"] == "run.ended"] == ["done", "failed"]
    assert not (home.data / "repl_history").exists()


async def test_what_the_mode_allows_is_done_in_a_pipe_and_resumed(home: Home) -> None:
    again = scenario("and now", step("Now what?"))
    async with serve(job_scenario(), again, strict=True) as server:
        code, out, err = await home.pipe(server, TASK, "--trust", "--approval-mode", "auto")  # no line end
        assert code == 0, out + err
        assert (home.workspace / "adder.py").read_text() == FIXED
        assert "  ✓ Changed adder.py (+1 -1)" in out
        first = home.session()
        with (home.data / "sessions" / first / "events.jsonl").open("ab") as journal:
            journal.write(bytes(100))  # as after a power loss
        lines = "and now\n/clear\nand now\\\nthis\n"
        code, out, err = await home.pipe(server, lines, "--trust", "--resume", first[:23])
        assert code == 0, out + err
        assert home.session() == first
        assert f"Continuing “{TASK}”." in out and "· resumed" in out
        assert "The session was not closed properly. One record" in out
        assert "Conversation cleared" in out
        histories = [[str(m["content"]) for m in request.messages] for request in server.requests[-2:]]
    assert any(TASK in text for text in histories[0])
    assert not any(TASK in text or "Now what?" in text for text in histories[1])
    assert any("and now\nthis" in text for text in histories[1])


async def test_the_end_of_a_line_that_is_too_long_is_no_message(home: Home) -> None:
    async with serve(scenario("hello", "Hi."), strict=True) as server:
        code, out, err = await home.pipe(server, "x" * 2**20 + "!echo r" + "un\nhello\n", "--trust")
    assert code == 0, out + err
    assert "error: A line of more than 1,048,576 bytes is too long." in out
    assert "run" not in out and out.count("You: ") == 1 and "Agent: Hi." in out


async def test_a_pipe_without_trust_only_reads(home: Home) -> None:
    async with serve(job_scenario(), strict=True) as server:
        lines = b"\xff\xfe\x00\n" + f"{TASK}\n/help\n/quit\nxyzzy\n".encode()
        code, out, err = await home.pipe(server, lines, "--approval-mode", "auto")
        assert code in (0, 3), out + err
        assert not any("xyzzy" in str(request.messages) for request in server.requests)
    assert "This folder is not trusted" in out
    assert (home.workspace / "adder.py").read_text() == BROKEN


async def test_usage_and_what_can_not_be_opened(home: Home) -> None:
    async with serve(strict=True) as server:
        assert (await home.pipe(server, "", "--resume"))[0] == 2
        code, _, err = await home.pipe(server, "hi\n", "--resume", "1999")
        assert code == 2 and "No session" in err


async def test_a_signal_ends_a_pipe_in_order(home: Home) -> None:
    slow = scenario("wait", step("never", delay=300))
    async with serve(slow, strict=True) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *home.arguments(server, "--trust"),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=home.env, cwd=home.folder,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(b"wait\n")
        await process.stdin.drain()
        number = 1
        while "wait" not in str((await server.wait_for_request(number, 60)).messages):
            number += 1
        process.send_signal(signal.SIGINT)
        out, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 130
    assert b"stopped by the user." in out
    assert home.records()[-1]["type"] == "session.closed"


# --- at a terminal --------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_session_at_a_terminal(home: Home) -> None:
    secret = "sk-proj-" + "a8Kd93jLmQ" * 4
    keeps = scenario("keep", step("", call("write_file", path="note.txt", content=f"a {secret}\n")), "Kept.")
    async with serve(job_scenario(), keeps, strict=True) as server:
        async with closing(home.terminal(server, NO_COLOR="1")) as terminal:
            await terminal.wait_for_text("Trust this folder?")
            await terminal.wait_for_text(occurs(terminal, "Approve? ", 1))
            terminal.type("y\r")
            await terminal.wait_for_text("You: ")
            terminal.type(f"{TASK}\r")
            await terminal.wait_for_text("Edit adder.py  (+1 −1)")
            await terminal.wait_for_text(occurs(terminal, "Approve? ", 2))
            assert "-    return a - b" in terminal.text and "+    return a + b" in terminal.text
            assert "s for this session" in terminal.text
            terminal.type("\r")
            await terminal.wait_for_text("Answer with a, s, A, e or r.")
            await terminal.wait_for_text(occurs(terminal, "Approve? ", 3))
            terminal.type("y\r")
            await terminal.wait_for_text("Run a command")
            await terminal.wait_for_text(occurs(terminal, "Approve? ", 4))
            terminal.type("r use make instead\r")
            await terminal.wait_for_text(REPORT)
            assert (home.workspace / "adder.py").read_text() == FIXED
            await terminal.wait_for_text(is_prompting(terminal))
            terminal.type("keep\r")
            await terminal.wait_for_text("u show the secrets")
            await terminal.wait_for_text(occurs(terminal, "Approve? ", 5))
            assert secret[:20] not in terminal.text
            terminal.type("u\r")
            await terminal.wait_for_text(secret)
            await terminal.wait_for_text(occurs(terminal, "Approve? ", 6))
            terminal.type("n\r")
            await terminal.wait_for_text("Kept.")
            await terminal.wait_for_text(is_prompting(terminal))
            terminal.type("/und\t\r")
            await terminal.wait_for_text("Undone: 1 file (adder.py)")
            await terminal.wait_for_text(is_prompting(terminal))
            terminal.type("\x03")
            await terminal.wait_for_text("Nothing is running. Press Ctrl+C again")
            await terminal.wait_for_text(is_prompting(terminal))
            terminal.type("\x04")
            assert await terminal.end() == 0
            assert f"tui-agent repl --resume {home.session()}" in terminal.text
            assert terminal.is_sane()
            assert not COLOR.search(terminal.bytes)
        answers = [r["data"]["answer"] for r in home.records() if r["type"] == "approval.answered"]
        verdicts = [(answer["verdict"], answer["text"]) for answer in answers if answer["by"] == "user"]
        assert verdicts == [("approve", ""), ("approve", ""), ("reject", "use make instead"), ("reject", "")]
        history = home.data / "repl_history"
        assert history.read_text().splitlines() == [TASK, "keep", "/undo"]
        assert history.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
async def test_ctrl_c_stops_the_run_and_what_was_typed_ahead_answers_nothing(home: Home) -> None:
    slow = scenario("wait", step("never", delay=300))
    edit = step("", call("edit_file", path="adder.py", old_string="a - b", new_string="a + b"), delay=1.5)
    late = scenario("late", step("", call("read_file", path="adder.py")), edit, "Left as it is.")
    async with serve(slow, late, strict=True) as server:
        async with closing(home.terminal(server, "--trust")) as terminal:
            await terminal.wait_for_text("You: ")
            terminal.type("wait\r")
            await terminal.wait_for_text(lambda: any("wait" in str(one.messages) for one in server.requests))
            terminal.type("\x03")
            await terminal.wait_for_text("stopped by the user.")
            await terminal.wait_for_text(is_prompting(terminal))
            terminal.type(f"!echo here > {home.folder}/begun; sleep 300\r")
            await terminal.wait_for_text((home.folder / "begun").exists)
            terminal.type("\x03")
            await terminal.wait_for_text("[stopped]")
            await terminal.wait_for_text(is_prompting(terminal))
            terminal.type("late\r")
            await terminal.wait_for_text(
                lambda: len([1 for request in server.requests if "late" in str(request.messages)]) >= 2
            )
            terminal.type("y\rhalf a")
            await terminal.wait_for_text("Approve? ")
            assert (home.workspace / "adder.py").read_text() == BROKEN
            terminal.type("n\r")
            await terminal.wait_for_text("Left as it is.")
            await terminal.wait_for_text(lambda: "You: y half a" in terminal.text)
            terminal.type("\x03")
            await terminal.wait_for_text("Nothing is running. Press Ctrl+C again")
            await terminal.wait_for_text(is_prompting(terminal))
            terminal.type("\x03")
            assert await terminal.end() == 0
            assert terminal.is_sane()
    assert (home.workspace / "adder.py").read_text() == BROKEN


DROPPED_SIGNAL = "import os; readline.set_pre_input_hook(lambda: os.kill(os.getpid(), 15))"
"""The exception of the signal is dropped by readline, which calls this hook before it waits."""
NOTED_INTERRUPT = """
import ctypes, re
library = re.search(r"/\\S*libreadline\\.so\\S*", open("/proc/self/maps").read())
if library is None:
    sys.exit(77)
hook = ctypes.c_void_p.in_dll(ctypes.CDLL(library[0]), "rl_pre_input_hook")
hook.value = ctypes.cast(ctypes.pythonapi.PyErr_SetInterrupt, ctypes.c_void_p).value
"""
"""Ctrl+C is noted, but no Python instruction follows before readline waits."""


@pytest.mark.parametrize(("hook", "code"), [(DROPPED_SIGNAL, 128 + signal.SIGTERM), (NOTED_INTERRUPT, 0)])
async def test_a_signal_in_the_moment_before_a_line_is_waited_for_is_noticed(home: Home, hook: str, code: int) -> None:
    begin = f"import readline, runpy, sys\n{hook}\nsys.argv[0] = 'x'\nrunpy.run_module('tui_agent', None, '__main__')"
    async with serve(strict=True) as server:
        program = Terminal(
            "-c", begin, *home.arguments(server, "--trust")[2:],
            size=(110, 60), env=home.env, cwd=home.folder, whole_env=True,
        )  # fmt: skip
        async with closing(program) as terminal:
            ended = await terminal.end()
            if ended == 77:
                pytest.skip("readline is not a separate library here")
            assert ended == code and terminal.is_sane(), terminal.text
            assert ("Nothing is running" in terminal.text) is (code == 0)
    assert home.records()[-1]["type"] == "session.closed"


async def test_every_signal_interrupts_the_wait_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = (signal.SIGINT, *line_terminal.TERMINATING_SIGNALS, line_terminal.WAKE_SIGNAL)
    before = {number: signal.getsignal(number) for number in numbers}
    woken = asyncio.Event()
    monkeypatch.setattr(line_terminal, "WAKE_DELAYS", (0.0,))
    monkeypatch.setattr(signal, "pthread_kill", lambda thread, number: woken.set())
    loop_fd = signal.set_wakeup_fd(-1)
    try:
        signals = line_terminal.LineSignals()
        end = signal.set_wakeup_fd(loop_fd)
        wake = asyncio.create_task(signals.wake_main_thread())
        for _ in range(5):
            os.write(end, bytes([signal.SIGINT]))
            await asyncio.wait_for(woken.wait(), 10)
            woken.clear()
            os.write(end, bytes([line_terminal.WAKE_SIGNAL]))
        assert not wake.done()
        wake.cancel()
    finally:
        signal.set_wakeup_fd(loop_fd)
        for number, handler in before.items():
            signal.signal(number, handler)


async def test_a_hangup_at_the_prompt_closes_the_session(home: Home) -> None:
    async with serve(strict=True) as server:
        async with closing(home.terminal(server, "--trust")) as terminal:
            await terminal.wait_for_text("You: ")
            terminal.kill(signal.SIGTERM)
            assert await terminal.end() == 128 + signal.SIGTERM
            assert terminal.is_sane()
    assert home.records()[-1]["type"] == "session.closed"
