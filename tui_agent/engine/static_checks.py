"""What can be told of changed files without running anything: they parse, nothing got lost or is missing (E2, E4).

Each problem is a sentence for the model. Every check was chosen so that it is silent for right work.
"""

from __future__ import annotations

import ast
import difflib
import io
import json
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Mapping

import msgspec

from tui_agent.engine.request_reading import Reading, names_to_go, speaks_of
from tui_agent.protocols.python_source import code_only, definitions, imported, parsed, with_imports

NOTHING = "nothing changed"
_PROSE = ("docstring", "comment", "document", "explain", "format", "style", "typo", "spell", "type hint")
"""What a request speaks of that changes no code."""
_COMMENTED = (".py", ".toml", ".yaml", ".yml", ".sh", ".cfg", ".ini")
_NEW_TESTS = re.compile(
    r"\b(?:write|add|create|extend|update|adapt|change|improve|correct)\b[^.]{0,60}\btests?\b", re.IGNORECASE
)
_TEST = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")


class Problem(msgspec.Struct, frozen=True):
    """Something that is wrong with a change."""

    text: str
    soft: bool = False
    """It may be meant so: after a second try that has it too, it is accepted."""


def problems(request: Reading, before: Mapping[str, str], changed: Mapping[str, str]) -> list[Problem]:
    """What is wrong with the files `changed` (path → new content) of the project `before`, as far as it was shown."""
    if not changed or not _changes_anything(request.text, before, changed):
        return [Problem(NOTHING)]
    after = {**before, **changed}
    found: list[Problem] = []
    for name, text in changed.items():
        found += _of_file(name, before.get(name), text, request)
    found += _missing_names(request, before, after)
    found += _broken_imports(after, before)
    return found


def hints(files: Mapping[str, str]) -> list[str]:
    """What a linter would find in files as they are that is a fault most of the time."""
    found = []
    for name, text in files.items():
        if not name.endswith(".py"):
            continue
        tree = parsed(text)
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                every = [*node.args.defaults, *node.args.kw_defaults]
                if any(isinstance(one, ast.List | ast.Dict | ast.Set) for one in every):
                    what = f"the default value of {node.name}() is mutable, so all calls share it"
                    found.append(f"{name} line {node.lineno}: {what}")
        found += [f"{name}: {one}" for one in _flakes(text) if one.endswith("is not defined")]
    return found


def is_test(name: str) -> bool:
    """Whether a Python file holds tests, by its name."""
    return _TEST.search(name) is not None


def mended(text: str, old: str | None) -> str:
    """A Python file with the imports that it plainly lacks, without those that its change left unused."""
    found = _flakes(text)
    was = set(_flakes(old)) if old is not None else set()
    for one in found:
        if one.startswith("the import") and one not in was and old is not None:
            module = re.escape(one.split()[2])
            text = re.sub(rf"^import {module}[ \t]*\n", "", text, count=1, flags=re.MULTILINE)
    missing = [one.split()[2] for one in found if one.endswith("is not defined")]
    standard = [f"import {name}" for name in missing if name in sys.stdlib_module_names]
    return with_imports(text, standard)


def _changes_anything(request: str, before: Mapping[str, str], changed: Mapping[str, str]) -> bool:
    if speaks_of(request, _PROSE):
        return True
    return any(
        not name.endswith(".py") or name not in before or code_only(before[name]) != code_only(text)
        for name, text in changed.items()
    )


def _of_file(name: str, old: str | None, text: str, request: Reading) -> list[Problem]:
    fault = syntax_error(name, text)
    if fault:
        return [Problem(f"{name} has an error: {fault}")]
    found = []
    if name.endswith(".py"):
        was = _flakes(old) if old is not None else []
        now = _flakes(text)
        for one in now:
            unused = one.startswith("the import")
            if unused and _unused(now) <= _unused(was):
                continue  # a name that was imported for others has another name now
            if one not in was and not (unused and name.endswith("__init__.py")):
                found.append(Problem(f"{name}: {one}", soft=not one.endswith("is not defined")))
        if old is not None:
            found += _lost(name, old, text, request.text)
    if old is not None and name.endswith(_COMMENTED):
        found += _lost_comments(name, old, text)
    if old is not None and is_test(name) and not _may_change_tests(request.text):
        fails = re.search(r"\b(?:fail|pass)", request.text, re.IGNORECASE)
        found.append(Problem(f"{name} must stay as it is", soft=fails is None))
    return found


def _may_change_tests(request: str) -> bool:
    """Whether a request speaks of other tests, or of something that tests have to follow, as a new name."""
    return _NEW_TESTS.search(request) is not None or bool(names_to_go(request))


def _unused(flakes: list[str]) -> int:
    return sum(one.startswith("the import") for one in flakes)


def syntax_error(name: str, text: str) -> str:
    """Why a file can't be read as what it is by its name; empty where it can, or where that is not known."""
    try:
        if name.endswith(".py"):
            ast.parse(text)
        elif name.endswith(".json"):
            json.loads(text)
        elif name.endswith(".toml"):
            tomllib.loads(text)
        elif name.endswith((".yaml", ".yml")):
            import yaml

            list(yaml.safe_load_all(text))
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError) as error:
        return str(error)[:200]
    except Exception as error:  # yaml's own
        if type(error).__module__.startswith("yaml"):
            return str(error)[:200]
        raise
    return ""


def _lost(name: str, old: str, text: str, request: str) -> list[Problem]:
    """Definitions and parameters that are gone though the request does not name them."""
    words = names_to_go(request)
    now = definitions(text)
    found = []
    for one, parameters in definitions(old).items():
        if one not in now:
            if one.rpartition(".")[2] not in words and not any(one.startswith(f"{word}.") for word in words):
                found.append(Problem(f"{name}: {one} is gone"))
        else:
            given = now[one]
            if parameters and given is not None and len(given) < len(parameters):
                lost = ", ".join(each for each in parameters if each not in given)
                found.append(Problem(f"{name}: {one}() must keep its parameter {lost}", soft=True))
    return found


def _lost_comments(name: str, old: str, text: str) -> list[Problem]:
    before, now = old.splitlines(), text.splitlines()
    found = []
    for tag, first, last, *_ in difflib.SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        for line in before[first:last] if tag == "replace" else ():
            comment = re.search(r"\s#\s*(\S.*)$", line)
            if comment and comment.group(1) not in text and (not name.endswith(".py") or _commented(line)):
                found.append(Problem(f"{name}: the comment “# {comment.group(1)}” is gone", soft=True))
    return found


def _commented(line: str) -> bool:
    """Whether a line of Python really ends in a comment, and not in a text with that sign."""
    try:
        return any(
            token.type == tokenize.COMMENT
            for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline)
        )
    except (tokenize.TokenError, SyntaxError):
        return True


def _missing_names(request: Reading, before: Mapping[str, str], after: Mapping[str, str]) -> list[Problem]:
    """What the request names and is nowhere, neither before nor now. An attribute counts by its last name."""
    there = "\n".join([*after.values(), *after])
    was = "\n".join([*before.values(), *before])
    found = []
    for name in (*request.names, *request.paths):
        parts = (name, name.rsplit(".", 1)[-1], name.split(".", 1)[0])
        if name not in was and not any(part and part in there for part in parts):
            found.append(Problem(f"{name} is nowhere"))
    return found


def _broken_imports(after: Mapping[str, str], before: Mapping[str, str]) -> list[Problem]:
    """Imports of a name that a module of the project does not define, where it was not so before."""
    now, was = _dangling(after), set(_dangling(before).values())
    return [Problem(text) for text in now.values() if text not in was]


def _dangling(files: Mapping[str, str]) -> dict[tuple[str, str, str], str]:
    modules = {_module(name): name for name in files if name.endswith(".py")}
    defined = {
        module: {
            *definitions(files[name]),
            *(one for _, one, _ in imported(files[name])),
            *_plain(files[name]),
        }
        for module, name in modules.items()
        if parsed(files[name]) is not None
    }
    found = {}
    for name, text in files.items():
        for given, wanted, line in imported(text) if name.endswith(".py") else ():
            module = _absolute(given, name)
            if module in defined and wanted not in defined[module] and wanted != "*":
                if f"{module}.{wanted}" in modules or "*" in defined[module]:
                    continue
                text_ = f"{name} line {line} imports {wanted} from {module}, which does not define it"
                found[name, module, wanted] = text_
    return found


def _plain(text: str) -> Iterable[str]:
    """Names that a module gets by `import`, and by assignments anywhere in it."""
    tree = parsed(text)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            yield from ((one.asname or one.name).partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (one.asname or one.name for one in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def _module(name: str) -> str:
    return name[:-3].replace("/", ".").removesuffix(".__init__")


def _absolute(module: str, name: str) -> str:
    level = len(module) - len(module.lstrip("."))
    if not level:
        return module
    package = name.split("/")[:-level]
    return ".".join([*package, *filter(None, [module[level:]])])


def _flakes(text: str) -> list[str]:
    """What pyflakes finds that a change should not bring: undefined names, unused imports, replaced definitions."""
    tree = parsed(text)
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
