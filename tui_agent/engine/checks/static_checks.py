"""What is wrong with changed files as far as it shows without running them: syntax, lost and missing parts (E2, E4).

Each problem is a sentence for the model. Every check is silent for correct work.
"""

from __future__ import annotations

import ast
import difflib
import functools
import io
import json
import re
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

import msgspec

from tui_agent.engine.checks.name_checks import Problem, is_test, missing_names, resolve_module
from tui_agent.engine.checks.renames import unfinished_renames, wanted_renames
from tui_agent.engine.checks.request_reading import RequestReading, mentions_any, removable_names, request_prose
from tui_agent.engine.checks.request_scope import protected_files, test_change_rule, wanted_tests
from tui_agent.protocols.data_files import UnreadableData, parse_data, yaml_error
from tui_agent.protocols.python_source import (
    Definition,
    code_only,
    defined_names,
    imported_names,
    module_name,
    parse_module,
    python_trees,
    with_imports,
)
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "static")

NOTHING = "nothing changed"
_PROSE = ("docstring", "comment", "document", "explain", "format", "style", "typo", "spell", "type hint")
"""Subjects of requests that change no code."""
_HASH_COMMENTS = (".py", ".toml", ".yaml", ".yml", ".sh", ".cfg", ".ini")
"""Suffixes of files whose comments begin with a hash sign."""
_MAX_COMPARED = 1_500
"""Changed lines that are compared."""
_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def find_problems(request: RequestReading, before: Mapping[str, str], changed: Mapping[str, str]) -> list[Problem]:
    """Return the problems of the files `changed` (path → new content) of a project. `before`: the known files."""
    if not changed or not _has_effect(request.text, before, changed):
        return [Problem(NOTHING)]
    text = request.text
    after = {**before, **changed}
    protected = protected_files(text, before)
    renames = _attempt(wanted_renames, text, before)
    old_names = frozenset(rename.old for rename in renames)
    problems: list[Problem] = []
    for path, content in changed.items():
        problems += _file_problems(path, before.get(path), content, request, old_names)
    problems += _attempt(missing_names, request, before, after, protected)
    reported = {problem.text for problem in problems}
    leftovers = _attempt(unfinished_renames, request, renames, before, after)
    problems += [problem for problem in leftovers if problem.text not in reported]
    problems += _attempt(_missing_tests, text, before, changed)
    problems += map(Problem, _attempt(wrong_sections, text, before, changed))
    problems += [Problem(value, soft=True) for value in _attempt(unnamed_values, text, before, changed)]
    problems += _attempt(_broken_imports, after, before)
    return problems


def _attempt(
    check: Callable[_Params, Sequence[_Result]], *args: _Params.args, **kwargs: _Params.kwargs
) -> Sequence[_Result]:
    """Return what a check finds; nothing for texts beyond the limits of Python's parsers."""
    try:
        return check(*args, **kwargs)
    except (RecursionError, ValueError, MemoryError, SyntaxError):
        return []


def _has_effect(request: str, before: Mapping[str, str], changed: Mapping[str, str]) -> bool:
    """Whether more than the layout of code changed, or the request is about more than code."""
    return mentions_any(request, _PROSE) or any(
        not path.endswith(".py") or path not in before or code_only(before[path]) != code_only(text)
        for path, text in changed.items()
    )


def _missing_tests(request: str, before: Mapping[str, str], changed: Mapping[str, str]) -> list[Problem]:
    """Return a problem if there are fewer new tests than requested.

    If the request does not say that each must be a function, assertions count, too.
    """
    wanted, must_be_functions = wanted_tests(request)
    tests = {path: text for path, text in changed.items() if is_test(path)}
    if not wanted or not tests:
        return []
    count = sum(_count_tests(text) - _count_tests(before.get(path, "")) for path, text in tests.items())
    if count >= wanted or any("parametrize" in text or "subTest" in text for text in tests.values()):
        return []
    if not must_be_functions and sum(len(re.findall(r"\bassert", text)) for text in tests.values()) >= wanted:
        return []
    return [Problem(f"{', '.join(tests)} has {count} new test functions, and at least {wanted} are wanted")]


def _count_tests(text: str) -> int:
    return len(re.findall(r"^[ \t]*(?:async )?def test", text, re.MULTILINE))


# --- linting ------------------------------------------------------------------------------------


class _Flake(NamedTuple):
    kind: Literal["undefined", "unused", "redefined"]
    name: str
    text: str


@functools.lru_cache(maxsize=16)
def _flakes(text: str) -> Sequence[_Flake]:
    """Return pyflakes' findings about undefined names, unused imports and redefinitions."""
    return _attempt(_run_pyflakes, text)


def _run_pyflakes(text: str) -> list[_Flake]:
    tree = parse_module(text)
    if tree is None:
        return []
    from pyflakes import checker, messages

    flakes = []
    for message in checker.Checker(tree, filename="file").messages:
        name = str(next(iter(message.message_args), ""))
        if isinstance(message, messages.UndefinedName | messages.UndefinedLocal):
            flakes.append(_Flake("undefined", name, f"the name {name} is not defined"))
        elif isinstance(message, messages.UnusedImport):
            flakes.append(_Flake("unused", name, f"the import {name} is not used"))
        elif isinstance(message, messages.RedefinedWhileUnused):
            flakes.append(_Flake("redefined", name, f"{name} is defined twice"))
    return flakes


def lint_hints(files: Mapping[str, str]) -> list[str]:
    """Return a linter's findings in the files before a change that are usually faults."""
    hints = []
    for path, tree in python_trees(files):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                defaults = [*node.args.defaults, *node.args.kw_defaults]
                if any(isinstance(item, ast.List | ast.Dict | ast.Set) for item in defaults):
                    hint = f"the default value of {node.name}() is mutable, so all calls share it"
                    hints.append(f"{path} line {node.lineno}: {hint}")
            elif isinstance(node, ast.ClassDef):
                hints += [f"{path} line {line}: {hint}" for line, hint in _shared_attributes(node)]
        hints += [f"{path}: {flake.text}" for flake in _flakes(files[path]) if flake.kind == "undefined"]
    return hints


def _shared_attributes(node: ast.ClassDef) -> list[tuple[int, str]]:
    """Return line and hint for each list, dict or set of a class that its methods fill."""
    fill_methods = ("append", "add", "update", "extend", "insert", "setdefault")
    filled = {
        item.value.attr
        for item in ast.walk(node)
        if isinstance(item, ast.Subscript | ast.Attribute)
        and isinstance(item.value, ast.Attribute)
        and isinstance(item.value.value, ast.Name)
        and item.value.value.id == "self"
        and (isinstance(item.ctx, ast.Store) or getattr(item, "attr", "") in fill_methods)
    }
    return [
        (item.lineno, f"{target.id} of the class {node.name} is one object that all instances share")
        for item in node.body
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.List | ast.Dict | ast.Set)
        for target in item.targets
        if isinstance(target, ast.Name) and target.id in filled
    ]


def with_fixed_imports(text: str, old: str | None) -> str:
    """Add missing imports of the standard library to a Python file, and remove those its change left unused."""
    flakes = _flakes(text)
    previous = _flakes(old) if old is not None else flakes
    for flake in flakes:
        if flake.kind == "unused" and flake not in previous:
            module = re.escape(flake.name.split()[0])
            text = re.sub(rf"^import {module}[ \t]*\n", "", text, count=1, flags=re.MULTILINE)
    undefined = [flake.name for flake in flakes if flake.kind == "undefined"]
    return with_imports(text, [f"import {name}" for name in undefined if name in sys.stdlib_module_names])


# --- one file -----------------------------------------------------------------------------------


def _file_problems(
    path: str, old: str | None, text: str, request: RequestReading, renamed: frozenset[str]
) -> list[Problem]:
    """Return the problems of one changed file. `renamed`: the old names of the requested renames."""
    error = syntax_error(path, text)
    if error:
        return _syntax_problems(path, old, text, request, error)
    problems = _new_flakes(path, old, text) if path.endswith(".py") else []
    if old is None:
        return problems
    if path.endswith(".py"):
        problems += _lost_definitions(path, old, text, request.text, renamed)
    if path.endswith(_HASH_COMMENTS) and not mentions_any(request.text, ("comment",)):
        problems += _lost_comments(path, old, text)
    if is_test(path):
        problems += _test_changes(path, old, text, request, renames=bool(renamed))
    return problems


def _new_flakes(path: str, old: str | None, text: str) -> list[Problem]:
    previous = _flakes(old) if old is not None else ()
    flakes = [flake for flake in _flakes(text) if flake not in previous]
    unused, previously_unused = (sum(flake.kind == "unused" for flake in found) for found in (_flakes(text), previous))
    if unused <= previously_unused or path.endswith("__init__.py"):  # a name imported for others may have changed
        flakes = [flake for flake in flakes if flake.kind != "unused"]
    return [Problem(f"{path}: {flake.text}", soft=flake.kind != "undefined") for flake in flakes]


def _syntax_problems(path: str, old: str | None, text: str, request: RequestReading, error: str) -> list[Problem]:
    """Return the syntax error of a file, unless it had one before and the request does not ask for its repair."""
    previous = syntax_error(path, old) if old is not None else ""
    problem = Problem(f"{path} has an error: {error}")
    prose = request_prose(request.text)
    if old is None or not previous or _RE.mentions_syntax.search(prose):
        return [problem]
    if path.endswith(".json"):
        error = "" if syntax_error(path, old, comments=True) else syntax_error(path, text, comments=True)
        return [Problem(f"{path} has an error: {error}")] if error else []
    if not path.endswith(".py"):
        return []
    if _RE.repair.search(prose):
        return [problem]
    is_same = re.sub(r"\d+", "", previous) == re.sub(r"\d+", "", error)
    return [] if is_same else [Problem(problem.text, soft=True)]


def _test_changes(path: str, old: str, text: str, request: RequestReading, *, renames: bool) -> list[Problem]:
    """Return a problem if an existing test was changed without a reason in the request."""
    rule = test_change_rule(request.text, renames=renames)
    if rule == "free":
        return []
    only_adds = _only_adds(old, text)
    if rule == "soft":
        new_names = defined_names(text).keys() - defined_names(old).keys()
        if only_adds and all("test" in name.lower() for name in new_names):
            return []
        is_mentioned = any(path == name or path.endswith(f"/{name}") for name in request.paths)
        if is_mentioned and all(map(is_test, request.paths)):
            return []  # the only file that the request is about, and it does not say that a test fails
    return [Problem(f"{path} must stay as it is", soft=rule == "soft" or only_adds)]


def _only_adds(old: str, text: str) -> bool:
    """Whether all lines except imports are still there in order, and no added line weakens a test."""
    lines = iter([line.strip() for line in text.splitlines()])
    added: list[str] = []
    for old_line in map(str.strip, old.splitlines()):
        if not old_line or re.match(r"(?:import|from)\b", old_line):
            continue
        for line in lines:
            if line == old_line:
                break
            added.append(line)
        else:
            return False
    return not any(map(_RE.weakens_test.search, [*added, *lines]))


def syntax_error(path: str, text: str, *, comments: bool = False) -> str:
    """Return why a file is not valid for its suffix; empty if it is, or for other suffixes.

    `comments`: a JSON file may have comments and trailing commas, whatever its name.
    """
    text = text.removeprefix("\ufeff")
    try:
        if path.endswith(".py"):
            ast.parse(text)
        elif path.endswith(".json"):
            json.loads(_strip_json_comments(text) if comments or _RE.json_with_comments.search(path) else text)
        elif path.endswith(".toml"):
            tomllib.loads(text)
        elif path.endswith((".yaml", ".yml")):
            return yaml_error(text)[:200]
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (RecursionError, MemoryError):
        return ""
    except ValueError as error:
        return str(error)[:200]
    return ""


def _strip_json_comments(text: str) -> str:
    """Remove comments and trailing commas from JSON, keeping its line numbers."""
    text = _RE.json_comment.sub(lambda match: match[0] if match[0][0] == '"' else "\n" * match[0].count("\n"), text)
    return _RE.trailing_comma.sub(lambda match: match[0] if match[0][0] == '"' else match[0][1:], text)


def _lost_definitions(path: str, old: str, text: str, request: str, renamed: frozenset[str]) -> list[Problem]:
    """Return definitions and parameters that are gone although the request does not name them."""
    removable = removable_names(request) | renamed
    restructures = _RE.restructures.search(request_prose(request)) is not None
    now = defined_names(text)
    problems = []
    for name, parameters in defined_names(old).items():
        last = name.rpartition(".")[2]
        if name not in now:
            if last not in removable and not any(name.startswith(f"{owner}.") for owner in removable):
                is_special = last.startswith("__") and last.endswith("__")
                is_class = re.search(rf"^[ \t]*class {re.escape(last)}\b", old, re.MULTILINE) is not None
                is_variable = parameters is None and not is_class
                problems.append(Problem(f"{path}: {name} is gone", soft=restructures or is_special or is_variable))
            continue
        new_parameters = now[name]
        if parameters and new_parameters is not None and len(new_parameters) < len(parameters):
            lost = ", ".join(item for item in parameters if item not in new_parameters)
            problems.append(Problem(f"{path}: {name}() must keep its parameter {lost}", soft=True))
    return problems


def _lost_comments(path: str, old: str, text: str) -> list[Problem]:
    old_lines, new_lines = _changed_lines(old.splitlines(), text.splitlines())
    if max(len(old_lines), len(new_lines)) > _MAX_COMPARED or not any("#" in line for line in old_lines):
        return []
    problems = []
    for tag, first, last, *_ in difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        for line in old_lines[first:last] if tag == "replace" else ():
            comment = re.search(r"\s#\s*(\S.*)$", line)
            if comment and comment[1] not in text and (not path.endswith(".py") or _has_comment(line)):
                problems.append(Problem(f"{path}: the comment “# {comment[1]}” is gone", soft=True))
    return problems


def _changed_lines(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Return the lines between the first and the last difference."""
    shorter = min(len(old), len(new))
    first = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    old, new = old[first:], new[first:]
    shorter -= first
    last = next((at for at in range(shorter) if old[-1 - at] != new[-1 - at]), shorter)
    return old[: len(old) - last], new[: len(new) - last]


def _has_comment(line: str) -> bool:
    """Whether a line of Python has a comment, not only a string with a hash sign."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(line.strip()).readline))
    except (tokenize.TokenError, SyntaxError):
        return True
    return any(token.type == tokenize.COMMENT for token in tokens)


# --- imports ------------------------------------------------------------------------------------


class _DanglingImport(msgspec.Struct, frozen=True):
    """An import of a name that the module does not seem to define."""

    name: str
    source: str
    """The module's file."""
    text: str
    is_certain: bool
    """The file is certainly meant and defines all that can be imported from it."""


def _broken_imports(after: Mapping[str, str], before: Mapping[str, str]) -> list[Problem]:
    """Return new imports of names that a module of the project does not define.

    Soft unless the name was defined before or can't come from elsewhere: packages may have modules that were not
    shown, and a module of the same name may be installed.
    """
    dangling = _dangling_imports(after)
    previous = _dangling_imports(before) if dangling else {}
    problems = []
    for key, item in dangling.items():
        if key in previous:
            continue
        is_lost = item.source in before and item.name in _importable_names(before[item.source])
        if is_lost or item.is_certain:
            problems.append(Problem(item.text))
        elif item.source.endswith("__init__.py"):
            others = (text for path, text in after.items() if path not in (item.source, key[0]))
            is_elsewhere = any(item.name in _importable_names(text) for text in others)
            problems.append(Problem(item.text, soft=not is_elsewhere))
    return problems


def _dangling_imports(files: Mapping[str, str]) -> dict[tuple[str, str, str], _DanglingImport]:
    """Return the dangling imports by importing file, module and name."""
    python_files = {path: text for path, text in files.items() if path.endswith(".py")}
    importable = {path: _importable_names(text) for path, text in python_files.items()}
    found = {}
    for path, text in python_files.items():
        for relative, name, line in imported_names(text):
            source = resolve_module(relative, path, files)
            if not source or name in importable[source] or {"*", "__getattr__"} & importable[source]:
                continue
            if name == "*" or parse_module(files[source]) is None or "globals()" in files[source]:
                continue
            if resolve_module(relative + (f".{name}" if relative.strip(".") else name), path, files):
                continue
            module = _absolute_module(relative, path)
            is_certain = module_name(source) == module and not source.endswith("__init__.py")
            message = f"{path} line {line} imports {name} from {module}, which does not define it"
            found[path, module, name] = _DanglingImport(name, source, message, is_certain)
    return found


def _importable_names(text: str) -> set[str]:
    """Return all names that can be imported from a Python file."""
    tree = parse_module(text)
    names: set[str] = set()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, Definition):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(item.asname or item.name).partition(".")[0] for item in node.names}
            names |= {item.name for item in node.names if isinstance(node, ast.ImportFrom)}
    return names


def _absolute_module(module: str, path: str) -> str:
    """Return the absolute name of a module imported in a file."""
    level = len(module) - len(module.lstrip("."))
    package = path.split("/")[:-level] if level else []
    return ".".join(filter(None, [*package, module[level:]]))


# --- data files ---------------------------------------------------------------------------------

DATA_SUFFIXES = (".json", ".toml", ".ini", ".cfg", ".yaml", ".yml")
KeyPath = tuple[str, ...]


def wrong_sections(request: str, before: Mapping[str, str], changed: Mapping[str, str]) -> list[str]:
    """Return a sentence for each changed value if the request names another section that has the same key.

    `before`, `changed`: path → content. Unreadable files are skipped.
    """
    clauses = _RE.clause_break.split(request_prose(request))
    wanted = " ".join(clause for clause in clauses if clause and not _RE.keeps_value.search(clause))
    return [
        f"{path}: {'.'.join(key)} must stay {json.dumps(old[key], default=str)}"
        for path, key, old, new in _changed_values(before, changed)
        if key in new and _is_other_section(key, old, wanted)
    ]


def unnamed_values(request: str, before: Mapping[str, str], changed: Mapping[str, str]) -> list[str]:
    """Return a sentence for each changed or removed value that the request does not name, if all others must stay."""
    prose = request_prose(request)
    if not _RE.everything_else.search(prose):
        return []
    found = []
    for path, key, old, new in _changed_values(before, changed):
        is_list_item = any(part.isdigit() for part in key)  # it may only have moved
        words = (word for part in (*key, str(new.get(key))) for word in (part, *_split_name(part)))
        if not is_list_item and not any(_mentions(prose, word) for word in words):
            found.append(f"{path}: {'.'.join(key)} was {json.dumps(old[key], default=str)}, and is not to change")
    return found


def _changed_values(
    before: Mapping[str, str], changed: Mapping[str, str]
) -> Iterator[tuple[str, KeyPath, Mapping[KeyPath, Any], Mapping[KeyPath, Any]]]:
    """Yield path and key of each value that is no longer the same, with the old and the new values of its file."""
    for path, text in changed.items():
        if path.endswith(DATA_SUFFIXES) and path in before:
            old, new = values(path, before[path]), values(path, text)
            for key in old if new else ():
                if new.get(key) != old[key]:
                    yield path, key, old, new


def _is_other_section(key: KeyPath, keys: Iterable[KeyPath], wanted: str) -> bool:
    """Whether the text mentions another section with the same key, and not this one."""
    others = (other for other in keys if other[-1] == key[-1] and other != key)
    named = [other for other in others if any(_mentions(wanted, part) for part in other[:-1] if part not in key)]
    own = {part for part in key[:-1] if _mentions(wanted, part)}
    return bool(named) and not own - {part for other in named for part in other}


def _split_name(name: str) -> list[str]:
    return [word for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name) if len(word) > 2]


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None


def values(path: str, text: str) -> dict[KeyPath, Any]:
    """Return the values of a data file by their key path; empty if it is unreadable."""
    try:
        return dict(_leaves(parse_data(path, text), ()))
    except UnreadableData:
        return {}


def _leaves(value: Any, key: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None or len(key) > 50:
        yield key, value
        return
    for name, item in items:
        yield from _leaves(item, (*key, str(name)))
