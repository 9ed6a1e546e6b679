"""The model that answers, with its options."""

from __future__ import annotations

import msgspec

from tui_agent.models.base import Model


class ModelConfig(msgspec.Struct, frozen=True):
    """Which model answers and with which options; constant within a session and model."""

    model: Model
    name: str
    num_ctx: int | None
    """Tokens of the window; None when unknown."""
    temperature: float
    max_tokens: int
    think: bool | str | None = None
    keep_alive: str | int | None = None
