"""What is said of actions outside the screen: in the log, by `exec`, in exports."""

from __future__ import annotations

import pytest

from tui_agent.common.domain import Answer, Grant, RunAction, Scope, Severity
from tui_agent.events import ApprovalAnswered, GrantRevoked
from tui_agent.events.narration import action_text, narrate
from tui_agent.safety.policy import describe_grant


@pytest.mark.parametrize("severity", list(Severity))
def test_a_severity_is_named_only_if_there_is_one(severity: Severity) -> None:
    action = RunAction(command="frob --all", cwd="/w", severity=severity, reasons=("frob may do more than read.",))
    text = action_text(action)
    assert "severity none" not in text
    assert (f"severity {severity}" in text) is (severity is not Severity.NONE)


def test_a_grant_has_one_wording() -> None:
    grant = Grant(kind="run", pattern="make\u202e", cwd="/w", env_changes=("CC=gcc",), scope=Scope.SESSION)
    text = "run make<U+202E> in /w with CC=gcc"
    answered = narrate(ApprovalAnswered(id="a", answer=Answer(verdict="approve", scope=Scope.SESSION), grant=grant))
    revoked = narrate(GrantRevoked(grant=grant))
    assert answered is not None and answered.text == f"Approved for this session. Granted: {text}"
    assert revoked is not None and revoked.text == f"Revoked: {text}"
    assert describe_grant(grant) == f"You allowed for this session: {text}"
