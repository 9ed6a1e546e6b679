"""What strict servers refuse in a conversation, as a pure function (C-9, O-14, O-27, R2.2)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

Api = Literal["openai", "ollama"]
Wire = Mapping[str, Any]


def strict_fault(messages: object, api: Api) -> str | None:
    """Why a strict server answers these wire messages with 400, in its own words; None when it accepts them.

    The union of what servers and chat templates of the field refuse: calls without exactly one result each, results
    without a call, empty messages, arguments that are no JSON object, two user messages in a row, a system message
    that is not first.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        return "Invalid type for 'messages': expected an array of objects."
    if not messages:
        return "[] is too short - 'messages'"
    if not all(isinstance(message, Mapping) for message in messages):
        return "Invalid type for 'messages': expected an array of objects."
    return next(_faults(messages, api), None)


def _faults(messages: Sequence[Wire], api: Api) -> Iterator[str]:
    previous = ""
    open_calls: list[_Open] = []
    for index, message in enumerate(messages):
        role = message.get("role")
        if open_calls and role != "tool":
            yield _unanswered(open_calls)
        match role:
            case "system" if index:
                yield "System message must be at the beginning."
            case "user" if previous == "user":
                yield "Conversation roles must alternate user/assistant/user/assistant/..."
            case "assistant" if index == 0 or previous == "system":
                yield "A conversation must start with a user message after the optional system message."
            case "assistant":
                yield from _call_faults(message, index, api)
                open_calls = _opened(message)
            case "tool":
                yield from _result_faults(message, index, open_calls, api)
            case "system" | "user":
                pass
            case _:
                yield f"Invalid value: {role!r}. Supported values are: 'system', 'assistant', 'user', and 'tool'."
        yield from _content_faults(message, index)
        previous = str(role)
    if open_calls:
        yield _unanswered(open_calls)


class _Open:
    """A call that waits for its result."""

    def __init__(self, call_id: str, name: str) -> None:
        self.id = call_id
        self.name = name


def _opened(message: Wire) -> list[_Open]:
    calls = message.get("tool_calls") or []
    return [_Open(str(call.get("id") or ""), str(call["function"]["name"])) for call in calls]


def _unanswered(calls: Sequence[_Open]) -> str:
    missing = ", ".join(call.id or call.name for call in calls)
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        f"'tool_call_id'. The following tool_call_ids did not have response messages: {missing}"
    )


def _content_faults(message: Wire, index: int) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    calls = message.get("tool_calls")
    if content is None:
        if role == "assistant" and not calls:
            yield "Assistant message must have either content or tool_calls, but not none."
        elif role != "assistant":
            yield "invalid message content type: <nil>"
        return
    if not isinstance(content, str | list):
        yield f"Invalid type for 'messages[{index}].content': expected a string or an array."
    elif role == "assistant" and not calls and not _text(content).strip():
        yield "Assistant message must have either content or tool_calls, but not none."
    elif role in ("system", "user") and not _text(content).strip():
        yield f"messages[{index}]: {role} messages must have non-empty content"


def _text(content: str | list[Any]) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))


def _call_faults(message: Wire, index: int, api: Api) -> Iterator[str]:
    calls = message.get("tool_calls")
    if calls is None:
        return
    if not isinstance(calls, list):
        yield f"Invalid type for 'messages[{index}].tool_calls': expected an array of objects."
        return
    if not calls and api == "openai":
        yield f"Invalid 'messages[{index}].tool_calls': empty array. Expected an array with minimum length 1."
    ids: set[str] = set()
    for number, call in enumerate(calls):
        place = f"messages[{index}].tool_calls[{number}]"
        function = call.get("function") if isinstance(call, Mapping) else None
        if (
            not isinstance(function, Mapping)
            or not isinstance(function.get("name"), str)
            or not function["name"]
        ):
            yield f"Missing required parameter: '{place}.function.name'."
            return
        call_id = call.get("id")
        if api == "openai" and (not isinstance(call_id, str) or not call_id):
            yield f"Missing required parameter: '{place}.id'."
        if api == "openai" and call.get("type") != "function":
            yield f"Missing required parameter: '{place}.type'."
        if isinstance(call_id, str) and call_id and call_id in ids:
            yield f"Duplicate tool call id {call_id!r} in '{place}'."
        ids.add(str(call_id))
        yield from _argument_faults(function.get("arguments"), place, api)


def _argument_faults(arguments: object, place: str, api: Api) -> Iterator[str]:
    if api == "ollama":
        if not isinstance(arguments, Mapping):
            kind = "string" if isinstance(arguments, str) else type(arguments).__name__
            yield (
                f"json: cannot unmarshal {kind} into Go struct field "
                "ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments"
            )
        return
    if not isinstance(arguments, str):
        yield f"Invalid type for '{place}.function.arguments': expected a string."
        return
    try:
        readable = isinstance(json.loads(arguments), dict)
    except (json.JSONDecodeError, RecursionError):
        readable = False
    if not readable:
        yield f"invalid tool call arguments: '{place}.function.arguments' is not a JSON object"


def _result_faults(message: Wire, index: int, open_calls: list[_Open], api: Api) -> Iterator[str]:
    """Takes the call that is answered from `open_calls`."""
    call_id, name = message.get("tool_call_id"), message.get("tool_name") or message.get("name")
    if not open_calls:
        yield (
            f"Invalid parameter: 'messages[{index}]' with role 'tool' must be a response to a preceding "
            "message with 'tool_calls'."
        )
        return
    if api == "openai" and not call_id:
        yield f"Missing required parameter: 'messages[{index}].tool_call_id'."
    answered = next((call for call in open_calls if _answers(call, call_id, name)), None)
    if answered is None:
        which = repr(call_id or name)
        yield f"Invalid parameter: 'tool_call_id' of {which} not found in 'tool_calls' of previous message."
        return
    if name and answered.name != name:
        yield f"messages[{index}]: the result names {name!r}, but its call is of {answered.name!r}."
    if api == "ollama" and not name and not call_id:
        yield f"messages[{index}]: the result has neither 'tool_name' nor 'tool_call_id'."
    open_calls.remove(answered)


def _answers(call: _Open, call_id: object, name: object) -> bool:
    """By id where both have one, else by name, else by order."""
    if call_id and call.id:
        return call.id == call_id
    return not name or name == call.name
