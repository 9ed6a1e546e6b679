"""Misbehavior of the mock server: faults that spoil a reply while it is sent (M4), and what `--strict` refuses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tui_agent.mock_server.http import HttpConnection
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
    """A `--fault` that can't be understood; the message says why."""


def parse_fault(spec: str) -> SimulatedFault:
    """Read `KIND[:field=value,…]`, such as `drop:after=200,times=1`. Raises FaultSyntaxError."""
    kind, _, rest = spec.partition(":")
    fields: dict[str, Any] = {"kind": kind}
    for pair in filter(None, rest.split(",")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise FaultSyntaxError(f"`{spec}`: `{pair}` is not of the form field=value")
        fields[name] = value
    try:
        return msgspec.convert(fields, SimulatedFault, strict=False)
    except msgspec.ValidationError as error:
        raise FaultSyntaxError(f"`{spec}`: {error}") from None


class FaultPlan:
    """Which request meets which fault: the server's own come first, in order, then those of the scenarios."""

    def __init__(self, faults: Iterable[SimulatedFault] = ()) -> None:
        self._queue: list[tuple[SimulatedFault, int | None]] = []
        self._met: dict[tuple[str, int], int] = {}
        for fault in faults:
            self.add(fault)

    def add(self, fault: SimulatedFault) -> None:
        """Append a fault for the next `times` requests that no earlier one takes."""
        self._queue.append((fault, fault.times))

    def take(self, scenario: str, index: int, own: SimulatedFault | None) -> SimulatedFault | None:
        """The fault for a request that is answered by this step, whose own fault is `own`."""
        if self._queue:
            fault, left = self._queue[0]
            if left == 1:
                del self._queue[0]
            elif left is not None:
                self._queue[0] = (fault, left - 1)
            return None if fault.kind == "none" else fault
        if own is None or own.kind == "none":
            return None
        met = self._met[scenario, index] = self._met.get((scenario, index), 0) + 1
        return own if own.times is None or met <= own.times else None


def status_reply(fault: SimulatedFault, status: int, shaped: dict[str, Any]) -> tuple[list[tuple[str, str]], bytes]:
    """Headers and body of an error status. `shaped` is the error body that the API would use by itself."""
    headers = []
    if fault.retry_after is not None:
        headers.append(("Retry-After", f"{fault.retry_after:g}"))
    if isinstance(fault.body, dict):
        kind, data = "application/json", json.dumps(fault.body).encode()
    elif isinstance(fault.body, str):
        kind, data = "text/plain; charset=utf-8", fault.body.encode()
    elif status == 502:
        kind, data = "text/html", HTML.encode()
    else:
        kind, data = "application/json", json.dumps(shaped).encode()
    return [("Content-Type", kind), *headers], data


def status_message(status: int) -> str:
    """What an error status says when the fault doesn't."""
    return _MESSAGES.get(status, f"The mock server was told to answer with {status}.")


class Spoilt(Exception):
    """The fault has ended the reply; nothing more is to be sent."""


class Spoiler:
    """Stands between a reply and its connection and spoils it where the fault says."""

    def __init__(self, connection: HttpConnection, fault: SimulatedFault | None, *, ping: bytes, error: bytes) -> None:
        self._connection = connection
        self._fault = fault
        self._ping = ping
        self._error = error
        self._ours = 0
        """Bytes of pings and junk, which don't count as the reply's."""
        self.fired = False

    async def before(self) -> None:
        """Act on a fault that strikes before the status line. Raises Spoilt."""
        fault = self._fault
        if fault is not None and fault.after is None and fault.kind in ("delay", "stall", "drop", "cut"):
            await self._strike(fault, started=False)

    async def send(self, data: bytes, *, end: bool = False) -> None:
        """Send one frame of the reply; `end` marks those that a broken reply lacks. Raises Spoilt, Disconnected."""
        fault = self._fault
        if fault is None or (self.fired and fault.kind not in ("no_end", "drip")):
            await self._send(data)
        elif fault.kind == "no_end":
            self.fired = self.fired or end
            if not end:
                await self._send(data)
        elif fault.kind == "drip":
            self.fired = True
            await self._drip(data, fault)
        elif fault.kind == "error":
            await self._report(data, fault)
        else:
            await self._split(data, fault)

    async def _split(self, data: bytes, fault: SimulatedFault) -> None:
        left = (fault.after or 0) - self._arrived
        if left > len(data):
            await self._send(data)
            return
        if left > 0:
            await self._send(data[:left])
        await self._strike(fault, started=True)
        if rest := data[max(left, 0) :]:
            await self._send(rest)

    async def _strike(self, fault: SimulatedFault, *, started: bool) -> None:
        self.fired = True
        if fault.kind == "garbage":
            junk = fault.body.encode("latin-1", "replace") if isinstance(fault.body, str) else JUNK
            await self._extra(junk)
            return
        if fault.kind in ("delay", "stall"):
            await self._hold(fault, pings=started)
        if fault.kind == "delay":
            return
        await (self._connection.cut() if fault.kind == "cut" else self._connection.reset())
        raise Spoilt

    async def _hold(self, fault: SimulatedFault, *, pings: bool) -> None:
        seconds = fault.seconds if fault.seconds is not None or fault.kind == "stall" else 1.0
        if fault.ping is None or not pings:
            await self._connection.pause(seconds)
            return
        held = 0.0
        while seconds is None or held < seconds:
            await self._connection.pause(fault.ping)
            held += fault.ping
            await self._extra(self._ping)

    async def _report(self, data: bytes, fault: SimulatedFault) -> None:
        if self._arrived + len(data) <= (fault.after or 0):
            await self._send(data)
            return
        self.fired = True
        await self._extra(self._error)
        await self._connection.end()
        raise Spoilt

    async def _drip(self, data: bytes, fault: SimulatedFault) -> None:
        for start in range(0, len(data), fault.size):
            await self._send(data[start : start + fault.size])
            await self._connection.pause(DRIP_SECONDS if fault.seconds is None else fault.seconds)

    @property
    def _arrived(self) -> int:
        return self._connection.sent - self._ours

    async def _send(self, data: bytes) -> None:
        await self._connection.send(data)

    async def _extra(self, data: bytes) -> None:
        self._ours += len(data)
        await self._connection.send(data)


# --- what strict servers refuse in a conversation (C-9, O-14, O-27) -----------------------------


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
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str) or not function["name"]:
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
