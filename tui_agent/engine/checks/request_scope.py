"""The limits of a request: files that must not change, new tests to write, and whether existing tests may change."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal

from tui_agent.engine.checks.name_checks import is_test
from tui_agent.engine.checks.request_reading import parse_count, request_prose
from tui_agent.protocols.file_blocks import PATH
from tui_agent.protocols.file_reply import named_paths
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "scope")

_OTHER_FILES = "\x01"
"""Placeholder for a phrase that means all files except those mentioned."""
_TESTS = "\x02"
"""Placeholder for a phrase that means the tests."""
_FILE = "\x03"
"""Encloses the index of a mentioned file."""


def protected_files(request: str, files: Collection[str]) -> frozenset[str]:
    """Return those of `files` (relative paths) that the request forbids to change."""
    prose = request_prose(request).replace("’", "'")
    paths: list[str] = []

    def enter_path(match: re.Match[str]) -> str:
        paths.append(match[0].removeprefix("./"))
        return f"{_FILE}{len(paths) - 1}{_FILE}"

    masked = PATH.sub(enter_path, prose)
    masked = _RE.all_tests.sub(_TESTS, _RE.other_files.sub(_OTHER_FILES, masked))
    patterns = (_RE.change_forbidden, _RE.kept_as_is, _RE.stays_same)
    matches = (match for pattern in patterns for match in pattern.finditer(masked))
    targets = " ".join(target for match in matches for target in match.groups() if target)
    protected = set(_matching_files(_listed_paths(targets, paths), files))
    if _TESTS in targets:
        protected |= set(filter(is_test, files))
    allowed = " ".join(match["first"] or match["last"] for match in _RE.only_change.finditer(masked))
    if (allowed or _OTHER_FILES in targets) and not _RE.everywhere.search(prose):
        names = _listed_paths(allowed, paths) or [name for name in named_paths(prose) if name not in protected]
        if in_scope := set(_matching_files(names, files)):
            protected |= set(files) - in_scope
    return frozenset(protected)


def _listed_paths(targets: str, paths: list[str]) -> list[str]:
    return [paths[int(index)] for index in re.findall(f"{_FILE}(\\d+){_FILE}", targets)]


def _matching_files(names: Iterable[str], files: Collection[str]) -> list[str]:
    """Return the files whose path is one of the names or ends with it."""
    return [path for path in files for name in names if path == name or path.endswith(f"/{name}")]


def wanted_tests(request: str) -> tuple[int, bool]:
    """Return the minimum number of new tests, 0 if not stated, and whether each must be a function."""
    prose = request_prose(request)
    if not (_RE.adds_test.search(prose) or _RE.tests_missing.search(prose)):
        return 0, False
    count = _RE.test_count.search(prose)
    if count is None or _RE.counts_existing.search(prose[: count.start()]):
        return 0, False
    unit = (count["unit"] or "").lower()
    return parse_count(count["number"] or count["minimum"]), unit not in ("", "test", "tests")


def test_change_rule(request: str, *, renames: bool = False) -> Literal["free", "soft", "hard"]:
    """Return how strictly existing tests are protected. `renames`: the request renames something.

    `hard`: the code must be changed to make a test pass, or tests are protected. `free`: tests may change.
    """
    prose = request_prose(request)
    if _RE.tests_protected.search(prose):
        return "hard"
    if _RE.test_is_wrong.search(prose) or _RE.adds_test.search(prose) or renames or _restructures(prose):
        return "free"
    must_pass = _must_make_pass(prose)
    if _RE.edits_test.search(prose):
        return "soft" if must_pass else "free"
    return "hard" if must_pass else "soft"


def asks_for_tests_only(request: str) -> bool:
    """Return whether a request is only to add or change tests, not other code."""
    prose = request_prose(request)
    test_is_wrong = _RE.test_is_wrong.search(prose) is not None
    if _RE.tests_protected.search(prose) or _RE.tests_in_code.search(prose):
        return False
    if any(map(_RE.other_language.search, named_paths(prose))):
        return False
    if not test_is_wrong and _must_make_pass(prose, ignore_new=True):
        return False
    about_tests = test_is_wrong or _RE.tests_missing.search(prose) is not None
    for clause in map(str.strip, _RE.clause_break.split(prose)):
        verb = _RE.work_verb.match(clause)
        rest = clause[verb.end() :] if verb else ""
        if verb is None or re.match(r"make\s+sure\b", verb["verb"] + rest, re.IGNORECASE):
            continue
        if _RE.test_object.match(rest):
            about_tests = True
        elif not (about_tests and _RE.pronoun.match(rest)):
            return False
    return about_tests


def _restructures(prose: str) -> bool:
    """Whether a clause begins with a verb that restructures code, or says that something was moved or renamed."""
    clauses = (_RE.clause_start.sub("", clause.strip(), count=1) for clause in _RE.clause_break.split(prose))
    return any(map(_RE.restructures.match, clauses))


def _must_make_pass(prose: str, *, ignore_new: bool = False) -> bool:
    """Whether code must change because a test fails. `ignore_new`: ignore what is said of new tests."""
    if _RE.make_pass.search(prose):
        return True
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", prose):
        is_about_outcome = re.search(_RE.source("test"), sentence, re.IGNORECASE) and _RE.test_outcome.search(sentence)
        if is_about_outcome and not (
            ignore_new and (_RE.check_phrase.search(sentence) or _RE.adds_test.search(sentence))
        ):
            return True
    return False
