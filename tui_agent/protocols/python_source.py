"""Python source: its definitions, and a file put together from a part of it that a model wrote."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

Defining = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def parsed(text: str) -> ast.Module | None:
    """The tree of a file; None where it can't be parsed."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def definitions(text: str) -> dict[str, tuple[str, ...] | None]:
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

    tree = parsed(text)
    collect(tree.body if tree else [], "")
    return found


def top_level(text: str) -> set[str]:
    """Names of the functions and classes of a module."""
    tree = parsed(text)
    return {node.name for node in tree.body if isinstance(node, Defining)} if tree else set()


def imported(text: str) -> list[tuple[str, str, int]]:
    """Module, name and line of each `from module import name`."""
    tree = parsed(text)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)] if tree else []
    return [
        ("." * node.level + (node.module or ""), one.name, node.lineno)
        for node in found
        for one in node.names
    ]


def code_only(text: str) -> str:
    """The tree without docstrings, as text: equal for two files that do the same but for comments and layout."""
    tree = parsed(text)
    if tree is None:
        return text
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | Defining) and len(node.body) > 1 and _is_docstring(node.body[0]):
            node.body = node.body[1:]
    return ast.dump(tree)


def merged(old: str, part: str, replaced: Collection[str] = ()) -> str:
    """The file `old` with the definitions that `part` shows; `part` itself where it shows all of the file.

    Definitions of the same name are replaced, new ones are added at the end, new imports at the top. `replaced`: names
    that may be missing from `part` without it being only a part, because the request speaks of them.
    """
    was, now = parsed(old), parsed(part)
    if was is None or now is None:
        return part
    before, after = _named(was.body), _named(now.body)
    if all(
        name in replaced or (name in after and _whole(node, after[name], replaced))
        for name, node in before.items()
    ):
        return part
    return _Merge(old, part, was, now, replaced).text()


def _whole(old: ast.stmt, new: ast.stmt, replaced: Collection[str]) -> bool:
    """Whether a definition shows all that the old one had; a class has methods."""
    if not isinstance(old, ast.ClassDef) or not isinstance(new, ast.ClassDef):
        return True
    return all(name in _named(new.body) or name in replaced for name in _named(old.body))


class _Merge:
    def __init__(
        self, old: str, part: str, was: ast.Module, now: ast.Module, replaced: Collection[str]
    ) -> None:
        self._lines = _lines(old)
        self._new = _lines(part)
        self._was, self._now = was, now
        self._replaced = replaced
        self._edits: list[tuple[int, int, str]] = []
        self._added: list[str] = []
        self._imports: list[str] = []

    def text(self) -> str:
        known = _named(self._was.body)
        there = {ast.dump(node) for node in self._was.body}
        for node in self._now.body:
            name = _name(node)
            if isinstance(node, ast.Import | ast.ImportFrom):
                if ast.dump(node) not in there:
                    self._imports.append(self._source(node))
            elif name in known:
                self._replace(known[name], node)
            elif name:
                self._added.append(self._source(node))
        lines = self._lines
        for begin, end, source in sorted(self._edits, key=lambda edit: -edit[0]):
            lines[begin:end] = [source]
        return with_imports(_with_added("".join(lines), self._added), self._imports)

    def _replace(self, old: ast.stmt, new: ast.stmt) -> None:
        if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef):
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

    def _put(self, old: ast.stmt, new: ast.stmt) -> None:
        self._edits.append((_first_line(old) - 1, old.end_lineno or old.lineno, self._source(new)))

    def _source(self, node: ast.stmt) -> str:
        return "".join(self._new[_first_line(node) - 1 : node.end_lineno])


def with_imports(text: str, statements: Collection[str]) -> str:
    """The file with import statements put behind those that it has, else behind its docstring."""
    if not statements:
        return text
    tree = parsed(text)
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
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, Defining) else []
    return min([node.lineno, *(one.lineno for one in decorators)])


def _name(node: ast.stmt) -> str:
    if isinstance(node, Defining):
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
