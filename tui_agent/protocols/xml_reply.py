"""The XML protocol: calls stand in the text as `<tool_call>{…}</tool_call>` (C3)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tui_agent.domain import AssistantMessage, Message, ToolMessage, ToolSpec
from tui_agent.protocols.schema import readable, written
from tui_agent.protocols.turns import rendered

_FORM = """\
To use a tool, write its call between tags, as one JSON object:
<tool_call>{"name": "TOOL", "parameters": {}}</tool_call>
Several calls may follow one another. After the last one stop and wait: what the tools gave comes back in the same \
order, inside <agent_control>. Text outside the tags is shown to the user. When the whole task is done and checked, \
say what was done and end with [TASK_COMPLETE]."""


def system_section(tools: Sequence[ToolSpec]) -> str:
    """The form of a call and the tools, for the system message."""
    return f"# Calling tools\n\n{_FORM}\n\n# Tools\n\n{readable(tools, 'xml')}"


def render(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The neutral history in this protocol: calls as tags, closed by a line that names them; results in one message."""
    return rendered(messages, _reply, _result)


def _reply(message: AssistantMessage) -> str:
    calls = [written(call.name, call.arguments, "xml") for call in message.calls]
    names = ", ".join(call.name for call in message.calls)
    return "\n".join(filter(None, [message.text, *calls, f"[called: {names}]" if names else ""]))


def _result(message: ToolMessage) -> str:
    head = json.dumps({"tool": message.name, "success": message.success}, ensure_ascii=False)
    return f"<tool_result>{head}\n{message.text}\n</tool_result>"
