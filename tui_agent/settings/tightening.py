"""What a workspace's `.tui-agent.yaml` may do: tighten, never loosen. A table, a rule a setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Rule: TypeAlias = Callable[[Any, Any], tuple[Any, str]]
"""(value that holds, value that the workspace wants) → (value that holds then, why not as wanted or ``)."""


def _ordered(*tightest_first: str) -> Rule:
    def rule(held: Any, wanted: Any) -> tuple[Any, str]:
        if tightest_first.index(wanted) <= tightest_first.index(held):
            return wanted, ""
        return held, f"would loosen {held!r} to {wanted!r}; a workspace may only tighten"

    return rule


def _only(safe: bool) -> Rule:
    def rule(held: Any, wanted: Any) -> tuple[Any, str]:
        if wanted is safe:
            return wanted, ""
        shown = "true" if wanted else "false"
        return held, "" if held is wanted else f"a workspace can't set this to {shown}"

    return rule


def _lower(held: Any, wanted: Any) -> tuple[Any, str]:
    if wanted <= held:
        return wanted, ""
    return held, f"would raise {held:g} to {wanted:g}; a workspace may only lower it"


def _more(held: Sequence[str], wanted: Sequence[str]) -> tuple[Any, str]:
    return (*held, *(one for one in wanted if one not in held)), ""


def _asking_patterns(held: dict[str, bool], wanted: dict[str, bool]) -> tuple[Any, str]:
    asking = [glob for glob, safe in wanted.items() if not safe]
    kept = {glob: safe for glob, safe in held.items() if glob not in asking}
    merged = {**kept, **dict.fromkeys(asking, False)}  # at the end: the last match wins
    return merged, "" if len(asking) == len(wanted) else "a workspace can't make files safe to edit (true)"


def _reading_mode(held: str, wanted: str) -> tuple[Any, str]:
    if wanted == held or wanted not in ("agent", "direct"):
        return wanted, ""
    return held, "a workspace may only choose a read-only mode"


_RULES: dict[str, Rule] = {
    "mode": _reading_mode,
    "approval_mode": _ordered("read-only", "ask", "auto-edit", "auto"),
    "auto_run": _only(False),
    "auto_approve_sensitive_edits": _only(False),
    "auto_approve_high": _only(False),
    "plan_auto_approve": _only(False),
    "sandbox": _ordered("required", "auto", "off"),
    "sandbox_network": _only(False),
    "sensitive_patterns": _asking_patterns,
    "protected_patterns": _more,
    "tools_off": _more,
    "language_servers_on": _only(False),
    "timeouts.command": _lower,
    "timeouts.command_max": _lower,
}


def rule_for(field: str) -> Rule | None:
    """The rule of the setting with this dotted name; None when a workspace has no say in it."""
    if field.startswith("iterations."):
        return _lower
    return _RULES.get(field)
