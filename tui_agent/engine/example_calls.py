"""The calls in a request that can be tried: `f([1], 2)`, `Cart().total()`, `len(f("a"))` (E5)."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

import msgspec

from tui_agent.engine.name_checks import is_test
from tui_agent.protocols.python_source import parsed

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


_BUILTINS = frozenset(
    (
        "abs", "all", "any", "bool", "dict", "enumerate", "float", "frozenset", "int", "len", "list", "max", "min",
        "next", "range", "repr", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "type", "zip",
    )
)  # fmt: skip
_HEAD = re.compile(r"(?<![\w.])((?:[A-Za-z_]\w*\.)*)([A-Za-z_]\w*)\(")
STRING = re.compile(r"[rbuRBU]{0,2}(?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")")
_CALLABLE = (
    ast.Expression, ast.Call, ast.Attribute, ast.Subscript, ast.Slice, ast.keyword, ast.Constant, ast.List, ast.Tuple,
    ast.Dict, ast.Set, ast.UnaryOp, ast.USub, ast.UAdd, ast.Name, ast.Load,
)  # fmt: skip
_JOINED_BEFORE = re.compile(r"(?:\b(?:not|def|class|if|while|elif|is|in)\s*|[+*/%=!<]\s*|[\d)\]]\s*-\s*)$")
_ARROWED = re.compile(r"(?:[-=]>|→|⇒)\s*$")
_JOINED_AFTER = re.compile(
    r"\s*(?:[+*/%&|^<]|>(?!>>)|-\s?\d|!=|(?:not )?in [\[({'\"]|is not\b|(?:==|is) [a-z_]\w*\()"
)
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
    for head in _HEAD.finditer(text):
        prefix, name = head.group(1), head.group(2)
        if head.start() < until:
            continue
        end = _chained(text, head.end() - 1)
        if name in _BUILTINS or prefix + name == "print":
            inner = any(
                one.group(2) in known for one in _HEAD.finditer(text[head.end() : max(end, head.end())])
            )
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
    if (_JOINED_BEFORE.search(before) and not _ARROWED.search(before)) or _JOINED_AFTER.match(text, end):
        return None
    written = text[head.start() : end]
    named = known.get(head.group(2))
    if prefix:
        if named is None or f".{named.module}".endswith(f".{prefix[:-1]}") is False:
            return None
        written = written[len(prefix) :]
    try:
        tree = ast.parse(written, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    every = list(ast.walk(tree))
    names = tuple(
        dict.fromkeys(one.id for one in every if isinstance(one, ast.Name) and one.id not in _BUILTINS)
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
    for path, text in files.items():
        tree = parsed(text) if path.endswith(".py") and not is_test(path) else None
        module = path[:-3].replace("/", ".").removesuffix(".__init__")
        for node in tree.body if tree else ():
            if isinstance(node, ast.FunctionDef):
                given = node.args
                needs = (
                    len(given.posonlyargs) + len(given.args) > len(given.defaults)
                    or None in given.kw_defaults
                )
                found.setdefault(node.name, {})[path] = Known(module, needs, "function")
            elif isinstance(node, ast.ClassDef):
                found.setdefault(node.name, {})[path] = Known(module, False, "class")
    known: dict[str, Known | None] = {}
    for name, places in found.items():
        asked = {path: one for path, one in places.items() if path in request} or places
        known[name] = next(iter(asked.values())) if len(asked) == 1 else None
    return known
