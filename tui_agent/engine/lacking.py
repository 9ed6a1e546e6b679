"""What the user is told when the server has no model to work with, with what to do (G2, M5)."""

from __future__ import annotations

from collections.abc import Collection

from tui_agent.domain import Fault
from tui_agent.models.base import Model

NAMED = 5
"""Models of the server that are named."""
PULL = "Pull one first, such as `ollama pull qwen2.5-coder:7b`, or name one with `--model`."
LOAD = "Load one there, or name one with `--model`."


def no_model(model: Model, served: Collection[str]) -> Fault:
    """The server has none that can answer."""
    advice = PULL if model.provider == "ollama" else LOAD
    if served:
        return embeds(_listed(served), advice)
    return Fault(kind="status", message=f"{model.endpoint} has no models.", advice=advice)


def embeds(name: str, advice: str) -> Fault:
    """A model that can't answer."""
    return Fault(kind="status", message=f"{name} only makes embeddings and can't answer.", advice=advice)


def lacking(model: Model, name: str, served: Collection[str]) -> Fault:
    """The model that was named is not there."""
    pull = f"Get it with `ollama pull {name}`, or choose" if model.provider == "ollama" else "Choose"
    advice = f"{pull} another one with `/model` or `--model`; there are {_listed(served)}."
    return Fault(kind="status", status=404, message=f"{model.endpoint} has no model {name}.", advice=advice)


def _listed(names: Collection[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(list(names)[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
