from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from tests.doubles.plan_text import plan_text
from tests.nightly import sampled
from tui_agent.plan.document import LogEntry, Plan
from tui_agent.plan.store import PlanStore, SaveConflict, SaveResult

SAVES = 100
"""Saves by each side in each of five rounds."""
AHEAD = 3
"""Saves the editor may lag behind, so that both write concurrently even on a busy machine."""


@pytest.mark.parametrize("seed", sampled(range(5), 2))
def test_racing_saves_lose_nothing_of_either_side(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "plan_doc.md"
    path.write_text(plan_text(Plan(goal="race", created_at=1)) + "\n## Mine\n", encoding="utf-8")
    editor = subprocess.Popen(
        [sys.executable, "-m", "tests.plan.racing", str(path), str(SAVES), str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert editor.stdin and editor.stdout
    store = PlanStore(path)
    store.load()
    editor.stdout.readline()
    outcomes: list[SaveResult] = []
    pieces: list[str] = []

    def save(number: int) -> None:
        since = store.plan
        entry = LogEntry(action=f"agent entry {number}", result="✓ done")
        plan = structs.replace(since, execution_log=(*since.execution_log, entry)) if number >= 0 else since
        outcome = store.save(plan, since)
        assert not isinstance(outcome, SaveConflict)
        assert isinstance(outcome, SaveResult)
        outcomes.append(outcome)
        pieces.extend(item.read_text(encoding="utf-8") for item in outcome.copies)

    for number in range(SAVES):
        editor.stdin.write("go\n")
        editor.stdin.flush()
        save(number)
        if number >= AHEAD:
            assert editor.stdout.readline() == f"{number - AHEAD}\n"
    editor.communicate()
    assert editor.returncode == 0
    save(-1)
    pieces.extend(item.read_text(encoding="utf-8") for item in store.close())
    text = path.read_text(encoding="utf-8")
    complete = "\n".join([text, *pieces])
    mine = (words for at in range(SAVES) for words in (f"- [ ] user criterion {at}\n", f"note {at} of the user ✎\n"))
    assert [words for words in mine if words not in complete] == []
    assert sorted(item.action for item in store.plan.execution_log) == sorted(
        f"agent entry {at}" for at in range(SAVES)
    )
    # Of up to AHEAD + 1 saves of the editor between two of ours, the last one is merged or copied.
    met = sum(item.merged or bool(item.copies) for item in outcomes)
    assert met >= SAVES // (AHEAD + 2)
    assert [item.name for item in tmp_path.iterdir() if item.name.endswith(".tua-tmp")] == []
