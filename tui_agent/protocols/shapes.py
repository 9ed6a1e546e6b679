"""What a JSON value in a reply is: calls in one of the known shapes, a final answer, or just data (C2, C4)."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import msgspec

from tui_agent.domain import ToolSpec
from tui_agent.protocols.offer import BESIDE, Offer, plain_name
from tui_agent.protocols.repair import Half, Reading, Unreadable, read

Kind = Literal["calls", "bare", "attempt", "final", "result", "data"]
"""Calls in a wrapper of their own; calls that count only if their tools are offered; the same of tools that are not; an
answer; the result of a tool, as only the program writes it; anything else."""

_WRAPPERS = ("tool_calls", "toolCalls", "tool_call", "toolCall", "function_calls", "function_call")
_NAMES = ("tool", "function", "name", "tool_name", "function_name")
_ARGUMENTS = ("arguments", "args", "params", "parameters")
_RARE_ARGUMENTS = ("input", "tool_input", "kwargs")
_ANSWERS = ("response", "message", "answer", "summary", "result", "text")
_RESULTS = frozenset(["tool_result", "tool_results", "tool_response", "tool_responses"])
_TOOL_NAME = re.compile(r"[A-Za-z_][\w.:\-]{0,63}")
_CUT = "the reply was cut off before its arguments were complete"
_NO_CALL = "it is the description of a tool, not a call: give the arguments their values"
RAW_LIMIT = 2000
"""Characters of an unreadable call that are kept to be quoted."""

_ATTEMPT = re.compile(r"""["'](tool_calls?|function_calls?)["']\s{0,16}:\s{0,16}[\[{]""")
_NAMED = re.compile(r"""["']?\b(?:name|tool|function)["']?\s{0,16}:\s{0,16}["']([^"'\n]{1,64})["']""")
_NO_NAME = re.compile(r"[\"'{}\[\]<>\\\n\r]|.{128}")
"""What no name of a tool holds: there the name was cut or its quotes are not where they should be."""
_HAS_ARGUMENTS = re.compile(r"""["']?\b(?:arguments|args|params|parameters)["']?\s{0,16}:""")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One call found in text."""

    name: str
    """The offered tool's own name where it is one of them or an other name of it, else as the model wrote it."""
    arguments: dict[str, Any]
    recovered: bool = True
    """False when it came in the protocol's own wrapper."""
    fault: str | None = None
    """Why it can't run as it came; `arguments` is then empty."""
    raw: str | None = None
    """What the model wrote, where it could not be read."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A value, understood."""

    kind: Kind
    calls: tuple[Found, ...] = ()
    error: str = ""
    answer: str = ""
    done: bool = False
    question: str = ""
    own: str = ""
    """The key that made it what it is, such as `tool_calls` or `tool`."""


DATA = Shape(kind="data")


def shape(raw: str, offer: Offer, *, wrapped: bool = False) -> Shape:
    """What the JSON in `raw` is. `wrapped`: it stood in markup that says it is a call."""
    try:
        reading = read(raw)
    except Unreadable as fault:
        return _unreadable(raw, str(fault), offer, wrapped)
    rest = raw[reading.end :].strip("}]; \t\r\n,`")
    if rest and not wrapped:
        return DATA
    return shape_of(reading, raw, offer, wrapped=wrapped)


def _unreadable(raw: str, why: str, offer: Offer, wrapped: bool) -> Shape:
    head = raw[:400]
    named = _NAMED.search(head)
    tool = offer.find(named[1]) if named else None
    error = f"The call could not be read: {why}."
    if tool is not None and (wrapped or _HAS_ARGUMENTS.search(raw[:4000])):
        call = Found(name=tool.name, arguments={}, fault=f"it is not valid JSON: {why}", raw=raw[:RAW_LIMIT])
        return Shape(kind="calls", calls=(call,), error=error)
    if wrapped or _ATTEMPT.search(head):
        return Shape(kind="calls", error=error)
    return DATA


def shape_of(reading: Reading, raw: str, offer: Offer, *, wrapped: bool) -> Shape:
    """The same for a value that has been read."""
    value = reading.value
    if isinstance(value, list):
        return _listed(value, reading.cut, raw, offer, wrapped)
    if not isinstance(value, dict):
        return Shape(kind="calls", error="A call must be a JSON object.") if wrapped else DATA
    for key in _WRAPPERS:
        if key in value and (key != "tool_call" or isinstance(value[key], dict | list)):
            return _enveloped(key, value, reading.cut, raw, offer)
    return _single(value, reading.cut, raw, offer, wrapped)


def _listed(items: list[Any], cut: str, raw: str, offer: Offer, wrapped: bool) -> Shape:
    calls: list[Found] = []
    error = ""
    for place, item in enumerate(items):
        last = place == len(items) - 1
        one = _call(item, cut if last else "", raw, offer) if isinstance(item, dict) else None
        if isinstance(one, Found):
            calls.append(one)
        elif not wrapped:
            return DATA
        else:
            error = error or one or "A call must be a JSON object."
    if wrapped:
        error = error or _fault_of(calls) or ("" if items else "The list holds no call.")
        return Shape(kind="calls", calls=tuple(calls), error=error)
    good = bool(calls) and all(_runs_bare(item, call, offer) for item, call in zip(items, calls, strict=True))
    if good:
        return Shape(kind="bare", calls=tuple(calls), error=_fault_of(calls))
    tried = bool(calls) and all(
        _runs_bare(item, call, offer) or _attempted(item, call, offer)
        for item, call in zip(items, calls, strict=True)
    )
    return Shape(kind="attempt", calls=tuple(calls)) if tried else DATA


def _enveloped(key: str, value: dict[str, Any], cut: str, raw: str, offer: Offer) -> Shape:
    inner = value[key]
    if isinstance(inner, str) and inner.strip()[:1] in ("[", "{"):
        try:
            inner = read(inner.strip()).value
        except Unreadable as fault:
            return Shape(kind="calls", error=f"{key} could not be read: {fault}.", own=key)
    items = inner if isinstance(inner, list) else [inner] if isinstance(inner, dict) else None
    answer = _answer(value)
    if not items:
        if inner not in (None, []) or cut == "inside":
            return Shape(kind="calls", error=f"{key} must be a list of calls.", own=key)
        if answer or value.get("done") is True:
            return Shape(kind="final", answer=answer, done=value.get("done") is True, own="response")
        return Shape(kind="calls", own=key)
    if answer:
        why = "A reply holds either tool_calls or a response, not both; none of its calls was run."
        return Shape(kind="calls", error=why, answer=answer, own=key)
    found = _listed(items, cut, raw, offer, True)
    return Shape(kind="calls", calls=found.calls, error=found.error, own=key)


def _single(value: dict[str, Any], cut: str, raw: str, offer: Offer, wrapped: bool) -> Shape:
    own = next((key for key in _NAMES if isinstance(value.get(key), str | dict)), "")
    one = _call(value, cut, raw, offer)
    if wrapped:
        if isinstance(one, str):
            return Shape(kind="calls", error=one)
        return Shape(kind="calls", calls=(one,), error=one.fault or "")
    if isinstance(one, Found) and offer.find(one.name) is not None:
        if _runs_bare(value, one, offer):
            return Shape(kind="bare", calls=(one,), error=one.fault or "", own=own)
        tool = offer.find(one.name)
        if tool is not None and _argument_key(value, tool, offer) and not one.fault:
            lacks = ", ".join(offer.missing(tool, one.arguments))
            return Shape(kind="data", error=f"{tool.name} was not run: it needs {lacks}.") if lacks else DATA
        return DATA
    if isinstance(one, Found) and _attempted(value, one, offer):
        return Shape(kind="attempt", calls=(one,), own=own)
    if value and _RESULTS.issuperset(value):
        return Shape(kind="result")
    return _final(value)


def _final(value: dict[str, Any]) -> Shape:
    asked = value.get("request_approval")
    question = asked.get("question") if isinstance(asked, dict) else asked
    if isinstance(question, str) and question:
        return Shape(kind="final", answer=_answer(value), question=str(question), own="request_approval")
    done = value.get("done") is True
    if done or isinstance(value.get("response"), str):
        return Shape(kind="final", answer=_answer(value), done=done, own="done" if done else "response")
    return DATA


def _answer(value: dict[str, Any]) -> str:
    for key in _ANSWERS if value.get("done") is True else _ANSWERS[:1]:
        text = value.get(key)
        if isinstance(text, str):
            return str(text)
        if text is not None:
            return json.dumps(text, ensure_ascii=False)
    return ""


def _fault_of(calls: list[Found]) -> str:
    return next((call.fault for call in calls if call.fault), "")


def _runs_bare(value: dict[str, Any], call: Found, offer: Offer) -> bool:
    """Whether JSON without markup is a call: its tool is offered and its shape fits (R9.2)."""
    tool = offer.find(call.name)
    if tool is None or call.fault == _NO_CALL:
        return False
    if call.fault:
        return True
    if offer.missing(tool, call.arguments):
        return False
    nested = value.get("function") if isinstance(value.get("function"), dict) else value
    return bool(_argument_key(nested, tool, offer)) or all(offer.knows(tool, key) for key in call.arguments)


def _attempted(value: dict[str, Any], call: Found, offer: Offer) -> bool:
    """Whether JSON has the shape of a call in all but that no such tool is offered: a name, an object of arguments, and
    nothing that a call has not."""
    if call.fault or offer.find(call.name) is not None or not _TOOL_NAME.fullmatch(call.name):
        return False
    if isinstance(nested := value.get("function"), dict):
        return set(value) <= {"function", *BESIDE} and _attempted(nested, call, offer)
    under = _argument_key(value, None, offer)
    return bool(under) and set(value) <= {_name_key(value, offer), under, *BESIDE}


def _call(value: dict[str, Any], cut: str, raw: str, offer: Offer) -> Found | str:
    """The call that an object is, or what is wrong with it."""
    if isinstance(nested := value.get("function"), dict):
        return _call(nested, cut, raw, offer) if "function" not in nested or "name" in nested else "no tool"
    key = _name_key(value, offer)
    name = str(value.get(key, "")).strip() if key else ""
    if not name or isinstance(value.get(key), Half) or _NO_NAME.search(plain_name(name)[:200]):
        return "A call names no tool: it needs a `name`, and its arguments under `parameters`."
    tool = offer.find(name)
    name = tool.name if tool is not None else plain_name(name)
    if cut == "inside":
        return Found(name=name, arguments={}, fault=_CUT, raw=raw[:RAW_LIMIT])
    under = _argument_key(value, tool, offer)
    given = (
        value[under]
        if under
        else {
            other: item
            for other, item in value.items()
            if other != key and not offer.is_beside(tool, other, item)
        }
    )
    if under and given in ({}, None, "") and tool is not None and "properties" in tool.parameters:
        rest = {k: item for k, item in value.items() if k not in (key, under) and offer.knows(tool, k)}
        given = rest or given
    arguments = _arguments(given, tool, offer)
    if isinstance(arguments, dict) and _is_schema(arguments, tool, offer):
        arguments = _NO_CALL
    if isinstance(arguments, str):
        return Found(name=name, arguments={}, fault=arguments, raw=raw[:RAW_LIMIT])
    return Found(name=name, arguments=arguments)


def _name_key(value: dict[str, Any], offer: Offer) -> str:
    keys = [key for key in _NAMES if isinstance(value.get(key), str)]
    known = [key for key in keys if offer.find(value[key]) is not None]
    return next(iter(known or keys), "")


def _argument_key(value: Any, tool: ToolSpec | None, offer: Offer) -> str:
    """Under which key the arguments stand; "" where they stand at the top level."""
    if not isinstance(value, dict):
        return ""
    if isinstance(nested := value.get("function"), dict):
        return _argument_key(nested, tool, offer)
    here = [key for key in _ARGUMENTS if key in value]
    for key in here:
        if isinstance(value[key], dict):
            return key
    rare = [key for key in _RARE_ARGUMENTS if isinstance(value.get(key), dict)]
    if rare and not (tool is not None and "properties" in tool.parameters and offer.knows(tool, rare[0])):
        return rare[0]
    if here and tool is not None and "properties" in tool.parameters and offer.knows(tool, here[0]):
        return ""
    return here[0] if here else ""


def _is_schema(arguments: dict[str, Any], tool: ToolSpec | None, offer: Offer) -> bool:
    """Whether a model repeated the description of a tool instead of calling it: its arguments are their JSON Schema."""
    if arguments.get("type") != "object" or not isinstance(arguments.get("properties"), dict):
        return False
    return tool is None or "properties" not in tool.parameters or not offer.knows(tool, "properties")


def _arguments(given: Any, tool: ToolSpec | None, offer: Offer) -> dict[str, Any] | str:
    """Arguments as an object, or what is wrong with them."""
    for _ in range(2):
        if not isinstance(given, str):
            break
        if not given.strip():
            return {}
        try:
            reading = read(given.strip()) if given.strip()[0] in "{[\"'n" else None
        except Unreadable as fault:
            return f"its arguments are not valid JSON: {fault}"
        if reading is None:
            field = offer.only_text(tool) if tool is not None else ""
            return {field: given} if field else "its arguments must be one JSON object"
        if reading.cut == "inside" or given.strip()[reading.end :].strip("}] \n"):
            return "its arguments are not one whole JSON object"
        given = reading.value
    if given is None:
        return {}
    return given if isinstance(given, dict) else "its arguments must be one JSON object"
