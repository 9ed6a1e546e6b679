"""Prompt and generation speed of a server, computed from the usage it reports (E9)."""

from __future__ import annotations

from tui_agent.common.domain import Usage

MIN_PROMPT_TOKENS = 64
"""Fewer evaluated tokens give no meaningful rate."""
MIN_COMPLETION_TOKENS = 4
MIN_DURATION_MS = 20
MAX_SPEEDUP = 2.0
"""A rate above this multiple of the previous one means a cache hit if the server does not report cached tokens."""


def total_prompt_tokens(usage: Usage) -> int | None:
    """Return the prompt tokens including cached ones, even if the server counts only the others."""
    prompt, cached = usage.prompt_tokens, usage.cached_tokens or 0
    return prompt + cached if prompt is not None and prompt < cached else prompt


def evaluated_tokens(usage: Usage) -> int | None:
    """Return the prompt tokens that were evaluated; None if the server does not report cached tokens."""
    if usage.prompt_tokens is None or usage.cached_tokens is None:
        return None
    return usage.prompt_tokens - (usage.cached_tokens if usage.cached_tokens <= usage.prompt_tokens else 0)


def cached_share(usage: Usage) -> float | None:
    """Return the cached share of the prompt, 0 to 1; None if the server does not report it."""
    prompt = total_prompt_tokens(usage)
    return usage.cached_tokens / prompt if prompt and usage.cached_tokens is not None else None


def prompt_rate(usage: Usage, previous: float | None = None) -> float | None:
    """Return the prompt tokens evaluated per second, or None if unknown. `previous` is the rate so far."""
    evaluated = evaluated_tokens(usage)
    count = usage.prompt_tokens if evaluated is None else evaluated
    if count is None or count < MIN_PROMPT_TOKENS or (usage.prompt_ms or 0) < MIN_DURATION_MS:
        return None
    rate = 1_000 * count / (usage.prompt_ms or 1)
    return None if evaluated is None and previous is not None and rate > MAX_SPEEDUP * previous else rate


def generation_rate(usage: Usage) -> float | None:
    """Return the tokens generated per second, or None if unknown."""
    count = usage.completion_tokens or 0
    if count < MIN_COMPLETION_TOKENS or (usage.generate_ms or 0) < MIN_DURATION_MS:
        return None
    return 1_000 * count / (usage.generate_ms or 1)


def format_rate(rate: float) -> str:
    """Return a rate as text: `6.4 tokens/s`, `1,240 tokens/s`."""
    return f"{rate:.1f} tokens/s" if rate < 9.95 else f"{rate:,.0f} tokens/s"
