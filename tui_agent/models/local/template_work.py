"""Estimate what a chat template does at most, without running it: repetitions, recursion, growth of texts (L1).

A number stands for each value: the size of a text or list, or the number itself. What comes from the conversation
counts as 1, since the author of the template does not choose it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from jinja2 import nodes

MOST = 10_000_000
"""Repetitions of nested loops, and the size of one value; larger numbers are refused."""
MOST_WORK = 100_000_000
"""What is written, and how often loops are run."""
MAX_STEPS = 250_000
"""Expressions that are looked at; known templates take up to 45,000."""
MAX_MACROS = 100
_MAX_ADDITIONS = 100
"""Places where something is added to a list."""
_MAX_PASSES = 30
_COMPLICATED = "is too complicated"
MAX_LOOPS = 6
"""Loops within each other, also those of called macros."""
UNKNOWN = 1_000
"""Number that is assumed in ranges and products if it depends on the conversation."""
_PASSES = 8
_EXPONENTIAL = 1.4
"""Factor from one repetition to the next by which only exponential growth exceeds the previous one."""
_TEXT = 100
"""Characters of a constant text that count as 1."""
_ADDING = ("append", "extend", "insert", "update", "add")
_ESCAPING = ("tojson", "escape", "e", "forceescape", "urlencode", "xmlattr")
"""Filters that may double a text."""
_TESTING = ("startswith", "endswith")
_FORMATTING = ("format", "indent")
_WIDTH = re.compile(r"\d{6}")
_SUM = (nodes.List, nodes.Tuple, nodes.Dict, nodes.Concat, nodes.Add, nodes.Pair, nodes.Keyword)
_LARGEST = (nodes.And, nodes.Or, nodes.CondExpr)
_TRUTH = (nodes.Compare, nodes.Test, nodes.Not)
Sizes = dict[str, float]


class EndlessTemplate(Exception):
    """The template may do too much; `str()` is the end of the sentence "The template …"."""

    def __init__(self, reason: str = "may never end") -> None:
        super().__init__(reason)


def check_work(tree: nodes.Template) -> None:
    """Raise EndlessTemplate if the template repeats itself too often, or if a text in it may grow too much."""
    macros = {macro.name: macro for macro in tree.find_all(nodes.Macro)}
    _check_calls(tree, macros)
    called = {name: {_called(call) for call in _calls(macro, macros)} for name, macro in macros.items()}
    for macro in macros.values():
        _check_recursion(macro, macros, {name for name in macros if _reaches(name, macro.name, called)})
    _check_additions(tree)
    if _loop_depth(tree.body, macros, (), {}) > MAX_LOOPS:
        raise EndlessTemplate
    work = _Work(macros)
    work.run(tree.body, {}, 1)
    if work.total > MOST_WORK:
        raise EndlessTemplate


# --- loops and recursion --------------------------------------------------------------------


def _check_calls(tree: nodes.Template, macros: dict[str, nodes.Macro]) -> None:
    """Refuse calls that can't be followed: of macros with another name, of blocks, of recursive loops."""
    called = {id(call.node) for call in tree.find_all(nodes.Call)}
    stored = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
    if len(macros) > MAX_MACROS or len(macros) < sum(1 for _ in tree.find_all(nodes.Macro)):
        raise EndlessTemplate("defines too many macros, or one of them twice")
    for node in tree.find_all((nodes.Name, nodes.Block, nodes.For)):
        if isinstance(node, nodes.Block) or (isinstance(node, nodes.For) and node.recursive):
            raise EndlessTemplate
        name = node.name if isinstance(node, nodes.Name) and node.ctx == "load" else ""
        if name in macros and name not in stored and id(node) not in called:
            raise EndlessTemplate


def _called(node: nodes.Node) -> str:
    """Return the name that a node calls, or an empty string."""
    return node.node.name if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) else ""


def _calls(tree: nodes.Node, macros: dict[str, nodes.Macro]) -> Iterator[nodes.Call]:
    return (call for call in tree.find_all(nodes.Call) if _called(call) in macros)


def _reaches(start: str, goal: str, called: dict[str, set[str]]) -> bool:
    """Whether a name is another one, or leads to it, perhaps through others."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name == goal:
            return True
        if name not in seen:
            seen.add(name)
            waiting += called.get(name, ())
    return False


def _check_recursion(macro: nodes.Macro, macros: dict[str, nodes.Macro], callers: set[str]) -> None:
    """Refuse a macro that calls one of its `callers`, except with a part of an argument, and on a condition about an
    argument."""
    own = {argument.name for argument in macro.args}
    derived = _derived(macro, own)
    assigned = {name.name for one in macro.find_all(nodes.Assign) for name in _targets(one.target)}
    items = {name.name for loop in macro.find_all(nodes.For) for name in _targets(loop.target)} & derived - assigned
    guarded = {
        id(call)
        for condition in macro.find_all(nodes.If)
        if _mentions(condition.test, derived | own)
        for part in [*condition.body, *condition.elif_, *condition.else_]
        for call in _within(part, nodes.Call)
    }
    for call in _calls(macro, macros):
        if _called(call) not in callers:
            continue
        given = [*call.args, *(pair.value for pair in call.kwargs)]
        if id(call) not in guarded or not any(
            _is_part(value, own, derived) or _has_items(value, own, items) for value in given
        ):
            raise EndlessTemplate("calls itself without end")


def _within(node: nodes.Node, kind: type[nodes.Node]) -> Iterator[nodes.Node]:
    if isinstance(node, kind):
        yield node
    yield from node.find_all(kind)


def _mentions(tree: nodes.Node, names: set[str]) -> bool:
    return any(isinstance(name, nodes.Name) and name.name in names for name in _within(tree, nodes.Name))


def _derived(macro: nodes.Macro, own: set[str]) -> set[str]:
    """Return the variables that hold only parts of the macro's arguments, or constants."""
    derived: set[str] = set()
    for _ in range(_MAX_PASSES):
        before = len(derived)
        whole: set[str] = set()
        for loop in macro.find_all(nodes.For):
            if _mentions(loop.iter, own | derived):
                derived |= {name.name for name in _targets(loop.target)}
        for assigned in macro.find_all(nodes.Assign):
            names = {name.name for name in _targets(assigned.target)}
            is_constant = not any(True for _ in _within(assigned.node, nodes.Name))
            if not is_constant and not _is_part(assigned.node, own, derived):
                whole |= names
            elif not is_constant:
                derived |= names
        derived -= whole
        if len(derived) <= before:
            return derived
    raise EndlessTemplate(_COMPLICATED)


def _targets(target: nodes.Node) -> Iterator[nodes.Name]:
    return (name for name in _within(target, nodes.Name) if isinstance(name, nodes.Name))


def _is_part(value: nodes.Node, own: set[str], derived: set[str]) -> bool:
    """Whether a value is an item or attribute of an argument."""
    if isinstance(value, nodes.Name):
        return value.name in derived
    if isinstance(value, nodes.CondExpr):
        return all(branch is None or _is_part(branch, own, derived) for branch in (value.expr1, value.expr2))
    if isinstance(value, nodes.Filter) and value.node is not None:
        return _is_part(value.node, own, derived)
    if isinstance(value, nodes.Call) and isinstance(value.node, nodes.Getattr) and value.node.attr == "get":
        return _mentions(value.node.node, own | derived)
    is_keyed = isinstance(value, nodes.Getattr) or (
        isinstance(value, nodes.Getitem) and isinstance(value.arg, nodes.Const) and isinstance(value.arg.value, str)
    )
    return is_keyed and _mentions(value, own | derived)


def _has_items(value: nodes.Node, own: set[str], items: set[str]) -> bool:
    """Whether a value is an object made of items and constants, or the pairs of an argument."""
    if isinstance(value, nodes.Filter):
        return value.name == "items" and isinstance(value.node, nodes.Name) and value.node.name in own
    if not isinstance(value, nodes.Dict):
        return False
    held = [pair.value for pair in value.items if not isinstance(pair.value, nodes.Const)]
    return all(isinstance(one, nodes.Name) and one.name in items for one in held)


def _check_additions(tree: nodes.Template) -> None:
    """Refuse a list that gets itself as an item, or items while a loop goes through it."""
    sources: dict[str, set[str]] = {}
    added: list[tuple[str, set[str]]] = []
    for node in tree.find_all((nodes.Assign, nodes.For, nodes.Call)):
        if isinstance(node, nodes.Assign):
            for key in _stored(node.target):
                sources.setdefault(key, set()).update(_keys(node.node) - {key})
        elif isinstance(node, nodes.For):
            for key in _stored(node.target):
                sources.setdefault(key, set()).update(_keys(node.iter))
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr) and node.node.attr in _ADDING:
            given = {key for value in _arguments(node) for key in _keys(value)}
            added += [(key, given) for key in _keys(node.node.node)]
    if len(added) > _MAX_ADDITIONS:
        raise EndlessTemplate(_COMPLICATED)
    for key, given in added:
        sources.setdefault(key, set()).update(given)
    if any(_reaches(start, key, sources) for key, given in added for start in given):
        raise EndlessTemplate("writes texts that grow without end")


def _keys(node: nodes.Node) -> set[str]:
    """Return the variables, and attributes of variables, in an expression."""
    if key := _key(node):
        return {key}
    return {key for child in node.iter_child_nodes() for key in _keys(child)}


def _stored(target: nodes.Node) -> set[str]:
    return set(filter(None, map(_key, [target, *target.find_all((nodes.Name, nodes.NSRef))])))


def _loop_depth(
    body: Iterable[nodes.Node], macros: dict[str, nodes.Macro], open_: tuple[str, ...], known: dict[str, int]
) -> int:
    """Return how many loops are within each other."""
    most = 0
    waiting = [(node, 0) for node in body]
    while waiting:
        node, depth = waiting.pop()
        most = max(most, depth)
        if isinstance(node, nodes.Macro):
            continue
        if (name := _called(node)) in macros and name not in open_:
            if name not in known:
                known[name] = _loop_depth(macros[name].body, macros, (*open_, name), known)
            most = max(most, depth + known[name])
        inner = depth + isinstance(node, nodes.For)
        waiting += [(child, inner) for child in node.iter_child_nodes()]
    return most


# --- sizes ----------------------------------------------------------------------------------


class _Work:
    """Follows the statements of a template once, with sizes instead of values."""

    def __init__(self, macros: dict[str, nodes.Macro]) -> None:
        self.total = 0.0
        """What is written, and how often loops are run."""
        self._macros: dict[str, nodes.Macro | nodes.CallBlock] = {**macros}
        self._open: list[int] = []
        self._is_tried = False
        """The growth within a loop is being tried."""
        self._steps = 0

    def run(self, body: Iterable[nodes.Node], sizes: Sizes, times: float) -> None:
        """Run statements `times` often, and change `sizes` of the variables."""
        for node in body:
            self._statement(node, sizes, times)

    def _statement(self, node: nodes.Node, sizes: Sizes, times: float) -> None:
        if isinstance(node, nodes.Macro):
            return
        if isinstance(node, nodes.For):
            self._loop(node, sizes, times)
        elif isinstance(node, nodes.If):
            self._branches(node, sizes, times)
        elif isinstance(node, nodes.Assign):
            self._assign(node, sizes)
        elif isinstance(node, nodes.AssignBlock):
            _store(node.target, self._block(node.body, node.filter, sizes), sizes)
        elif isinstance(node, nodes.FilterBlock):
            self.total += times * self._block(node.body, node.filter, sizes)
        elif isinstance(node, nodes.CallBlock):
            before = self._macros.get("caller")
            self._macros["caller"] = node
            self.total += times * self.size(node.call, sizes)
            self._macros.pop("caller")
            if before is not None:
                self._macros["caller"] = before
        else:
            for child in node.iter_child_nodes():
                if isinstance(child, nodes.Expr):
                    self.total += times * self.size(child, sizes)
                else:
                    self._statement(child, sizes, times)

    def _block(self, body: Iterable[nodes.Node], changed: nodes.Filter | None, sizes: Sizes) -> float:
        """Return the size of what statements write."""
        before, self.total = self.total, 1.0
        self.run(body, sizes, 1)
        if changed is not None:
            self.total = self.size(changed, sizes)
        written, self.total = self.total, before
        return _limited(written)

    def _copy(self, sizes: Sizes) -> Sizes:
        self._count(len(sizes) // 10)
        return dict(sizes)

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise EndlessTemplate(_COMPLICATED)

    def _assign(self, node: nodes.Assign, sizes: Sizes) -> None:
        value = node.node
        if _called(value) == "namespace" and isinstance(value, nodes.Call) and isinstance(node.target, nodes.Name):
            for pair in value.kwargs:
                sizes[f"{node.target.name}.{pair.key}"] = self.size(pair.value, sizes)
        else:
            _store(node.target, self.size(value, sizes), sizes)

    def _branches(self, node: nodes.If, sizes: Sizes, times: float) -> None:
        results = []
        for branch in (node, *node.elif_):
            self.size(branch.test, sizes)
            results.append(self._copy(sizes))
            self.run(branch.body, results[-1], times)
        self.run(node.else_, sizes, times)
        for result in results:
            _join(sizes, result)

    def _loop(self, node: nodes.For, sizes: Sizes, times: float) -> None:
        length = self._length(node.iter, sizes)
        if times * length > MOST:
            raise EndlessTemplate
        if node.test is not None:
            self.size(node.test, sizes)
        item = UNKNOWN if _called(node.iter) == "range" else length
        growth = {} if self._is_tried else self._growth(node, self._copy(sizes), item)
        self.total += times * length
        _store(node.target, item, sizes)
        self.run(node.body, sizes, times * length)
        for key, more in growth.items():
            sizes[key] = _limited(sizes[key] + more * length)
        self.run(node.else_, sizes, times)

    def _growth(self, node: nodes.For, sizes: Sizes, item: float) -> Sizes:
        """Run a loop some times, and return how much the values grow each time. Refuses exponential growth."""
        self._is_tried, total = True, self.total
        history = [self._copy(sizes)]
        for _ in range(_PASSES):
            _store(node.target, item, sizes)
            self.run(node.body, sizes, 1)
            history.append(self._copy(sizes))
        self._is_tried, self.total = False, total
        growth: Sizes = {}
        for key in sizes:
            third, second, last = (step.get(key, 0.0) for step in history[-3:])
            if last - second > max(1.0, _EXPONENTIAL * (second - third)):
                raise EndlessTemplate("writes texts that grow without end")
            growth[key] = last - second
        return {key: more for key, more in growth.items() if more > 0}

    def _length(self, iterable: nodes.Node, sizes: Sizes) -> float:
        if isinstance(iterable, nodes.Call) and _called(iterable) == "range":
            return max([1.0, *(self._number(argument, sizes) for argument in iterable.args)])
        inner = [call for call in iterable.find_all(nodes.Call) if _called(call) == "range"]
        return max([self.size(iterable, sizes), *(self._length(call, sizes) for call in inner)])

    # --- expressions ---

    def size(self, node: nodes.Node, sizes: Sizes) -> float:
        """Return the size of a value. Raises EndlessTemplate if it may be huge."""
        self._count(1)
        return _limited(self._size(node, sizes))

    def _size(self, node: nodes.Node, sizes: Sizes) -> float:
        if isinstance(node, nodes.Const):
            return _constant(node.value)
        if key := _key(node):
            return sizes.get(key, sizes.get(key.partition(".")[0], 1.0))
        if isinstance(node, nodes.TemplateData):
            return max(1.0, len(node.data) / _TEXT)
        if isinstance(node, nodes.Mul):
            return self._number(node.left, sizes) * self._number(node.right, sizes)
        if isinstance(node, nodes.Mod):
            return self._changed("format", [node.left, node.right], sizes)
        if isinstance(node, nodes.Filter):
            return self._changed(node.name, [node.node, *_arguments(node)], sizes)
        if isinstance(node, nodes.Call):
            return self._call(node, sizes)
        parts = [self.size(child, sizes) for child in node.iter_child_nodes()]
        if isinstance(node, _SUM):
            return sum(parts)
        return 1.0 if isinstance(node, _TRUTH) or not parts else max(parts) if isinstance(node, _LARGEST) else parts[0]

    def _number(self, node: nodes.Node, sizes: Sizes) -> float:
        """Return the size of a factor, or of the end of a range."""
        if isinstance(node, (nodes.Add, nodes.Sub)):
            return self._number(node.left, sizes) + self._number(node.right, sizes)
        if isinstance(node, (nodes.Neg, nodes.Pos)):
            return self._number(node.node, sizes)
        size = self.size(node, sizes)
        is_known = isinstance(node, (nodes.Const, nodes.Mul, nodes.List, nodes.Tuple)) or _key(node) in sizes
        return size if is_known else max(UNKNOWN, size)

    def _changed(self, name: str, given: list[nodes.Expr | None], sizes: Sizes) -> float:
        """Return the size of what a filter or method makes of its first value; without one, of what was written."""
        parts = [self.total if value is None else self.size(value, sizes) for value in given]
        first, others = parts[0], parts[1:]
        if name in _TESTING:
            return 1.0
        if name in ("length", "count"):
            return UNKNOWN * first
        if name == "replace" and len(given) > 2:
            return first * max(1.0, _factor(given[1], given[2], others[1]))
        if name == "join" and others and not isinstance(given[1], nodes.Const):
            return first * others[0]
        if name in _FORMATTING and isinstance(given[0], nodes.Const) and _WIDTH.search(str(given[0].value)):
            raise EndlessTemplate("computes with huge numbers")
        extra = sum(size for value, size in zip(given[1:], others, strict=True) if not _is_text(value))
        if name in _ESCAPING or name == "indent":
            return first * (2 + extra)
        return first + extra

    def _call(self, node: nodes.Call, sizes: Sizes) -> float:
        given = _arguments(node)
        if macro := self._macros.get(_called(node)):
            return self._macro(macro, node, sizes)
        if _called(node) == "range":
            return self._length(node, sizes)
        if not isinstance(node.node, nodes.Getattr):
            return 1.0 + sum(self.size(value, sizes) for value in given)
        owner, name = node.node.node, node.node.attr
        if name in _ADDING and (key := _key(owner)):
            sizes[key] = _limited(self.size(owner, sizes) + sum(self.size(value, sizes) for value in given))
            return 1.0
        if name == "join" and given:
            return self.size(owner, sizes) * self.size(given[0], sizes)
        return self._changed(name, [owner, *given], sizes)

    def _macro(self, macro: nodes.Macro | nodes.CallBlock, call: nodes.Call, sizes: Sizes) -> float:
        """Return the size of what a macro writes."""
        given = [self.size(value, sizes) for value in _arguments(call)]
        if id(macro) in self._open:
            return 1.0 + sum(given)  # a part of the argument
        scope = self._copy(sizes)
        names = [argument.name for argument in macro.args]
        scope |= dict.fromkeys(names, 1.0)
        scope |= {name: self.size(value, sizes) for name, value in zip(names[::-1], macro.defaults[::-1], strict=False)}
        scope |= dict(zip(names, given, strict=False))
        scope |= {pair.key: self.size(pair.value, sizes) for pair in call.kwargs}
        self._open.append(id(macro))
        written = self._block(macro.body, None, scope)
        self._open.pop()
        for key in sizes.keys() - set(names):  # attributes of namespaces, and lists
            sizes[key] = max(sizes[key], scope[key])
        return written


def _arguments(node: nodes.Call | nodes.Filter) -> list[nodes.Expr]:
    return [*node.args, *(pair.value for pair in node.kwargs)]


def _limited(size: float) -> float:
    if size > MOST:
        raise EndlessTemplate("computes with huge numbers")
    return size


def _constant(value: object) -> float:
    if isinstance(value, str):
        return max(1.0, len(value) / _TEXT)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return max(1.0, min(abs(float(value)), 1e15)) if is_number else 1.0  # type: ignore[arg-type]  # it is a number


def _is_text(node: nodes.Node | None) -> bool:
    return isinstance(node, nodes.Const) and isinstance(node.value, str)


def _factor(old: nodes.Expr | None, new: nodes.Expr | None, size: float) -> float:
    """Return how much longer a replacement makes a text."""
    if isinstance(old, nodes.Const) and isinstance(new, nodes.Const):
        return len(str(new.value)) / max(1, len(str(old.value)))
    return size * _TEXT


def _key(node: nodes.Node) -> str:
    """Return the name of a variable, or of an attribute of one; else an empty string."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.NSRef):
        return f"{node.name}.{node.attr}"
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        return f"{node.node.name}.{node.attr}"
    if isinstance(node, nodes.Getitem) and isinstance(node.node, nodes.Name) and _is_text(node.arg):
        assert isinstance(node.arg, nodes.Const)
        return f"{node.node.name}.{node.arg.value}"
    return ""


def _store(target: nodes.Node, size: float, sizes: Sizes) -> None:
    for key in _stored(target):
        sizes[key] = _limited(size)


def _join(sizes: Sizes, other: Sizes) -> None:
    """Keep the larger size of each variable, after two branches."""
    for key, size in other.items():
        sizes[key] = max(size, sizes.get(key, 1.0))
