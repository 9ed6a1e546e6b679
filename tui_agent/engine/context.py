"""What the model sees: rules, then the project's rules, then history (H1); bounded for ever."""

from __future__ import annotations

import platform
from pathlib import Path

from tui_agent.domain import Message, Mode, ProgramMessage, SystemMessage, marked
from tui_agent.engine.prompts import prompt
from tui_agent.text import marked_hidden

AGENTS_FILE = "AGENTS.md"
AGENTS_CAP = 16_000
"""Characters taken from one AGENTS.md."""
RESERVE = 1_024
"""Tokens of the window that are left for the reply at the least."""


def agent_rules(home_file: Path, workspace: Path, cwd: Path, trusted: bool) -> tuple[list[str], list[str]]:
    """The user's AGENTS.md, then those from the workspace's root down to `cwd` (only of a trusted folder, A8).

    Returns the texts and warnings about files that could not be read. Does file IO: call it in a thread.
    """
    places = [home_file]
    if trusted:
        below = cwd.relative_to(workspace).parts if cwd.is_relative_to(workspace) else ()
        folder = workspace
        places.append(folder / AGENTS_FILE)
        for part in below:
            folder = folder / part
            places.append(folder / AGENTS_FILE)
    texts: list[str] = []
    warnings: list[str] = []
    for place in dict.fromkeys(places):
        try:
            if not place.is_file():
                continue
            if place != home_file and not place.resolve().is_relative_to(workspace.resolve()):
                warnings.append(f"{place} was not used: it leads out of the folder.")
                continue
            with place.open("rb") as file:
                data = file.read(4 * AGENTS_CAP)
            text = marked_hidden(
                data.decode("utf-8", "strict" if len(data) < 4 * AGENTS_CAP else "ignore")
            ).strip()
        except (OSError, UnicodeDecodeError) as error:
            warnings.append(f"{place} was not used: {error}.")
            continue
        if len(text) > AGENTS_CAP:
            warnings.append(f"{place} is longer than {AGENTS_CAP:,} characters; the rest was left out.")
            text = text[:AGENTS_CAP]
        if text:
            source = "the user" if place == home_file else str(place.relative_to(workspace))
            texts.append(f"Rules from {source}:\n{text}")
    return texts, warnings


def system_text(
    rules: list[str], *, mode: Mode, reads_only: bool, workspace: Path, date: str, model_prompt: str = ""
) -> str:
    """The system message: our rules, the mode, where we are, the rules of user and project, the model's prompt."""
    parts = [prompt("rules")]
    if reads_only or mode.reads_only:
        parts.append(prompt("read_only"))
    parts.append(f"Working folder: {workspace} ({platform.system()}). Date: {date}.")
    parts.extend(rules)
    if model_prompt:
        parts.append(model_prompt)
    return "\n\n".join(parts)


def assemble(
    system: str, history: tuple[Message, ...], plan_doc: str = "", proposals: str = ""
) -> tuple[Message, ...]:
    """The messages of a request, in the order of H1: rules, plan document, history, what changes within a run."""
    plan = (SystemMessage(text=plan_doc),) if plan_doc else ()
    last = (ProgramMessage(text=marked("proposals", proposals)),) if proposals else ()
    return (SystemMessage(text=system), *plan, *history, *last)
