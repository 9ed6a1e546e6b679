"""Python source: definitions, and merging of partial files written by a model."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from tui_agent.protocols.source_lines import BOM, adopt_ends, content_lines, normalize_ends, source_lines

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
PASSIVE = Definition | ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Pass
"""Statements without effects when a module is loaded."""
PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `ast.parse` raises for a text that is not Python."""
_WHOLE_SHARE = 0.7
"""Share of the lines of an unparsable file from which a part counts as a new version of the whole file."""
_COMPLETE_SHARE = 0.5
"""The same for a part with all of its definitions."""
_Edit = tuple[int, int, str]
"""First line and line after the replaced ones, counted from 0, and the new source."""
_DEFINITION_HEAD = re.compile(r"(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")


def parse_module(text: str) -> ast.Module | None:
    """Parse a module; None if that fails."""
    try:
        return ast.parse(text.removeprefix(BOM))
    except PARSE_ERRORS:
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
    except PARSE_ERRORS:
        return None


def module_name(path: str) -> str:
    """Return the module name of a Python file."""
    return path[:-3].replace("/", ".").removesuffix(".__init__")


def function_bodies(text: str) -> dict[str, str]:
    """Return the dumped tree of each function and method by name; joined if a name occurs several times."""
    tree = parse_module(text)
    bodies: dict[str, str] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            bodies[node.name] = bodies.get(node.name, "") + dump_tree(node)
    return bodies


def defined_names(text: str) -> dict[str, tuple[str, ...] | None]:
    """Return parameter names by qualified name; None for classes and module variables."""
    names: dict[str, tuple[str, ...] | None] = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = node.args
                parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                names[prefix + node.name] = tuple(item.arg for item in parameters)
            elif isinstance(node, ast.ClassDef):
                names[prefix + node.name] = None
                collect(node.body, f"{prefix}{node.name}.")
            elif not prefix and (name := _name(node)):
                names[name] = None

    tree = parse_module(text)
    collect(tree.body if tree else [], "")
    return names


def top_level_names(text: str) -> set[str]:
    """Return the names of a module's functions and classes."""
    tree = parse_module(text)
    return {node.name for node in tree.body if isinstance(node, Definition)} if tree else set()


def imported_names(text: str) -> list[tuple[str, str, int]]:
    """Return module, name and line of each `from module import name`."""
    tree = parse_module(text)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)] if tree else []
    return [("." * node.level + (node.module or ""), item.name, node.lineno) for node in nodes for item in node.names]


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
        return _merge_into_unparsable(old, part, new_tree)
    if not partial and _is_whole_file(old_tree, new_tree, replaced):
        return with_imports(part, _missing_imports(old_tree, new_tree))
    new_lines, old_named = _lines(part), _named(old_tree.body)
    old_dumps = {dump_tree(node) for node in old_tree.body}
    old_guard = next(filter(_is_guard, old_tree.body), None)
    trials = trial_statements(new_tree)
    edits: list[_Edit] = []
    added, imports = [], []
    for node in new_tree.body:
        name, source = _name(node), _source(node, new_lines)
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports += [source] if dump_tree(node) not in old_dumps else []
        elif name in old_named:
            edits += _replacements(old_named[name], node, new_lines, replaced)
        elif _is_guard(node) and old_guard:
            if _called_names(old_guard) & _called_names(node) - {"print"}:  # it does the same thing
                edits.append((*_span(old_guard), source))
        elif "print" not in _called_names(node) if _is_guard(node) else name and node not in trials:
            added.append(source)
    return _apply_edits(_lines(old), edits, added, imports)


def _replacements(old: ast.stmt, new: ast.stmt, new_lines: list[str], replaced: Collection[str]) -> list[_Edit]:
    """Return the edits that replace a statement, or only the shown members of a class that is shown in part."""
    if _is_complete(old, new, replaced) or not isinstance(old, ast.ClassDef) or not isinstance(new, ast.ClassDef):
        return [(*_span(old), _source(new, new_lines))]
    old_members, end = _named(old.body), old.end_lineno or old.lineno
    return [
        (*_span(old_members[name]), _source(node, new_lines))
        if name in old_members
        else (end, end, "\n" + _source(node, new_lines))
        for name, node in _named(new.body).items()
    ]


def _apply_edits(lines: list[str], edits: list[_Edit], added: list[str], imports: list[str]) -> str:
    for start, end, source in sorted(edits, key=lambda edit: -edit[0]):
        lines[start:end] = [source]
    return with_imports(_append_definitions("".join(lines), added), imports)


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
        if not isinstance(node, PASSIVE)
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
            bound |= set(map(_bound_name, node.names))
    if "*" in bound:
        return []
    statements = []
    for node in old_tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [name for name in node.names if _bound_name(name) in used - bound]
            if names:
                statements.append(ast.unparse(type(node)(**dict(ast.iter_fields(node)) | {"names": names})) + "\n")
    return statements


def _bound_name(name: ast.alias) -> str:
    return (name.asname or name.name).partition(".")[0]


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


def _merge_into_unparsable(old: str, part: str, new_tree: ast.Module) -> str:
    """Merge definitions into a file that can't be parsed, finding them by the name in their first line. Returns `part`
    itself if it is about as long, or has all definitions."""
    lines, new_lines = _lines(old), _lines(part)
    names = [match.group(1) for line in lines if (match := _DEFINITION_HEAD.match(line))]
    shown = _named(new_tree.body)
    share = len(content_lines(part)) / max(1, len(content_lines(old)))
    if share >= _WHOLE_SHARE or (names and share >= _COMPLETE_SHARE and all(name in shown for name in names)):
        return part
    edits: list[_Edit] = []
    added, imports = [], []
    for node in new_tree.body:
        source = _source(node, new_lines)
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports += [source] if source not in lines else []
        elif isinstance(node, Definition):
            span = _span_by_indentation(lines, node.name)
            if span is None:
                added.append(source)
            else:
                edits.append((*span, source + ("\n\n" if span[1] < len(lines) else "")))
    return _apply_edits(lines, edits, added, imports)


def _span_by_indentation(lines: list[str], name: str) -> tuple[int, int] | None:
    """Return the first line of the only definition of `name`, including decorators, and the line after it."""
    heads = [at for at, line in enumerate(lines) if (match := _DEFINITION_HEAD.match(line)) and match.group(1) == name]
    if len(heads) != 1:
        return None
    start, end = heads[0], heads[0] + 1
    while start and lines[start - 1].startswith("@"):
        start -= 1
    while end < len(lines) and (lines[end][0].isspace() or lines[end][0] in ")]}"):
        end += 1
    return start, end


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
    lines[at:at] = [statement.rstrip("\n") + "\n" for statement in dict.fromkeys(statements)] + gap
    return "".join(lines)


def _append_definitions(text: str, added: list[str]) -> str:
    if not added:
        return text
    new = "\n\n\n".join(source.strip("\n") for source in added) + "\n"
    guard = re.search(r"^if __name__ ==", text, re.MULTILINE)
    if guard is None:
        return text.rstrip("\n") + "\n\n\n" + new
    return f"{text[: guard.start()].rstrip()}\n\n\n{new}\n\n{text[guard.start() :]}"


def _lines(text: str) -> list[str]:
    lines = source_lines(text)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return lines


def first_line(node: ast.stmt) -> int:
    """Return the first line of a statement, including its decorators."""
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(item.lineno for item in decorators)])


def _span(node: ast.stmt) -> tuple[int, int]:
    return first_line(node) - 1, node.end_lineno or node.lineno


def _source(node: ast.stmt, lines: list[str]) -> str:
    start, end = _span(node)
    return "".join(lines[start:end])


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
