"""One small task for a model, and what came of it: asked by the product's own client and parser."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.commands import file_probing
from tui_agent.commands.file_probing import FileTask
from tui_agent.domain import Fault, Mode, Noun, SystemMessage, ToolCall, ToolResult, Usage, UserMessage
from tui_agent.engine.ladder import Ladder
from tui_agent.engine.prompts import prompt
from tui_agent.models.base import CallReady, Counted, Failed, Model, ModelRequest, Stop, Text, Thought
from tui_agent.models.selection import Sampling
from tui_agent.protocols.parser import Parsed, Protocol
from tui_agent.protocols.streaming import TextStream
from tui_agent.tools.registry import Registry, default_tools

TASKS_FILE = Path(__file__).with_name("tool_tasks.json")
VALID = "valid"
_CHANGING = ("write_file", "edit_file")
"""Tools that change a file."""
KINDS = {
    "unreadable": "the call can't be read",
    "unknown_tool": "a tool that does not exist",
    "bad_arguments": "arguments that do not fit",
    "wrong_tool": "another tool than the task needs",
    "wrong_values": "other values than the task says",
    "wrong_file": "other files than the task says",
    "wrong_content": "another content than the task says",
    "prose": "words instead of a call or a file",
    "empty": "nothing at all",
    "thinking_only": "thoughts only",
    "truncated": "cut off at the limit",
    "server": "the server could not read its model",
    "timeout": "no reply in time",
    "broken": "the connection broke",
    "refused": "the server refused the request",
    "unreachable": "the server can't be reached",
}
"""Kind of failure → what it means."""


class Task(Noun, frozen=True, kw_only=True):
    """What the model is asked to do with one call."""

    text: str
    tool: str = ""
    """The tool that it needs; empty for each that changes the file."""
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    """Arguments that must come just so."""
    file: str = ""
    """The file that changes, where what comes of it is judged."""
    before: str = ""
    """Its content, which has to become `after`."""
    after: str = ""


class Setup(Noun, frozen=True, kw_only=True):
    """A model and how it is asked."""

    name: str
    window: int | None
    sampling: Sampling
    seconds: float
    """For one reply."""
    prompt: str = ""
    """What models.json has to tell the model."""
    longest: int | None = None
    """Tokens of a reply at most, where it is to be fewer than in a session."""


class Attempt(Noun, frozen=True, kw_only=True):
    """What came of a task."""

    kind: str
    """`valid`, or a kind of failure."""
    recovered: bool = False
    """The call was found in plain text instead of the protocol's own form."""
    ms: int = 0
    detail: str = ""
    fault: Fault | None = None
    usage: Usage = Usage()
    estimate: int = 0
    """Tokens that the request was thought to hold."""


@cache
def tasks() -> tuple[Task, ...]:
    """The tasks for calls that come with the program."""
    return tuple(msgspec.json.decode(TASKS_FILE.read_bytes(), type=list[Task]))


def tasks_for(strategy: Protocol, quick: bool = False) -> tuple[Task | FileTask, ...]:
    """The tasks for a strategy. `quick`: the same changes of files for all of them, so that they can be compared."""
    if strategy == "files":
        return file_probing.project().tasks
    return _changes() if quick else tasks()


@cache
def _changes() -> tuple[Task, ...]:
    """The changes of the files strategy, for calls: the model is told what it would have read."""
    files = file_probing.project().files
    told = "You have read {file}; this is its content:\n```\n{before}```\n{text}"
    return tuple(
        Task(
            text=told.format(file=one.file, before=files[one.file], text=one.text)
            if one.file in files
            else one.text,
            file=one.file,
            before=files.get(one.file, ""),
            after=one.content,
        )
        for one in file_probing.project().tasks
    )


@cache
def _tools() -> Registry:
    return default_tools().for_mode(Mode.AGENT)


class _Heard(msgspec.Struct):
    """A reply as it comes in."""

    calls: list[ToolCall]
    text: str = ""
    thought: bool = False
    stop: str = ""
    fault: Fault | None = None
    usage: Usage = Usage()


async def attempt(
    model: Model, setup: Setup, task: Task | FileTask, protocol: Protocol, temperature: float | None = None
) -> Attempt:
    """Ask for `task` once, which is one of `tasks_for(protocol)`. Failures are outcomes; only cancellation is
    raised."""
    request = _request(setup, task, protocol, temperature)
    heard, began = _Heard([]), time.monotonic()
    try:
        async with asyncio.timeout(setup.seconds):
            await _hear(model, request, heard)
    except TimeoutError:
        heard.fault = Fault(kind="timeout", message=f"There was no whole reply within {setup.seconds:g} s.")
    kind, detail, recovered = _judge(heard, task, protocol)
    size = sum(len(message.text) for message in request.messages)
    size += sum(len(tool.description) + len(str(tool.parameters)) for tool in request.tools)
    return Attempt(
        kind=kind,
        detail=detail,
        recovered=recovered,
        ms=round((time.monotonic() - began) * 1000),
        fault=heard.fault,
        usage=heard.usage,
        estimate=size // 4,
    )


def _request(
    setup: Setup, task: Task | FileTask, protocol: Protocol, temperature: float | None
) -> ModelRequest:
    most = (
        setup.sampling.max_tokens if setup.longest is None else min(setup.longest, setup.sampling.max_tokens)
    )
    common = ModelRequest(
        model=setup.name,
        messages=(),
        temperature=setup.sampling.temperature if temperature is None else temperature,
        max_tokens=most,
        num_ctx=setup.window,
        think=setup.sampling.think,
        keep_alive=setup.sampling.keep_alive,
    )
    if isinstance(task, FileTask):
        shown = file_probing.messages(task, setup.prompt)
        return msgspec.structs.replace(common, messages=shown, max_tokens=min(most, file_probing.REPLY))
    ladder = Ladder(setup.name, fixed=protocol, tell=lambda event: None)
    specs = _tools().specs()
    rules = prompt("rules") + "\n\nWorking folder: /home/user/project (Linux)."
    system = f"{rules}\n\n{setup.prompt}" if setup.prompt else rules
    dressed = ladder.dress(specs)
    messages = ladder.messages((SystemMessage(text=system), UserMessage(text=task.text)), specs)
    return msgspec.structs.replace(common, messages=messages, tools=dressed.tools, format=dressed.format)


async def _hear(model: Model, request: ModelRequest, heard: _Heard) -> None:
    async with aclosing(model.stream(request)) as pieces:
        async for piece in pieces:
            match piece:
                case Text(text=text):
                    heard.text += text
                case Thought():
                    heard.thought = True
                case CallReady(call=call):
                    heard.calls.append(call)
                case Counted(usage=usage):
                    known = {k: v for k, v in msgspec.structs.asdict(usage).items() if v is not None}
                    heard.usage = msgspec.structs.replace(heard.usage, **known)
                case Stop(reason=reason):
                    heard.stop = reason
                case Failed(fault=fault):
                    heard.fault = fault


def _judge(heard: _Heard, task: Task | FileTask, protocol: Protocol) -> tuple[str, str, bool]:
    """Kind, detail, and whether the call was recovered."""
    if heard.fault is not None:
        return _fault_kind(heard.fault), heard.fault.message, False
    if isinstance(task, FileTask):
        kind, detail = file_probing.judge(heard.text, task)
        if kind or heard.stop == "length":
            return (*_unfinished(heard, kind, detail), False)
        return VALID, "", False
    parsed, calls, recovered = Parsed(), list(heard.calls), False
    if not calls:
        stream = TextStream(_tools().specs(), protocol=protocol)
        stream.feed(heard.text)
        _, parsed = stream.finish()
        recovered = any(found.recovered for found in parsed.calls)
        calls = [
            ToolCall(id=f"p{number}", name=one.name, arguments=one.arguments, fault=one.fault, raw=one.raw)
            for number, one in enumerate(parsed.calls)
        ]
    if calls:
        kind, detail = _judge_calls(calls, task)
        return kind, detail, recovered
    kind, detail = ("unreadable", parsed.error) if parsed.error else ("prose", heard.text.strip()[:200])
    return (*_unfinished(heard, kind, detail), False)


def _unfinished(heard: _Heard, kind: str, detail: str) -> tuple[str, str]:
    """Kind and detail of a reply that is of no use: that it has no end, or is empty, says more than `kind`."""
    if heard.stop == "length":
        return "truncated", f"after {heard.usage.completion_tokens or 'all'} tokens"
    if not heard.text.strip():
        return ("thinking_only" if heard.thought else "empty"), ""
    return kind, detail


def _judge_calls(calls: list[ToolCall], task: Task) -> tuple[str, str]:
    """A reply is valid when all its calls could run and one of them does what was asked."""
    done: dict[str, Any] | None = None
    names: list[str] = []
    content = f"{task.before.rstrip()}\n"
    for call in calls:
        if call.fault is not None:
            return "unreadable", call.fault
        parsed = _tools().parse(call)
        if isinstance(parsed, ToolResult):
            return parsed.code or "bad_arguments", parsed.error or ""
        tool, arguments = parsed
        names.append(tool.name)
        given = arguments.model_dump()
        if tool.name == task.tool or (not task.tool and tool.name in _CHANGING):
            done = given
        if tool.name in _CHANGING and _plain(given.get("path")) == task.file:
            content = _changed(content, given)
    if done is None:
        return "wrong_tool", f"{', '.join(names)} instead of {task.tool or ' or '.join(_CHANGING)}"
    for name, value in task.values.items():
        if _plain(done.get(name)) != _plain(value):
            return "wrong_values", f"{name} is {done.get(name)!r} instead of {value!r}"
    if task.file and file_probing.plain(task.file, content) != file_probing.plain(task.file, task.after):
        return "wrong_content", f"{task.file} becomes {content.strip()[:200]}"
    return VALID, ""


def _changed(content: str, given: dict[str, Any]) -> str:
    """What a call with these arguments makes of a file."""
    if "content" in given:
        return str(given["content"])
    old, new = str(given.get("old_string") or ""), str(given.get("new_string") or "")
    return content.replace(old, new) if old else content


def _plain(value: Any) -> str:
    """A value without what does not matter: `./` before a path, blanks around."""
    text = str(value).strip()
    return text.removeprefix("/home/user/project/").removeprefix("./")


def _fault_kind(fault: Fault) -> str:
    if fault.kind == "model_output":
        return "server"
    if fault.kind in ("timeout", "unreachable"):
        return fault.kind
    if fault.kind == "status" and fault.status is not None and fault.status < 500:
        return "refused"
    return "broken"
