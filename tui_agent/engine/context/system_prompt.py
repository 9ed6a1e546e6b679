"""The system message, and the order of the parts of a request (H1)."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from tui_agent.common.domain import Message, Mode, ProgramMessage, SystemMessage, program_text

RESERVE = 1_024
"""Minimum tokens of the context window reserved for the reply."""


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
    """Return the system message: rules, mode, environment, agent rules, project facts (H3), the model's prompt.

    `role` is one of the roles in modes.py.
    """
    from tui_agent.engine.context.modes import rules as rules_of  # not before the first request

    parts = rules_of(mode, reads_only=reads_only, role=role)
    parts.extend(filter(None, (where, *rules)))
    if project:
        parts.append(f"The project, as the program found it:\n{project}")
    if model_prompt:
        parts.append(model_prompt)
    return "\n\n".join(parts)


def where_text(folders: Sequence[tuple[str, Path]], date: str) -> str:
    """Return the working folders with the names that paths begin with (T6), and the date."""
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
    """Return the messages of a request in the order of H1: rules, plan document, history, proposals."""
    plan = (SystemMessage(text=plan_doc),) if plan_doc else ()
    last = (ProgramMessage(text=program_text("proposals", proposals)),) if proposals else ()
    return (SystemMessage(text=system), *plan, *history, *last)
