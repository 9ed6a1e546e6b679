"""`tui-agent stats`: statistics from the journals of all sessions (S4)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from tui_agent.commands.output import TextPage, cell_width, exit_code_of
from tui_agent.common import paths
from tui_agent.events.run import outcome_word
from tui_agent.platform.pipes import print_error
from tui_agent.stats import report
from tui_agent.stats.numbers import Tally, format_count, format_elapsed
from tui_agent.stats.reading import RunStats, StatsResult, gather_stats, read_tally
from tui_agent.stats.report import Fact, Table, as_json
from tui_agent.storage.folder import JOURNAL, SessionError, find_session
from tui_agent.text import one_line, pluralize

FAILED, USAGE = 1, 2
MAX_NAMED = 5
"""Skipped or damaged sessions that are named."""
MAX_ROWS = 20
"""Rows of a table or section."""
NAME_WIDTH, VALUE_WIDTH = 16, 10


def run_stats(args: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    """Print the statistics; return the exit code."""
    run = _print_session if args.id else _print_all
    return exit_code_of(lambda: run(args), {SessionError: USAGE, paths.HomeNotFoundError: USAGE})


# --- all sessions ---------------------------------------------------------------------------


def _print_all(args: argparse.Namespace) -> int:
    errors = TextPage(sys.stderr)

    def on_progress(done: int, total: int) -> None:
        if done % 50 == 0 and not args.json:
            errors.progress(f"reading session {done + 1:,} of {total:,}")

    try:
        gathered = gather_stats(paths.data_dir(), args.workspace, on_progress=on_progress)
    finally:
        errors.progress("")
    if args.json:
        missing = {"skipped": gathered.skipped, "damaged_sessions": gathered.damaged}
        sys.stdout.write(json.dumps({**as_json(gathered.tally), **missing}) + "\n")
        return 0
    has_runs = bool(gathered.tally.total.runs)
    if has_runs:
        print_statistics(TextPage(), gathered.tally)
    _print_problems(errors, gathered)
    if not has_runs:
        where = "" if args.workspace is None else " in that folder"
        errors.line(f"tui-agent: no statistics yet{where}: no session has run a task.")
    return 0 if has_runs else FAILED


def _print_problems(errors: TextPage, gathered: StatsResult) -> None:
    for name, reason in list(gathered.skipped.items())[:MAX_NAMED]:
        errors.line(f"tui-agent: {one_line(name, 80)} is skipped: {reason}")
    if (more := len(gathered.skipped) - MAX_NAMED) > 0:
        errors.line(f"tui-agent: {more:,} more sessions are skipped.")
    if gathered.damaged:
        count = gathered.tally.damaged
        records, verb = ("a record", "is") if count == 1 else (f"{count:,} records", "are")
        names = ", ".join(one_line(name, 80) for name in gathered.damaged[:MAX_NAMED])
        names += " and others" if len(gathered.damaged) > MAX_NAMED else ""
        errors.line(f"tui-agent: {records} could not be read and {verb} not counted, in {names}.")


def print_statistics(page: TextPage, tally: Tally) -> None:
    """Print sections of facts, then the tables by model and prompt."""
    totals = [pluralize(tally.sessions, "session"), pluralize(tally.total.runs, "run")]
    totals += [report.format_date_range(tally)] if tally.days else []
    page.line(" · ".join(totals), "bold")
    for title, facts in report.fact_sections(tally):
        _print_section(page, title, facts)
    for table in report.comparison_tables(tally):
        _print_table(page, table)


def _print_section(page: TextPage, title: str, facts: Sequence[Fact]) -> None:
    page.line()
    page.line(title, "bold")
    name_width = min(40, max(NAME_WIDTH, *(cell_width(one_line(fact.name, 40)) + 2 for fact in facts)))
    for fact in facts[:MAX_ROWS]:
        name = one_line(fact.name, 40)
        lead = f"  {name}{' ' * max(1, name_width - cell_width(name))}"
        styles = () if fact.goal_met is None else ("green",) if fact.goal_met else ("yellow",)
        value = page.styled(f"{fact.value:>{VALUE_WIDTH}}", *styles)
        gap = "  " if fact.note else ""
        page.hanging(page.styled(lead, "dim") + value + gap, len(lead) + VALUE_WIDTH + 2, fact.note, "dim")
    _print_more(page, len(facts))


def _print_table(page: TextPage, table: Table) -> None:
    if not table.rows:
        return
    page.line()
    page.line(table.title, "bold")
    page.table(table.header, table.rows[:MAX_ROWS], right=range(1, len(table.header)))
    _print_more(page, len(table.rows))


def _print_more(page: TextPage, count: int) -> None:
    if count > MAX_ROWS:
        page.line(f"  … {count - MAX_ROWS:,} more", "dim")


# --- one session ----------------------------------------------------------------------------


def _print_session(args: argparse.Namespace) -> int:
    folder = find_session(paths.sessions_dir(), args.id)
    runs: list[tuple[str, RunStats]] = []
    try:
        tally = read_tally(folder / JOURNAL, lambda key, run: runs.append((key, run)))
    except OSError as error:
        print_error(f"{folder.name} can't be read: {error.strerror}.")
        return FAILED
    if args.json:
        each = [
            {"run": key, "model": run.model, "prompts": run.prompts, **report.numbers_as_json(run.numbers)}
            for key, run in runs
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
    for key, run in runs:
        numbers, tokens = run.numbers, run.numbers.all_tokens
        checks = f"{sum(numbers.met.values())}/{numbers.checks}" if numbers.checks else "–"
        rows.append((
            key, outcome_word(run.outcome),
            f"{numbers.iterations}", f"{numbers.tool_calls}", format_elapsed(numbers.ms),
            format_elapsed(numbers.planning.percentile(1.0)), checks, f"{numbers.parse_errors}", f"{numbers.retries}",
            format_count(tokens.prompt + tokens.completion),
        ))  # fmt: skip
    page.line()
    page.line("Run by run", "bold")
    page.table(head, rows, right=range(2, len(head)))
    return 0
