"""What a request tells the noisy model: how far the work has come, and what it was told since."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from benchmarks.noise.draft import arguments
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
_QUIET = ("control", "context", "rules", "files", "environment")
"""Blocks of the program that say nothing of what the model did; a control packet stands after right replies too."""


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """Something that came back after a reply."""

    text: str
    source: Literal["result", "program", "user"]
    name: str = ""
    """result: the tool that was called."""
    given: Any = None
    """result: the arguments, as far as the request shows them."""
    good: bool = False
    """result: the call worked."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How far a request has come."""

    words: str
    """The user's message that is worked on."""
    scenario: Scenario
    index: int
    """Steps that are done."""
    told: tuple[Heard, ...] = ()
    """What was said since the last step was done, oldest first."""
    latest: str = ""
    """The newest result that counted."""


def standing(
    messages: list[Mapping[str, Any]], scenarios: Scenarios, conversation: ScriptConversation
) -> Standing | None:
    """Where the work stands; None when nothing that the user said triggers a scenario.

    Other than the plain scripted model's, this count goes by what was achieved: a step is done when each of its
    calls has a result that is no error (and holds the step's `proof`). Later messages in the user's role that
    trigger nothing are taken for what the program says.
    """
    for start in range(len(messages) - 1, -1, -1):
        if messages[start].get("role") != "user":
            continue
        words = user_text(text_of(messages[start].get("content"))).strip()
        scenario = matching_scenario(scenarios, words, conversation) if words else None
        if scenario is not None:
            return _advanced(words, scenario, list(heard(messages[start:])), conversation)
    return None


def _advanced(words: str, scenario: Scenario, heard: list[Heard], conversation: ScriptConversation) -> Standing:
    index, latest = 0, ""
    names = {call.tool_name for step in scenario.steps for call in step.response.tool_calls or ()}
    told: list[Heard] = []
    left = _to_do(scenario, index, latest, conversation)
    for one in heard:
        done = next((call for call in left if _does(one, call, names)), None) if one.good else None
        step = scenario.steps[index]
        if done is None or (len(left) == 1 and step.proof is not None and step.proof not in one.text):
            told.append(one)
            continue
        left.remove(done)
        latest = one.text
        if not left:
            index, told = index + 1, []
            left = _to_do(scenario, index, latest, conversation)
    return Standing(words=words, scenario=scenario, index=index, told=tuple(told), latest=latest)


def _to_do(scenario: Scenario, index: int, latest: str, conversation: ScriptConversation) -> list[ScriptedCall]:
    if index >= len(scenario.steps):
        return []
    return list(reply_at(scenario, index, latest, conversation).calls)


def _does(heard: Heard, call: ScriptedCall, names: set[str]) -> bool:
    """Whether a good result is that of `call`, by whatever name of tool and fields it was asked for."""
    if heard.name != call.name and heard.name in names:
        return False
    if heard.given is None:
        return heard.name == call.name
    return set(_leaves(arguments(call))) <= set(_leaves(heard.given))


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


def heard(messages: list[Mapping[str, Any]]) -> Iterator[Heard]:
    """Results and words after the user's message, which is the first of `messages`, oldest first: what came back."""
    asked: list[tuple[str, str, Any]] = []
    for place, message in enumerate(messages):
        text = text_of(message.get("content"))
        match message.get("role"):
            case "assistant":
                asked = list(_asked(message, text))
            case "tool" | "function":
                call_id, name = str(message.get("tool_call_id") or ""), str(message.get("tool_name") or "")
                found = _take(asked, call_id, name)
                yield _result(found[1] or name, found[2], text, not _FAILED.match(text))
            case "user":
                yield from _told(text, asked, first=place == 0)


def _asked(message: Mapping[str, Any], text: str) -> Iterator[tuple[str, str, Any]]:
    """Id, name and arguments of each call in an assistant message, in its field or in its text."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            yield str(call.get("id") or ""), str(function.get("name") or ""), _read(function.get("arguments"))
    if not calls:
        for found in _objects(text):
            listed = found.get("tool_calls")
            for one in listed if isinstance(listed, list) else [found]:
                if isinstance(one, dict) and (name := one.get("name") or one.get("tool")):
                    fields = ("arguments", "parameters", "args", "params")
                    given = next((one[field] for field in fields if field in one), None)
                    yield "", str(name), _read(given)


def _take(asked: list[tuple[str, str, Any]], call_id: str, name: str) -> tuple[str, str, Any]:
    """The call that a result belongs to; it is taken out of `asked`."""
    for one in asked:
        if (call_id and one[0] == call_id) or (not (call_id and one[0]) and name in ("", one[1])):
            asked.remove(one)
            return one
    return "", name, None


def _read(given: Any) -> Any:
    if isinstance(given, str):
        try:
            return json.loads(given)
        except ValueError:
            return {"": given}
    return given


def _told(text: str, asked: list[tuple[str, str, Any]], *, first: bool) -> Iterator[Heard]:
    """What a message in the user's role holds: results as objects, the program's blocks, other words."""
    for head, body in _TAGGED.findall(text):
        for said in _objects(head):
            name = str(said.get("tool") or "")
            yield _result(name, _take(asked, "", name)[2], body, said.get("success") is not False)
    for found in _objects(_TAGGED.sub("", text)):
        inner = found.get("tool_result")
        if isinstance(inner, dict):
            name, good = str(inner.get("tool") or ""), inner.get("success") is not False
            data = inner.get("data") if good else inner.get("error") or inner.get("data")
            body = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            yield _result(name, _take(asked, "", name)[2], body, good)
    for block in _BLOCK.finditer(text):
        words = _without_results(block[2])
        if block[1] not in _QUIET and words.strip():
            yield Heard(text=words, source="program")
    if not first and PROGRAM_MARK not in text and "tool_result" not in text and text.strip():
        yield Heard(text=text, source="user")


def _without_results(text: str) -> str:
    return text.partition('{"tool_result"')[0] if '"tool_result"' in text else text


def _result(name: str, given: Any, text: str, good: bool) -> Heard:
    return Heard(text=text, source="result", name=name, given=given, good=good)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Every outermost JSON object in a text."""
    decoder, at_ = json.JSONDecoder(), 0
    while (at_ := text.find("{", at_)) >= 0:
        try:
            value, at_ = decoder.raw_decode(text, at_)
        except (ValueError, RecursionError):
            at_ += 1
            continue
        yield value
