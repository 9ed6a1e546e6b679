"""The calls in a request that can be tried: `f([1], 2)`, `Cart().total()`, `len(f("a"))` (E5)."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

import msgspec

from tui_agent.engine.checks.name_checks import is_test
from tui_agent.engine.checks.request_reading import number_in
from tui_agent.protocols.python_source import module_name, parse_expression, python_trees, required_argument_count
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "examples")

REACH = 300
"""Characters of a call, and of a value."""


class Known(msgspec.Struct, frozen=True):
    """A function or class of the project."""

    module: str
    needs: bool
    """It can't be called without arguments."""
    kind: str


class Call(msgspec.Struct, frozen=True):
    """A place in a request where a function is called."""

    start: int
    end: int
    text: str = ""
    """The call, where it can be tried."""
    module: str = ""
    names: tuple[str, ...] = ()


STRING = re.compile(r"[rbuRBU]{0,2}(?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")")
_CALLABLE = (
    ast.Expression, ast.Call, ast.Attribute, ast.Subscript, ast.Slice, ast.keyword, ast.Constant, ast.List, ast.Tuple,
    ast.Dict, ast.Set, ast.UnaryOp, ast.USub, ast.UAdd, ast.Name, ast.Load,
)  # fmt: skip
STRAIGHT = str.maketrans("‘’“”−", "''\"\"-")
"""Quotes and dashes of a text program → those of Python."""


def closed(text: str, at: int) -> int:
    """The place behind the bracket that closes the one at `at`; -1 where none does within reach."""
    depth, end = 0, min(len(text), at + REACH)
    while at < end:
        if text[at] in "'\"":
            string = STRING.match(text, at)
            if string is None:
                return -1
            at = string.end()
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1
        if depth == 0:
            return at
    return -1


def _chained(text: str, at: int) -> int:
    """The place behind a call that starts with the bracket at `at`, with the calls and parts that hang on to it."""
    last = -1
    while at < len(text):
        if text[at] in "([":
            at = last = closed(text, at)
            if at < 0:
                return -1
        elif (more := re.compile(r"\.[A-Za-z_]\w*").match(text, at)) is not None:
            at = last = more.end()
        else:
            break
    return last


def calls_in(text: str, known: Mapping[str, Known | None]) -> list[Call]:
    """The calls in a text, in order: those that can be tried, and those that only end what is said of another."""
    found: list[Call] = []
    until = 0
    for head in _RE.head.finditer(text):
        prefix, name = head.group(1), head.group(2)
        if head.start() < until:
            continue
        end = _chained(text, head.end() - 1)
        if name in _RE.words("builtins") or prefix + name == "print":
            inner = any(one.group(2) in known for one in _RE.head.finditer(text[head.end() : max(end, head.end())]))
            if not inner:
                continue
        elif name not in known and name[:1].isupper():
            until = max(until, end)
            continue
        if end < 0:
            found.append(Call(head.start(), head.end()))
            continue
        until = end
        found.append(_tried(text, head, end, known) or Call(head.start(), end))
    return found


def _tried(text: str, head: re.Match[str], end: int, known: Mapping[str, Known | None]) -> Call | None:
    """A call that can be tried as it stands; None for any other."""
    before = text[max(0, head.start() - 40) : head.start()].rpartition("\n")[2].rstrip("`")
    prefix = head.group(1)
    if (_RE.joined_before.search(before) and not _RE.arrowed.search(before)) or _RE.joined_after.match(text, end):
        return None
    written = text[head.start() : end]
    named = known.get(head.group(2))
    if prefix:
        if named is None or f".{named.module}".endswith(f".{prefix[:-1]}") is False:
            return None
        written = written[len(prefix) :]
    tree = parse_expression(written)
    if tree is None:
        return None
    every = list(ast.walk(ast.Expression(tree)))
    names = tuple(
        dict.fromkeys(one.id for one in every if isinstance(one, ast.Name) and one.id not in _RE.words("builtins"))
    )
    homes = [known.get(name) for name in names]
    if not names or not all(isinstance(one, _CALLABLE) for one in every) or None in homes:
        return None
    if any(isinstance(one, ast.Constant) and one.value is ... for one in every):
        return None
    modules = {one.module for one in homes if one is not None}
    if len(modules) != 1 or not all(_complete(one, known) for one in every):
        return None
    return Call(head.start(), end, written, modules.pop(), names)


def _complete(node: ast.AST, known: Mapping[str, Known | None]) -> bool:
    """Whether a name stands for its call, with arguments where it needs them, and not for the function as such."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Name) and inner.id in known:
            home = known[inner.id]
            if not isinstance(node, ast.Call) or node.func is not inner or home is None:
                return False
            if home.needs and not node.args and not node.keywords:
                return False
    return True


def known_in(request: str, files: Mapping[str, str]) -> dict[str, Known | None]:
    """The functions and classes of the project by name; None for a name that stands for several."""
    found: dict[str, dict[str, Known]] = {}
    for path, tree in python_trees({path: text for path, text in files.items() if not is_test(path)}):
        module = module_name(path)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                needs = required_argument_count(node) > 0 or None in node.args.kw_defaults
                found.setdefault(node.name, {})[path] = Known(module, needs, "function")
            elif isinstance(node, ast.ClassDef):
                found.setdefault(node.name, {})[path] = Known(module, False, "class")
    known: dict[str, Known | None] = {}
    for name, places in found.items():
        asked = {path: one for path, one in places.items() if path in request} or places
        known[name] = next(iter(asked.values())) if len(asked) == 1 else None
    return known


_LISTED = tuple(f"item {number}" for number in range(1, 21))


def counts_in(text: str, known: Collection[str]) -> list[tuple[str, str, str]]:
    """Function, call and number of each call of a `known` function of which the request says how many things come out
    of it. Names among its arguments stand for a list of twenty."""
    found = []
    for head in re.finditer(r"(?<![\w.])([A-Za-z_]\w*)\(", text):
        end = closed(text, head.end() - 1) if head.group(1) in known else -1
        said = _RE.count.match(text, end) if end > 0 else None
        call = _filled(text[head.start() : end]) if said is not None else ""
        if said is not None and call:
            found.append((head.group(1), f"len({call})", str(number_in(said.group(1)))))
    return found


def _filled(call: str) -> str:
    """A call with a list for the one name among its arguments; empty where there is another number of them."""
    tree = parse_expression(call)
    if not isinstance(tree, ast.Call) or tree.keywords:
        return ""
    names = [one for one in tree.args if isinstance(one, ast.Name)]
    plain = all(isinstance(one, ast.Name | ast.Constant) for one in tree.args)
    if len(names) != 1 or not plain or (_RE.text_name.match(names[0].id) and not names[0].id.endswith("s")):
        return ""
    tree.args = [_list() if isinstance(one, ast.Name) else one for one in tree.args]
    return ast.unparse(tree)


def _list() -> ast.List:
    return ast.List(elts=[ast.Constant(one) for one in _LISTED], ctx=ast.Load())


LIMIT = 8
"""Pairs that are read."""


def pairs_in(text: str, files: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Function, call and value of each pair, as Python writes them; nothing where it is not plain which function is
    meant, or that the values are those that are wanted."""
    found = list(_pairs(text))[:LIMIT]
    if not found or _RE.not_so.search(text):
        return []
    meant = [name for name in _single_argument(files) if re.search(rf"(?<![\w.]){re.escape(name)}\b", text)]
    return [(meant[0], f"{meant[0]}({given})", value) for given, value in found] if len(meant) == 1 else []


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while (start := _RE.value_start.search(text, at)) is not None:
        at = start.start() + 1
        given = _literal(text, start.start())
        if given is None:
            continue
        at = given[1]
        arrow = _RE.arrow.match(text, given[1])
        value = _literal(text, arrow.end()) if arrow is not None else None
        if value is not None:
            at = value[1]
            yield given[0], value[0]


def _literal(text: str, at: int) -> tuple[str, int] | None:
    """A value as Python writes it, and where it ends."""
    if at >= len(text):
        return None
    if text[at] in "([{":
        end = closed(text, at)
    else:
        one = STRING.match(text, at) or _RE.plain.match(text, at)
        end = one.end() if one is not None else -1
    if end < 0 or re.match(r"\w|\.\d", text[end:]):
        return None
    try:
        ast.literal_eval(text[at:end])
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return text[at:end], end


def _single_argument(files: Mapping[str, str]) -> Iterator[str]:
    """The name of each function that can be called with one argument, and needs one."""
    for _, tree in python_trees(files):
        for node in tree.body:
            if (
                isinstance(node, ast.FunctionDef)
                and required_argument_count(node) == 1
                and None not in node.args.kw_defaults
            ):
                yield node.name
