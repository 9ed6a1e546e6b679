"""Parsing YAML and JSON files into plain values with line numbers, safely and with limits."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.text.json_values import iter_json_members

MAX_FILE_SIZE = 256 * 1024
"""Maximum size of a settings file in bytes."""

_MAX_DEPTH = 16
_MAX_NODES = 20_000

KeyPath = tuple[str, ...]
"""The keys that lead to a value."""


class SettingsProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An error in one place, or, with `ignored`, what was not used of a workspace's settings."""

    file: str
    """A file, `environment` or `command line`."""
    line: int | None = None
    """1-based; None without lines."""
    field: str = ""
    """Dotted name of the setting, as written."""
    message: str
    ignored: bool = False
    """True for an error in a workspace's settings, and for a value that would loosen a setting."""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"{place}: {self.field}: {self.message}" if self.field else f"{place}: {self.message}"


class SettingsTree(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one source."""

    file: str
    values: dict[str, Any]
    lines: dict[KeyPath, int] = {}

    def line(self, key_path: KeyPath) -> int | None:
        """Return the line of a value, or of the nearest enclosing group."""
        while key_path:
            if key_path in self.lines:
                return self.lines[key_path]
            key_path = key_path[:-1]
        return None

    def problem(self, key_path: KeyPath, message: str, *, ignored: bool = False) -> SettingsProblem:
        """Return a problem with a value of this source."""
        field = printable(".".join(key_path))
        return SettingsProblem(file=self.file, line=self.line(key_path), field=field, message=message, ignored=ignored)


def printable(text: str, limit: int = 80) -> str:
    """Shorten a text for a message and escape invisible characters."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:limit])
    return escaped + "…" if len(text) > limit else escaped


def read_tree(path: Path, *, follow: bool = True) -> tuple[SettingsTree | None, list[SettingsProblem]]:
    """Parse the file at `path`; None if it does not exist or is unusable. `follow` permits a symbolic link."""
    text, problems = read_text(path, follow=follow)
    return (None, problems) if text is None else parse_tree(str(path), text)


def read_text(path: Path, *, follow: bool = True) -> tuple[str | None, list[SettingsProblem]]:
    """Read a settings file; None without problems if it does not exist, else with a problem."""
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


def parse_tree(name: str, text: str) -> tuple[SettingsTree | None, list[SettingsProblem]]:
    """Parse YAML; reports the first syntax error, or all duplicate keys."""
    import yaml  # slow, and only a settings file needs it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_bounds(yaml, yaml.parse(text, Loader=loader))
        root = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        details = " ".join(part for part in (error.context, error.problem) if part)
        line = mark.line + 1 if mark else None
        return None, [SettingsProblem(file=name, line=line, message=f"is not valid YAML: {printable(details, 200)}")]
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        return None, [SettingsProblem(file=name, line=line, message="contains a character that YAML does not allow")]
    except yaml.YAMLError as error:
        return None, [SettingsProblem(file=name, message=f"is not valid YAML: {printable(str(error), 200)}")]
    if root is None:
        return SettingsTree(file=name, values={}), []
    if not isinstance(root, yaml.MappingNode):
        message = "must be a list of settings, each as `name: value`"
        return None, [SettingsProblem(file=name, line=root.start_mark.line + 1, message=message)]
    builder = _TreeBuilder(name)
    values = builder.mapping(root, ())
    return SettingsTree(file=name, values=values, lines=builder.lines), builder.problems


def read_bounded(path: Path, *, follow: bool = True) -> bytes:
    """Read a settings file. Raises OSError, and ValueError for other problems."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    fd = os.open(path, flags)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("is not a file")
        data = file.read(MAX_FILE_SIZE + 1)
        if len(data) > MAX_FILE_SIZE:
            raise ValueError(f"has {max(status.st_size, len(data)):,} bytes; the limit is {MAX_FILE_SIZE:,}")
        return data


def _check_bounds(yaml: Any, events: Any) -> None:
    depth = 0
    for nodes, event in enumerate(events):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        message = (
            "settings can't use aliases"
            if isinstance(event, yaml.AliasEvent)
            else "nested too deeply"
            if depth > _MAX_DEPTH
            else "too many values"
            if nodes > _MAX_NODES
            else None
        )
        if message:
            raise yaml.MarkedYAMLError(problem=message, problem_mark=event.start_mark)


class _TreeBuilder:
    """Builds plain values from YAML nodes."""

    def __init__(self, name: str) -> None:
        from yaml.constructor import SafeConstructor

        self._name = name
        self._constructor = SafeConstructor()
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[SettingsProblem] = []

    def mapping(self, node: Any, key_path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key.value, str):
                self._problem(line, key_path, "the name of a setting must be a word")
                continue
            child_path = (*key_path, key.value)
            if key.value in values:
                self._problem(line, child_path, f"is set twice; line {self.lines[child_path]} is used")
                continue
            self.lines[child_path] = line
            try:
                values[key.value] = self._value(value, child_path)
            except ValueError:
                self._problem(line, child_path, "has a value that can't be read")
        return values

    def _value(self, node: Any, key_path: KeyPath) -> Any:
        import yaml

        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, key_path)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, key_path) for item in node.value]
        try:
            return self._constructor.construct_object(node, deep=True)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error

    def _problem(self, line: int, key_path: KeyPath, message: str) -> None:
        field = printable(".".join(key_path))
        self.problems.append(SettingsProblem(file=self._name, line=line, field=field, message=message))


# --- JSON -----------------------------------------------------------------------------------


def read_json_tree(path: Path) -> tuple[SettingsTree | None, list[SettingsProblem]]:
    """Parse a JSON file; None without problems if it does not exist, else with the first problem.

    A file that is not a JSON object is unusable; duplicate names are reported, and the first value is used.
    """
    text, problems = read_text(path)
    return (None, problems) if text is None else parse_json_tree(str(path), text)


def parse_json_tree(name: str, text: str) -> tuple[SettingsTree | None, list[SettingsProblem]]:
    """Parse JSON, see `read_json_tree`."""
    lines: dict[KeyPath, int] = {}
    problems: list[SettingsProblem] = []
    try:
        value = json.loads(text, object_pairs_hook=_keep_first)
        _record_lines(name, text, len(text) - len(text.lstrip()), (), lines, problems)
    except json.JSONDecodeError as error:
        message = (
            f"is not valid JSON: {_explain_json_error(error.msg, text, error.pos)}" if text.strip() else "is empty"
        )
        return None, [SettingsProblem(file=name, line=error.lineno, message=message)]
    except (RecursionError, ValueError):
        return None, [SettingsProblem(file=name, message="is nested too deeply, or contains an overlong number")]
    if not isinstance(value, dict):
        return None, [SettingsProblem(file=name, line=1, message="must be an object: { … }")]
    return SettingsTree(file=name, values=value, lines=lines), problems


def _keep_first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs)) if len({name for name, _ in pairs}) < len(pairs) else dict(pairs)


def _record_lines(
    file: str, text: str, at: int, key_path: KeyPath, lines: dict[KeyPath, int], problems: list[SettingsProblem]
) -> None:
    """Record the line of each name below the value at offset `at`, and report duplicates."""
    if len(key_path) > _MAX_DEPTH:
        raise ValueError("too deep")
    if text[at] != "{":
        return
    for member in iter_json_members(text, at):
        child_path, line = (*key_path, member.key), text.count("\n", 0, member.start) + 1
        if child_path in lines:
            message = f"appears twice; line {lines[child_path]} is used"
            field = printable(".".join(child_path))
            problems.append(SettingsProblem(file=file, line=line, field=field, message=message))
            continue
        lines[child_path] = line
        _record_lines(file, text, member.value_start, child_path, lines, problems)


def _explain_json_error(error: str, text: str, at: int) -> str:
    """Turn the decoder's message into one that quotes the text."""
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
