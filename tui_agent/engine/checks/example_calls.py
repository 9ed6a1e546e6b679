"""The calls in a request that can be evaluated: `f([1], 2)`, `Cart().total()`, `len(f("a"))` (E5)."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

import msgspec

from tui_agent.engine.checks.name_checks import is_test
from tui_agent.engine.checks.request_reading import parse_count
from tui_agent.protocols.python_source import module_name, parse_expression, python_trees, required_argument_count
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "examples")

MAX_LITERAL = 300
"""Characters of a call or a value."""
MAX_PAIRS = 8
"""Argument and value pairs that are read."""


class ProjectCallable(msgspec.Struct, frozen=True):
    """A function or class of the project."""

    module: str
    kind: str
    requires_arguments: bool = False


class RequestCall(msgspec.Struct, frozen=True):
    """A call mentioned in a request."""

    start: int
    end: int
    text: str = ""
    """The call; empty if it can't be evaluated."""
    module: str = ""
    names: tuple[str, ...] = ()
    """The functions and classes of the module that it uses."""


_STRING = re.compile(r"[rbuRBU]{0,2}(?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")")
_EVALUATED = (
    ast.Expression, ast.Call, ast.Attribute, ast.Subscript, ast.Slice, ast.keyword, ast.Constant, ast.List, ast.Tuple,
    ast.Dict, ast.Set, ast.UnaryOp, ast.USub, ast.UAdd, ast.Name, ast.Load,
)  # fmt: skip
"""Nodes of calls that can be evaluated."""
STRAIGHT_QUOTES = str.maketrans("‘’“”−", "''\"\"-")
"""Typographic quotes and minus → those of Python."""


def find_closing_bracket(text: str, start: int) -> int:
    """Return the position after the bracket that closes the one at `start`; -1 if there is none within reach."""
    depth, at, limit = 0, start, min(len(text), start + MAX_LITERAL)
    while at < limit:
        if text[at] in "'\"":
            string = _STRING.match(text, at)
            if string is None:
                return -1
            at = string.end()
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1
        if depth == 0:
            return at
    return -1


def read_literal(text: str, start: int, limit: int, number: re.Pattern[str]) -> str:
    """Return the source of the Python literal at a position; empty if there is none. `number`: numbers and names."""
    match = _STRING.match(text, start, limit) or number.match(text, start, limit)
    end = match.end() if match else -1
    if match is None and start < limit:
        bracket = start + 3 if text.startswith("set()", start) else start
        end = find_closing_bracket(text, bracket) if text[bracket] in "([{" else -1
    source = text[start:end] if start < end <= limit else ""
    try:
        ast.literal_eval(source)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return ""
    return source


def _find_chain_end(text: str, at: int) -> int:
    """Return the end of a call whose bracket opens at a position, with chained calls, attributes and subscripts."""
    end = -1
    while at < len(text):
        if text[at] in "([":
            at = end = find_closing_bracket(text, at)
            if at < 0:
                return -1
        elif (attribute := re.compile(r"\.[A-Za-z_]\w*").match(text, at)) is not None:
            at = end = attribute.end()
        else:
            break
    return end


def find_calls(text: str, callables: Mapping[str, ProjectCallable | None]) -> list[RequestCall]:
    """Return the calls in a text in order, including those that can't be evaluated but end what is said of another."""
    found: list[RequestCall] = []
    last_end = 0
    for head in _RE.call_head.finditer(text):
        prefix, name = head.groups()
        if head.start() < last_end:
            continue
        end = _find_chain_end(text, head.end() - 1)
        if name in _RE.words("builtins") or prefix + name == "print":
            inner = _RE.call_head.finditer(text[head.end() : max(end, head.end())])
            if not any(match[2] in callables for match in inner):
                continue
        elif name not in callables and name[:1].isupper():
            last_end = max(last_end, end)
            continue
        if end < 0:
            found.append(RequestCall(head.start(), head.end()))
            continue
        last_end = end
        found.append(_evaluable_call(text, head, end, callables) or RequestCall(head.start(), end))
    return found


def _evaluable_call(
    text: str, head: re.Match[str], end: int, callables: Mapping[str, ProjectCallable | None]
) -> RequestCall | None:
    """Return a call that can be evaluated as written, or None."""
    before = text[max(0, head.start() - 40) : head.start()].rpartition("\n")[2].rstrip("`")
    is_operand = _RE.operator_before.search(before) and not _RE.arrow_before.search(before)
    if is_operand or _RE.operator_after.match(text, end):
        return None
    prefix, name = head.groups()
    source = text[head.start() + len(prefix) : end]
    named = callables.get(name)
    if prefix and (named is None or not f".{named.module}".endswith(f".{prefix[:-1]}")):
        return None
    tree = parse_expression(source)
    if tree is None:
        return None
    nodes = list(ast.walk(ast.Expression(tree)))
    if not all(isinstance(node, _EVALUATED) for node in nodes) or not all(
        _is_called(node, callables) for node in nodes
    ):
        return None
    if any(isinstance(node, ast.Constant) and node.value is ... for node in nodes):
        return None
    builtins = _RE.words("builtins")
    names = dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name) and node.id not in builtins)
    used = [callables.get(name) for name in names]
    modules = {item.module if item else "" for item in used}
    if len(modules) != 1 or "" in modules:
        return None
    return RequestCall(head.start(), end, source, modules.pop(), tuple(names))


def _is_called(node: ast.AST, callables: Mapping[str, ProjectCallable | None]) -> bool:
    """Whether every callable among a node's children is called, with arguments if it requires them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and child.id in callables:
            used = callables[child.id]
            if not isinstance(node, ast.Call) or node.func is not child or used is None:
                return False
            if used.requires_arguments and not node.args and not node.keywords:
                return False
    return True


def index_callables(request: str, files: Mapping[str, str]) -> dict[str, ProjectCallable | None]:
    """Return the functions and classes of the project by name; None for an ambiguous name."""
    found: dict[str, dict[str, ProjectCallable]] = {}
    for path, tree in python_trees({path: text for path, text in files.items() if not is_test(path)}):
        module = module_name(path)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                needs = required_argument_count(node) > 0 or None in node.args.kw_defaults
                found.setdefault(node.name, {})[path] = ProjectCallable(module, "function", needs)
            elif isinstance(node, ast.ClassDef):
                found.setdefault(node.name, {})[path] = ProjectCallable(module, "class")
    callables: dict[str, ProjectCallable | None] = {}
    for name, by_path in found.items():
        candidates = [item for path, item in by_path.items() if path in request] or list(by_path.values())
        callables[name] = candidates[0] if len(candidates) == 1 else None
    return callables


def counted_results(text: str, names: Collection[str]) -> list[tuple[str, str, str]]:
    """Return function, call and number for each call of a named function whose number of results the request states.

    A variable among its arguments is replaced by a list of twenty items.
    """
    found = []
    for head in re.finditer(r"(?<![\w.])([A-Za-z_]\w*)\(", text):
        end = find_closing_bracket(text, head.end() - 1) if head[1] in names else -1
        count = _RE.counted_result.match(text, end) if end > 0 else None
        if count is not None and (call := _fill_argument(text[head.start() : end])):
            found.append((head[1], f"len({call})", str(parse_count(count[1]))))
    return found


def _fill_argument(call: str) -> str:
    """Replace the only variable among a call's arguments by a list; empty if there are several or none."""
    tree = parse_expression(call)
    if not isinstance(tree, ast.Call) or tree.keywords:
        return ""
    names = [node.id for node in tree.args if isinstance(node, ast.Name)]
    is_simple = all(isinstance(node, ast.Name | ast.Constant) for node in tree.args)
    if len(names) != 1 or not is_simple or (_RE.text_name.match(names[0]) and not names[0].endswith("s")):
        return ""
    items = ast.List([ast.Constant(f"item {number}") for number in range(1, 21)], ast.Load())
    tree.args = [items if isinstance(node, ast.Name) else node for node in tree.args]
    return ast.unparse(tree)


def mapped_values(text: str, files: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return function, call and value for each pair such as `"a" → 1`.

    Empty if the function is ambiguous or the values may be wrong ones that the request reports.
    """
    pairs = list(_pairs(text))[:MAX_PAIRS]
    if not pairs or _RE.reports_fault.search(text):
        return []
    names = [
        node.name
        for _, tree in python_trees(files)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and required_argument_count(node) == 1
        and None not in node.args.kw_defaults
        and re.search(rf"(?<![\w.]){re.escape(node.name)}\b", text)
    ]
    return [(names[0], f"{names[0]}({argument})", value) for argument, value in pairs] if len(names) == 1 else []


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the literals before and after each arrow."""
    at = 0
    while (start := _RE.value_start.search(text, at)) is not None:
        at = start.start() + 1
        argument = _whole_literal(text, start.start())
        if not argument:
            continue
        at = start.start() + len(argument)
        arrow = _RE.arrow.match(text, at)
        value = _whole_literal(text, arrow.end()) if arrow is not None else ""
        if arrow is not None and value:
            at = arrow.end() + len(value)
            yield argument, value


def _whole_literal(text: str, start: int) -> str:
    literal = read_literal(text, start, len(text), _RE.plain_literal)
    return "" if re.compile(r"\w|\.\d").match(text, start + len(literal)) else literal
