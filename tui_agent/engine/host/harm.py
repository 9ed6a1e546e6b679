"""Counts what a critical command would destroy, before the user is asked about it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from glob import iglob
from itertools import islice
from pathlib import Path
from time import monotonic

from tui_agent.common.domain import Harm, RunAction
from tui_agent.shell.severity import classify_command

MAX_FILES = 100_000
"""Files counted at most."""
MAX_SECONDS = 1.0
"""Time for counting."""
MAX_TARGETS = 50
"""Targets listed at most."""
_WORD = re.compile(r"[A-Za-z0-9_.-]{2,40}")


def count_harm(action: RunAction, roots: Sequence[Path], *, sandboxed: bool) -> Harm:
    """Count the files below the paths that a command would change, within bounds.

    Reads the disk: call it in a thread.
    """
    rating = classify_command(action.command, cwd=Path(action.cwd), roots=roots)
    targets = rating.targets[:MAX_TARGETS]
    counter = _Counter()
    for target in targets:
        counter.add(target)
    return Harm(
        targets=targets,
        files=counter.files,
        bytes=counter.bytes,
        complete=counter.complete and len(targets) == len(rating.targets),
        sandboxed=sandboxed,
        word=_confirmation_word(targets),
    )


def _confirmation_word(targets: Sequence[str]) -> str:
    """Return what the user types to confirm: the name of the only target, otherwise `run it`."""
    names = {os.path.basename(target.rstrip("/*")) for target in targets}
    name = names.pop() if len(names) == 1 else ""
    return name if _WORD.fullmatch(name) else "run it"


class _Counter:
    """Counts files and bytes until a bound is reached."""

    def __init__(self) -> None:
        self.files = self.bytes = 0
        self.complete = True
        self._until = monotonic() + MAX_SECONDS
        self._seen: set[tuple[int, int]] = set()

    def add(self, target: str) -> None:
        """Count a path or pattern with everything below it; links are not followed."""
        paths = islice(iglob(target, include_hidden=True), MAX_FILES) if re.search(r"[*?[]", target) else [target]
        stack: list[str] = []
        for path in paths:
            self._add_one(path, stack)
        while stack and not self._is_full():
            folder = stack.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        self._add_one(entry.path, stack)
                        if self._is_full():
                            break
            except OSError:
                self.complete = False
        self.complete = self.complete and not stack

    def _is_full(self) -> bool:
        if self.files >= MAX_FILES or monotonic() > self._until:
            self.complete = False
        return self.files >= MAX_FILES or monotonic() > self._until

    def _add_one(self, path: str, stack: list[str]) -> None:
        try:
            status = os.lstat(path)
        except OSError:
            return
        if (key := (status.st_dev, status.st_ino)) in self._seen:
            return
        self._seen.add(key)
        if stat.S_ISDIR(status.st_mode):
            stack.append(path)
        else:
            self.files += 1
            self.bytes += status.st_size
