from __future__ import annotations

from pathlib import Path

from tests.checkpoints.racing import race


def test_saves_during_undo_and_redo_are_never_lost(tmp_path: Path) -> None:
    counts = race(tmp_path, 500)
    assert counts["saves"] == 500
    assert counts["met"] > 0  # saves came while an undo went on
    assert counts.get("restored", 0) + counts.get("left", 0) > 0
