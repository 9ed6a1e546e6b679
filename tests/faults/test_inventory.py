"""Every row of the fault groups D, E and G has a test: named after it, or listed here with the module that holds it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
OTHERS = {"d19", "d20", "g08", "g12", "g13", "g14", "g18"}
"""Rows of the sandbox and of secrets, which are tested beside them."""
ROWS = [
    *(f"d{number:02}" for number in range(1, 24)),
    *(f"e{number:02}" for number in range(1, 19)),
    *(f"g{number:02}" for number in range(1, 23)),
]
ELSEWHERE = {
    "d05": "platform/test_proc.py::test_every_descendant_is_dead_soon_after_a_stop",
    "d06": "platform/test_proc.py::test_a_background_process_that_holds_the_pipe_delays_nothing",
    "d12": "shell/test_terminal.py::test_nothing_in_the_output_is_taken_for_an_end",
    "d13": "shell/test_terminal.py::test_late_output_belongs_to_the_old_job",
    "d18": "shell/test_terminal.py::test_utf8_in_any_locale",
    "d21": "shell/test_terminal.py::test_without_a_shell_it_says_so",
    "d22": "platform/test_proc.py::test_children_die_with_the_program",
    "e03": "platform/test_files_faults.py::test_swapping_a_folder_for_a_link_never_writes_outside",
    "e10": "faults/test_shown_is_executed.py::test_a_changed_file_voids_its_approval",
    "e18": "tools/test_matching.py::test_two_places_are_one_too_many",
}


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds) and node.name.startswith("test_")}


def named_rows() -> set[str]:
    names = [name for path in (TESTS / "faults").glob("test_*.py") for name in names_in(path)]
    return {row for name in names for row in re.findall(r"(?<=_)[deg]\d\d(?=_)", name)}


@pytest.mark.parametrize("row", [row for row in ROWS if row not in OTHERS])
def test_every_row_has_a_test(row: str) -> None:
    if row not in ELSEWHERE:
        assert row in named_rows()
        return
    module, _, name = ELSEWHERE[row].partition("::")
    assert name in names_in(TESTS / module)
