from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec import structs

from tui_agent.plan.document import LogEntry, Plan
from tui_agent.plan.store import Conflicted, PlanStore, Saved
from tui_agent.plan.writing import render

SAVES = 500


@pytest.mark.timeout(120)
def test_a_thousand_racing_saves_lose_nothing_of_either_side(tmp_path: Path) -> None:
    path = tmp_path / "plan_doc.md"
    path.write_text(render(Plan(goal="race", created_at=1)) + "\n## Mine\n", encoding="utf-8")
    editor = subprocess.Popen(
        [sys.executable, "-m", "tests.plan.racing", str(path), str(SAVES), "7"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert editor.stdin and editor.stdout
    store = PlanStore(path)
    store.load()
    editor.stdout.readline()
    editor.stdin.write("go\n")
    editor.stdin.flush()
    outcomes: list[Saved] = []
    pieces: list[str] = []

    def save(number: int) -> None:
        since = store.plan
        entry = LogEntry(action=f"agent entry {number}", result="✓ done")
        plan = structs.replace(since, execution_log=(*since.execution_log, entry)) if number >= 0 else since
        outcome = store.save(plan, since)
        assert not isinstance(outcome, Conflicted)
        assert isinstance(outcome, Saved)
        outcomes.append(outcome)
        pieces.extend(one.read_text(encoding="utf-8") for one in outcome.aside)

    number = 0
    while number < SAVES or editor.poll() is None:
        if number < SAVES:
            save(number)
            number += 1
        else:
            time.sleep(0.01)
            store.refresh()
    assert editor.wait() == 0
    save(-1)
    pieces.extend(one.read_text(encoding="utf-8") for one in store.close())
    text = path.read_text(encoding="utf-8")
    whole = "\n".join([text, *pieces])
    mine = (
        words
        for at in range(SAVES)
        for words in (f"- [ ] user criterion {at}\n", f"note {at} of the user ✎\n")
    )
    assert [words for words in mine if words not in whole] == []
    assert sorted(one.action for one in store.plan.execution_log) == sorted(
        f"agent entry {at}" for at in range(SAVES)
    )
    assert sum(one.merged for one in outcomes) > SAVES // 10
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".tua-tmp")] == []
