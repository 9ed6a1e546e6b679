"""Sessions in a terminal: a list, and what a search found."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import datetime

from tui_agent.commands.page import Page, bytes_shown
from tui_agent.storage.catalog import Entry
from tui_agent.text import one_line

MINUTE, HOUR, DAY = 60, 3_600, 86_400


def as_json(entry: Entry) -> dict[str, object]:
    """An entry as a line of JSON holds it."""
    return {
        "id": entry.id,
        "title": entry.title,
        "first_message": entry.said,
        "workspace": entry.workspace,
        "changed": datetime.fromtimestamp(entry.changed).astimezone().isoformat(timespec="seconds"),
        "bytes": entry.bytes,
        "running": entry.running,
        "model": entry.model,
        "fork_of": entry.parent,
        "problem": entry.problem,
        "path": str(entry.path),
    }


def print_list(entries: Sequence[Entry], *, folders: bool) -> None:
    """A table; with `folders` of where each works too."""
    page, now = Page(), time.time()
    head = ["id", "changed", "size", *(["folder"] if folders else []), "title"]
    rows = [
        [
            one_line(entry.id, 60),
            ago(now - entry.changed),
            bytes_shown(entry.bytes),
            *([_end(entry.workspace)] if folders else []),
            _title(entry),
        ]
        for entry in entries
    ]
    page.table(head, rows, right=(2,))


def print_hits(hits: Iterable[tuple[Entry, str]], *, folders: bool) -> int:
    """Each session with its hits below it, as they come; returns how many hits there were."""
    page, now = Page(), time.time()
    count, last = 0, ""
    for entry, context in hits:
        if entry.id != last:
            where = f"  {one_line(entry.workspace, 200)}" if folders else ""
            page.line(f"{one_line(entry.id, 60)}  {ago(now - entry.changed)}{where}  {_title(entry)}", "bold")
            last = entry.id
        page.pair("    ", 4, context)
        count += 1
    return count


def ago(seconds: float) -> str:
    """How long ago, in words."""
    if seconds < MINUTE:
        return "just now"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min ago"
    if seconds < 2 * DAY:
        return f"{int(seconds // HOUR)} h ago"
    return f"{int(seconds // DAY)} days ago"


def _title(entry: Entry) -> str:
    marks = ["running"] if entry.running else []
    marks += [entry.problem] if entry.problem else []
    return (
        one_line(entry.title, 60) + "".join(f" [{mark}]" for mark in marks)
        if entry.title
        else _untitled(marks)
    )


def _untitled(marks: list[str]) -> str:
    return " ".join(["(nothing said)", *(f"[{mark}]" for mark in marks)])


def _end(path: str) -> str:
    """The end of a path, which tells folders apart."""
    shown = one_line(path, 400)
    return shown if len(shown) <= 32 else "…" + shown[-31:]
