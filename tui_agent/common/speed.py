"""How fast a server reads prompts and writes replies, by what it says of them (E9)."""

from __future__ import annotations

from tui_agent.common.domain import Usage

MIN_PROMPT_TOKENS = 64
"""Tokens from which on the time for reading them makes a rate."""
LEAST_WRITTEN = 4
LEAST_MS = 20
DOUBTFUL = 2.0
"""Times as fast as is known: a server that reads so fast, and does not say what it still had, had most of it."""


def prompt_tokens_in_all(usage: Usage) -> int | None:
    """Tokens of the prompt with those that were cached, also where the server counts only the others."""
    prompt, cached = usage.prompt_tokens, usage.cached_tokens or 0
    return prompt + cached if prompt is not None and prompt < cached else prompt


def evaluated_tokens(usage: Usage) -> int | None:
    """Tokens of the prompt that were read; None where the server does not say what it still had."""
    if usage.prompt_tokens is None or usage.cached_tokens is None:
        return None
    return usage.prompt_tokens - (usage.cached_tokens if usage.cached_tokens <= usage.prompt_tokens else 0)


def cached_share(usage: Usage) -> float | None:
    """Share of the prompt that the server still had; None where it does not say."""
    prompt = prompt_tokens_in_all(usage)
    return usage.cached_tokens / prompt if prompt and usage.cached_tokens is not None else None


def prompt_rate(usage: Usage, known: float | None = None) -> float | None:
    """Tokens of the prompt read in a second; None where that does not follow. `known`: the rate until now."""
    read = evaluated_tokens(usage)
    count = usage.prompt_tokens if read is None else read
    if count is None or count < MIN_PROMPT_TOKENS or (usage.prompt_ms or 0) < LEAST_MS:
        return None
    rate = 1_000 * count / (usage.prompt_ms or 1)
    return None if read is None and known is not None and rate > DOUBTFUL * known else rate


def generation_rate(usage: Usage) -> float | None:
    """Tokens written in a second; None where that does not follow."""
    count = usage.completion_tokens or 0
    if count < LEAST_WRITTEN or (usage.generate_ms or 0) < LEAST_MS:
        return None
    return 1_000 * count / (usage.generate_ms or 1)


def format_rate(rate: float) -> str:
    """A rate in words: `6.4 tokens/s`, `1,240 tokens/s`."""
    return f"{rate:.1f} tokens/s" if rate < 9.95 else f"{rate:,.0f} tokens/s"
