"""Scenario files: the replies of the scripted model and the mock server (M3, M4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

FILE_BYTES_MAX = 32 * 1024 * 1024
"""Maximum size of a scenario file."""

FAULT_KINDS = (
    "none",
    "delay",
    "stall",
    "drop",
    "cut",
    "garbage",
    "status",
    "429",
    "500",
    "502",
    "503",
    "error",
    "no_end",
    "drip",
    "truncate",
)


class ScenarioError(Exception):
    """A scenario file is unusable. The message names the file and the location."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parts of a file; unknown fields are errors."""


class SimulatedFault(_Part, frozen=True, kw_only=True):
    """How the server disturbs a reply (M4).

    `stall` stops sending and holds the connection, `drop` resets it, `cut` closes it in the middle of the reply,
    `garbage` inserts junk into the body, `status` (or `429`, `500`, `502`, `503`) answers with that status, `error`
    reports an error inside a 200 reply, `no_end` omits the end marker, `drip` sends a few bytes at a time, `delay`
    waits, `truncate` reads only half a window and 2 tokens of a longer prompt and counts those, as Ollama does, `none`
    does nothing.
    """

    kind: str
    after: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Bytes of the body to send first; None: fail before anything is sent, even the status line."""
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    retry_after: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds, for the Retry-After header."""
    body: str | dict[str, Any] | None = None
    """status: the body. error: its message or the whole error object. garbage: the junk, one byte per character."""
    seconds: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """delay: duration. stall: until the connection is dropped (default: never). drip: between two writes."""
    size: Annotated[int, msgspec.Meta(ge=1)] = 1
    """drip: bytes per write."""
    ping: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """stall, delay: seconds between keep-alives without content (an SSE comment, an empty chunk)."""
    window: Annotated[int, msgspec.Meta(ge=16)] | None = None
    """truncate: the window in tokens; None: the request's `num_ctx`."""
    times: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Only the first `times` matching requests are disturbed; None: all."""

    def __post_init__(self) -> None:
        if self.kind not in FAULT_KINDS:
            raise ValueError(f"unknown kind of fault `{self.kind}`; known are {', '.join(FAULT_KINDS)}")

    @property
    def code(self) -> int | None:
        """The HTTP status to answer with, if the fault is a status."""
        if self.kind.isdigit():
            return int(self.kind)
        return (self.status or 500) if self.kind == "status" else None


class FunctionPart(_Part, frozen=True, kw_only=True):
    """Name and arguments, nested as in OpenAI's format."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: str | dict[str, Any] = "{}"


class CallPart(_Part, frozen=True, kw_only=True):
    """A tool call: `{"id", "type", "function": {"name", "arguments"}}`, or short `{"name", "arguments"}`."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: FunctionPart | None = None
    name: str | None = None
    arguments: str | dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.function is None and not self.name:
            raise ValueError("a tool call needs `name` or `function`")
        if self.function is not None and (self.name is not None or self.arguments is not None):
            raise ValueError("a tool call has either `function` or `name` and `arguments`, not both")

    @property
    def tool_name(self) -> str:
        """The name of the tool."""
        return self.function.name if self.function else self.name or ""

    @property
    def raw(self) -> str:
        """The arguments as text, unchanged if the file has them as text (they may be invalid on purpose)."""
        arguments = self.function.arguments if self.function else self.arguments
        if isinstance(arguments, str):
            return arguments
        return json.dumps(arguments or {}, ensure_ascii=False)


class UsagePart(_Part, frozen=True, kw_only=True):
    """Token counts to report instead of estimates."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None


class Response(_Part, frozen=True, kw_only=True):
    """Text, reasoning and calls of one reply."""

    role: Literal["assistant"] = "assistant"
    content: str | None = None
    tool_calls: tuple[CallPart, ...] | None = None
    thinking: str | None = None
    finish_reason: str | None = None
    """Replaces `stop` or `tool_calls`; empty: none is reported."""
    usage: UsagePart | None = None


class Variant(_Part, frozen=True, kw_only=True):
    """An alternative response, used if all its conditions hold.

    `has` and `lacks` refer to the latest tool result; `seen` and `unseen` to everything in the request from the user's
    last message on, except the model's own messages. That way a summary can depend on the record it is about, and a
    step on the results of earlier steps.
    """

    has: str | None = None
    lacks: str | None = None
    seen: str | tuple[str, ...] = ()
    """Substrings that must all occur."""
    unseen: str | tuple[str, ...] = ()
    """Substrings that must not occur."""
    response: Response


class ScenarioStep(_Part, frozen=True, kw_only=True):
    response: Response = Response()
    instead: tuple[Variant, ...] = ()
    """The first matching variant replaces `response`."""
    fault: SimulatedFault | None = None
    delay: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Seconds before the first byte."""
    pace: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds between two fragments; None: the default of server or model."""
    proof: str | None = None
    """What the result of this step's last call must contain for the step to count as done; used only by the noisy
    model, which goes by achievements instead of the number of results."""
    description: str = ""


class When(_Part, frozen=True, kw_only=True):
    """Additional conditions; all given ones must hold."""

    model: str | None = None
    """Glob pattern for the requested model's name."""
    system: str | None = None
    """Substring of the system messages, or of the separate task that follows `<agent_task>` at the end of the
    request."""
    tools: bool | None = None
    """Whether the request offers tools."""
    step: str | None = None
    """Substring of the newest step of a plan (`<agent_step>`); results are counted from there."""


class Scenario(_Part, frozen=True, kw_only=True):
    """The replies to one kind of user message."""

    name: str
    trigger: str | tuple[str, ...]
    """Substring of the user's last message, or several alternatives; empty matches everything. With `system` it may
    occur in the task that `system` matched."""
    ignore_case: bool = False
    when: When = When()
    steps: Annotated[tuple[ScenarioStep, ...], msgspec.Meta(min_length=1)]
    description: str = ""


class Scenarios(_Part, frozen=True, kw_only=True):
    """A scenario file; the first matching scenario answers."""

    scenarios: tuple[Scenario, ...] = ()
    default_response: Response = Response(content="I don't understand: no scenario fits this message.")
    description: str = ""


def parse_scenarios(data: bytes | str, source: str = "scenarios") -> Scenarios:
    """Parse scenarios. `source` names them in errors. Raises ScenarioError with line or JSON path."""
    try:
        return convert_scenarios(json.loads(data), source)
    except json.JSONDecodeError as error:
        location = f"line {error.lineno}, column {error.colno}"
        raise ScenarioError(f"{source}: {location}: not valid JSON: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise ScenarioError(f"{source}: not valid JSON: {error}") from None


def convert_scenarios(value: object, source: str = "scenarios") -> Scenarios:
    """Convert scenarios from plain data. Raises ScenarioError with the JSON path."""
    try:
        return msgspec.convert(value, Scenarios)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).rpartition(" - at ")
        raise ScenarioError(f"{source}: {path.strip('`') if problem else '$'}: {problem or path}") from None


def load_scenarios(path: Path) -> Scenarios:
    """Read a scenario file. Raises ScenarioError with the file and location."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ScenarioError(f"{path}: can't be read: {error.strerror or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise ScenarioError(f"{path}: larger than {FILE_BYTES_MAX // 1024**2} MiB")
    return parse_scenarios(data, str(path))
