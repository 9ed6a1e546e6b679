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
from tests.doubles.planted import ALL_SECRETS_TEXT, BY_VARIABLE, SECRETS, find_leaks, find_leaks_in, secret_parts
from tests.doubles.terminal import Terminal
from tests.frontends.test_exec import ExecRunner, server_flags

EXACT = ("events.jsonl", "blobs")
"""Files that contain secrets by design and are private (A7)."""
TOKEN = BY_VARIABLE["LLM_AUTH_TOKEN"]
SHOW_COMMAND = f"echo {TOKEN} && cat planted.txt && echo {SECRETS['github']}"
ENVIRONMENT_SCRIPT = "import os\nfor name in os.environ:\n    print(name, os.environ[name], sep='=')\n"
PRINT_COMMAND = (
    "python3 -u -c \"import sys; [sys.stdout.write(c) or sys.stdout.flush() for c in open('planted.txt').read()]\""
)


def talk() -> dict[str, Any]:
    """The model says, thinks, runs, writes and fails with all of them."""
    return scenario(
        "go",
        step(ALL_SECRETS_TEXT, call("read_file", path="planted.txt"), thinking=ALL_SECRETS_TEXT),
        step("", call("run_terminal_command", command=SHOW_COMMAND)),
        step("", call("run_terminal_command", command="python3 show.py")),
        step("", call("run_terminal_command", command=PRINT_COMMAND)),
        step("", call("write_file", path="new.txt", content=ALL_SECRETS_TEXT + "\n")),
        step("", call("read_file", path=f"missing-{SECRETS['gitlab']}")),
        step("", call("read_fil", nonsense=ALL_SECRETS_TEXT)),
        step("", call("read_file", path="new.txt")),
        "the last of it:\n" + ALL_SECRETS_TEXT,
    )


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[ExecRunner]:
    runner = ExecRunner(tmp_path)
    (runner.workspace / "test_adder.py").unlink()
    (runner.workspace / "show.py").write_text(ENVIRONMENT_SCRIPT)
    (runner.workspace / "planted.txt").write_text(ALL_SECRETS_TEXT + "\n", encoding="utf-8")
    yield runner
    await runner.close()


async def test_exec_prints_and_keeps_no_secret(run: ExecRunner) -> None:
    async with serve(talk(), token=TOKEN) as server:
        flags = server_flags(server, "openai")
        result = await run.process(
            "go", "--trust", "--approve", "all", *flags, stdin=b"", **BY_VARIABLE, TUI_AGENT_DEBUG="true"
        )
        requests = json.dumps([request.messages for request in server.requests])
    assert result.code == 0, result.err
    assert "the last of it" in result.out and "⟨secret GitHub token, 40 characters⟩" in result.out
    assert find_leaks(result.out) == [] and find_leaks(result.err) == []
    assert find_leaks_in(run.home, *EXACT) == {}
    for file in (run.session() / "events.jsonl", *run.session().glob("blobs/*/*")):
        assert "github" in find_leaks(file.read_text(encoding="utf-8"))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (run.workspace / "new.txt").read_text(encoding="utf-8") == ALL_SECRETS_TEXT + "\n"
    for name in BY_VARIABLE:
        assert f"{name}=" not in requests, "in the environment of a command"
    assert "HOME=" in requests


async def test_json_lines_are_masked_and_the_journal_is_exact(run: ExecRunner) -> None:
    async with serve(talk(), token=TOKEN) as server:
        flags = (*server_flags(server, "openai"), "--json", "--approve", "all")
        result = await run("go", *flags, stdin=b"", **BY_VARIABLE)
    assert result.code == 0, result.err
    assert find_leaks(result.out) == [] and "⟨secret GitHub token, 40 characters⟩" in result.out
    assert {record["type"] for record in result.records} >= {"tool.started", "tool.finished", "approval.answered"}
    (ended,) = [reply for reply in result.of("reply.ended") if "the last of it" in reply["text"]]
    assert "⟨secret" in ended["text"]
    assert "github" in find_leaks((run.session() / "events.jsonl").read_text(encoding="utf-8"))
    assert find_leaks_in(run.home, *EXACT) == {}


async def test_an_edited_answer_to_a_masked_request_keeps_the_secret(run: ExecRunner) -> None:
    lines = [f"key = '{SECRETS['github']}'", "one"]
    write = scenario("go", step("", call("write_file", path="new.txt", content="\n".join(lines) + "\n")), "done")

    async def answered(text: str) -> str:
        (run.workspace / "new.txt").unlink(missing_ok=True)
        answer = {"verdict": "approve", "data": {"hunks": [0], "edits": {"0": text}}}
        async with serve(write, token=TOKEN) as server:
            flags = (*server_flags(server, "openai"), "--json", "--answers")
            result = await run("go", *flags, stdin=json.dumps(answer).encode() + b"\n", **BY_VARIABLE)
        assert find_leaks(result.out) == []
        return result.err

    assert await answered("key = '⟨secret GitHub token, 40 characters⟩'\ntwo") == ""
    assert (run.workspace / "new.txt").read_text() == f"{lines[0]}\ntwo\n"
    assert "an answer was not used: it contains a masked secret" in await answered("key = '⟨secret other⟩'\ntwo")
    assert not (run.workspace / "new.txt").exists()


def visible_text(bytes_: bytes) -> str:
    """Everything written to the screen, without control sequences, blanks and frames."""
    text = re.sub(
        r"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)", "", bytes_.decode("utf-8", "replace")
    )
    return re.sub(r"[^!-~À-ÿ]", "", text)


def secrets_on_screen(bytes_: bytes) -> list[str]:
    text = visible_text(bytes_)
    names = []
    for name, secret in SECRETS.items():
        compact = [re.sub(r"[^!-~À-ÿ]", "", part) for part in secret_parts(secret)]
        pieces = [part[at : at + 12] for part in compact for at in range(0, len(part) - 11, 6)]
        if any(piece in text for piece in pieces if "PRIVATE" not in piece and "-----" not in piece):
            names.append(name)
    return names


@pytest.mark.timeout(240)
async def test_the_screen_never_shows_one_live_or_resumed(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    workspace.mkdir()
    (workspace / "planted.txt").write_text(ALL_SECRETS_TEXT + "\n", encoding="utf-8")
    (workspace / "show.py").write_text(ENVIRONMENT_SCRIPT)
    async with serve(talk(), token=TOKEN) as server:
        env = environment(home, LLM_BASE_URL=f"{server.url}/v1", TUI_AGENT_MODEL="mock-model", **BY_VARIABLE)
        arguments = ("-m", "tui_agent", "-C", str(workspace), "--trust")
        screen = Terminal(*arguments, env=env, whole_env=True, cwd=home, size=(100, 80))
        try:
            await screen.wait_for_text("folder", 90)
            screen.type("go\r")
            for title in ("Run a command", "Run a command", "Create new.txt"):
                await screen.wait_for_text(title, 90)
                await screen.wait_for_text(lambda: screen.accepts_keys, 90)
                screen.type("a")
                await screen.wait_for_text(lambda: not screen.accepts_keys, 90)
            await screen.wait_for_text("Done ·", 90)  # while the agent works, ctrl+d asks for a second one
            screen.type("\x04")
            assert await screen.end(90) == 0
            assert secrets_on_screen(screen.bytes) == []
            resumed = Terminal(*arguments, "--continue", env=env, whole_env=True, cwd=home, size=(100, 80))
            screen.close()
            screen = resumed
            await screen.wait_for_text("Session resumed", 90)
            screen.type("\x04")
            assert await screen.end(90) == 0
            assert secrets_on_screen(screen.bytes) == []
            assert "⟨secret" in screen.bytes.decode("utf-8", "replace")
        finally:
            screen.close()
    assert find_leaks_in(home, *EXACT) == {}
