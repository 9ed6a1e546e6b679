"""Reading a YAML or JSON file into plain values that remember their lines, safely and within bounds."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.text.json_values import iter_json_members

LIMIT = 256 * 1024
"""Bytes that a settings file may have."""

_DEPTH = 16
_NODES = 20_000

Where = tuple[str, ...]
"""The keys that lead to a value."""


class SettingsProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong in one place, or, with `ignored`, what a workspace may not set."""

    file: str
    """The file, or `environment`, or `command line`."""
    line: int | None = None
    """1-based; None where there are no lines."""
    field: str = ""
    """Dotted name of the setting, as it was written."""
    message: str
    ignored: bool = False
    """True for a workspace setting that would loosen: nothing is broken, it just does not count."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.field}: {self.message}" if self.field else f"{place}: {self.message}"


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """Values of one source."""

    file: str
    values: dict[str, Any]
    lines: dict[Where, int] = {}

    def line(self, where: Where) -> int | None:
        """The line of `where`, or of the nearest thing around it."""
        while where:
            if where in self.lines:
                return self.lines[where]
            where = where[:-1]
        return None


def printable(text: str, limit: int = 80) -> str:
    """`text` from a file for a message: bounded, and nothing in it unseen."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:limit])
    return shown + "…" if len(text) > limit else shown


def read_tree(path: Path, *, follow: bool = True) -> tuple[Tree | None, list[SettingsProblem]]:
    """The values of the file at `path`: None when there is no such file or it can't be used at all.

    `follow`: whether the file may be a symbolic link.
    """
    text, problems = read_text(path, follow=follow)
    return (None, problems) if text is None else parse_tree(str(path), text)


def read_text(path: Path, *, follow: bool = True) -> tuple[str | None, list[SettingsProblem]]:
    """The text of a settings file: None without problems when there is no such file, else with what is wrong."""
    name = str(path)
    try:
        data = read_bounded(path, follow=follow)
    except FileNotFoundError:
        return None, []
    except OSError as error:
        return None, [SettingsProblem(file=name, message=f"can't be read: {error.strerror or error}")]
    except ValueError as error:
        return None, [SettingsProblem(file=name, message=str(error))]
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return None, [SettingsProblem(file=name, line=line, message="is not UTF-8 text here")]


def parse_tree(name: str, text: str) -> tuple[Tree | None, list[SettingsProblem]]:
    """The values of YAML `text`; the first problem of its syntax, or each key that is there twice."""
    import yaml  # slow, and only a settings file needs it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_bounds(yaml, yaml.parse(text, Loader=loader))
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.context, error.problem) if part)
        line = mark.line + 1 if mark else None
        return None, [SettingsProblem(file=name, line=line, message=f"is not valid YAML: {printable(said, 200)}")]
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return None, [SettingsProblem(file=name, line=line, message="contains a character that YAML does not allow")]
    except yaml.YAMLError as error:
        return None, [SettingsProblem(file=name, message=f"is not valid YAML: {printable(str(error), 200)}")]
    if root is None:
        return Tree(file=name, values={}), []
    if not isinstance(root, yaml.MappingNode):
        message = "must be a list of settings, each as `name: value`"
        return None, [SettingsProblem(file=name, line=root.start_mark.line + 1, message=message)]
    build = _Build(name)
    values = build.mapping(root, ())
    return Tree(file=name, values=values, lines=build.lines), build.problems


def read_bounded(path: Path, *, follow: bool = True) -> bytes:
    """The bytes of a settings file. Raises OSError, and ValueError with what else is wrong with it."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("is not a file")
        data = file.read(LIMIT + 1)
        if len(data) > LIMIT:
            raise ValueError(f"has {max(found.st_size, len(data)):,} bytes; the limit is {LIMIT:,}")
        return data


def _check_bounds(yaml: Any, events: Any) -> None:
    depth = 0
    for nodes, event in enumerate(events):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        trouble = (
            "settings can't use aliases"
            if isinstance(event, yaml.AliasEvent)
            else "nested too deeply"
            if depth > _DEPTH
            else "too many values"
            if nodes > _NODES
            else None
        )
        if trouble:
            raise yaml.MarkedYAMLError(problem=trouble, problem_mark=event.start_mark)


class _Build:
    """Makes plain values of composed nodes."""

    def __init__(self, name: str) -> None:
        from yaml.constructor import SafeConstructor

        self._name = name
        self._constructor = SafeConstructor()
        self.lines: dict[Where, int] = {}
        self.problems: list[SettingsProblem] = []

    def mapping(self, node: Any, where: Where) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key.value, str):
                self._problem(line, where, "the name of a setting must be a word")
                continue
            here = (*where, key.value)
            if key.value in values:
                self._problem(line, here, f"is set twice; line {self.lines[here]} is used")
                continue
            self.lines[here] = line
            try:
                values[key.value] = self._value(value, here)
            except ValueError:
                self._problem(line, here, "has a value that can't be read")
        return values

    def _value(self, node: Any, where: Where) -> Any:
        import yaml

        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, where)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, where) for item in node.value]
        try:
            return self._constructor.construct_object(node, deep=True)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error

    def _problem(self, line: int, where: Where, message: str) -> None:
        field = printable(".".join(where))
        self.problems.append(SettingsProblem(file=self._name, line=line, field=field, message=message))


# --- JSON -----------------------------------------------------------------------------------


def read_json_tree(path: Path) -> tuple[Tree | None, list[SettingsProblem]]:
    """The values of the file at `path`: None without problems if there is no such file, else with the first problem.

    A file that is not a JSON object is unusable as a whole; a duplicate name is reported, and its first value is used.
    """
    text, problems = read_text(path)
    return (None, problems) if text is None else parse_json_tree(str(path), text)


def parse_json_tree(name: str, text: str) -> tuple[Tree | None, list[SettingsProblem]]:
    """The same for `text`."""
    lines: dict[Where, int] = {}
    problems: list[SettingsProblem] = []
    try:
        value = json.loads(text, object_pairs_hook=_first_of_each)
        _note_lines(name, text, len(text) - len(text.lstrip()), (), lines, problems)
    except json.JSONDecodeError as error:
        message = f"is not valid JSON: {_explain(error.msg, text, error.pos)}" if text.strip() else "is empty"
        return None, [SettingsProblem(file=name, line=error.lineno, message=message)]
    except (RecursionError, ValueError):
        return None, [SettingsProblem(file=name, message="is nested too deeply, or contains an overlong number")]
    if not isinstance(value, dict):
        return None, [SettingsProblem(file=name, line=1, message="must be an object: { … }")]
    return Tree(file=name, values=value, lines=lines), problems


def _first_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs)) if len({name for name, _ in pairs}) < len(pairs) else dict(pairs)


def _note_lines(
    file: str, text: str, at: int, where: Where, lines: dict[Where, int], problems: list[SettingsProblem]
) -> None:
    """Note the line of each name below the value at offset `at`, and report duplicates."""
    if len(where) > _DEPTH:
        raise ValueError("too deep")
    if text[at] != "{":
        return
    for member in iter_json_members(text, at):
        here, line = (*where, member.key), text.count("\n", 0, member.start) + 1
        if here in lines:
            message = f"appears twice; line {lines[here]} is used"
            field = printable(".".join(here))
            problems.append(SettingsProblem(file=file, line=line, field=field, message=message))
            continue
        lines[here] = line
        _note_lines(file, text, member.value_start, here, lines, problems)


def _explain(error: str, text: str, at: int) -> str:
    """The decoder's message, in words that name what is there."""
    if at >= len(text.rstrip()):
        return "unexpected end of file"
    found = printable(text[at : at + 12].split("\n")[0].strip())
    if text[at] in "}]" or error.startswith("Illegal trailing comma"):
        return "trailing comma before this line's bracket, or a missing value"
    if "property name" in error:
        return f'expected a name in double quotes, not "{found}"'
    if "delimiter" in error:
        return f'a {error.split()[1]} is missing before "{found}"'
    if error == "Expecting value":
        return f'"{found}" is not a value; strings need double quotes'
    return f"{error[:1].lower()}{error[1:]}"
