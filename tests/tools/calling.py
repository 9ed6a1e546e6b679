"""Calling a tool as a model does: by name and loose arguments, through the registry."""

from __future__ import annotations

from typing import Any

from tests.doubles.fake_tool_context import FakeToolContext
from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.tools.base import ToolError
from tui_agent.tools.registry import default_tools


async def call(ctx: FakeToolContext, name: str, /, **arguments: Any) -> ToolResult:
    parsed = default_tools().parse(ToolCall(id="1", name=name, arguments=arguments))
    if isinstance(parsed, ToolResult):
        return parsed
    tool, args = parsed
    try:
        return await tool.run(args, ctx)
    except ToolError as error:
        return ToolResult(success=False, error=str(error), code=error.code)
