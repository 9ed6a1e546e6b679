"""Reading a JSON file into plain values that remember their lines, within the same bounds as YAML (I05, I06)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tui_agent.settings.yaml_tree import SettingsProblem, Tree, Where, printable, read_text

_DEPTH = 16
_BLANK = re.compile(r"[ \t\n\r]*")
_SCALAR = json.JSONDecoder()


def read_json_tree(path: Path) -> tuple[Tree | None, list[SettingsProblem]]:
    """The values of the file at `path`: None without problems when there is no such file, else with the first one.

    A file that holds no JSON object is of no use as a whole; a name that is there twice is told, and its first
    value counts.
    """
    text, problems = read_text(path)
    return (None, problems) if text is None else parse_json_tree(str(path), text)


def parse_json_tree(name: str, text: str) -> tuple[Tree | None, list[SettingsProblem]]:
    """The same of `text`."""
    try:
        json.loads(text)
        walk = _Walk(name, text)
        value, _ = walk.value(0, ())
    except json.JSONDecodeError as error:
        said = "is empty" if not text.strip() else f"is not valid JSON: {_plain(error.msg, text, error.pos)}"
        return None, [SettingsProblem(file=name, line=error.lineno, message=said)]
    except (RecursionError, ValueError):
        return None, [SettingsProblem(file=name, message="is nested too deeply, or holds an endless number")]
    if not isinstance(value, dict):
        return None, [SettingsProblem(file=name, line=1, message="must be an object: { … }")]
    return Tree(file=name, values=value, lines=walk.lines), walk.problems


def _plain(said: str, text: str, at: int) -> str:
    """What the decoder says, in words that name what stands there."""
    if at >= len(text.rstrip()):
        return "it ends too early"
    found = printable(text[at : at + 12].split("\n")[0].strip())
    if text[at] in "}]" or said.startswith("Illegal trailing comma"):
        return "there is a comma too many before this line's bracket, or a value is missing"
    if "property name" in said:
        return f'a name in double quotes is wanted, not "{found}"'
    if "delimiter" in said:
        return f'a {said.split()[1]} is missing before "{found}"'
    if said == "Expecting value":
        return f'"{found}" is no value; texts stand in double quotes'
    return f"{said[:1].lower()}{said[1:]}"


class _Walk:
    """Walks through text that is known to be JSON, and notes the line of each name."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._line, self._at = 1, 0
        self.lines: dict[Where, int] = {}
        self.problems: list[SettingsProblem] = []

    def value(self, at: int, where: Where) -> tuple[Any, int]:
        """The value at `at`, and where it ends."""
        at = self._skip(at)
        if len(where) > _DEPTH:
            raise ValueError("too deep")
        if self._text[at] == "{":
            return self._object(at + 1, where)
        if self._text[at] == "[":
            return self._list(at + 1, where)
        return _SCALAR.raw_decode(self._text, at)

    def _object(self, at: int, where: Where) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        while self._text[at := self._skip(at)] != "}":
            if self._text[at] == ",":
                at = self._skip(at + 1)
            line = self._line_of(at)
            key, at = _SCALAR.raw_decode(self._text, at)
            here = (*where, key)
            twice = key in values
            if not twice:
                self.lines[here] = line
            known = dict(self.lines) if twice else {}
            value, at = self.value(self._skip(at) + 1, here)
            if twice:
                self.lines = known
                message = f"is there twice; line {self.lines[here]} counts"
                field = printable(".".join(here))
                self.problems.append(
                    SettingsProblem(file=self._name, line=line, field=field, message=message)
                )
            else:
                values[key] = value
        return values, at + 1

    def _list(self, at: int, where: Where) -> tuple[list[Any], int]:
        values: list[Any] = []
        while self._text[at := self._skip(at)] != "]":
            if self._text[at] == ",":
                at += 1
            value, at = self.value(at, (*where, str(len(values))))
            values.append(value)
        return values, at + 1

    def _skip(self, at: int) -> int:
        found = _BLANK.match(self._text, at)
        return found.end() if found else at

    def _line_of(self, at: int) -> int:
        """Lines are counted on from the last place, so that the whole takes one pass."""
        self._line += self._text.count("\n", self._at, at)
        self._at = at
        return self._line
