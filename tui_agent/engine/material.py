"""Which files of the project matter for a request, found and read before the model is asked (E5, E6)."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from tui_agent.engine.mention_walk import files as walk
from tui_agent.engine.name_checks import is_test
from tui_agent.engine.request_reading import Reading
from tui_agent.platform.files import FileFault, read_file
from tui_agent.protocols.python_source import Defining, imported, parsed
from tui_agent.safety.roots import PathError, Roots

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
_TEXT = re.compile(
    r"\.(?:py|pyi|js|mjs|cjs|ts|jsx|tsx|json|jsonc|ya?ml|toml|md|rst|txt|html|css|scss|cfg|ini|sh|bash|go|rs|rb|java|kt"
    r"|c|h|cpp|hpp|cc|cs|php|swift|lua|sql|xml|gradle|exs?|erl|hs|mli?|scala|dart|vue|svelte|jl|p[lm]|mk)$",
    re.IGNORECASE,
)
_NAMED = frozenset(
    ("Makefile", "Dockerfile", "Justfile", "justfile", ".gitignore", ".dockerignore", ".editorconfig")
)
_NEVER = re.compile(
    r"(?:^|/)(?:\.git|node_modules|__pycache__|\.venv|venv|dist|build|target|vendor)/"
    r"|(?:\.lock|-lock\.json|\.min\.js|\.map|\.log|plan_doc\.md|chat_history\.log)$"
)
_WORD = re.compile(r"[A-Za-z_]\w{2,}")
_COMMON = re.compile(
    r"(?:the|and|that|this|with|from|files?|class|method|should|must|make|add|fix|change|create|write|run|tests?|all|uses?"
    r"|used|not|for|into|what|which|where|how|why|when|has|have|are|was|does|returns?|raises?|values?|names?|text|list"
    r"|number|first|last|lines?|new|old|its|also|only|everywhere|project|code|python|please|some|any|each|every|them|they"
    r"|then|than|there|here|function)",
    re.IGNORECASE,
)


class Material(msgspec.Struct, frozen=True):
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


def room_for(window: int | None) -> int:
    """Characters that may be shown in a window of so many tokens."""
    return MOST if window is None else min(MOST, round(SHARE * PER_TOKEN * window))


def gather(reading: Reading, roots: Roots, room: int, recent: Sequence[str] = ()) -> Material:
    """The files that matter for a request, in at most `room` characters. Does file IO; takes at most a few seconds.

    `recent`: paths that the conversation was about, the latest last. Files that hold credentials are never among them.
    """
    texts = _texts(roots, reading)
    if sum(map(len, texts.values())) <= min(WHOLE, room):
        return Material(texts, dict(texts))
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
    return Material(files, shown, left)


def _texts(roots: Roots, reading: Reading) -> dict[str, str]:
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
                text = _content(roots, folder, name, prefix)
                if text is not None:
                    found[prefix + name] = text
    return found


def _is_text(name: str) -> bool:
    base = name.rsplit("/", 1)[-1]
    return not _NEVER.search(name) and (base in _NAMED or _TEXT.search(base) is not None)


def _content(roots: Roots, folder: Path, name: str, prefix: str) -> str | None:
    try:
        target = roots.resolve(prefix + name)
        if target.credentials or target.outside:
            return None
        text = read_file(folder / name, LARGEST).data.decode("utf-8")
    except (FileFault, PathError, OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text.replace("\r\n", "\n")


def _ranked(reading: Reading, texts: Mapping[str, str], recent: Sequence[str]) -> list[str]:
    """The files that have to do with the request, those that matter most first."""
    words = {word for word in _WORD.findall(reading.text) if not _COMMON.fullmatch(word)}
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
    if re.search(
        rf"^[ \t]*(?:def|class|function|func|fn|const|let|var|type|struct)?\s*{word}\b\s*[=(:{{]", text, re.M
    ):
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
        found |= {modules[module] for module, _, _ in imported(texts[name]) if module in modules}
    return found


def _excerpt(name: str, text: str, reading: Reading, room: int) -> str:
    """The imports and the definitions of a long Python file that a request names; empty where that can't be done."""
    tree = parsed(text) if name.endswith(".py") else None
    if tree is None:
        return ""
    words = set(_WORD.findall(reading.text))
    lines = text.splitlines(keepends=True)
    parts = []
    for node in tree.body:
        inner = {one.name for one in getattr(node, "body", []) if isinstance(one, Defining)}
        wanted = isinstance(node, Defining) and (node.name in words or bool(inner & words))
        imports = type(node).__name__ in ("Import", "ImportFrom")
        if wanted or imports:
            decorators = node.decorator_list if isinstance(node, Defining) else []
            first = min([node.lineno, *(one.lineno for one in decorators)])
            gap = "" if imports else "\n\n"
            parts.append((wanted, gap + "".join(lines[first - 1 : node.end_lineno])))
    if not any(wanted for wanted, _ in parts):
        return ""
    shown = "".join(part for _, part in parts)
    return shown if len(shown) <= room else ""


def _block(name: str, text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{name}\n{fence}\n{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{fence}"


def names_of(files: Collection[str], most: int = 8) -> str:
    """Names for a line of text."""
    names = list(files)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
