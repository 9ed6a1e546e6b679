"""What the screen says of the server's speed: reading, writing, and what it still had of the prompt (E9)."""

from __future__ import annotations

from tui_agent.common import speed
from tui_agent.view.items import ReplyItem, SessionView

WORTH_SAYING = 2.0
"""Seconds that reading takes at the least to be told of by estimate."""
STEADY = 3.0
"""Seconds of writing after which its rate is told."""
STEP = 100
"""Tokens to which estimates are rounded."""
ENOUGH = 400
"""Characters from which on the rate of what is written can be estimated."""
CHARACTERS = 4
"""Characters of a token, about."""


def reading_progress(view: SessionView, now: float) -> str:
    """How much of the prompt was read: as the server says, else by its rate until now; may be empty."""
    reply = view.reply
    if reply is None or view.status.phase != "reading":
        return ""
    rate, fresh = view.reading_rate, reply.new_tokens
    if reply.tokens_read is not None:
        since = (rate or 0.0) * max(0.0, now - reply.read_at)  # it tells only after each of its batches
        if since < STEP:
            return f"reading {reply.tokens_read:,} of {reply.prompt_tokens:,} tokens"
        done = min(int(reply.tokens_read + since), int(0.99 * reply.prompt_tokens)) // STEP * STEP
        return f"reading about {max(done, reply.tokens_read):,} of {reply.prompt_tokens:,} tokens"
    if not rate or fresh is None or fresh < WORTH_SAYING * rate:
        return ""
    read = min(rate * max(0.0, now - view.status.since), 0.99 * fresh)
    done = int(max(0, reply.prompt_tokens - fresh) + read) // STEP * STEP
    return f"reading about {done:,} of {round(reply.prompt_tokens, -2):,} tokens"


def current_rate(view: SessionView, now: float) -> str:
    """How fast the reply grows, by its characters; empty as long as that says little."""
    reply, phase = view.reply, view.status.phase
    since, size = _grown(reply, phase) if reply is not None else (None, 0)
    if since is None or size < ENOUGH or now - since < STEADY:
        return ""
    return f"about {speed.format_rate(size / CHARACTERS / (now - since))}"


def _grown(reply: ReplyItem, phase: str) -> tuple[float | None, int]:
    if phase == "thinking":
        return reply.thinking_since, reply.reasoning.size
    return (reply.started_at, reply.text.size) if phase == "writing" else (None, 0)


def last_reply_speed(view: SessionView) -> str:
    """The newest reply in a few words; empty where the server gave no times."""
    rate, share = speed.generation_rate(view.usage), speed.cached_share(view.usage)
    words = [f"written at {speed.format_rate(rate)}"] if rate else []
    words += [f"{share:.0%} of the prompt from the cache"] if share and words else []
    return " · ".join(words)


def speed_facts(view: SessionView) -> list[tuple[str, str]]:
    """Name and words for the last request and its reply; nothing that is not known."""
    usage, found = view.usage, []
    prompt, read, share = speed.total_prompt_tokens(usage), speed.evaluated_tokens(usage), speed.cached_share(usage)
    rate = speed.prompt_rate(usage, view.reading_rate)
    if prompt and (share is not None or rate):
        words = [f"{prompt:,} tokens"]
        if share is not None:
            words += [f"{read:,} read", f"{share:.0%} from the server's cache"]
        words += [speed.format_rate(rate)] if rate else []
        found.append(("last request", ", ".join(words)))
    if written := speed.generation_rate(usage):
        found.append(("last reply", f"{usage.completion_tokens:,} tokens, {speed.format_rate(written)}"))
    return found
