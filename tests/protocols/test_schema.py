from __future__ import annotations

import json
import re

import pytest

from tui_agent.common.domain import ToolCall, ToolResult, ToolSpec
from tui_agent.protocols.rendering import Style, describe_tools
from tui_agent.tools.registry import default_tools


@pytest.mark.parametrize("style", ["json", "xml"])
def test_every_example_is_a_call_that_the_registry_takes(style: Style) -> None:
    registry = default_tools()
    text = describe_tools(registry.specs(), style)
    examples = re.findall(r"^Example: (.*)$", text, re.MULTILINE)
    assert len(examples) == len(registry.names)
    for name, example in zip(registry.names, examples, strict=True):
        if style == "json":
            (call,) = json.loads(example)["tool_calls"]
        else:
            found = re.fullmatch(r"<tool_call>(.*)</tool_call>", example)
            assert found is not None
            call = json.loads(found[1])
        assert call["name"] == name
        parsed = registry.parse(ToolCall(id="1", name=name, arguments=call["parameters"]))
        assert not isinstance(parsed, ToolResult)


def test_arguments_are_listed_with_type_and_need() -> None:
    text = describe_tools(default_tools().only(["edit_file"]).specs(), "json")
    assert "### edit_file\n" in text
    assert "- `old_string` (string)\n" in text
    assert "- `replace_all` (boolean, optional)\n" in text


def test_choices_and_descriptions_are_told() -> None:
    spec = ToolSpec(
        name="paint",
        description="Paint it.",
        parameters={
            "type": "object",
            "properties": {
                "colour": {"enum": ["red", "blue"], "description": "of the door"},
                "coats": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["colour", "coats"],
        },
    )
    assert describe_tools([spec], "xml") == "\n".join(
        [
            "### paint",
            "Paint it.",
            '- `colour` (one of "red", "blue"): of the door',
            "- `coats` (list of integer)",
            'Example: <tool_call>{"name": "paint", "parameters": {"colour": "red", "coats": []}}</tool_call>',
        ]
    )
