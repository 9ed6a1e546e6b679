"""What a workspace's `.tui-agent.yaml` may change: it can tighten settings, not loosen them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Rule: TypeAlias = Callable[[Any, Any], tuple[Any, str]]
"""(current value, workspace's value) → (resulting value, why it was refused or ``)."""


def _ordered(*tightest_first: str) -> Rule:
    def rule(current: Any, requested: Any) -> tuple[Any, str]:
        if tightest_first.index(requested) <= tightest_first.index(current):
            return requested, ""
        return current, f"would loosen {current!r} to {requested!r}; a workspace may only tighten"

    return rule


def _only_value(allowed: bool) -> Rule:
    def rule(current: Any, requested: Any) -> tuple[Any, str]:
        if requested is allowed:
            return requested, ""
        literal = "true" if requested else "false"
        return current, "" if current is requested else f"a workspace can't set this to {literal}"

    return rule


def _lower_only(current: Any, requested: Any) -> tuple[Any, str]:
    if requested <= current:
        return requested, ""
    return current, f"would raise {current:g} to {requested:g}; a workspace may only lower it"


def _add_entries(current: Sequence[str], requested: Sequence[str]) -> tuple[Any, str]:
    return (*current, *(entry for entry in requested if entry not in current)), ""


def _patterns_needing_approval(current: dict[str, bool], requested: dict[str, bool]) -> tuple[Any, str]:
    asking = [glob for glob, allowed in requested.items() if not allowed]
    others = {glob: allowed for glob, allowed in current.items() if glob not in asking}
    merged = {**others, **dict.fromkeys(asking, False)}  # at the end: the last match wins
    return merged, "" if len(asking) == len(requested) else "a workspace can't make files safe to edit (true)"


def _read_only_mode(current: str, requested: str) -> tuple[Any, str]:
    if requested == current or requested not in ("agent", "direct"):
        return requested, ""
    return current, "a workspace may only choose a read-only mode"


_RULES: dict[str, Rule] = {
    "mode": _read_only_mode,
    "approval_mode": _ordered("read-only", "ask", "auto-edit", "auto"),
    "auto_run": _only_value(False),
    "auto_approve_sensitive_edits": _only_value(False),
    "auto_approve_high": _only_value(False),
    "plan_auto_approve": _only_value(False),
    "sandbox": _ordered("required", "auto", "off"),
    "sandbox_network": _only_value(False),
    "sensitive_patterns": _patterns_needing_approval,
    "protected_patterns": _add_entries,
    "tools_off": _add_entries,
    "language_servers_on": _only_value(False),
    "timeouts.command": _lower_only,
    "timeouts.command_max": _lower_only,
}


def rule_for(field: str) -> Rule | None:
    """Return the rule of a setting by its dotted name, or None if a workspace can't change it."""
    if field.startswith("iterations."):
        return _lower_only
    return _RULES.get(field)
