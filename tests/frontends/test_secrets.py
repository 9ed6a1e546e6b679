from __future__ import annotations

import json
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import environment
from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.planted import NAMED, SECRETS, TEXT, leaked, leaked_in, parts
from tests.doubles.terminal import Terminal
from tests.frontends.test_exec import Exec, server_flags

EXACT = ("events.jsonl", "blobs")
"""Exact by decision, and private (A7)."""
TOKEN = NAMED["LLM_AUTH_TOKEN"]
SHOWN = f"echo {TOKEN} && cat planted.txt && echo {SECRETS['github']} && env"
PRINTS = "python3 -u -c \"import sys; [sys.stdout.write(c) or sys.stdout.flush() for c in open('planted.txt').read()]\""


def talk() -> dict[str, Any]:
    """The model says, thinks, runs, writes and fails with all of them."""
    return scenario(
        "go",
        step(TEXT, call("read_file", path="planted.txt"), thinking=TEXT),
        step("", call("run_terminal_command", command=SHOWN)),
        step("", call("run_terminal_command", command=PRINTS)),
        step("", call("write_file", path="new.txt", content=TEXT + "\n")),
        step("", call("read_file", path=f"missing-{SECRETS['gitlab']}")),
        step("", call("read_fil", nonsense=TEXT)),
        step("", call("read_file", path="new.txt")),
        "the last of it:\n" + TEXT,
    )


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Exec]:
    one = Exec(tmp_path)
    (one.workspace / "test_adder.py").unlink()
    (one.workspace / "planted.txt").write_text(TEXT + "\n", encoding="utf-8")
    yield one
    await one.close()


async def test_exec_prints_and_keeps_no_secret(run: Exec) -> None:
    async with serve(talk(), token=TOKEN) as server:
        flags = server_flags(server, "openai")
        ran = await run.process("go", "--trust", "--approve", "all", *flags, stdin=b"", **NAMED, TUI_AGENT_DEBUG="true")
        asked = json.dumps([request.messages for request in server.requests])
    assert ran.code == 0, ran.err
    assert "the last of it" in ran.out and "⟨secret GitHub token, 40 characters⟩" in ran.out
    assert leaked(ran.out) == [] and leaked(ran.err) == []
    assert leaked_in(run.home, *EXACT) == {}
    for found in (run.session() / "events.jsonl", *run.session().glob("blobs/*/*")):
        assert "github" in leaked(found.read_text(encoding="utf-8"))
        assert stat.S_IMODE(found.stat().st_mode) == 0o600
    assert (run.workspace / "new.txt").read_text(encoding="utf-8") == TEXT + "\n"
    for name in NAMED:
        assert f"{name}=" not in asked, "a command's environment holds it"


async def test_exec_with_json_is_exact(run: Exec) -> None:
    async with serve(scenario("go", TEXT), token=TOKEN) as server:
        ran = await run("go", "--json", *server_flags(server, "openai"), stdin=b"", **NAMED)
    assert ran.code == 0, ran.err
    (ended,) = [one for one in ran.of("reply.ended") if not one.get("role")]
    assert ended["text"] == TEXT
    assert leaked_in(run.home, *EXACT) == {}


def seen(bytes_: bytes) -> str:
    """All that was ever painted, without control sequences, blanks and frames."""
    text = re.sub(
        r"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)", "", bytes_.decode("utf-8", "replace")
    )
    return re.sub(r"[^!-~À-ÿ]", "", text)


def painted(bytes_: bytes) -> list[str]:
    text = seen(bytes_)
    found = []
    for name, secret in SECRETS.items():
        tight = [re.sub(r"[^!-~À-ÿ]", "", part) for part in parts(secret)]
        pieces = [part[at : at + 12] for part in tight for at in range(0, len(part) - 11, 6)]
        if any(piece in text for piece in pieces if "PRIVATE" not in piece and "-----" not in piece):
            found.append(name)
    return found


@pytest.mark.timeout(240)
async def test_the_screen_never_shows_one_live_or_resumed(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    workspace.mkdir()
    (workspace / "planted.txt").write_text(TEXT + "\n", encoding="utf-8")
    async with serve(talk(), token=TOKEN) as server:
        env = environment(home, LLM_BASE_URL=f"{server.url}/v1", TUI_AGENT_MODEL="mock-model", **NAMED)
        arguments = ("-m", "tui_agent", "-C", str(workspace), "--trust")
        screen = Terminal(*arguments, env=env, whole_env=True, cwd=home, size=(100, 80))
        try:
            await screen.sees("folder", 90)
            screen.type("go\r")
            for title in ("Run a command", "Run a command", "Create new.txt"):
                await screen.sees(title, 90)
                await screen.sees(lambda: screen.listens, 90)
                screen.type("a")
                await screen.sees(lambda: not screen.listens, 90)
            await screen.sees("Done ·", 90)  # while the agent works, ctrl+d asks for a second one
            screen.type("\x04")
            assert await screen.end(90) == 0
            assert painted(screen.bytes) == []
            again = Terminal(*arguments, "--continue", env=env, whole_env=True, cwd=home, size=(100, 80))
            screen.close()
            screen = again
            await screen.sees("Session resumed", 90)
            screen.type("\x04")
            assert await screen.end(90) == 0
            assert painted(screen.bytes) == []
            assert "⟨secret" in screen.bytes.decode("utf-8", "replace")
        finally:
            screen.close()
    assert leaked_in(home, *EXACT) == {}
