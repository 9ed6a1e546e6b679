from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import FeedbackResponder, MockServer, call, scenario, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.checkpoints.snapshot import WorkspaceSnapshots, changes_between
from tui_agent.checkpoints.store import BlobStore
from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.engine.checks.project_checks import check_results, failed_check, is_inspection, is_test_run
from tui_agent.engine.host.command_watch import ignored_folders
from tui_agent.engine.loop.completion import claims_change
from tui_agent.events import RunEnded

RUN = "run_terminal_command"


@pytest.mark.parametrize(
    "command",
    ["ls -la", "cat a.py | grep x", "git status && git diff", "cd src && ls", "grep -n x *.py 2>/dev/null", "git branch -a"],
)  # fmt: skip
def test_inspections(command: str) -> None:
    assert is_inspection(command) and not is_test_run(command)


@pytest.mark.parametrize(
    "command",
    [
        "cat > a.py <<'EOF'\nx\nEOF",
        "echo x >> .gitignore",
        "printf x > f",
        "find . -name '*.pyc' -delete",
        "git branch topic",
        "ls; rm a.py",
        "cat a.py && sed -i s/a/b/ a.py",
        "find . -exec rm {} +",
        "sort -o a a",
    ],
)
def test_commands_that_are_no_inspections(command: str) -> None:
    assert not is_inspection(command)


@pytest.mark.parametrize(
    ("command", "is_test"),
    [
        ("python3 -m pytest -q", True),
        ("cd app && python3 test_calc.py", True),
        ("pytest | tail -5", True),
        ("npm test", True),
        ("pytest && git commit -am x", False),
        ("pytest > out.txt", False),
        ("python3 calc.py", False),
    ],
)
def test_test_runs(command: str, is_test: bool) -> None:
    assert is_test_run(command) is is_test


def ended(command: str, code: int = 0, said: str = "") -> tuple[ToolCall, ToolResult]:
    made = ToolCall(id=command, name=RUN, arguments={"command": command})
    if code == 0:
        return made, ToolResult(success=True, data=f"exit code 0\n{said}")
    if code < 0:
        return made, ToolResult(success=False, data=said, error="stopped after 60 s", code="timeout")
    return made, ToolResult(success=False, data=said, error=f"exit code {code}", code="exit")


def test_passing_tests_replace_failed_checks() -> None:
    assert failed_check([ended("python3 -m pytest", 1, "2 failed"), ended("python3 test_calc.py")]) is None
    assert failed_check([ended("python3 test_a.py", 1), ended("python3 test_b.py")]) is not None
    assert failed_check([ended("python3 -m unittest"), ended("python3 main.py", 1, "Traceback …")]) is not None
    assert failed_check([ended("python3 main.py", 1), ended("python3 -m unittest")]) is None


def test_commands_without_a_result_are_no_checks() -> None:
    missing = "/usr/bin/python3: No module named pytest"
    assert check_results([ended("python3 -m pytest", 1, missing)]) == {}
    assert check_results([ended("pytest", 5, "no tests ran in 0.01s")]) == {}
    assert check_results([ended("python3 server.py", -1)]) == {}
    assert failed_check([ended("pytest"), ended("pytest", -1)]) is not None


def test_a_requested_failure_is_no_failed_check() -> None:
    run = [ended("python3 div.py 1 0", 1, "cannot divide by zero")]
    assert failed_check(run, "python3 div.py 1 0 must end with exit status 1") is None
    assert failed_check(run, "Tidy div.py") is not None
    crash = [ended("python3 div.py 1 0", 1, "Traceback (most recent call last):\n…")]
    assert failed_check(crash, "python3 div.py 1 0 must end with exit status 1") is not None


def test_claims_of_a_change() -> None:
    for text in ("I have renamed the function.", "I've updated config.json", "It has been successfully added."):
        assert claims_change(text)
    for text in (
        "You can change it.",
        "I would rename it.",
        "The file was renamed in the last commit.",
        "I add 2 and 3.",
    ):
        assert not claims_change(text), text


def test_rewriting_the_same_content_is_no_change(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n")
    snapshots = WorkspaceSnapshots(BlobStore(tmp_path / "session"), ignored_folders)
    before = snapshots.take([tmp_path])
    file.unlink()
    file.write_text("x = 1\n")
    assert not changes_between(before, snapshots.take([tmp_path])).changed
    file.write_text("x = 2\n")
    assert changes_between(before, snapshots.take([tmp_path])).changed == (str(file),)


async def run(workspace: Path, request: str, *steps: Any, **files: str) -> RunEnded:
    for name, content in files.items():
        (workspace / f"{name}.py").write_text(content, encoding="utf-8")
    model = FeedbackResponder(scenario(request[:20], *steps))
    async with MockServer(model) as server, run_session(server, workspace) as session:
        watch = SessionDriver(session)
        await session.send(request)
        return await watch.ended()


def shell(command: str) -> Any:
    return step(None, call(RUN, command=command))


CALC = "def add(a, b):\n    return a - b\n"
unix = pytest.mark.skipif(sys.platform == "win32", reason="sed")


@unix
async def test_a_change_by_a_command_counts_and_so_does_its_failing_test(tmp_path: Path) -> None:
    test = "from calc import add\nassert add(2, 3) == 5, add(2, 3)\n"
    good = await run(tmp_path, "Fix the bug in calc.py.", shell("sed -i 's/a - b/a + b/' calc.py"), "Fixed.", calc=CALC)
    assert good.outcome == "done", good.text
    bad = await run(
        tmp_path,
        "Fix the bug in calc.py.",
        shell("sed -i 's/a . b/a * b/' calc.py"),
        shell("python3 test_calc.py"),
        *["All tests pass."] * 9,
        calc=CALC,
        test_calc=test,
    )
    assert bad.outcome == "failed", bad.text


@unix
@pytest.mark.parametrize(
    "command",
    ["python3 calc.py", "python3 -c 'print(1)'", "sed -i 's/nothing/x/' calc.py", "pip list", "mkdir -p x", "git add -A"],
)  # fmt: skip
async def test_a_command_without_effect_does_not_complete_a_change(tmp_path: Path, command: str) -> None:
    ended = await run(tmp_path, "Fix the bug in calc.py.", shell(command), *["Fixed."] * 9, calc=CALC)
    assert ended.outcome == "failed" and "nothing" in ended.text.lower()


@unix
@pytest.mark.parametrize(
    ("request_", "command"),
    [
        ("Create a folder called data.", "mkdir -p data"),
        ("Add *.log to .gitignore", "echo '*.log' >> .gitignore"),
        ("Delete all .tmp files", "find . -name '*.tmp' -delete"),
        ("Write a file notes.txt with the word hi", "cat > notes.txt <<'EOF'\nhi\nEOF"),
    ],
)
async def test_effects_outside_files_complete_a_request(tmp_path: Path, request_: str, command: str) -> None:
    (tmp_path / "old.tmp").write_text("x")
    ended = await run(tmp_path, request_, shell(command), "Done.")
    assert ended.outcome == "done", ended.text


async def test_a_claim_does_not_replace_a_requested_run(tmp_path: Path) -> None:
    request = "Run the tests and tell me whether they pass."
    hollow = await run(tmp_path, request, *["All tests pass."] * 9, test_calc="import calc\n", calc=CALC)
    assert hollow.outcome == "failed" and "Nothing was run" in hollow.text
    real = await run(tmp_path, request, shell("python3 -B test_calc.py"), "They pass.")
    assert real.outcome == "done", real.text
