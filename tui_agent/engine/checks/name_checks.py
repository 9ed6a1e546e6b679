"""Whether the names and files that a request asks for exist after a change (E2, E4).

A name is certainly wanted only right after a verb of creation; otherwise a missing one is only a soft problem.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import islice

import msgspec

from tui_agent.engine.checks.request_reading import RequestReading, parse_count, request_prose
from tui_agent.protocols.python_source import defined_names, function_bodies
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "names")


class Problem(msgspec.Struct, frozen=True):
    """Something wrong with a change, as a message for the model."""

    text: str
    soft: bool = False
    """It may be intended; accepted if the next attempt has it too."""


MAX_MOVES = 5
"""Moves of a request that are checked."""


def is_test(path: str) -> bool:
    """Return whether a Python file contains tests, by its name."""
    return _RE.test_file.search(path) is not None


def is_path(text: str) -> bool:
    """Return whether a word is a file path rather than a dotted name."""
    if text in ("Makefile", "Dockerfile"):
        return True
    return "." in text and _suffix(text) in _RE.words("source_endings") | _RE.words("data_endings")


def _suffix(path: str) -> str:
    return path.rpartition(".")[2].lower()


def missing_names(
    request: RequestReading, before: Mapping[str, str], after: Mapping[str, str], protected: Collection[str] = ()
) -> list[Problem]:
    """Return problems for requested names, files, moves and fixes that are missing after a change.

    An attribute may be found by its last name alone. `protected`: files that must not change.
    """
    now = "\n".join([*after.values(), *after])
    previous = "\n".join([*before.values(), *before])
    prose = request_prose(request.text)
    problems = []
    for name in request.names:
        parts = (name, name.rsplit(".", 1)[-1], name.split(".", 1)[0])
        if name in previous or any(part and re.search(rf"(?<![\w]){re.escape(part)}(?!\w)", now) for part in parts):
            continue
        if doubts := list(_name_doubts(prose, name)):
            problems.append(Problem(f"{name} is nowhere", all(doubts)))
    for path in request.paths:
        if not _exists(path, before, after):
            doubts = list(_path_doubts(prose, path))
            if path.rsplit("/", 1)[-1] in "\n".join(after.values()):
                doubts = [doubt for doubt in doubts if not doubt]
            if doubts:
                problems.append(Problem(f"the file {path} is not there", all(doubts)))
    for path in request.paths:
        is_unchanged = path in before and before[path] == after.get(path)
        if is_unchanged and path not in protected and _must_change(prose, path):
            problems.append(Problem(f"{path} has to change, too"))
    return [*problems, *_incomplete_moves(prose, after), *_unfixed_functions(prose, before, after)]


def _unfixed_functions(prose: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[Problem]:
    """Return the unchanged functions if the request mentions a fault of each of several functions."""
    if not _RE.several.search(prose):
        return []
    unchanged: dict[str, list[bool]] = {}
    others: dict[str, bool] = {}
    count = _RE.counted_faults.search(prose)
    faults = rf"(?:{_RE.source('fault_verbs')}|(?:\w+ly )?[a-z]+[^s\W]s)" if count else _RE.source("fault_verbs")
    for path, content in before.items():
        old_bodies = function_bodies(content) if path.endswith(".py") else {}
        new_bodies = function_bodies(after.get(path, "")) if old_bodies else {}
        for name, body in old_bodies.items():
            if re.search(rf"(?<![\w.`'\"]){re.escape(name)}(?:\(\))?\s+(?:{faults})\b", prose):
                unchanged.setdefault(name, []).append(new_bodies.get(name) == body)
            elif name in new_bodies and not re.search(rf"\b{re.escape(name.strip('_'))}\b", prose):
                others[name] = others.get(name, False) or new_bodies[name] != body
    if len(unchanged) < 2:
        return []
    problems = [Problem(f"{name} is still as it was") for name, same in unchanged.items() if all(same)]
    if not problems and count and len(unchanged) == parse_count(count["number"]):
        changed = [name for name, has_changed in others.items() if has_changed]
        problems = [Problem(f"{name} works, and must stay as it is", soft=True) for name in changed]
    return problems


def _must_change(prose: str, path: str) -> bool:
    """Whether the request explicitly and unconditionally says that a file must change."""
    verbs = _RE.source("edit_verbs")
    clause = re.search(rf"\b(?:{verbs})\s+(?:also\s+|the\s+)?[`'\"]?{re.escape(path)}\b[^.;!?]*", prose, re.IGNORECASE)
    return clause is not None and re.search(r"\b(?:if|where|when|unless|need(?:ed)?)\b", clause[0]) is None


def _incomplete_moves(prose: str, after: Mapping[str, str]) -> list[Problem]:
    """Return definitions to be moved between Python files that are missing in the target or left in the source."""
    problems: list[Problem] = []
    for match in islice(_RE.move_request.finditer(prose), MAX_MOVES):
        name, source, target = match.groups()
        if source not in after or target not in after or source == target:
            continue
        if not name.isidentifier() or not target.endswith(".py"):
            continue
        if name not in defined_names(after[target]):
            problems.append(Problem(f"{target} does not define {name} yet"))
        if name in defined_names(after[source]):
            problems.append(Problem(f"{name} still stands in {source}"))
    return problems


def resolve_module(module: str, importer: str, files: Collection[str]) -> str:
    """Return the file of `files` that a module refers to when imported in the file `importer`, or an empty string.

    Absolute modules are searched in the project's folder, in `src` and next to the importing file.
    """
    if module.startswith("."):
        level = len(module) - len(module.lstrip("."))
        folders = ["/".join([*importer.split("/")[:-level], ""]).lstrip("/")]
        module = module[level:]
    else:
        folders = ["", "src/", "/".join([*importer.split("/")[:-1], ""]).lstrip("/")]
    stem = module.replace(".", "/")
    for folder in folders:
        package = f"{folder}{stem}".rstrip("/")
        for path in (f"{package}.py", f"{package}/__init__.py".lstrip("/")):
            if path in files:
                return path
    return ""


def _name_doubts(prose: str, name: str) -> Iterator[bool]:
    """Yield for each place where a request asks for a name whether that is uncertain."""
    if _RE.name_styles.match(name):
        return
    for match in re.finditer(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", prose):
        lead = _sentence_before(prose, match.start())
        is_plural = re.match(r"\((?:s|es)\)", prose[match.end() :])
        if not (_RE.rejected_before.search(lead) or (is_plural and not _RE.kind_before.search(lead))):
            yield _RE.creates_before.search(lead) is None


def _sentence_before(prose: str, end: int) -> str:
    """Return the part of a sentence before a position, up to 160 characters."""
    lead = prose[max(0, end - 160) : end]
    return lead[max((match.end() for match in _RE.sentence_end.finditer(lead)), default=0) :]


def _exists(path: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a file exists: with this path, with a path that ends with it, or as a new file in another folder."""
    if path in after or any(file.endswith(f"/{path}") for file in after):
        return True
    base = path.rsplit("/", 1)[-1].lower()
    return base != "__init__.py" and any(
        file not in before and file.rsplit("/", 1)[-1].lower() == base for file in after
    )


def _path_doubts(prose: str, path: str) -> Iterator[bool]:
    """Yield for each place where a request asks for a new file whether that is uncertain.

    Files that a program writes at run time, or that are only mentioned, are not asked for."""
    if not is_path(path):
        return
    is_source = _suffix(path) in _RE.words("source_endings")
    for match in re.finditer(rf"(?<![\w./-])(?:\./)?{re.escape(path)}(?![\w/])", prose):
        lead = prose[max(0, match.start() - 160) : match.start()]
        sentence = _sentence_before(prose, match.start())
        is_added_elsewhere = re.match(r"[`'\"]?\s+(?:to|into)\s", prose[match.end() :])
        if _RE.creates_file_before.search(lead) and not is_added_elsewhere:
            yield _RE.at_run_time.search(sentence) is not None or path.endswith("__init__.py")
        elif is_source and _RE.into_before.search(lead) and _RE.file_verb.search(sentence):
            yield True


def answer_gaps(question: str, answer: str, files: Mapping[str, str]) -> list[str]:
    """Return what an answer lacks or has wrong, as sentences for the model. `files`: path → content shown to it."""
    definitions: dict[str, set[str]] = {}
    for path, text in files.items():
        for name in defined_names(text) if path.endswith(".py") else ():
            definitions.setdefault(name.rpartition(".")[2], set()).add(path)
    names = [name for name in definitions if _mentions(answer, name)]
    paths = [path for path in files if _mentions_file(answer, path)]
    wants_definition = _RE.asks_for_definition.search(question)
    wants_file = _RE.asks_for_file.search(question)
    gaps = []
    if definitions and not names and wants_definition:
        gaps.append("Name the function or class that is asked for.")
    if wants_file and files and not paths:
        gaps.append("Name the file that is asked for.")
    if wants_definition and wants_file and not gaps and len(names) == len(paths) == 1:
        name, path = names[0], paths[0]
        if path not in definitions[name]:
            gaps.append(f"{name} is defined in {', '.join(sorted(definitions[name]))}, not in {path}.")
    return gaps


def _mentions(answer: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", answer) is not None


def _mentions_file(answer: str, path: str) -> bool:
    base = path.rpartition("/")[2]
    if base == "__init__.py":
        return path in answer
    module = path.removesuffix(".py").replace("/", ".")
    if path.endswith(".py") and "." in module and _mentions(answer, module):
        return True
    return re.search(rf"(?<![\w-]){re.escape(base)}(?!\w)", answer) is not None
