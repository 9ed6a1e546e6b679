"""Send a model small test tasks, as a session would ask for them, and judge the replies (M8, E4)."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import Counter
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.common.domain import (
    Fault,
    FrozenValue,
    Message,
    Mode,
    ProgramMessage,
    SystemMessage,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    program_text,
)
from tui_agent.engine.checks.relevant_files import RelevantFiles
from tui_agent.engine.checks.request_reading import removable_names
from tui_agent.engine.core.prompts import prompt
from tui_agent.engine.models.protocol_fallback import ProtocolFallback
from tui_agent.models.base import (
    CallProgress,
    CallReady,
    Failed,
    Model,
    ModelRequest,
    ReasoningFragment,
    Stop,
    TextFragment,
    UsageReport,
)
from tui_agent.models.selection import Sampling
from tui_agent.protocols.file_reply import read_file_reply
from tui_agent.protocols.parser import ParsedReply, Protocol, parse_reply
from tui_agent.tools.registry import Registry, default_tools

HERE = Path(__file__).parent
FILE_REPLY_TOKENS = 700
"""Token limit of a reply with whole files, as in a run."""
VALID = "valid"
NO_REPLY_KINDS = ("unreachable", "refused", "timeout")
"""Kinds of failure in which the model gave no reply."""
FAILURE_KINDS: dict[str, str] = json.loads((HERE / "reply_failures.json").read_bytes())
"""Kind of failure → explanation."""
_EDIT_TOOLS = ("write_file", "edit_file")

# --- tasks ----------------------------------------------------------------------------------


class FileTask(FrozenValue, frozen=True, kw_only=True):
    """A change that the model is asked to make by returning a whole file."""

    text: str
    file: str
    """Path of the file that changes or is created."""
    content: str
    """Expected content."""


class ProbeProject(FrozenValue, frozen=True, kw_only=True):
    """A tiny project and its tasks. All tasks show the same files, so that a prompt cache can be detected."""

    files: dict[str, str]
    tasks: tuple[FileTask, ...]


class CallTask(FrozenValue, frozen=True, kw_only=True):
    """A task for one tool call."""

    text: str
    tool: str = ""
    """The expected tool; "" accepts any tool that edits the file."""
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    """Arguments that must have exactly these values."""
    file: str = ""
    """Path of the file whose resulting content is compared; "" for none."""
    before: str = ""
    """Its content before the call."""
    after: str = ""
    """Its expected content after the call."""


@cache
def probe_project() -> ProbeProject:
    """The built-in project."""
    return msgspec.json.decode((HERE / "file_tasks.json").read_bytes(), type=ProbeProject)


@cache
def call_tasks() -> tuple[CallTask, ...]:
    """The built-in tasks for tool calls."""
    return msgspec.json.decode((HERE / "tool_tasks.json").read_bytes(), type=tuple[CallTask, ...])


def tasks_for(strategy: Protocol, quick: bool = False) -> tuple[CallTask | FileTask, ...]:
    """The tasks for a strategy. `quick`: the same file changes for all strategies, so that they can be compared."""
    if strategy == "files":
        return probe_project().tasks
    return _file_tasks_as_calls() if quick else call_tasks()


@cache
def _file_tasks_as_calls() -> tuple[CallTask, ...]:
    """The file tasks for tool calls; the text includes the content that the model would have read."""
    files = probe_project().files
    with_content = "You have read {file}; this is its content:\n```\n{before}```\n{text}"
    return tuple(
        CallTask(
            text=with_content.format(file=task.file, before=files[task.file], text=task.text)
            if task.file in files
            else task.text,
            file=task.file,
            before=files.get(task.file, ""),
            after=task.content,
        )
        for task in probe_project().tasks
    )


@cache
def _tools() -> Registry:
    return default_tools().for_mode(Mode.AGENT)


# --- attempts -------------------------------------------------------------------------------


class ProbeSetup(FrozenValue, frozen=True, kw_only=True):
    """The model to probe and its request options."""

    name: str
    window: int
    sampling: Sampling
    seconds: float
    """Time limit of one reply."""
    prompt: str = ""
    """The model's own prompt from models.json."""
    max_tokens: int | None = None
    """Token limit of a reply, if lower than a session's."""


class Attempt(FrozenValue, frozen=True, kw_only=True):
    """The judged reply to one task."""

    kind: str
    """`valid`, or a kind of failure."""
    recovered: bool = False
    """The call was recovered from plain text."""
    ms: int = 0
    first_ms: int | None = None
    """Milliseconds to the first text, reasoning or call; None without one."""
    detail: str = ""
    usage: Usage = Usage()
    estimate: int = 0
    """Estimated prompt tokens."""


class Cell(msgspec.Struct):
    """The attempts with one strategy at one temperature."""

    protocol: Protocol
    temperature: float
    attempts: list[Attempt]

    @property
    def valid(self) -> int:
        """Number of valid replies."""
        return sum(attempt.kind == VALID for attempt in self.attempts)

    @property
    def recovered(self) -> int:
        """Number of valid replies with a recovered call."""
        return sum(attempt.kind == VALID and attempt.recovered for attempt in self.attempts)

    @property
    def failures(self) -> Counter[str]:
        """Number of failures by kind."""
        return Counter(attempt.kind for attempt in self.attempts if attempt.kind != VALID)

    @property
    def median_seconds(self) -> float | None:
        """Median duration of a reply; None without one."""
        durations = [attempt.ms for attempt in self.attempts if attempt.kind not in NO_REPLY_KINDS]
        return statistics.median(durations) / 1000 if durations else None


class _Reply(msgspec.Struct):
    """A reply while it streams in."""

    calls: list[ToolCall]
    text: str = ""
    has_reasoning: bool = False
    stop_reason: str = ""
    fault: Fault | None = None
    usage: Usage = Usage()
    first_at: float | None = None
    """When the first text, reasoning or call arrived."""


async def probe(
    model: Model, setup: ProbeSetup, task: CallTask | FileTask, protocol: Protocol, temperature: float | None = None
) -> Attempt:
    """Ask for one of `tasks_for(protocol)` and judge the reply. Failures are returned, never raised."""
    request = _request(setup, task, protocol, temperature)
    reply, started = _Reply([]), time.monotonic()
    try:
        async with asyncio.timeout(setup.seconds):
            await _receive(model, request, reply)
    except TimeoutError:
        reply.fault = Fault(kind="timeout", message=f"No complete reply within {setup.seconds:g} s.")
    kind, detail, recovered = _judge(reply, task, protocol)
    size = sum(len(message.text) for message in request.messages)
    size += sum(len(tool.description) + len(str(tool.parameters)) for tool in request.tools)
    return Attempt(
        kind=kind,
        detail=detail,
        recovered=recovered,
        ms=round((time.monotonic() - started) * 1000),
        first_ms=None if reply.first_at is None else round((reply.first_at - started) * 1000),
        usage=reply.usage,
        estimate=size // 4,
    )


def _request(
    setup: ProbeSetup, task: CallTask | FileTask, protocol: Protocol, temperature: float | None
) -> ModelRequest:
    sampling = setup.sampling
    max_tokens = sampling.max_tokens if setup.max_tokens is None else min(setup.max_tokens, sampling.max_tokens)
    request = ModelRequest(
        model=setup.name,
        messages=(),
        temperature=sampling.temperature if temperature is None else temperature,
        max_tokens=max_tokens,
        num_ctx=setup.window,
        think=sampling.think,
        keep_alive=sampling.keep_alive,
    )
    if isinstance(task, FileTask):
        return msgspec.structs.replace(
            request, messages=_file_messages(task, setup.prompt), max_tokens=min(max_tokens, FILE_REPLY_TOKENS)
        )
    fallback = ProtocolFallback(setup.name, fixed=protocol, emit=lambda event: None)
    specs = _tools().specs()
    rules = prompt("rules") + "\n\nWorking folder: /home/user/project (Linux)."
    system = f"{rules}\n\n{setup.prompt}" if setup.prompt else rules
    dressed = fallback.request_format(specs)
    messages = fallback.messages((SystemMessage(text=system), UserMessage(text=task.text)), specs)
    return msgspec.structs.replace(request, messages=messages, tools=dressed.tools, format=dressed.format)


def _file_messages(task: FileTask, model_prompt: str) -> tuple[Message, ...]:
    """The messages of the files strategy, as in the first request of a run."""
    files = probe_project().files
    listing = RelevantFiles(files, files).text()
    return (
        SystemMessage(text="\n\n".join(filter(None, (prompt("files_rules"), model_prompt)))),
        ProgramMessage(text=program_text("files", f"The files of my project:\n\n{listing}")),
        UserMessage(text=task.text),
        ProgramMessage(text=program_text("form", prompt("files_form"))),
    )


async def _receive(model: Model, request: ModelRequest, reply: _Reply) -> None:
    async with aclosing(model.stream(request)) as pieces:
        async for piece in pieces:
            if reply.first_at is None and isinstance(
                piece, TextFragment | ReasoningFragment | CallProgress | CallReady
            ):
                reply.first_at = time.monotonic()
            match piece:
                case TextFragment(text=text):
                    reply.text += text
                case ReasoningFragment():
                    reply.has_reasoning = True
                case CallReady(call=call):
                    reply.calls.append(call)
                case UsageReport(usage=usage):
                    reported = {k: v for k, v in msgspec.structs.asdict(usage).items() if v is not None}
                    reply.usage = msgspec.structs.replace(reply.usage, **reported)
                case Stop(reason=reason):
                    reply.stop_reason = reason
                case Failed(fault=fault):
                    reply.fault = fault


# --- judging --------------------------------------------------------------------------------


def _judge(reply: _Reply, task: CallTask | FileTask, protocol: Protocol) -> tuple[str, str, bool]:
    """Return the kind of the attempt, a detail, and whether the call was recovered."""
    if reply.fault is not None:
        return _fault_kind(reply.fault), reply.fault.message, False
    if isinstance(task, FileTask):
        kind, detail = judge_file_reply(reply.text, task)
        if kind or reply.stop_reason == "length":
            return (*_incomplete_kind(reply, kind, detail), False)
        return VALID, "", False
    parsed, calls = ParsedReply(), reply.calls
    if not calls:
        parsed = parse_reply(reply.text, _tools().specs(), protocol=protocol)
        calls = [
            ToolCall(id=f"p{number}", name=call.name, arguments=call.arguments, fault=call.fault, raw=call.raw)
            for number, call in enumerate(parsed.calls)
        ]
    if calls:
        return (*_judge_calls(calls, task), any(call.recovered for call in parsed.calls))
    kind, detail = ("unreadable", parsed.error) if parsed.error else ("prose", reply.text.strip()[:200])
    return (*_incomplete_kind(reply, kind, detail), False)


def _fault_kind(fault: Fault) -> str:
    if fault.kind == "model_output":
        return "server"
    if fault.kind in ("timeout", "unreachable"):
        return fault.kind
    if fault.kind == "status" and fault.status is not None and fault.status < 500:
        return "refused"
    return "broken"


def _incomplete_kind(reply: _Reply, kind: str, detail: str) -> tuple[str, str]:
    """Kind and detail of an invalid reply; being truncated or empty takes precedence over `kind`."""
    if reply.stop_reason == "length":
        return "truncated", f"after {reply.usage.completion_tokens or 'all'} tokens"
    if not reply.text.strip():
        return ("thinking_only" if reply.has_reasoning else "empty"), ""
    return kind, detail


def judge_file_reply(text: str, task: FileTask) -> tuple[str, str]:
    """Return the kind of failure and a detail, both "" if the reply makes exactly the change."""
    reply = read_file_reply(text, probe_project().files, task.text, removable_names(task.text))
    if not reply.shown:
        return "prose", text.strip()[:200]
    if set(reply.files) != {task.file}:
        named = ", ".join(reply.files) or "nothing"
        return "wrong_file", f"{named} changed instead of {task.file}"
    return _compare(task.file, reply.files[task.file], task.content)


def _judge_calls(calls: list[ToolCall], task: CallTask) -> tuple[str, str]:
    """A reply is valid if all its calls could run and one of them does what was asked."""
    matching: dict[str, Any] | None = None
    names: list[str] = []
    content = f"{task.before.rstrip()}\n"
    for call in calls:
        if call.fault is not None:
            return "unreadable", call.fault
        parsed = _tools().parse(call)
        if isinstance(parsed, ToolResult):
            return parsed.code or "bad_arguments", parsed.error or ""
        tool, model = parsed
        arguments = model.model_dump()
        names.append(tool.name)
        edits = tool.name in _EDIT_TOOLS
        if tool.name == task.tool or (not task.tool and edits):
            matching = arguments
        if edits and _normalized(arguments.get("path")) == task.file:
            content = _apply_edit(content, arguments)
    if matching is None:
        return "wrong_tool", f"{', '.join(names)} instead of {task.tool or ' or '.join(_EDIT_TOOLS)}"
    for name, value in task.values.items():
        if _normalized(matching.get(name)) != _normalized(value):
            return "wrong_values", f"{name} is {matching.get(name)!r} instead of {value!r}"
    kind, detail = _compare(task.file, content, task.after) if task.file else ("", "")
    return kind or VALID, detail


def _apply_edit(content: str, arguments: dict[str, Any]) -> str:
    if "content" in arguments:
        return str(arguments["content"])
    old, new = str(arguments.get("old_string") or ""), str(arguments.get("new_string") or "")
    return content.replace(old, new) if old else content


def _compare(file: str, content: str, expected: str) -> tuple[str, str]:
    if comparable_content(file, content) == comparable_content(file, expected):
        return "", ""
    return "wrong_content", f"{file} becomes {content.strip()[:200]}"


def comparable_content(name: str, content: str) -> Any:
    """The content without differences that don't matter: surrounding whitespace, and the layout of JSON."""
    if name.endswith(".json"):
        try:
            return json.loads(content)
        except ValueError:
            return content
    return content.strip()


def _normalized(value: Any) -> str:
    """A value without surrounding whitespace and the prefix of a path in the working folder."""
    return str(value).strip().removeprefix("/home/user/project/").removeprefix("./")
