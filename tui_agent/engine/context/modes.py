"""The prompts and tools of each mode (W11, H8, T5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_agent.common.domain import Mode
from tui_agent.engine.core.prompts import fingerprint, prompt, version

if TYPE_CHECKING:
    from tui_agent.common.workplan import Classification
    from tui_agent.tools.registry import Registry

SUBAGENT = "subagent"
ORCHESTRATOR = "orchestrator"
FILES = "files"
"""Roles with their own prompts."""
ORCHESTRATOR_TOOLS = ("write_file", "edit_file", "run_terminal_command", "run_subagent")
"""The orchestrator's tools (T5)."""
_NOT_FOR_SUBAGENTS = ("ask_user", "initialize_plan", "update_plan", "run_subagent")
"""Read-only tools that sub-agents don't have, since they communicate only with their caller."""


def prompt_role(mode: Mode, orchestrator: bool) -> str:
    """Return the role in `mode`: the orchestrator if the setting is on and the mode may change files."""
    return ORCHESTRATOR if orchestrator and not mode.reads_only else ""


def sections(mode: Mode, *, reads_only: bool, role: str = "") -> tuple[str, ...]:
    """Return the names of the prompts that form the rules, in order. `reads_only` forbids changes in any mode."""
    mode_section = f"mode_{mode.value.replace('-', '_')}"
    if role == SUBAGENT:
        return ("subagent", mode_section)
    if role == FILES:
        return ("files_rules",)
    read_only = ("read_only",) if reads_only or mode.reads_only else ()
    return ("rules", *read_only, *((ORCHESTRATOR,) if role == ORCHESTRATOR else ()), mode_section)


def rules(mode: Mode, *, reads_only: bool, role: str = "") -> list[str]:
    """Return the texts of `sections`."""
    return [prompt(name) for name in sections(mode, reads_only=reads_only, role=role)]


def intent_section(classification: Classification) -> str:
    """Return the name of the prompt added for the kind of request (W1), or an empty string."""
    if classification.guessed or classification.intent == "mixed":
        return ""
    if classification.intent == "analyze" and classification.needs_write:
        return "intent_document"
    return f"intent_{classification.intent}"


def versions(mode: Mode, tools: Registry, *, reads_only: bool, role: str = "") -> dict[str, str]:
    """Return name → version of the prompts of the rules, and of the tool descriptions (H8)."""
    prompts = {name: version(name) for name in sections(mode, reads_only=reads_only, role=role)}
    return prompts | {"tools": fingerprint("\0".join(spec.description for spec in tools.specs()))}


def version_of(intent: str) -> dict[str, str]:
    """Return name → version of the prompt added for the kind of request."""
    return {intent: version(intent)} if intent else {}


# --- tools --------------------------------------------------------------------------------------


def offered(tools: Registry, mode: Mode, *, orchestrator: bool = False) -> Registry:
    """Return the tools of a mode; calls of other tools are refused with a reason."""
    reasons: dict[str, str] = {}
    role = prompt_role(mode, orchestrator)
    for name in tools.names:
        if role == ORCHESTRATOR and name not in ORCHESTRATOR_TOOLS:
            reasons[name] = (
                f"Not allowed: {name} is left to sub-agents, since the orchestrator is on. Send one with run_subagent; "
                f"your own tools are {', '.join(ORCHESTRATOR_TOOLS)}."
            )
        elif name == "run_subagent" and role != ORCHESTRATOR and mode is not Mode.DEEP_EXPLORE:
            reasons[name] = (
                f"Not allowed: {mode} mode has no sub-agents. "
                "Look into it yourself with the tools that read and search."
            )
    registry = tools.with_blocked(reasons)
    return registry if role == ORCHESTRATOR else registry.for_mode(mode)


def for_subagent(tools: Registry, mode: Mode) -> Registry:
    """Return the tools of a sub-agent: read-only ones, and in review mode also commands (T5)."""
    reading = set(tools.read_only().names) - set(_NOT_FOR_SUBAGENTS)
    allowed = reading | ({"run_terminal_command"} if mode is Mode.REVIEW else set())
    names = ", ".join(name for name in tools.names if name in allowed)
    reason = "Not allowed: a sub-agent only reads and asks nobody. Its tools are: {}. Put the rest into your report."
    return tools.with_blocked({name: reason.format(names) for name in tools.names if name not in allowed})
