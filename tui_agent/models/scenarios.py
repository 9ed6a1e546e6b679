"""Scenario files: what the scripted model and the mock server answer (M3, M4)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import msgspec

FILE_BYTES_MAX = 32 * 1024 * 1024
"""No scenario file is larger; what is, was not meant to be one."""

MISBEHAVIOURS = (
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
    """A scenario file can't be used. The message names the file and the place in it."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything in a file: a misspelt field is an error, not silence."""


class SimulatedFault(_Part, frozen=True, kw_only=True):
    """How the server spoils a reply (M4).

    `stall` stops sending and holds the connection, `drop` resets it, `cut` closes it in mid-reply, `garbage` puts
    junk into the body, `status` (or `429`, `500`, `502`, `503`) answers with that status, `error` reports an error
    inside a 200 reply, `no_end` leaves the end marker out, `drip` sends a few bytes at a time, `delay` waits,
    `truncate` reads only half a window and 2 tokens of a longer prompt and counts that, as Ollama does, `none` behaves.
    """

    kind: str
    after: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Bytes of the body that arrive first; None is before anything at all, even the status line."""
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    retry_after: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds, for the Retry-After header."""
    body: str | dict[str, Any] | None = None
    """status: the body. error: its message or the whole error object. garbage: the junk, one byte a character."""
    seconds: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """delay: how long. stall: until the connection is dropped (never, by default). drip: between two writes."""
    size: Annotated[int, msgspec.Meta(ge=1)] = 1
    """drip: bytes in one write."""
    ping: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """stall, delay: seconds between signs of life that carry nothing (an SSE comment, an empty chunk)."""
    window: Annotated[int, msgspec.Meta(ge=16)] | None = None
    """truncate: the window in tokens; None is what the request asks for as `num_ctx`."""
    times: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Only the first so many requests that meet it are spoilt; None is every one."""

    def __post_init__(self) -> None:
        if self.kind not in MISBEHAVIOURS:
            raise ValueError(f"unknown kind of fault `{self.kind}`; known are {', '.join(MISBEHAVIOURS)}")

    @property
    def code(self) -> int | None:
        """The HTTP status to answer with, if this is a matter of status."""
        if self.kind.isdigit():
            return int(self.kind)
        return (self.status or 500) if self.kind == "status" else None


class FunctionPart(_Part, frozen=True, kw_only=True):
    """Name and arguments, as OpenAI nests them."""

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
    def called(self) -> str:
        """The name of the tool."""
        return self.function.name if self.function else self.name or ""

    @property
    def raw(self) -> str:
        """The arguments as text: exactly the file's, if it gave them as text (they may be unreadable on purpose)."""
        given = self.function.arguments if self.function else self.arguments
        if isinstance(given, str):
            return given
        return json.dumps(given or {}, ensure_ascii=False)


class UsagePart(_Part, frozen=True, kw_only=True):
    """Token counts to report instead of estimated ones."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None


class Response(_Part, frozen=True, kw_only=True):
    """What the model says and calls in one reply."""

    role: Literal["assistant"] = "assistant"
    content: str | None = None
    tool_calls: tuple[CallPart, ...] | None = None
    thinking: str | None = None
    finish_reason: str | None = None
    """Reported instead of `stop` or `tool_calls`; "" reports none."""
    usage: UsagePart | None = None


class Variant(_Part, frozen=True, kw_only=True):
    """Another response, given when all conditions that it names hold.

    `has` and `lacks` look at the latest tool result. `seen` and `unseen` look at all that the request holds from the
    user's last message on: that message, tool results and the program's words, but not what the model said itself.
    So a summary can follow the record that it is asked about, and a step what came out of the steps before it.
    """

    has: str | None = None
    lacks: str | None = None
    seen: str | tuple[str, ...] = ()
    """Substrings that all must be there."""
    unseen: str | tuple[str, ...] = ()
    """Substrings of which none may be there."""
    response: Response


class ScenarioStep(_Part, frozen=True, kw_only=True):
    """One reply of a scenario."""

    response: Response = Response()
    instead: tuple[Variant, ...] = ()
    """The first variant that fits replaces `response`."""
    fault: SimulatedFault | None = None
    delay: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Seconds before the first byte."""
    pace: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds between two fragments; None leaves it to the server or model."""
    proof: str | None = None
    """What the result of this step's last call must contain for the step to count as done; only the noisy model,
    which goes by what was achieved instead of by how many results there are, looks at it."""
    description: str = ""


class When(_Part, frozen=True, kw_only=True):
    """Further conditions; all that are given must hold."""

    model: str | None = None
    """A glob over the requested model's name."""
    system: str | None = None
    """A substring of the system messages, or of a task that the program sets beside the conversation: what stands
    behind `<agent_task>` at the end of the request."""
    tools: bool | None = None
    """Whether the request offers tools."""
    step: str | None = None
    """A substring of the newest step of a plan that the program set (`<agent_step>`); results count from there."""


class Scenario(_Part, frozen=True, kw_only=True):
    """The replies to one thing that the user may say."""

    name: str
    trigger: str | tuple[str, ...]
    """A substring of the user's own last message, or several of which one suffices; "" fits everything. With `system`
    it may stand in the task that this was found in."""
    ignore_case: bool = False
    when: When = When()
    steps: Annotated[tuple[ScenarioStep, ...], msgspec.Meta(min_length=1)]
    description: str = ""


class Scenarios(_Part, frozen=True, kw_only=True):
    """A whole file; the first scenario that fits answers."""

    scenarios: tuple[Scenario, ...] = ()
    default_response: Response = Response(content="I don't understand: no scenario fits this message.")
    description: str = ""


def parse_scenarios(data: bytes | str, source: str = "scenarios") -> Scenarios:
    """Read scenarios from JSON. `source` names them in errors. Raises ScenarioError with line or JSON path."""
    try:
        return convert_scenarios(json.loads(data), source)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ScenarioError(f"{source}: {where}: not valid JSON: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise ScenarioError(f"{source}: not valid JSON: {error}") from None


def convert_scenarios(value: object, source: str = "scenarios") -> Scenarios:
    """Scenarios from plain dicts and lists. Raises ScenarioError that names the JSON path."""
    try:
        return msgspec.convert(value, Scenarios)
    except msgspec.ValidationError as error:
        _refuse(source, str(error))


def _refuse(source: str, text: str) -> NoReturn:
    found = re.fullmatch(r"(.*) - at `(.*)`", text, re.DOTALL)
    what, path = found.groups() if found else (text, "$")
    raise ScenarioError(f"{source}: {path}: {what}")


def load_scenarios(path: Path) -> Scenarios:
    """Read a scenario file. Raises ScenarioError that names the file and the place in it."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ScenarioError(f"{path}: can't be read: {error.strerror or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise ScenarioError(f"{path}: larger than {FILE_BYTES_MAX // 1024**2} MiB")
    return parse_scenarios(data, str(path))
