"""An editor that saves a file repeatedly during undo and redo; no save may be lost."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from tests.checkpoints.kit import EditingAgent

ROUND = 2
"""Saves after an edit: only saves close to the edit can collide with its undo."""


class Editor(threading.Thread):
    """Saves numbered contents by renaming, as editors do; `saved` lists them in order."""

    def __init__(self, path: Path, numbers: Iterable[int]) -> None:
        super().__init__()
        self._path = path
        self._numbers = list(numbers)
        self.saved: list[bytes] = []

    def run(self) -> None:
        """Save all."""
        beside = self._path.with_name("~swp")
        time.sleep(0.03 * random.random())  # thinks, while undo and redo go on
        for number in self._numbers:
            data = b"theirs %d\n" % number
            beside.write_bytes(data)
            os.replace(beside, self._path)
            self.saved.append(data)


def race(folder: Path, saves: int) -> dict[str, int]:
    """Races undo and redo against `saves` saves; how often each outcome came. Raises AssertionError on a loss.

    A save is lost when nobody overwrote it knowingly: it must lie at the path, or a later save does, or it is in the
    store as what an undo replaced on the user's word.
    """
    work = EditingAgent(folder)
    path = work.path("file")
    counts: dict[str, int] = {"saves": 0, "met": 0}
    number = 0
    while number < saves:
        path.write_bytes(b"start %d\n" % number)
        work.next_run()
        work.edit("file", b"the agent's %d\n" % number)
        mine = {path.read_bytes(), b"start %d\n" % number}
        count = min(ROUND, saves - number)
        editor = Editor(path, range(number, number + count))
        editor.start()
        while editor.is_alive() and work.ledger.latest():
            for way in (work.undo, work.redo):
                known = len(editor.saved)
                items = way() if way == work.undo or work.ledger.redos else []
                counts["met"] += len(editor.saved) > known
                for item in items:
                    counts[item.outcome] = counts.get(item.outcome, 0) + 1
                    # what an undo replaced was the agent's own, never a save
                    if item.outcome == "restored":
                        assert work.store.get(item.before.sha256) in mine
        editor.join()
        now = path.read_bytes()
        assert now == editor.saved[-1], (now, editor.saved[-1])
        left = sorted(os.listdir(work.files))
        assert left == ["file"], left
        number += count
        counts["saves"] = number
    return counts
