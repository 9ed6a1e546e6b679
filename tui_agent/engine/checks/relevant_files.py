"""Which files of the project matter for a request, found and read before the model is asked (E5, E6)."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence

import msgspec

from tui_agent.common.domain import Target
from tui_agent.engine.checks.name_checks import is_test
from tui_agent.engine.checks.request_reading import RequestReading
from tui_agent.mentions.search import files as walk
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import FileBytes, read_file
from tui_agent.protocols.python_source import Definition, first_line, imported_names, parse_module
from tui_agent.safety.roots import PathError, Roots
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "relevant")

LISTED = 5_000
"""Files that are looked at."""
SECONDS = 2.0
"""For looking at them."""
LARGEST = 200_000
"""Bytes of a file that is read at all."""
WHOLE = 8_000
"""Characters of a project that is shown whole."""
SHARE = 0.35
"""Of the window: what is shown of the project."""
MOST = 24_000
"""Characters that are shown at most: what a small model still keeps track of."""
PER_TOKEN = 3
"""Characters that a token of code has at the least."""


class RelevantFiles(msgspec.Struct, frozen=True):
    """The files that matter."""

    files: dict[str, str] = {}
    """Path → the whole content."""
    shown: dict[str, str] = {}
    """Path → what the model is shown of it: the whole, or the definitions that matter."""
    left: int = 0
    """How many that seem to matter did not fit."""

    def text(self) -> str:
        """As the model sees it."""
        return "\n\n".join(_block(name, text) for name, text in self.shown.items())


def room_in_window(window: int | None) -> int:
    """Characters that may be shown in a window of so many tokens."""
    return MOST if window is None else min(MOST, round(SHARE * PER_TOKEN * window))


def find_relevant_files(reading: RequestReading, roots: Roots, room: int, recent: Sequence[str] = ()) -> RelevantFiles:
    """The files that matter for a request, in at most `room` characters. Does file IO; takes at most a few seconds.

    `recent`: paths that the conversation was about, the latest last. Files that hold credentials are never among them.
    """
    texts = _texts(roots, reading)
    if sum(map(len, texts.values())) <= min(WHOLE, room):
        return RelevantFiles(texts, dict(texts))
    ranked = _ranked(reading, texts, recent)
    files: dict[str, str] = {}
    shown: dict[str, str] = {}
    left = 0
    for name in ranked:
        part = texts[name] if len(texts[name]) <= room else _excerpt(name, texts[name], reading, room)
        if part and len(part) <= room:
            files[name], shown[name] = texts[name], part
            room -= len(part) + len(name) + 10
        else:
            left += 1
    return RelevantFiles(files, shown, left)


def _texts(roots: Roots, reading: RequestReading) -> dict[str, str]:
    """Path → content of the text files, those that the request names among them whatever they are called."""
    several = len(roots.folders) > 1
    until = time.monotonic() + SECONDS
    found: dict[str, str] = {}
    seen = 0
    for label, folder in zip(roots.names, roots.folders, strict=True):
        prefix = f"{label}/" if several else ""
        named = [path.removeprefix(prefix) for path in reading.paths]
        for name in (*(one for one in named if (folder / one).is_file()), *walk(folder)):
            seen += 1
            if seen > LISTED or time.monotonic() > until:
                return found
            if prefix + name not in found and (name in named or _is_text(name)):
                file = readable_text(roots, prefix + name, LARGEST)
                if file is not None:
                    found[prefix + name] = file[2].replace("\r\n", "\n")
    return found


def _is_text(name: str) -> bool:
    base = name.rsplit("/", 1)[-1]
    return not _RE.never.search(name) and (base in _RE.words("named") or _RE.text.search(base) is not None)


def readable_text(roots: Roots, name: str, cap: int) -> tuple[Target, FileBytes, str] | None:
    """A text file of the project that anybody may read; None for every other one. Does file IO."""
    try:
        target = roots.resolve(name)
        if target.credentials or target.outside:
            return None
        file = read_file(target.path, cap)
        text = file.data.decode("utf-8")
    except (FileFault, PathError, OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else (target, file, text)


def _ranked(reading: RequestReading, texts: Mapping[str, str], recent: Sequence[str]) -> list[str]:
    """The files that have to do with the request, those that matter most first."""
    words = {word for word in _RE.word.findall(reading.text) if not _RE.common.fullmatch(word)}
    lower = {word.lower() for word in words}
    score: dict[str, float] = {}
    for name, text in texts.items():
        base = name.rsplit("/", 1)[-1]
        points = 100.0 * (name in reading.paths or base in reading.paths)
        points += 10 * (base.partition(".")[0].lower() in lower)
        points += 8 * (recent.index(name) + 1) / len(recent) if name in recent else 0
        points += sum(_weight(word, text) for word in words)
        if points:
            score[name] = points - is_test(name) * 0.5
    for name in sorted(score, key=lambda one: -score[one])[:5]:
        for other in _related(name, texts):
            score[other] = max(score.get(other, 0), score[name] / 4)
    least = max(score.values(), default=0) / 50
    return sorted((name for name in score if score[name] > least), key=lambda one: (-score[one], one))


def _weight(word: str, text: str) -> float:
    if word not in text:
        return 0
    if re.search(rf"^[ \t]*(?:def|class|function|func|fn|const|let|var|type|struct)?\s*{word}\b\s*[=(:{{]", text, re.M):
        return 6
    code = "_" in word or not word.islower() or len(word) > 7
    return 2 if code and re.search(rf"\b{word}\b", text) else 0.2


def _related(name: str, texts: Mapping[str, str]) -> set[str]:
    """The tests of a file, what tests are of, and modules of the project that it imports."""
    stem = re.sub(r"^test_|_test$", "", name.rsplit("/", 1)[-1].rpartition(".")[0])
    found = {
        other
        for other in texts
        if other != name and re.sub(r"^test_|_test$", "", other.rsplit("/", 1)[-1].rpartition(".")[0]) == stem
    }
    modules = {other[:-3].replace("/", "."): other for other in texts if other.endswith(".py")}
    if name.endswith(".py"):
        found |= {modules[module] for module, _, _ in imported_names(texts[name]) if module in modules}
    return found


def _excerpt(name: str, text: str, reading: RequestReading, room: int) -> str:
    """The imports and the definitions of a long Python file that a request names; empty where that can't be done."""
    tree = parse_module(text) if name.endswith(".py") else None
    if tree is None:
        return ""
    words = set(_RE.word.findall(reading.text))
    lines = text.splitlines(keepends=True)
    parts = []
    for node in tree.body:
        inner = {one.name for one in getattr(node, "body", []) if isinstance(one, Definition)}
        wanted = isinstance(node, Definition) and (node.name in words or bool(inner & words))
        imports = type(node).__name__ in ("Import", "ImportFrom")
        if wanted or imports:
            gap = "" if imports else "\n\n"
            parts.append((wanted, gap + "".join(lines[first_line(node) - 1 : node.end_lineno])))
    if not any(wanted for wanted, _ in parts):
        return ""
    shown = "".join(part for _, part in parts)
    return shown if len(shown) <= room else ""


def _block(name: str, text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{name}\n{fence}\n{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{fence}"


def name_list(files: Collection[str], most: int = 8) -> str:
    """Names for a line of text."""
    names = list(files)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
