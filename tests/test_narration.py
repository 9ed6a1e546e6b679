"""What is said of actions outside the screen: in the log, by `exec`, in exports."""

from __future__ import annotations

import pytest

from tui_agent.common.domain import RunAction, Severity
from tui_agent.events.narration import action_text


@pytest.mark.parametrize("severity", list(Severity))
def test_a_severity_is_named_only_if_there_is_one(severity: Severity) -> None:
    action = RunAction(command="frob --all", cwd="/w", severity=severity, reasons=("frob may do more than read.",))
    text = action_text(action)
    assert "severity none" not in text
    assert (f"severity {severity}" in text) is (severity is not Severity.NONE)
