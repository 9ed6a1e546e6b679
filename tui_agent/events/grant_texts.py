"""Grants in words, the same in dialogs, panels, the log and line mode (A5)."""

from __future__ import annotations

from collections.abc import Sequence

from tui_agent.common.domain import Action, Grant, RunAction, Scope
from tui_agent.text import make_visible

DURATIONS = {Scope.ONCE: "once", Scope.SESSION: "for this session", Scope.ALWAYS: "always"}
"""How long an approval holds."""
APPROVED = {Scope.ONCE: "approved", Scope.SESSION: "approved for this session", Scope.ALWAYS: "always approved"}


def grant_parts(grant: Grant) -> tuple[str, str, str, str]:
    """Return what a grant allows, as kind, pattern, folder and changed variables; joined they are a text."""
    folder = f" in {make_visible(grant.cwd)}" if grant.cwd else ""
    changes = f" with {', '.join(map(make_visible, grant.env_changes))}" if grant.env_changes else ""
    return f"{grant.kind} ", make_visible(grant.pattern), folder, changes


def grant_text(grant: Grant) -> str:
    """Return what a grant allows."""
    return "".join(grant_parts(grant))


def grants_text(grants: Sequence[Grant], action: Action | None, scope: Scope) -> str:
    """Return what an approval of `action` with a scope allows from then on; "" if nothing.

    Command and folder of the action are not repeated, to keep the choices visible.
    """
    run = action if isinstance(action, RunAction) else None
    texts = []
    for grant in grants:
        kind, pattern, folder, changes = grant_parts(grant)
        if run is not None and grant.pattern == run.command:
            kind, pattern = "", "exactly the command above"
        if run is not None and grant.cwd == run.cwd:
            folder = " in this folder"
        if grant.scope is scope:
            texts.append(f"{kind}{pattern}{folder}{changes}")
    return ", ".join(texts)
