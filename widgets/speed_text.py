"""Texts about the server's speed: reading, writing, and the cached part of the prompt (E9)."""

from __future__ import annotations

from tui_agent.common import speed
from tui_agent.view.items import ReplyItem, SessionView

MIN_READING_SECONDS = 2.0
"""Minimum expected reading time in seconds for showing estimated progress."""
MIN_WRITING_SECONDS = 3.0
"""Seconds of writing before its rate is shown."""
ROUNDING_STEP = 100
"""Estimates are rounded to a multiple of this many tokens."""
MIN_CHARACTERS = 400
"""Minimum number of characters for estimating the writing rate."""
CHARACTERS_PER_TOKEN = 4
"""Approximate characters per token."""


def reading_progress(view: SessionView, now: float) -> str:
    """Return how much of the prompt was read, as reported by the server or estimated from its rate; may be empty."""
    reply = view.reply
    if reply is None or view.status.phase != "reading":
        return ""
    rate, fresh = view.reading_rate, reply.new_tokens
    if reply.tokens_read is not None:
        unreported = (rate or 0.0) * max(0.0, now - reply.read_at)  # the server reports only after each batch
        if unreported < ROUNDING_STEP:
            return f"reading {reply.tokens_read:,} of {reply.prompt_tokens:,} tokens"
        estimate = min(int(reply.tokens_read + unreported), int(0.99 * reply.prompt_tokens))
        done = estimate // ROUNDING_STEP * ROUNDING_STEP
        return f"reading about {max(done, reply.tokens_read):,} of {reply.prompt_tokens:,} tokens"
    if not rate or fresh is None or fresh < MIN_READING_SECONDS * rate:
        return ""
    read = min(rate * max(0.0, now - view.status.since), 0.99 * fresh)
    done = int(max(0, reply.prompt_tokens - fresh) + read) // ROUNDING_STEP * ROUNDING_STEP
    return f"reading about {done:,} of {round(reply.prompt_tokens, -2):,} tokens"


def current_rate(view: SessionView, now: float) -> str:
    """Return the rate of the current reply, estimated from its characters; empty if there is too little text."""
    reply, phase = view.reply, view.status.phase
    since, size = _growth(reply, phase) if reply is not None else (None, 0)
    if since is None or size < MIN_CHARACTERS or now - since < MIN_WRITING_SECONDS:
        return ""
    return f"about {speed.format_rate(size / CHARACTERS_PER_TOKEN / (now - since))}"


def _growth(reply: ReplyItem, phase: str) -> tuple[float | None, int]:
    if phase == "thinking":
        return reply.thinking_since, reply.reasoning.size
    return (reply.started_at, reply.text.size) if phase == "writing" else (None, 0)


def last_reply_speed(view: SessionView) -> str:
    """Return a short text about the last reply; empty if the server reported no times."""
    rate, share = speed.generation_rate(view.usage), speed.cached_share(view.usage)
    parts = [f"written at {speed.format_rate(rate)}"] if rate else []
    parts += [f"{share:.0%} of the prompt from the cache"] if share and parts else []
    return " · ".join(parts)


def speed_facts(view: SessionView) -> list[tuple[str, str]]:
    """Return the known facts about the last request and reply as (name, text)."""
    usage, facts = view.usage, []
    prompt, read, share = speed.total_prompt_tokens(usage), speed.evaluated_tokens(usage), speed.cached_share(usage)
    rate = speed.prompt_rate(usage, view.reading_rate)
    if prompt and (share is not None or rate):
        parts = [f"{prompt:,} tokens"]
        if share is not None:
            parts += [f"{read:,} read", f"{share:.0%} from the server's cache"]
        parts += [speed.format_rate(rate)] if rate else []
        facts.append(("last request", ", ".join(parts)))
    if written := speed.generation_rate(usage):
        facts.append(("last reply", f"{usage.completion_tokens:,} tokens, {speed.format_rate(written)}"))
    return facts
