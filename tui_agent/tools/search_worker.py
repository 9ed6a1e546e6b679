"""The search used without ripgrep, as a separate program so that no pattern can block the agent.

Its argument is the request as JSON. It prints ripgrep's JSON format and finds what ripgrep finds: line by line, in text
files that .gitignore does not exclude, ordered by path.
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
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, TypeAlias

from tui_agent.platform.safe_open import open_folder
from tui_agent.tools.gitignore import GitIgnore, sorted_entries

MAX_FILE_SIZE = 10 * 1024 * 1024
MAX_DEPTH = 100
MAX_FILE_MATCHES = 100
"""Matches per file."""

Span: TypeAlias = tuple[int, int, int]
"""First and last line of a match, from 0, and its start in the first line."""

_CLASSES = {
    "alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "xdigit": "0-9a-fA-F",
    "space": r"\s", "blank": r" \t", "word": r"\w", "punct": r"!-/:-@\[-`{-~", "cntrl": r"\x00-\x1f\x7f",
}  # fmt: skip
_CONTEXT_ASSERTION = re.compile(r"\(\?<?!|\\[AZzG]")


def run_worker() -> int:
    """Return 0 if there are matches, 1 if not, 2 for an invalid pattern (with a message on stderr)."""
    request = json.loads(sys.argv[1])
    try:
        query = SearchQuery(request["query"], request["is_regex"])
    except (re.error, RecursionError, OverflowError) as error:
        print(f"regex parse error: {error}", file=sys.stderr)
        return 2
    has_matches = False
    try:
        for folder in request["folders"]:
            for path, data in _iter_files(Path(folder), list(map(Path, request["roots"]))):
                has_matches |= _search(path, data, query, int(request["context"]))
    except BrokenPipeError:
        os._exit(0)
    return 0 if has_matches else 1


class SearchQuery:
    """A compiled query. Raises re.error."""

    def __init__(self, query: str, is_regex: bool) -> None:
        text = query if is_regex else re.escape(query)
        self.lines = "\n" in query or (is_regex and "\\n" in query)
        """A match may span several lines."""
        case_sensitive = has_capitals(query, is_regex)
        flags = re.MULTILINE if case_sensitive else re.MULTILINE | re.IGNORECASE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.pattern = re.compile(_to_python_syntax(text) if is_regex else text, flags)
        self.needle = query.encode("utf-8", "surrogateescape") if case_sensitive and not is_regex else b""
        """Bytes that a matching file must contain."""
        self.lower_needle = query.encode().lower() if not case_sensitive and not is_regex and query.isascii() else b""
        """The same in lower case."""
        self.whole_file_test = not (is_regex and _CONTEXT_ASSERTION.search(query))
        """A file without a match as a whole has no matching line."""

    def may_be_in(self, data: bytes) -> bool:
        """Quickly rule out files that can't match, without decoding them."""
        if self.needle:
            return self.needle in data
        if self.lower_needle and data.isascii():
            return self.lower_needle in data.lower()
        return True


def has_capitals(query: str, is_regex: bool) -> bool:
    """Smart case: the query is case-sensitive if it has capitals, apart from those of escapes such as `\\S`."""
    letters = re.sub(r"\\[pP]\{[^}]*\}|\\.", "", query, flags=re.DOTALL) if is_regex else query
    return any(letter.isupper() for letter in letters)


def _to_python_syntax(pattern: str) -> str:
    """Translate pattern syntax to that of Python: `[[:alpha:]]`, `\\z`."""
    pattern = re.sub(r"\[:(\w+):\]", lambda match: _CLASSES.get(match[1], match[0]), pattern)
    return re.sub(r"(?<!\\)((?:\\\\)*)\\z", r"\1\\Z", pattern)


# --- files ----------------------------------------------------------------------------------


def _iter_files(folder: Path, roots: list[Path]) -> Iterator[tuple[Path, bytes]]:
    """Yield the regular files below `folder` with their bytes, ordered by path components."""
    if not folder.is_dir():
        data = _read_bytes(str(folder), None)
        if data is not None:
            yield folder, data
        return
    rules, top = GitIgnore.for_request(roots, folder)
    yield from _iter_folder(folder, folder.relative_to(top).parts, rules)


def _iter_folder(folder: Path, parts: tuple[str, ...], rules: GitIgnore) -> Iterator[tuple[Path, bytes]]:
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
                    data = _read_bytes(entry.name, fd)
                    if data is not None:
                        yield path, data
                elif len(parts) < MAX_DEPTH:
                    yield from _iter_folder(path, (*parts, entry.name), rules.below(path))
    except OSError:
        return


def _read_bytes(name: str, folder: int | None) -> bytes | None:
    """Read a regular file that is not too large."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_SIZE:
            return None
        chunks: list[bytes] = []
        remaining = MAX_FILE_SIZE
        while remaining > 0 and (chunk := os.read(fd, min(remaining, 1 << 20))):
            chunks.append(chunk)
            remaining -= len(chunk)
        return b"".join(chunks)
    except OSError:
        return None
    finally:
        os.close(fd)


# --- one file -------------------------------------------------------------------------------


def _decode(data: bytes, query: SearchQuery) -> str | None:
    """Decode a file; None if it is binary or can't match."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
        return None if "\0" in text else text
    if b"\0" in data or not query.may_be_in(data):
        return None
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def _search(path: Path, data: bytes, query: SearchQuery, context: int) -> bool:
    text = _decode(data, query)
    if text is None or (query.whole_file_test and query.pattern.search(_lines_text(text, query)) is None):
        return False
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    spans = _match_spans(text, lines, query)
    if spans:
        _print_matches(path, lines, spans, context, query)
    return bool(spans)


def _lines_text(text: str, query: SearchQuery) -> str:
    """Return the text as matched line by line: `$` matches before the CR at the end of a line."""
    return text if query.lines or "\r" not in text else text.replace("\r\n", "\n").removesuffix("\r")


def _match_spans(text: str, lines: list[str], query: SearchQuery) -> list[Span]:
    """Return the matches, those on the same lines as one; outside of `query.lines` each line is searched by itself."""
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    if query.lines:
        parts, most = [(0, text)], None
    else:
        parts, most = [(start, line.removesuffix("\r")) for start, line in zip(starts, lines, strict=False)], 1
    spans: list[Span] = []
    for offset, part in parts:
        for match in islice(query.pattern.finditer(part), most):
            start, end = offset + match.start(), offset + match.end()
            first = min(bisect_right(starts, start), len(lines)) - 1
            last = min(bisect_right(starts, max(start, end - 1)), len(lines)) - 1
            if spans and first <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(last, spans[-1][1]), spans[-1][2])
            elif len(spans) == MAX_FILE_MATCHES:
                return spans
            else:
                spans.append((first, last, start - starts[first]))
    return spans


def _print_matches(path: Path, lines: list[str], spans: list[Span], context: int, query: SearchQuery) -> None:
    _print_event("begin", path)
    after = 0
    for index, (first, last, start) in enumerate(spans):
        for number in range(max(after, first - context), first):
            _print_event("context", path, lines[number], number + 1)
        _print_event("match", path, "\n".join(lines[first : last + 1]), first + 1, start)
        end = spans[index + 1][0] if index + 1 < len(spans) else len(lines)
        after = min(last + 1 + context, end)
        for number in range(last + 1, after):  # beyond the limit, what is shown all the same may be another match
            match = None if query.lines else query.pattern.search(lines[number].removesuffix("\r"))
            _print_event(
                "match" if match else "context", path, lines[number], number + 1, match.start() if match else 0
            )
    _print_event("end", path)
    sys.stdout.flush()


def _print_event(kind: str, path: Path, line: str | None = None, number: int = 0, start: int = 0) -> None:
    data: dict[str, Any] = {"path": {"text": os.fsencode(path).decode("utf-8", "surrogateescape")}}
    if line is not None:
        byte_start = len(line[:start].encode("utf-8", "surrogateescape"))
        data |= {"lines": {"text": line}, "line_number": number, "submatches": [{"start": byte_start}]}
    if kind == "end":
        data["binary_offset"] = None
    sys.stdout.write(json.dumps({"type": kind, "data": data}) + "\n")


if __name__ == "__main__":
    sys.exit(run_worker())
