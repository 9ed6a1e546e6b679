"""The model of a role, with its options."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tui_agent.models.base import Model


class ModelConfig(msgspec.Struct, frozen=True):
    """A model and its request options; constant for a session and model."""

    model: Model
    name: str
    num_ctx: int | None
    """Size of the context window in tokens; None if unknown."""
    temperature: float
    max_tokens: int
    think: bool | str | None = None
    keep_alive: str | int | None = None
    current_think: Callable[[], bool | str | None] | None = None
    """Returns the value of `think` for the next request, since the user may change the effort during a run (L5)."""
