"""`tui-agent stats`: what the journals of all sessions say in numbers (S4)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from tui_agent.commands.output import TextPage, cells_wide, exit_code_of
from tui_agent.common import paths
from tui_agent.platform.pipes import print_error
from tui_agent.stats import report
from tui_agent.stats.numbers import Tally, seconds, short
from tui_agent.stats.reading import Gathered, RunStats, gather_stats, read_tally
from tui_agent.stats.report import Fact, Table, as_json
from tui_agent.storage.folder import JOURNAL, SessionError, find_session
from tui_agent.text import count_of, one_line

FAILED, USAGE = 1, 2
NAMED = 5
"""Sessions that are named as damaged."""
MOST = 20
"""Rows of a table that are shown."""
NAME, VALUE = 16, 10
"""Columns."""


def run_stats(args: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    """Print the statistics; returns the exit code."""

    return exit_code_of(lambda: _one(args) if args.id else _all(args), {SessionError: USAGE, paths.NoHome: USAGE})


# --- all sessions ---------------------------------------------------------------------------


def _all(args: argparse.Namespace) -> int:

    errors = TextPage(sys.stderr)

    def tell(done: int, of: int) -> None:
        if done % 50 == 0 and not args.json:
            errors.progress(f"reading session {done + 1:,} of {of:,}")

    try:
        found = gather_stats(paths.data_dir(), args.workspace, tell=tell)
    finally:
        errors.progress("")
    if args.json:
        missing = {"skipped": found.skipped, "damaged_sessions": found.damaged}
        sys.stdout.write(json.dumps({**as_json(found.tally), **missing}) + "\n")
        return 0
    if not found.tally.whole.runs:
        _tell_missing(errors, found)
        where = "" if args.workspace is None else " in that folder"
        errors.line(f"tui-agent: no statistics yet{where}: no session has run a task.")
        return FAILED
    print_statistics(TextPage(), found.tally)
    _tell_missing(errors, found)
    return 0


def _tell_missing(errors: TextPage, found: Gathered) -> None:

    for name, why in list(found.skipped.items())[:NAMED]:
        errors.line(f"tui-agent: {one_line(name, 80)} is skipped: {why}")
    if (more := len(found.skipped) - NAMED) > 0:
        errors.line(f"tui-agent: {more:,} more sessions are skipped.")
    if found.damaged:
        count = found.tally.damaged
        places = "a record" if count == 1 else f"{count:,} records"
        named = ", ".join(one_line(name, 80) for name in found.damaged[:NAMED])
        named += " and others" if len(found.damaged) > NAMED else ""
        errors.line(
            f"tui-agent: {places} could not be read and {'is' if count == 1 else 'are'} not counted, in {named}."
        )


def print_statistics(page: TextPage, tally: Tally) -> None:
    """Sections of facts, then the tables that compare."""

    words = [count_of(tally.sessions, "session"), count_of(tally.whole.runs, "run")]
    words += [report.span(tally)] if tally.days else []
    page.line(" · ".join(words), "bold")
    for name, facts in report.fact_sections(tally):
        _section(page, name, facts)
    _table(page, report.model_table(tally))
    _table(page, report.prompt_table(tally))


def _section(page: TextPage, title: str, facts: Sequence[Fact]) -> None:

    page.line()
    page.line(title, "bold")
    wide = min(40, max(NAME, *(cells_wide(one_line(fact.name, 40)) + 2 for fact in facts)))
    for fact in facts[:MOST]:
        name = one_line(fact.name, 40)
        lead = f"  {name}{' ' * max(1, wide - cells_wide(name))}"
        styles = () if fact.good is None else ("green",) if fact.good else ("yellow",)
        value = page.styled(f"{fact.value:>{VALUE}}", *styles)
        gap = "  " if fact.note else ""
        page.pair(page.styled(lead, "dim") + value + gap, len(lead) + VALUE + 2, fact.note, "dim")
    if len(facts) > MOST:
        page.line(f"  … {len(facts) - MOST:,} more", "dim")


def _table(page: TextPage, table: Table) -> None:
    if not table.rows:
        return
    page.line()
    page.line(table.title, "bold")
    page.table(table.head, table.rows[:MOST], right=range(1, len(table.head)))
    if len(table.rows) > MOST:
        page.line(f"  … {len(table.rows) - MOST:,} more", "dim")


# --- one session ----------------------------------------------------------------------------


def _one(args: argparse.Namespace) -> int:

    folder = find_session(paths.sessions_dir(), args.id)
    runs: list[tuple[str, RunStats]] = []
    try:
        tally = read_tally(folder / JOURNAL, lambda key, one: runs.append((key, one)))
    except OSError as error:
        print_error(f"{folder.name} can't be read: {error.strerror}.")
        return FAILED
    if args.json:
        each = [
            {"run": key, "model": one.model, "prompts": one.prompts, **report.numbers_as_json(one.numbers)}
            for key, one in runs
        ]
        sys.stdout.write(json.dumps({"id": folder.name, **report.as_json(tally), "each": each}) + "\n")
        return 0
    if not runs:
        print_error(f"{folder.name} has not run a task yet.")
        return FAILED
    page = TextPage()
    print_statistics(page, tally)
    head = ("run", "outcome", "iterations", "calls", "time", "plan", "checks", "misread", "retries", "tokens")
    rows = []
    for key, one in runs:
        numbers, tokens = one.numbers, one.numbers.all_tokens
        checks = f"{sum(numbers.met.values())}/{numbers.checks}" if numbers.checks else "–"
        rows.append((
            key, one.outcome, f"{numbers.iterations}", f"{numbers.tool_calls}", seconds(numbers.ms),
            seconds(numbers.planning.percentile(1.0)), checks, f"{numbers.parse_errors}", f"{numbers.retries}",
            short(tokens.prompt + tokens.completion),
        ))  # fmt: skip
    page.line()
    page.line("Run by run", "bold")
    page.table(head, rows, right=range(2, len(head)))
    return 0
