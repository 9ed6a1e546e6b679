"""Calls that are not written as JSON objects: tags inside tags, arguments alone (C4)."""

from __future__ import annotations

import re
from typing import Any

from tui_agent.domain import ToolSpec
from tui_agent.protocols.offer import Offer, plain_name
from tui_agent.protocols.python_calls import listed_calls
from tui_agent.protocols.repair import Half, Unreadable, read
from tui_agent.protocols.shapes import RAW_LIMIT, Found, Shape, shape

_FUNCTION = re.compile(r"<(?:function=|invoke name=)[\"']?([\w.:\-]{1,64})[\"']?\s?>", re.IGNORECASE)
_PARAMETER = re.compile(
    r"<parameter(?:=|\s+name=)[\"']?([\w.\-]{1,64})[\"']?(?:\s+string=[\"']?(?P<text>true|false)[\"']?)?\s?>",
    re.IGNORECASE,
)
_PARAMETER_END = re.compile(
    r"</parameter>(?=\s*(?:<parameter|</function|</invoke|</tool|\Z))|(?=\n\s*</function>\s*(?:</tool|\Z))",
    re.IGNORECASE,
)
_NAME_TAG = re.compile(r"<(name|tool|tool_name|function)>\s*([\w.:\-]{1,64})\s*</\1>", re.IGNORECASE)
_ARGUMENTS_TAG = re.compile(r"<(arguments|args|params|parameters|input)>(.*)</\1>", re.IGNORECASE | re.DOTALL)
_FIELD_TAG = re.compile(r"<([A-Za-z_]\w{0,63})>(.*?)</\1>", re.DOTALL)
_PAIRS = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_PAIRED_NAME = re.compile(r"\s*([\w.:\-]{1,64})\s*(?=<arg_key>|\Z)")
_UNNAMED = "The markup of a call holds no call that can be read."


def named(name: str, body: str, offer: Offer) -> Shape:
    """A call whose name stands in the markup and whose arguments are the JSON behind it."""
    tool = offer.find(name)
    name = tool.name if tool is not None else plain_name(name)
    try:
        reading = read(body)
    except Unreadable as fault:
        return _faulty(name, f"its arguments are not valid JSON: {fault}", body)
    arguments = reading.value
    if reading.cut == "inside":
        return _faulty(name, "the reply was cut off before its arguments were complete", body)
    if not isinstance(arguments, dict):
        return _faulty(name, "its arguments must be one JSON object", body)
    own = shape(body, offer, wrapped=True).calls
    if len(own) == 1 and own[0].name == name and not own[0].fault and "arguments" in arguments:
        return Shape(kind="calls", calls=own)
    inner = arguments.get("arguments", arguments.get("parameters"))
    if (
        len(arguments) == 1
        and isinstance(inner, dict)
        and not (tool and offer.knows(tool, next(iter(arguments))))
    ):
        arguments = inner
    return Shape(kind="calls", calls=(Found(name=name, arguments=arguments),))


def tagged(body: str, offer: Offer) -> Shape:
    """Calls written as tags: `<function=name><parameter=key>value</parameter></function>` and its relatives."""
    places = list(_FUNCTION.finditer(body))
    if not places:
        return _other_tags(body, offer)
    calls = []
    head = places[0]
    name, inner = head[1], body[head.end() :]
    tool = offer.find(name)
    name = tool.name if tool is not None else plain_name(name)
    arguments, fault = _parameters(inner, tool, offer)
    raw = body[:RAW_LIMIT] if fault else None
    calls.append(Found(name=name, arguments={} if fault else arguments, fault=fault or None, raw=raw))
    return Shape(kind="calls", calls=tuple(calls), error=fault)


def _parameters(inner: str, tool: ToolSpec | None, offer: Offer) -> tuple[dict[str, Any], str]:
    found: dict[str, Any] = {}
    place = 0
    while (head := _PARAMETER.search(inner, place)) is not None:
        end = _PARAMETER_END.search(inner, head.end())
        if end is None:
            return {}, "the reply was cut off before its arguments were complete"
        value = inner[head.end() : end.start()]
        kind = {"true": "string", "false": "object"}.get(str(head["text"]).lower(), "")
        found[head[1]] = _plain(value, head[1], tool, offer, kind)
        place = max(end.end(), head.end())
    if not found and re.match(r"\s*[^<\s]", inner[place:]):
        return {}, "its arguments could not be read"
    return found, ""


def _plain(raw: str, name: str, tool: ToolSpec | None, offer: Offer, told: str = "") -> Any:
    """A value between tags: text without the line breaks next to its tags, or JSON where the schema wants that.

    `told` is the type that the markup itself names, for where there is no schema.
    """
    text = raw.removeprefix("\r").removeprefix("\n").removesuffix("\n").removesuffix("\r")
    kind = offer.field_type(tool, name) or told
    if kind == "string":
        return text
    typed = kind in ("integer", "number", "boolean", "array", "object")
    if typed or (not kind and text.strip()[:1] in ("{", "[")):
        try:
            reading = read(text.strip())
        except Unreadable:
            return text
        return text if reading.cut or isinstance(reading.value, Half) else reading.value
    return text


def _other_tags(body: str, offer: Offer) -> Shape:
    pairs = _PAIRS.findall(body)
    paired = _PAIRED_NAME.match(body)
    if paired and (pairs or (not _remains(body, paired.end()) and offer.find(paired[1]) is not None)):
        tool = offer.find(paired[1])
        name = tool.name if tool is not None else plain_name(paired[1])
        arguments = {key.strip(): _plain(value, key.strip(), tool, offer) for key, value in pairs}
        return Shape(kind="calls", calls=(Found(name=name, arguments=arguments),))
    name_tag = _NAME_TAG.search(body)
    if name_tag is None:
        called = listed_calls(f"[{body.strip()}]", offer)
        return Shape(kind="calls", calls=called) if called else Shape(kind="calls", error=_UNNAMED)
    rest = body[: name_tag.start()] + body[name_tag.end() :]
    within = _ARGUMENTS_TAG.search(rest)
    inner = within[2] if within is not None else rest
    if inner.strip()[:1] == "{":
        return named(name_tag[2], inner.strip(), offer)
    tool = offer.find(name_tag[2])
    name = tool.name if tool is not None else plain_name(name_tag[2])
    fields = {key: _plain(value, key, tool, offer) for key, value in _FIELD_TAG.findall(inner)}
    if not fields and inner.strip():
        return _faulty(name, "its arguments could not be read", body)
    return Shape(kind="calls", calls=(Found(name=name, arguments=fields),))


def _remains(body: str, place: int) -> bool:
    return bool(body[place:].strip())


def _faulty(name: str, fault: str, body: str) -> Shape:
    call = Found(name=name, arguments={}, fault=fault, raw=body[:RAW_LIMIT])
    return Shape(kind="calls", calls=(call,), error=fault)
