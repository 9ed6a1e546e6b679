from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tui_agent.__main__ import COMMANDS, FRONTENDS, main
from tui_agent.commands.arguments import MAX_WIDTH, command_names, command_parser, with_default_command

ROOT = Path(__file__).resolve().parents[2]
PARSERS = {name: command_parser(name) for name in ("", *command_names())}


def with_subparsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


ALL = {subparser.prog: subparser for parser in PARSERS.values() for subparser in with_subparsers(parser)}


def command_lines(text: str) -> Iterator[str]:
    """Yield the arguments of each `tui-agent` command in a shell script."""
    for line in text.splitlines():
        for piece in re.split(r" && | \| ", line):
            arguments = shlex.split(piece, comments=True) if "tui-agent" in piece else []
            while arguments and re.match(r"[A-Z_]+=", arguments[0]):
                del arguments[0]
            if arguments and arguments[0].rpartition("/")[2] == "tui-agent":
                yield shlex.join(arguments[1:])


def parse_line(line: str) -> argparse.Namespace:
    """Parse a command line. Raises SystemExit if it is invalid."""
    arguments = shlex.split(line)
    name = arguments[0] if arguments and arguments[0] in PARSERS else ""
    rest = arguments[1:] if name else arguments
    return PARSERS[name].parse_args(with_default_command(name, rest))


def examples() -> list[str]:
    lines: list[str] = []
    for parser in PARSERS.values():
        rows = (parser.epilog or "").partition("examples:\n")[2].partition("\n\n")[0]
        text = "\n".join(re.split(r"\s{2,}", row.strip())[0] for row in rows.splitlines())
        lines += command_lines(text)
    return lines


def documented_lines() -> list[str]:
    """The command lines in the README and the documentation."""
    lines: list[str] = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            lines += command_lines(block)
        for inline in re.findall(r"`([^`\n]*tui-agent [^`\n]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            lines += command_lines(inline.replace("…", "x").replace("[", "").replace("]", ""))
    return lines


def test_the_commands_that_are_listed_are_those_there_are() -> None:
    assert set(command_names()) == {"exec", *COMMANDS, *FRONTENDS}


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_page_says_what_it_is_for_and_every_option_with_its_default(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    parser = ALL[name]
    text = parser.format_help()
    assert [line for line in text.splitlines() if len(line) > MAX_WIDTH] == []
    assert text.startswith(f"usage: {name}")
    assert (parser.description or "").partition("\n")[0]
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        assert action.help or isinstance(action, argparse._SubParsersAction), action
        if action.option_strings and action.default not in (None, False, [], argparse.SUPPRESS):
            default = action.default
            expected = (
                ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in default)
                if isinstance(default, tuple)
                else f"{default:g}"
                if isinstance(default, float)
                else str(default)
            )
            assert f"default: {expected}" in (action.help or ""), action
        if action.choices and action.option_strings:
            assert [choice for choice in action.choices if str(choice) not in (action.help or "")] == []
    if name in {parser.prog for parser in PARSERS.values()}:
        assert "examples:\n" in text
        assert "exit codes:\n" in text


@pytest.mark.parametrize("line", examples())
def test_an_example_of_a_page_is_understood(line: str) -> None:
    assert parse_line(line)


@pytest.mark.parametrize("line", sorted(set(documented_lines())))
def test_a_command_line_of_the_readme_or_the_pages_is_understood(line: str) -> None:
    try:
        parse_line(line)
    except SystemExit as end:
        assert end.code == 0, line  # --help


def test_the_lines_that_are_looked_at_are_found() -> None:
    assert len(examples()) > 30
    assert "--demo" in documented_lines()
    assert "exec --demo --approve all" in documented_lines()
    with pytest.raises(SystemExit):
        parse_line("exec --no-such-option")


def test_a_command_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["sesions"])
    assert end.value.code == 2
    assert "no such command: `sesions`; did you mean `sessions`?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["settings", "rules"])
def test_a_command_without_options_takes_none(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--force"])
    assert end.value.code == 2
    assert "--force" in capsys.readouterr().err
