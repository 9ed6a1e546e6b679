"""The dispatcher: what kind of work a request is, found out by one short model call (W1)."""

from __future__ import annotations

from typing import Any

from tui_agent.domain import Fault, ProgramMessage, SystemMessage, UserMessage, marked
from tui_agent.engine.plan_reading import classified
from tui_agent.engine.prompts import prompt
from tui_agent.engine.stream import EventStream
from tui_agent.engine.structured import Question, Structured
from tui_agent.events import RequestClassified
from tui_agent.workplan import Classified

REQUEST_MAX = 4_000
"""Characters of the request that the dispatcher reads."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "intent": {"enum": ["analyze", "modify", "create", "mixed"]},
        "needs_write": {"type": "boolean"},
        "task_type": {
            "enum": ["planning", "architecture", "coding", "refactoring", "documentation", "analysis"]
        },
        "complexity": {"enum": ["simple", "moderate", "complex"]},
        "reasoning": {"type": "string"},
    },
    "required": ["intent", "needs_write", "task_type", "complexity"],
}
GUESS = Classified(guessed=True, reasoning="The request could not be sorted.")
"""Mixed, with writing: the reading that forbids nothing and plans with care."""


async def classify(
    request: str, structured: Structured, stream: EventStream, *, run: str, node: str, before: str = ""
) -> Classified | Fault:
    """How the request is to be worked on, `before` being the conversation up to it.

    A failed or malformed reply is `GUESS`; a missing server is a fault."""
    shown = request if len(request) <= REQUEST_MAX else request[:REQUEST_MAX] + " …"
    talk = (ProgramMessage(text=marked("conversation", before)),) if before else ()
    question = Question(
        alone=(SystemMessage(text=prompt("classify")), *talk, UserMessage(text=shown)),
        task=prompt("classify"),
    )
    said = await structured.ask("dispatcher", question, parent=node, schema=SCHEMA, quiet=60.0, preamble=400)
    if isinstance(said, Fault):
        if said.kind == "unreachable":
            return said
        found, ms = GUESS, 0
    else:
        found, ms = classified(said.text) or GUESS, said.ms
    stream.emit(RequestClassified(classified=found, ms=ms), run=run, node=node)
    return found
