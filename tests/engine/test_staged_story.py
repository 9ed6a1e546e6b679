"""Seed 004's story: a repository shall be fetched and looked at, and the first way to it needs a login."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tui_agent
from tests.doubles.mock import call, serve, step
from tests.engine.staging import classified_as, plan_reply, plan_step, run_agent, step_reply, summarized
from tui_agent.events import RunEnded, StepFinished, StepRecoveryStarted, StepVerified, ToolFinished

TASK = "Clone the repository at https://example.org/someone/thing and review the README"
LOGIN = "#!/bin/sh\necho 'To get started, please run: login. authentication required (HTTP 401)' >&2\nexit 4\n"
FETCH = "sh ./fetch repo clone someone/thing"
pytestmark = pytest.mark.needs("git")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    (place / "fetch").write_text(LOGIN)
    source = tmp_path / "thing.git"
    source.mkdir()
    (source / "README.md").write_text("# The thing\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *who, *words], cwd=source, check=True)
    return place


def the_plan(**more: Any) -> dict[str, Any]:
    return plan_reply(
        plan_step(
            "Fetch the repository and read its README",
            "run_terminal_command",
            error_handling="if it asks for a login, take the address that needs none",
            critical=True,
            **more,
        ),
        check="test -f thing/README.md",
        prerequisites=["a login, or an address that needs none"],
    )


async def test_a_login_that_is_missing_is_gone_around_within_three_rounds(workspace: Path) -> None:
    other_way = "git clone -q ../thing.git thing && cat thing/README.md"
    fetching = step_reply(
        "Fetch the repository",
        step("", call("run_terminal_command", command=FETCH)),
        step("It wants a login; I take the other address.", call("run_terminal_command", command=other_way)),
        "The README names it The thing.",
    )
    async with serve(classified_as("mixed", "moderate"), the_plan(), summarized(), fetching, strict=True) as server:
        watch, ended, _ = await run_agent(server, workspace, TASK)
    failed = watch.of(ToolFinished)[0]
    assert not failed.result.success and "authentication" in failed.text
    assert ended.outcome == "done" and ended.iterations <= 3, ended
    assert watch.of(StepVerified)[-1].command and watch.of(StepVerified)[-1].met
    assert (workspace / "thing" / "README.md").exists()
    said = str([one.messages for one in server.requests])
    assert "If that fails: if it asks for a login" in said


async def test_a_model_that_gives_up_is_sent_the_other_way_with_what_failed(workspace: Path) -> None:
    gives_up = step_reply(
        "Fetch the repository", step("", call("run_terminal_command", command=FETCH)), "It wants a login."
    )
    goes_on = step_reply(
        "Do this instead", step("", call("run_terminal_command", command="git clone -q ../thing.git thing")), "Got it."
    )
    async with serve(classified_as(), the_plan(), summarized(), goes_on, gives_up, strict=True) as server:
        watch, ended, _ = await run_agent(server, workspace, TASK)
    (recovering,) = watch.of(StepRecoveryStarted)
    assert recovering.by == "fallback" and recovering.error_class == "authentication"
    assert [one.outcome for one in watch.of(StepFinished)] == ["done", "done"]
    assert isinstance(ended, RunEnded) and ended.outcome == "done"


def test_the_code_knows_nothing_of_this_task() -> None:
    root = Path(tui_agent.__file__).parent
    telling = re.compile(r"git clone|gh repo|gh auth|forgekeeper|clone (the|and) re|github\.com/\w", re.IGNORECASE)
    for path in root.rglob("*"):
        if path.suffix in (".py", ".md", ".json"):
            assert not telling.search(path.read_text(encoding="utf-8")), path
