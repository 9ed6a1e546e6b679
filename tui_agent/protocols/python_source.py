"""Python source: definitions, and merging of partial files written by a model."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from tui_agent.protocols.source_lines import BOM, adopt_ends, normalize_ends, source_lines

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_PASSIVE = Definition | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Pass
"""Statements without effects when a module is loaded."""
_WHOLE_SHARE = 0.7
"""Share of the lines of an unparsable file from which a part counts as a new version of the whole file."""
_COMPLETE_SHARE = 0.5
"""The same for a part with all of its definitions."""
_DEFINITION_HEAD = re.compile(r"(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")


def parse_module(text: str) -> ast.Module | None:
    """Parse a module; None if that fails."""
    try:
        return ast.parse(text.removeprefix(BOM))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def python_trees(files: Mapping[str, str]) -> Iterator[tuple[str, ast.Module]]:
    """Yield path and tree of each Python file that parses."""
    for path, text in files.items():
        tree = parse_module(text) if path.endswith(".py") else None
        if tree is not None:
            yield path, tree


def required_argument_count(function: ast.FunctionDef) -> int:
    """Return the number of required positional arguments."""
    arguments = function.args
    return len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)


def parse_expression(text: str) -> ast.expr | None:
    """Parse an expression; None if that fails."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def module_name(path: str) -> str:
    """Return the module name of a Python file."""
    return path[:-3].replace("/", ".").removesuffix(".__init__")


def function_bodies(text: str) -> dict[str, str]:
    """Return the dumped tree of each function and method by name; joined if a name occurs several times."""
    tree = parse_module(text)
    found: dict[str, str] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = found.get(node.name, "") + dump_tree(node)
    return found


def defined_names(text: str) -> dict[str, tuple[str, ...] | None]:
    """Return parameter names by qualified name; None for classes and module variables."""
    found: dict[str, tuple[str, ...] | None] = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = node.args
                parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                found[prefix + node.name] = tuple(item.arg for item in parameters)
            elif isinstance(node, ast.ClassDef):
                found[prefix + node.name] = None
                collect(node.body, f"{prefix}{node.name}.")
            elif not prefix and (name := _name(node)):
                found[name] = None

    tree = parse_module(text)
    collect(tree.body if tree else [], "")
    return found


def top_level_names(text: str) -> set[str]:
    """Return the names of a module's functions and classes."""
    tree = parse_module(text)
    return {node.name for node in tree.body if isinstance(node, Definition)} if tree else set()


def imported_names(text: str) -> list[tuple[str, str, int]]:
    """Return module, name and line of each `from module import name`."""
    tree = parse_module(text)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)] if tree else []
    return [("." * node.level + (node.module or ""), item.name, node.lineno) for node in found for item in node.names]


def code_only(text: str) -> str:
    """Dump the tree without docstrings: equal for files that differ only in comments and layout."""
    tree = parse_module(text)
    if tree is None:
        return text
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | Definition) and len(node.body) > 1 and _is_docstring(node.body[0]):
            node.body = node.body[1:]
    return dump_tree(tree) or text


def merge_definitions(old: str, part: str, replaced: Collection[str] = (), *, partial: bool = False) -> str:
    """Merge the definitions of `part` into the file `old`; returns `part` itself if it shows the whole file.

    Definitions with the same name are replaced, new ones appended, new imports added at the top. Line ends and byte
    order mark stay those of `old`. `replaced`: names that `part` may lack without being partial, as the request
    mentions them. `partial`: `part` is known to omit something.
    """
    return adopt_ends(old, _merge_sources(normalize_ends(old), normalize_ends(part), replaced, partial))


def _merge_sources(old: str, part: str, replaced: Collection[str], partial: bool) -> str:
    old_tree, new_tree = parse_module(old), parse_module(part)
    if new_tree is None:
        return part
    if old_tree is None:
        return _patch_unparsable(old, part, new_tree)
    if not partial and _is_whole_file(old_tree, new_tree, replaced):
        return with_imports(part, _missing_imports(old_tree, new_tree))
    return _DefinitionMerge(old, part, old_tree, new_tree, replaced).text()


def _is_whole_file(old_tree: ast.Module, new_tree: ast.Module, replaced: Collection[str]) -> bool:
    """Whether a part is a new version of the whole file."""
    before, after = _named(old_tree.body), _named(new_tree.body)
    missing = [
        node
        for name, node in before.items()
        if not (_is_complete(node, after[name], replaced) if name in after else name in replaced)
    ]
    old_active, new_active = _active_statements(old_tree), _active_statements(new_tree)
    if not missing:
        is_guard_removed = bool(_active_statements(old_tree, guard=True)) and not _active_statements(
            new_tree, guard=True
        )
        return bool(replaced) or not is_guard_removed or _has_moved_into_function(old_tree, new_tree)
    defines = any(isinstance(node, Definition) for node in before.values())
    if old_active and not defines and _active_statements(new_tree, guard=True):
        return True
    if (
        old_active
        and _has_moved_into_function(old_tree, new_tree)
        and not any(isinstance(node, Definition) for node in missing)
    ):
        return True
    old_dumps = {dump_tree(node) for node in old_active}
    return any(dump_tree(node) not in old_dumps for node in new_active) and not (
        not old_active and trial_statements(new_tree)
    )


def _active_statements(tree: ast.Module, *, guard: bool = False) -> list[ast.stmt]:
    """Return the statements of a module with effects when it is loaded; `guard`: including `if __name__ == …`."""
    return [
        node
        for node in tree.body
        if not isinstance(node, _PASSIVE)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and (guard or not _is_guard(node))
    ]


def _has_moved_into_function(old_tree: ast.Module, new_tree: ast.Module) -> bool:
    """Whether a statement with effects was moved into a function."""
    old_dumps = {dump_tree(node) for node in _active_statements(old_tree)}
    definitions = [node for node in new_tree.body if isinstance(node, Definition)]
    nested = (node for definition in definitions for node in ast.walk(definition))
    return any(isinstance(node, ast.stmt) and dump_tree(node) in old_dumps for node in nested)


def _missing_imports(old_tree: ast.Module, new_tree: ast.Module) -> list[str]:
    """Return the imports of a file that its new version uses but lacks."""
    bound: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(new_tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, Definition):
            bound.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= _bound_names(node)
    if "*" in bound:
        return []
    found = []
    for node in old_tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [item for item in node.names if _bound_name(item) in used - bound]
            if names:
                part = ast.Import(names) if isinstance(node, ast.Import) else _import_from(node, names)
                found.append(ast.unparse(part) + "\n")
    return found


def _import_from(node: ast.ImportFrom, names: list[ast.alias]) -> ast.ImportFrom:
    return ast.ImportFrom(module=node.module, names=names, level=node.level)


def _bound_name(name: ast.alias) -> str:
    return (name.asname or name.name).partition(".")[0]


def _bound_names(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Return the names bound by an import."""
    return {_bound_name(item) for item in node.names}


def trial_statements(tree: ast.Module) -> list[ast.stmt]:
    """Return the statements at the end of a module that only try out its definitions: prints, assertions and what they
    use."""
    last = max((at for at, node in enumerate(tree.body) if isinstance(node, Definition)), default=-1)
    trailing = tree.body[last + 1 :] if last >= 0 else []
    active = _active_statements(tree)
    if not active or any(node not in trailing or not _is_trial(node) for node in active):
        return []
    return [node for node in trailing if not isinstance(node, ast.Import | ast.ImportFrom)]


def _is_trial(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assert) or "print" in _called_names(node)


def _called_names(node: ast.stmt) -> set[str]:
    """Return the names called in a statement."""
    calls = [node.func for node in ast.walk(node) if isinstance(node, ast.Call)]
    return {item.id if isinstance(item, ast.Name) else getattr(item, "attr", "") for item in calls}


def _is_guard(node: ast.stmt) -> bool:
    test = node.test if isinstance(node, ast.If) else None
    left = test.left if isinstance(test, ast.Compare) else None
    return isinstance(left, ast.Name) and left.id == "__name__"


def dump_tree(node: ast.AST) -> str:
    """Dump a tree; empty if it is too deep."""
    try:
        return ast.dump(node)
    except (RecursionError, MemoryError):
        return ""


def _patch_unparsable(old: str, part: str, new_tree: ast.Module) -> str:
    """Merge definitions into a file that can't be parsed, finding them by the name in their first line. Returns `part`
    itself if it is about as long, or has all definitions."""
    lines, new = _lines(old), _lines(part)
    names = [found.group(1) for line in lines if (found := _DEFINITION_HEAD.match(line))]
    shown = _named(new_tree.body)
    size = sum(bool(line.strip()) for line in new) / max(1, sum(bool(line.strip()) for line in lines))
    if size >= _WHOLE_SHARE or (names and size >= _COMPLETE_SHARE and all(name in shown for name in names)):
        return part
    added, imports = [], []
    for node in new_tree.body:
        source = "".join(new[first_line(node) - 1 : node.end_lineno])
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports += [source] if source not in lines else []
        elif isinstance(node, Definition):
            span = _definition_span(lines, node.name)
            if span is None:
                added.append(source)
            else:
                lines[span[0] : span[1]] = [source, *_blank_lines(lines, span[1])]
                lines = _lines("".join(lines))
    return with_imports(_append_definitions("".join(lines), added), imports)


def _definition_span(lines: list[str], name: str) -> tuple[int, int] | None:
    """Return the first line of a definition, including decorators, and the line after it, by indentation alone."""
    found = [at for at, line in enumerate(lines) if (head := _DEFINITION_HEAD.match(line)) and head.group(1) == name]
    if len(found) != 1:
        return None
    first, end = found[0], found[0] + 1
    while first and lines[first - 1].startswith("@"):
        first -= 1
    while end < len(lines) and (lines[end][0].isspace() or lines[end][0] in ")]}"):
        end += 1
    return first, end


def _blank_lines(lines: list[str], at: int) -> list[str]:
    return ["\n", "\n"] if at < len(lines) else []


def _is_complete(old: ast.stmt, new: ast.stmt, replaced: Collection[str]) -> bool:
    """Whether a definition has everything the old one had; classes have methods."""
    if not isinstance(old, ast.ClassDef) or not isinstance(new, ast.ClassDef) or _is_restructured(old, new):
        return True
    return all(name in _named(new.body) or name in replaced for name in _named(old.body))


def _is_restructured(old: ast.ClassDef, new: ast.ClassDef) -> bool:
    """Whether a class has become another kind of class: with a new decorator or newly declared fields."""
    fields = any(isinstance(node, ast.AnnAssign) for node in new.body)
    had_fields = any(isinstance(node, ast.AnnAssign) for node in old.body)
    return (fields and not had_fields) or len(new.decorator_list) > len(old.decorator_list)


class _DefinitionMerge:
    def __init__(
        self, old: str, part: str, old_tree: ast.Module, new_tree: ast.Module, replaced: Collection[str]
    ) -> None:
        self._lines = _lines(old)
        self._new_lines = _lines(part)
        self._old_tree, self._new_tree = old_tree, new_tree
        self._replaced = replaced
        self._edits: list[tuple[int, int, str]] = []
        self._added_definitions: list[str] = []
        self._imports: list[str] = []

    def text(self) -> str:
        old_definitions = _named(self._old_tree.body)
        old_dumps = {dump_tree(node) for node in self._old_tree.body}
        trials = trial_statements(self._new_tree)
        for node in self._new_tree.body:
            name = _name(node)
            if isinstance(node, ast.Import | ast.ImportFrom):
                if dump_tree(node) not in old_dumps:
                    self._imports.append(self._source(node))
            elif name in old_definitions:
                self._replace(old_definitions[name], node)
            elif _is_guard(node):
                self._merge_guard(node)
            elif name and node not in trials:
                self._added_definitions.append(self._source(node))
        lines = self._lines
        for begin, end, source in sorted(self._edits, key=lambda edit: -edit[0]):
            lines[begin:end] = [source]
        return with_imports(_append_definitions("".join(lines), self._added_definitions), self._imports)

    def _replace(self, old: ast.stmt, new: ast.stmt) -> None:
        if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef) and not _is_restructured(old, new):
            old_members, new_members = _named(old.body), _named(new.body)
            if any(name not in new_members and name not in self._replaced for name in old_members):
                for name, node in new_members.items():
                    if name in old_members:
                        self._replace_statement(old_members[name], node)
                    else:
                        end = old.end_lineno or old.lineno
                        self._edits.append((end, end, "\n" + self._source(node)))
                return
        self._replace_statement(old, new)

    def _merge_guard(self, node: ast.stmt) -> None:
        """Replace the main guard if it does the same thing."""
        old_guards = [item for item in self._old_tree.body if _is_guard(item)]
        if old_guards and _called_names(old_guards[0]) & _called_names(node) - {"print"}:
            self._replace_statement(old_guards[0], node)
        elif not old_guards and "print" not in _called_names(node):
            self._added_definitions.append(self._source(node))

    def _replace_statement(self, old: ast.stmt, new: ast.stmt) -> None:
        self._edits.append((first_line(old) - 1, old.end_lineno or old.lineno, self._source(new)))

    def _source(self, node: ast.stmt) -> str:
        return "".join(self._new_lines[first_line(node) - 1 : node.end_lineno])


def with_imports(text: str, statements: Collection[str]) -> str:
    """Add import statements after the existing ones, or after the docstring."""
    if not statements:
        return text
    if "\r" in text or text.startswith(BOM):
        return adopt_ends(text, with_imports(normalize_ends(text), statements))
    tree = parse_module(text)
    body = tree.body if tree else []
    at = (body[0].end_lineno or 0) if body and _is_docstring(body[0]) else 0
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            at = node.end_lineno or at
    lines = _lines(text)
    gap = [] if any(isinstance(node, ast.Import | ast.ImportFrom) for node in body) or not lines else ["\n"]
    lines[at:at] = [item.rstrip("\n") + "\n" for item in dict.fromkeys(statements)] + gap
    return "".join(lines)


def _append_definitions(text: str, added: list[str]) -> str:
    if not added:
        return text
    new = "\n\n\n".join(item.strip("\n") for item in added) + "\n"
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
    """Return the first line of a statement, including its decorators."""
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(item.lineno for item in decorators)])


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
