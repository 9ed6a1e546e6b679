"""One small change that a model makes by the `files` strategy, asked for in the form of a run's first request (E4)."""

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
from tui_agent.models.base import CallReady, Failed, Model, ModelRequest, Stop, TextPiece, ThinkingPiece, UsagePiece
from tui_agent.models.selection import Sampling
from tui_agent.protocols.file_reply import read_file_reply
from tui_agent.protocols.parser import ParsedReply, Protocol, parse_reply
from tui_agent.tools.registry import Registry, default_tools

FILE_TASKS_FILE = Path(__file__).with_name("file_tasks.json")
FILE_REPLY_TOKENS = 700
"""Tokens of a reply at most, as in a run."""


class FileTask(FrozenValue, frozen=True, kw_only=True):
    """What the model is asked to change."""

    text: str
    file: str
    """The one that changes, or is new."""
    content: str
    """Its content afterwards."""


class ProbeProject(FrozenValue, frozen=True, kw_only=True):
    """A tiny project, and what is to be changed in it. All tasks show the same files, so that a server that keeps what
    it read has the beginning of each prompt but the first."""

    files: dict[str, str]
    tasks: tuple[FileTask, ...]


@cache
def probe_project() -> ProbeProject:
    """The project that comes with the program."""
    return msgspec.json.decode(FILE_TASKS_FILE.read_bytes(), type=ProbeProject)


def _file_messages(task: FileTask, model_prompt: str) -> tuple[Message, ...]:
    """The request for `task`; `model_prompt` is what models.json has to tell the model."""
    files = probe_project().files
    system = "\n\n".join(filter(None, (prompt("files_rules"), model_prompt)))
    shown = RelevantFiles(files, files).text()
    return (
        SystemMessage(text=system),
        ProgramMessage(text=program_text("files", f"The files of my project:\n\n{shown}")),
        UserMessage(text=task.text),
        ProgramMessage(text=program_text("form", prompt("files_form"))),
    )


def judge_file_reply(text: str, task: FileTask) -> tuple[str, str]:
    """Kind of failure, and detail; two empty texts where the reply does just what was asked."""
    reply = read_file_reply(text, probe_project().files, task.text, removable_names(task.text))
    if not reply.shown:
        return "prose", text.strip()[:200]
    if set(reply.files) != {task.file}:
        named = ", ".join(reply.files) or "nothing"
        return "wrong_file", f"{named} changed instead of {task.file}"
    if comparable_content(task.file, reply.files[task.file]) != comparable_content(task.file, task.content):
        return "wrong_content", f"{task.file} becomes {reply.files[task.file].strip()[:200]}"
    return "", ""


def comparable_content(name: str, content: str) -> Any:
    """A content without what does not matter: blanks at its ends, and the layout of JSON."""
    if name.endswith(".json"):
        try:
            return json.loads(content)
        except ValueError:
            return content
    return content.strip()


TASKS_FILE = Path(__file__).with_name("tool_tasks.json")
VALID = "valid"
NO_ANSWER = ("unreachable", "refused", "timeout")
"""Kinds of failure without an answer of the model."""
_CHANGING = ("write_file", "edit_file")
"""Tools that change a file."""
KINDS: dict[str, str] = json.loads(Path(__file__).with_name("reply_failures.json").read_bytes())
"""Kind of failure → what it means."""


class CallTask(FrozenValue, frozen=True, kw_only=True):
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


class ProbeSetup(FrozenValue, frozen=True, kw_only=True):
    """A model and how it is asked."""

    name: str
    window: int
    sampling: Sampling
    seconds: float
    """For one reply."""
    prompt: str = ""
    """What models.json has to tell the model."""
    longest: int | None = None
    """Tokens of a reply at most, where it is to be fewer than in a session."""


class Attempt(FrozenValue, frozen=True, kw_only=True):
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


class Cell(msgspec.Struct):
    """The replies to one strategy at one temperature."""

    protocol: Protocol
    temperature: float
    attempts: list[Attempt]

    @property
    def valid(self) -> int:
        """Replies that could run and do what was asked."""
        return sum(one.kind == VALID for one in self.attempts)

    @property
    def recovered(self) -> int:
        """Valid ones among them that came in plain text."""
        return sum(one.kind == VALID and one.recovered for one in self.attempts)

    @property
    def failures(self) -> Counter[str]:
        """Kind → how often."""
        return Counter(one.kind for one in self.attempts if one.kind != VALID)

    @property
    def seconds(self) -> float | None:
        """The median time of a whole reply."""
        answered = [one.ms for one in self.attempts if one.kind not in NO_ANSWER]
        return statistics.median(answered) / 1000 if answered else None


@cache
def call_tasks() -> tuple[CallTask, ...]:
    """The tasks for calls that come with the program."""
    return tuple(msgspec.json.decode(TASKS_FILE.read_bytes(), type=list[CallTask]))


def tasks_for(strategy: Protocol, quick: bool = False) -> tuple[CallTask | FileTask, ...]:
    """The tasks for a strategy. `quick`: the same changes of files for all of them, so that they can be compared."""
    if strategy == "files":
        return probe_project().tasks
    return _changes() if quick else call_tasks()


@cache
def _changes() -> tuple[CallTask, ...]:
    """The changes of the files strategy, for calls: the model is told what it would have read."""
    files = probe_project().files
    told = "You have read {file}; this is its content:\n```\n{before}```\n{text}"
    return tuple(
        CallTask(
            text=told.format(file=one.file, before=files[one.file], text=one.text) if one.file in files else one.text,
            file=one.file,
            before=files.get(one.file, ""),
            after=one.content,
        )
        for one in probe_project().tasks
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


async def probe(
    model: Model, setup: ProbeSetup, task: CallTask | FileTask, protocol: Protocol, temperature: float | None = None
) -> Attempt:
    """Ask for `task` once, which is one of `tasks_for(protocol)`. Failures are outcomes; only cancellation is
    raised."""
    request = _request(setup, task, protocol, temperature)
    heard, began = _Heard([]), time.monotonic()
    try:
        async with asyncio.timeout(setup.seconds):
            await _hear(model, request, heard)
    except TimeoutError:
        heard.fault = Fault(kind="timeout", message=f"No complete reply within {setup.seconds:g} s.")
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
    setup: ProbeSetup, task: CallTask | FileTask, protocol: Protocol, temperature: float | None
) -> ModelRequest:
    most = setup.sampling.max_tokens if setup.longest is None else min(setup.longest, setup.sampling.max_tokens)
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
        shown = _file_messages(task, setup.prompt)
        return msgspec.structs.replace(common, messages=shown, max_tokens=min(most, FILE_REPLY_TOKENS))
    ladder = ProtocolFallback(setup.name, fixed=protocol, tell=lambda event: None)
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
                case TextPiece(text=text):
                    heard.text += text
                case ThinkingPiece():
                    heard.thought = True
                case CallReady(call=call):
                    heard.calls.append(call)
                case UsagePiece(usage=usage):
                    known = {k: v for k, v in msgspec.structs.asdict(usage).items() if v is not None}
                    heard.usage = msgspec.structs.replace(heard.usage, **known)
                case Stop(reason=reason):
                    heard.stop = reason
                case Failed(fault=fault):
                    heard.fault = fault


def _judge(heard: _Heard, task: CallTask | FileTask, protocol: Protocol) -> tuple[str, str, bool]:
    """Kind, detail, and whether the call was recovered."""
    if heard.fault is not None:
        return _fault_kind(heard.fault), heard.fault.message, False
    if isinstance(task, FileTask):
        kind, detail = judge_file_reply(heard.text, task)
        if kind or heard.stop == "length":
            return (*_unfinished(heard, kind, detail), False)
        return VALID, "", False
    parsed, calls, recovered = ParsedReply(), list(heard.calls), False
    if not calls:
        parsed = parse_reply(heard.text, _tools().specs(), protocol=protocol)
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


def _judge_calls(calls: list[ToolCall], task: CallTask) -> tuple[str, str]:
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
    if task.file and comparable_content(task.file, content) != comparable_content(task.file, task.after):
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
