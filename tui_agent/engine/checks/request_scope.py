"""What a request lets change: files that are to stay as they are, new tests, and tests that may become others."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal

from tui_agent.engine.checks.name_checks import is_test
from tui_agent.engine.checks.request_reading import number_in, request_prose
from tui_agent.protocols.file_blocks import PATH
from tui_agent.protocols.file_reply import named_paths
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "scope")

_OTHERS = "\x01"
"""Stands for words that mean all files but those that the request names."""
_TESTS = "\x02"
"""Stands for words that mean the tests."""
_FILE = "\x03"
"""Stands before and behind the number of a file that is named."""


def protected_files(request: str, files: Collection[str]) -> frozenset[str]:
    """Those of `files` (relative paths) that a request says are not to be changed."""
    text = request_prose(request).replace("’", "'")
    named: list[str] = []

    def numbered(one: re.Match[str]) -> str:
        named.append(one.group(0).removeprefix("./"))
        return f"{_FILE}{len(named) - 1}{_FILE}"

    masked = PATH.sub(numbered, text)
    masked = _RE.all_tests.sub(_TESTS, _RE.other_files.sub(_OTHERS, masked))
    found = (one for pattern in (_RE.forbidden, _RE.left, _RE.stays) for one in pattern.finditer(masked))
    said = [what for one in found for what in one.groups() if what]
    left = {path for what in said for path in _matching(_named_in(what, named), files)}
    if any(_TESTS in what for what in said):
        left |= {path for path in files if is_test(path)}
    only = [one.group("first") or one.group("last") for one in _RE.only.finditer(masked)]
    if (only or any(_OTHERS in what for what in said)) and not _RE.everywhere.search(text):
        meant = [name for what in only for name in _named_in(what, named)] or [
            name for name in named_paths(text) if name not in left
        ]
        spoken_of = set(_matching(meant, files))
        if spoken_of:
            left |= set(files) - spoken_of
    return frozenset(left)


def _named_in(what: str, named: list[str]) -> list[str]:
    return [named[int(number)] for number in re.findall(f"{_FILE}(\\d+){_FILE}", what)]


def _matching(names: Iterable[str], files: Collection[str]) -> list[str]:
    """The files that are meant by names, which may be the ends of paths."""
    return [path for path in files for name in names if path == name or path.endswith(f"/{name}")]


def wanted_tests(text: str) -> tuple[int, bool]:
    """How many new tests a request wants at least, 0 where it says no number; whether each is to be a function."""
    said = request_prose(text)
    if not (_RE.new.search(said) or _RE.says_so.search(said)):
        return 0, False
    found = _RE.how_many.search(said)
    if found is None or _RE.counted_others.search(said[: found.start()]):
        return 0, False
    each = (found["each"] or "").lower()
    return number_in(found["number"] or found["bare"]), each not in ("", "test", "tests")


def test_change_rule(text: str, *, renames: bool = False) -> Literal["free", "soft", "hard"]:
    """How a change of what a test demands is to be taken. `renames`: the request gives something another name.

    `hard`: the code is to be mended so that a test passes, or tests are to stay. `free`: they may be changed.
    """
    said = request_prose(text)
    if _RE.left_alone.search(said):
        return "hard"
    if _RE.wrong.search(said) or _RE.new.search(said) or renames or _reshapes(said):
        return "free"
    mends = to_pass(said)
    if _RE.edited.search(said):
        return "soft" if mends else "free"
    return "hard" if mends else "soft"


def asks_for_tests_only(text: str) -> bool:
    """Whether a request wants new tests, or a test to be changed, and no other code to become another."""
    said = request_prose(text)
    wrong = _RE.wrong.search(said) is not None
    if _RE.left_alone.search(said) or _RE.inside.search(said):
        return False
    if any(_RE.other_language.search(path) for path in named_paths(said)) or (to_pass(said, new=True) and not wrong):
        return False
    wanted = wrong or _RE.says_so.search(said) is not None
    for clause in _RE.clause.split(said):
        doing = _RE.doing.match(clause.strip())
        if doing is None or re.match(r"make\s+sure\b", doing["verb"] + clause.strip()[doing.end() :], re.IGNORECASE):
            continue
        rest = clause.strip()[doing.end() :]
        if _RE.object.match(rest):
            wanted = True
        elif not (wanted and _RE.pronoun.match(rest)):
            return False
    return wanted


def _reshapes(said: str) -> bool:
    """Whether a sentence of a request begins with a verb that gives the code another shape, or says it has one."""
    return any(_RE.reshaping.match(_RE.begin.sub("", one.strip(), count=1)) for one in _RE.clause.split(said))


def to_pass(text: str, *, new: bool = False) -> bool:
    """Whether code is to be mended because a test fails. `new`: what new tests should do does not count."""
    said = request_prose(text)
    if _RE.make_pass.search(said):
        return True
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", said):
        said_so = re.search(_RE.source("test"), sentence, re.IGNORECASE) and _RE.outcome.search(sentence)
        if said_so and not (new and (_RE.sure.search(sentence) or _RE.new.search(sentence))):
            return True
    return False
