"""Writing requests for OpenAI-compatible servers, as plain as the strictest of them wants (C-9)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tui_agent.domain import AssistantMessage, Message, SystemMessage, ToolMessage
from tui_agent.models.base import ModelRequest
from tui_agent.models.openai_deltas import arguments_text

NOTHING = "(no output)"
"""Stands for an empty tool result: some servers refuse empty contents."""

_REASONING = "reasoning_content"
_OPTIONAL = (
    "stream_options",
    "temperature",
    "reasoning_effort",
    "response_format",
    "parallel_tool_calls",
    "return_progress",
)
_NAMES = {"stream_options": ("stream_options", "include_usage")}


class Habits:
    """What one server was found to refuse, or to insist on; learnt from its 400s, kept for the session."""

    def __init__(self) -> None:
        self.dropped: set[str] = set()
        self.completion_tokens = False
        """It wants `max_completion_tokens` instead of `max_tokens`."""
        self.thoughts_back = False
        """It wants the thinking back together with its calls (C-6)."""
        self.bridge = False
        """Its template refuses a user message right after a tool result."""

    def learn(self, status: int | None, body: str, payload: dict[str, Any]) -> bool:
        """True if the refusal names something that can be done without: try again, once for each thing."""
        if status not in (400, 422):
            return False
        return self._drop(body, payload) or self._reshape(body, payload)

    def _drop(self, body: str, payload: dict[str, Any]) -> bool:
        for field in _OPTIONAL:
            if field in payload and field not in self.dropped and _names(body, *_NAMES.get(field, (field,))):
                self.dropped.add(field)
                return True
        if "max_tokens" in payload and _names(body, "max_tokens"):
            self.completion_tokens = True
            return True
        if "max_completion_tokens" in payload and _names(body, "max_completion_tokens"):
            self.dropped.add("max_tokens")
            return True
        return False

    def _reshape(self, body: str, payload: dict[str, Any]) -> bool:
        if _names(body, _REASONING):
            sent = any(_REASONING in message for message in payload["messages"])
            if sent == self.thoughts_back:
                self.thoughts_back = not sent
                return True
        if not self.bridge and re.search(r"user.{0,12} after .{0,12}tool", body):
            self.bridge = True
            return True
        return False


def _names(body: str, *fields: str) -> bool:
    return any(re.search(rf"(?<![A-Za-z_]){field}(?![A-Za-z_])", body) for field in fields)


def payload(request: ModelRequest, habits: Habits, *, progress: bool = False) -> dict[str, Any]:
    """The body of /chat/completions. `progress` asks llama.cpp to tell how much of the prompt it has read."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": render(request.messages, habits),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if progress:
        body["return_progress"] = True
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None and "max_tokens" not in habits.dropped:
        body["max_completion_tokens" if habits.completion_tokens else "max_tokens"] = request.max_tokens
    if isinstance(request.think, str):
        body["reasoning_effort"] = request.think
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    elif request.format == "json":
        body["response_format"] = {"type": "json_object"}
    elif request.format is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "reply", "schema": request.format},
        }
    for field in habits.dropped:
        body.pop(field, None)
    return body


def render(messages: Sequence[Message], habits: Habits) -> list[dict[str, Any]]:
    """The history: one system message, first; neighbours of the same role joined; no empty contents."""
    out: list[dict[str, Any]] = []
    system = "\n\n".join(
        message.text for message in messages if isinstance(message, SystemMessage) and message.text
    )
    if system:
        out.append({"role": "system", "content": system})
    for message in messages:
        if isinstance(message, ToolMessage):
            content = message.text or NOTHING
            out.append({"role": "tool", "tool_call_id": message.call_id, "content": content})
        elif isinstance(message, AssistantMessage):
            _add_assistant(out, message, habits)
        elif not isinstance(message, SystemMessage) and message.text:
            _add_user(out, message.text, habits)
    return out


def _add_user(out: list[dict[str, Any]], text: str, habits: Habits) -> None:
    last = out[-1]["role"] if out else ""
    if last == "user":
        out[-1]["content"] += "\n\n" + text
        return
    if last == "tool" and habits.bridge:
        out.append({"role": "assistant", "content": "I have the results."})
    out.append({"role": "user", "content": text})


def _add_assistant(out: list[dict[str, Any]], message: AssistantMessage, habits: Habits) -> None:
    """Text alone, or calls with text; the content is null only beside calls (O-27)."""
    if not message.calls:
        if not message.text:
            return
        if out and out[-1]["role"] == "assistant" and "tool_calls" not in out[-1]:
            out[-1]["content"] += "\n\n" + message.text
        else:
            out.append({"role": "assistant", "content": message.text})
        return
    rendered: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.thought and habits.thoughts_back:
        rendered[_REASONING] = message.thought
    rendered["tool_calls"] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call.arguments)},
        }
        for call in message.calls
    ]
    out.append(rendered)
