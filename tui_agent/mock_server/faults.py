"""Simulated faults of the mock server (M4), and the checks of `--strict`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from tui_agent.mock_server.http import HttpConnection
from tui_agent.models.scenario_matching import FaultCounter, ScriptedReply
from tui_agent.models.scenarios import SimulatedFault

DRIP_SECONDS = 0.05
JUNK = b"\x00\xff\xfe}{]garbage[{\xc3\x28\n"
"""Neither UTF-8 nor JSON nor an event."""
HTML = (
    "<html>\n<head><title>502 Bad Gateway</title></head>\n"
    "<body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body>\n</html>\n"
)
_MESSAGES = {
    429: "Rate limit reached, please try again later.",
    500: "Internal server error.",
    503: "Server busy, please try again. Maximum pending requests exceeded.",
}


class FaultSyntaxError(ValueError):
    """An invalid `--fault`; the message says why."""


def parse_fault(spec: str) -> SimulatedFault:
    """Read `KIND[:field=value,…]`, such as `drop:after=200,times=1`. Raises FaultSyntaxError."""
    kind, _, settings = spec.partition(":")
    fields: dict[str, Any] = {"kind": kind}
    for pair in filter(None, settings.split(",")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise FaultSyntaxError(f"`{spec}`: `{pair}` is not of the form field=value")
        fields[name] = value
    try:
        return msgspec.convert(fields, SimulatedFault, strict=False)
    except msgspec.ValidationError as error:
        raise FaultSyntaxError(f"`{spec}`: {error}") from None


class FaultPlan:
    """Assigns faults to requests: first the server's in order, then those of the scenarios."""

    def __init__(self, faults: Iterable[SimulatedFault] = ()) -> None:
        self._queue = list(faults)
        self._scenario_faults = FaultCounter()

    def add(self, fault: SimulatedFault) -> None:
        """Queue a fault for the next `times` requests."""
        self._queue.append(fault)

    def next_fault(self, choice: ScriptedReply) -> SimulatedFault | None:
        """Return the fault of the next request, which is answered with `choice`."""
        if not self._queue:
            return self._scenario_faults.next_fault(choice)
        fault = self._queue[0]
        if fault.times == 1:
            del self._queue[0]
        elif fault.times is not None:
            self._queue[0] = msgspec.structs.replace(fault, times=fault.times - 1)
        return None if fault.kind == "none" else fault


def status_reply(
    fault: SimulatedFault, status: int, default_body: dict[str, Any]
) -> tuple[list[tuple[str, str]], bytes]:
    """Headers and body of an error status. `default_body` is the error object of the API."""
    headers = []
    if fault.retry_after is not None:
        headers.append(("Retry-After", f"{fault.retry_after:g}"))
    if isinstance(fault.body, dict):
        content_type, data = "application/json", json.dumps(fault.body).encode()
    elif isinstance(fault.body, str):
        content_type, data = "text/plain; charset=utf-8", fault.body.encode()
    elif status == 502:
        content_type, data = "text/html", HTML.encode()
    else:
        content_type, data = "application/json", json.dumps(default_body).encode()
    return [("Content-Type", content_type), *headers], data


def status_message(status: int) -> str:
    """The default message of an error status."""
    return _MESSAGES.get(status, f"The mock server was told to answer with {status}.")


class ReplyBroken(Exception):
    """A fault has ended the reply; nothing more must be sent."""


class FaultInjector:
    """Sends the frames of a reply and applies a fault to them."""

    def __init__(self, connection: HttpConnection, fault: SimulatedFault | None, *, ping: bytes, error: bytes) -> None:
        self._connection = connection
        self._fault = fault
        self._ping = ping
        self._error = error
        self._extra_bytes = 0
        """Bytes of pings and junk, which are not part of the reply."""
        self.fired = False

    async def before_status(self) -> None:
        """Apply a fault that precedes the status line. Raises ReplyBroken."""
        fault = self._fault
        if fault is not None and fault.after is None and fault.kind in ("delay", "stall", "drop", "cut"):
            await self._trigger(fault, started=False)

    async def send(self, data: bytes, *, end: bool = False) -> None:
        """Send a frame; `end` marks those that `no_end` omits. Raises ReplyBroken, Disconnected."""
        fault = self._fault
        if fault is None or (self.fired and fault.kind not in ("no_end", "drip")):
            await self._send(data)
        elif fault.kind == "no_end":
            self.fired = self.fired or end
            if not end:
                await self._send(data)
        elif fault.kind == "drip":
            self.fired = True
            await self._send_slowly(data, fault)
        elif fault.kind == "error":
            await self._send_or_fail(data, fault)
        else:
            await self._send_around(data, fault)

    async def _send_around(self, data: bytes, fault: SimulatedFault) -> None:
        """Trigger the fault at its offset, which may be inside the frame."""
        offset = (fault.after or 0) - self._reply_bytes
        if offset > len(data):
            await self._send(data)
            return
        if offset > 0:
            await self._send(data[:offset])
        await self._trigger(fault, started=True)
        if remaining := data[max(offset, 0) :]:
            await self._send(remaining)

    async def _trigger(self, fault: SimulatedFault, *, started: bool) -> None:
        self.fired = True
        if fault.kind == "garbage":
            junk = fault.body.encode("latin-1", "replace") if isinstance(fault.body, str) else JUNK
            await self._send_extra(junk)
            return
        if fault.kind in ("delay", "stall"):
            await self._pause(fault, pings=started)
        if fault.kind == "delay":
            return
        await (self._connection.cut() if fault.kind == "cut" else self._connection.reset())
        raise ReplyBroken

    async def _pause(self, fault: SimulatedFault, *, pings: bool) -> None:
        seconds = fault.seconds if fault.seconds is not None or fault.kind == "stall" else 1.0
        if fault.ping is None or not pings:
            await self._connection.pause(seconds)
            return
        elapsed = 0.0
        while seconds is None or elapsed < seconds:
            await self._connection.pause(fault.ping)
            elapsed += fault.ping
            await self._send_extra(self._ping)

    async def _send_or_fail(self, data: bytes, fault: SimulatedFault) -> None:
        if self._reply_bytes + len(data) <= (fault.after or 0):
            await self._send(data)
            return
        self.fired = True
        await self._send_extra(self._error)
        await self._connection.end()
        raise ReplyBroken

    async def _send_slowly(self, data: bytes, fault: SimulatedFault) -> None:
        for start in range(0, len(data), fault.size):
            await self._send(data[start : start + fault.size])
            await self._connection.pause(DRIP_SECONDS if fault.seconds is None else fault.seconds)

    @property
    def _reply_bytes(self) -> int:
        return self._connection.sent - self._extra_bytes

    async def _send(self, data: bytes) -> None:
        await self._connection.send(data)

    async def _send_extra(self, data: bytes) -> None:
        self._extra_bytes += len(data)
        await self._connection.send(data)


# --- strict checks of a conversation (C-9, O-14, O-27) ------------------------------------------


Api = Literal["openai", "ollama"]
Wire = Mapping[str, Any]


def strict_fault(messages: object, api: Api) -> str | None:
    """The message with which a strict server refuses these messages; None if it accepts them.

    The union of what servers and chat templates refuse: calls without exactly one result each, results without a
    call, empty messages, arguments that are not a JSON object, consecutive user messages, a late system message.
    """
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return "Invalid type for 'messages': expected an array of objects."
    if not messages:
        return "[] is too short - 'messages'"
    return next(_conversation_faults(messages, api), None)


def _conversation_faults(messages: Sequence[Wire], api: Api) -> Iterator[str]:
    previous = ""
    open_calls: list[_OpenCall] = []
    for index, message in enumerate(messages):
        role = message.get("role")
        if open_calls and role != "tool":
            yield _missing_results(open_calls)
        match role:
            case "system" if index:
                yield "System message must be at the beginning."
            case "user" if previous == "user":
                yield "Conversation roles must alternate user/assistant/user/assistant/..."
            case "assistant" if index == 0 or previous == "system":
                yield "A conversation must start with a user message after the optional system message."
            case "assistant":
                yield from _call_faults(message, index, api)
                calls = message.get("tool_calls") or []
                open_calls = [_OpenCall(str(call.get("id") or ""), str(call["function"]["name"])) for call in calls]
            case "tool":
                yield from _result_faults(message, index, open_calls, api)
            case "system" | "user":
                pass
            case _:
                yield f"Invalid value: {role!r}. Supported values are: 'system', 'assistant', 'user', and 'tool'."
        yield from _content_faults(message, index)
        previous = str(role)
    if open_calls:
        yield _missing_results(open_calls)


class _OpenCall(NamedTuple):
    """A call without a result."""

    id: str
    name: str


def _missing_results(calls: Sequence[_OpenCall]) -> str:
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
        path = f"messages[{index}].tool_calls[{number}]"
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or not function["name"]:
            yield f"Missing required parameter: '{path}.function.name'."
            return
        call_id = call.get("id")
        if api == "openai" and (not isinstance(call_id, str) or not call_id):
            yield f"Missing required parameter: '{path}.id'."
        if api == "openai" and call.get("type") != "function":
            yield f"Missing required parameter: '{path}.type'."
        if isinstance(call_id, str) and call_id and call_id in ids:
            yield f"Duplicate tool call id {call_id!r} in '{path}'."
        ids.add(str(call_id))
        yield from _argument_faults(function.get("arguments"), path, api)


def _argument_faults(arguments: object, path: str, api: Api) -> Iterator[str]:
    if api == "ollama":
        if not isinstance(arguments, Mapping):
            kind = "string" if isinstance(arguments, str) else type(arguments).__name__
            yield (
                f"json: cannot unmarshal {kind} into Go struct field "
                "ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments"
            )
        return
    if not isinstance(arguments, str):
        yield f"Invalid type for '{path}.function.arguments': expected a string."
        return
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (json.JSONDecodeError, RecursionError):
        is_object = False
    if not is_object:
        yield f"invalid tool call arguments: '{path}.function.arguments' is not a JSON object"


def _result_faults(message: Wire, index: int, open_calls: list[_OpenCall], api: Api) -> Iterator[str]:
    """Check a tool message and remove the answered call from `open_calls`."""
    call_id, name = message.get("tool_call_id"), message.get("tool_name") or message.get("name")
    if not open_calls:
        yield (
            f"Invalid parameter: 'messages[{index}]' with role 'tool' must be a response to a preceding "
            "message with 'tool_calls'."
        )
        return
    if api == "openai" and not call_id:
        yield f"Missing required parameter: 'messages[{index}].tool_call_id'."
    answered = next((call for call in open_calls if _is_answered_by(call, call_id, name)), None)
    if answered is None:
        reference = repr(call_id or name)
        yield f"Invalid parameter: 'tool_call_id' of {reference} not found in 'tool_calls' of previous message."
        return
    if name and answered.name != name:
        yield f"messages[{index}]: the result names {name!r}, but its call is of {answered.name!r}."
    if api == "ollama" and not name and not call_id:
        yield f"messages[{index}]: the result has neither 'tool_name' nor 'tool_call_id'."
    open_calls.remove(answered)


def _is_answered_by(call: _OpenCall, call_id: object, name: object) -> bool:
    """Compare by id if both have one, else by name if there is one, else accept by order."""
    if call_id and call.id:
        return call.id == call_id
    return not name or name == call.name
