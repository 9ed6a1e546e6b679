"""What both wire formats of the mock server are made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from tui_agent.models.choosing import Choice, estimate, finish_reason

CONTEXT_LENGTH = 32_768


class ServedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that the server offers."""

    name: str
    capabilities: tuple[str, ...] = ("completion", "tools", "thinking")
    context_length: int = CONTEXT_LENGTH


class Frame(NamedTuple):
    """One event or line of a streamed reply. `end` frames are those that a broken reply lacks."""

    data: bytes
    kind: Literal["head", "piece", "end"] = "piece"


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a wire format needs."""

    id: str
    created: int
    """Seconds since the epoch."""
    model: str
    choice: Choice
    prompt_tokens: int
    payload: dict[str, Any]

    @property
    def content(self) -> str:
        """The text of the answer."""
        return self.choice.step.response.content or ""

    @property
    def thinking(self) -> str:
        """The thinking, unless the request switched it off."""
        off = self.payload.get("think") is False
        return "" if off else self.choice.step.response.thinking or ""

    @property
    def reason(self) -> str:
        """Why the reply ends: `stop`, `tool_calls`, what the file says."""
        return finish_reason(self.choice)

    @property
    def completion_tokens(self) -> int:
        """The file's count, or a quarter of the characters."""
        usage = self.choice.step.response.usage
        if usage is not None and usage.completion_tokens is not None:
            return usage.completion_tokens
        return estimate(self.thinking + self.content + "".join(call.raw for call in self.choice.calls))

    @property
    def cached_tokens(self) -> int | None:
        """The file's count; None when it has none."""
        usage = self.choice.step.response.usage
        return usage.cached_tokens if usage is not None else None


def prompt_tokens(payload: Mapping[str, Any], choice: Choice) -> int:
    """The file's count, or a quarter of the characters of messages and tools."""
    usage = choice.step.response.usage
    if usage is not None and usage.prompt_tokens is not None:
        return usage.prompt_tokens
    return estimate(json.dumps([payload.get("messages"), payload.get("tools") or []], ensure_ascii=False))


def truncated(reply: Reply, window: int | None) -> tuple[Reply, bool]:
    """The reply with the count of a prompt that was cut to half of `window` and 2 tokens (O-7), and whether that was
    less than the whole. Without `window` the request's `num_ctx` counts."""
    options = reply.payload.get("options")
    asked = options.get("num_ctx") if isinstance(options, dict) else None
    size = window or (asked if isinstance(asked, int) else CONTEXT_LENGTH)
    left = size // 2 + 2
    if reply.prompt_tokens <= left:
        return reply, False
    return msgspec.structs.replace(reply, prompt_tokens=left), True


def compact(value: object) -> bytes:
    """JSON without spaces, as servers stream it."""
    return encoded(value, (",", ":"))


def encoded(value: object, separators: tuple[str, str] | None = None) -> bytes:
    """JSON in UTF-8; lone surrogates, which UTF-8 does not have, as escapes."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=separators).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=separators).encode()
