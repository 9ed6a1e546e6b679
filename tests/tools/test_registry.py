from __future__ import annotations

import json
from typing import Any

import pytest

from tui_agent.common.domain import Mode, ToolCall, ToolResult
from tui_agent.tools.registry import Registry, default_tools


def parse(name: str, fault: str | None = None, /, **arguments: Any) -> Any:
    return default_tools().parse(ToolCall(id="1", name=name, arguments=arguments, fault=fault))


def error_of(name: str, fault: str | None = None, /, **arguments: Any) -> ToolResult:
    parsed = parse(name, fault, **arguments)
    assert isinstance(parsed, ToolResult) and not parsed.success
    return parsed


def test_all_tools_are_offered_with_descriptions_and_schemas() -> None:
    specs = default_tools().for_mode(Mode.DIRECT).specs()
    assert [spec.name for spec in specs][:7] == [
        "read_file",
        "write_file",
        "edit_file",
        "list_files",
        "search_workspace",
        "run_terminal_command",
        "ask_user",
    ]
    for spec in specs:
        assert spec.description and "\n" not in spec.description
        assert spec.parameters["type"] == "object"
        assert "title" not in json.dumps(spec.parameters)
        assert "$defs" not in json.dumps(spec.parameters)


def test_the_fixed_cost_of_all_tools_stays_small() -> None:
    sent = [
        {"type": "function", "function": {"name": s.name, "description": s.description, "parameters": s.parameters}}
        for s in default_tools().for_mode(Mode.DIRECT).specs()
    ]
    assert len(json.dumps(sent)) / 4 <= 900


def test_disabled_tools_are_neither_offered_nor_found() -> None:
    registry = default_tools(disabled=["run_terminal_command"])
    assert "run_terminal_command" not in registry.names
    assert registry.find("bash") is None
    assert [spec.name for spec in registry.specs()] == list(registry.names)


def test_read_only_tools_change_nothing() -> None:
    reading = default_tools().for_mode(Mode.DIRECT).read_only()
    assert reading.names[:4] == ("read_file", "list_files", "search_workspace", "ask_user")
    assert not {"write_file", "edit_file", "run_terminal_command"} & set(reading.names)
    assert default_tools().only(["edit_file"]).names == ("edit_file",)


def test_a_mode_offers_its_own_tools_and_hides_the_others() -> None:
    tools = default_tools()
    looking = {"read_file", "list_files", "search_workspace", "ask_user"}
    everywhere = set.intersection(*(set(tools.for_mode(mode).names) for mode in Mode))
    assert looking <= everywhere
    more = {mode: set(tools.for_mode(mode).names) - everywhere for mode in Mode}
    assert not more[Mode.CHAT] and not more[Mode.EXPLORE]
    assert more[Mode.PLAN] == {"initialize_plan", "update_plan"}
    assert more[Mode.REVIEW] == {"run_terminal_command"}
    assert more[Mode.DEEP_EXPLORE] == {"run_subagent"}
    assert more[Mode.DIRECT] == {"write_file", "edit_file", "run_terminal_command"}
    assert more[Mode.AGENT] == more[Mode.DIRECT] | more[Mode.PLAN]
    chat = tools.for_mode(Mode.CHAT)
    found = chat.find("write_file")
    assert found is not None and found.name == "write_file"
    assert "update_plan" not in str(chat.parse(ToolCall(id="1", name="nothing_like_it", arguments={})))
    assert not {"write", "update_plan"} & set(chat.known_names)


@pytest.mark.parametrize(
    ("given", "real"),
    [
        ("read_file", "read_file"),
        ("readFile", "read_file"),
        ("Read-File", "read_file"),
        ("functions.read_file", "read_file"),
        ("file_read", "read_file"),
        ("read_dir", "list_files"),
        ("list_dir", "list_files"),
        ("file_write", "write_file"),
        ("bash", "run_terminal_command"),
        ("run_bash", "run_terminal_command"),
        ("shell_exec", "run_terminal_command"),
        ("grep", "search_workspace"),
    ],
)
def test_other_names_are_understood(given: str, real: str) -> None:
    tool = default_tools().find(given)
    assert tool is not None and tool.name == real


@pytest.mark.parametrize("name", ["file", "file_path", "filePath", "path"])
def test_other_argument_names_are_understood(name: str) -> None:
    _, args = parse("read_file", **{name: "a.py"})
    assert args.path == "a.py"


def test_bash_scripts_and_camel_case_arguments() -> None:
    _, args = parse("run_bash", script="ls", timeoutSeconds=5)
    assert (args.command, args.timeout_seconds) == ("ls", 5)
    _, args = parse("edit_file", filePath="a", oldString="x", newString="y", replaceAll="true")
    assert (args.path, args.old_string, args.new_string, args.replace_all) == ("a", "x", "y", True)


def test_numbers_and_truths_as_text_are_taken() -> None:
    _, args = parse("read_file", path="a", start_line="5", end_line=7.0)
    assert (args.start_line, args.end_line) == (5, 7)


def test_empty_stand_ins_for_optional_arguments_are_left_out() -> None:
    _, args = parse("read_file", path="a", start_line=None, end_line="", encoding=None)
    assert (args.start_line, args.end_line, args.encoding) == (None, None, None)
    _, args = parse("list_files", path=None)
    assert args.path == "."


def test_lists_as_json_text_are_taken() -> None:
    _, args = parse("ask_user", question="which?", options='["a", "b"]')
    assert args.options == ["a", "b"]


def test_an_unknown_tool_names_the_nearest_and_all() -> None:
    result = error_of("read_fil", path="a")
    assert result.code == "unknown_tool"
    assert "Did you mean read_file?" in str(result.error)
    assert "run_terminal_command" in str(result.error)


def test_a_missing_argument_is_reported_with_all_arguments() -> None:
    result = error_of("edit_file", path="a", old_string="x")
    assert result.code == "bad_arguments"
    assert "needs the argument new_string" in str(result.error)
    assert "path (text, required)" in str(result.error)
    assert "replace_all (true or false)" in str(result.error)


def test_a_wrong_type_names_field_type_and_value() -> None:
    assert 'start_line of read_file must be a whole number, got "abc"' in str(
        error_of("read_file", path="a", start_line="abc").error
    )
    assert "command of run_terminal_command must be text" in str(error_of("bash", command=["ls"]).error)


def test_an_unknown_argument_names_the_nearest() -> None:
    assert "has no argument start_lin. Did you mean start_line?" in str(
        error_of("read_file", path="a", start_lin=3).error
    )


def test_contradicting_names_for_one_argument_are_an_error() -> None:
    assert not isinstance(parse("read_file", path="a", file="a"), ToolResult)
    assert "file" in str(error_of("read_file", path="a", file="b").error)


def test_unreadable_arguments_are_answered() -> None:
    result = error_of("read_file", "cut off after 10 characters")
    assert "cut off after 10 characters" in str(result.error)
    assert "path (text, required)" in str(result.error)


def test_long_wrong_values_are_not_sent_back() -> None:
    assert len(str(error_of("read_file", path="a", start_line="x" * 10_000).error)) < 600


def test_a_registry_of_no_tools() -> None:
    assert Registry([]).specs() == ()


@pytest.mark.parametrize(
    "given",
    [
        {"arguments": {"path": "a", "start_line": "5"}},
        {"parameters": '{"path": "a", "start_line": 5}'},
        {"path": '{"path": "a", "start_line": 5}'},
    ],
)
def test_arguments_wrapped_once_more_are_taken(given: dict[str, Any]) -> None:
    _, args = parse("read_file", **given)
    assert (args.path, args.start_line) == ("a", 5)


def test_what_is_text_and_looks_like_json_stays_text() -> None:
    _, args = parse("write_file", path="a.json", content='{"path": "b"}')
    assert (args.path, args.content) == ("a.json", '{"path": "b"}')


def test_a_number_is_not_text_and_a_single_value_becomes_a_list() -> None:
    assert "content of write_file must be text, got 7" in str(error_of("write_file", path="a", content=7).error)
    _, args = parse("ask_user", question="which?", options="this")
    assert args.options == ["this"]


@pytest.mark.parametrize(
    ("given", "near"), [("search_files", "search_workspace"), ("files_edit", "edit_file"), ("reed_file", "read_file")]
)
def test_an_unknown_name_gets_suggestions(given: str, near: str) -> None:
    assert near in str(error_of(given, path="a").error).split("The tools are")[0]
