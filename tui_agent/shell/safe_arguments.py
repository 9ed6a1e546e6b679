"""What the arguments of a program on the allow-list mean: which paths it reads, and which it only looks at (A1).

The table allows single options; any other argument needs approval. An argument may be known only when the command
runs: it is then checked again before its program starts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from tui_agent.common.domain import FrozenValue
from tui_agent.shell.filters import awk_only_prints, jq_only_prints, sed_only_prints, yq_only_prints
from tui_agent.text.patterns import read_table


class NotSafe(Exception):
    """A command that needs approval."""


def require(condition: bool) -> None:
    """Raise NotSafe unless the condition holds."""
    if not condition:
        raise NotSafe


class Unknown(str):
    """Text of which a part, written as NUL, is known only when the command runs."""

    is_clean: bool
    """Whether it can't be the name of a file with credentials."""

    def __new__(cls, text: str, is_clean: bool) -> Unknown:
        """Arguments: the text, and `is_clean`."""
        unknown = super().__new__(cls, text)
        unknown.is_clean = is_clean
        return unknown


class ArgumentShape(FrozenValue, frozen=True, kw_only=True):
    """What the arguments of a program mean."""

    reads: tuple[str, ...] = ()
    """Paths whose content it prints, in their order."""
    names: tuple[str, ...] = ()
    """Paths of which it shows names, sizes and the like."""
    recursive: bool = False
    """Whether it reads the files below its folders."""
    includes_hidden: bool = True
    """Whether a recursive search includes names that begin with a dot."""
    include: tuple[str, ...] = ()
    """Patterns; a recursive search reads only files that match one of them, if there are any."""
    exclude: tuple[str, ...] = ()
    """Patterns of files that a recursive search leaves out."""
    exclude_folders: tuple[str, ...] = ()
    """Patterns of folders that a recursive search leaves out."""
    follows_links: bool = False
    """Whether a recursive search follows symbolic links."""
    reads_pipe: bool = False
    """Whether it reads its standard input instead of the folder if no path is given."""
    files_only: bool = False
    """Whether it must not be given a folder."""
    exists: bool = False
    """Whether its files must exist, as it would look for others instead."""
    prefix: tuple[str, ...] = ()
    """Arguments that are added in front."""
    version_of: str = ""
    """The program, if it only prints its version."""
    needs_home: bool = False
    """Whether it needs to find settings in the user's home folder."""


@cache
def safe_table() -> dict[str, dict[str, Any]]:
    """Return the allow-list: program → its allowed arguments."""
    data = read_table(__package__, "safe_commands.json")["programs"]
    return {name: {**data[entry["like"]], **entry} if "like" in entry else entry for name, entry in data.items()}


@cache
def version_table() -> dict[str, frozenset[str]]:
    """Return the arguments, alone, with which a program prints its version: program → arguments."""
    data = read_table(__package__, "safe_commands.json")["versions"]
    return {name: frozenset(options.split()) for names, options in data.items() for name in names.split()}


_VERSIONED = re.compile(r"(python|pip|pypy|gcc|g\+\+|clang|clang\+\+|ruby|perl|php|lua|node|llvm-config)-?\d[\d.]*")


def argument_shape(program: str, arguments: Sequence[str]) -> ArgumentShape:
    """Return what the arguments mean. Raises NotSafe if the program or one of them is not on the allow-list."""
    plain = program if program in version_table() else _VERSIONED.sub(r"\1", program)
    if len(arguments) == 1 and arguments[0] in version_table().get(plain, ()):
        return ArgumentShape(version_of=plain, needs_home=True)
    entry = safe_table().get(program) or safe_table().get(plain)
    if entry is None:
        raise NotSafe
    return _shape(entry, list(arguments))


def _shape(entry: dict[str, Any], arguments: list[str]) -> ArgumentShape:
    match entry["operands"]:
        case "echo":
            return ArgumentShape()
        case "printf":
            require(bool(arguments) and not arguments[0].startswith("-"))
            return ArgumentShape()
        case "find":
            return ArgumentShape(names=find_paths(entry, arguments))
        case "exactly":
            require(" ".join(arguments) in entry["forms"] or _names_follow(entry.get("then", ()), arguments))
            return ArgumentShape(needs_home=True)
    parsed = _ArgumentParser(entry, arguments)
    operands = parsed.operands
    match entry["operands"]:
        case "pattern":
            return _search_shape(entry, parsed)
        case "script":
            scripts = parsed.scripts or operands[:1]
            require(bool(scripts) and all(_prints_only(entry["language"], script) for script in scripts))
            # With a single argument, the programs named yq disagree whether it is a filter or a file.
            files = operands if parsed.scripts or entry["language"] == "yq" else operands[1:]
            return ArgumentShape(reads=(*parsed.paths, *files))
        case "paths" | "files" as kind:
            require(entry.get("least", 0) <= len(operands) <= entry.get("most", 100_000))
            require(not (entry.get("local") and any(":" in path for path in (*operands, *parsed.paths))))
            paths = (*parsed.paths, *operands)
            # `@FILE` stands for the arguments in a file.
            require(not (entry.get("argument_files") and any(path.startswith(("@", "\0")) for path in paths)))
            is_recursive = bool(parsed.options & set(entry.get("walks", "").split()))
            return ArgumentShape(
                reads=() if entry.get("names_only") else paths,
                names=paths if entry.get("names_only") else (),
                recursive=is_recursive,
                follows_links=is_recursive,
                files_only=kind == "files" and not is_recursive,
                exists=bool(entry.get("exists")),
                prefix=tuple(entry.get("first", ())),
            )
        case kind:
            allowed = {
                "text": True,
                "none": not operands,
                "format": all(text.startswith("+") for text in operands),
                "numbers": all(_NUMBER.fullmatch(text) and len(text) <= 6 for text in operands),
            }
            require(allowed[kind])
            return ArgumentShape(reads=tuple(parsed.paths), prefix=tuple(entry.get("first", ())))


_PACKAGE = re.compile(r"@?[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?(?:\[[\w,]+\])?", re.ASCII)


def _names_follow(forms: Sequence[str], arguments: list[str]) -> bool:
    """Return whether the arguments are one of the forms, and after it names of packages or fields."""
    return any(
        arguments[: len(form.split())] == form.split()
        and all(_PACKAGE.fullmatch(name) for name in arguments[len(form.split()) :])
        for form in forms
    )


_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def _search_shape(entry: dict[str, Any], parsed: _ArgumentParser) -> ArgumentShape:
    operands = parsed.operands
    if not parsed.options & set(entry["pattern_options"].split()):
        require(bool(operands))
        operands = operands[1:]
    always = entry["walks"] == "always"
    shown = bool(parsed.options & set(entry.get("names_with", "").split()))
    if shown:
        return ArgumentShape(names=(*parsed.paths, *operands), prefix=tuple(entry.get("first", ())))
    include, exclude, folders = _selection(parsed.values)
    return ArgumentShape(
        reads=(*parsed.paths, *operands),
        recursive=always or bool(parsed.options & set(entry["walks"].split())),
        includes_hidden=not always or bool(parsed.options & set(entry["hidden_with"].split())),
        include=include,
        exclude=exclude,
        exclude_folders=folders,
        reads_pipe=always,
        prefix=tuple(entry.get("first", ())),
        exists=bool(entry.get("exists")),
    )


_PLAIN_PATTERN = re.compile(r"[\w.*-]+", re.ASCII)
"""A pattern that means the same to grep and to `fnmatch`."""


def _selection(values: dict[str, list[str]]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the patterns of the files that a search reads, of those that it leaves out, and of such folders.

    Where that is hard to tell, it is assumed to read more.
    """
    include, exclude, folders = (
        tuple(values.get(name, ())) if all(map(_PLAIN_PATTERN.fullmatch, values.get(name, ()))) else ()
        for name in ("include", "exclude", "exclude-dir")
    )
    # Of contradictory patterns the last one counts.
    is_mixed = bool(values.get("include") and values.get("exclude"))
    return include, () if is_mixed else exclude, folders


def _prints_only(language: str, script: str) -> bool:
    if isinstance(script, Unknown):
        return False
    rules = {"awk": awk_only_prints, "sed": sed_only_prints, "jq": jq_only_prints, "yq": yq_only_prints}
    return rules[language](script)


class _ArgumentParser:
    """Splits arguments into operands, paths and scripts given to options, and the names of the options."""

    def __init__(self, entry: dict[str, Any], arguments: Sequence[str]) -> None:
        self._entry = entry
        self._remaining = list(arguments)
        self.operands: list[str] = []
        self.paths: list[str] = []
        self.scripts: list[str] = []
        self.options: set[str] = set()
        self.values: dict[str, list[str]] = {}
        is_first = True
        while self._remaining:
            word = self._remaining.pop(0)
            if word == "--":
                self.operands += self._remaining
                break
            if is_first and entry.get("bundle") and re.fullmatch(r"[a-zA-Z]+", word):
                word = f"-{word}"  # `tar tzf FILE`
            is_first = False
            if not word.startswith("-") or word == "-":
                self.operands.append(word)
                if entry.get("options_first"):
                    self.operands += self._remaining
                    break
            else:
                require(not isinstance(word, Unknown) or "=" in word)
                self._long(word[2:]) if word.startswith("--") else self._short(word[1:])
        require(set(entry.get("needs", "")) <= self.options)

    def _value(self) -> str:
        require(bool(self._remaining))
        return self._remaining.pop(0)

    def _long(self, text: str) -> None:
        name, equals, value = text.partition("=")
        allowed = self._entry.get("long", "").split()
        self.options.add(name)
        if name in allowed:
            require(not equals)
        elif f"{name}=" in allowed:
            self.values.setdefault(name, []).append(value if equals else self._value())
        elif f"{name}=p" in allowed:
            self.paths.append(value if equals else self._value())
        elif f"{name}=2" in allowed:
            require(not equals)
            self._value()
            self._value()
        elif f"{name}=s" in allowed:
            self.scripts.append(value if equals else self._value())
        else:
            require(f"{name}?" in allowed)

    def _short(self, letters: str) -> None:
        entry = self._entry
        if letters in entry.get("words", "").split():  # long options with a single dash
            return
        if entry.get("number") and letters[0].isdigit():
            # `head -5c FILE`: what follows the digits is a unit, not an option with a value.
            require(letters.isdigit())
            return
        for index, letter in enumerate(letters, 1):
            self.options.add(letter)
            attached = letters[index:]
            if letter in entry.get("apart", ""):
                # The next word is its value, and the letters after it are options of their own.
                require(not attached or attached.isdigit())
            if letter in entry.get("path_values", ""):
                self.paths.append(attached or self._value())
                return
            if letter in entry.get("scripts", ""):
                self.scripts.append(attached or self._value())
                return
            if letter in entry.get("values", "") + entry.get("apart", ""):
                if not attached:
                    self._value()
                return
            if letter in entry.get("optional", ""):
                return
            require(letter in entry.get("short", ""))


def find_paths(entry: dict[str, Any], arguments: list[str]) -> tuple[str, ...]:
    """Return the folders, and the files to compare with, of a `find` that only lists. Raises NotSafe."""
    alone, text, path = (entry[kind].split() for kind in ("alone", "text", "path"))
    remaining = list(itertools.dropwhile(lambda word: word == "-P", arguments))
    paths = list(itertools.takewhile(lambda word: not word.startswith(("-", "(", "!", ",")), remaining))
    remaining = remaining[len(paths) :]
    while remaining:
        word = remaining.pop(0)
        if word in text or word in path:
            require(bool(remaining))
            value = remaining.pop(0)
            if word in path:
                paths.append(value)
        else:
            require(word in alone)
    return tuple(paths)
