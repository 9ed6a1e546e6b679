"""The listing of files without ripgrep: a program of its own, so that a big folder does not hold up the agent (T1).

Started with a folder; prints the files in it that git would not ignore, relative to it, each with a NUL behind it.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tui_agent.platform.beneath import open_folder
from tui_agent.tools.ignoring import Ignoring, sorted_entries

DEPTH = 100


def main() -> int:
    """Exit code 0."""
    root = Path(sys.argv[1])
    out = sys.stdout.buffer
    try:
        for name in files(root):
            out.write(os.fsencode(name) + b"\0")
        out.flush()
    except BrokenPipeError:
        os._exit(0)
    return 0


def files(root: Path) -> Iterator[str]:
    """Files beneath `root`, the upper ones first; links are left out, and folders that can't be read."""
    waiting = deque([("", Ignoring.at(root, root), 0)])
    while waiting:
        prefix, rules, depth = waiting.popleft()
        try:
            with open_folder(root / prefix) as fd:
                entries = [
                    (one.name, one.is_dir(follow_symlinks=False), one.is_file(follow_symlinks=False))
                    for one in sorted_entries(fd)
                ]
        except OSError:
            continue
        parts = tuple(prefix.split("/")[:-1])
        for name, is_folder, is_file in entries:
            if not (is_folder or is_file) or rules.ignores((*parts, name), is_folder):
                continue
            if not is_folder:
                yield prefix + name
            elif depth < DEPTH:
                waiting.append((f"{prefix}{name}/", rules.below(root / prefix / name), depth + 1))


if __name__ == "__main__":
    sys.exit(main())
