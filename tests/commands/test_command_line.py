from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_demo_pty import LONG, started
from tui_agent.__main__ import main
from tui_agent.commands.arguments import command_parser, without_word
from tui_agent.common.suggestions import did_you_mean
from tui_agent.settings import load_settings


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("docter", "no such command: `docter`; did you mean `doctor`?"),
        ("session list", "no such command: `session`; did you mean `sessions`?"),
        ("--modle x", "unknown option `--modle`; did you mean `--model`?"),
        ("exec --aprove all task", "unknown option `--aprove`; did you mean `--approve`?"),
        ("exec --approve al task", "must be none, safe, edits or all, not `al`; did you mean `all`?"),
        ("exec fix the bug", "too many arguments: the bug. Put a text of several words in quotes."),
        ("sessions lst", "must be list, search, rename, fork, export or delete, not `lst`; did you mean `list`?"),
        ("settings base_url", "too many arguments: base_url. tui-agent settings takes only options."),
        ("exec --timeout soon task", "must be a number of seconds from more than 0 to 86400, not `soon`"),
        ("export", "no such command: `export`; did you mean `sessions export`?"),
        ("-C . docter", "no such command: `docter`; did you mean `doctor`?"),
    ],
)
def test_what_is_misspelled_is_named_with_what_was_meant(
    line: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(line.split())
    assert end.value.code == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize(("word", "beginning"), [("help", "usage: tui-agent"), ("version", "tui-agent 0.")])
def test_help_and_version_are_words_too(word: str, beginning: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([word])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(beginning)


def test_only_similar_names_are_suggested() -> None:
    assert did_you_mean("hello", ["doctor", "exec"]) == ""
    assert did_you_mean("MODLE", ["MODE", "MODEL"]) == "; did you mean `MODEL`?"


def test_options_before_a_command_are_those_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    parser = command_parser("")
    assert without_word(parser, ["-C", "exec", "exec", "hi"], "exec") == ["-C", "exec", "hi"]
    assert main(["-C", "/nowhere/at/all", "exec", "hi", "--provider", "scripted"]) == 2
    assert "/nowhere/at/all is not a folder" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["--approve", "--approval-mode"])
def test_both_names_of_the_approval_option_take_both_kinds_of_values(name: str) -> None:
    for given, mode in {
        "none": "ask",
        "safe": "ask",
        "edits": "auto-edit",
        "auto": "auto",
        "read-only": "read-only",
    }.items():
        assert command_parser("").parse_args([name, given]).approval_mode == mode
        assert command_parser("repl").parse_args([name, given]).approval_mode == mode
    for given, what in {"ask": "safe", "auto-edit": "edits", "auto": "all", "read-only": "none", "all": "all"}.items():
        assert command_parser("exec").parse_args(["task", name, given]).approve == what
    assert command_parser("").parse_args([]).approval_mode is None
    assert command_parser("exec").parse_args(["task"]).approve == "safe"
    assert "--approval-mode" not in command_parser("exec").format_help() + command_parser("").format_help()


def test_a_variable_that_is_no_setting_is_named_and_the_rest_is_used() -> None:
    environ = {"TUI_AGENT_MODLE": "x", "TUI_AGENT_MODE": "direct", "TUI_AGENT_HOME": "/tmp", "OTHER_MODLE": "y"}
    loaded = load_settings(None, None, environ)
    assert [str(problem) for problem in loaded.problems] == [
        "environment (TUI_AGENT_MODLE): ignored: there is no such setting; did you mean `TUI_AGENT_MODEL`?"
    ]
    assert loaded.errors == () and loaded.settings.mode == "direct"


@pytest.mark.parametrize("name", ["TEST_MODL", "POWER_LOSS", "EXAMPLE"])
def test_a_variable_of_the_tests_is_accepted_but_never_suggested(name: str) -> None:
    loaded = load_settings(None, None, {f"TUI_AGENT_{name}": "x", "TUI_AGENT_KILLS": "1", "TUI_AGENT_HOME": "/tmp"})
    message = f"environment (TUI_AGENT_{name}): ignored: there is no such setting"
    assert [str(problem) for problem in loaded.problems] == [message]


def test_an_unknown_key_of_a_workspace_is_named_and_the_rest_is_used(tmp_path: Path) -> None:
    file = tmp_path / ".tui-agent.yaml"
    file.write_text("approval_mod: ask\nmode: chat\n")
    loaded = load_settings(None, file, {})
    assert [problem.message for problem in loaded.problems] == [
        "ignored: is not a setting; did you mean `approval_mode`?"
    ]
    assert loaded.errors == () and loaded.settings.mode == "chat"


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_task_on_the_command_line_is_typed_and_not_sent(tmp_path: Path) -> None:
    async with started(tmp_path, "--demo", "-C", str(tmp_path / "demo"), "fix the bug") as program:
        await program.wait_for_text("Enter starts the demo", LONG)
        await program.wait_for_text("│ fix the bug", LONG)
        program.type(" in a.py")
        await program.wait_for_text("│ fix the bug in a.py", LONG)
        assert "Enter starts the demo" in program.text
