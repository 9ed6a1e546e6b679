"""What the user is told of the model's window, each time with the exact way to change it."""

from __future__ import annotations

from tui_agent.events import Notice

ROOMY = 32_768
"""The window that is advised."""

FULL = (
    "The context is full: about {size:,} tokens for a window of {limit:,}. Nothing was sent and nothing was cut. "
    "Start a new message with less in it, or make the window larger: {fix}"
)

NOTHING = Notice(level="info", text="There is nothing to compact: the conversation is short.", code="context.compacted")

SOON = Notice(level="info", text="The context is compacted before the next request.", code="context.compacting")


def larger(provider: str, limit: int, *, configured: bool = True) -> str:
    """How to get a larger window from this kind of server."""
    wanted = ROOMY if limit < ROOMY else 2 * limit
    if provider == "ollama":
        return (
            f"start with `--context-window {wanted}` or set `context_window: {wanted}` in the settings, with a model "
            "that was trained for it."
            if configured
            else f"restart the server with `OLLAMA_CONTEXT_LENGTH={wanted} ollama serve`; if memory is short, "
            "`OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0` halves its memory."
        )
    return (
        f"start the server with a larger window, such as `llama-server -c {wanted}`, "
        f"`vllm serve --max-model-len {wanted}`, or “Context Length” in LM Studio. "
        "Ollama accepts it only with `--provider ollama`, not over /v1."
    )


def narrow(name: str, limit: int, provider: str, *, trained: bool, served: int = 0) -> str:
    """The window is small for coding work. `trained`: the model itself has no larger one. `served`: what the server
    has, where settings or models.json keep the window smaller than that."""
    if served > limit:
        return (
            f"{name} is used with a window of {limit:,} tokens, which is little for coding work; the server has "
            f"{served:,}. To change that, raise or remove `context_window` in the settings, or `contextWindow` and "
            "`num_ctx` in models.json."
        )
    fix = (
        "choose a model that was trained for more, such as one of qwen2.5-coder (32,768), with `--model`."
        if trained
        else larger(provider, limit)
    )
    return f"{name} has a window of {limit:,} tokens, which is little for coding work. To change that, {fix}"


def small(name: str, limit: int, fixed: int, provider: str) -> str:
    """The window is little for the rules and tools that every request has."""
    return (
        f"{name} has a window of {limit:,} tokens, and rules and tools take about {fixed:,} of them: little is left "
        f"for the work. To change that, {larger(provider, limit)}"
    )


def lowered(name: str, wanted: int, found: int, provider: str) -> str:
    """The server holds the model with less than was asked for."""
    return (
        f"The server runs {name} with a window of {found:,} tokens instead of {wanted:,}; {found:,} is "
        f"used from now on. To get more, {larger(provider, min(found, wanted - 1), configured=False)}"
    )


def cut_words(read: int, size: int, provider: str) -> str:
    """The server cut the prompt silently."""
    return (
        f"The server truncated the prompt: it read {read:,} of about {size:,} tokens and dropped the rest without an "
        f"error, so this reply is based on only a part. To prevent this, {larger(provider, size, configured=False)}"
    )


def messages_left_out(count: int) -> Notice:
    """Told when more of the user's messages are left out of requests than before (H2)."""
    many = "Your first message is" if count == 1 else f"{count} of your earlier messages are"
    text = f"{many} no longer sent to the model, to save space. Repeat what still matters."
    return Notice(level="info", text=text, code="context.left_out")
