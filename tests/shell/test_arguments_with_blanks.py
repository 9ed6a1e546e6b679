"""Blanks and newlines inside an argument hide nothing from the rules for arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.corpora_adapters import classify
from tui_agent.safety.roots import Roots
from tui_agent.shell.safe_commands import assess_command


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


def test_separators_in_the_name_of_a_root_do_not_split_its_paths(tmp_path: Path) -> None:
    root, scratch = tmp_path / "a=b, c@d", tmp_path / "2026-11-27T15:00:17.329Z" / "scratch"
    for folder in (root, scratch):
        folder.mkdir(parents=True)
    roots = Roots([root], scratch=scratch)

    def outside(command: str) -> tuple[str, ...]:
        action = assess_command(command, root, (root, scratch), roots.holds_credentials, roots.is_protected, git=True)
        return action.outside

    assert outside(f"python3 -B {scratch}/try.py") == ()
    assert outside(f"PYTHONPATH={scratch}/lib pytest '{root}/tests'") == ()
    assert outside(f"python3 {scratch}/try.py:/srv/x") == ("/srv/x",)
    assert f"{scratch.parent}/other.py" in outside(f"python3 {scratch.parent}/other.py")
