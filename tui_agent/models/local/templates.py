"""Check the chat template of a model file: it is a program in Jinja that a stranger wrote. It is parsed, never run.

Jinja is loaded with this module, so it is imported where it is needed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache

from jinja2 import Environment, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from tui_agent.models.local.template_work import MOST, EndlessTemplate, check_work
from tui_agent.text import one_line

MAX_TEMPLATE = 256 << 10
"""Characters; templates of known models have a few thousand."""

SWITCHES = ("enable_thinking", "thinking", "reasoning_effort")
"""Variables by which templates know whether, or how much, the model reasons."""
_MANY = 10**15
_INTERNAL = re.compile(r"__\w+__|^_|\._")
"""Names in a constant text that only Python's internals have."""
_DUNDER = re.compile(r"__[a-z]+__")
_ATTRIBUTE_FILTERS = ("attr", "groupby", "rejectattr", "selectattr", "sum")
"""Filters whose first argument is the name of an attribute."""


def check_template(text: str) -> str:
    """Return why a chat template is refused, as the end of the sentence "The template …", or an empty string."""
    if len(text) > MAX_TEMPLATE:
        return f"has more than {MAX_TEMPLATE:,} characters"
    try:
        tree = _parse(text)
    except Exception as error:  # whatever Jinja raises for a text that is not a template, also ValueError
        return f"is not valid ({one_line(str(error), 100)})"
    return _refusal(tree)


def template_capabilities(text: str) -> tuple[str, ...]:
    """Return `tools` and `thinking` if an accepted template handles tools and reasoning."""
    if not text:
        return ()
    names = {node.name for node in _walk(_parse(text)) if isinstance(node, nodes.Name)}
    has_tools = "tools" in names
    thinks = not names.isdisjoint(SWITCHES) or any(mark in text for mark in ("<think>", "reasoning_content"))
    return (*(["tools"] if has_tools else []), *(["thinking"] if thinks else []))


def template_switches(text: str) -> tuple[str, ...]:
    """Return the variables of an accepted template that choose whether, or how much, the model reasons."""
    read = {node.name for node in _walk(_parse(text)) if isinstance(node, nodes.Name) and node.ctx == "load"}
    return tuple(name for name in SWITCHES if name in read)


class _Generation(Extension):
    """The block that marks the model's own text for training."""

    tags = {"generation"}  # noqa: RUF012 - as in the base class

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@cache
def _environment() -> Environment:
    """Return a parser that knows the statements which template engines of models add to Jinja."""
    from jinja2 import Environment

    extensions: list[str | type[Extension]] = ["jinja2.ext.loopcontrols", "jinja2.ext.do", _Generation]
    return Environment(extensions=extensions, trim_blocks=True, lstrip_blocks=True, autoescape=False)


def _parse(text: str) -> nodes.Template:
    return _environment().parse(text)


def _walk(tree: nodes.Node) -> Iterator[nodes.Node]:
    """Yield all nodes, without recursion: a template may be nested deeply."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.iter_child_nodes()


def _refusal(tree: nodes.Template) -> str:
    for node in _walk(tree):
        if isinstance(node, (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
            return "loads other files"
        if name := _internal_name(node):
            return f"asks for Python internals (`{one_line(name, 40)}`)"
        if isinstance(node, nodes.Pow) or (isinstance(node, (nodes.Mul, nodes.Const)) and _product(node) > MOST):
            return "computes with huge numbers"
    try:
        check_work(tree)
    except EndlessTemplate as problem:
        return str(problem)
    except RecursionError:
        return "is nested too deeply"
    return ""


def _internal_name(node: nodes.Node) -> str:
    """Return a name in this node that leads to Python's internals, or an empty string."""
    if isinstance(node, nodes.Getattr):
        return node.attr if node.attr.startswith("_") else ""
    if isinstance(node, nodes.Getitem):
        return next((text for text in _texts(node.arg) if _INTERNAL.search(text)), "")
    if isinstance(node, nodes.Filter):
        named = _attribute_names(node)
        if node.name == "attr" and not all(isinstance(argument, nodes.Const) for argument in named):
            return "attr"
        return next((text for argument in named for text in _texts(argument) if _INTERNAL.search(text)), "")
    if isinstance(node, nodes.Const) and isinstance(node.value, str) and (found := _DUNDER.search(node.value)):
        return found[0]
    return ""


def _attribute_names(filtered: nodes.Filter) -> list[nodes.Expr]:
    """Return the arguments of a filter that name attributes."""
    named = [pair.value for pair in filtered.kwargs if pair.key == "attribute"]
    if filtered.name in _ATTRIBUTE_FILTERS:
        return named + filtered.args[:1]
    if filtered.name == "join":
        return named + filtered.args[1:]
    passes_on = filtered.name == "map" and "attr" in (text for first in filtered.args[:1] for text in _texts(first))
    return named + (filtered.args[1:] if passes_on else [])


def _texts(node: nodes.Node) -> Iterator[str]:
    for inner in _walk(node):
        if isinstance(inner, nodes.Const) and isinstance(inner.value, str):
            yield inner.value


def _product(tree: nodes.Node) -> float:
    """Return the product of all constant numbers in an expression, an upper limit of what it multiplies."""
    values = [node.value for node in _walk(tree) if isinstance(node, nodes.Const)]
    numbers = [min(abs(value), _MANY) for value in values if isinstance(value, (int, float)) and abs(value) > 1]
    return min(math.prod(numbers), _MANY)
