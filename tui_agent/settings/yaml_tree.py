"""Reading a YAML file into plain values that remember their lines, safely and within bounds (I05)."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec

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
    """True for a workspace setting that would loosen: nothing is broken, it just does not count (R-02)."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.field}: {self.message}" if self.field else f"{place}: {self.message}"


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """Values of one source."""

    file: str
    values: dict[str, Any]
    lines: dict[Where, int]

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
        return None, [
            SettingsProblem(file=name, line=line, message=f"is not valid YAML: {printable(said, 200)}")
        ]
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return None, [
            SettingsProblem(file=name, line=line, message="holds a character that YAML does not allow")
        ]
    except yaml.YAMLError as error:
        return None, [SettingsProblem(file=name, message=f"is not valid YAML: {printable(str(error), 200)}")]
    if root is None:
        return Tree(file=name, values={}, lines={}), []
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
            raise ValueError(f"has {max(found.st_size, len(data)):,} bytes; settings may have {LIMIT:,}")
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
            else "this is nested too deeply"
            if depth > _DEPTH
            else "these are too many values"
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
                self._problem(line, where, "a name of a setting must be a word")
                continue
            here = (*where, key.value)
            if key.value in values:
                self._problem(line, here, f"is set twice; line {self.lines[here]} counts")
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
