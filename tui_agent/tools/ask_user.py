"""ask_user: a question to the user (T8)."""

from __future__ import annotations

from pydantic import Field

from tui_agent.common.domain import ToolResult
from tui_agent.tools.base import Args, Tool, ToolContext


class AskUserArgs(Args):
    """See ask_user.md."""

    question: str = Field(min_length=1)
    options: list[str] | None = Field(default=None, max_length=12)


class AskUser(Tool[AskUserArgs]):
    """Asks and waits for the answer."""

    name = "ask_user"
    args = AskUserArgs
    subject = "question"
    reads_only = True
    timeout = None

    async def run(self, args: AskUserArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        options = tuple(dict.fromkeys(option.strip() for option in args.options or () if option.strip()))
        answer = await ctx.ask(args.question, options)
        return ToolResult(success=True, data=answer)


TOOLS = (AskUser(),)
