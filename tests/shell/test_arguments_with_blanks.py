"""Blanks and newlines inside an argument hide nothing from the rules for arguments."""

from __future__ import annotations

import pytest

from tests.corpora_adapters import classify


@pytest.mark.parametrize(
    "command",
    [
        r"gh api --jq $'.a\n.b' repos/x/y -X DELETE",
        r"gh api -H $'X: a\nb' x --method DELETE",
        "gh -R o api x -X DELETE",
    ],
)
def test_a_newline_does_not_hide_a_write(command: str) -> None:
    assert classify(command) == "high"


@pytest.mark.parametrize(
    ("command", "severity"),
    [("git config --get 'a b'", "none"), ("git config user.name ''", "medium"), (r"git branch $'a\nlist'", "none")],
)
def test_each_argument_of_git_is_one_word(command: str, severity: str) -> None:
    assert classify(command) == severity
