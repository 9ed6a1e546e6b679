"""The search without ripgrep: a program of its own, so that no pattern can hold up the agent.

Started with one argument, the request as JSON; prints lines in ripgrep's JSON format, and finds what ripgrep finds:
line by line, in files of text that .gitignore does not leave out, in the order of their paths.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from tui_agent.platform.safe_open import open_folder
from tui_agent.tools.gitignore import GitIgnore, sorted_entries

FILE_CAP = 10 * 1024 * 1024
DEPTH = 100
PER_FILE = 100
"""Matches of one file."""

Span: TypeAlias = tuple[int, int, int]
"""First and last line of a match, counted from 0, and where in the first it begins."""

_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "xdigit": "0-9a-fA-F",
    "space": r"\s", "blank": r" \t", "word": r"\w", "punct": r"!-/:-@\[-`{-~", "cntrl": r"\x00-\x1f\x7f",
}  # fmt: skip
_LOOKS_AROUND = re.compile(r"\(\?<?!|\\[AZzG]")


def run_worker() -> int:
    """Exit code 0 when something was found, 1 when not, 2 when the pattern is wrong (with a word on stderr)."""
    request = json.loads(sys.argv[1])
    try:
        wanted = SearchQuery(request["query"], request["is_regex"])
    except (re.error, RecursionError, OverflowError) as error:
        print(f"regex parse error: {error}", file=sys.stderr)
        return 2
    found = False
    try:
        for folder, root in request["places"]:
            for path, data in _files(Path(folder), Path(root)):
                found = _search(path, data, wanted, int(request["context"])) or found
    except BrokenPipeError:
        os._exit(0)
    return 0 if found else 1


class SearchQuery:
    """What is looked for. Raises re.error."""

    def __init__(self, query: str, is_regex: bool) -> None:
        text = query if is_regex else re.escape(query)
        self.lines = "\n" in query or (is_regex and "\\n" in query)
        """A match may reach over several lines."""
        exact = has_capitals(query, is_regex)
        flags = re.MULTILINE if exact else re.MULTILINE | re.IGNORECASE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.pattern = re.compile(_spelt(text) if is_regex else text, flags)
        self.needle = query.encode("utf-8", "surrogateescape") if exact and not is_regex else b""
        """Bytes that a file with a match must hold."""
        self.small = query.encode().lower() if not exact and not is_regex and query.isascii() else b""
        """The same in small letters."""
        self.sure = not (is_regex and _LOOKS_AROUND.search(query))
        """What is found in no file as a whole is in no line of it."""

    def may_be_in(self, data: bytes) -> bool:
        """False for a file that can't hold it, told without reading it as text."""
        if self.needle:
            return self.needle in data
        if self.small and data.isascii():
            return self.small in data.lower()
        return True


def has_capitals(query: str, is_regex: bool) -> bool:
    """Case counts only when the query has capitals; those of an escape such as `\\S` are none."""
    letters = re.sub(r"\\[pP]\{[^}]*\}|\\.", "", query, flags=re.DOTALL) if is_regex else query
    return any(letter.isupper() for letter in letters)


def _spelt(pattern: str) -> str:
    """A pattern in the way Python writes it: `[[:alpha:]]`, `\\z`."""
    pattern = re.sub(r"\[:(\w+):\]", lambda match: _CLASSES.get(match[1], match[0]), pattern)
    return re.sub(r"(?<!\\)((?:\\\\)*)\\z", r"\1\\Z", pattern)


# --- files ----------------------------------------------------------------------------------


def _files(folder: Path, root: Path) -> Iterator[tuple[Path, bytes]]:
    """The regular files below `folder` with their bytes, in the order of their paths, name by name."""
    if not folder.is_dir():
        data = _bytes(str(folder), None)
        if data is not None:
            yield folder, data
        return
    rules, top = GitIgnore.asked(root, folder)
    yield from _below(folder, folder.relative_to(top).parts, rules)


def _below(folder: Path, parts: tuple[str, ...], rules: GitIgnore) -> Iterator[tuple[Path, bytes]]:
    try:
        with open_folder(folder) as fd:
            for entry in sorted_entries(fd):
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not entry.is_file(follow_symlinks=False):
                    continue
                if rules.ignores((*parts, entry.name), is_folder):
                    continue
                path = folder / entry.name
                if not is_folder:
                    data = _bytes(entry.name, fd)
                    if data is not None:
                        yield path, data
                elif len(parts) < DEPTH:
                    yield from _below(path, (*parts, entry.name), rules.below(path))
    except OSError:
        return


def _bytes(name: str, folder: int | None) -> bytes | None:
    """The bytes of a regular file that is not too large."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_CAP:
            return None
        pieces: list[bytes] = []
        left = FILE_CAP
        while left > 0 and (piece := os.read(fd, min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)
    except OSError:
        return None
    finally:
        os.close(fd)


# --- one file -------------------------------------------------------------------------------


def _text(data: bytes, wanted: SearchQuery) -> str | None:
    """A file as text; None for a binary one, and for one that can't hold what is looked for."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
        return None if "\0" in text else text
    if b"\0" in data or not wanted.may_be_in(data):
        return None
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _search(path: Path, data: bytes, wanted: SearchQuery, context: int) -> bool:
    text = _text(data, wanted)
    if text is None or (wanted.sure and wanted.pattern.search(_plain(text, wanted)) is None):
        return False
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    spans = list(_over_lines(text, lines, wanted) if wanted.lines else _in_lines(lines, wanted))
    if spans:
        _tell(path, lines, spans, context, wanted)
    return bool(spans)


def _plain(text: str, wanted: SearchQuery) -> str:
    """All lines as they are looked at one by one: a `$` stands before the CR of a line that ends with it."""
    return text if wanted.lines or "\r" not in text else text.replace("\r\n", "\n").removesuffix("\r")


def _in_lines(lines: list[str], wanted: SearchQuery) -> Iterator[Span]:
    search, left = wanted.pattern.search, PER_FILE
    for number, line in enumerate(lines):
        match = search(line.removesuffix("\r"))
        if match is not None:
            yield number, number, match.start()
            left -= 1
            if not left:
                return


def _over_lines(text: str, lines: list[str], wanted: SearchQuery) -> Iterator[Span]:
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    spans: list[Span] = []
    for match in wanted.pattern.finditer(text):
        first = min(bisect_right(starts, match.start()), len(lines)) - 1
        last = min(bisect_right(starts, max(match.start(), match.end() - 1)), len(lines)) - 1
        if spans and first <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]), spans[-1][2])
        elif len(spans) == PER_FILE:
            break
        else:
            spans.append((first, last, match.start() - starts[first]))
    yield from spans


def _tell(path: Path, lines: list[str], spans: list[Span], context: int, wanted: SearchQuery) -> None:
    _say("begin", path)
    after = 0
    for place, (first, last, start) in enumerate(spans):
        for number in range(max(after, first - context), first):
            _say("context", path, lines[number], number + 1)
        _say("match", path, "\n".join(lines[first : last + 1]), first + 1, start)
        until = spans[place + 1][0] if place + 1 < len(spans) else len(lines)
        after = min(last + 1 + context, until)
        for number in range(last + 1, after):  # beyond the limit, what is shown all the same may be another match
            match = None if wanted.lines else wanted.pattern.search(lines[number].removesuffix("\r"))
            _say("match" if match else "context", path, lines[number], number + 1, match.start() if match else 0)
    _say("end", path)
    sys.stdout.flush()


def _say(kind: str, path: Path, line: str | None = None, number: int = 0, start: int = 0) -> None:
    data: dict[str, Any] = {"path": {"text": os.fsencode(path).decode("utf-8", "surrogateescape")}}
    if line is not None:
        begins = len(line[:start].encode("utf-8", "surrogateescape"))
        data |= {"lines": {"text": line}, "line_number": number, "submatches": [{"start": begins}]}
    if kind == "end":
        data["binary_offset"] = None
    sys.stdout.write(json.dumps({"type": kind, "data": data}) + "\n")


if __name__ == "__main__":
    sys.exit(run_worker())
