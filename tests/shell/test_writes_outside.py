"""Whether a command may write where a sandbox would not let it, told by what it does instead of by texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_agent.shell.safe_commands import assess_command


@pytest.mark.parametrize(
    ("command", "writes"),
    [
        ("echo x > ../other.txt", True),
        ("echo x > /etc/hosts", True),
        ("cp a.txt ~/b.txt", True),
        ("rm -rf /etc/x; echo x > ../other.txt", True),  # a worse finding does not hide it
        ("echo x > inside.txt", False),
        ("cat ../other.txt", False),
        ("ls", False),
    ],
)
def test_writing_outside_the_workspace_is_a_fact_of_the_action(tmp_path: Path, command: str, writes: bool) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    assert assess_command(command, folder, [folder]).writes_outside is writes
