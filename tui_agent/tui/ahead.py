"""Modules that no idle session needs, but every run."""

from __future__ import annotations

from importlib import import_module

NEEDED = (
    "tui_agent.engine.loop",
    "tui_agent.engine.calls",
    "tui_agent.tools.registry",
    "tui_agent.engine.structured",
    "tui_agent.engine.workflow",
    "markdown_it",
    "markdown_it.tree",
)
"""In the order in which a run asks for them."""


def load_ahead() -> None:
    """Import them; for a thread. An idle screen stays small, and the first message finds them there (X1)."""
    for name in NEEDED:
        import_module(name)
