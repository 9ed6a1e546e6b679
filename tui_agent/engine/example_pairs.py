"""Examples without a call: `999 -> '999 B'` in a request that speaks of one function of one argument (E5)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from tui_agent.engine.example_calls import STRING, closed
from tui_agent.protocols.python_source import parsed

LIMIT = 8
"""Pairs that are read."""
_ARROW = re.compile(r"\s*`?\s*(?:->|→|=>|⇒)\s*`?\s*")
_PLAIN = re.compile(r"-?\d[\d_]*(?:\.\d+)?|True|False|None")
_START = re.compile(r"(?<![\w.)\]}'\"-])(?=[-\d'\"\[({]|True\b|False\b|None\b)")
_NOT_SO = re.compile(r"\b(?:currently|at the moment|now|wrong(?:ly)?|instead|but)\b", re.IGNORECASE)


def pairs_in(text: str, files: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Path, call and value of each pair, as Python writes them; nothing where it is not plain which function is meant,
    or that the values are those that are wanted."""
    found = list(_pairs(text))[:LIMIT]
    if not found or _NOT_SO.search(text):
        return []
    meant = [
        (path, name)
        for path, name in _single_argument(files)
        if re.search(rf"(?<![\w.]){re.escape(name)}\b", text)
    ]
    if len(meant) != 1:
        return []
    path, name = meant[0]
    return [(path, f"{name}({given})", value) for given, value in found]


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while (start := _START.search(text, at)) is not None:
        at = start.start() + 1
        given = _literal(text, start.start())
        if given is None:
            continue
        at = given[1]
        arrow = _ARROW.match(text, given[1])
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
        one = STRING.match(text, at) or _PLAIN.match(text, at)
        end = one.end() if one is not None else -1
    if end < 0 or re.match(r"\w|\.\d", text[end:]):
        return None
    try:
        ast.literal_eval(text[at:end])
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return text[at:end], end


def _single_argument(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Path and name of each function that can be called with one argument, and needs one."""
    for path, content in files.items():
        tree = parsed(content) if path.endswith(".py") else None
        for node in tree.body if tree is not None else ():
            if isinstance(node, ast.FunctionDef):
                given = node.args
                needed = len(given.posonlyargs) + len(given.args) - len(given.defaults)
                if needed == 1 and not any(one is None for one in given.kw_defaults):
                    yield path, node.name
