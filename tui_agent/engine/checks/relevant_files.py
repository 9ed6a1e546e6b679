"""The project files that matter for a request, found and read before the model is asked (E5, E6)."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Collection, Mapping, Sequence

import msgspec

from tui_agent.checkpoints.survey import SKIPPED_FOLDERS
from tui_agent.common.domain import Target
from tui_agent.engine.checks.name_checks import is_test
from tui_agent.engine.checks.request_reading import RequestReading
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import FileBytes, read_file
from tui_agent.protocols.python_source import Definition, first_line, imported_names, parse_module
from tui_agent.safety.roots import PathError, Roots
from tui_agent.text.patterns import Patterns
from tui_agent.tools.gitignore import list_files

_RE = Patterns("tui_agent.engine.checks", "relevant")

MAX_FILES = 5_000
"""Files that are searched."""
MAX_SEARCH_TIME = 2.0
"""Seconds."""
MAX_FILE_SIZE = 200_000
"""Bytes of a file that is read."""
MAX_WHOLE_PROJECT = 8_000
"""Characters of a project that is shown completely."""
WINDOW_SHARE = 0.35
"""Share of the context window for project files."""
MAX_SHOWN = 24_000
"""Characters shown at most: what a small model can keep track of."""
CHARS_PER_TOKEN = 3
"""Characters in a token of code, at least."""


class RelevantFiles(msgspec.Struct, frozen=True):
    """The files that matter for a request."""

    files: dict[str, str] = {}
    """Path → content."""
    shown: dict[str, str] = {}
    """Path → what the model sees: the content, or the definitions that matter."""
    omitted: int = 0
    """Number of files that may matter but did not fit."""

    def text(self) -> str:
        """Return the files as the model sees them."""
        return "\n\n".join(_block(path, text) for path, text in self.shown.items())


def room_in_window(window: int | None) -> int:
    """Return how many characters may be shown in a context window of so many tokens."""
    return MAX_SHOWN if window is None else min(MAX_SHOWN, round(WINDOW_SHARE * CHARS_PER_TOKEN * window))


def find_relevant_files(request: RequestReading, roots: Roots, room: int, recent: Sequence[str] = ()) -> RelevantFiles:
    """Find the files that matter for a request, in at most `room` characters. Does file IO for at most a few seconds.

    `recent`: paths that the conversation was about, latest last. Files with credentials are excluded.
    """
    texts = _read_texts(roots, request)
    if sum(map(len, texts.values())) <= min(MAX_WHOLE_PROJECT, room):
        return RelevantFiles(texts, dict(texts))
    ranked = _rank(request, texts, recent)
    files: dict[str, str] = {}
    shown: dict[str, str] = {}
    for path in ranked:
        text = texts[path] if len(texts[path]) <= room else _excerpt(path, texts[path], request, room)
        if text and len(text) <= room:
            files[path], shown[path] = texts[path], text
            room -= len(text) + len(path) + 10
    return RelevantFiles(files, shown, len(ranked) - len(files))


def _read_texts(roots: Roots, request: RequestReading) -> dict[str, str]:
    """Return path → content of the text files, first those that the request mentions, whatever their names."""
    deadline = time.monotonic() + MAX_SEARCH_TIME
    texts: dict[str, str] = {}
    seen = 0
    for label, folder in zip(roots.names, roots.folders, strict=True):
        prefix = f"{label}/" if len(roots.folders) > 1 else ""
        mentioned = [path.removeprefix(prefix) for path in request.paths]
        for name in (*(path for path in mentioned if (folder / path).is_file()), *list_files(folder, SKIPPED_FOLDERS)):
            seen += 1
            if seen > MAX_FILES or time.monotonic() > deadline:
                return texts
            if prefix + name not in texts and (name in mentioned or _is_text_file(name)):
                readable = read_workspace_text(roots, prefix + name, MAX_FILE_SIZE)
                if readable is not None:
                    texts[prefix + name] = readable[2].replace("\r\n", "\n")
    return texts


def _is_text_file(path: str) -> bool:
    base = path.rsplit("/", 1)[-1]
    is_text = base in _RE.words("text_file_names") or _RE.text_file.search(base) is not None
    return is_text and not _RE.ignored_path.search(path)


def read_workspace_text(roots: Roots, path: str, max_size: int) -> tuple[Target, FileBytes, str] | None:
    """Read a text file of the workspace; None if it is unreadable, binary or may hold credentials. Does file IO."""
    try:
        target = roots.resolve(path)
        if target.credentials or target.outside:
            return None
        file = read_file(target.path, max_size)
        text = file.data.decode("utf-8")
    except (FileFault, PathError, OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else (target, file, text)


def _rank(request: RequestReading, texts: Mapping[str, str], recent: Sequence[str]) -> list[str]:
    """Return the files related to a request, most relevant first."""
    words = {word for word in _RE.word.findall(request.text) if not _RE.common_word.fullmatch(word)}
    lower_words = {word.lower() for word in words}
    scores: dict[str, float] = {}
    for path, text in texts.items():
        base = path.rsplit("/", 1)[-1]
        score = 100.0 * (path in request.paths or base in request.paths)
        score += 10 * (base.partition(".")[0].lower() in lower_words)
        score += 8 * (recent.index(path) + 1) / len(recent) if path in recent else 0
        score += sum(_word_score(word, text) for word in words)
        if score:
            scores[path] = score - is_test(path) * 0.5
    for path in sorted(scores, key=lambda path: -scores[path])[:5]:
        for other in _related_files(path, texts):
            scores[other] = max(scores.get(other, 0), scores[path] / 4)
    threshold = max(scores.values(), default=0) / 50
    ranked = sorted(scores, key=lambda path: (-scores[path], path))
    return [path for path in ranked if scores[path] > threshold]


def _word_score(word: str, text: str) -> float:
    if word not in text:
        return 0
    if re.search(rf"^[ \t]*(?:def|class|function|func|fn|const|let|var|type|struct)?\s*{word}\b\s*[=(:{{]", text, re.M):
        return 6
    is_identifier = "_" in word or not word.islower() or len(word) > 7
    return 2 if is_identifier and re.search(rf"\b{word}\b", text) else 0.2


def _related_files(path: str, texts: Mapping[str, str]) -> set[str]:
    """Return the tests of a file, the files it tests, and the project modules it imports."""
    related = {other for other in texts if other != path and _tested_name(other) == _tested_name(path)}
    if path.endswith(".py"):
        modules = {other[:-3].replace("/", "."): other for other in texts if other.endswith(".py")}
        related |= {modules[module] for module, _, _ in imported_names(texts[path]) if module in modules}
    return related


def _tested_name(path: str) -> str:
    return re.sub(r"^test_|_test$", "", path.rsplit("/", 1)[-1].rpartition(".")[0])


def _excerpt(path: str, text: str, request: RequestReading, room: int) -> str:
    """Return the imports of a long Python file and the definitions a request names; empty if that is impossible."""
    tree = parse_module(text) if path.endswith(".py") else None
    if tree is None:
        return ""
    words = set(_RE.word.findall(request.text))
    lines = text.splitlines(keepends=True)
    excerpt, has_definition = "", False
    for node in tree.body:
        members = {item.name for item in getattr(node, "body", []) if isinstance(item, Definition)}
        is_wanted = isinstance(node, Definition) and (node.name in words or bool(members & words))
        has_definition = has_definition or is_wanted
        source = "".join(lines[first_line(node) - 1 : node.end_lineno])
        if is_wanted:
            excerpt += "\n\n" + source
        elif isinstance(node, ast.Import | ast.ImportFrom):
            excerpt += source
    return excerpt if has_definition and len(excerpt) <= room else ""


def _block(path: str, text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{path}\n{fence}\n{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{fence}"


def name_list(files: Collection[str], limit: int = 8) -> str:
    """Return the first names, comma-separated, and how many more there are."""
    names = list(files)
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
