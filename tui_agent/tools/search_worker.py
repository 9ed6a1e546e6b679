"""The search without ripgrep: a program of its own, so that no pattern can hold up the agent (E15).

Started with one argument, the request as JSON; prints lines in ripgrep's JSON format.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tui_agent.platform.beneath import open_folder
from tui_agent.platform.encoding import NotText, decode
from tui_agent.platform.files import FileFault, read_file
from tui_agent.tools.ignoring import Ignoring, sorted_entries

FILE_CAP = 10 * 1024 * 1024
DEPTH = 60
PER_FILE = 100


def main() -> int:
    """Exit code 0 when something was found, 1 when not, 2 when the pattern is wrong (with a word on stderr)."""
    request = json.loads(sys.argv[1])
    try:
        pattern = compiled(request["query"], request["is_regex"])
    except re.error as error:
        print(f"regex parse error: {error}", file=sys.stderr)
        return 2
    found = False
    try:
        for folder, root in request["places"]:
            for path in _files(Path(folder), Path(root)):
                found = _search(path, pattern, int(request["context"])) or found
    except BrokenPipeError:
        os._exit(0)
    return 0 if found else 1


def compiled(query: str, is_regex: bool) -> re.Pattern[str]:
    """The pattern; case counts only when the query has capitals."""
    letters = re.sub(r"\\.", "", query) if is_regex else query
    flags = re.MULTILINE if letters != letters.lower() else re.MULTILINE | re.IGNORECASE
    return re.compile(query if is_regex else re.escape(query), flags)


def _files(folder: Path, root: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
        return
    stack = deque([(folder, Ignoring.at(root, folder))])
    while stack:
        where, rules = stack.popleft()
        parts = where.relative_to(root).parts
        below: list[tuple[Path, Ignoring]] = []
        try:
            with open_folder(where) as fd:
                entries = sorted_entries(fd)
                kinds = [(one.name, one.is_dir(follow_symlinks=False), one.is_symlink()) for one in entries]
        except OSError:
            continue
        for name, is_folder, is_link in kinds:
            if is_link or rules.ignores((*parts, name), is_folder):
                continue
            if not is_folder:
                yield where / name
            elif len(parts) < DEPTH:
                below.append((where / name, rules.below(where / name)))
        stack.extendleft(reversed(below))


def _search(path: Path, pattern: re.Pattern[str], context: int) -> bool:
    try:
        text = decode(read_file(path, FILE_CAP, follow=False).data).text
    except (FileFault, NotText):
        return False
    found = pattern.search(text)
    if found is None:
        return False
    lines = text.split("\n")
    starts = _starts(lines)
    hits: dict[int, tuple[int, int]] = {}
    while found is not None and len(hits) < PER_FILE:
        number = starts(found.start())
        hits.setdefault(number, (found.start(), found.end()))
        # The next line, or after an empty match the next character.
        found = pattern.search(text, max(found.end(), found.start() + 1))
    _say("begin", path)
    shown: set[int] = set()
    for number in sorted(hits):
        for near in range(max(0, number - context), min(len(lines), number + context + 1)):
            if near not in shown and near not in hits:
                shown.add(near)
                _say("context", path, lines[near], near + 1)
            elif near == number:
                shown.add(near)
                _say("match", path, lines[near], near + 1)
    return True


def _starts(lines: list[str]) -> Callable[[int], int]:
    from bisect import bisect_right
    from itertools import accumulate

    borders = list(accumulate((len(line) + 1 for line in lines), initial=0))
    return lambda position: min(bisect_right(borders, position) - 1, len(lines) - 1)


def _say(kind: str, path: Path, line: str | None = None, number: int = 0) -> None:
    data: dict[str, Any] = {"path": {"text": os.fsencode(path).decode("utf-8", "surrogateescape")}}
    if line is not None:
        data |= {"lines": {"text": line[:100_000]}, "line_number": number, "submatches": []}
    sys.stdout.write(json.dumps({"type": kind, "data": data}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
