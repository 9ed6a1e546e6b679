"""`tui-agent stats`: what the journals of all sessions say in numbers (S4)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent import paths
from tui_agent.arguments import Sections, page
from tui_agent.commands.ending import ended, tell

if TYPE_CHECKING:
    from tui_agent.commands.page import Page
    from tui_agent.stats.gathering import Gathered
    from tui_agent.stats.numbers import Tally
    from tui_agent.stats.report import Fact, Table

FAILED, USAGE = 1, 2
NAMED = 5
"""Sessions that are named as damaged."""
MOST = 20
"""Rows of a table that are shown."""
NAME, VALUE = 16, 10
"""Columns."""

EXAMPLES = {
    "tui-agent stats": "all sessions",
    "tui-agent stats -C .": "those that work in this folder",
    "tui-agent stats 2026-11-22": "one session, run by run",
    "tui-agent stats --json | jq .": "",
}
WORDS = {
    "first attempt": "done without a recovery, an unmet check or a rejection of yours",
    "stepped in": "you edited, rejected, answered or interrupted; not: approved",
    "plan p95": "95 of 100 plans took at most so long",
    "misread": "replies of the model, a run, that could not be read at once",
}
EXIT_CODES = "0 done   1 there is nothing yet, or it can't be read\n2 wrong usage, or no such session"


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent stats`."""
    about = (
        "How well it goes, over all sessions: success, planning, checks, failures,\n"
        "tokens. Read from the journals on your disk; nothing is sent anywhere."
    )
    sections: Sections = {"examples": EXAMPLES, "words": WORDS, "exit codes": EXIT_CODES}
    parser = page("stats", about, ["[OPTION]... [ID]"], sections)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "id", nargs="?", metavar="ID", help="one session, run by run; by the beginning of its id"
    )
    which.add_argument(
        "-C", "--workspace", type=Path, metavar="DIR", help="only sessions that work in DIR; default: all"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser  # fmt: skip


def run(argv: Sequence[str]) -> int:
    """Do it; returns the exit code."""
    args = build_parser().parse_args(argv)
    from tui_agent.storage.folder import SessionError

    return ended(lambda: _one(args) if args.id else _all(args), {SessionError: USAGE, paths.NoHome: USAGE})


# --- all sessions ---------------------------------------------------------------------------


def _all(args: argparse.Namespace) -> int:
    from tui_agent.commands.page import Page
    from tui_agent.stats.gathering import gather

    errors = Page(sys.stderr)

    def tell(done: int, of: int) -> None:
        if done % 50 == 0 and not args.json:
            errors.progress(f"reading session {done + 1:,} of {of:,}")

    try:
        found = gather(paths.data_dir(), args.workspace, tell=tell)
    finally:
        errors.progress("")
    if args.json:
        from tui_agent.stats.report import as_json

        missing = {"skipped": found.skipped, "damaged_sessions": found.damaged}
        sys.stdout.write(json.dumps({**as_json(found.tally), **missing}) + "\n")
        return 0
    if not found.tally.whole.runs:
        _tell_missing(errors, found)
        where = "" if args.workspace is None else " in that folder"
        errors.line(f"tui-agent: there is nothing to count yet{where}: no session has worked on a message.")
        return FAILED
    show(Page(), found.tally)
    _tell_missing(errors, found)
    return 0


def _tell_missing(errors: Page, found: Gathered) -> None:
    from tui_agent.text import one_line

    for name, why in list(found.skipped.items())[:NAMED]:
        errors.line(f"tui-agent: {one_line(name, 80)} is left out: {why}")
    if (more := len(found.skipped) - NAMED) > 0:
        errors.line(f"tui-agent: {more:,} more sessions are left out.")
    if found.damaged:
        count = found.tally.damaged
        places = "a record" if count == 1 else f"{count:,} records"
        named = ", ".join(one_line(name, 80) for name in found.damaged[:NAMED])
        named += " and others" if len(found.damaged) > NAMED else ""
        errors.line(
            f"tui-agent: {places} could not be read and {'is' if count == 1 else 'are'} not counted, in {named}."
        )


def show(page: Page, tally: Tally) -> None:
    """Sections of facts, then the tables that compare."""
    from tui_agent.stats import report

    words = [report.counted(tally.sessions, "session"), report.counted(tally.whole.runs, "run")]
    words += [report.span(tally)] if tally.days else []
    page.line(" · ".join(words), "bold")
    for name, facts in report.sections(tally):
        _section(page, name, facts)
    _table(page, report.models(tally))
    _table(page, report.prompts(tally))


def _section(page: Page, title: str, facts: Sequence[Fact]) -> None:
    from tui_agent.commands.page import cells_wide
    from tui_agent.text import one_line

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


def _table(page: Page, table: Table) -> None:
    if not table.rows:
        return
    page.line()
    page.line(table.title, "bold")
    page.table(table.head, table.rows[:MOST], right=range(1, len(table.head)))
    if len(table.rows) > MOST:
        page.line(f"  … {len(table.rows) - MOST:,} more", "dim")


# --- one session ----------------------------------------------------------------------------


def _one(args: argparse.Namespace) -> int:
    from tui_agent.commands.page import Page
    from tui_agent.stats import report
    from tui_agent.stats.numbers import seconds, short
    from tui_agent.stats.reading import Run, read
    from tui_agent.storage.folder import JOURNAL, find

    folder = find(paths.sessions_dir(), args.id)
    ended: list[tuple[str, Run]] = []
    try:
        tally = read(folder / JOURNAL, lambda key, one: ended.append((key, one)))
    except OSError as error:
        tell(f"{folder.name} can't be read: {error.strerror}.")
        return FAILED
    if args.json:
        each = [
            {"run": key, "model": one.model, "prompts": one.prompts, **report.numbers_as_json(one.numbers)}
            for key, one in ended
        ]
        sys.stdout.write(json.dumps({"id": folder.name, **report.as_json(tally), "each": each}) + "\n")
        return 0
    if not ended:
        tell(f"{folder.name} has not worked on a message yet.")
        return FAILED
    page = Page()
    show(page, tally)
    head = ("run", "outcome", "rounds", "calls", "time", "plan", "checks", "misread", "retries", "tokens")
    rows = []
    for key, one in ended:
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
