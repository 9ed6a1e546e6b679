"""Interpret values in a reply: calls in one of the known shapes, a final answer, or just data (C2, C4)."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any, Literal

import msgspec

from tui_agent.common.domain import ToolCall, ToolSpec
from tui_agent.protocols.offer import METADATA_KEYS, OfferedTools, clean_tool_name
from tui_agent.protocols.python_source import PARSE_ERRORS
from tui_agent.protocols.repair import TruncatedString, UnreadableJson, repair_json
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "calls")

ValueKind = Literal["calls", "bare", "attempt", "final", "result", "data"]
"""Calls in a wrapper; calls without one, which count only if their tools are offered; calls of tools that aren't
offered; an answer; a tool's result, which only the program writes; anything else."""

_WRAPPER_KEYS = ("tool_calls", "toolCalls", "tool_call", "toolCall", "function_calls", "function_call")
_NAME_KEYS = ("tool", "function", "name", "tool_name", "function_name")
_ARGUMENT_KEYS = ("arguments", "args", "params", "parameters")
_RARE_ARGUMENT_KEYS = ("input", "tool_input", "kwargs")
_ANSWER_KEYS = ("response", "message", "answer", "summary", "result", "text")
_TRUNCATED = "the reply was cut off before its arguments were complete"
_IS_SCHEMA = "it is the description of a tool, not a call: give the arguments their values"
RAW_LIMIT = 2000
"""Maximum length of the quote of an unreadable call, in characters."""


def recovered_call(name: str, arguments: dict[str, Any] | None = None, *, fault: str = "", raw: str = "") -> ToolCall:
    """Build a call found in text; its id is assigned later. `name` is the offered tool's own name if it is one, else as
    the model wrote it. `fault` says why `raw` can't be executed."""
    shown = raw[:RAW_LIMIT] if fault else None
    return ToolCall(id="", name=name, arguments=arguments or {}, fault=fault or None, raw=shown, recovered=True)


class Interpretation(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of a value."""

    kind: ValueKind
    calls: tuple[ToolCall, ...] = ()
    error: str = ""
    answer: str = ""
    done: bool = False
    question: str = ""
    key: str = ""
    """The key that decided the meaning, such as `tool_calls` or `tool`."""


DATA = Interpretation(kind="data")


def interpret(raw: str, offer: OfferedTools, *, wrapped: bool = False) -> Interpretation:
    """Interpret the JSON in `raw`. `wrapped`: it was in markup that says it is a call."""
    try:
        repaired = repair_json(raw)
    except UnreadableJson as fault:
        return _unreadable(raw, str(fault), offer, wrapped)
    trailing = raw[repaired.end :].strip("}]; \t\r\n,`")
    if trailing and not wrapped:
        return DATA
    value = repaired.value
    if isinstance(value, list):
        return _interpret_list(value, repaired.cut, raw, offer, wrapped)
    if not isinstance(value, dict):
        return Interpretation(kind="calls", error="A call must be a JSON object.") if wrapped else DATA
    for key in _WRAPPER_KEYS:
        if key in value and (key != "tool_call" or isinstance(value[key], dict | list)):
            return _interpret_wrapper(key, value, repaired.cut, raw, offer)
    return _interpret_object(value, repaired.cut, raw, offer, wrapped)


def _unreadable(raw: str, reason: str, offer: OfferedTools, wrapped: bool) -> Interpretation:
    head = raw[:400]
    name = _RE.named.search(head)
    tool = offer.find(name[1]) if name else None
    error = f"The call could not be read: {reason}."
    if tool is not None and (wrapped or _RE.has_arguments.search(raw[:4000])):
        call = recovered_call(tool.name, fault=f"it is not valid JSON: {reason}", raw=raw)
        return Interpretation(kind="calls", calls=(call,), error=error)
    if wrapped or _RE.attempt.search(head):
        return Interpretation(kind="calls", error=error)
    return DATA


def _interpret_list(items: list[Any], cut: str, raw: str, offer: OfferedTools, wrapped: bool) -> Interpretation:
    calls: list[ToolCall] = []
    error = ""
    for position, item in enumerate(items):
        is_last = position == len(items) - 1
        call = _read_call(item, cut if is_last else "", raw, offer) if isinstance(item, dict) else None
        if isinstance(call, ToolCall):
            calls.append(call)
        elif not wrapped:
            return DATA
        else:
            error = error or call or "A call must be a JSON object."
    if wrapped:
        error = error or _first_fault(calls) or ("" if items else "The list holds no call.")
        return Interpretation(kind="calls", calls=tuple(calls), error=error)
    pairs = list(zip(items, calls, strict=True))
    if pairs and all(_is_valid_bare_call(item, call, offer) for item, call in pairs):
        return Interpretation(kind="bare", calls=tuple(calls), error=_first_fault(calls))
    are_attempts = pairs and all(
        _is_valid_bare_call(item, call, offer) or _is_attempt(item, call, offer) for item, call in pairs
    )
    return Interpretation(kind="attempt", calls=tuple(calls)) if are_attempts else DATA


def _interpret_wrapper(key: str, value: dict[str, Any], cut: str, raw: str, offer: OfferedTools) -> Interpretation:
    inner = value[key]
    if isinstance(inner, str) and inner.strip()[:1] in ("[", "{"):
        try:
            inner = repair_json(inner.strip()).value
        except UnreadableJson as fault:
            return Interpretation(kind="calls", error=f"{key} could not be read: {fault}.", key=key)
    items = inner if isinstance(inner, list) else [inner] if isinstance(inner, dict) else None
    answer = _answer(value)
    if not items:
        if inner not in (None, []) or cut == "inside":
            return Interpretation(kind="calls", error=f"{key} must be a list of calls.", key=key)
        if answer or value.get("done") is True:
            return Interpretation(kind="final", answer=answer, done=value.get("done") is True, key="response")
        return Interpretation(kind="calls", key=key)
    if answer:
        reason = "A reply holds either tool_calls or a response, not both; none of its calls was run."
        return Interpretation(kind="calls", error=reason, answer=answer, key=key)
    return msgspec.structs.replace(_interpret_list(items, cut, raw, offer, True), key=key)


def _interpret_object(value: dict[str, Any], cut: str, raw: str, offer: OfferedTools, wrapped: bool) -> Interpretation:
    key = next((key for key in _NAME_KEYS if isinstance(value.get(key), str | dict)), "")
    call = _read_call(value, cut, raw, offer)
    if wrapped:
        return Interpretation(kind="calls", error=call) if isinstance(call, str) else _one_call(call)
    if isinstance(call, ToolCall) and offer.find(call.name) is not None:
        if _is_valid_bare_call(value, call, offer):
            return Interpretation(kind="bare", calls=(call,), error=call.fault or "", key=key)
        tool = offer.find(call.name)
        missing = offer.missing(tool, call.arguments) if tool and not call.fault else []
        if tool is not None and missing and _argument_key(value, tool, offer):
            return Interpretation(kind="data", error=f"{tool.name} was not run: it needs {', '.join(missing)}.")
        return DATA
    if isinstance(call, ToolCall) and _is_attempt(value, call, offer):
        return Interpretation(kind="attempt", calls=(call,), key=key)
    if value and _RE.words("results").issuperset(value):
        return Interpretation(kind="result")
    return _interpret_answer(value)


def _interpret_answer(value: dict[str, Any]) -> Interpretation:
    request = value.get("request_approval")
    question = request.get("question") if isinstance(request, dict) else request
    if isinstance(question, str) and question:
        return Interpretation(kind="final", answer=_answer(value), question=str(question), key="request_approval")
    done = value.get("done") is True
    if done or isinstance(value.get("response"), str):
        return Interpretation(kind="final", answer=_answer(value), done=done, key="done" if done else "response")
    return DATA


def _answer(value: dict[str, Any]) -> str:
    for key in _ANSWER_KEYS if value.get("done") is True else _ANSWER_KEYS[:1]:
        text = value.get(key)
        if isinstance(text, str):
            return str(text)
        if text is not None:
            return json.dumps(text, ensure_ascii=False)
    return ""


def _first_fault(calls: list[ToolCall]) -> str:
    return next((call.fault for call in calls if call.fault), "")


def _is_valid_bare_call(value: dict[str, Any], call: ToolCall, offer: OfferedTools) -> bool:
    """Whether JSON without markup is a call: its tool is offered and its shape fits."""
    tool = offer.find(call.name)
    if tool is None or call.fault == _IS_SCHEMA:
        return False
    if call.fault:
        return True
    if offer.missing(tool, call.arguments):
        return False
    nested = value.get("function") if isinstance(value.get("function"), dict) else value
    return bool(_argument_key(nested, tool, offer)) or all(offer.accepts(tool, key) for key in call.arguments)


def _is_attempt(value: dict[str, Any], call: ToolCall, offer: OfferedTools) -> bool:
    """Whether JSON has the shape of a call of a tool that isn't offered: a name, an object of arguments, and no keys
    that a call doesn't have."""
    if call.fault or offer.find(call.name) is not None or not _RE.tool_name.fullmatch(call.name):
        return False
    if isinstance(nested := value.get("function"), dict):
        return set(value) <= {"function", *METADATA_KEYS} and _is_attempt(nested, call, offer)
    arguments_key = _argument_key(value, None, offer)
    return bool(arguments_key) and set(value) <= {_name_key(value, offer), arguments_key, *METADATA_KEYS}


def _read_call(value: dict[str, Any], cut: str, raw: str, offer: OfferedTools) -> ToolCall | str:
    """Return the call in an object, or an error for the model. `cut`: what is missing at the end of `raw`."""
    if isinstance(nested := value.get("function"), dict):
        return _read_call(nested, cut, raw, offer) if "function" not in nested or "name" in nested else "no tool"
    name_key = _name_key(value, offer)
    name = str(value.get(name_key, "")).strip() if name_key else ""
    if not name or isinstance(value.get(name_key), TruncatedString) or _RE.no_name.search(clean_tool_name(name)[:200]):
        return "A call names no tool: it needs a `name`, and its arguments under `parameters`."
    tool, name = offer.resolve(name)
    if cut == "inside":
        return recovered_call(name, fault=_TRUNCATED, raw=raw)
    arguments_key = _argument_key(value, tool, offer)
    others = {key: item for key, item in value.items() if key not in (name_key, arguments_key)}
    if not arguments_key:
        given = {key: item for key, item in others.items() if not offer.is_metadata(tool, key, item)}
    elif (given := value[arguments_key]) in ({}, None, ""):
        given = {key: item for key, item in others.items() if offer.declares(tool, key)} or given
    arguments = _read_arguments(given, tool, offer)
    if isinstance(arguments, dict) and _is_schema(arguments, tool, offer):
        arguments = _IS_SCHEMA
    if isinstance(arguments, str):
        return recovered_call(name, fault=arguments, raw=raw)
    return recovered_call(name, arguments)


def _name_key(value: dict[str, Any], offer: OfferedTools) -> str:
    keys = [key for key in _NAME_KEYS if isinstance(value.get(key), str)]
    return next((key for key in keys if offer.find(value[key]) is not None), keys[0] if keys else "")


def _argument_key(value: Any, tool: ToolSpec | None, offer: OfferedTools) -> str:
    """Return the key of the arguments; empty if they are at the top level."""
    if not isinstance(value, dict):
        return ""
    if isinstance(nested := value.get("function"), dict):
        return _argument_key(nested, tool, offer)
    present = [key for key in _ARGUMENT_KEYS if key in value]
    for key in present:
        if isinstance(value[key], dict):
            return key
    rare_keys = [key for key in _RARE_ARGUMENT_KEYS if isinstance(value.get(key), dict)]
    if rare_keys and not offer.declares(tool, rare_keys[0]):
        return rare_keys[0]
    return "" if not present or offer.declares(tool, present[0]) else present[0]


def _is_schema(arguments: dict[str, Any], tool: ToolSpec | None, offer: OfferedTools) -> bool:
    """Whether the model repeated a tool's description instead of calling it: the arguments are a JSON Schema."""
    if arguments.get("type") != "object" or not isinstance(arguments.get("properties"), dict):
        return False
    return not offer.declares(tool, "properties")


def _read_arguments(value: Any, tool: ToolSpec | None, offer: OfferedTools) -> dict[str, Any] | str:
    """Return the arguments as an object, or an error for the model."""
    for _ in range(2):
        if not isinstance(value, str):
            break
        if not value.strip():
            return {}
        try:
            repaired = repair_json(value.strip()) if value.strip()[0] in "{[\"'n" else None
        except UnreadableJson as fault:
            return f"its arguments are not valid JSON: {fault}"
        if repaired is None:
            field = offer.only_text_argument(tool) if tool is not None else ""
            return {field: value} if field else "its arguments must be one JSON object"
        if repaired.cut == "inside" or value.strip()[repaired.end :].strip("}] \n"):
            return "its arguments are not one whole JSON object"
        value = repaired.value
    if value is None:
        return {}
    return value if isinstance(value, dict) else "its arguments must be one JSON object"


CODE_LIMIT = 256 * 1024
"""Maximum length of Python code with calls, in characters."""
_JSON_LITERALS = {"true": True, "false": False, "null": None, "none": None, "undefined": None}
_UNREADABLE = "The block holds no calls that can be read: write name(argument=value), with literal values only."
_NOT_LITERAL = "its arguments must be literal values, each with the name of its argument"


def parse_code(code: str) -> ast.Module:
    """Parse Python code without its warnings, such as those about backslashes. Raises like `ast.parse`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code.strip())


def code_calls(body: str, offer: OfferedTools) -> Interpretation:
    """Interpret a block of Python that is meant as calls, whatever tools they name: alone, in lists, printed or
    assigned to a variable. Arguments that aren't literals are a fault of their call; anything but calls is one of the
    block."""
    try:
        statements = parse_code(body).body if len(body) <= CODE_LIMIT else []
        calls = [_code_call(node, offer) for node in _call_nodes(statements, offer)]
    except PARSE_ERRORS:
        return Interpretation(kind="calls", error=_UNREADABLE)
    return Interpretation(kind="calls", calls=tuple(calls), error=_first_fault(calls) if calls else _UNREADABLE)


def list_calls(body: str, offer: OfferedTools) -> Interpretation:
    """Interpret `[name(key="value"), …]` without markup: calls if all tools are offered and get their required
    arguments by name, attempts if a tool isn't offered."""
    result = code_calls(body, offer)
    if not result.calls or result.error:
        return DATA
    if any(offer.find(call.name) is None for call in result.calls):
        return Interpretation(kind="attempt", calls=result.calls)
    has_positional = any(isinstance(node, ast.Call) and node.args for node in ast.walk(parse_code(body)))
    is_missing = any((tool := offer.find(call.name)) and offer.missing(tool, call.arguments) for call in result.calls)
    return DATA if has_positional or is_missing else result


def _call_nodes(statements: list[ast.stmt], offer: OfferedTools) -> list[ast.Call]:
    """Return the calls in these statements. Raises ValueError for other statements."""
    calls: list[ast.Call] = []
    for statement in statements:
        if isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign):
            calls += _nested_calls(statement.value, offer)
        elif not isinstance(statement, ast.Import | ast.ImportFrom):
            raise ValueError(_UNREADABLE)
    return calls


def _nested_calls(node: ast.expr | None, offer: OfferedTools) -> list[ast.Call]:
    if isinstance(node, ast.Await):
        return _nested_calls(node.value, offer)
    if isinstance(node, ast.List | ast.Tuple):
        return [call for item in node.elts for call in _nested_calls(item, offer)]
    if isinstance(node, ast.Name | ast.Constant):
        return []
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        raise ValueError(_UNREADABLE)
    if ast.unparse(node.func) == "print" and offer.find("print") is None:
        return [call for item in node.args for call in _nested_calls(item, offer)]
    return [node]


def _code_call(node: ast.Call, offer: OfferedTools) -> ToolCall:
    tool, name = offer.resolve(ast.unparse(node.func))
    arguments = _python_arguments(node, tool)
    if arguments is None:
        return recovered_call(name, fault=_NOT_LITERAL, raw=ast.unparse(node))
    return recovered_call(name, arguments)


def _python_arguments(node: ast.Call, tool: ToolSpec | None) -> dict[str, Any] | None:
    """Return the arguments by name, positional ones in the order of the tool's parameters; None if they can't be
    determined."""
    fields = list(tool.parameters.get("properties", {})) if tool is not None else []
    arguments: dict[str, Any] = {}
    if len(node.args) > len(fields):
        return None
    pairs = [*zip(fields, node.args, strict=False), *((keyword.arg, keyword.value) for keyword in node.keywords)]
    for name, value in pairs:
        try:
            literal = ast.literal_eval(_JsonLiterals().visit(value))
        except (ValueError, TypeError, SyntaxError):
            return None
        literal = list(literal) if isinstance(literal, tuple) else literal
        if name is None and isinstance(literal, dict) and all(isinstance(key, str) for key in literal):
            arguments |= literal
        elif name is None or name in arguments or not isinstance(literal, str | int | float | list | dict | None):
            return None
        else:
            arguments[name] = literal
    return arguments


class _JsonLiterals(ast.NodeTransformer):
    """Replaces JSON's literals with Python's."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_literal = node.id in _JSON_LITERALS
        return ast.copy_location(ast.Constant(_JSON_LITERALS[node.id]), node) if is_literal else node


NO_READABLE_CALL = "The markup of a call holds no call that can be read."


def interpret_named(name: str, body: str, offer: OfferedTools) -> Interpretation:
    """Interpret a call whose name is in the markup and whose arguments are the JSON after it."""
    tool, name = offer.resolve(name)
    try:
        repaired = repair_json(body)
    except UnreadableJson as fault:
        return _faulty(name, f"its arguments are not valid JSON: {fault}", body)
    arguments = repaired.value
    if repaired.cut == "inside":
        return _faulty(name, _TRUNCATED, body)
    if not isinstance(arguments, dict):
        return _faulty(name, "its arguments must be one JSON object", body)
    calls = interpret(body, offer, wrapped=True).calls
    if len(calls) == 1 and calls[0].name == name and not calls[0].fault and "arguments" in arguments:
        return Interpretation(kind="calls", calls=calls)
    inner = arguments.get("arguments", arguments.get("parameters"))
    if len(arguments) == 1 and isinstance(inner, dict) and not (tool and offer.accepts(tool, next(iter(arguments)))):
        arguments = inner
    return _one_call(recovered_call(name, arguments))


def interpret_tags(body: str, offer: OfferedTools) -> Interpretation:
    """Interpret calls written as tags: `<function=name><parameter=key>value</parameter></function>` and variants."""
    head = _RE.function.search(body)
    if head is None:
        return _interpret_other_tags(body, offer)
    tool, name = offer.resolve(head[1])
    arguments: dict[str, Any] = {}
    position = head.end()
    while (parameter := _RE.parameter.search(body, position)) is not None:
        end = _RE.parameter_end.search(body, parameter.end())
        if end is None:
            return _faulty(name, _TRUNCATED, body)
        kind = {"true": "string", "false": "object"}.get(str(parameter["is_string"]).lower(), "")
        value = body[parameter.end() : end.start()]
        arguments[parameter[1]] = _parse_value(value, parameter[1], tool, offer, kind)
        position = end.end()
    if not arguments and re.match(r"\s*[^<\s]", body[position:]):
        return _faulty(name, "its arguments could not be read", body)
    return _one_call(recovered_call(name, arguments))


def _parse_value(raw: str, name: str, tool: ToolSpec | None, offer: OfferedTools, markup_type: str = "") -> Any:
    """Return a value between tags: text without the line breaks next to its tags, or JSON if the schema requires that.

    `markup_type` is the type given by the markup itself, used without a schema.
    """
    text = raw.removeprefix("\r").removeprefix("\n").removesuffix("\n").removesuffix("\r")
    kind = offer.field_type(tool, name) or markup_type
    if kind not in ("integer", "number", "boolean", "array", "object") and (kind or text.strip()[:1] not in ("{", "[")):
        return text
    try:
        repaired = repair_json(text.strip())
    except UnreadableJson:
        return text
    return text if repaired.cut or isinstance(repaired.value, TruncatedString) else repaired.value


def _interpret_other_tags(body: str, offer: OfferedTools) -> Interpretation:
    pairs = _RE.pairs.findall(body)
    paired = _RE.paired_name.match(body)
    if paired and (pairs or (not body[paired.end() :].strip() and offer.find(paired[1]) is not None)):
        tool, name = offer.resolve(paired[1])
        arguments = {key.strip(): _parse_value(value, key.strip(), tool, offer) for key, value in pairs}
        return _one_call(recovered_call(name, arguments))
    name_tag = _RE.name_tag.search(body)
    if name_tag is None:
        result = list_calls(f"[{body.strip()}]", offer)
        return result if result.kind == "calls" else Interpretation(kind="calls", error=NO_READABLE_CALL)
    remainder = body[: name_tag.start()] + body[name_tag.end() :]
    arguments_tag = _RE.arguments_tag.search(remainder)
    inner = arguments_tag[2] if arguments_tag is not None else remainder
    if inner.strip()[:1] == "{":
        return interpret_named(name_tag[2], inner.strip(), offer)
    tool, name = offer.resolve(name_tag[2])
    fields = {key: _parse_value(value, key, tool, offer) for key, value in _RE.field_tag.findall(inner)}
    if not fields and inner.strip():
        return _faulty(name, "its arguments could not be read", body)
    return _one_call(recovered_call(name, fields))


def _one_call(call: ToolCall) -> Interpretation:
    return Interpretation(kind="calls", calls=(call,), error=call.fault or "")


def _faulty(name: str, fault: str, body: str) -> Interpretation:
    return _one_call(recovered_call(name, fault=fault, raw=body))


def repair_arguments(call: ToolCall) -> ToolCall:
    """Return the call with its arguments parsed, if they were not valid JSON but have one clear meaning; else
    unchanged."""
    if call.fault is None or not call.name or not (raw := (call.raw or "").strip()):
        return call
    try:
        repaired = repair_json(raw)
        if isinstance(repaired.value, str) and not raw[repaired.end :].strip():
            raw = repaired.value.strip()
            repaired = repair_json(raw)
    except UnreadableJson:
        return call
    is_complete = repaired.cut != "inside" and not raw[repaired.end :].strip("}] \t\r\n")
    if not is_complete or not isinstance(repaired.value, dict):
        return call
    return msgspec.structs.replace(call, arguments=repaired.value, fault=None, raw=None)
