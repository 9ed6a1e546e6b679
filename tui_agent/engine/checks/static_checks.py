"""What can be told of changed files without running anything: they parse, nothing got lost or is missing (E2, E4).

Each problem is a sentence for the model. Every check was chosen so that it is silent for right work.
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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from tui_agent.engine.checks.name_checks import Problem, is_test, missing_names, resolve_module
from tui_agent.engine.checks.renames import unfinished_renames, wanted_renames
from tui_agent.engine.checks.request_reading import RequestReading, mentions_any, removable_names, request_prose
from tui_agent.engine.checks.request_scope import protected_files, test_change_rule, wanted_tests
from tui_agent.protocols.data_files import UnreadableData, parse_data, yaml_error
from tui_agent.protocols.python_source import (
    code_only,
    defined_names,
    imported_names,
    module_name,
    parse_module,
    with_imports,
)
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "static")

NOTHING = "nothing changed"
_PROSE = ("docstring", "comment", "document", "explain", "format", "style", "typo", "spell", "type hint")
"""What a request speaks of that changes no code."""
_COMMENTED = (".py", ".toml", ".yaml", ".yml", ".sh", ".cfg", ".ini")
_COMPARED = 1_500
"""Lines of a change that are compared at most."""


def find_problems(
    request: RequestReading,
    before: Mapping[str, str],
    changed: Mapping[str, str],
    protected: Collection[str] | None = None,
) -> list[Problem]:
    """What is wrong with the files `changed` (path → new content) of the project `before`, as far as it was shown.

    `protected`: files that must not change, where the caller knows them.
    """
    if not changed or not _changes_anything(request.text, before, changed):
        return [Problem(NOTHING)]
    after = {**before, **changed}
    renamed = frozenset(one.old for one in (_quiet(lambda: wanted_renames(request.text, before)) or []))
    found: list[Problem] = []
    for name, text in changed.items():
        found += _of_file(name, before.get(name), text, request, renamed)
    if protected is None:
        protected = protected_files(request.text, before)
    found += _quiet(lambda: missing_names(request, before, after, protected)) or []
    for one in _quiet(lambda: unfinished_renames(request, before, after)) or []:
        if all(one.text != other.text for other in found):
            found.append(one)
    found += _quiet(lambda: _too_few_tests(request.text, before, changed)) or []
    found += [Problem(one) for one in _quiet(lambda: wrong_sections(request.text, before, changed)) or []]
    found += [Problem(one, soft=True) for one in _quiet(lambda: unnamed_values(request.text, before, changed)) or []]
    return found + _broken_imports(after, before)


def _too_few_tests(request: str, before: Mapping[str, str], changed: Mapping[str, str]) -> list[Problem]:
    """Fewer tests than the request asks for. Where it does not say what a test is, an assertion is one, too."""
    wanted, functions = wanted_tests(request)
    tests = {name: text for name, text in changed.items() if is_test(name)}
    if not wanted or not tests:
        return []
    found = sum(_count_tests(text) - _count_tests(before.get(name, "")) for name, text in tests.items())
    if found >= wanted or any("parametrize" in text or "subTest" in text for text in tests.values()):
        return []
    if not functions and sum(len(re.findall(r"\bassert", text)) for text in tests.values()) >= wanted:
        return []
    name = ", ".join(tests)
    return [Problem(f"{name} has {found} new test functions, and at least {wanted} are wanted")]


def _count_tests(text: str) -> int:
    return len(re.findall(r"^[ \t]*(?:async )?def test", text, re.MULTILINE))


_FILLING = frozenset(("append", "add", "update", "extend", "insert", "setdefault"))


def lint_hints(files: Mapping[str, str]) -> list[str]:
    """What a linter would find in files as they are that is a fault most of the time."""
    found = []
    for name, text in files.items():
        if not name.endswith(".py"):
            continue
        tree = _quiet(functools.partial(parse_module, text))
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                every = [*node.args.defaults, *node.args.kw_defaults]
                if any(isinstance(one, ast.List | ast.Dict | ast.Set) for one in every):
                    what = f"the default value of {node.name}() is mutable, so all calls share it"
                    found.append(f"{name} line {node.lineno}: {what}")
            elif isinstance(node, ast.ClassDef):
                found += [f"{name} line {line}: {what}" for line, what in _shared(node)]
        found += [f"{name}: {one}" for one in _flakes(text) if one.endswith("is not defined")]
    return found


def _shared(node: ast.ClassDef) -> list[tuple[int, str]]:
    """Lists, dicts and sets of a class that its methods fill: all instances have the same one."""
    filled = {
        each.value.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Subscript | ast.Attribute)
        and isinstance(each.value, ast.Attribute)
        and isinstance(each.value.value, ast.Name)
        and each.value.value.id == "self"
        and (isinstance(each.ctx, ast.Store) or getattr(each, "attr", "") in _FILLING)
    }
    return [
        (one.lineno, f"{target.id} of the class {node.name} is one object that all instances share")
        for one in node.body
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.List | ast.Dict | ast.Set)
        for target in one.targets
        if isinstance(target, ast.Name) and target.id in filled
    ]


def with_fixed_imports(text: str, old: str | None) -> str:
    """A Python file with the imports that it plainly lacks, without those that its change left unused."""
    found = _flakes(text)
    was = set(_flakes(old)) if old is not None else set()
    for one in found:
        if one.startswith("the import") and one not in was and old is not None:
            module = re.escape(one.split()[2])
            text = re.sub(rf"^import {module}[ \t]*\n", "", text, count=1, flags=re.MULTILINE)
    undefined = [one.split()[2] for one in found if one.endswith("is not defined")]
    standard = [f"import {name}" for name in undefined if name in sys.stdlib_module_names]
    return _quiet(lambda: with_imports(text, standard)) or text


_Result = TypeVar("_Result")


def _quiet(find: Callable[[], _Result]) -> _Result | None:
    """What is found; None where a text is beyond what Python's own parser can take."""
    try:
        return find()
    except (RecursionError, ValueError, MemoryError, SyntaxError):
        return None


def _changes_anything(request: str, before: Mapping[str, str], changed: Mapping[str, str]) -> bool:
    if mentions_any(request, _PROSE):
        return True
    return any(
        not name.endswith(".py") or name not in before or not _same_code(before[name], text)
        for name, text in changed.items()
    )


def _same_code(old: str, text: str) -> bool:
    same = _quiet(lambda: code_only(old) == code_only(text))
    return old == text if same is None else same


def _of_file(name: str, old: str | None, text: str, request: RequestReading, renamed: frozenset[str]) -> list[Problem]:
    fault = syntax_error(name, text)
    if fault:
        return _unreadable(name, old, text, request, fault)
    found = []
    if name.endswith(".py"):
        was = _flakes(old) if old is not None else ()
        now = _flakes(text)
        for one in now:
            unused = one.startswith("the import")
            if unused and _unused(now) <= _unused(was):
                continue  # a name that was imported for others has another name now
            if one not in was and not (unused and name.endswith("__init__.py")):
                found.append(Problem(f"{name}: {one}", soft=not one.endswith("is not defined")))
        if old is not None:
            found += _quiet(lambda: _lost(name, old, text, request.text, renamed)) or []
    if old is not None and name.endswith(_COMMENTED) and not mentions_any(request.text, ("comment",)):
        found += _lost_comments(name, old, text)
    if old is not None and is_test(name):
        found += _test_change(name, old, text, request, bool(renamed))
    return found


def _unreadable(name: str, old: str | None, text: str, request: RequestReading, fault: str) -> list[Problem]:
    """A file that can't be read, unless it was so before and nothing asks for its repair."""
    was = syntax_error(name, old) if old is not None else ""
    found = [Problem(f"{name} has an error: {fault}")]
    if not was or old is None or _RE.unreadable.search(request_prose(request.text)):
        return found
    if name.endswith(".json"):
        if _json_error(_without_comments(old)):
            return []
        fault = _json_error(_without_comments(text))
        return [Problem(f"{name} has an error: {fault}")] if fault else []
    if name.endswith(".py") and _RE.repair.search(request_prose(request.text)):
        return found
    same = re.sub(r"\d+", "", was) == re.sub(r"\d+", "", fault)
    return [] if same or not name.endswith(".py") else [Problem(found[0].text, soft=True)]


def _test_change(name: str, old: str, text: str, request: RequestReading, renames: bool) -> list[Problem]:
    """A test that demands other things than before, where the request is no reason for that."""
    taken = test_change_rule(request.text, renames=renames)
    if taken == "free":
        return []
    kept = _only_adds(old, text)
    if kept and taken == "soft" and _quiet(lambda: _new_tests_only(old, text)):
        return []
    named = any(name == path or name.endswith(f"/{path}") for path in request.paths)
    if taken == "soft" and named and all(is_test(path) for path in request.paths):
        return []  # it is the one file that the request is about, and no test of it is said to fail
    return [Problem(f"{name} must stay as it is", soft=taken == "soft" or kept)]


def _only_adds(old: str, text: str) -> bool:
    """Whether all lines of a test are still there in their order, imports aside, and none makes it demand less."""
    lines = (line.strip() for line in text.splitlines())
    added: list[str] = []
    for line in (line.strip() for line in old.splitlines()):
        if not line or re.match(r"(?:import|from)\b", line):
            continue
        for each in lines:
            if each == line:
                break
            added.append(each)
        else:
            return False
    added += lines
    return not any(_RE.evading.search(line) for line in added)


def _new_tests_only(old: str, text: str) -> bool:
    was = defined_names(old)
    return all("test" in one.lower() for one in defined_names(text) if one not in was)


def _unused(flakes: Iterable[str]) -> int:
    return sum(one.startswith("the import") for one in flakes)


def syntax_error(name: str, text: str) -> str:
    """Why a file can't be read as what it is by its name; empty where it can, or where that is not known."""
    text = text.removeprefix("\ufeff")
    try:
        if name.endswith(".py"):
            ast.parse(text)
        elif name.endswith(".json"):
            may_comment = _RE.commented_json.search(name) is not None
            return _json_error(_without_comments(text) if may_comment else text)
        elif name.endswith(".toml"):
            tomllib.loads(text)
        elif name.endswith((".yaml", ".yml")):
            return yaml_error(text)[:200]
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (RecursionError, MemoryError):
        return ""
    except ValueError as error:
        return str(error)[:200]
    return ""


def _json_error(text: str) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        return str(error)[:200]
    except (RecursionError, MemoryError):
        return ""
    return ""


def _without_comments(text: str) -> str:
    """JSON without the comments and last commas that some programs allow in it; lines stay where they are."""
    bare = _RE.json_part.sub(lambda one: one[0] if one[0][0] == '"' else "\n" * one[0].count("\n"), text)
    return _RE.json_comma.sub(lambda one: one[0] if one[0][0] == '"' else one[0][1:], bare)


def _lost(name: str, old: str, text: str, request: str, renamed: frozenset[str]) -> list[Problem]:
    """Definitions and parameters that are gone though the request does not name them."""
    words = removable_names(request) | renamed
    reshapes = _RE.reshaping.search(request_prose(request)) is not None
    now = defined_names(text)
    found = []
    for one, parameters in defined_names(old).items():
        last = one.rpartition(".")[2]
        if one not in now:
            if last not in words and not any(one.startswith(f"{word}.") for word in words):
                special = last.startswith("__") and last.endswith("__")
                assigned = parameters is None and not _is_class(old, one)
                found.append(Problem(f"{name}: {one} is gone", soft=reshapes or special or assigned))
        else:
            given = now[one]
            if parameters and given is not None and len(given) < len(parameters):
                lost = ", ".join(each for each in parameters if each not in given)
                found.append(Problem(f"{name}: {one}() must keep its parameter {lost}", soft=True))
    return found


def _is_class(text: str, name: str) -> bool:
    return re.search(rf"^[ \t]*class {re.escape(name.rpartition('.')[2])}\b", text, re.MULTILINE) is not None


def _lost_comments(name: str, old: str, text: str) -> list[Problem]:
    before, now = _changed_lines(old.splitlines(), text.splitlines())
    if max(len(before), len(now)) > _COMPARED or not any("#" in line for line in before):
        return []
    found = []
    for tag, first, last, *_ in difflib.SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        for line in before[first:last] if tag == "replace" else ():
            comment = re.search(r"\s#\s*(\S.*)$", line)
            if comment and comment.group(1) not in text and (not name.endswith(".py") or _commented(line)):
                found.append(Problem(f"{name}: the comment “# {comment.group(1)}” is gone", soft=True))
    return found


def _changed_lines(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """The lines between the first and the last that differ."""
    first = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    old, new = old[first:], new[first:]
    tail = zip(reversed(old), reversed(new), strict=False)
    last = next((n for n, (a, b) in enumerate(tail) if a != b), min(len(old), len(new)))
    return old[: len(old) - last], new[: len(new) - last]


def _commented(line: str) -> bool:
    """Whether a line of Python really ends in a comment, and not in a text with that sign."""
    try:
        return any(
            token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline)
        )
    except (tokenize.TokenError, SyntaxError):
        return True


class _Import(msgspec.Struct, frozen=True):
    """An import of a name that the module does not seem to define."""

    text: str
    source: str
    """The module's file."""
    certain: bool
    """The file is surely meant, and has all that can be imported from it."""


def _broken_imports(after: Mapping[str, str], before: Mapping[str, str]) -> list[Problem]:
    """Imports of a name that a module of the project does not define, where it was not so before.

    Hard where the name was defined before the change, or can't come from elsewhere: a package has modules that are not
    shown, and a module of the same name may be an installed one.
    """
    now = _quiet(lambda: _dangling(after)) or {}
    was = (_quiet(lambda: _dangling(before)) or {}) if now else {}
    found = []
    for key, one in now.items():
        if key in was:
            continue
        lost = one.source in before and key[2] in _defined(before[one.source])
        if lost or one.certain or one.source.endswith("__init__.py"):
            elsewhere = any(
                key[2] in _defined(text) for name, text in after.items() if name not in (one.source, key[0])
            )
            found.append(Problem(one.text, soft=not (lost or one.certain or elsewhere)))
    return found


def _dangling(files: Mapping[str, str]) -> dict[tuple[str, str, str], _Import]:
    defined = {name: _defined(text) for name, text in files.items() if name.endswith(".py")}
    found = {}
    for name, text in files.items():
        for given, wanted, line in imported_names(text) if name.endswith(".py") else ():
            source = resolve_module(given, name, files)
            if not source or wanted in defined[source] or {"*", "__getattr__"} & defined[source]:
                continue
            if wanted == "*" or parse_module(files[source]) is None or "globals()" in files[source]:
                continue
            inner = f".{wanted}" if given.strip(".") else wanted
            if resolve_module(given + inner, name, files):
                continue
            module = _absolute(given, name)
            certain = module_name(source) == module and not source.endswith("__init__.py")
            text_ = f"{name} line {line} imports {wanted} from {module}, which does not define it"
            found[name, module, wanted] = _Import(text_, source, certain)
    return found


def _defined(text: str) -> set[str]:
    """All that can be imported from a Python file."""
    return {*defined_names(text), *(one for _, one, _ in imported_names(text)), *_plain(text)}


def _plain(text: str) -> Iterable[str]:
    """Names that a module gets by `import`, and by assignments anywhere in it."""
    tree = parse_module(text)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            yield from ((one.asname or one.name).partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (one.asname or one.name for one in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _absolute(module: str, name: str) -> str:
    level = len(module) - len(module.lstrip("."))
    if not level:
        return module
    package = name.split("/")[:-level]
    return ".".join([*package, *filter(None, [module[level:]])])


@functools.lru_cache(maxsize=16)
def _flakes(text: str) -> tuple[str, ...]:
    """What pyflakes finds that a change should not bring: undefined names, unused imports, replaced definitions."""
    return tuple(_quiet(lambda: _flaked(text)) or [])


def _flaked(text: str) -> list[str]:
    tree = parse_module(text)
    if tree is None:
        return []
    from pyflakes import checker, messages

    found = []
    for one in checker.Checker(tree, filename="file").messages:
        given = one.message_args
        if isinstance(one, messages.UndefinedName | messages.UndefinedLocal):
            found.append(f"the name {given[0]} is not defined")
        elif isinstance(one, messages.UnusedImport):
            found.append(f"the import {given[0]} is not used")
        elif isinstance(one, messages.RedefinedWhileUnused):
            found.append(f"{given[0]} is defined twice")
    return found


DATA = (".json", ".toml", ".ini", ".cfg", ".yaml", ".yml")
Path = tuple[str, ...]


def wrong_sections(request: str, before: Mapping[str, str], changed: Mapping[str, str]) -> list[str]:
    """A sentence for each value that changed although the request names another section that has the same key.

    `before`, `changed`: path → content. Files that can't be parsed are passed over.
    """
    clauses = [one for one in _RE.clauses.split(request_prose(request)) if one]
    doing = " ".join(one for one in clauses if not _RE.staying.search(one))
    found = []
    for name, text in changed.items():
        if name.endswith(DATA) and name in before:
            old, new = values(name, before[name]), values(name, text)
            found += [
                f"{name}: {'.'.join(path)} must stay {json.dumps(old[path], default=str)}"
                for path in old
                if path in new and old[path] != new[path] and _is_elsewhere(path, old, doing)
            ]
    return found


def unnamed_values(request: str, before: Mapping[str, str], changed: Mapping[str, str]) -> list[str]:
    """A sentence for each value that changed or went where everything but what the request names is to stay."""
    text = request_prose(request)
    found = []
    for name, content in changed.items() if _RE.rest.search(text) else ():
        if name.endswith(DATA) and name in before:
            old, new = values(name, before[name]), values(name, content)
            for path, was in old.items() if new else ():
                now = new.get(path)
                if now == was or any(part.isdigit() for part in path):
                    continue  # what stands in a list may have moved
                if any(_speaks_of(text, word) for part in (*path, str(now)) for word in (part, *_words(part))):
                    continue
                found.append(f"{name}: {'.'.join(path)} was {json.dumps(was, default=str)}, and is not to change")
    return found


def _is_elsewhere(path: Path, values: Mapping[Path, Any], doing: str) -> bool:
    """Whether the words name a section with the same key as this one's, and not this one's."""
    same = [other for other in values if other[-1] == path[-1] and other != path]
    own = {part for part in path[:-1] if _speaks_of(doing, part)}
    named = [other for other in same if any(_speaks_of(doing, part) for part in other[:-1] if part not in path)]
    return bool(named) and not own - {part for other in named for part in other}


def _words(key: str) -> list[str]:
    return [one for one in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", key) if len(one) > 2]


def _speaks_of(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None


def values(name: str, text: str) -> dict[Path, Any]:
    """The single values of a settings file by their keys from the top; empty where it can't be read."""
    try:
        return dict(_leaves(parse_data(name, text), ()))
    except UnreadableData:
        return {}


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None or len(path) > 50:
        yield path, value
        return
    for key, each in inner:
        yield from _leaves(each, (*path, str(key)))
