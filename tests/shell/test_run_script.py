from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.waiting import wait_for, within_timeout
from tui_agent.common.domain import CommandOutcome
from tui_agent.platform import supervisor
from tui_agent.platform.proc import Stage
from tui_agent.shell.safe_commands import SafeStep, run_script, safe_script


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    return tmp_path.resolve()


async def run(command: str, work: Path) -> CommandOutcome:
    found = safe_script(command, work, [work])
    assert found is not None
    return await run_script(found, cwd=work, timeout=30)


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("cat a.txt", "one\ntwo\nthree", 0),
        ("cat a.txt | grep t | wc -l", "2", 0),
        ("true && echo yes || echo no", "yes", 0),
        ("false && echo yes || echo no", "no", 0),
        ("false && echo a && echo b; echo c", "c", 0),
        ("true || echo a || echo b", "", 0),
        ("echo a; false", "a", 1),
        ("cat missing 2>/dev/null || echo gone", "gone", 0),
        ("cat a.txt >/dev/null; echo x", "x", 0),
        ("cat missing &>/dev/null", "", 1),
        ("false | true", "", 0),
        ("true | false", "", 1),
        ("echo 'a  b' c\\ d \"e'f\"", "a  b c d e'f", 0),
        ("ls *.txt", "a.txt", 0),
        ("cat", "", 0),
        ("grep -c e a.txt; grep nothing a.txt", "2", 1),
    ],
)
async def test_operators_pipes_and_redirections(work: Path, command: str, output: str, code: int) -> None:
    outcome = await run(command, work)
    assert (outcome.output, outcome.exit_code, outcome.cwd) == (output, code, str(work))


async def test_no_shell_is_used(work: Path) -> None:
    outcome = await run("echo '$(touch x)' '`touch x`' '; touch x' \"*\"", work)
    assert outcome.output == "$(touch x) `touch x` ; touch x *"
    assert not (work / "x").exists()


async def test_the_environment_is_minimal(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{work}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(work))
    monkeypatch.setenv("GREP_OPTIONS", "-v")
    env = (SafeStep(operator="", pipeline=(Stage(program="/usr/bin/env", argv=("env",)),)),)
    outcome = await run_script(env, cwd=work, timeout=30)
    names = {line.split("=")[0] for line in outcome.output.splitlines()}
    assert names <= {"PATH", "TERM", "TZ", "LANG"} | {name for name in names if name.startswith("LC_")}
    assert "PATH=/usr/local/bin:/usr/bin:/bin" in outcome.output.splitlines()


async def test_timeout_covers_all_steps(work: Path) -> None:
    slow = Stage(program="/bin/sleep", argv=("sleep", "300"))
    echo = Stage(program="/bin/echo", argv=("echo", "x"))
    steps = (
        SafeStep(operator="", pipeline=(echo,)),
        SafeStep(operator=";", pipeline=(slow,)),
        SafeStep(operator=";", pipeline=(echo,)),
    )
    outcome = await within_timeout(run_script(steps, cwd=work, timeout=1))
    assert outcome.timed_out and outcome.exit_code is None and outcome.output == "x" and "1 s" in outcome.note


async def test_cancelling_kills(work: Path) -> None:
    before = set(supervisor.descendants(os.getpid()))
    slow = Stage(program="/bin/sleep", argv=("sleep", "300"))
    running = asyncio.create_task(run_script((SafeStep(operator="", pipeline=(slow,)),), cwd=work, timeout=60))

    def new() -> set[int]:
        return set(supervisor.descendants(os.getpid())) - before

    await wait_for(lambda: len(new()) >= 2)
    started = new()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await wait_for(lambda: not started & set(supervisor.process_table()))


async def test_missing_program_has_the_exit_code_of_a_shell(work: Path) -> None:
    gone = (SafeStep(operator="", pipeline=(Stage(program="/no/program", argv=("program",)),)),)
    outcome = await run_script(gone, cwd=work, timeout=30)
    assert outcome.exit_code == 127 and "program: " in outcome.output
