from __future__ import annotations

from typing import Any

import pytest

from tests.widgets.kit import INK
from tui_agent.view.items import SessionView
from widgets.status_line import title_line


@pytest.mark.parametrize(
    ("sandbox", "approval_mode", "flags", "label"),
    [
        ("bwrap", "auto", {}, "sandboxed"),
        ("landlock", "auto-edit", {}, "sandboxed"),
        ("landlock", "read-only", {}, "sandboxed"),
        ("landlock", "ask", {}, "approved commands: no sandbox"),
        ("landlock", "ask", {"sandbox_required": True}, "sandboxed"),
        ("bwrap", "auto", {"sandbox_network": True}, "sandboxed, network"),
        ("landlock: files, network, sockets", "auto", {}, "partial sandbox"),
        ("landlock: files only", "auto", {"sandbox_network": True}, "partial sandbox, network"),
        ("landlock: files", "ask", {}, "approved commands: no sandbox"),
        ("none", "auto", {}, "no sandbox"),
        ("off", "ask", {}, "no sandbox"),
    ],
)
def test_the_sandbox_is_named_as_it_holds_for_the_next_command(
    sandbox: str, approval_mode: str, flags: dict[str, Any], label: str
) -> None:
    view = SessionView(mode="agent", approval_mode=approval_mode, trusted=True, sandbox=sandbox, **flags)
    texts = [segment.text.strip() for line in title_line(view, 120, INK) for segment in line.segments]
    assert label in texts
