"""Which arguments a program may get when it runs unasked: an allow-list a program, in `unasked.json` (R-11)."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from tui_agent.domain import Noun
from tui_agent.shell.plain import PlainWord

_SED_PRINT = re.compile(r"(\d+|\$)(,(\d+|\$|\+\d+))?p")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class Shape(Noun, frozen=True, kw_only=True):
    """What the arguments of a program mean."""

    paths: tuple[PlainWord, ...] = ()
    """All that name files or folders, in their order."""
    walks: bool = False
    """Reads what is in files below its folders."""
    walks_hidden: bool = True
    """The walk goes into what begins with a dot."""
    reads_pipe: bool = False
    """Given no path, it reads what is piped into it instead of walking."""
    files_only: bool = False
    """Must not be given a folder."""
    first: tuple[str, ...] = ()
    """Arguments that we put in front."""


@cache
def table() -> dict[str, dict[str, Any]]:
    """Program → its allow-list."""
    data: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("unasked.json").read_text("utf-8"))
    return {name: data[entry["like"]] if "like" in entry else entry for name, entry in data.items()}


@cache
def _find_table() -> dict[str, frozenset[str]]:
    data = json.loads(Path(__file__).with_name("find_tests.json").read_text("utf-8"))
    return {kind: frozenset(names) for kind, names in data.items()}


class _NotAllowed(Exception):
    pass


def shape(program: str, arguments: tuple[PlainWord, ...]) -> Shape | None:
    """What the arguments mean; None when the program or one of them is not on the list."""
    entry = table().get(program)
    if entry is None:
        return None
    try:
        return _shape(entry, arguments)
    except _NotAllowed:
        return None


def _shape(entry: dict[str, Any], arguments: tuple[PlainWord, ...]) -> Shape:
    match entry["operands"]:
        case "echo":
            _literal(arguments)
            return Shape()
        case "printf":
            _literal(arguments)
            _require(bool(arguments) and not arguments[0].text.startswith("-"))
            return Shape()
        case "find":
            return Shape(paths=_find(arguments))
        case "sed":
            return Shape(paths=_sed(arguments))
    return _operands(entry, *_split(entry, arguments))


def _operands(
    entry: dict[str, Any], operands: list[PlainWord], paths: list[PlainWord], seen: set[str]
) -> Shape:
    kind = entry["operands"]
    if kind == "pattern":
        if not seen & set(entry["pattern_options"].split()):
            _require(bool(operands))
            _literal(operands[:1])
            operands = operands[1:]
        always = entry["walks"] == "always"
        return Shape(
            paths=(*paths, *operands),
            walks=always or bool(seen & set(entry["walks"].split())),
            walks_hidden=not always or bool(seen & set(entry["hidden_with"].split())),
            reads_pipe=always,
            first=tuple(entry.get("first", ())),
        )
    if kind in ("paths", "files"):
        _require(len(operands) <= entry.get("most", 100_000))
        return Shape(paths=(*paths, *operands), files_only=kind == "files")
    _literal(operands)
    texts = [operand.text for operand in operands]
    _require(
        {
            "text": True,
            "none": not texts,
            "format": all(text.startswith("+") for text in texts),
            "numbers": all(_NUMBER.fullmatch(text) and len(text) <= 6 for text in texts),
        }[kind]
    )
    return Shape(paths=tuple(paths))


def _split(
    entry: dict[str, Any], arguments: tuple[PlainWord, ...]
) -> tuple[list[PlainWord], list[PlainWord], set[str]]:
    """Operands, paths given to options, and the names of the options seen."""
    operands: list[PlainWord] = []
    paths: list[PlainWord] = []
    seen: set[str] = set()
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word.text == "--":
            operands += waiting
            break
        if not word.text.startswith("-") or word.text == "-":
            operands.append(word)
            continue
        _literal([word])
        if word.text.startswith("--"):
            _long(entry, word.text[2:], waiting, seen, paths)
        else:
            _short(entry, word.text[1:], waiting, seen, paths)
    return operands, paths, seen


def _long(
    entry: dict[str, Any], text: str, waiting: list[PlainWord], seen: set[str], paths: list[PlainWord]
) -> None:
    name, equals, value = text.partition("=")
    allowed = entry.get("long", "").split()
    seen.add(name)
    if name in allowed:
        _require(not equals)
    elif f"{name}=" in allowed:
        if not equals:
            _value(waiting)
    elif f"{name}=p" in allowed:
        paths.append(PlainWord(text=value) if equals else _value(waiting))
    else:
        _require(f"{name}?" in allowed)


def _short(
    entry: dict[str, Any], letters: str, waiting: list[PlainWord], seen: set[str], paths: list[PlainWord]
) -> None:
    if entry.get("number") and letters[0].isdigit():
        # `head -5c FILE`: what follows the digits is a unit, not an option with a value.
        _require(letters.isdigit())
        return
    for place, letter in enumerate(letters):
        seen.add(letter)
        rest = letters[place + 1 :]
        if letter in entry.get("apart", ""):
            # The next word is its value, and the letters after it are options of their own.
            _require(not rest or rest.isdigit())
            if not rest:
                _value(waiting)
            return
        if letter in entry.get("optional", ""):
            return
        if letter in entry.get("values", ""):
            if not rest:
                _value(waiting)
            return
        if letter in entry.get("path_values", ""):
            paths.append(PlainWord(text=rest) if rest else _value(waiting))
            return
        _require(letter in entry.get("short", ""))


def _value(waiting: list[PlainWord]) -> PlainWord:
    _require(bool(waiting))
    _literal(waiting[:1])
    return waiting.pop(0)


def _find(arguments: tuple[PlainWord, ...]) -> tuple[PlainWord, ...]:
    tests = _find_table()
    waiting = list(arguments)
    paths: list[PlainWord] = []
    while waiting and waiting[0].text == "-P":
        waiting.pop(0)
    while waiting and not waiting[0].text.startswith(("-", "(", "!", ",")):
        paths.append(waiting.pop(0))
    _literal(waiting)
    while waiting:
        word = waiting.pop(0)
        if word.text in tests["text"]:
            _value(waiting)
        elif word.text in tests["path"]:
            paths.append(_value(waiting))
        else:
            _require(word.text in tests["alone"])
    return tuple(paths)


def _sed(arguments: tuple[PlainWord, ...]) -> tuple[PlainWord, ...]:
    """Only `sed -n 'A,Bp' FILE…`: other scripts can write files and run programs."""
    _require(
        len(arguments) > 1 and arguments[0].text == "-n" and bool(_SED_PRINT.fullmatch(arguments[1].text))
    )
    paths = arguments[2:]
    _require(not any(path.text.startswith("-") for path in paths))
    return paths


def _literal(words: tuple[PlainWord, ...] | list[PlainWord]) -> None:
    """File name patterns only where files are named."""
    _require(not any(word.pattern for word in words))


def _require(fits: bool) -> None:
    if not fits:
        raise _NotAllowed
