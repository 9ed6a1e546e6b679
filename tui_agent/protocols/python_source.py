"""Python source: its definitions, and a file put together from a part of it that a model wrote."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from tui_agent.protocols.source_lines import BOM, source_lines, with_ends_of, with_plain_ends

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_QUIET = Definition | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Pass
"""Statements that set something up when a module is loaded, and do nothing else."""
_WHOLE = 0.7
"""Of the lines of a file that can't be parsed: a part with so many of them is a new version of all of it."""
_HALF = 0.5
"""The same, for a part with all of its definitions."""
_HEAD = re.compile(r"(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")


def parse_module(text: str) -> ast.Module | None:
    """The tree of a file; None where it can't be parsed."""
    try:
        return ast.parse(text.removeprefix(BOM))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def python_trees(files: Mapping[str, str]) -> Iterator[tuple[str, ast.Module]]:
    """Path and tree of each Python file that can be parsed."""
    for path, text in files.items():
        tree = parse_module(text) if path.endswith(".py") else None
        if tree is not None:
            yield path, tree


def needed_arguments(function: ast.FunctionDef) -> int:
    """How many arguments a call of it has to give by their places."""
    given = function.args
    return len(given.posonlyargs) + len(given.args) - len(given.defaults)


def parse_expression(text: str) -> ast.expr | None:
    """The tree of an expression; None where it can't be parsed."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def module_name(path: str) -> str:
    """The module of a Python file, by its path."""
    return path[:-3].replace("/", ".").removesuffix(".__init__")


def function_bodies(text: str) -> dict[str, str]:
    """Name → tree as text of each function and method; of several with a name, all of them."""
    tree = parse_module(text)
    found: dict[str, str] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = found.get(node.name, "") + dump_tree(node)
    return found


def defined_names(text: str) -> dict[str, tuple[str, ...] | None]:
    """Qualified name → names of the parameters; None for classes and for names that a module assigns."""
    found: dict[str, tuple[str, ...] | None] = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = node.args
                every = (*given.posonlyargs, *given.args, *given.kwonlyargs)
                found[prefix + node.name] = tuple(one.arg for one in every)
            elif isinstance(node, ast.ClassDef):
                found[prefix + node.name] = None
                collect(node.body, f"{prefix}{node.name}.")
            elif not prefix and (name := _name(node)):
                found[name] = None

    tree = parse_module(text)
    collect(tree.body if tree else [], "")
    return found


def top_level_names(text: str) -> set[str]:
    """Names of the functions and classes of a module."""
    tree = parse_module(text)
    return {node.name for node in tree.body if isinstance(node, Definition)} if tree else set()


def imported_names(text: str) -> list[tuple[str, str, int]]:
    """Module, name and line of each `from module import name`."""
    tree = parse_module(text)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)] if tree else []
    return [("." * node.level + (node.module or ""), one.name, node.lineno) for node in found for one in node.names]


def code_only(text: str) -> str:
    """The tree without docstrings, as text: equal for two files that do the same but for comments and layout."""
    tree = parse_module(text)
    if tree is None:
        return text
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | Definition) and len(node.body) > 1 and _is_docstring(node.body[0]):
            node.body = node.body[1:]
    return dump_tree(tree) or text


def merge_definitions(old: str, part: str, replaced: Collection[str] = (), *, partial: bool = False) -> str:
    """The file `old` with the definitions that `part` shows; `part` itself where it shows all of the file.

    Definitions of the same name are replaced, new ones are added at the end, new imports at the top. The line ends and
    the byte order mark stay those of `old`. `replaced`: names that may be missing from `part` without it being only a
    part, because the request speaks of them. `partial`: it is known to leave something out.
    """
    return with_ends_of(old, _merged(with_plain_ends(old), with_plain_ends(part), replaced, partial))


def _merged(old: str, part: str, replaced: Collection[str], partial: bool) -> str:
    was, now = parse_module(old), parse_module(part)
    if now is None:
        return part
    if was is None:
        return _patched(old, part, now)
    if not partial and _is_all(was, now, replaced):
        return with_imports(part, _lacking(was, now))
    return _Merge(old, part, was, now, replaced).text()


def _is_all(was: ast.Module, now: ast.Module, replaced: Collection[str]) -> bool:
    """Whether a part is a new version of the whole file."""
    before, after = _named(was.body), _named(now.body)
    missing = [
        node
        for name, node in before.items()
        if not (_whole(node, after[name], replaced) if name in after else name in replaced)
    ]
    did, does = _doing(was), _doing(now)
    if not missing:
        left = bool(_doing(was, guard=True)) and not _doing(now, guard=True)
        return bool(replaced) or not left or _moved(was, now)
    defines = any(isinstance(node, Definition) for node in before.values())
    if did and not defines and _doing(now, guard=True):
        return True
    if did and _moved(was, now) and not any(isinstance(node, Definition) for node in missing):
        return True
    there = {dump_tree(node) for node in did}
    return any(dump_tree(node) not in there for node in does) and not (not did and trial_statements(now))


def _doing(tree: ast.Module, *, guard: bool = False) -> list[ast.stmt]:
    """The statements of a module that do something when it is loaded; `guard`: `if __name__ == …` among them."""
    return [
        node
        for node in tree.body
        if not isinstance(node, _QUIET)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and (guard or not _is_guard(node))
    ]


def _moved(was: ast.Module, now: ast.Module) -> bool:
    """Whether a statement that was run on loading stands in a function now."""
    there = {dump_tree(node) for node in _doing(was)}
    inner = (each for node in now.body if isinstance(node, Definition) for each in ast.walk(node))
    return any(isinstance(each, ast.stmt) and dump_tree(each) in there for each in inner)


def _lacking(was: ast.Module, now: ast.Module) -> list[str]:
    """The import statements of a file that its new version uses and does not show."""
    got: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(now):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else got).add(node.id)
        elif isinstance(node, ast.arg):
            got.add(node.arg)
        elif isinstance(node, Definition):
            got.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            got |= _bound(node)
    if "*" in got:
        return []
    found = []
    for node in was.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [one for one in node.names if _bound_by(one) in used - got]
            if names:
                part = ast.Import(names) if isinstance(node, ast.Import) else _from(node, names)
                found.append(ast.unparse(part) + "\n")
    return found


def _from(node: ast.ImportFrom, names: list[ast.alias]) -> ast.ImportFrom:
    return ast.ImportFrom(module=node.module, names=names, level=node.level)


def _bound_by(name: ast.alias) -> str:
    return (name.asname or name.name).partition(".")[0]


def _bound(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Names that an import gives."""
    return {_bound_by(one) for one in node.names}


def trial_statements(tree: ast.Module) -> list[ast.stmt]:
    """The statements at the end of a module that only try what it defines: prints, assertions, and what they use."""
    last = max((at for at, node in enumerate(tree.body) if isinstance(node, Definition)), default=-1)
    tail = tree.body[last + 1 :] if last >= 0 else []
    doing = _doing(tree)
    if not doing or any(node not in tail or not _tries(node) for node in doing):
        return []
    return [node for node in tail if not isinstance(node, ast.Import | ast.ImportFrom)]


def _tries(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assert) or "print" in _called(node)


def _called(node: ast.stmt) -> set[str]:
    """Names that a statement calls."""
    calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    return {one.id if isinstance(one, ast.Name) else getattr(one, "attr", "") for one in calls}


def _is_guard(node: ast.stmt) -> bool:
    test = node.test if isinstance(node, ast.If) else None
    left = test.left if isinstance(test, ast.Compare) else None
    return isinstance(left, ast.Name) and left.id == "__name__"


def dump_tree(node: ast.AST) -> str:
    """The tree as text; empty where it is too deep."""
    try:
        return ast.dump(node)
    except (RecursionError, MemoryError):
        return ""


def _patched(old: str, part: str, now: ast.Module) -> str:
    """A file that can't be parsed, with the definitions of `part` in the place of those whose first line has their
    name; `part` itself where it has about as many lines, or all of the definitions."""
    lines, new = _lines(old), _lines(part)
    heads = [found.group(1) for line in lines if (found := _HEAD.match(line))]
    shown = _named(now.body)
    size = sum(bool(line.strip()) for line in new) / max(1, sum(bool(line.strip()) for line in lines))
    if size >= _WHOLE or (heads and size >= _HALF and all(name in shown for name in heads)):
        return part
    added, imports = [], []
    for node in now.body:
        source = "".join(new[first_line(node) - 1 : node.end_lineno])
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports += [source] if source not in lines else []
        elif isinstance(node, Definition):
            span = _span(lines, node.name)
            if span is None:
                added.append(source)
            else:
                lines[span[0] : span[1]] = [source, *_gap(lines, span[1])]
                lines = _lines("".join(lines))
    return with_imports(_with_added("".join(lines), added), imports)


def _span(lines: list[str], name: str) -> tuple[int, int] | None:
    """First line of a definition, its decorators among it, and the line behind it, by the margin alone."""
    found = [at for at, line in enumerate(lines) if (head := _HEAD.match(line)) and head.group(1) == name]
    if len(found) != 1:
        return None
    first, end = found[0], found[0] + 1
    while first and lines[first - 1].startswith("@"):
        first -= 1
    while end < len(lines) and (lines[end][0].isspace() or lines[end][0] in ")]}"):
        end += 1
    return first, end


def _gap(lines: list[str], at: int) -> list[str]:
    return ["\n", "\n"] if at < len(lines) else []


def _whole(old: ast.stmt, new: ast.stmt, replaced: Collection[str]) -> bool:
    """Whether a definition shows all that the old one had; a class has methods."""
    if not isinstance(old, ast.ClassDef) or not isinstance(new, ast.ClassDef) or _rebuilt(old, new):
        return True
    return all(name in _named(new.body) or name in replaced for name in _named(old.body))


def _rebuilt(old: ast.ClassDef, new: ast.ClassDef) -> bool:
    """Whether a class is another kind of class: with a decorator or with declared fields that it did not have."""
    fields = any(isinstance(node, ast.AnnAssign) for node in new.body)
    had = any(isinstance(node, ast.AnnAssign) for node in old.body)
    return (fields and not had) or len(new.decorator_list) > len(old.decorator_list)


class _Merge:
    def __init__(self, old: str, part: str, was: ast.Module, now: ast.Module, replaced: Collection[str]) -> None:
        self._lines = _lines(old)
        self._new = _lines(part)
        self._was, self._now = was, now
        self._replaced = replaced
        self._edits: list[tuple[int, int, str]] = []
        self._added: list[str] = []
        self._imports: list[str] = []

    def text(self) -> str:
        known = _named(self._was.body)
        there = {dump_tree(node) for node in self._was.body}
        tried = trial_statements(self._now)
        for node in self._now.body:
            name = _name(node)
            if isinstance(node, ast.Import | ast.ImportFrom):
                if dump_tree(node) not in there:
                    self._imports.append(self._source(node))
            elif name in known:
                self._replace(known[name], node)
            elif _is_guard(node):
                self._guard(node)
            elif name and node not in tried:
                self._added.append(self._source(node))
        lines = self._lines
        for begin, end, source in sorted(self._edits, key=lambda edit: -edit[0]):
            lines[begin:end] = [source]
        return with_imports(_with_added("".join(lines), self._added), self._imports)

    def _replace(self, old: ast.stmt, new: ast.stmt) -> None:
        if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef) and not _rebuilt(old, new):
            inner, given = _named(old.body), _named(new.body)
            if any(name not in given and name not in self._replaced for name in inner):
                for name, node in given.items():
                    if name in inner:
                        self._put(inner[name], node)
                    else:
                        end = old.end_lineno or old.lineno
                        self._edits.append((end, end, "\n" + self._source(node)))
                return
        self._put(old, new)

    def _guard(self, node: ast.stmt) -> None:
        """Put what the part runs as a program in the place of what the file runs, where that is the same thing."""
        mine = [one for one in self._was.body if _is_guard(one)]
        if mine and _called(mine[0]) & _called(node) - {"print"}:
            self._put(mine[0], node)
        elif not mine and "print" not in _called(node):
            self._added.append(self._source(node))

    def _put(self, old: ast.stmt, new: ast.stmt) -> None:
        self._edits.append((first_line(old) - 1, old.end_lineno or old.lineno, self._source(new)))

    def _source(self, node: ast.stmt) -> str:
        return "".join(self._new[first_line(node) - 1 : node.end_lineno])


def with_imports(text: str, statements: Collection[str]) -> str:
    """The file with import statements put behind those that it has, else behind its docstring."""
    if not statements:
        return text
    if "\r" in text or text.startswith(BOM):
        return with_ends_of(text, with_imports(with_plain_ends(text), statements))
    tree = parse_module(text)
    body = tree.body if tree else []
    at = (body[0].end_lineno or 0) if body and _is_docstring(body[0]) else 0
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            at = node.end_lineno or at
    lines = _lines(text)
    gap = [] if any(isinstance(node, ast.Import | ast.ImportFrom) for node in body) or not lines else ["\n"]
    lines[at:at] = [one.rstrip("\n") + "\n" for one in dict.fromkeys(statements)] + gap
    return "".join(lines)


def _with_added(text: str, added: list[str]) -> str:
    if not added:
        return text
    new = "\n\n\n".join(one.strip("\n") for one in added) + "\n"
    main = re.search(r"^if __name__ ==", text, re.MULTILINE)
    if main is None:
        return text.rstrip("\n") + "\n\n\n" + new
    return f"{text[: main.start()].rstrip()}\n\n\n{new}\n\n{text[main.start() :]}"


def _lines(text: str) -> list[str]:
    lines = source_lines(text)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def first_line(node: ast.stmt) -> int:
    """The line in which a statement begins, with its decorators."""
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(one.lineno for one in decorators)])


def _name(node: ast.stmt) -> str:
    if isinstance(node, Definition):
        return node.name
    target: ast.expr | None = node.target if isinstance(node, ast.AnnAssign) else None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def _named(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    return {name: node for node in body if (name := _name(node))}


def _is_docstring(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
