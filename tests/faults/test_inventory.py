"""Every fault of the table in docs/spec.md has a test: named after it, or listed here."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.faults.counts import AT_LEAST

TESTS = Path(__file__).parents[1]
OTHERS = {"d19", "d20", "g08", "g12", "g13", "g14", "g18"}
"""Rows of the sandbox and of secrets, which are tested beside them."""
ROWS = [
    *(f"a{number:02}" for number in range(1, 31)),
    *(f"b{number:02}" for number in range(1, 8)),
    *(f"d{number:02}" for number in range(1, 24)),
    *(f"e{number:02}" for number in range(1, 19)),
    *("f07", "f16", "f17", "f18", "f19", "f20"),
    *(f"g{number:02}" for number in range(1, 23)),
    *(f"i{number:02}" for number in range(1, 11)),
]
ELSEWHERE = {
    "a01": "frontends/test_kill.py::test_killed_at_a_random_point_nothing_printed_is_lost_or_doubled",
    "a04": "storage/test_journal.py::test_truncation_at_any_byte_loses_no_earlier_record_and_a_newline_repairs_it",
    "a05": "engine/test_stream.py::test_a_torn_end_is_healed_told_and_not_told_again",
    "a06": "storage/test_journal.py::test_a_flipped_bit_loses_only_its_record_and_the_file_is_unchanged",
    "a08": "storage/test_journal.py::test_garbage_at_the_end_loses_no_record",
    "a13": "platform/test_append.py::test_a_real_file_size_limit_tears_a_record_and_loses_none",
    "a14": "engine/test_stream.py::test_a_write_never_waits_for_a_sync",
    "a15": "storage/test_recovery.py::test_a_log_cut_at_any_byte_is_completed_once_and_exactly",
    "a16": "storage/test_recovery.py::test_calls_without_an_end_and_open_requests_are_found",
    "a17": "storage/test_recovery.py::test_calls_without_an_end_and_open_requests_are_found",
    "a18": "storage/test_journal.py::test_memory_is_bounded_for_any_file_size",
    "a19": "checkpoints/test_store.py::test_the_same_content_is_stored_once",
    "a23": "platform/test_locks.py::test_a_child_does_not_inherit_the_lock",
    "a24": "platform/test_locks.py::test_network_file_systems_are_named",
    "a25": "engine/test_stream.py::test_order_is_by_number_whatever_the_clock_does",
    "a26": "storage/test_chat_log.py::test_only_entries_start_a_line_with_a_bracket",
    "a27": "engine/test_stream_faults.py::test_a_log_cut_or_written_to_by_others_goes_on_behind_that",
    "a28": "storage/test_folder.py::test_sessions_of_the_same_millisecond_get_different_folders",
    "a29": "storage/test_folder.py::test_a_missing_or_broken_session_json_is_rebuilt_from_the_journal",
    "a30": "storage/test_journal.py::test_unknown_types_and_newer_versions_are_kept_as_unknown",
    "b02": "platform/test_files_faults.py::test_racing_saves_lose_no_byte",
    "b03": "plan/test_store.py::test_an_unreadable_document_is_never_overwritten",
    "b04": "plan/test_store.py::test_links_are_followed_inside_the_folder_only",
    "b05": "platform/test_files.py::test_missing_permission_truncates_nothing",
    "b06": "platform/test_files.py::test_replacing_keeps_mode_and_attributes",
    "b07": "platform/test_files.py::test_hard_links_are_left_alone",
    "d05": "platform/test_proc.py::test_every_descendant_is_dead_soon_after_a_stop",
    "d06": "platform/test_proc.py::test_a_background_process_that_holds_the_pipe_delays_nothing",
    "d12": "shell/test_terminal.py::test_output_can_not_fake_the_end_of_a_command",
    "d13": "shell/test_terminal.py::test_late_output_belongs_to_the_old_job",
    "d18": "shell/test_terminal.py::test_utf8_in_any_locale",
    "d21": "shell/test_terminal.py::test_missing_shell_is_reported",
    "d22": "platform/test_proc.py::test_children_die_with_the_program",
    "e03": "platform/test_files_faults.py::test_swapping_a_folder_for_a_link_never_writes_outside",
    "e10": "faults/test_shown_is_executed.py::test_a_changed_file_voids_its_approval",
    "e18": "tools/test_matching.py::test_two_matches_are_ambiguous",
    "i05": "test_settings.py::test_mistakes_are_named_by_line_and_field",
    "i06": "engine/test_live_catalog.py::test_a_bad_change_is_named_and_the_last_good_file_counts",
}


@cache
def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds) and node.name.startswith("test_")}


@cache
def named_rows() -> set[str]:
    paths = [path for folder in ("faults", "tui") for path in (TESTS / folder).glob("test_*.py")]
    names = [name for path in paths for name in names_in(path)]
    return {row for name in names for row in re.findall(r"(?<=_)[abdefgi]\d\d(?=_)", name)}


def has_a_test(row: str) -> bool:
    if row not in ELSEWHERE:
        return row in named_rows()
    module, _, name = ELSEWHERE[row].partition("::")
    return name in names_in(TESTS / module)


def test_every_row_has_a_test() -> None:
    assert [row for row in ROWS if row not in OTHERS and not has_a_test(row)] == []


def test_at_least_five_hundred_system_calls_are_made_to_fail() -> None:
    sources = "".join((TESTS / "faults" / name).read_text("utf-8") for name in ("test_syscalls.py", "test_saving.py"))
    parts = {key.split()[0] for key in AT_LEAST}
    assert all(f'register_part(f"{part}' in sources for part in parts), "a part without a test"
    assert sum(AT_LEAST.values()) >= 500
