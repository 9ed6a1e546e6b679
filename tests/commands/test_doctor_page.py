from __future__ import annotations

from io import BytesIO, TextIOWrapper

import pytest
from rich.text import Text
from textual.app import App, ComposeResult
from textual.widgets import Static

from tui_agent.commands.doctor import print_findings
from tui_agent.commands.doctor_files import Finding, State
from tui_agent.commands.output import TextPage

MODEL = "qwen2.5-coder:7b"


def findings_of(group: str, *rows: tuple[State, str, str, str]) -> list[Finding]:
    return [
        Finding(group=group, name=name, state=state, text=text, advice=advice) for state, name, text, advice in rows
    ]


WELL = [
    *findings_of(
        "Server", ("ok", "address", "http://localhost:11434 (the default)", ""), ("ok", "version", "Ollama 0.32.0", "")
    ),
    *findings_of(
        "Model",
        ("ok", "name", f"{MODEL}, the only one there (the server has it)", ""),
        ("ok", "capabilities", "completion, tools, insert", ""),
        ("ok", "native calls", "work (1.2 s)", ""),
        ("ok", "calls as JSON", "work (1.9 s)", ""),
        ("ok", "window", "32,768 tokens of the model's 32,768, in effect", ""),
        ("ok", "memory", "4.7 GB loaded, all of it on the graphics card", ""),
    ),
    *findings_of(
        "Files",
        ("ok", "settings", "defaults; /home/ada/.config/tui-agent/config.yaml does not exist", ""),
        (
            "note",
            "trust",
            "/home/ada/exporter is not trusted: its AGENTS.md, settings and git data are not read",
            "The first session here asks; for `exec`, use --trust.",
        ),
    ),
    *findings_of("This machine", ("ok", "ripgrep", "13.0.0, /usr/bin/rg", ""), ("ok", "git", "2.39.5", "")),
]
TROUBLE = [
    *findings_of("Server", ("ok", "address", "http://localhost:11434 (`base_url` (settings))", "")),
    *findings_of(
        "Model",
        ("ok", "name", f"{MODEL} (`model` (settings))", ""),
        (
            "warn",
            "native calls",
            "printed as text: they are recovered, and after two of them calls are asked for as JSON",
            "",
        ),
        (
            "bad",
            "prompt",
            "2,050 tokens arrived of about 3,100 that were sent: the server cuts prompts without a word",
            "Restart it with `OLLAMA_CONTEXT_LENGTH=32768 ollama serve`.",
        ),
    ),
    *findings_of(
        "This machine",
        ("warn", "ripgrep", "not there; searching is slower without it", "Install it: apt install ripgrep"),
    ),
]


class PageApp(App[None]):
    """Shows a page as a terminal would."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static(Text.from_ansi(self._text, no_wrap=True))


@pytest.mark.parametrize("findings", [WELL, TROUBLE], ids=["well", "trouble"])
def test_doctor(findings: list[Finding], snap_compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_agent.commands.doctor.__version__", "0.0.0-test")
    pipe = BytesIO()
    out = TextIOWrapper(pipe, encoding="utf-8")
    print_findings(findings, TextPage(out, color=True))
    out.flush()
    assert snap_compare(PageApp(pipe.getvalue().decode()), terminal_size=(100, 30))
