from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import COMMAND, make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.engine.staging import (
    DIAGNOSE,
    DISPATCHER,
    PLANNING,
    VERIFY,
    classified_as,
    plan_reply,
    plan_step,
    request_roles,
    requests_of_role,
    run_agent,
    side_reply,
    step_reply,
    summarized,
)
from tui_agent.events import PlanProposed, ReasoningDelta, ReplyEnded, RequestClassified
from tui_agent.mock_server.replies import ServedModel

TASK = "mend the adder"
LOOK = "Look at the module"
MEND = step_reply(
    "Mend the sign",
    step("", call("read_file", path="adder.py")),
    step("", call("edit_file", path="adder.py", old_string="a - b", new_string="a + b")),
    "Mended.",
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


def job() -> list[dict[str, Any]]:
    return [
        classified_as(),
        plan_reply(
            plan_step(LOOK, expected_outcome="the fault is known"),
            plan_step("Mend the sign", "edit_file"),
            check=COMMAND,
        ),
        side_reply(VERIFY, {"met": True, "evidence": "it was read"}),
        summarized(),
        step_reply(LOOK, step("", call("read_file", path="adder.py")), "It subtracts."),
        MEND,
    ]


def whole(request: Any) -> str:
    """A request in the order in which a server reads it."""
    rows = [json.dumps(request.body.get("tools"))]
    rows += [f"{one['role']}: {one['content']}{one.get('tool_calls', '')}" for one in request.messages]
    return "\n".join(rows)


def alike(one: str, other: str) -> int:
    """With how many characters both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


@pytest.mark.parametrize("provider", ["openai", "ollama"])
async def test_all_requests_for_a_message_begin_with_the_same_bytes(workspace: Path, provider: str) -> None:
    async with serve(*job(), strict=True) as server:
        _, ended, _ = await run_agent(server, workspace, TASK, provider=provider)
    assert ended.outcome == "done", ended.text
    roles = request_roles(server)
    assert {"dispatcher", "planning", "verify", "summary", "execution"} == set(roles)
    requests = server.requests
    assert len({str(one.messages[0]) for one in requests}) == 1
    assert len({json.dumps(one.body.get("tools")) for one in requests}) == 1 and requests[0].body["tools"]
    assert not [one for one in requests if "format" in one.body or "response_format" in one.body]
    texts = [whole(one) for one in requests]
    for role, before, text in zip(roles[1:], texts, texts[1:], strict=False):
        kept = alike(before, text)
        task = text.find("<agent_task>")
        if role != "execution":
            assert kept >= 0.9 * task, (role, text[kept : kept + 200])
    for one in requests:
        assert str(one.messages).count("<agent_task>") <= 1
        assert str(one.messages).count(TASK) >= 1


async def test_with_calls_as_text_the_tools_stand_in_the_system_text_and_the_form_is_demanded(workspace: Path) -> None:
    plain = ServedModel(name="mock-model", capabilities=("completion",))
    said = scenario(TASK, '{"response": "Nothing."}')
    async with serve(classified_as(complexity="simple"), said, models=[plain], strict=True) as server:
        await run_agent(server, workspace, TASK, provider="ollama")
    (sorting,) = requests_of_role(server, "dispatcher")
    assert "tools" not in sorting.body and sorting.body["format"]["required"][0] == "intent"
    assert str(sorting.messages[0]) == str(requests_of_role(server, "execution")[0].messages[0])
    assert "read_file" in str(sorting.messages[0])


async def test_a_tool_call_instead_of_an_answer_is_none(workspace: Path) -> None:
    async with serve(
        {**side_reply(DISPATCHER), "steps": [step("I look.", call("read_file", path="adder.py"))]},
        {**side_reply(PLANNING), "steps": [step("", call("read_file", path="adder.py"))]},
        summarized(),
        scenario(TASK, step("", call("read_file", path="adder.py")), "It subtracts."),
    ) as server:
        watch, _, _ = await run_agent(server, workspace, TASK)
    assert watch.of(RequestClassified)[0].classified.guessed
    assert watch.of(PlanProposed)[0].fallback
    again = requests_of_role(server, "planning")[1].messages
    assert "can't be carried out" in str(again[-1]["content"])


async def test_thoughts_inside_an_answer_are_no_terminal_control(workspace: Path) -> None:
    given = json.dumps({"intent": "answer", "needs_write": False, "task_type": "coding", "complexity": "simple"})
    async with serve(
        side_reply(DISPATCHER, f"<think>wipe \x1b[2J the \x1b]0;title\x07 screen</think>{given}"),
        scenario(TASK, "No."),
        summarized(),
    ) as server:
        watch, _, _ = await run_agent(server, workspace, TASK)
    thoughts = [one.text for one in watch.of(ReasoningDelta)] + [one.thought for one in watch.of(ReplyEnded)]
    assert "wipe" in "".join(thoughts) and not any(char in "".join(thoughts) for char in "\x1b\x07\x9b")


async def test_where_the_conversation_does_not_fit_the_question_stands_alone(workspace: Path) -> None:
    flags = {"context_window": 2_048}
    async with serve(classified_as(complexity="simple"), scenario(TASK, "Nothing.")) as server:
        await run_agent(server, workspace, TASK + ", please" * 250, provider="ollama", flags=flags)
    sorting = server.requests[0]
    assert str(sorting.messages[0]["content"]).startswith(DISPATCHER)
    assert "tools" not in sorting.body and sorting.body["format"]


async def test_another_model_is_asked_alone(workspace: Path) -> None:
    async with serve(*job(), strict=True, models=("mock-model", "planner")) as server:
        await run_agent(server, workspace, TASK, flags={"roles": {"planning": "planner"}})
    (planning,) = requests_of_role(server, "planning")
    assert "<agent_task>" not in str(planning.messages)
    assert "tools" not in planning.body
    assert "<agent_task>" in str(requests_of_role(server, "summary")[0].messages)


async def test_a_diagnosis_and_the_plan_after_it_know_the_conversation(workspace: Path) -> None:
    failing = call("run_terminal_command", command="no-such-program")
    async with serve(
        classified_as(),
        side_reply(PLANNING, "I know no other way.", trigger="What failed, and why"),
        plan_reply(plan_step("Call it", "run_terminal_command", critical=True)),
        side_reply(DIAGNOSE, {"cause": "it is missing", "prerequisite": "", "strategy": "another way"}),
        summarized(),
        step_reply("Call it", step("", failing), "It is missing."),
    ) as server:
        await run_agent(server, workspace, TASK)
    asked = [*requests_of_role(server, "diagnose"), *requests_of_role(server, "planning")[1:]]
    assert len(asked) == 3
    for one in asked:
        assert str(one.messages[0]) == str(server.requests[0].messages[0])
        assert "Call it: failed" in str(one.messages) and "no-such-program" in str(one.messages)


async def test_whoever_sorts_and_plans_knows_what_was_said_before(workspace: Path) -> None:
    offer = "The adder subtracts. Shall I turn the sign?"
    async with serve(
        side_reply(
            DISPATCHER, {"intent": "analyze", "needs_write": False, "complexity": "simple"}, trigger="What is wrong"
        ),
        classified_as(),
        plan_reply(plan_step("Mend the sign", "edit_file")),
        summarized(),
        scenario("What is wrong", offer),
        MEND,
    ) as server:
        async with run_session(server, workspace, flags={"mode": "agent"}) as session:
            watch = SessionDriver(session)
            for text in ("What is wrong with the adder?", "Yes, do that."):
                await session.send(text)
                await watch.ended()
    asked = [requests_of_role(server, "dispatcher")[1], *requests_of_role(server, "planning")]
    assert len(asked) == 2
    for one in asked:
        told = [(message["role"], str(message["content"])) for message in one.messages]
        assert ("assistant", offer) in told
        assert told[-1][1].startswith("Yes, do that.")
