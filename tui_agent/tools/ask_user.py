"""ask_user: a question that only the user can answer (T8)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from tui_agent.domain import ToolResult
from tui_agent.tools.base import Args, Bench, Tool


class AskUserArgs(Args):
    """See ask_user.md."""

    question: str = Field(min_length=1)
    options: list[str] | None = Field(default=None, max_length=12)


class AskUser(Tool[AskUserArgs]):
    """Asks and waits for the answer."""

    name: ClassVar[str] = "ask_user"
    args = AskUserArgs
    reads_only: ClassVar[bool] = True
    timeout: ClassVar[float | None] = None
    aliases: ClassVar[tuple[str, ...]] = (
        "ask",
        "ask_question",
        "ask_followup_question",
        "question",
        "request_input",
    )
    argument_aliases: ClassVar[dict[str, str]] = {
        "text": "question",
        "message": "question",
        "prompt": "question",
        "choices": "options",
        "suggestions": "options",
    }

    def title(self, args: AskUserArgs) -> str:
        """See Tool."""
        return args.question

    async def run(self, args: AskUserArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        options = tuple(dict.fromkeys(one.strip() for one in args.options or () if one.strip()))
        answer = await bench.ask(args.question, options)
        return ToolResult(success=True, data=answer)
