"""Making a ToolCall of what a server sent, readable or not."""

from __future__ import annotations

import secrets
from typing import Any

from tui_agent.domain import ToolCall
from tui_agent.models.framing import Unreadable, read_json

ARGUMENTS_LIMIT = 4 * 1024 * 1024
"""Characters of the longest arguments that are read (R-36)."""


def new_id() -> str:
    """An id for a call that came without one, or with one that is taken (O-14, C-5)."""
    return "call_" + secrets.token_hex(6)


def read_call(call_id: str, name: str, arguments: Any) -> ToolCall:
    """The call, its arguments given as an object or as JSON text. What can't be read becomes its `fault` (C-12)."""
    if not name:
        raw = arguments if isinstance(arguments, str) else None
        return ToolCall(id=call_id, name="", arguments={}, fault="The call names no tool.", raw=raw)
    if isinstance(arguments, str):
        return _from_text(call_id, name, arguments)
    if arguments is None:
        return ToolCall(id=call_id, name=name, arguments={})
    if isinstance(arguments, dict):
        return ToolCall(id=call_id, name=name, arguments=arguments)
    fault = f"The arguments must be one JSON object, not {type(arguments).__name__}."
    return ToolCall(id=call_id, name=name, arguments={}, fault=fault, raw=str(arguments)[:ARGUMENTS_LIMIT])


def _from_text(call_id: str, name: str, text: str) -> ToolCall:
    if len(text) > ARGUMENTS_LIMIT:
        fault = f"The arguments are longer than {ARGUMENTS_LIMIT:,} characters."
        return ToolCall(id=call_id, name=name, arguments={}, fault=fault)
    if not text.strip():
        return ToolCall(id=call_id, name=name, arguments={})
    try:
        value = read_json(text)
        if isinstance(value, str):
            value = read_json(value)
    except Unreadable as error:
        return ToolCall(
            id=call_id, name=name, arguments={}, fault=f"The arguments are not valid JSON: {error}.", raw=text
        )
    if value is None:
        value = {}
    if not isinstance(value, dict):
        return ToolCall(
            id=call_id, name=name, arguments={}, fault="The arguments must be one JSON object.", raw=text
        )
    return ToolCall(id=call_id, name=name, arguments=value)
