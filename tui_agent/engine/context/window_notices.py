"""Notices about the context window, each with the exact way to change it."""

from __future__ import annotations

from tui_agent.events import Notice

RECOMMENDED_WINDOW = 32_768
"""Recommended context window, in tokens."""

NOTHING_TO_COMPACT = Notice(
    level="info", text="There is nothing to compact: the conversation is short.", code="context.compacted"
)

COMPACTION_SCHEDULED = Notice(
    level="info", text="The context is compacted before the next request.", code="context.compacting"
)


def enlarge_window(provider: str, limit: int, *, configured: bool = True) -> str:
    """Return how to get a larger window from this provider."""
    size = RECOMMENDED_WINDOW if limit < RECOMMENDED_WINDOW else 2 * limit
    if provider == "ollama":
        return (
            f"start with `--context-window {size}` or set `context_window: {size}` in the settings, with a model "
            "that was trained for it."
            if configured
            else f"restart the server with `OLLAMA_CONTEXT_LENGTH={size} ollama serve`; if memory is short, "
            "`OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0` halves its memory."
        )
    if provider == "local":
        return (
            f"close other sessions that use the model, and set `context_window: {size}` in the settings, if the model "
            "was trained for it and there is memory."
        )
    return (
        f"start the server with a larger window, such as `llama-server -c {size}`, "
        f"`vllm serve --max-model-len {size}`, or “Context Length” in LM Studio. "
        "Ollama accepts it only with `--provider ollama`, not over /v1."
    )


def context_full(size: int, limit: int, provider: str) -> str:
    """Report a request that does not fit."""
    return (
        f"The context is full: about {size:,} tokens for a window of {limit:,}. Nothing was sent and nothing was cut. "
        f"Start a new message with less in it, or make the window larger: {enlarge_window(provider, limit)}"
    )


def small_window(name: str, limit: int, provider: str, *, trained: bool, served: int = 0) -> str:
    """Warn about a window too small for coding work.

    `trained`: the model itself has no larger one. `served`: the server's window, if settings or models.json limit it.
    """
    if served > limit:
        return (
            f"{name} is used with a window of {limit:,} tokens, which is little for coding work; the server has "
            f"{served:,}. To change that, raise or remove `context_window` in the settings, or `contextWindow` and "
            "`num_ctx` in models.json."
        )
    fix = (
        "choose a model that was trained for more, such as one of qwen2.5-coder (32,768), with `--model`."
        if trained
        else enlarge_window(provider, limit)
    )
    return f"{name} has a window of {limit:,} tokens, which is little for coding work. To change that, {fix}"


def little_room(name: str, limit: int, fixed: int, provider: str) -> str:
    """Warn about a window in which rules and tools leave little room."""
    return (
        f"{name} has a window of {limit:,} tokens, and rules and tools take about {fixed:,} of them: little is left "
        f"for the work. To change that, {enlarge_window(provider, limit)}"
    )


def lowered_window(name: str, requested: int, actual: int, provider: str) -> str:
    """Warn that the server runs the model with a smaller window than requested."""
    return (
        f"The server runs {name} with a window of {actual:,} tokens instead of {requested:,}; {actual:,} is "
        f"used from now on. To get more, {enlarge_window(provider, min(actual, requested - 1), configured=False)}"
    )


def truncation_warning(read: int, size: int, provider: str) -> str:
    """Warn that the server truncated the prompt."""
    return (
        f"The server truncated the prompt: it read {read:,} of about {size:,} tokens and dropped the rest without an "
        f"error, so this reply is based on only a part. To prevent this, "
        f"{enlarge_window(provider, size, configured=False)}"
    )


def messages_left_out(count: int) -> Notice:
    """Report that more user messages are left out of requests than before (H2)."""
    subject = "Your first message is" if count == 1 else f"{count} of your earlier messages are"
    text = f"{subject} no longer sent to the model, to save space. Repeat what still matters."
    return Notice(level="info", text=text, code="context.left_out")
