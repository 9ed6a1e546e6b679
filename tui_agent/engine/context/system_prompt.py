"""What the model sees: rules, then the project's rules, then history (H1); bounded for ever."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from tui_agent.common.domain import Message, Mode, ProgramMessage, SystemMessage, program_text

RESERVE = 1_024
"""Tokens of the window that are left for the reply at the least."""


def system_text(
    rules: Sequence[str],
    *,
    mode: Mode,
    reads_only: bool,
    where: str,
    project: str = "",
    model_prompt: str = "",
    role: str = "",
) -> str:
    """The system message: our rules, the mode, where we are, the rules of user and project, what kind of project it is
    (H3), the model's prompt.

    `role`: who is told, see modes.py."""
    from tui_agent.engine.context.modes import rules as rules_of  # not before the first request

    parts = rules_of(mode, reads_only=reads_only, role=role)
    parts.extend(filter(None, (where, *rules)))
    if project:
        parts.append(f"The project, as the program found it:\n{project}")
    if model_prompt:
        parts.append(model_prompt)
    return "\n\n".join(parts)


def where_text(folders: Sequence[tuple[str, Path]], date: str) -> str:
    """Where and when the agent works; several folders with the names that their paths begin with (T6)."""
    system = platform.system()
    if len(folders) == 1:
        return f"Working folder: {folders[0][1]} ({system}). Date: {date}."
    first = folders[0][0]
    rows = [f"- {name} is {folder}" for name, folder in folders]
    head = (
        f"Working folders ({system}). Every path begins with the name of its folder, such as {first}/README.md; "
        f"commands start in {first}. Date: {date}."
    )
    return "\n".join([head, *rows])


def assemble(system: str, history: tuple[Message, ...], plan_doc: str = "", proposals: str = "") -> tuple[Message, ...]:
    """The messages of a request, in the order of H1: rules, plan document, history, what changes within a run."""
    plan = (SystemMessage(text=plan_doc),) if plan_doc else ()
    last = (ProgramMessage(text=program_text("proposals", proposals)),) if proposals else ()
    return (SystemMessage(text=system), *plan, *history, *last)
