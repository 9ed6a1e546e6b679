from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkpoints.racing import race
from tests.nightly import repetitions


@pytest.mark.parametrize("saves", repetitions(100, 500))
def test_saves_during_undo_and_redo_are_never_lost(tmp_path: Path, saves: int) -> None:
    counts = race(tmp_path, saves)
    assert counts["saves"] == saves
    assert counts["met"] > 0  # saves came while an undo went on
    assert counts.get("restored", 0) + counts.get("left", 0) > 0
