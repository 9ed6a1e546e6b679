from __future__ import annotations

import json

from tui_agent.common.domain import AssistantMessage, ProgramMessage, ToolCall, ToolMessage, UserMessage
from tui_agent.protocols.parser import parse_reply
from tui_agent.protocols.rendering import render_messages, reply_format, system_section
from tui_agent.protocols.segments import Segmenter
from tui_agent.tools.registry import default_tools

SPECS = default_tools().specs()


def test_aliases_of_tools_and_arguments_count() -> None:
    (call,) = parse_reply('{"name": "WriteFile", "arguments": {"file_path": "a", "text": "x"}}', SPECS).calls
    assert call.name == "write_file"
    (call,) = parse_reply('{"tool": "read_file", "filename": "a"}', SPECS).calls
    assert call.arguments == {"filename": "a"}


def test_bare_json_must_fit() -> None:
    parsed = parse_reply('{"name": "write_file", "arguments": {"path": "a"}}', SPECS)
    assert parsed.calls == ()
    assert "content" in parsed.error
    assert parse_reply('{"name": "list_files", "license": "MIT"}', SPECS).calls == ()
    assert parse_reply('{"name": "read_file", "path": "a", "version": 3}', SPECS).calls == ()


def test_markup_is_judged_by_the_registry() -> None:
    (call,) = parse_reply('<tool_call>{"name": "write_file", "arguments": {"path": "a"}}</tool_call>', SPECS).calls
    assert call.arguments == {"path": "a"}


def test_text_for_the_only_required_argument() -> None:
    (call,) = parse_reply('{"name": "run_terminal_command", "arguments": "ls -la"}', SPECS).calls
    assert call.arguments == {"command": "ls -la"}


def test_done_question_and_signals() -> None:
    assert parse_reply('{"done": true, "response": "x"}', SPECS).done
    assert parse_reply("Done. [TASK_COMPLETE]", SPECS).done
    assert parse_reply("<think>[TASK_COMPLETE]</think>", SPECS).done
    assert parse_reply('{"request_approval": {"question": "Which?"}}', SPECS).question == "Which?"
    assert not parse_reply(
        '{"name": "write_file", "arguments": {"path": "a", "content": "[TASK_COMPLETE]"}}', SPECS
    ).done


HISTORY = (
    UserMessage(text="Go."),
    AssistantMessage(
        text="Reading.",
        calls=(
            ToolCall(id="1", name="read_file", arguments={"path": "a"}),
            ToolCall(id="2", name="run_terminal_command", arguments={"command": "ls"}),
        ),
        reasoning="hm",
    ),
    ToolMessage(call_id="1", name="read_file", text="one"),
    ToolMessage(call_id="2", name="run_terminal_command", text="no", success=False),
    AssistantMessage(text="Done."),
)


def test_json_history() -> None:
    user, reply, results, answer = render_messages("json", HISTORY)
    assert user == HISTORY[0]
    assert isinstance(reply, AssistantMessage)
    assert not reply.calls
    assert not reply.reasoning
    again = parse_reply(reply.text, SPECS, protocol="json")
    assert [(call.name, call.recovered) for call in again.calls] == [
        ("read_file", False),
        ("run_terminal_command", False),
    ]
    assert isinstance(results, ProgramMessage)
    lines = [json.loads(line)["tool_result"] for line in results.text.splitlines()[1:-1]]
    assert lines == [
        {"tool": "read_file", "success": True, "data": "one"},
        {"tool": "run_terminal_command", "success": False, "error": "no"},
    ]
    assert answer == AssistantMessage(text='{"response": "Done."}')


def test_json_replies_that_only_call_are_json_alone() -> None:
    call = ToolCall(id="1", name="read_file", arguments={"path": "a"})
    (reply,) = render_messages("json", (AssistantMessage(text="", calls=(call,)),))
    assert json.loads(reply.text) == {"tool_calls": [{"name": "read_file", "parameters": {"path": "a"}}]}


def test_xml_history() -> None:
    _, reply, results, answer = render_messages("xml", HISTORY)
    assert isinstance(reply, AssistantMessage)
    assert reply.text.splitlines()[-1] == "[called: read_file, run_terminal_command]"
    assert len(parse_reply(reply.text, SPECS, protocol="xml").calls) == 2
    assert isinstance(results, ProgramMessage)
    assert results.text.startswith("<agent_control>")
    assert results.text.index("one") < results.text.index("no\n")
    assert answer == HISTORY[-1]


def test_the_format_names_every_tool() -> None:
    text = json.dumps(reply_format(SPECS))
    assert all(spec.name in text for spec in SPECS)
    assert all(spec.name in system_section("json", SPECS) for spec in SPECS)
    assert all(spec.name in system_section("xml", SPECS) for spec in SPECS)


def split(text: str, size: int) -> list[tuple[str, str]]:
    segmenter = Segmenter(detect_invented=False)
    found = [piece for at in range(0, len(text), size) for piece in segmenter.feed(text[at : at + size])]
    found += segmenter.finish()
    return [
        ("thought", "".join(piece.raw for piece in found if piece.kind == "thought")),
        ("text", "".join(piece.raw for piece in found if piece.is_text)),
    ]


def test_thoughts_are_split_from_text() -> None:
    for size in (1, 2, 3, 7, 100):
        assert split("<think>one</think>two", size) == [("thought", "one"), ("text", "two")]
        assert split("<thinking>one\n</thinking>\ntwo", size) == [("thought", "one\n"), ("text", "\ntwo")]
        assert split("<think>never closed", size) == [("thought", "never closed"), ("text", "")]
        assert split("<think>cut </thi", size) == [("thought", "cut "), ("text", "")]
        call = '<tool_call>{"name": "write_file", "arguments": {"content": "<think>x</think>"}}</tool_call>'
        assert split(call, size) == [("thought", ""), ("text", call)]


def test_a_thought_that_was_never_opened_is_told() -> None:
    segmenter = Segmenter(detect_invented=False)
    pieces = [*segmenter.feed("hm\n</think>\nyes"), *segmenter.finish()]
    assert "".join(piece.raw for piece in pieces if piece.is_text) == "hm\n\nyes"
    assert [piece.kind for piece in pieces].count("unopened") == 1
