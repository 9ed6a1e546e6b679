from __future__ import annotations

import pytest

from tui_agent.shell.syntax import parse_shell


def words(text: str) -> list[list[str | None]]:
    return [[word.text for word in command.words] for command in parse_shell(text).commands]


def test_pipelines_and_operators() -> None:
    parsed = parse_shell("a 1 | b && c || d; e")
    assert parsed.is_plain and not parsed.problem
    assert [pipeline.operator for pipeline in parsed.pipelines] == ["", "&&", "||", ";"]
    assert [len(pipeline.commands) for pipeline in parsed.pipelines] == [2, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a 'b c' \"d e\" f\\ g", ["a", "b c", "d e", "f g"]),
        ("a b'c'\"d\"", ["a", "bcd"]),
        ('a "x\\"y\\\\z\\q"', ["a", 'x"y\\z\\q']),
        ("a 'Größe ✓' ü", ["a", "Größe ✓", "ü"]),
        ("a $'x\\x41\\n'", ["a", "xA\n"]),
        ("a -1 5 a=b", ["a", "-1", "5", "a=b"]),
        ('a "$b" c$d `e`', ["a", None, None, None]),
    ],
)
def test_literal_words(text: str, expected: list[str | None]) -> None:
    assert words(text)[-1] == expected


@pytest.mark.parametrize(
    "text",
    [
        "a &",
        "(a)",
        "{ a; }",
        "! a",
        "a $b",
        "a $(b)",
        "A=1 a",
        "A=1",
        "a <<X\nX\n",
        "a <<< b",
        "a |& b",
        "if a; then b; fi",
        "f() { a; }",
        "a\nb",
        "export A",
        "a # b",
        "[ a ]",
        "a $'b'",
    ],
)
def test_what_is_not_plain(text: str) -> None:
    assert not parse_shell(text).is_plain


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a $(b `c`) <(d)", {"a", "b", "c", "d"}),
        ("for i in $(a); do b; done; while c; do d; done", {"a", "b", "c", "d"}),
        ("cat <<X | sh && ls\n$(id) `who`\nX\n", {"cat", "sh", "ls", "id", "who"}),
        ("cat <<'X'\n$(id)\nX\n", {"cat"}),
        ("{ a; b; } > c", {"a", "b"}),
        ("f() { a; }; f", {"a", "f"}),
        ("case x in y) a;; *) b;; esac", {"a", "b"}),
    ],
)
def test_commands_are_found_everywhere(text: str, names: set[str]) -> None:
    assert {command[0] for command in words(text) if command} == names


def test_redirections_belong_to_their_command() -> None:
    first, second = parse_shell("a >x 2>>y | b <z extra").commands
    assert [(r.operator, r.target.text if r.target else None) for r in first.redirects] == [(">", "x"), ("2>>", "y")]
    assert [word.text for word in second.words] == ["b", "extra"]


def test_functions_are_named() -> None:
    assert parse_shell("f() { a; }; function g { b; }").functions == ("f", "g")


@pytest.mark.parametrize("text", ["a 'b", "a )", "if a", "a \x00", "a\rb", "a \udc80", "a " + "b" * 9000, "a;" * 51])
def test_unparsable_text_has_a_problem(text: str) -> None:
    parsed = parse_shell(text)
    assert parsed.problem and not parsed.is_plain
