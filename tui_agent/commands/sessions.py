"""`tui-agent sessions`: list, search, rename, fork, export and delete sessions without a screen (S3)."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from tui_agent import settings
from tui_agent.commands.output import (
    FAILED,
    CommandRefused,
    TextPage,
    cell_width,
    confirm,
    exit_code_of,
    format_bytes,
    print_line,
)
from tui_agent.common import paths
from tui_agent.export.session import ExportError, Format, export_format, export_session, export_target, write_export
from tui_agent.platform.pipes import print_error
from tui_agent.safety.secrets import values_to_mask
from tui_agent.storage import catalog, changes
from tui_agent.storage.catalog import SessionEntry
from tui_agent.storage.folder import SessionError
from tui_agent.text import SecretMask, one_line

USAGE = 2
MIN_TITLE = 20
"""Columns that a title gets in a narrow terminal."""
MINUTE, HOUR, DAY = 60, 3_600, 86_400


def run_sessions(args: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    """Run the subcommand; return the exit code."""
    subcommands = {
        "list": _list,
        "search": _search,
        "rename": _rename,
        "fork": _fork,
        "export": _export,
        "delete": _delete,
    }
    codes = {CommandRefused: FAILED, SessionError: FAILED, paths.HomeNotFoundError: USAGE}
    return exit_code_of(lambda: subcommands[args.command](args), codes)


def _find(prefix: str) -> SessionEntry:
    """The session, damaged or not, whose id is `prefix` or the only one starting with it. Raises CommandRefused."""
    entries = catalog.list_sessions(paths.data_dir())
    matches = [entry for entry in entries if entry.id == prefix]
    matches = matches or [entry for entry in entries if prefix and entry.id.startswith(prefix)]
    if len(matches) == 1:
        return matches[0]
    quoted = repr(one_line(prefix))
    if not matches:
        raise CommandRefused(f"No session id starts with {quoted}. `tui-agent sessions list --all` shows them.", USAGE)
    listed = ", ".join(one_line(entry.id) for entry in matches[:5])
    raise CommandRefused(f"{len(matches)} session ids start with {quoted}: {listed}. Use more of the id.", USAGE)


def _mask() -> SecretMask:
    """Mask the environment's secrets and the model server's token."""
    chosen = settings.load_settings(paths.config_file(), None, None, {}).settings
    return SecretMask(values_to_mask(os.environ, settings.read_tokens(chosen)))


# --- list and search ------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    entries = catalog.list_sessions(paths.data_dir(), _workspace(args))
    if args.json:
        for entry in entries:
            _print_json(session_as_json(entry))
    elif entries:
        _print_entries(entries, folders=args.all)
    else:
        hint = "" if args.all else " `tui-agent sessions list --all` lists sessions of all folders."
        print_error(f"There is no session {'yet' if args.all else 'in this folder'}.{hint}")
    return 0


def _search(args: argparse.Namespace) -> int:
    entries = catalog.iter_sessions(paths.data_dir(), _workspace(args))
    hits = catalog.search(entries, " ".join(args.text), _mask(), each=3)
    count = 0
    if args.json:
        for entry, context in hits:
            _print_json({**session_as_json(entry), "hit": context})
            count += 1
    else:
        count = _print_hits(hits, folders=args.all)
    if not count:
        hint = "" if args.all else " --all searches all folders."
        print_error(f"Nothing found.{hint}")
    return 0 if count else FAILED


def _workspace(args: argparse.Namespace) -> Path | None:
    return None if args.all else args.workspace or Path()


def _print_json(data: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()


def session_as_json(entry: SessionEntry) -> dict[str, object]:
    """The entry as the JSON output has it."""
    return {
        "id": entry.id,
        "title": entry.title,
        "first_message": entry.first_message,
        "workspace": entry.workspace,
        "changed": datetime.fromtimestamp(entry.changed).astimezone().isoformat(timespec="seconds"),
        "bytes": entry.bytes,
        "running": entry.running,
        "model": entry.model,
        "fork_of": entry.parent,
        "problem": entry.problem,
        "path": str(entry.path),
    }


def _print_entries(entries: Sequence[SessionEntry], *, folders: bool) -> None:
    """Print a table of sessions, with their folders if `folders`. Titles take the rest of the line."""
    page, now = TextPage(), time.time()
    head = ["id", "changed", "size", *(["folder"] if folders else [])]
    rows = [
        [
            one_line(entry.id, 60),
            time_ago(now - entry.changed),
            format_bytes(entry.bytes),
            *([_path_end(entry.workspace)] if folders else []),
        ]
        for entry in entries
    ]
    used = sum(max(cell_width(cell) for cell in column) + 2 for column in zip(head, *rows, strict=True))
    room = max(MIN_TITLE, page.columns - used - 2) if page.is_terminal else catalog.MAX_TITLE_LENGTH
    titles = [_title(entry, room) for entry in entries]
    page.table([*head, "title"], [[*row, title] for row, title in zip(rows, titles, strict=True)], right=(2,))


def _print_hits(hits: Iterable[tuple[SessionEntry, str]], *, folders: bool) -> int:
    """Print each session with its hits below it, as they are found; return the number of hits."""
    page, now = TextPage(), time.time()
    count, previous_id = 0, ""
    for entry, context in hits:
        if entry.id != previous_id:
            folder = f"  {one_line(entry.workspace, 200)}" if folders else ""
            title = _title(entry, catalog.MAX_TITLE_LENGTH)
            page.line(f"{one_line(entry.id, 60)}  {time_ago(now - entry.changed)}{folder}  {title}", "bold")
            previous_id = entry.id
        page.hanging("    ", 4, context)
        count += 1
    return count


def time_ago(seconds: float) -> str:
    """How long ago, such as `3 h ago`."""
    if seconds < MINUTE:
        return "just now"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min ago"
    if seconds < 2 * DAY:
        return f"{int(seconds // HOUR)} h ago"
    return f"{int(seconds // DAY)} days ago"


def _title(entry: SessionEntry, room: int) -> str:
    """Return the title of a session with its marks, in `room` columns if they leave enough for the title."""
    marks = "".join(f" [{mark}]" for mark in ("running" if entry.running else "", entry.problem) if mark)
    room = max(MIN_TITLE, room - cell_width(marks))
    title = one_line(entry.title, room) or "(no messages)"
    while cell_width(title) > room:
        title = title.removesuffix("…")[:-1] + "…"
    return title + marks


def _path_end(path: str) -> str:
    """The last characters of a path, which distinguish folders."""
    line = one_line(path, 400)
    return line if len(line) <= 32 else "…" + line[-31:]


# --- rename, fork and delete ----------------------------------------------------------------


def _rename(args: argparse.Namespace) -> int:
    entry = _find(args.id)
    title = changes.retitle_session(entry, " ".join(args.title), _mask())
    print_line(f"Renamed {entry.id} to “{title}”.")
    return 0


def _fork(args: argparse.Namespace) -> int:
    entry = _find(args.id)
    message_id = None if args.at is None else _message_id(entry, args.at)
    new = changes.fork_session(entry, message_id, _mask())
    print_line(f"{new} is a copy of {entry.id}.\nContinue in it: tui-agent --resume {new}")
    return 0


def _message_id(entry: SessionEntry, number: str) -> str:
    """The id of the user's Nth message; an id is accepted too. Raises CommandRefused."""
    messages = catalog.user_messages(entry)
    if number.isascii() and number.isdecimal() and len(number) < 10 and 0 < int(number) <= len(messages):
        return messages[int(number) - 1].id
    if any(message.id == number for message in messages):
        return number
    count = len(messages)
    have = "it has none" if not count else "it has one" if count == 1 else f"its messages are 1 to {count}"
    raise CommandRefused(f"{entry.id} has no message {number} of yours; {have}.", USAGE)


def _delete(args: argparse.Namespace) -> int:
    entry = _find(args.id)
    if entry.running:
        raise CommandRefused(f"{entry.id} is running. Quit it first.")
    title = f" “{entry.title}”" if entry.title else ""
    question = f"Delete {entry.id}{title}, {format_bytes(entry.bytes)} permanently?"
    if not args.yes and not confirm(question, "Deleting"):
        print_line("Nothing deleted.")
        return FAILED
    changes.delete_session(entry)
    print_line(f"Deleted {entry.id}{title}.")
    return 0


# --- export ---------------------------------------------------------------------------------


def _export(args: argparse.Namespace) -> int:
    entry = _find(args.id)
    form: Format = args.format or export_format(args.output or "") or "markdown"
    if args.output == "-":
        return _print_export(entry, form)
    try:
        path = export_target(args.output or "", Path(), entry.id, form, replace=args.force)
        write_export(entry.path, form, _mask(), path, replace=args.force)
    except ExportError as error:
        can_force = not args.force and str(error).endswith("already exists.")
        hint = " Use --force to overwrite it, or -o for another file." if can_force else ""
        raise CommandRefused(f"{error}{hint}") from error
    print_line(f"Exported to {path}.")
    return 0


def _print_export(entry: SessionEntry, form: Format) -> int:
    try:
        pieces = export_session(entry.path, form, _mask())
    except OSError as error:
        raise CommandRefused(f"{entry.id} can't be read: {error.strerror}.") from error
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(piece.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    return 0
