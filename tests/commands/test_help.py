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


def with_parts(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


ALL = {part.prog: part for parser in PARSERS.values() for part in with_parts(parser)}


def lines_of(text: str) -> Iterator[str]:
    """Command lines of ours in a text of the shell, without what stands around them."""
    for line in text.splitlines():
        for piece in re.split(r" && | \| ", line):
            words = shlex.split(piece, comments=True) if "tui-agent" in piece else []
            while words and re.match(r"[A-Z_]+=", words[0]):
                del words[0]
            if words and words[0].rpartition("/")[2] == "tui-agent":
                yield shlex.join(words[1:])


def read(line: str) -> argparse.Namespace:
    """What the program makes of a command line; ends with SystemExit where it refuses it."""
    words = shlex.split(line)
    name = words[0] if words and words[0] in PARSERS else ""
    rest = words[1:] if name else words
    return PARSERS[name].parse_args(with_default_command(name, rest))


def examples() -> list[str]:
    found: list[str] = []
    for parser in PARSERS.values():
        given = (parser.epilog or "").partition("examples:\n")[2].partition("\n\n")[0]
        shown = "\n".join(re.split(r"\s{2,}", row.strip())[0] for row in given.splitlines())
        found += lines_of(shown)
    return found


def promised() -> list[str]:
    """The command lines of the README and the pages."""
    found: list[str] = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            found += lines_of(block)
        for inline in re.findall(r"`([^`\n]*tui-agent [^`\n]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            found += lines_of(inline.replace("…", "x").replace("[", "").replace("]", ""))
    return found


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
        assert action.help or isinstance(action, argparse._SubParsersAction), action
        if action.option_strings and action.default not in (None, False, [], argparse.SUPPRESS):
            shown = action.default
            given = (
                ",".join(f"{one:g}" if isinstance(one, float) else str(one) for one in shown)
                if isinstance(shown, tuple)
                else f"{shown:g}"
                if isinstance(shown, float)
                else str(shown)
            )
            assert f"default: {given}" in (action.help or ""), action
        if action.choices and action.option_strings:
            assert [one for one in action.choices if str(one) not in (action.help or "")] == []
    if name in {parser.prog for parser in PARSERS.values()}:
        assert "examples:\n" in text
        assert "exit codes:\n" in text


@pytest.mark.parametrize("line", examples())
def test_an_example_of_a_page_is_understood(line: str) -> None:
    assert read(line)


@pytest.mark.parametrize("line", sorted(set(promised())))
def test_a_command_line_of_the_readme_or_the_pages_is_understood(line: str) -> None:
    try:
        read(line)
    except SystemExit as end:
        assert end.code == 0, line  # --help


def test_the_lines_that_are_looked_at_are_found() -> None:
    assert len(examples()) > 30
    assert "--demo" in promised()
    assert "exec --demo --approve all" in promised()
    with pytest.raises(SystemExit):
        read("exec --no-such-option")


def test_a_command_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["sesions"])
    assert end.value.code == 2
    assert "unknown command `sesions`" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["settings", "rules"])
def test_a_command_without_options_takes_none(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--force"])
    assert end.value.code == 2
    assert "--force" in capsys.readouterr().err
