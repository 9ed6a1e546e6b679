from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.widgets.kit import INK
from tui_agent.keys.keymap import Keymap
from tui_agent.view.items import SessionView, Status
from widgets.status_line import ActivityLine, greeting, title_line


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


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (56, "tui-agent · exporter          direct · ask · ctx 1.8k/32k"),
        (76, "tui-agent · exporter       direct · ask · qwen2.5-coder:7b · ctx 1.8k/32k"),
        (30, "tui-agent · exp…  direct · ask"),
    ],
)
def test_the_context_is_shown_before_the_model_on_a_narrow_screen(width: int, shown: str) -> None:
    view = SessionView(mode="direct", approval_mode="ask", trusted=True, workspace="/home/ada/exporter")
    view.model, view.context_used, view.context_limit = "qwen2.5-coder:7b", 1800, 32768
    assert " ".join(title_line(view, width, INK)[0].text.split()) == " ".join(shown.split())
    assert len(title_line(view, width, INK)[0].text) == width


@pytest.mark.parametrize(
    ("model", "effort", "shown"),
    [("qwen3:8b", "off", "qwen3:8b · effort off"), ("qwen3:8b", "", "qwen3:8b"), ("", "off", "ask")],
)
def test_the_effort_is_shown_next_to_the_model(model: str, effort: str, shown: str) -> None:
    view = SessionView(mode="direct", approval_mode="ask", trusted=True, model=model, effort=effort)
    text = title_line(view, 100, INK)[0].text
    assert text.rstrip().endswith(shown)
    assert ("effort" in text) == ("effort" in shown)


def activity(view: SessionView, width: int) -> str:
    line = ActivityLine(view, SimpleNamespace(following=True), now=lambda: 112.0)  # type: ignore[arg-type]  # all it reads
    line.starting = ""
    return line._paint(width, INK)[-1].text.rstrip()


def test_the_time_of_a_long_command_stays_visible() -> None:
    view = SessionView(status=Status(phase="running", detail="python -m pytest -q tests/test_export.py", since=100.0))
    assert activity(view, 80) == "● running python -m pytest -q tests/test_export.py · 12 s"
    assert activity(view, 40) == "● running python -m pytest -q te… · 12 s"


def test_what_is_waited_for_stands_apart() -> None:
    view = SessionView(status=Status(phase="waiting", detail="run a command", since=112.0))
    assert activity(view, 80) == "● waiting for you · run a command"


def test_the_greeting_wraps_on_a_narrow_screen() -> None:
    view = SessionView(workspace="/home/ada/exporter", approval_mode="ask", trusted=True)
    assert [line.text for line in greeting(view, 40, INK)][-2:] == [
        "approvals  you are asked before a file",
        "           changes or a command runs",
    ]


def test_the_footer_ends_a_session_before_it_shows_more() -> None:
    labels = [label for _key, label in Keymap().footer(busy=False, plan=False)]
    assert labels.index("quit") < labels.index("approvals") < labels.index("details")


def test_a_narrow_title_shortens_the_sandbox_before_it_drops_the_model() -> None:
    view = SessionView(
        title="word counter", mode="agent", approval_mode="ask", sandbox="bwrap", model="coder:7b", trusted=True
    )
    view.context_used, view.context_limit = 1_200, 8_192
    text = title_line(view, 80, INK)[0].text
    assert "coder:7b" in text
    assert "ctx 1.2k" in text
    assert "agent · ask · no sandbox" in text
