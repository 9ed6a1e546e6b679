"""run_subagent: research by a read-only sub-agent with its own context (T5)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tui_agent.common.domain import Mode, ToolResult
from tui_agent.tools.base import Args, SubagentTask, Tool, ToolContext, ToolError


class RunSubagentArgs(Args):
    """See run_subagent.md."""

    task: str = Field(min_length=1, max_length=20_000)
    title: str = Field(min_length=1, max_length=200)
    description: str = Field(default="", max_length=500)
    context_hint: str = Field(default="", max_length=8_000)
    mode: Literal["explore", "review", "deep-explore", "chat"] = "explore"


class RunSubagent(Tool[RunSubagentArgs]):
    """Runs a sub-agent; those of one reply run in parallel, each limited by its own iterations."""

    name = "run_subagent"
    args = RunSubagentArgs
    reads_only = True
    timeout = None
    modes = (Mode.DEEP_EXPLORE,)  # and where the orchestrator is on: see engine/modes.py

    def title(self, args: RunSubagentArgs) -> str:
        """Return title and description (U3)."""
        title, description = " ".join(args.title.split()), " ".join(args.description.split())
        return f"{title} — {description}" if description else title

    async def run(self, args: RunSubagentArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        if not args.task.strip():
            raise ToolError("task is empty: say what is to be found out.", "bad_arguments")
        return await ctx.delegate(
            SubagentTask(
                task=args.task.strip(),
                title=" ".join(args.title.split()),
                hint=args.context_hint.strip(),
                mode=Mode(args.mode),
            )
        )


TOOLS = (RunSubagent(),)
