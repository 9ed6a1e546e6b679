"""Evaluate the conditions of `test`, `[` and `[[`."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tui_agent.shell.safe_arguments import NotSafe, Unknown, require


class Term(NamedTuple):
    """A word of a condition; `pattern`: a file name pattern that it is compared with."""

    text: str
    pattern: str | None = None


Token = Term | str
"""A term, or an operator: `&&`, `||`, `!`, `(`, `)`."""

_INTEGER = re.compile(r"\s*[+-]?\d{1,18}\s*")
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_FILES: dict[str, Callable[[os.stat_result], bool]] = {
    "-e": lambda status: True,
    "-a": lambda status: True,
    "-f": lambda status: stat.S_ISREG(status.st_mode),
    "-d": lambda status: stat.S_ISDIR(status.st_mode),
    "-s": lambda status: status.st_size > 0,
    "-p": lambda status: stat.S_ISFIFO(status.st_mode),
    "-S": lambda status: stat.S_ISSOCK(status.st_mode),
    "-b": lambda status: stat.S_ISBLK(status.st_mode),
    "-c": lambda status: stat.S_ISCHR(status.st_mode),
    "-O": lambda status: status.st_uid == os.geteuid(),
}
_ACCESS = {"-r": os.R_OK, "-w": os.W_OK, "-x": os.X_OK}


class Condition:
    """One condition. `locate` returns the absolute path of a name, and raises NotSafe if it may not be looked at."""

    def __init__(self, tokens: Sequence[Token], locate: Callable[[str], str]) -> None:
        self._tokens = list(tokens)
        self._locate = locate

    def holds(self) -> bool:
        """Return its value. Raises NotSafe for a condition that is not understood."""
        if not self._tokens:
            return False
        value = self._any()
        require(not self._tokens)
        return value

    def _any(self) -> bool:
        value = self._all()
        while self._tokens and self._tokens[0] == "||":
            self._tokens.pop(0)
            value = self._all() or value
        return value

    def _all(self) -> bool:
        value = self._one()
        while self._tokens and self._tokens[0] == "&&":
            self._tokens.pop(0)
            value = self._one() and value
        return value

    def _one(self) -> bool:
        require(bool(self._tokens))
        token = self._tokens.pop(0)
        if token == "!":
            return not self._one()
        if token == "(":
            value = self._any()
            require(bool(self._tokens) and self._tokens.pop(0) == ")")
            return value
        require(isinstance(token, Term))
        assert isinstance(token, Term)
        terms = [token]
        while self._tokens and isinstance(self._tokens[0], Term):
            terms.append(self._tokens.pop(0))  # type: ignore[arg-type]  # just checked
        return self._terms(terms)

    def _terms(self, terms: list[Term]) -> bool:
        match [term.text for term in terms]:
            case [text]:
                return bool(text)
            case ["-n", text]:
                return bool(text)
            case ["-z", text]:
                return not text
            case [operator, name] if operator in _FILES or operator in _ACCESS or operator in ("-L", "-h"):
                return self._file(operator, name)
            case [left, operator, right] if operator in _NUMBERS:
                if isinstance(left, Unknown) or isinstance(right, Unknown):
                    return False
                require(bool(_INTEGER.fullmatch(left)) and bool(_INTEGER.fullmatch(right)))
                return _NUMBERS[operator](int(left), int(right))
            case [left, "=" | "==" | "!=" as operator, right]:
                pattern = terms[2].pattern
                same = fnmatch.fnmatchcase(left, pattern) if pattern else left == right
                return same is (operator != "!=")
            case [left, "-nt" | "-ot" as operator, right]:
                first, second = (self._status(name) for name in (left, right))
                if first is None or second is None:
                    return (first if operator == "-nt" else second) is not None
                newer = first.st_mtime_ns - second.st_mtime_ns
                return newer > 0 if operator == "-nt" else newer < 0
        raise NotSafe

    def _status(self, name: str, *, follow: bool = True) -> os.stat_result | None:
        if isinstance(name, Unknown):
            return None
        try:
            return os.stat(self._locate(name), follow_symlinks=follow)
        except OSError:
            return None

    def _file(self, operator: str, name: str) -> bool:
        if not name or isinstance(name, Unknown):
            return False
        if operator in ("-L", "-h"):
            status = self._status(name, follow=False)
            return status is not None and stat.S_ISLNK(status.st_mode)
        if operator in _ACCESS:
            return os.access(self._locate(name), _ACCESS[operator])
        status = self._status(name)
        return status is not None and _FILES[operator](status)
