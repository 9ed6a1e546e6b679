from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doubles.mock import call, control_packet, scenario, scenarios, step
from tui_agent.common.domain import (
    AssistantMessage,
    Message,
    ProgramMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    program_text,
)
from tui_agent.models.scenario_matching import (
    ScriptConversation,
    choose_reply,
    fragments,
    from_messages,
    from_wire,
    user_text,
)
from tui_agent.models.scenarios import ScenarioError, convert_scenarios, load_scenarios, parse_scenarios

JOB = convert_scenarios(
    scenarios(
        scenario("fix", step("reading", call("read_file", path="a")), step("running", call("run")), "done"),
        scenario("chat", "hello"),
        default="lost",
    )
)


def wire(*messages: tuple[str, str], **more: Any) -> ScriptConversation:
    return from_wire({"messages": [{"role": role, "content": text} for role, text in messages], **more})


def said(conversation: ScriptConversation) -> str | None:
    return choose_reply(JOB, conversation).step.response.content


def test_step_is_the_number_of_tool_results_since_the_users_own_last_message():
    begun = (("user", "fix it"),)
    assert said(wire(*begun)) == "reading"
    assert said(wire(*begun, ("assistant", ""), ("tool", "r"))) == "running"
    assert said(wire(*begun, ("assistant", ""), ("tool", "r"), ("assistant", ""), ("tool", "r"))) == "done"
    assert said(wire(*begun, *[("tool", "r")] * 9)) == "done"
    assert said(wire(*begun, ("tool", "r"), ("user", "fix more"))) == "reading"


def test_last_message_of_the_user_decides_and_nothing_else_does():
    assert said(wire(("user", "fix it"), ("assistant", "ok"), ("user", "chat"))) == "hello"
    assert said(wire(("user", "other"), ("assistant", "fix"), ("system", "fix"))) == "lost"
    assert said(wire()) == "lost"


@pytest.mark.parametrize(
    "noise",
    [
        control_packet(state="need_tools", note="fix it"),
        control_packet(state="need_fixes", note="chat", inside=True),
        program_text("feedback", "The call failed; chat about it? fix it?"),
        program_text("context", "chat"),
        "<agent_control cut off",
    ],
)
def test_what_the_program_says_changes_no_choice(noise: str):
    history = [("user", "fix it"), ("assistant", ""), ("tool", "r"), ("assistant", ""), ("tool", "r")]
    for end in range(1, len(history) + 1):
        plain = choose_reply(JOB, wire(*history[:end]))
        for place in range(end + 1):
            noisy = [*history[:place], ("user", noise), *history[place:end]]
            assert choose_reply(JOB, wire(*noisy)) == plain


def test_results_inside_program_messages_count_one_each():
    packet = program_text("results", '{"tool_result": {"tool": "a"}}\n{ "tool_result": {"tool": "b"}}')
    assert choose_reply(JOB, wire(("user", "fix"), ("user", packet))).index == 2
    quoted = program_text("results", json.dumps({"tool_result": {"data": '{"tool_result": 1}'}}))
    assert choose_reply(JOB, wire(("user", "fix"), ("user", quoted))).index == 1


def test_users_words_are_found_beside_the_programs_in_one_message():
    assert user_text(program_text("context", "x") + "\n\nfix it") == "fix it"
    assert user_text("fix it\n\n" + program_text("context", "chat")) == "fix it"
    assert user_text(control_packet(note="n")) == ""
    assert user_text(control_packet(note="n", inside=True)) == ""
    assert user_text(control_packet(note="n", inside=True) + "\n\nfix it") == "fix it"
    assert user_text("fix it\n\n" + control_packet(note="n")) == "fix it"
    assert user_text("what is <agent_control>?") == "what is <agent_control>?"


def test_our_messages_and_the_wire_choose_the_same():
    messages: list[Message] = [
        SystemMessage(text="rules"),
        UserMessage(text="fix it"),
        AssistantMessage(calls=(ToolCall(id="c", name="read_file", arguments={}),)),
        ToolMessage(call_id="c", name="read_file", text="r"),
        ProgramMessage(text=control_packet()),
    ]
    assert choose_reply(JOB, from_messages(messages)).step.response.content == "running"


def test_when_chooses_by_model_system_and_tools():
    file = convert_scenarios(
        scenarios(
            scenario("", "title", when={"system": "TITLE"}),
            scenario("", "small", when={"model": "*-small"}),
            scenario("", "calls", when={"tools": True}),
            scenario("", "none", when={"tools": False}),
        )
    )

    def answer(**request: Any) -> str | None:
        return choose_reply(
            file, wire(("system", request.pop("system", "")), ("user", "x"), **request)
        ).step.response.content

    assert answer(system="Write a TITLE.", model="a-small") == "title"
    assert answer(model="a-small", tools=[{}]) == "small"
    assert answer(model="a-small-b", tools=[{}]) == "calls"
    assert answer(tools=[]) == "none"


def test_triggers_may_be_several_and_ignore_case():
    file = convert_scenarios(scenarios(scenario(["Hello", "moin"], "yes", ignore_case=True)))
    assert choose_reply(file, wire(("user", "HELLO you"))).step.response.content == "yes"
    assert choose_reply(file, wire(("user", "moin"))).step.response.content == "yes"
    assert choose_reply(file, wire(("user", "bye"))).scenario == ""


def test_variant_replaces_the_response_by_the_latest_result():
    steps = [step("a"), step("good", instead=[{"lacks": "OK", "response": {"content": "bad"}}])]
    file = convert_scenarios(scenarios(scenario("go", *steps)))
    assert choose_reply(file, wire(("user", "go"), ("tool", "OK"))).step.response.content == "good"
    assert choose_reply(file, wire(("user", "go"), ("tool", "OK"), ("tool", "boom"))).step.response.content == "bad"


def test_variant_follows_all_that_was_told_since_the_user_spoke_but_not_the_models_own_words():
    variants = [
        {"seen": ["Files changed", "ok"], "unseen": "refused", "response": {"content": "changed"}},
        {"seen": "refused", "response": {"content": "refused"}},
    ]
    file = convert_scenarios(scenarios(scenario("", step("nothing", instead=variants))))

    def answer(*messages: tuple[str, str]) -> str | None:
        return choose_reply(file, wire(*messages)).step.response.content

    assert answer(("user", "How it came: Files changed, ok")) == "changed"
    assert (
        answer(("user", "go"), ("tool", "ok"), ("user", "<agent_outcome>\nFiles changed</agent_outcome>")) == "changed"
    )
    assert answer(("user", "go"), ("tool", "Files changed, ok"), ("tool", "refused")) == "refused"
    assert answer(("user", "Files changed"), ("tool", "refused"), ("user", "ok")) == "nothing"
    assert answer(("user", "go"), ("assistant", "Files changed, ok. refused")) == "nothing"


def test_ids_of_calls_are_never_used_twice_in_a_conversation():
    file = convert_scenarios(scenarios(scenario("go", step("x", call("a"), call("a"), {"id": "mine", "name": "b"}))))
    first = choose_reply(file, wire(("user", "go")))
    assert [one.id for one in first.calls] == ["call_mock_1", "call_mock_2", "mine"]
    earlier = {"role": "assistant", "content": "", "tool_calls": [{"id": one.id} for one in first.calls]}
    again = choose_reply(file, from_wire({"messages": [{"role": "user", "content": "go"}, earlier]}))
    assert [one.id for one in again.calls] == ["call_mock_3", "call_mock_4", "mine_2"]


def test_arguments_may_be_text_or_object():
    nested = {"id": "1", "type": "function", "function": {"name": "a", "arguments": '{"x":  1}'}}
    file = convert_scenarios(scenarios(scenario("go", step("x", nested, call("b", y="ü"), {"name": "c"}))))
    assert [one.raw for one in choose_reply(file, wire(("user", "go"))).calls] == ['{"x":  1}', '{"y": "ü"}', "{}"]


def test_content_may_be_a_list_of_parts():
    parts = [{"type": "text", "text": "please"}, {"type": "image_url"}, {"type": "text", "text": "fix"}]
    assert said(from_wire({"messages": [{"role": "user", "content": parts}]})) == "reading"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"scenarios": [{"name": "a", "trigger": 3, "steps": [{}]}]}', "$.scenarios[0].trigger: Expected"),
        ('{"scenarios": [{"name": "a", "trigger": "x", "steps": []}]}', "$.scenarios[0].steps: "),
        ('{"scenarios": [{"name": "a", "steps": [{}]}]}', "missing required field `trigger`"),
        ('{"scenario": []}', "unknown field `scenario`"),
        ('{"scenarios": [\n{"name": "a",}]}', "line 2, column"),
        ("[]", "$: Expected `object`"),
        ('{"default_response": {"tool_calls": [{"id": "1"}]}}', "$.default_response.tool_calls[0]: a tool call needs"),
        ('{"scenarios": [{"name": "a", "trigger": "", "steps": [{"fault": {"kind": "x"}}]}]}', "unknown kind of fault"),
    ],
)
def test_errors_name_the_file_and_the_place(tmp_path: Path, text: str, place: str):
    file = tmp_path / "bad.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        load_scenarios(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert place in str(caught.value)


def test_missing_or_undecodable_file_is_a_clear_error(tmp_path: Path):
    with pytest.raises(ScenarioError, match=r"none\.json: can't be read: No such file"):
        load_scenarios(tmp_path / "none.json")
    with pytest.raises(ScenarioError, match="not valid JSON"):
        parse_scenarios(b"\xff\xfe\xfa", "x.json")
    with pytest.raises(ScenarioError, match="not valid JSON"):
        parse_scenarios("[" * 100_000, "x.json")


@given(st.text())
def test_fragments_joined_are_the_text(text: str):
    assert "".join(fragments(text)) == text
    assert all(fragments(text))


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=5),
        lambda v: (
            st.lists(v) | st.dictionaries(st.sampled_from(["messages", "role", "content", "tool_calls", "id"]), v)
        ),
        max_leaves=20,
    )
)
def test_any_request_body_can_be_answered(value: Any):
    body = value if isinstance(value, dict) else {"messages": value}
    choose_reply(JOB, from_wire(body))


def test_the_file_that_the_page_shows_does_what_it_says():
    page = (Path(__file__).resolve().parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")
    file = parse_scenarios(page.partition("```json\n")[2].partition("```")[0])
    assert choose_reply(file, wire(("user", "fix it"))).calls[0].name == "read_file"
    told = choose_reply(file, wire(("user", "fix it"), ("tool", "# TODO"))).step.response.content
    assert told == "There is something left to do."
