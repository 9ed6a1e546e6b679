"""Keeps what was measured of a model in its entry of models.json; all else in the file stays byte for byte (E4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.models.catalog import Calibration, same_model
from tui_agent.platform.files import FileFault, read_file, replace_file

_BOM = "\ufeff"
_MOST = 4_000_000
"""Bytes of the file that are read at most."""
_NAME = "calibration"
_INDENT = "  "
Member = tuple[str, int, int, int]
"""Name of a member of an object, where its name begins, and where its value begins and ends."""


class CannotKeep(Exception):
    """The file is left as it is; the message is for the user."""


def save(path: Path, model: str, found: Calibration) -> None:
    """Put `found` into the entry of `model` in the file at `path`, which is there; the entry is made where there is
    none. Blocks for a moment. Raises CannotKeep."""
    try:
        real = path.resolve()
        old = read_file(real, _MOST)
        new = with_calibration(old.data.decode("utf-8"), model, found)
        if new.encode() != old.data:
            replace_file(real, new.encode(), old.sha256)
    except (FileFault, OSError) as error:
        raise CannotKeep(f"{path} could not be written: {error}") from error
    except UnicodeDecodeError as error:
        raise CannotKeep(f"{path} is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise CannotKeep(f"{path} is not as it should be: {error}") from error


def with_calibration(text: str, model: str, found: Calibration) -> str:
    """The text of models.json with `found` in the entry of `model`. Raises ValueError where it is no JSON, or
    `models` and the entry are no objects."""
    bom, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    whole = json.loads(text)
    value = json.dumps(msgspec.to_builtins(found), ensure_ascii=False)
    at = _object(text, len(text) - len(text.lstrip()), "the file")
    models = _member(text, at, "models")
    if models is None:
        return bom + _put(
            text, at, "models", json.dumps({model: {_NAME: json.loads(value)}}, ensure_ascii=False)
        )
    at = _object(text, models, '"models"')
    name = _known_as(whole["models"], model)
    entry = _member(text, at, name)
    if entry is None:
        return bom + _put(text, at, model, f'{{"{_NAME}": {value}}}')
    return bom + _put(text, _object(text, entry, f'the entry of "{name}"'), _NAME, value)


def _known_as(models: dict[str, Any], model: str) -> str:
    if model in models:
        return model
    return next((name for name in models if same_model(name, model)), model)


def _object(text: str, at: int, what: str) -> int:
    if text[at] != "{":
        raise ValueError(f"{what} is no object in braces")
    return at


def _member(text: str, at: int, name: str) -> int | None:
    """Where the value of a member begins, of the object at `at`; the first of several, which is the one that counts."""
    return next((start for key, _, start, _ in _members(text, at) if key == name), None)


def _members(text: str, at: int) -> list[Member]:
    """The members of the object whose brace is at `at`, in a text that is known to be JSON."""
    decoder = json.JSONDecoder()
    found: list[Member] = []
    at = _blank(text, at + 1)
    while text[at] != "}":
        begins = at
        name, at = decoder.raw_decode(text, begins)
        starts = _blank(text, _blank(text, at) + 1)
        _, ends = decoder.raw_decode(text, starts)
        found.append((name, begins, starts, ends))
        at = _blank(text, ends)
        if text[at] == ",":
            at = _blank(text, at + 1)
    return found


def _blank(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _put(text: str, at: int, name: str, value: str) -> str:
    """The text with a member of the object at `at` set: in its place, else behind the others and laid out as they
    are."""
    members = _members(text, at)
    for key, _, starts, ends in members:
        if key == name:
            return text[:starts] + value + text[ends:]
    member = f"{json.dumps(name, ensure_ascii=False)}: {value}"
    if members:
        _, begins, _, _ = members[-1]
        ends = members[-1][3]
        lead = text[text.rfind("\n", 0, begins) + 1 : begins]
        gap = " " if lead.strip() or not _has_line(text, at, begins) else f"{_line_end(text)}{lead}"
        return f"{text[:ends]},{gap}{member}{text[ends:]}"
    lead = text[text.rfind("\n", 0, at) + 1 : at]
    indent = lead[: len(lead) - len(lead.lstrip())]
    end = _blank(text, at + 1)
    line = _line_end(text)
    return f"{text[: at + 1]}{line}{indent}{_INDENT}{member}{line}{indent}{text[end:]}"


def _has_line(text: str, at: int, until: int) -> bool:
    return "\n" in text[at:until]


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
