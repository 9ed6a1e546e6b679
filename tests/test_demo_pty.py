from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.doubles.job import environment
from tests.doubles.terminal import Terminal
from tests.nightly import sampled

LONG = 90.0
AGAIN = 30
"""Times a key is pressed again at most."""
"""Seconds for what takes one or two: other work may have the machine."""

F1, F2, F4, ESC, UP, DOWN = "\x1bOP", "\x1bOQ", "\x1bOS", "\x1b", "\x1b[A", "\x1b[B"

PLAN = ("Plan · 3 steps · plans need your approval", "a")
ASKED = (
    PLAN,
    ("Edit wordcount/counting.py", "a"),
    ("Run a command", "a"),
    ("added to the plan when you accept it", "\x13"),
)
"""What the demo asks, one after the other, and the key that answers it."""

DONE = "· Done · 3 tool calls"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@asynccontextmanager
async def started(folder: Path, *args: str, size: tuple[int, int] = (100, 32), **more: str) -> AsyncIterator[Terminal]:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    env = environment(home, TMPDIR=str(folder), TUI_AGENT_MODE="agent", **more)
    program = Terminal("-m", "tui_agent", *args, env=env, whole_env=True, cwd=home, size=size)
    try:
        yield program
    finally:
        program.close()


async def decide(program: Terminal, *asked: tuple[str, str]) -> None:
    """Press each dialog's key, again where it came too early: then it decides nothing."""
    early = False
    for title, key in asked:
        await program.wait_for_dialog(title, LONG)
        program.type(key)
        for _again in range(AGAIN):
            if title not in program.text:
                break
            if not await program.occurs(partial(gone, program, title), 5):
                await program.wait_for_text(lambda: program.accepts_keys, LONG)
                program.type(key)
                early = True
        else:
            raise AssertionError(f"{title} stays: {program.text}")
    if early:
        program.type("\x15")  # a letter that came too early went to the draft


def gone(program: Terminal, title: str) -> bool:
    return title not in program.text


def session_id(program: Terminal) -> str:
    found = re.findall(rb"Resume with: tui-agent --resume (\S+)", program.bytes)
    assert found, program.text
    last: bytes = found[-1]
    return last.decode()


async def end(program: Terminal) -> None:
    code = await program.end(LONG)
    assert code == 0, program.text
    assert program.is_sane()
    last = program.bytes[program.bytes.rindex(b"?1049h") :]
    assert b"\x1b[?1049l" in last
    assert b"Traceback" not in program.bytes


def assert_removed(program: Terminal, folder: Path) -> None:
    """The demo's folder is gone, and that is what is said."""
    assert b"The demo's folder was removed." in program.bytes
    assert b"Resume with:" not in program.bytes
    assert list(folder.glob("tui-agent-*")) == []


@pytest.mark.parametrize("size", sampled([(80, 24), (120, 40)], 1), ids=["80x24", "120x40"])
async def test_the_demo_from_start_to_exit_by_keys_alone(tmp_path: Path, size: tuple[int, int]) -> None:
    workspace = tmp_path / "kept"
    async with started(tmp_path, "--demo", "-C", str(workspace), size=size) as program:
        await program.wait_for_text("Find the bug", LONG)
        await program.wait_for_text("you are asked before a file changes", LONG)
        program.type(F1)
        await program.wait_for_text("While it works", LONG)
        program.type(ESC)
        await program.wait_for_text(lambda: "While it works" not in program.text, LONG)
        await program.wait_for_text("Find the bug", LONG)
        program.type("\r")
        await decide(program, *ASKED)
        await program.wait_for_text(DONE, LONG)
        counting = (workspace / "wordcount" / "counting.py").read_text(encoding="utf-8")
        assert ".casefold()" in counting or ".lower()" in counting
        program.type(F4)
        await program.wait_for_text("✓ 3 Run", LONG)
        program.type(UP)
        program.type(DOWN)
        program.type("/quit")  # the first letter goes back to the composer
        await program.wait_for_text("/quit ", LONG)
        program.type("\r")
        await end(program)
        name = session_id(program)
    async with started(tmp_path, "--resume", name, size=size) as program:  # as it was said
        await program.wait_for_dialog("Trust this folder?", LONG)
        program.type("r")
        await program.wait_for_text(partial(gone, program, "Trust this folder?"), LONG)
        await program.wait_for_text(DONE, LONG)
        program.type("\x04")
        await end(program)
        assert session_id(program) == name


async def test_a_refused_edit_is_not_made_and_the_reason_goes_to_the_model(tmp_path: Path) -> None:
    async with started(tmp_path, "--demo") as program:
        await program.wait_for_text("Find the bug", LONG)
        program.type("\r")
        await decide(program, PLAN)
        await program.wait_for_dialog("Edit wordcount/counting.py", LONG)
        (workspace,) = tmp_path.glob("tui-agent-demo-*")
        before = (workspace / "wordcount" / "counting.py").read_bytes()
        program.type("r")
        await program.wait_for_text("enter rejects", LONG)
        program.type("as it was, please")
        await program.wait_for_text("as it was, please", LONG)
        program.type("\r")
        await program.wait_for_text(lambda: "enter rejects" not in program.text, LONG)
        await program.wait_for_text("refused", LONG)
        program.type(ESC)
        for _again in range(AGAIN):
            if await program.occurs(lambda: "enter send" in program.text, 2):
                break
            program.type(ESC)  # one may only leave a summary that has come meanwhile
        else:
            raise AssertionError(program.text)
        program.type("\x03")
        await program.wait_for_text("again quits", LONG)
        assert (workspace / "wordcount" / "counting.py").read_bytes() == before
        program.type("\x03")
        await end(program)
        assert_removed(program, tmp_path)


async def test_without_a_server_f2_leads_to_the_demo(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    flags = ["-C", str(work), "--trust", "--base-url", "http://127.0.0.1:9/v1", "--provider", "openai"]
    async with started(tmp_path, *flags, "--model", "none") as program:
        await program.wait_for_text("F2 demo", LONG)
        for _again in range(AGAIN):  # keys are not accepted at once
            program.type(F2)
            if await program.occurs(lambda: "Enter starts the demo" in program.text, 2):
                break
        await program.wait_for_text("Enter starts the demo", LONG)
        await program.wait_for_text("Find the bug", LONG)
        await program.wait_for_text("tui-agent-demo-", LONG)
        program.type("\r")
        await decide(program, PLAN)
        await program.wait_for_dialog("Edit wordcount/counting.py", LONG)
        program.type(ESC)
        await program.wait_for_text("■ Stopped", LONG)
        program.type("\x04")
        await end(program)
        assert_removed(program, tmp_path)
        assert list(work.iterdir()) == []


async def test_keys_typed_before_the_session_is_open_are_not_lost(tmp_path: Path) -> None:
    async with started(tmp_path, "--demo") as program:
        await program.wait_for_text("Find the bug", LONG)
        program.type(" Be quick.\r")
        await program.wait_for_text("Be quick.", LONG)
        await decide(program, PLAN)
        await program.wait_for_dialog("Edit wordcount/counting.py", LONG)
        program.type(ESC)
        await program.wait_for_text("■ Stopped", LONG)
        program.type("\x04")
        await end(program)
        assert_removed(program, tmp_path)
