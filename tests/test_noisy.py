from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.noise.model import Noise
from tests.benchmarks.noisy import agent, measure, missed, table, told
from tests.benchmarks.noisy_jobs import job
from tests.nightly import sampled

RUNS = 12
SEED = 11
"""One whose twelve tasks meet most families; which ones is asserted, so that a change of the draw is seen."""


FORMS = ("openai-native", "ollama-native", "ollama-json", "openai-xml")


@pytest.mark.parametrize("spoken", sampled(FORMS, ("ollama-json",)))
async def test_seeded_tasks_finish_although_half_of_the_replies_are_spoilt(spoken: str, tmp_path: Path):
    provider, _, form = spoken.partition("-")
    noise = Noise(rate=0.5, seed=SEED)
    outcomes = await measure(agent(provider), tmp_path, runs=RUNS, noise=noise, form=form)
    assert not missed(outcomes, 0.5), f"{table(outcomes)}\n{told(outcomes)}"
    assert all(one.finished for one in outcomes)
    met = {family for one in outcomes for family in one.families}
    assert len(met) >= 10, met
    assert sum(bool(one.families) for one in outcomes) >= 9


async def test_what_is_measured_is_not_taken_from_the_agents_word(tmp_path: Path):
    one = job(1)
    folder = one.set_up(tmp_path / "work")
    assert not one.right(folder)
    (folder / one.file).write_text(one.mended, encoding="utf-8")
    assert one.right(folder)
    (folder / "more.txt").write_text("left behind", encoding="utf-8")
    assert not one.right(folder)
