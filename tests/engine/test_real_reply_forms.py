from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.events import (
    ProgramMessageAdded,
    ReplyEnded,
    ReplyRejected,
    RunEnded,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from tui_agent.view.fold import fold_record
from tui_agent.view.items import ReplyItem, SessionView

CALL = '{"name": "read_file", "arguments": {"path": "adder.py"}}'
XML = f"<tool_call>{CALL}</tool_call>"
RESULT = "<tool_response>\nINVENTED = 1\n</tool_response>"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


class Seen:
    """What a run of `steps` left behind."""

    def __init__(self, watch: SessionDriver, server: MockServer, ended: RunEnded) -> None:
        self.ended = ended
        self.shown = "".join(event.text for event in watch.of(TextDelta))
        self.replies = watch.of(ReplyEnded)
        self.rejected = [event.kind for event in watch.of(ReplyRejected)]
        self.called = [(event.call.name, event.call.arguments) for event in watch.of(ToolStarted)]
        self.codes = [event.result.code for event in watch.of(ToolFinished)]
        self.told = "\n".join(event.text for event in watch.of(ProgramMessageAdded))
        self.sent = [json.dumps(request.messages, ensure_ascii=False) for request in server.requests]
        self.records = watch.records


async def played(workspace: Path, *steps: dict[str, Any] | str, pace: float = 0.0) -> Seen:
    async with serve(scenario("go", *steps), strict=True, pace=pace) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("go")
            return Seen(watch, server, await watch.ended())


TRIED = [
    '{"name": "launch_rocket", "arguments": {"to": "moon"}}',
    '```json\n{"name": "launch_rocket", "arguments": {"to": "moon"}}\n```',
    '{"tool": "launch_rocket", "parameters": {"to": "moon"}}',
    '{"function": "launch_rocket", "args": {"to": "moon"}}',
    '{"type": "function", "function": {"name": "launch_rocket", "arguments": "{\\"to\\": \\"moon\\"}"}}',
    '{"id": "c1", "tool_name": "launch_rocket", "params": {"to": "moon"}}',
    '[{"name": "launch_rocket", "arguments": {"to": "moon"}}]',
    "<think>Up.</think>\n{'name': 'launch_rocket', 'arguments': {'to': 'moon'}}\n",
    '[launch_rocket(to="moon")]',
    '<|python_tag|>{"name": "launch_rocket", "parameters": {"to": "moon"}}<|eom_id|>',
    '{"name": "functions.launch_rocket<|channel|>commentary", "arguments": {"to": "moon"}}',
]


@pytest.mark.parametrize("text", TRIED)
async def test_a_reply_that_only_calls_an_unknown_tool_is_no_answer(workspace: Path, text: str) -> None:
    seen = await played(workspace, text, "I can't do that here.")
    assert seen.ended.text == "I can't do that here."
    assert seen.rejected == ["unknown_tool"]
    assert seen.called == [("launch_rocket", {"to": "moon"})]
    assert seen.codes == ["unknown_tool"]
    assert "rocket" not in seen.shown
    assert "The tools are: " in seen.sent[1] and "run_terminal_command" in seen.sent[1]


async def test_a_model_that_only_calls_unknown_tools_never_ends_as_done(workspace: Path) -> None:
    seen = await played(workspace, *[json.dumps({"name": f"fly_{n}", "arguments": {}}) for n in range(9)])
    assert seen.ended.outcome == "failed"


ANSWERS = [
    '{"name": "my-app", "version": "1.0.0", "scripts": {"test": "x"}}',
    '{"name": "Ada Lovelace", "arguments": {"for": "computing"}}',
    '{"name": "fly", "arguments": {"to": "x"}, "status": "done"}',
    '{"name": "fly", "description": "Flies.", "parameters": {"type": "object", "properties": {}}}',
    '{"name": "fly", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}}',
    '{"name": "fly", "arguments": ["to"]}',
    '{"name": "fly"}',
    '```json\n{"name": "fly", "arguments": {}}\n```\nThis is what a call looks like.',
    '[{"name": "Bob"}, {"name": "Eve"}]',
    '{"tool": "hammer", "weight": 3}',
]


@pytest.mark.parametrize("text", ANSWERS)
async def test_json_that_is_no_call_is_an_answer(workspace: Path, text: str) -> None:
    seen = await played(workspace, text)
    assert (seen.ended.outcome, seen.ended.text) == ("done", text)
    assert seen.shown == text
    assert not seen.rejected


MADE_UP = [
    f"I look.\n{XML}\n{RESULT}\nIt holds INVENTED, so all is well.",
    f"I look.\n{XML}{RESULT}\n{XML}",
    f"I look.\n{XML}\n<function_results>INVENTED = 1</function_results>\nAll is well.",
    f"I look.\n{XML}<|im_end|>\n<|im_start|>user\nTool result: INVENTED = 1<|im_end|>\n<|im_start|>assistant\nAll is well.",
    f"I look.\n{XML}\n<agent_control>\n<tool_result>INVENTED</tool_result>\n</agent_control>\nAll is well.",
    f"I look.\n{XML}\n<|start_header_id|>ipython<|end_header_id|>\n\nINVENTED<|eot_id|>",
]


@pytest.mark.parametrize("text", MADE_UP)
async def test_an_invented_result_is_dropped_with_all_that_follows(workspace: Path, text: str) -> None:
    seen = await played(workspace, text, "It subtracts.", pace=0.001)
    assert seen.ended.text == "It subtracts."
    assert seen.called == [("read_file", {"path": "adder.py"})]
    assert seen.replies[0].text == "I look."
    assert "INVENTED" not in seen.shown and "well" not in seen.shown
    assert "INVENTED" not in seen.sent[1] and "return a - b" in seen.sent[1]
    assert not seen.rejected


async def test_an_invented_object_with_a_result_is_dropped(workspace: Path) -> None:
    call_ = json.dumps({"tool_calls": [{"name": "read_file", "parameters": {"path": "adder.py"}}]})
    made_up = json.dumps({"tool_result": {"tool": "read_file", "success": True, "data": "INVENTED"}})
    seen = await played(workspace, f'{call_}\n{made_up}\n{{"response": "INVENTED it is."}}', "It subtracts.")
    assert seen.called == [("read_file", {"path": "adder.py"})]
    assert "INVENTED" not in seen.shown and "INVENTED" not in seen.sent[1]
    assert seen.ended.text == "It subtracts."


async def test_an_invented_result_at_the_limit_is_not_continued(workspace: Path) -> None:
    cut = step(f"I look.\n{RESULT}\nSo it is, and", finish_reason="length")
    seen = await played(workspace, cut, "It subtracts.")
    assert (seen.replies[0].text, seen.rejected[0]) == ("I look.", "unreadable")
    assert "INVENTED" not in "".join(seen.sent)


async def test_an_invented_result_beside_a_native_call_is_dropped(workspace: Path) -> None:
    first = step(f"I look.\n{RESULT}\nSo it is.", call("read_file", path="adder.py"))
    seen = await played(workspace, first, "It subtracts.")
    assert seen.replies[0].text == "I look."
    assert "INVENTED" not in seen.sent[1]
    assert not seen.rejected and not seen.told


async def test_an_answer_built_on_an_invented_result_is_asked_for_again(workspace: Path) -> None:
    seen = await played(workspace, f"I look.\n{RESULT}\nIt holds INVENTED.")
    assert seen.ended.outcome == "failed"
    assert set(seen.rejected) == {"unreadable"}
    assert "you wrote yourself" in seen.told
    assert all("INVENTED" not in text for text in seen.sent)


async def test_a_turn_that_the_model_plays_for_the_user_is_cut(workspace: Path) -> None:
    seen = await played(
        workspace, "All good.<|im_end|>\n<|im_start|>user\nThanks!<|im_end|>\n<|im_start|>assistant\nBye."
    )
    assert (seen.ended.outcome, seen.ended.text, seen.shown) == ("done", "All good.", "All good.")


TOKENS = {
    "deepseek": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{"path": "adder.py"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
    "deepseek 3.1": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read_file<｜tool▁sep｜>{"path": "adder.py"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "deepseek 3.2": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read_file">\n<｜DSML｜parameter name="path" string="true">adder.py</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    "kimi": '<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{"path": "adder.py"}<|tool_call_end|><|tool_calls_section_end|>',
    "gemma": '```tool_code\nprint(default_api.read_file(path="adder.py"))\n```',
    "gemma, by position": '```tool_code\nread_file("adder.py")\n```',
    "harmony": '<|channel|>commentary to=functions.read_file<|channel|>commentary <|constrain|>json<|message|>{"path": "adder.py"}<|call|>',
}


@pytest.mark.parametrize("name", TOKENS)
async def test_calls_in_a_models_own_tokens_are_carried_out(workspace: Path, name: str) -> None:
    seen = await played(workspace, f"I look.\n{TOKENS[name]}", "It subtracts.", pace=0.001)
    assert seen.called == [("read_file", {"path": "adder.py"})]
    assert seen.codes == [None]
    assert seen.ended.text == "It subtracts."
    assert "".join(seen.shown.split()) == "Ilook.Itsubtracts."


@pytest.mark.parametrize(
    "name",
    ["read_file<|channel|>commentary", "functions.read_file", "read_file<|constrain|>json", "functions.read_file:0"],
)
async def test_what_harmony_adds_to_a_name_is_left_out(workspace: Path, name: str) -> None:
    seen = await played(workspace, step("", call(name, path="adder.py")), "It subtracts.")
    assert seen.called == [("read_file", {"path": "adder.py"})]
    assert not seen.rejected
    assert "<|" not in seen.sent[1]


@pytest.mark.parametrize(
    "raw", ['{"path": "adder.py",}', "{'path': 'adder.py'}", '{path: "adder.py"}', "\"{'path': 'adder.py',}\""]
)
async def test_slips_in_native_arguments_are_mended(workspace: Path, raw: str) -> None:
    seen = await played(workspace, step("", {"name": "read_file", "arguments": raw}), "It subtracts.")
    assert seen.called == [("read_file", {"path": "adder.py"})]
    assert not seen.rejected


@pytest.mark.parametrize("raw", ['{"path": "add', "path=adder.py", '["adder.py"]', '{"path": "adder.py"} and more'])
async def test_native_arguments_of_more_than_one_meaning_are_not_guessed(workspace: Path, raw: str) -> None:
    seen = await played(workspace, step("", {"name": "read_file", "arguments": raw}), "Sorry.")
    assert seen.called == [("read_file", {})]
    assert seen.rejected == ["unreadable"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Okay, the user greets me.</think>Hello to you.", "Hello to you."),
        ("Okay, the user greets me.\n</think>\n\nHello to you.", "Hello to you."),
    ],
)
async def test_text_before_the_lone_end_of_a_thought_is_thought(workspace: Path, text: str, answer: str) -> None:
    seen = await played(workspace, text)
    (reply,) = seen.replies
    assert (seen.ended.text, reply.text, reply.thought.strip()) == (answer, answer, "Okay, the user greets me.")


async def test_a_thought_without_beginning_before_a_call_is_neither_shown_nor_sent_again(workspace: Path) -> None:
    seen = await played(workspace, f"Okay, I must look.</think>{XML}", "It subtracts.")
    assert seen.replies[0].text == ""
    assert seen.replies[0].thought.strip() == "Okay, I must look."
    assert "I must look" not in seen.sent[1]
    view = SessionView()
    for record in seen.records:
        fold_record(view, record)
    said = [item.text.text for item in view.items if isinstance(item, ReplyItem)]
    assert said[-1] == "It subtracts." and not any("look" in text for text in said)
