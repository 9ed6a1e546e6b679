from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import MockServer, SequenceResponder, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common import paths
from tui_agent.common.domain import Answer, EditAction
from tui_agent.events import (
    ApprovalRequested,
    CompletionRefused,
    Event,
    PlanProposed,
    ProtocolChanged,
    RunEnded,
    StepFinished,
    ToolStarted,
)

CALC = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
GOOD = CALC.replace("a - b", "a + b")
TESTS = (
    "import unittest\n\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
)
ASK = "Fix the bug in calc.py."


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    (folder / "calc.py").write_text(CALC)
    (folder / "test_calc.py").write_text(TESTS)
    return folder


def strategy(name: str) -> None:
    paths.models_file().parent.mkdir(parents=True, exist_ok=True)
    models = {"models": {"mock-model": {"options": {"strategy": name}}}}
    paths.models_file().write_text(json.dumps(models))


def shows(text: str, name: str = "calc.py") -> str:
    return f"Here it is.\n\n{name}\n```python\n{text}```\n"


async def works(
    workspace: Path, text: str, *replies: Any, mode: str = "direct", approval: str = "auto", **more: Any
) -> tuple[SessionDriver, RunEnded, MockServer]:
    strategy("files")
    answer = more.pop("answer", None)
    async with MockServer(SequenceResponder(*replies), strict=True) as server:
        flags = {"mode": mode, "approval_mode": approval}
        async with run_session(server, workspace, flags=flags, **more) as session:
            watch = SessionDriver(session, answer)
            await session.send(text)
            ended = await watch.ended()
            await session.wait()
    return watch, ended, server


def titles(watch: SessionDriver) -> list[str]:
    return [event.title for event in watch.of(ToolStarted)]


async def test_properties_that_the_request_states_are_tried_without_a_question(workspace: Path) -> None:
    bad = 'def slugify(title):\n    return title.strip().lower().replace(" ", "-")\n'
    good = 'import re\n\n\ndef slugify(title):\n    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")\n'
    request = "Create slug.py with a function slugify(title): lower case, words joined by single hyphens."
    (workspace / "test_calc.py").unlink()
    watch, ended, _ = await works(workspace, request, shows(bad, "slug.py"), shows(good, "slug.py"))
    assert ended.outcome == "done", ended
    assert not watch.of(ApprovalRequested)
    assert ["single hyphens" in event.why for event in watch.of(CompletionRefused)] == [True]


async def test_the_program_shows_the_files_writes_the_reply_and_runs_the_tests(workspace: Path) -> None:
    watch, ended, server = await works(workspace, ASK, shows(GOOD))
    assert ended.outcome == "done" and (workspace / "calc.py").read_text() == GOOD
    assert ended.said == "Here it is." and ended.facts.startswith("Changed: calc.py. Passed: `python3 -B")
    assert titles(watch)[-2:] == ["calc.py", "python3 -B -m unittest test_calc"]
    (request,) = server.requests
    assert "tools" not in request.body and "format" not in request.body
    shown = str(request.messages)
    assert "return a - b" in shown and "fails" in shown and shown.index("return a - b") < shown.index(ASK)


async def test_what_fails_goes_back_and_what_never_passes_is_not_done(workspace: Path) -> None:
    worse = CALC.replace("a - b", "a / b")
    watch, ended, _ = await works(workspace, ASK, shows(worse), shows(GOOD))
    assert ended.outcome == "done" and len(watch.of(CompletionRefused)) == 1
    (workspace / "calc.py").write_text(CALC)
    _, ended, server = await works(workspace, ASK, *[shows(CALC.replace("a - b", f"a - b - {n}")) for n in range(9)])
    assert ended.outcome == "failed" and "Not done after 6 tries" in ended.text and len(server.requests) == 6


async def test_words_are_no_change_and_an_answer_is_one(workspace: Path) -> None:
    _, ended, _ = await works(workspace, ASK, *["I have fixed the bug and all tests pass."] * 9)
    assert ended.outcome == "failed" and (workspace / "calc.py").read_text() == CALC
    _, ended, server = await works(workspace, "What does add do? Change nothing.", shows(GOOD))
    assert ended.outcome == "done" and (workspace / "calc.py").read_text() == CALC
    assert len(server.requests) == 1


async def test_a_change_that_is_not_allowed_ends_the_run(workspace: Path) -> None:
    def no(event: Event) -> Answer:
        refused = isinstance(event, ApprovalRequested) and isinstance(event.action, EditAction)
        return Answer(verdict="reject" if refused else "approve", text="not so")

    _, ended, _ = await works(workspace, ASK, shows(GOOD), approval="ask", answer=no)
    assert ended.outcome == "refused" and "not so" in ended.text
    assert (workspace / "calc.py").read_text() == CALC


async def test_a_list_of_things_to_do_is_a_plan(workspace: Path) -> None:
    (workspace / "README.md").write_text("# Calc\n")
    text = "Do this:\n1. Fix the bug in calc.py.\n2. Add a section '## Use' to README.md."
    section = shows("# Calc\n\n## Use\n\nImport it.\n", "README.md")
    watch, ended, _ = await works(workspace, text, shows(GOOD), section, mode="agent")
    (plan,) = watch.of(PlanProposed)
    assert [step.description for step in plan.plan.steps] == [
        "Fix the bug in calc.py.", "Add a section '## Use' to README.md."
    ]  # fmt: skip
    assert [event.outcome for event in watch.of(StepFinished)] == ["done", "done"]
    assert ended.outcome == "done" and "## Use" in (workspace / "README.md").read_text()


async def test_in_agent_mode_the_program_sorts_and_sums_up(workspace: Path) -> None:
    _, ended, server = await works(workspace, ASK, shows(GOOD), mode="agent")
    assert ended.outcome == "done" and len(server.requests) == 1


async def test_a_run_that_calls_nothing_goes_on_with_files(workspace: Path) -> None:
    strategy("native")
    (paths.models_file()).unlink()
    replies = [*["It is fixed."] * 3, shows(GOOD)]
    async with MockServer(SequenceResponder(*replies), strict=True) as server:
        async with run_session(server, workspace, flags={"approval_mode": "auto"}) as session:
            watch = SessionDriver(session)
            await session.send(ASK)
            ended = await watch.ended()
    assert [event.protocol for event in watch.of(ProtocolChanged)] == ["files"]
    assert ended.outcome == "done" and (workspace / "calc.py").read_text() == GOOD
    assert "tools" in server.requests[0].body and "tools" not in server.requests[-1].body


async def test_to_look_or_to_test_is_no_change(workspace: Path) -> None:
    (workspace / "test_calc.py").unlink()
    (workspace / "main.py").write_text("print(1)\n")
    for command in ("ls", "python3 main.py"):
        _, ended, _ = await works(workspace, ASK, *[f"Run it:\n```sh\n{command}\n```"] * 9)
        assert ended.outcome == "failed" and (workspace / "calc.py").read_text() == CALC


async def test_a_command_that_only_shows_something_leaves_a_request_for_a_change_undone(workspace: Path) -> None:
    strategy("native")
    (workspace / "test_calc.py").write_text("import unittest\n")
    for command in ("ls", "python3 -m unittest test_calc"):
        looks = step("", call("run_terminal_command", command=command))
        async with serve(scenario("", looks, *["All done."] * 9), strict=True) as server:
            async with run_session(server, workspace, flags={"approval_mode": "auto"}) as session:
                watch = SessionDriver(session)
                await session.send(ASK)
                ended = await watch.ended()
        assert ended.outcome == "failed" and "Nothing was changed" in ended.text
