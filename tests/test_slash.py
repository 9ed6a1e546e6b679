from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.keys.keymap import COMMANDS
from tui_agent.keys.slash import message_of, read_command


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_is_read_with_its_argument(name: str) -> None:
    for text, argument in ((f"/{name}", ""), (f"/{name}  two words \n", "two words"), (f"/{name}\nmore", "more")):
        command = read_command(text)
        assert command is not None
        assert (command.name, command.argument, command.problem) == (name, argument, "")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/mdoel", "/model"),
        ("/udno", "/undo"),
        ("/Undo", "/undo"),
        ("/sesions now", "/sessions"),
        ("/apporvals ask", "/approvals"),
        ("/quti\n", "/quit"),
    ],
)
def test_a_mistyped_command_is_told_with_the_one_that_was_meant(text: str, meant: str) -> None:
    command = read_command(text)
    assert command is not None
    problem = f"unknown command {text.split()[0]}; did you mean {meant}? A leading space sends it."
    assert command.problem == problem


@pytest.mark.parametrize("text", ["/xyzzy", "/?", "/42", "/", "/ undo", "/" + "x" * 5000])
def test_what_is_like_no_command_says_where_they_are_listed(text: str) -> None:
    command = read_command(text)
    assert command is not None
    assert "/help lists them" in command.problem and len(command.problem) < 130


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        " /undo",
        "/usr/bin is full",
        "/etc/hosts",
        "/README.md",
        "/* a comment */ x",
        "// a comment",
        "/^a+$/",
        "fix /undo",
        "\n/undo",
        "/a:b",
    ],
)
def test_paths_comments_and_expressions_are_messages(text: str) -> None:
    assert read_command(text) is None


def test_a_surface_may_know_other_names() -> None:
    status, undo = (read_command(text, ("status",)) for text in ("/status", "/undo"))
    assert status is not None and not status.problem
    assert undo is not None and undo.problem.startswith("unknown command /undo;")


@given(st.text())
def test_a_leading_space_always_makes_a_message(text: str) -> None:
    assert read_command(f" /{text}") is None
    assert message_of(f" /{text}") == f"/{text}" and message_of(f" !{text}") == f"!{text}"


@given(st.text(alphabet="/ undo\nmel?-\x1b\u202e"))
def test_any_text_is_a_message_or_a_command_with_a_name_or_a_problem(text: str) -> None:
    command = read_command(text)
    if command is not None:
        assert text.startswith("/") and (command.problem or command.name)
