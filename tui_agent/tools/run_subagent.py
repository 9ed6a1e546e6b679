"""run_subagent: research by a sub-agent that only reads and has a context of its own (T5)."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from tui_agent.domain import Mode, ToolResult
from tui_agent.tools.base import Args, Bench, Errand, Tool, ToolError


class RunSubagentArgs(Args):
    """See run_subagent.md."""

    task: str = Field(min_length=1, max_length=20_000)
    title: str = Field(min_length=1, max_length=200)
    description: str = Field(default="", max_length=500)
    context_hint: str = Field(default="", max_length=8_000)
    mode: Literal["explore", "review", "deep-explore", "chat"] = "explore"


class RunSubagent(Tool[RunSubagentArgs]):
    """Reads only, so that several of one reply go side by side; each ends by its own count of rounds."""

    name: ClassVar[str] = "run_subagent"
    args = RunSubagentArgs
    reads_only: ClassVar[bool] = True
    timeout: ClassVar[float | None] = None
    modes: ClassVar[tuple[Mode, ...]] = (
        Mode.DEEP_EXPLORE,
    )  # and where the orchestrator is on: see engine/modes.py
    aliases: ClassVar[tuple[str, ...]] = (
        "subagent",
        "sub_agent",
        "run_sub_agent",
        "delegate",
        "delegate_task",
        "explore_agent",
        "spawn_agent",
    )
    argument_aliases: ClassVar[dict[str, str]] = {
        "question": "task",
        "instructions": "task",
        "prompt": "task",
        "name": "title",
        "summary": "description",
        "context": "context_hint",
        "hint": "context_hint",
        "focus": "context_hint",
        "agent": "mode",
        "kind": "mode",
    }

    def title(self, args: RunSubagentArgs) -> str:
        """Title — description (U3)."""
        title, description = " ".join(args.title.split()), " ".join(args.description.split())
        return f"{title} — {description}" if description else title

    async def run(self, args: RunSubagentArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        if not args.task.strip():
            raise ToolError("task is empty: say what is to be found out.", "bad_arguments")
        return await bench.delegate(
            Errand(
                task=args.task.strip(),
                title=" ".join(args.title.split()),
                hint=args.context_hint.strip(),
                mode=Mode(args.mode),
            )
        )
