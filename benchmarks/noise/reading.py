"""What the noisy model learns from a request: the progress of the work, and the reactions since the last step."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from benchmarks.noise.draft import call_arguments
from tui_agent.common.domain import PROGRAM_MARK
from tui_agent.models.scenario_matching import (
    ScriptConversation,
    ScriptedCall,
    matching_scenario,
    reply_at,
    text_of,
    user_text,
)
from tui_agent.models.scenarios import Scenario, Scenarios

_BLOCK = re.compile(r"<agent_(\w+)[^>\n]*>(.*?)(?:</agent_\1>|\Z)", re.DOTALL)
_FAILED = re.compile(
    r"\s*(<[^>]{1,40}>\s*)?"
    r"(\W{0,3}(error|fail|invalid|unknown|refused|traceback|interrupted|not run)"
    r'|\{[^{}]{0,80}"(success|ok)"\s*:\s*false)',
    re.IGNORECASE,
)
_TAGGED = re.compile(r"<tool_result>(\{[^\n]*\})\n(.*?)\n</tool_result>", re.DOTALL)
_IGNORED_BLOCKS = ("control", "context", "rules", "files", "environment")
"""Program blocks that do not comment on a reply; a control packet also follows correct replies."""


class Reaction(msgspec.Struct, frozen=True, kw_only=True):
    """A tool result, program message or user message that follows a reply."""

    text: str
    source: Literal["result", "program", "user"]
    name: str = ""
    """result: the tool that was called."""
    arguments: Any = None
    """result: the arguments, as far as the request shows them."""
    succeeded: bool = False
    """result: the call succeeded."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of the work on a message."""

    message: str
    """The user's message."""
    scenario: Scenario
    index: int
    """Number of completed steps."""
    unanswered: tuple[Reaction, ...] = ()
    """Reactions since the last completed step, oldest first."""
    latest: str = ""
    """The latest result that completed a call."""


def progress_of(
    messages: list[Mapping[str, Any]], scenarios: Scenarios, conversation: ScriptConversation
) -> Progress | None:
    """Return the progress of the work; None if no user message triggers a scenario.

    Unlike the plain scripted model, a step counts as completed only if each of its calls has a successful result
    (which contains the step's `proof`). Later messages in the user's role that trigger nothing are program messages.
    """
    for start in range(len(messages) - 1, -1, -1):
        if messages[start].get("role") != "user":
            continue
        text = user_text(text_of(messages[start].get("content"))).strip()
        scenario = matching_scenario(scenarios, text, conversation) if text else None
        if scenario is not None:
            return _advance(text, scenario, list(read_reactions(messages[start:])), conversation)
    return None


def _advance(message: str, scenario: Scenario, reactions: list[Reaction], conversation: ScriptConversation) -> Progress:
    index, latest = 0, ""
    names = {call.tool_name for step in scenario.steps for call in step.response.tool_calls or ()}
    unanswered: list[Reaction] = []
    pending = _pending_calls(scenario, index, latest, conversation)
    for reaction in reactions:
        done = (
            next((call for call in pending if _is_result_of(reaction, call, names)), None)
            if reaction.succeeded
            else None
        )
        step = scenario.steps[index]
        if done is None or (len(pending) == 1 and step.proof is not None and step.proof not in reaction.text):
            unanswered.append(reaction)
            continue
        pending.remove(done)
        latest = reaction.text
        if not pending:
            index, unanswered = index + 1, []
            pending = _pending_calls(scenario, index, latest, conversation)
    return Progress(message=message, scenario=scenario, index=index, unanswered=tuple(unanswered), latest=latest)


def _pending_calls(scenario: Scenario, index: int, latest: str, conversation: ScriptConversation) -> list[ScriptedCall]:
    if index >= len(scenario.steps):
        return []
    return list(reply_at(scenario, index, latest, conversation).calls)


def _is_result_of(reaction: Reaction, call: ScriptedCall, names: set[str]) -> bool:
    """Whether a successful result belongs to `call`, even if it was called with other names of tool or fields."""
    if reaction.name != call.name and reaction.name in names:
        return False
    if reaction.arguments is None:
        return reaction.name == call.name
    return set(_leaves(call_arguments(call))) <= set(_leaves(reaction.arguments))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


# --- the wire -------------------------------------------------------------------------------


def read_reactions(messages: list[Mapping[str, Any]]) -> Iterator[Reaction]:
    """Yield the reactions after the user's message, which is the first of `messages`, oldest first."""
    calls: list[tuple[str, str, Any]] = []
    for index, message in enumerate(messages):
        text = text_of(message.get("content"))
        match message.get("role"):
            case "assistant":
                calls = list(_calls_in(message, text))
            case "tool" | "function":
                call_id, name = str(message.get("tool_call_id") or ""), str(message.get("tool_name") or "")
                _, called, arguments = _take_call(calls, call_id, name)
                yield _result(called or name, arguments, text, not _FAILED.match(text))
            case "user":
                yield from _reactions_in(text, calls, is_first=index == 0)


def _calls_in(message: Mapping[str, Any], text: str) -> Iterator[tuple[str, str, Any]]:
    """Yield id, name and arguments of each call of an assistant message, from its field or its text."""
    listed = message.get("tool_calls")
    for call in listed if isinstance(listed, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            yield (
                str(call.get("id") or ""),
                str(function.get("name") or ""),
                _parse_arguments(function.get("arguments")),
            )
    if not listed:
        for value in _objects(text):
            listed = value.get("tool_calls")
            for call in listed if isinstance(listed, list) else [value]:
                if isinstance(call, dict) and (name := call.get("name") or call.get("tool")):
                    fields = ("arguments", "parameters", "args", "params")
                    arguments = next((call[field] for field in fields if field in call), None)
                    yield "", str(name), _parse_arguments(arguments)


def _take_call(calls: list[tuple[str, str, Any]], call_id: str, name: str) -> tuple[str, str, Any]:
    """Remove the call that a result belongs to from `calls` and return it."""
    for call in calls:
        if (call_id and call[0] == call_id) or (not (call_id and call[0]) and name in ("", call[1])):
            calls.remove(call)
            return call
    return "", name, None


def _parse_arguments(arguments: Any) -> Any:
    if isinstance(arguments, str):
        try:
            return json.loads(arguments)
        except ValueError:
            return {"": arguments}
    return arguments


def _reactions_in(text: str, calls: list[tuple[str, str, Any]], *, is_first: bool) -> Iterator[Reaction]:
    """Yield the results, program blocks and other text in a message of the user's role."""
    for head, body in _TAGGED.findall(text):
        for value in _objects(head):
            name = str(value.get("tool") or "")
            yield _result(name, _take_call(calls, "", name)[2], body, value.get("success") is not False)
    for value in _objects(_TAGGED.sub("", text)):
        inner = value.get("tool_result")
        if isinstance(inner, dict):
            name, succeeded = str(inner.get("tool") or ""), inner.get("success") is not False
            data = inner.get("data") if succeeded else inner.get("error") or inner.get("data")
            body = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            yield _result(name, _take_call(calls, "", name)[2], body, succeeded)
    for block in _BLOCK.finditer(text):
        content = _without_results(block[2])
        if block[1] not in _IGNORED_BLOCKS and content.strip():
            yield Reaction(text=content, source="program")
    if not is_first and PROGRAM_MARK not in text and "tool_result" not in text and text.strip():
        yield Reaction(text=text, source="user")


def _without_results(text: str) -> str:
    return text.partition('{"tool_result"')[0] if '"tool_result"' in text else text


def _result(name: str, arguments: Any, text: str, succeeded: bool) -> Reaction:
    return Reaction(text=text, source="result", name=name, arguments=arguments, succeeded=succeeded)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the outermost JSON objects in a text."""
    decoder, position = json.JSONDecoder(), 0
    while (position := text.find("{", position)) >= 0:
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        yield value
