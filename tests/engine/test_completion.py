from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import FeedbackResponder, MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.engine.staging import classified_as, plan_reply, plan_step, run_agent, step_reply, summarized
from tests.lsp.kit import server_command
from tui_agent.common.domain import Answer
from tui_agent.engine.loop.completion import ends_with_question
from tui_agent.events import ApprovalRequested, CompletionRefused, Event, Notice

GOOD, BAD = "x = 1\n", "x = 1  # WRONG\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    return folder


def served(tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {
        "language_servers_on": True,
        "language_servers": {"python": server_command(tmp_path)},
        "timeouts.diagnostics": 60.0,
        "approval_mode": "auto-edit",
        **more,
    }


def write(text: str, path: str) -> dict[str, Any]:
    return call("write_file", path=path, content=text)


def left(watch: SessionDriver) -> list[str]:
    return [one.text for one in watch.of(Notice) if one.code == "run.errors_left"]


def breaks(name: str, *calls: dict[str, Any], claim: str, then: str = "") -> dict[str, Any]:
    """A message whose work breaks a file, and after a claim that is not accepted mends it, or says `then`."""
    file = f"{name}.py"
    rest = [then] if then else [step("", write(GOOD, file)), "Mended."]
    return scenario(name, *(step("", one) for one in calls), step("", write(BAD, file)), claim, *rest)


async def test_a_claim_is_checked_whatever_is_asked_behind_it_and_what_rules_refused(
    workspace: Path, tmp_path: Path
) -> None:
    endless = [step("", call("list_files", path=".")) for _ in range(5)]
    stories = (
        breaks("courtesy", claim="Done! Is there anything else you would like me to change?"),
        breaks("marked", claim="All done. [TASK_COMPLETE]\nShall I write a test for it?"),
        breaks("unattended", call("ask_user", question="How?"), claim="Done."),
        breaks("shut", call("run_subagent", task="look", title="Look"), claim="Done."),
        breaks("asks", claim="It is half done. Which of the two names do you want?", then="never"),
        breaks("stubborn", claim="Done.", then="It is done."),
        scenario("endless", step("", write(BAD, "endless.py")), *endless),
    )
    refused: dict[str, int] = {}
    async with MockServer(FeedbackResponder(*stories), strict=True) as server:
        flags = served(tmp_path, iterations={"direct": 5})
        async with run_session(server, workspace, flags=flags, attended=False) as session:
            watch = SessionDriver(session)
            for story in stories:
                before = len(watch.of(CompletionRefused))
                await session.send(story["name"])
                ended = await watch.ended()
                refused[story["name"]] = len(watch.of(CompletionRefused)) - before
    assert refused == {"courtesy": 1, "marked": 1, "unattended": 1, "shut": 1, "asks": 1, "stubborn": 1, "endless": 0}
    assert ended.outcome == "limit"
    for name in ("courtesy", "marked", "unattended", "shut"):
        assert (workspace / f"{name}.py").read_text("utf-8") == GOOD, name
    assert left(watch) == [
        f"The run ends with 1 error in changed files: {name}.py\n{name}.py:1: wrong: x = 1 # WRONG"
        for name in ("asks", "stubborn", "endless")
    ]


async def test_what_the_user_refused_is_no_reason_to_go_on_but_errors_are_told(workspace: Path, tmp_path: Path) -> None:
    story = breaks("no", claim="never", then="never")
    story["steps"][1:] = [step("", write(GOOD, "no.py")), step("Done then.")]

    def answer(event: Event) -> Answer:
        mends = isinstance(event, ApprovalRequested) and "WRONG" in str(event.action) and "-x = 1" in str(event)
        return Answer(verdict="reject" if mends else "approve")

    async with serve(story, strict=True) as server:
        async with run_session(server, workspace, flags=served(tmp_path, approval_mode="ask")) as session:
            watch = SessionDriver(session, answer)
            await session.send("no")
            await watch.ended()
    assert len(watch.of(ApprovalRequested)) == 2
    assert not watch.of(CompletionRefused)
    assert len(left(watch)) == 1


async def test_in_a_plan_a_claim_with_an_offer_behind_it_is_checked_too(workspace: Path, tmp_path: Path) -> None:
    given = (
        classified_as(),
        plan_reply(plan_step("Break it")),
        step_reply("Break it", step("", write(BAD, "new.py")), "Did it. [TASK_COMPLETE] Shall I go on?"),
        summarized(),
        scenario("", "It is meant so."),
    )
    async with serve(*given, strict=True) as server:
        watch, ended, _ = await run_agent(server, workspace, "do it", flags=served(tmp_path, plan_auto_approve=True))
    assert [one.why for one in watch.of(CompletionRefused)] == ["1 error in changed files: new.py"]
    assert ended.text == "It is meant so."
    assert len(left(watch)) == 1


async def test_work_that_was_not_done_is_no_answer_to_an_offer(workspace: Path) -> None:
    step_ = step_reply("Do it", "All set. [TASK_COMPLETE] Shall I go on?")
    given = (
        classified_as(),
        plan_reply(plan_step("Do it")),
        step_,
        summarized(),
        scenario("", "There is nothing to do."),
    )
    async with serve(*given, strict=True) as server:
        watch, _, _ = await run_agent(server, workspace, "do it", flags={"plan_auto_approve": True})
    why = [one.why for one in watch.of(CompletionRefused)]
    assert why.count("the request needs a change, and nothing was changed") == 2


@pytest.mark.parametrize(
    ("closing", "claimed", "asked"),
    [
        ("Which of the two do you want?", False, True),
        ("Shall I go on with the other file?", False, True),
        ("Done. Which file should I do next?", False, True),
        ("Which one?", True, False),
        ("It works now. Do you need anything else?", False, False),
        ("Fixed!\n\nDo you have any questions?", False, False),
        ("I renamed it. Does this look good to you?", False, False),
        ("Is there something else? It is done.", False, False),
        ("", False, False),
    ],
)
def test_a_question_is_told_from_an_offer(closing: str, claimed: bool, asked: bool) -> None:
    assert ends_with_question(closing, claimed) is asked
