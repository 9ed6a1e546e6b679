from __future__ import annotations

import pytest

from tui_agent.common import speed
from tui_agent.common.domain import Usage


@pytest.mark.parametrize(
    ("usage", "total", "evaluated", "share"),
    [
        (Usage(prompt_tokens=1_000, cached_tokens=900), 1_000, 100, 0.9),
        (Usage(prompt_tokens=100, cached_tokens=900), 1_000, 100, 0.9),
        (Usage(prompt_tokens=1_000), 1_000, None, None),
        (Usage(), None, None, None),
    ],
)
def test_evaluated_and_cached_tokens(
    usage: Usage, total: int | None, evaluated: int | None, share: float | None
) -> None:
    assert (speed.total_prompt_tokens(usage), speed.evaluated_tokens(usage), speed.cached_share(usage)) == (
        total,
        evaluated,
        share,
    )


def test_rates_count_evaluated_tokens_only() -> None:
    usage = Usage(prompt_tokens=1_000, cached_tokens=800, prompt_ms=4_000, completion_tokens=30, generate_ms=2_000)
    assert (speed.prompt_rate(usage), speed.generation_rate(usage)) == (50, 15)
    assert speed.prompt_rate(Usage(prompt_tokens=1_000, cached_tokens=990, prompt_ms=100)) is None
    assert speed.generation_rate(Usage(completion_tokens=30)) is None


def test_an_implausible_prompt_rate_means_a_cache_hit() -> None:
    cold, warm = Usage(prompt_tokens=1_000, prompt_ms=10_000), Usage(prompt_tokens=1_400, prompt_ms=500)
    assert speed.prompt_rate(cold) == 100
    assert speed.prompt_rate(warm, 100) is None
