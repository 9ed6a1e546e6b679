"""What a mode is made of: its texts, and the tools that it has and has not (W11, H8, T5)."""

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
"""Who is told, where it is not the agent as usual."""
LEADING = ("write_file", "edit_file", "run_terminal_command", "run_subagent")
"""The orchestrator's tools (T5)."""
_ASIDE = ("ask_user", "initialize_plan", "update_plan", "run_subagent")
"""Reading tools that a sub-agent has not: it reaches nobody but its caller."""


def who(mode: Mode, orchestrator: bool) -> str:
    """Who is told in `mode`: the orchestrator where the setting is on and the mode works."""
    return ORCHESTRATOR if orchestrator and not mode.reads_only else ""


def sections(mode: Mode, *, reads_only: bool, role: str = "") -> tuple[str, ...]:
    """Names of the prompt texts that the rules are made of, in order. `reads_only`: nothing may be changed, whatever
    the mode."""
    own = f"mode_{mode.value.replace('-', '_')}"
    if role == SUBAGENT:
        return ("subagent", own)
    if role == FILES:
        return ("files_rules",)
    looks = ("read_only",) if reads_only or mode.reads_only else ()
    return ("rules", *looks, *((ORCHESTRATOR,) if role == ORCHESTRATOR else ()), own)


def rules(mode: Mode, *, reads_only: bool, role: str = "") -> list[str]:
    """Those texts."""
    return [prompt(name) for name in sections(mode, reads_only=reads_only, role=role)]


def intent_section(found: Classification) -> str:
    """Name of the text that the kind of request adds (W1); empty where it adds none."""
    if found.guessed or found.intent == "mixed":
        return ""
    if found.intent == "analyze" and found.needs_write:
        return "intent_document"
    return f"intent_{found.intent}"


def versions(mode: Mode, tools: Registry, *, reads_only: bool, role: str = "") -> dict[str, str]:
    """Name → version of the texts that the rules are made of, and of the descriptions of the tools (H8)."""
    told = {name: version(name) for name in sections(mode, reads_only=reads_only, role=role)}
    return told | {"tools": fingerprint("\0".join(spec.description for spec in tools.specs()))}


def version_of(intent: str) -> dict[str, str]:
    """The same of the text that the kind of request added, if any."""
    return {intent: version(intent)} if intent else {}


# --- tools --------------------------------------------------------------------------------------


def offered(tools: Registry, mode: Mode, *, orchestrator: bool = False) -> Registry:
    """The tools of a mode. Those that it has not are refused with the reason when they are called all the same."""
    reasons: dict[str, str] = {}
    role = who(mode, orchestrator)
    for name in tools.names:
        if role == ORCHESTRATOR and name not in LEADING:
            reasons[name] = _left_to_subagents(name)
        elif name == "run_subagent" and role != ORCHESTRATOR and mode is not Mode.DEEP_EXPLORE:
            reasons[name] = _no_subagents(mode)
    kept = tools.with_blocked(reasons)
    return kept if role == ORCHESTRATOR else kept.for_mode(mode)


def for_subagent(tools: Registry, mode: Mode) -> Registry:
    """What a sub-agent has: what reads, in review also commands that do (T5)."""
    reading = set(tools.read_only().names) - set(_ASIDE)
    own = reading | ({"run_terminal_command"} if mode is Mode.REVIEW else set())
    shown = ", ".join(name for name in tools.names if name in own)
    reason = "Not allowed: a sub-agent only reads and asks nobody. Its tools are: {}. Put the rest into your report."
    return tools.with_blocked({name: reason.format(shown) for name in tools.names if name not in own})


def _left_to_subagents(name: str) -> str:
    return (
        f"Not allowed: {name} is left to sub-agents, since the orchestrator is on. Send one with run_subagent; "
        f"your own tools are {', '.join(LEADING)}."
    )


def _no_subagents(mode: Mode) -> str:
    return f"Not allowed: {mode} mode has no sub-agents. Look into it yourself with the tools that read and search."
