"""Noticing that a server read a long prompt again although it should still have had most of it (E9)."""

from __future__ import annotations

from tui_agent.domain import Usage
from tui_agent.speed import cached_share, evaluated, whole

LONG = 2_000
"""Tokens from which on reading a prompt again is worth a word."""
EXPECTED = 0.9
"""Share of a prompt that the request before began with, too."""
FOUND = 0.5
"""Share that the server still had: below this it read the prompt again."""


def reread(usage: Usage, size: int, fresh: int, *, reloaded: bool, apart: bool, provider: str) -> str:
    """What to tell the user of a prompt of `size` tokens, all but `fresh` of which the request before had, too; empty
    where all is well, or where the server does not say. `reloaded`: the model was loaded anew for it. `apart`: other
    requests of ours came in between."""
    share, real = cached_share(usage), whole(usage) or 0
    if share is None or real < LONG or fresh >= (1 - EXPECTED) * size or share >= FOUND:
        return ""
    read = evaluated(usage) or 0
    seconds = (usage.prompt_ms or 0) / 1_000
    took = f", which took {seconds:.0f} s" if seconds >= 1.5 else ""
    what = f"The server read {read:,} of {real:,} tokens again{took}, although the request before began alike"
    return f"{what}: {_cause(reloaded, apart, provider)}"


def _cause(reloaded: bool, apart: bool, provider: str) -> str:
    ollama = provider == "ollama"
    if reloaded:
        keeps = "A larger `keep_alive` keeps it loaded, unless memory is short. " if ollama else ""
        return (
            f"the model was loaded anew. {keeps}Another program that uses the server may have displaced it."
        )
    if apart:
        fix = (
            "`OLLAMA_NUM_PARALLEL=2`"
            if ollama
            else "`llama-server --parallel 2` with twice the context (`-c`)"
        )
        return (
            f"requests for other purposes took its place in the cache. {fix} gives them a place of their own."
        )
    fix = "" if ollama else " For models with a sliding window llama-server needs `--swa-full` to keep it."
    return f"it kept nothing of it; another program may have used the server in between.{fix}"
