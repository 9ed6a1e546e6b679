"""Calls that are written as Python: `name(argument=value)`, read by `ast` and never run (C4)."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

from tui_agent.domain import ToolSpec
from tui_agent.protocols.offer import Offer, plain_name
from tui_agent.protocols.shapes import RAW_LIMIT, Found, Shape

LIST_LIMIT = 64 * 1024
CODE_LIMIT = 256 * 1024
"""Characters that are read."""
_WORDS = {"true": True, "false": False, "null": None, "none": None, "undefined": None}
_UNREADABLE = (
    "The block holds no calls that can be read: write name(argument=value), with literal values only."
)
_FAULT = "its arguments must be literal values, each with the name of its argument"


def listed_calls(body: str, offer: Offer) -> tuple[Found, ...]:
    """`[name(key="value"), …]` with offered names and literal keyword arguments only; nothing if any is otherwise."""
    if len(body) > LIST_LIMIT or not re.match(r"\[\s*[A-Za-z_][\w.]*\s*\(", body):
        return ()
    try:
        tree = ast.parse(body, mode="eval").body
        items = tree.elts if isinstance(tree, ast.List) else []
        calls = [_listed_call(item, offer) for item in items]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(call for call in calls if call is not None) if all(calls) else ()


def _listed_call(item: ast.expr, offer: Offer) -> Found | None:
    if not isinstance(item, ast.Call) or item.args or not isinstance(item.func, ast.Name | ast.Attribute):
        return None
    tool = offer.find(ast.unparse(item.func))
    if tool is None:
        return None
    arguments = _arguments(item, tool)
    if arguments is None:
        return None
    return Found(name=tool.name, arguments=arguments) if not offer.missing(tool, arguments) else None


def parsed(code: str) -> ast.Module:
    """The code as a tree; what Python has to say of a backslash in it is of no interest. Raises like `ast.parse`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code.strip())


def code_calls(body: str, offer: Offer) -> Shape:
    """The calls of a block that is meant as calls, whatever tools they name: alone, in lists, printed or kept in a
    variable. What is no literal is a fault of its call; what is no call, one of the block."""
    try:
        statements = parsed(body).body if len(body) <= CODE_LIMIT else []
        calls = [_code_call(node, offer) for node in _called(statements, offer)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Shape(kind="calls", error=_UNREADABLE)
    if not calls:
        return Shape(kind="calls", error=_UNREADABLE)
    fault = next((call.fault for call in calls if call.fault), None)
    return Shape(kind="calls", calls=tuple(calls), error=fault or "")


def attempted_calls(body: str, offer: Offer) -> Shape:
    """The same for a list without markup: calls that count where the whole reply is nothing else."""
    found = code_calls(body, offer)
    good = (
        bool(found.calls) and not found.error and any(offer.find(call.name) is None for call in found.calls)
    )
    return Shape(kind="attempt", calls=found.calls) if good else Shape(kind="data")


def _called(statements: list[ast.stmt], offer: Offer) -> list[ast.Call]:
    """The calls of tools in these statements. Raises ValueError for a statement of another kind."""
    found: list[ast.Call] = []
    for one in statements:
        if isinstance(one, ast.Import | ast.ImportFrom):
            continue
        if not isinstance(one, ast.Expr | ast.Assign | ast.AnnAssign):
            raise ValueError(_UNREADABLE)
        found += _inside(one.value, offer)
    return found


def _inside(node: ast.expr | None, offer: Offer) -> list[ast.Call]:
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


def _code_call(node: ast.Call, offer: Offer) -> Found:
    name = ast.unparse(node.func)
    tool = offer.find(name)
    arguments = _arguments(node, tool)
    name = tool.name if tool is not None else plain_name(name)
    if arguments is None:
        return Found(name=name, arguments={}, fault=_FAULT, raw=ast.unparse(node)[:RAW_LIMIT])
    return Found(name=name, arguments=arguments)


def _arguments(node: ast.Call, tool: ToolSpec | None) -> dict[str, Any] | None:
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
        elif (
            name is None
            or name in found
            or not isinstance(literal, str | int | float | bool | list | dict | None)
        ):
            return None
        else:
            found[name] = literal
    return found


class _Words(ast.NodeTransformer):
    """JSON's words for truth and nothing, as Python's."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        known = node.id in _WORDS
        return ast.copy_location(ast.Constant(_WORDS[node.id]), node) if known else node
