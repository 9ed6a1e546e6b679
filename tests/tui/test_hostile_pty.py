from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import hostile
from tests.doubles.job import environment
from tests.doubles.mock import MockServer, call, scenario, scenarios, step
from tests.doubles.terminal import Terminal
from tests.nightly import sampled
from tui_agent.mock_server.replies import ServedModel
from tui_agent.text import clean, reveal
from tui_agent.text.json_values import repair_surrogates
from tui_agent.tui.driver import BACKGROUND_QUERY

LONG = 60.0
TASK = "show me all of it"
MODEL = "m\x1b]0;pwned\x07[/]"
TITLE = b"pwned\x07"
SAID = hostile.hostile_texts(1000, 4)
THOUGHT = hostile.hostile_texts(100, 5)
PRINTED = hostile.hostile_texts(100, 6)
NAMES = hostile.hostile_texts(60, 7)
ASKED = hostile.hostile_texts(40, 8)
PART = 250
"""Strings in one reply."""

LOST = re.compile("[\u200d\u200e\u200f\ufe0f]")
"""Joiners and bidirectional marks: the emulator (pyte) drops the rest of the text after one, so it can't be looked for."""

PAGE_UP, DETAILS, LEAVE = "\x1b[5~", "\x0f", "\x04"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def talk() -> dict[str, Any]:
    parts = ["~~~~~~text\n" + "\n".join(SAID[at : at + PART]) + "\n~~~~~~\n" for at in range(0, 1000, PART)]
    given = iter(ASKED)
    steps = [
        step(parts[0], call("run_terminal_command", command="cat hostile.txt"), thinking=lines(THOUGHT[:50])),
        step(parts[1], call("list_files", path="named"), thinking=lines(THOUGHT[50:])),
        step(parts[2], call("read_file", path=next(given))),
        step("", call("search_workspace", query=next(given), glob=next(given))),
        step("", call(next(given), **{next(given): next(given)})),
        step("", call("run_terminal_command", command=f"echo 'x' {next(given)}", cwd=next(given))),
        step("", call("edit_file", path="hostile.txt", old_string=next(given), new_string=next(given))),
        step(parts[3] + "\nthat was all"),
    ]
    return scenario(TASK, *steps)


def lines(given: list[str]) -> str:
    return "\n\n".join(given)


def serve(given: dict[str, Any]) -> MockServer:
    return MockServer(scenarios(given), models=[ServedModel(name=MODEL, context_length=200_000)])


def make_workspace(folder: Path) -> Path:
    (folder / "named").mkdir(parents=True)
    (folder / "hostile.txt").write_bytes("\n".join(PRINTED).encode("utf-8", "surrogatepass"))
    for one in NAMES:
        name = one.replace("/", "_").replace("\x00", "_").encode("utf-8", "surrogatepass")
        (Path(os.fsdecode(bytes(folder / "named") + b"/" + name[:200]))).touch()
    return folder


def flags(workspace: Path, url: str) -> list[str]:
    server = ["--provider", "openai", "--base-url", f"{url}/v1", "--model", MODEL]
    return ["-m", "tui_agent", "-C", str(workspace), "--trust", *server]


@asynccontextmanager
async def started(folder: Path, url: str, *args: str, size: tuple[int, int]) -> AsyncIterator[Terminal]:
    home = folder / "home"
    home.mkdir()
    arguments = flags(make_workspace(folder / "work [@click=app.quit]x\x1b]0;pwned\x07"), url)
    env = environment(home, COLORTERM="truecolor", TUI_AGENT_NOTIFICATIONS="off")  # no bell of our own
    program = Terminal(*arguments, *args, env=env, whole_env=True, cwd=home, size=size)
    try:
        await program.wait_for_text("Ask for a change", LONG)
        program.type(TASK)
        await program.wait_for_text(TASK, LONG)
        program.type("\r")
        yield program
        program.type(LEAVE)
        assert await program.end(LONG) == 0
        assert foreign(program.bytes) == ""
        assert TITLE not in program.bytes
    finally:
        program.close()


def foreign(data: bytes) -> str:
    asked = data.decode("utf-8", "surrogateescape").replace(BACKGROUND_QUERY, "", 1)
    return hostile.find_forbidden(asked)


def bare(text: str) -> str:
    """What looks the same in any width: letters, digits and signs, without the blanks and borders of a screen."""
    return re.sub(r"[^\x21-\x7e]", "", unicodedata.normalize("NFC", text))


def missing(given: list[str], shown: str) -> list[str]:
    """Which of the given strings do not stand in `shown` as a reader should see them."""
    shown = bare(shown)
    return [ascii(one) for one in given if bare(reveal(clean(repair_surrogates(one)), start=False)) not in shown]


def assert_only_text(text: str) -> None:
    if found := re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", text):
        raise AssertionError(ascii(text[max(0, found.start() - 60) : found.end() + 20]))


def chat_log(folder: Path) -> str:
    (path,) = folder.rglob("chat_history.log")
    return path.read_bytes().decode("utf-8", "surrogateescape")


async def pages(program: Terminal) -> str:
    """All of the transcript, looked at from its end to its beginning."""
    found: list[str] = []
    while not found or program.text != found[0]:
        found.insert(0, program.text)
        await painted(program, PAGE_UP)
    return "".join(found)


async def painted(program: Terminal, keys: str) -> None:
    """Press keys, and wait for what they change; where that is nothing, for as long as a busy machine may take."""
    before = program.text
    program.type(keys)
    await program.occurs(lambda: program.text != before, 5.0)
    await program.wait_until_quiet(0.3)


async def test_on_a_terminal_no_byte_of_others_is_obeyed_and_all_is_shown(tmp_path: Path) -> None:
    async with serve(talk()) as server, started(tmp_path, server.url, size=(95, 220)) as program:
        await program.wait_for_text("that was all", LONG)
        await program.wait_for_text("· Done · ", LONG)
        await painted(program, DETAILS)
        shown = await pages(program)
        given = [one for one in SAID + THOUGHT + PRINTED if not LOST.search(one)]
        assert missing(given, shown) == []
    log = chat_log(tmp_path / "home")
    assert_only_text(log)
    assert missing(SAID + PRINTED, log) == []


@pytest.mark.parametrize("seed", sampled(range(3), 1))
async def test_what_a_server_says_in_an_error_is_text(tmp_path: Path, seed: int) -> None:
    given = hostile.hostile_texts(20, 200 + seed)
    body = {"error": {"message": "\n".join(given), "type": "x"}}
    never = step("never", fault={"kind": "status", "status": 400, "body": body})
    async with serve(scenario(TASK, never)) as server, started(tmp_path, server.url, size=(95, 60)) as program:
        await program.wait_for_text("✗", LONG)
        await program.wait_until_quiet(0.5)
        assert missing(given[:1], program.text) == []
    assert_only_text(chat_log(tmp_path / "home"))


async def test_plain_output_of_a_headless_run_is_text_and_all_of_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with serve(talk()) as server:
        arguments = flags(make_workspace(tmp_path / "work"), server.url)
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "tui_agent", "exec", TASK, *arguments[2:]],
            cwd=home,
            env=environment(home),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
    assert process.returncode == 0, err
    assert_only_text(err.decode("utf-8"))
    assert_only_text(out.decode("utf-8"))
    assert missing(SAID[:-PART], err.decode("utf-8")) == [] and missing(SAID[-PART:], out.decode("utf-8")) == []
    assert_only_text(chat_log(home))
    assert missing(SAID + PRINTED, chat_log(home)) == []
    (journal,) = home.rglob("events.jsonl")
    ended = [json.loads(one) for one in journal.read_bytes().split(b"\n") if b'"reply.ended"' in one]
    names = [one["name"] for record in ended for one in record["data"]["calls"]]
    assert len(names) == 7
    assert_only_text("".join(names))
