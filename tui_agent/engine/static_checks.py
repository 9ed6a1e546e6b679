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
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from tui_agent.engine.files_left_alone import files_left_alone
from tui_agent.engine.name_checks import file_of, is_test, missing, prose
from tui_agent.engine.rename_checks import unfinished, wanted_renames
from tui_agent.engine.request_reading import Reading, names_to_go, speaks_of
from tui_agent.engine.value_checks import unnamed_values, wrong_sections
from tui_agent.engine.words_on_tests import only_tests, rule, wanted_tests
from tui_agent.protocols.python_source import code_only, definitions, imported, parsed, with_imports

NOTHING = "nothing changed"
_PROSE = ("docstring", "comment", "document", "explain", "format", "style", "typo", "spell", "type hint")
"""What a request speaks of that changes no code."""
_COMMENTED = (".py", ".toml", ".yaml", ".yml", ".sh", ".cfg", ".ini")
_RESHAPING = re.compile(
    r"\b(?:convert|turn|refactor|restructur|rewrit|rework|simplif|clean|tid(?:y|ied)|merg|combin|inlin|consolidat|unif"
    r"|collapse|dedup|duplicat|dead code|unused|replac|remov|delet|drop|split|extract|mov(?:e|es|ed|ing)\b|migrat"
    r"|port\b|private|public|naming|names\b|\w+_case\b|camelcase|pascalcase|pep ?8|rid of|use\b[^.]{0,80}\binstead)",
    re.IGNORECASE,
)
"""What a request does by which a definition that it does not name may vanish."""
_UNREADABLE = re.compile(
    r"syntax|pars(?:e|es|ing|er)\b|\b(?:in)?valid\b|malform|indent|\bbroken\b|\bload|\bread\b|comma\b|bracket"
    r"|quot(?:e|es)\b|paren|brace|colon\b|decode|compil|\bimport",
    re.IGNORECASE,
)
"""What a request for the repair of a file says that can't be read."""
_REPAIR = re.compile(r"\b(?:fix|repair|mend|error|crash|fail|bug|run|start|work)", re.IGNORECASE)
_COMMENTED_JSON = re.compile(
    r"(?:^|/)(?:tsconfig[^/]*|jsconfig[^/]*|\.vscode/[^/]*|\.devcontainer/[^/]*|devcontainer|\.eslintrc|\.swcrc)\.json$"
)
"""Files whose programs allow comments in them."""
_JSON_PART = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/')
_JSON_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')
_EVADING = re.compile(r"\b(?:skip|xfail|expectedFailure|patch|mock|return|exit|monkeypatch)", re.IGNORECASE)
"""What a line of a test has that makes it demand less."""
_COMPARED = 1_500
"""Lines of a change that are compared at most."""


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
    renamed = frozenset(one.old for one in (_quiet(lambda: wanted_renames(request.text, before)) or []))
    found: list[Problem] = []
    for name, text in changed.items():
        found += _of_file(name, before.get(name), text, request, renamed)
    left_alone = files_left_alone(request.text, before)
    for sentence, soft in _quiet(lambda: missing(request, before, after, left_alone)) or []:
        found.append(Problem(sentence, soft))
    for sentence, soft in _quiet(lambda: unfinished(request, before, after)) or []:
        if all(one.text != sentence for one in found):
            found.append(Problem(sentence, soft))
    found += _quiet(lambda: _too_few_tests(request.text, before, changed)) or []
    found += [Problem(one) for one in _quiet(lambda: wrong_sections(request.text, before, changed)) or []]
    found += [
        Problem(one, soft=True) for one in _quiet(lambda: unnamed_values(request.text, before, changed)) or []
    ]
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


def about_tests_only(text: str) -> bool:
    """Whether a request wants new tests, or a test to be changed, and nothing else: the rest of the code stays.

    A test that fails is no such request: what it tests has to be mended.
    """
    return only_tests(text)


_FILLING = frozenset(("append", "add", "update", "extend", "insert", "setdefault"))


def hints(files: Mapping[str, str]) -> list[str]:
    """What a linter would find in files as they are that is a fault most of the time."""
    found = []
    for name, text in files.items():
        if not name.endswith(".py"):
            continue
        tree = _quiet(functools.partial(parsed, text))
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


def mended(text: str, old: str | None) -> str:
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
    if speaks_of(request, _PROSE):
        return True
    return any(
        not name.endswith(".py") or name not in before or not _same_code(before[name], text)
        for name, text in changed.items()
    )


def _same_code(old: str, text: str) -> bool:
    same = _quiet(lambda: code_only(old) == code_only(text))
    return old == text if same is None else same


def _of_file(
    name: str, old: str | None, text: str, request: Reading, renamed: frozenset[str]
) -> list[Problem]:
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
    if old is not None and name.endswith(_COMMENTED) and not speaks_of(request.text, ("comment",)):
        found += _lost_comments(name, old, text)
    if old is not None and is_test(name):
        found += _test_change(name, old, text, request, bool(renamed))
    return found


def _unreadable(name: str, old: str | None, text: str, request: Reading, fault: str) -> list[Problem]:
    """A file that can't be read, unless it was so before and nothing asks for its repair."""
    was = syntax_error(name, old) if old is not None else ""
    found = [Problem(f"{name} has an error: {fault}")]
    if not was or old is None or _UNREADABLE.search(prose(request.text)):
        return found
    if name.endswith(".json"):
        if _json_error(_without_comments(old)):
            return []
        fault = _json_error(_without_comments(text))
        return [Problem(f"{name} has an error: {fault}")] if fault else []
    if name.endswith(".py") and _REPAIR.search(prose(request.text)):
        return found
    same = re.sub(r"\d+", "", was) == re.sub(r"\d+", "", fault)
    return [] if same or not name.endswith(".py") else [Problem(found[0].text, soft=True)]


def _test_change(name: str, old: str, text: str, request: Reading, renames: bool) -> list[Problem]:
    """A test that demands other things than before, where the request is no reason for that."""
    taken = rule(request.text, renames=renames)
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
    return not any(_EVADING.search(line) for line in added)


def _new_tests_only(old: str, text: str) -> bool:
    was = definitions(old)
    return all("test" in one.lower() for one in definitions(text) if one not in was)


def _unused(flakes: Iterable[str]) -> int:
    return sum(one.startswith("the import") for one in flakes)


def syntax_error(name: str, text: str) -> str:
    """Why a file can't be read as what it is by its name; empty where it can, or where that is not known."""
    text = text.removeprefix("\ufeff")
    try:
        if name.endswith(".py"):
            ast.parse(text)
        elif name.endswith(".json"):
            may_comment = _COMMENTED_JSON.search(name) is not None
            return _json_error(_without_comments(text) if may_comment else text)
        elif name.endswith(".toml"):
            tomllib.loads(text)
        elif name.endswith((".yaml", ".yml")):
            import yaml

            for _ in yaml.compose_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
                pass  # tags of a program's own are no errors: they are not looked at
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (RecursionError, MemoryError):
        return ""
    except ValueError as error:
        return str(error)[:200]
    except Exception as error:  # yaml's own
        if type(error).__module__.startswith("yaml"):
            return str(error)[:200]
        raise
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
    bare = _JSON_PART.sub(lambda one: one[0] if one[0][0] == '"' else "\n" * one[0].count("\n"), text)
    return _JSON_COMMA.sub(lambda one: one[0] if one[0][0] == '"' else one[0][1:], bare)


def _lost(name: str, old: str, text: str, request: str, renamed: frozenset[str]) -> list[Problem]:
    """Definitions and parameters that are gone though the request does not name them."""
    words = names_to_go(request) | renamed
    reshapes = _RESHAPING.search(prose(request)) is not None
    now = definitions(text)
    found = []
    for one, parameters in definitions(old).items():
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
    first = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    old, new = old[first:], new[first:]
    tail = zip(reversed(old), reversed(new), strict=False)
    last = next((n for n, (a, b) in enumerate(tail) if a != b), min(len(old), len(new)))
    return old[: len(old) - last], new[: len(new) - last]


def _commented(line: str) -> bool:
    """Whether a line of Python really ends in a comment, and not in a text with that sign."""
    try:
        return any(
            token.type == tokenize.COMMENT
            for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline)
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
        for given, wanted, line in imported(text) if name.endswith(".py") else ():
            source = file_of(given, name, files)
            if not source or wanted in defined[source] or {"*", "__getattr__"} & defined[source]:
                continue
            if wanted == "*" or parsed(files[source]) is None or "globals()" in files[source]:
                continue
            inner = f".{wanted}" if given.strip(".") else wanted
            if file_of(given + inner, name, files):
                continue
            module = _absolute(given, name)
            certain = _module(source) == module and not source.endswith("__init__.py")
            text_ = f"{name} line {line} imports {wanted} from {module}, which does not define it"
            found[name, module, wanted] = _Import(text_, source, certain)
    return found


def _defined(text: str) -> set[str]:
    """All that can be imported from a Python file."""
    return {*definitions(text), *(one for _, one, _ in imported(text)), *_plain(text)}


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


@functools.lru_cache(maxsize=16)
def _flakes(text: str) -> tuple[str, ...]:
    """What pyflakes finds that a change should not bring: undefined names, unused imports, replaced definitions."""
    return tuple(_quiet(lambda: _flaked(text)) or [])


def _flaked(text: str) -> list[str]:
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
