from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.doubles.job import environment
from tests.doubles.terminal import Terminal
from tests.tui.shelf import DAY, HOUR, current_folder, saved_session
from tui_agent.common import paths
from tui_agent.storage import catalog

LONG = 90.0


async def typed(program: Terminal, command: str) -> None:
    program.type(command)
    await program.wait_for_text(command, LONG)
    program.type("\r")


LETTERS = "typed-while-one-session-gives-way-to-another"


async def goes_on(program: Terminal, answer: str) -> None:
    """Open the chosen session, and type on for as long as that takes: each letter is the new composer's."""
    program.type("\r" + LETTERS[:8])
    for letter in LETTERS[8:]:
        program.type(letter)
        await asyncio.sleep(0.03)  # a person who does not look
    await program.wait_for_text(answer, LONG)
    await program.wait_for_text("Session resumed", LONG)
    await program.wait_for_text(LETTERS, LONG)
    program.type("\x15")
    await program.wait_for_text(lambda: LETTERS not in program.text, LONG)


@pytest.mark.timeout(240)
async def test_from_the_list_into_one_session_and_on_into_others() -> None:
    now = time.time()
    saved_session("Export the table", ("export it", "The first answer."), ago=HOUR, now=now)
    other = saved_session("Mend the import", ("mend it", "The second answer."), ago=DAY, now=now)
    env = environment(paths.home_dir(), TUI_AGENT_HOME=str(paths.data_dir()))
    program = Terminal(
        "-m",
        "tui_agent",
        "--provider",
        "scripted",
        "--trust",
        "--resume",
        env=env,
        whole_env=True,
        cwd=current_folder(),
        size=(100, 30),
    )
    try:
        await program.wait_for_text("› export it", LONG)
        await goes_on(program, "The first answer.")
        await typed(program, "/sessions import")
        await program.wait_for_text("› mend it", LONG)
        await goes_on(program, "The second answer.")
        await typed(program, "/rename Another name")
        await program.wait_for_text("tui-agent · Another name", LONG)
        await typed(program, "/fork")
        program.type("\x1b[200~the paste begins\r!touch pwned\rin this one ")
        await program.wait_for_text(lambda: len(catalog.list_sessions(paths.data_dir())) == 3, LONG)
        await program.wait_for_text("This session is a fork of", LONG)
        program.type("and ends\r!touch pwned\rin that one\r\x1b[201~")
        await program.wait_for_text("in that one", LONG)
        await program.wait_until_quiet(0.5)
        assert "the paste begins" in program.text and "pwned" in program.text
        assert not (current_folder() / "pwned").exists()
        program.type("\x03")
        await program.wait_for_text("draft stashed", LONG)
        program.type("\x04")
        assert await program.end(LONG) == 0
    finally:
        program.close()
    left = re.findall(r"--resume (\S+)", program.bytes.decode())
    fork = next(one for one in catalog.list_sessions(paths.data_dir()) if one.parent)
    assert left == [fork.id]
    assert fork.parent == other.path.name
    assert catalog.read_entry(other.path).title == "Another name"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--resume"], "specify the session; `tui-agent sessions` lists them"),
        (["exec", "--resume"], "--resume needs the id of a session here"),
        (["--resume", "--continue"], "not allowed with"),
    ],
)
def test_a_list_needs_a_terminal(arguments: list[str], says: str, tmp_path: Path) -> None:
    env = environment(tmp_path)
    command = [sys.executable, "-m", "tui_agent", *arguments]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert says in done.stderr
