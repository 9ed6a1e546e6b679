"""Whether what a request asks for by name is there: new identifiers and new files (E2, E4).

A name counts as asked for only where it stands right behind a verb that creates; of any other one it is not clear.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import islice

import msgspec

from tui_agent.engine.checks.request_reading import RequestReading, number_in, request_prose
from tui_agent.protocols.python_source import defined_names, function_bodies
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "names")


class Problem(msgspec.Struct, frozen=True):
    """Something that is wrong with a change."""

    text: str
    soft: bool = False
    """It may be meant so: after a second try that has it too, it is accepted."""


READ_MOVES = 5
"""Moves of a request that are looked at."""


def is_test(path: str) -> bool:
    """Whether a Python file holds tests, by its name."""
    return _RE.test_file.search(path) is not None


def is_path(text: str) -> bool:
    """Whether a word is the path of a file, and not an attribute of something."""
    if text in ("Makefile", "Dockerfile"):
        return True
    ending = text.rpartition(".")[2].lower()
    return "." in text and ending in _RE.words("source_endings") | _RE.words("data_endings")


def missing_names(
    request: RequestReading, before: Mapping[str, str], after: Mapping[str, str], left_alone: Collection[str] = ()
) -> list[Problem]:
    """What the request asks for by name and is nowhere, before or now. An attribute counts by its last name.

    `left_alone`: files that must not change.
    """
    there = "\n".join([*after.values(), *after])
    was = "\n".join([*before.values(), *before])
    text = request_prose(request.text)
    found = []
    for name in request.names:
        parts = (name, name.rsplit(".", 1)[-1], name.split(".", 1)[0])
        if name in was or any(part and re.search(rf"(?<![\w]){re.escape(part)}(?!\w)", there) for part in parts):
            continue
        soft = _name_is_soft(text, name)
        if soft is not None:
            found.append(Problem(f"{name} is nowhere", soft))
    for path in request.paths:
        if not _is_there(path, before, after):
            soft = _path_is_soft(text, path, "\n".join(after.values()))
            if soft is not None:
                found.append(Problem(f"the file {path} is not there", soft))
    for path in request.paths:
        same = path in before and before[path] == after.get(path)
        if same and path not in left_alone and _is_to_change(text, path):
            found.append(Problem(f"{path} has to change, too", False))
    return [*found, *_moves(text, after), *_untouched(text, before, after)]


def _untouched(text: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[Problem]:
    """Functions of which a request names a fault each, and that are as they were."""
    if not _RE.several.search(text):
        return []
    named: dict[str, list[bool]] = {}
    others: dict[str, bool] = {}
    numbered = _RE.numbered.search(text)
    faults = rf"(?:{_RE.source('faults')}|(?:\w+ly )?[a-z]+[^s\W]s)" if numbered else _RE.source("faults")
    for path, content in before.items():
        was = function_bodies(content) if path.endswith(".py") else {}
        now = function_bodies(after.get(path, "")) if was else {}
        for name, body in was.items():
            if re.search(rf"(?<![\w.`'\"]){re.escape(name)}(?:\(\))?\s+(?:{faults})\b", text):
                named.setdefault(name, []).append(now.get(name) == body)
            elif name in now and not re.search(rf"\b{re.escape(name.strip('_'))}\b", text):
                others[name] = others.get(name, False) or now[name] != body
    if len(named) < 2:
        return []
    found = [Problem(f"{name} is still as it was", False) for name, same in named.items() if all(same)]
    if not found and numbered and len(named) == number_in(numbered["number"]):
        found = [Problem(f"{name} works, and must stay as it is", True) for name, changed in others.items() if changed]
    return found


def _is_to_change(text: str, path: str) -> bool:
    """Whether a request says in so many words that a file is to change."""
    said = re.search(
        rf"\b(?:{_RE.source('changes')})\s+(?:also\s+|the\s+)?[`'\"]?{re.escape(path)}\b[^.;!?]*", text, re.IGNORECASE
    )
    return said is not None and re.search(r"\b(?:if|where|when|unless|need(?:ed)?)\b", said.group(0)) is None


def _moves(text: str, after: Mapping[str, str]) -> list[Problem]:
    """What is to be moved to another Python file, and still stands in the old one or not yet in the new one."""
    found: list[Problem] = []
    for one in islice(_RE.move.finditer(text), READ_MOVES):
        name, old, new = one.group(1), one.group(2), one.group(3)
        if old not in after or new not in after or old == new:
            continue
        if not name.isidentifier() or not new.endswith(".py"):
            continue
        if name not in defined_names(after[new]):
            found.append(Problem(f"{new} does not define {name} yet", False))
        if name in defined_names(after[old]):
            found.append(Problem(f"{name} still stands in {old}", False))
    return found


def file_of(module: str, importer: str, files: Collection[str]) -> str:
    """The Python file that a module's name stands for in the file `importer`; empty where it is none of `files`.

    Beside the project's folder, modules are looked for in `src` and beside the importing file.
    """
    if module.startswith("."):
        level = len(module) - len(module.lstrip("."))
        folders = ["/".join([*importer.split("/")[:-level], ""]).lstrip("/")]
        module = module[level:]
    else:
        folders = ["", "src/", "/".join([*importer.split("/")[:-1], ""]).lstrip("/")]
    stem = module.replace(".", "/")
    for folder in dict.fromkeys(folders):
        package = f"{folder}{stem}".rstrip("/")
        for name in (f"{package}.py", f"{package}/__init__.py".lstrip("/")):
            if name in files:
                return name
    return ""


def _name_is_soft(text: str, name: str) -> bool | None:
    """Whether a name that is not there may be missing all the same; None where nothing asks for it."""
    if _RE.styles.match(name):
        return None
    verdicts = set()
    for one in re.finditer(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text):
        lead = _lead(text, one.start())
        plural = re.match(r"\((?:s|es)\)", text[one.end() :])
        if _RE.not_meant.search(lead) or (plural and not _RE.defining.search(lead)):
            continue
        verdicts.add(_RE.creates.search(lead) is None)
    return min(verdicts) if verdicts else None


def _lead(text: str, end: int, size: int = 160) -> str:
    """The sentence before a place."""
    lead = text[max(0, end - size) : end]
    return lead[max((one.end() for one in _RE.sentence.finditer(lead)), default=0) :]


def _is_there(path: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a file is there, by its path, the end of it, or as a new file in another folder."""
    if path in after or any(one.endswith(f"/{path}") for one in after):
        return True
    base = path.rsplit("/", 1)[-1].lower()
    new = [one for one in after if one not in before]
    return base != "__init__.py" and any(one.rsplit("/", 1)[-1].lower() == base for one in new)


def _path_is_soft(text: str, path: str, there: str) -> bool | None:
    """As for names. A file that a program writes when it runs, or that is only spoken of, is not asked for."""
    ending = path.rsplit(".", 1)[-1].lower()
    if not is_path(path):
        return None
    verdicts = set()
    for one in re.finditer(rf"(?<![\w./-])(?:\./)?{re.escape(path)}(?![\w/])", text):
        lead = text[max(0, one.start() - 160) : one.start()]
        sentence = _lead(text, one.start())
        listed = re.match(r"[`'\"]?\s+(?:to|into)\s", text[one.end() :])
        if _RE.new_file.search(lead) and not listed:
            verdicts.add(_RE.at_run_time.search(sentence) is not None or path.endswith("__init__.py"))
        elif _RE.into.search(lead) and _RE.makes.search(sentence) and ending in _RE.words("source_endings"):
            verdicts.add(True)
    if True in verdicts and path.rsplit("/", 1)[-1] in there:
        verdicts.discard(True)
    return min(verdicts) if verdicts else None


def answer_gaps(question: str, answer: str, files: Mapping[str, str]) -> list[str]:
    """What an answer lacks or has wrong, as sentences for the model. `files`: path → content, of what was shown."""
    defined: dict[str, set[str]] = {}
    for path, text in files.items():
        for name in defined_names(text) if path.endswith(".py") else ():
            defined.setdefault(name.rpartition(".")[2], set()).add(path)
    names = [name for name in defined if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", answer)]
    paths = [path for path in files if _names_file(answer, path)]
    found = []
    if defined and not names and _RE.asks_for_a_definition.search(question):
        found.append("Name the function or class that is asked for.")
    if _RE.asks_for_a_file.search(question) and files and not paths:
        found.append("Name the file that is asked for.")
    asked_for_both = _RE.asks_for_a_definition.search(question) and _RE.asks_for_a_file.search(question)
    one_of_each = not found and len(names) == len(paths) == 1
    if asked_for_both and one_of_each and paths[0] not in defined[names[0]]:
        found.append(f"{names[0]} is defined in {', '.join(sorted(defined[names[0]]))}, not in {paths[0]}.")
    return found


def _names_file(answer: str, path: str) -> bool:
    base = path.rpartition("/")[2]
    if base == "__init__.py":
        return path in answer
    module = path.removesuffix(".py").replace("/", ".")
    dotted = (
        path.endswith(".py") and "." in module and re.search(rf"(?<!\w){re.escape(module)}(?!\w)", answer) is not None
    )
    return dotted or re.search(rf"(?<![\w-]){re.escape(base)}(?!\w)", answer) is not None
