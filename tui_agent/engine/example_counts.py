"""How many things a call has to give: `last_lines(lines, 3) returns two lines instead of three` (E5)."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from tui_agent.engine.example_calls import closed
from tui_agent.engine.request_words import NUMBERS, number_in

_NUMBER = rf"(?:\d{{1,2}}|{'|'.join(NUMBERS)})"
_THINGS = r"(?:[a-z]+s|[a-z]+men|people|children)"
_COUNT = re.compile(
    rf"(?:[^.!?\n]|\.(?=\w)){{0,60}}?\b(?:returns?|gives?|yields?|get|has|contains?|shows?|leaves?)"
    rf"\s+(?:only\s+|just\s+)?{_NUMBER}\s+"
    rf"{_THINGS}\s*,?\s+(?:instead\s+of|rather\s+than|not|but\s+(?:it\s+)?should\s+(?:be|give|return))\s+({_NUMBER})\b",
    re.IGNORECASE,
)
_TEXT = re.compile(r"text|string|word|line|title|name|s$", re.IGNORECASE)
_LISTED = tuple(f"item {number}" for number in range(1, 21))


def counts_in(text: str, known: Collection[str]) -> list[tuple[str, str, str]]:
    """Function, call and number of each call of a `known` function of which the request says how many things come out
    of it. Names among its arguments stand for a list of twenty."""
    found = []
    for head in re.finditer(r"(?<![\w.])([A-Za-z_]\w*)\(", text):
        end = closed(text, head.end() - 1) if head.group(1) in known else -1
        said = _COUNT.match(text, end) if end > 0 else None
        call = _filled(text[head.start() : end]) if said is not None else ""
        if said is not None and call:
            found.append((head.group(1), f"len({call})", str(number_in(said.group(1)))))
    return found


def _filled(call: str) -> str:
    """A call with a list for the one name among its arguments; empty where there is another number of them."""
    try:
        tree = ast.parse(call, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    if not isinstance(tree, ast.Call) or tree.keywords:
        return ""
    names = [one for one in tree.args if isinstance(one, ast.Name)]
    plain = all(isinstance(one, ast.Name | ast.Constant) for one in tree.args)
    if len(names) != 1 or not plain or (_TEXT.match(names[0].id) and not names[0].id.endswith("s")):
        return ""
    tree.args = [_list() if isinstance(one, ast.Name) else one for one in tree.args]
    return ast.unparse(tree)


def _list() -> ast.List:
    return ast.List(elts=[ast.Constant(one) for one in _LISTED], ctx=ast.Load())
