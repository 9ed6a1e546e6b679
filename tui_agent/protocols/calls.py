"""What a JSON value in a reply is: calls in one of the known shapes, a final answer, or just data (C2, C4)."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any, Literal

import msgspec

from tui_agent.common.domain import ToolCall, ToolSpec
from tui_agent.protocols.offer import BESIDE, OfferedTools, plain_name
from tui_agent.protocols.python_source import parse_expression
from tui_agent.protocols.repair import CutString, RepairedJson, UnreadableJson, repair_json
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "calls")

ValueKind = Literal["calls", "bare", "attempt", "final", "result", "data"]
"""Calls in a wrapper of their own; calls that count only if their tools are offered; the same of tools that are not; an
answer; the result of a tool, as only the program writes it; anything else."""

_WRAPPERS = ("tool_calls", "toolCalls", "tool_call", "toolCall", "function_calls", "function_call")
_NAMES = ("tool", "function", "name", "tool_name", "function_name")
_ARGUMENTS = ("arguments", "args", "params", "parameters")
_RARE_ARGUMENTS = ("input", "tool_input", "kwargs")
_ANSWERS = ("response", "message", "answer", "summary", "result", "text")
_CUT = "the reply was cut off before its arguments were complete"
_NO_CALL = "it is the description of a tool, not a call: give the arguments their values"
RAW_LIMIT = 2000
"""Characters of an unreadable call that are kept to be quoted."""


def found_call(name: str, arguments: dict[str, Any] | None = None, *, fault: str = "", raw: str = "") -> ToolCall:
    """A call that was found in text, its id to be given later. `name`: the offered tool's own name where it is one of
    them or an other name of it, else as the model wrote it. `fault`: why `raw` can't run as it came."""
    shown = raw[:RAW_LIMIT] if fault else None
    return ToolCall(id="", name=name, arguments=arguments or {}, fault=fault or None, raw=shown, recovered=True)


class Interpretation(msgspec.Struct, frozen=True, kw_only=True):
    """A value, understood."""

    kind: ValueKind
    calls: tuple[ToolCall, ...] = ()
    error: str = ""
    answer: str = ""
    done: bool = False
    question: str = ""
    own: str = ""
    """The key that made it what it is, such as `tool_calls` or `tool`."""


DATA = Interpretation(kind="data")


def interpret(raw: str, offer: OfferedTools, *, wrapped: bool = False) -> Interpretation:
    """What the JSON in `raw` is. `wrapped`: it stood in markup that says it is a call."""
    try:
        reading = repair_json(raw)
    except UnreadableJson as fault:
        return _unreadable(raw, str(fault), offer, wrapped)
    rest = raw[reading.end :].strip("}]; \t\r\n,`")
    if rest and not wrapped:
        return DATA
    return shape_of(reading, raw, offer, wrapped=wrapped)


def _unreadable(raw: str, why: str, offer: OfferedTools, wrapped: bool) -> Interpretation:
    head = raw[:400]
    name = _RE.named.search(head)
    tool = offer.find(name[1]) if name else None
    error = f"The call could not be read: {why}."
    if tool is not None and (wrapped or _RE.has_arguments.search(raw[:4000])):
        call = found_call(tool.name, fault=f"it is not valid JSON: {why}", raw=raw)
        return Interpretation(kind="calls", calls=(call,), error=error)
    if wrapped or _RE.attempt.search(head):
        return Interpretation(kind="calls", error=error)
    return DATA


def shape_of(reading: RepairedJson, raw: str, offer: OfferedTools, *, wrapped: bool) -> Interpretation:
    """The same for a value that has been read."""
    value = reading.value
    if isinstance(value, list):
        return _listed(value, reading.cut, raw, offer, wrapped)
    if not isinstance(value, dict):
        return Interpretation(kind="calls", error="A call must be a JSON object.") if wrapped else DATA
    for key in _WRAPPERS:
        if key in value and (key != "tool_call" or isinstance(value[key], dict | list)):
            return _enveloped(key, value, reading.cut, raw, offer)
    return _single(value, reading.cut, raw, offer, wrapped)


def _listed(items: list[Any], cut: str, raw: str, offer: OfferedTools, wrapped: bool) -> Interpretation:
    calls: list[ToolCall] = []
    error = ""
    for place, item in enumerate(items):
        last = place == len(items) - 1
        one = _call(item, cut if last else "", raw, offer) if isinstance(item, dict) else None
        if isinstance(one, ToolCall):
            calls.append(one)
        elif not wrapped:
            return DATA
        else:
            error = error or one or "A call must be a JSON object."
    if wrapped:
        error = error or _fault_of(calls) or ("" if items else "The list holds no call.")
        return Interpretation(kind="calls", calls=tuple(calls), error=error)
    pairs = list(zip(items, calls, strict=True))
    if pairs and all(_runs_bare(item, call, offer) for item, call in pairs):
        return Interpretation(kind="bare", calls=tuple(calls), error=_fault_of(calls))
    tried = pairs and all(_runs_bare(item, call, offer) or _attempted(item, call, offer) for item, call in pairs)
    return Interpretation(kind="attempt", calls=tuple(calls)) if tried else DATA


def _enveloped(key: str, value: dict[str, Any], cut: str, raw: str, offer: OfferedTools) -> Interpretation:
    inner = value[key]
    if isinstance(inner, str) and inner.strip()[:1] in ("[", "{"):
        try:
            inner = repair_json(inner.strip()).value
        except UnreadableJson as fault:
            return Interpretation(kind="calls", error=f"{key} could not be read: {fault}.", own=key)
    items = inner if isinstance(inner, list) else [inner] if isinstance(inner, dict) else None
    answer = _answer(value)
    if not items:
        if inner not in (None, []) or cut == "inside":
            return Interpretation(kind="calls", error=f"{key} must be a list of calls.", own=key)
        if answer or value.get("done") is True:
            return Interpretation(kind="final", answer=answer, done=value.get("done") is True, own="response")
        return Interpretation(kind="calls", own=key)
    if answer:
        why = "A reply holds either tool_calls or a response, not both; none of its calls was run."
        return Interpretation(kind="calls", error=why, answer=answer, own=key)
    found = _listed(items, cut, raw, offer, True)
    return Interpretation(kind="calls", calls=found.calls, error=found.error, own=key)


def _single(value: dict[str, Any], cut: str, raw: str, offer: OfferedTools, wrapped: bool) -> Interpretation:
    own = next((key for key in _NAMES if isinstance(value.get(key), str | dict)), "")
    one = _call(value, cut, raw, offer)
    if wrapped:
        if isinstance(one, str):
            return Interpretation(kind="calls", error=one)
        return Interpretation(kind="calls", calls=(one,), error=one.fault or "")
    if isinstance(one, ToolCall) and offer.find(one.name) is not None:
        if _runs_bare(value, one, offer):
            return Interpretation(kind="bare", calls=(one,), error=one.fault or "", own=own)
        tool = offer.find(one.name)
        if tool is not None and _argument_key(value, tool, offer) and not one.fault:
            lacks = ", ".join(offer.missing(tool, one.arguments))
            return Interpretation(kind="data", error=f"{tool.name} was not run: it needs {lacks}.") if lacks else DATA
        return DATA
    if isinstance(one, ToolCall) and _attempted(value, one, offer):
        return Interpretation(kind="attempt", calls=(one,), own=own)
    if value and _RE.words("results").issuperset(value):
        return Interpretation(kind="result")
    return _final(value)


def _final(value: dict[str, Any]) -> Interpretation:
    asked = value.get("request_approval")
    question = asked.get("question") if isinstance(asked, dict) else asked
    if isinstance(question, str) and question:
        return Interpretation(kind="final", answer=_answer(value), question=str(question), own="request_approval")
    done = value.get("done") is True
    if done or isinstance(value.get("response"), str):
        return Interpretation(kind="final", answer=_answer(value), done=done, own="done" if done else "response")
    return DATA


def _answer(value: dict[str, Any]) -> str:
    for key in _ANSWERS if value.get("done") is True else _ANSWERS[:1]:
        text = value.get(key)
        if isinstance(text, str):
            return str(text)
        if text is not None:
            return json.dumps(text, ensure_ascii=False)
    return ""


def _fault_of(calls: list[ToolCall]) -> str:
    return next((call.fault for call in calls if call.fault), "")


def _runs_bare(value: dict[str, Any], call: ToolCall, offer: OfferedTools) -> bool:
    """Whether JSON without markup is a call: its tool is offered and its shape fits."""
    tool = offer.find(call.name)
    if tool is None or call.fault == _NO_CALL:
        return False
    if call.fault:
        return True
    if offer.missing(tool, call.arguments):
        return False
    nested = value.get("function") if isinstance(value.get("function"), dict) else value
    return bool(_argument_key(nested, tool, offer)) or all(offer.knows(tool, key) for key in call.arguments)


def _attempted(value: dict[str, Any], call: ToolCall, offer: OfferedTools) -> bool:
    """Whether JSON has the shape of a call in all but that no such tool is offered: a name, an object of arguments, and
    nothing that a call has not."""
    if call.fault or offer.find(call.name) is not None or not _RE.tool_name.fullmatch(call.name):
        return False
    if isinstance(nested := value.get("function"), dict):
        return set(value) <= {"function", *BESIDE} and _attempted(nested, call, offer)
    under = _argument_key(value, None, offer)
    return bool(under) and set(value) <= {_name_key(value, offer), under, *BESIDE}


def _call(value: dict[str, Any], cut: str, raw: str, offer: OfferedTools) -> ToolCall | str:
    """The call that an object is, or what is wrong with it."""
    if isinstance(nested := value.get("function"), dict):
        return _call(nested, cut, raw, offer) if "function" not in nested or "name" in nested else "no tool"
    key = _name_key(value, offer)
    name = str(value.get(key, "")).strip() if key else ""
    if not name or isinstance(value.get(key), CutString) or _RE.no_name.search(plain_name(name)[:200]):
        return "A call names no tool: it needs a `name`, and its arguments under `parameters`."
    tool, name = offer.resolve(name)
    if cut == "inside":
        return found_call(name, fault=_CUT, raw=raw)
    under = _argument_key(value, tool, offer)
    given = (
        value[under]
        if under
        else {other: item for other, item in value.items() if other != key and not offer.is_beside(tool, other, item)}
    )
    if under and given in ({}, None, "") and tool is not None and "properties" in tool.parameters:
        rest = {k: item for k, item in value.items() if k not in (key, under) and offer.knows(tool, k)}
        given = rest or given
    arguments = _arguments(given, tool, offer)
    if isinstance(arguments, dict) and _is_schema(arguments, tool, offer):
        arguments = _NO_CALL
    if isinstance(arguments, str):
        return found_call(name, fault=arguments, raw=raw)
    return found_call(name, arguments)


def _name_key(value: dict[str, Any], offer: OfferedTools) -> str:
    keys = [key for key in _NAMES if isinstance(value.get(key), str)]
    known = [key for key in keys if offer.find(value[key]) is not None]
    return next(iter(known or keys), "")


def _argument_key(value: Any, tool: ToolSpec | None, offer: OfferedTools) -> str:
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


def _is_schema(arguments: dict[str, Any], tool: ToolSpec | None, offer: OfferedTools) -> bool:
    """Whether a model repeated the description of a tool instead of calling it: its arguments are their JSON Schema."""
    if arguments.get("type") != "object" or not isinstance(arguments.get("properties"), dict):
        return False
    return tool is None or "properties" not in tool.parameters or not offer.knows(tool, "properties")


def _arguments(given: Any, tool: ToolSpec | None, offer: OfferedTools) -> dict[str, Any] | str:
    """Arguments as an object, or what is wrong with them."""
    for _ in range(2):
        if not isinstance(given, str):
            break
        if not given.strip():
            return {}
        try:
            reading = repair_json(given.strip()) if given.strip()[0] in "{[\"'n" else None
        except UnreadableJson as fault:
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


LIST_LIMIT = 64 * 1024
CODE_LIMIT = 256 * 1024
"""Characters that are read."""
_WORDS = {"true": True, "false": False, "null": None, "none": None, "undefined": None}
_UNREADABLE = "The block holds no calls that can be read: write name(argument=value), with literal values only."
_FAULT = "its arguments must be literal values, each with the name of its argument"


def listed_calls(body: str, offer: OfferedTools) -> tuple[ToolCall, ...]:
    """`[name(key="value"), …]` with offered names and literal keyword arguments only; nothing if any is otherwise."""
    if len(body) > LIST_LIMIT or not re.match(r"\[\s*[A-Za-z_][\w.]*\s*\(", body):
        return ()
    tree = parse_expression(body)
    try:
        calls = [_listed_call(item, offer) for item in tree.elts] if isinstance(tree, ast.List) else []
    except (ValueError, RecursionError):
        return ()
    return tuple(call for call in calls if call is not None) if all(calls) else ()


def _listed_call(item: ast.expr, offer: OfferedTools) -> ToolCall | None:
    if not isinstance(item, ast.Call) or item.args or not isinstance(item.func, ast.Name | ast.Attribute):
        return None
    tool = offer.find(ast.unparse(item.func))
    if tool is None:
        return None
    arguments = _python_arguments(item, tool)
    if arguments is None:
        return None
    return found_call(tool.name, arguments) if not offer.missing(tool, arguments) else None


def parse_code(code: str) -> ast.Module:
    """The code as a tree; what Python has to say of a backslash in it is of no interest. Raises like `ast.parse`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code.strip())


def code_calls(body: str, offer: OfferedTools) -> Interpretation:
    """The calls of a block that is meant as calls, whatever tools they name: alone, in lists, printed or kept in a
    variable. What is no literal is a fault of its call; what is no call, one of the block."""
    try:
        statements = parse_code(body).body if len(body) <= CODE_LIMIT else []
        calls = [_code_call(node, offer) for node in _called(statements, offer)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Interpretation(kind="calls", error=_UNREADABLE)
    return Interpretation(kind="calls", calls=tuple(calls), error=_fault_of(calls) if calls else _UNREADABLE)


def attempted_calls(body: str, offer: OfferedTools) -> Interpretation:
    """The same for a list without markup: calls that count where the whole reply is nothing else."""
    found = code_calls(body, offer)
    good = bool(found.calls) and not found.error and any(offer.find(call.name) is None for call in found.calls)
    return Interpretation(kind="attempt", calls=found.calls) if good else DATA


def _called(statements: list[ast.stmt], offer: OfferedTools) -> list[ast.Call]:
    """The calls of tools in these statements. Raises ValueError for a statement of another kind."""
    found: list[ast.Call] = []
    for one in statements:
        if isinstance(one, ast.Import | ast.ImportFrom):
            continue
        if not isinstance(one, ast.Expr | ast.Assign | ast.AnnAssign):
            raise ValueError(_UNREADABLE)
        found += _inside(one.value, offer)
    return found


def _inside(node: ast.expr | None, offer: OfferedTools) -> list[ast.Call]:
    if isinstance(node, ast.Await):
        return _inside(node.value, offer)
    if isinstance(node, ast.List | ast.Tuple):
        return [call for item in node.elts for call in _inside(item, offer)]
    if isinstance(node, ast.Name | ast.Constant):
        return []
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        raise ValueError(_UNREADABLE)
    if isinstance(node.func, ast.Name) and node.func.id == "print" and offer.find("print") is None:
        return [call for item in node.args for call in _inside(item, offer)]
    return [node]


def _code_call(node: ast.Call, offer: OfferedTools) -> ToolCall:
    tool, name = offer.resolve(ast.unparse(node.func))
    arguments = _python_arguments(node, tool)
    if arguments is None:
        return found_call(name, fault=_FAULT, raw=ast.unparse(node))
    return found_call(name, arguments)


def _python_arguments(node: ast.Call, tool: ToolSpec | None) -> dict[str, Any] | None:
    """The arguments by name, those without one in the order of the tool's own; None where they can't be told."""
    fields = list(tool.parameters.get("properties", {})) if tool is not None else []
    found: dict[str, Any] = {}
    if len(node.args) > len(fields):
        return None
    pairs = [*zip(fields, node.args, strict=False), *((word.arg, word.value) for word in node.keywords)]
    for name, value in pairs:
        try:
            literal = ast.literal_eval(_Words().visit(value))
        except (ValueError, TypeError, SyntaxError):
            return None
        literal = list(literal) if isinstance(literal, tuple) else literal
        if name is None and isinstance(literal, dict) and all(isinstance(key, str) for key in literal):
            found |= literal
        elif name is None or name in found or not isinstance(literal, str | int | float | bool | list | dict | None):
            return None
        else:
            found[name] = literal
    return found


class _Words(ast.NodeTransformer):
    """JSON's words for truth and nothing, as Python's."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        known = node.id in _WORDS
        return ast.copy_location(ast.Constant(_WORDS[node.id]), node) if known else node


_UNNAMED = "The markup of a call holds no call that can be read."


def interpret_named(name: str, body: str, offer: OfferedTools) -> Interpretation:
    """A call whose name stands in the markup and whose arguments are the JSON behind it."""
    tool, name = offer.resolve(name)
    try:
        reading = repair_json(body)
    except UnreadableJson as fault:
        return _faulty(name, f"its arguments are not valid JSON: {fault}", body)
    arguments = reading.value
    if reading.cut == "inside":
        return _faulty(name, "the reply was cut off before its arguments were complete", body)
    if not isinstance(arguments, dict):
        return _faulty(name, "its arguments must be one JSON object", body)
    own = interpret(body, offer, wrapped=True).calls
    if len(own) == 1 and own[0].name == name and not own[0].fault and "arguments" in arguments:
        return Interpretation(kind="calls", calls=own)
    inner = arguments.get("arguments", arguments.get("parameters"))
    if len(arguments) == 1 and isinstance(inner, dict) and not (tool and offer.knows(tool, next(iter(arguments)))):
        arguments = inner
    return Interpretation(kind="calls", calls=(found_call(name, arguments),))


def interpret_tags(body: str, offer: OfferedTools) -> Interpretation:
    """Calls written as tags: `<function=name><parameter=key>value</parameter></function>` and its relatives."""
    head = _RE.function.search(body)
    if head is None:
        return _other_tags(body, offer)
    inner = body[head.end() :]
    tool, name = offer.resolve(head[1])
    arguments, fault = _parameters(inner, tool, offer)
    call = found_call(name, arguments, fault=fault, raw=body)
    return Interpretation(kind="calls", calls=(call,), error=fault)


def _parameters(inner: str, tool: ToolSpec | None, offer: OfferedTools) -> tuple[dict[str, Any], str]:
    found: dict[str, Any] = {}
    place = 0
    while (head := _RE.parameter.search(inner, place)) is not None:
        end = _RE.parameter_end.search(inner, head.end())
        if end is None:
            return {}, "the reply was cut off before its arguments were complete"
        value = inner[head.end() : end.start()]
        kind = {"true": "string", "false": "object"}.get(str(head["text"]).lower(), "")
        found[head[1]] = _plain(value, head[1], tool, offer, kind)
        place = max(end.end(), head.end())
    if not found and re.match(r"\s*[^<\s]", inner[place:]):
        return {}, "its arguments could not be read"
    return found, ""


def _plain(raw: str, name: str, tool: ToolSpec | None, offer: OfferedTools, told: str = "") -> Any:
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
            reading = repair_json(text.strip())
        except UnreadableJson:
            return text
        return text if reading.cut or isinstance(reading.value, CutString) else reading.value
    return text


def _other_tags(body: str, offer: OfferedTools) -> Interpretation:
    pairs = _RE.pairs.findall(body)
    paired = _RE.paired_name.match(body)
    if paired and (pairs or (not body[paired.end() :].strip() and offer.find(paired[1]) is not None)):
        tool, name = offer.resolve(paired[1])
        arguments = {key.strip(): _plain(value, key.strip(), tool, offer) for key, value in pairs}
        return Interpretation(kind="calls", calls=(found_call(name, arguments),))
    name_tag = _RE.name_tag.search(body)
    if name_tag is None:
        called = listed_calls(f"[{body.strip()}]", offer)
        return Interpretation(kind="calls", calls=called) if called else Interpretation(kind="calls", error=_UNNAMED)
    rest = body[: name_tag.start()] + body[name_tag.end() :]
    within = _RE.arguments_tag.search(rest)
    inner = within[2] if within is not None else rest
    if inner.strip()[:1] == "{":
        return interpret_named(name_tag[2], inner.strip(), offer)
    tool, name = offer.resolve(name_tag[2])
    fields = {key: _plain(value, key, tool, offer) for key, value in _RE.field_tag.findall(inner)}
    if not fields and inner.strip():
        return _faulty(name, "its arguments could not be read", body)
    return Interpretation(kind="calls", calls=(found_call(name, fields),))


def _faulty(name: str, fault: str, body: str) -> Interpretation:
    call = found_call(name, fault=fault, raw=body)
    return Interpretation(kind="calls", calls=(call,), error=fault)


def repair_arguments(call: ToolCall) -> ToolCall:
    """The call with its arguments read, where they could not be read strictly and have one meaning; else as it is."""
    if call.fault is None or not call.name or not (raw := (call.raw or "").strip()):
        return call
    try:
        reading = repair_json(raw)
        if isinstance(reading.value, str) and not raw[reading.end :].strip():
            raw = reading.value.strip()
            reading = repair_json(raw)
    except UnreadableJson:
        return call
    whole = reading.cut != "inside" and not raw[reading.end :].strip("}] \t\r\n")
    if not whole or not isinstance(reading.value, dict):
        return call
    return msgspec.structs.replace(call, arguments=reading.value, fault=None, raw=None)
