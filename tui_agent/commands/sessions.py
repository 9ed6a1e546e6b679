"""`tui-agent sessions`: list, search, rename, fork, export and delete sessions, without a screen (S3)."""

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
from tui_agent.commands.output import TextPage, bytes_shown, exit_code_of, say
from tui_agent.common import paths
from tui_agent.export.session import ExportError, Format, export_format, export_session, export_target, write_export
from tui_agent.platform.pipes import print_error
from tui_agent.safety.secrets import values_to_mask
from tui_agent.storage import catalog, changes
from tui_agent.storage.catalog import SessionEntry
from tui_agent.storage.folder import SessionError
from tui_agent.text import Mask, one_line

FAILED, USAGE, NEEDS_PERSON = 1, 2, 3


class CommandRefused(Exception):
    """It can't be done; the message says why and what to do."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def run_sessions(args: argparse.Namespace, _parser: argparse.ArgumentParser) -> int:
    """Run the subcommand; returns the exit code."""
    work = {"list": _list, "search": _search, "rename": _rename, "fork": _fork, "export": _export, "delete": _delete}

    codes = {CommandRefused: FAILED, SessionError: FAILED, paths.NoHome: USAGE}
    return exit_code_of(lambda: work[args.command](args), codes)


# --- finding --------------------------------------------------------------------------------


def _entries(args: argparse.Namespace) -> list[SessionEntry]:
    workspace = None if args.all else args.workspace or Path()
    return catalog.sessions(paths.data_dir(), workspace)


def _find(prefix: str) -> SessionEntry:
    """The one session whose id is `prefix` or begins with it. Raises CommandRefused."""
    known = catalog.sessions(paths.data_dir())
    hits = [one for one in known if one.id == prefix] or [one for one in known if prefix and one.id.startswith(prefix)]
    if len(hits) == 1:
        return hits[0]
    named = repr(one_line(prefix))
    if not hits:
        raise CommandRefused(f"No session id starts with {named}. `tui-agent sessions list --all` shows them.", USAGE)
    listed = ", ".join(one_line(one.id) for one in hits[:5])
    raise CommandRefused(f"{len(hits)} session ids start with {named}: {listed}. Use more of the id.", USAGE)


def _mask() -> Mask:
    """All that is hidden: the environment's secrets, and the token of the model's server."""
    chosen = settings.load_settings(paths.config_file(), None, None, {}).settings
    return Mask(values_to_mask(os.environ, settings.read_token(chosen)[0]))


# --- looking --------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    entries = _entries(args)
    if args.json:
        for entry in entries:
            _line(session_as_json(entry))
        return 0
    if not entries:
        elsewhere = "" if args.all else " `tui-agent sessions list --all` lists sessions of all folders."
        print_error(f"There is no session {'yet' if args.all else 'in this folder'}.{elsewhere}")
        return 0
    _print_list(entries, folders=args.all)
    return 0


def _search(args: argparse.Namespace) -> int:
    entries = catalog.each(paths.data_dir(), None if args.all else args.workspace or Path())
    hits = catalog.search(entries, " ".join(args.text), _mask(), each=3)
    count = 0
    if args.json:
        for entry, context in hits:
            _line({**session_as_json(entry), "hit": context})
            count += 1
    else:
        count = _print_hits(hits, folders=args.all)
    if not count:
        elsewhere = "" if args.all else " --all searches all folders."
        print_error(f"Nothing found.{elsewhere}")
    return 0 if count else FAILED


def _line(data: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()


# --- changing -------------------------------------------------------------------------------


def _rename(args: argparse.Namespace) -> int:
    entry = _find(args.id)
    title = changes.retitle_session(entry, " ".join(args.title), _mask())
    say(f"Renamed {entry.id} to “{title}”.")
    return 0


def _fork(args: argparse.Namespace) -> int:
    entry = _find(args.id)
    at = None if args.at is None else _message(entry, args.at)
    new = changes.fork_session(entry, at, _mask())
    say(f"{new} is a copy of {entry.id}.\nContinue in it: tui-agent --resume {new}")
    return 0


def _message(entry: SessionEntry, number: str) -> str:
    """The id of the user's Nth message; ids are taken too. Raises CommandRefused."""
    said = catalog.messages(entry)
    if number.isascii() and number.isdecimal() and len(number) < 10 and 0 < int(number) <= len(said):
        return said[int(number) - 1].id
    if any(one.id == number for one in said):
        return number
    have = "it has none" if not said else "it has one" if len(said) == 1 else f"its messages are 1 to {len(said)}"
    raise CommandRefused(f"{entry.id} has no message {number} of yours; {have}.", USAGE)


def _delete(args: argparse.Namespace) -> int:
    entry = _find(args.id)
    if entry.running:
        raise CommandRefused(f"{entry.id} is running. Quit it first.")
    called = f" “{entry.title}”" if entry.title else ""
    if not args.yes:
        if not sys.stdin.isatty():
            raise CommandRefused(
                "Deleting needs confirmation and there is no terminal. Use --yes to confirm.", NEEDS_PERSON
            )
        say(f"Delete {entry.id}{called}, {bytes_shown(entry.bytes)} permanently? [y/N] ", end="")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            say("Nothing deleted.")
            return FAILED
    changes.delete_session(entry)
    say(f"Deleted {entry.id}{called}.")
    return 0


# --- exporting ------------------------------------------------------------------------------


REPLACING = " Use --force to overwrite it, or -o for another file."


def _export(args: argparse.Namespace) -> int:
    entry = _find(args.id)
    form: Format = args.format or export_format(args.output or "") or "markdown"
    if args.output == "-":
        return _print(entry, form)
    try:
        path = export_target(args.output or "", Path(), entry.id, form, replace=args.force)
        write_export(entry.path, form, _mask(), path, replace=args.force)
    except ExportError as error:
        more = "" if args.force or not str(error).endswith("already exists.") else REPLACING
        raise CommandRefused(f"{error}{more}") from error
    say(f"Exported to {path}.")
    return 0


def _print(entry: SessionEntry, form: Format) -> int:
    try:
        pieces = export_session(entry.path, form, _mask())
    except OSError as error:
        raise CommandRefused(f"{entry.id} can't be read: {error.strerror}.") from error
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(piece.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    return 0


MINUTE, HOUR, DAY = 60, 3_600, 86_400


def session_as_json(entry: SessionEntry) -> dict[str, object]:
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


def _print_list(entries: Sequence[SessionEntry], *, folders: bool) -> None:
    """A table; with `folders` of where each works too."""
    page, now = TextPage(), time.time()
    head = ["id", "changed", "size", *(["folder"] if folders else []), "title"]
    rows = [
        [
            one_line(entry.id, 60),
            time_ago(now - entry.changed),
            bytes_shown(entry.bytes),
            *([_end(entry.workspace)] if folders else []),
            _title(entry),
        ]
        for entry in entries
    ]
    page.table(head, rows, right=(2,))


def _print_hits(hits: Iterable[tuple[SessionEntry, str]], *, folders: bool) -> int:
    """Each session with its hits below it, as they come; returns how many hits there were."""
    page, now = TextPage(), time.time()
    count, last = 0, ""
    for entry, context in hits:
        if entry.id != last:
            where = f"  {one_line(entry.workspace, 200)}" if folders else ""
            page.line(f"{one_line(entry.id, 60)}  {time_ago(now - entry.changed)}{where}  {_title(entry)}", "bold")
            last = entry.id
        page.pair("    ", 4, context)
        count += 1
    return count


def time_ago(seconds: float) -> str:
    """How long ago, in words."""
    if seconds < MINUTE:
        return "just now"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} min ago"
    if seconds < 2 * DAY:
        return f"{int(seconds // HOUR)} h ago"
    return f"{int(seconds // DAY)} days ago"


def _title(entry: SessionEntry) -> str:
    marks = ["running"] if entry.running else []
    marks += [entry.problem] if entry.problem else []
    return " ".join([one_line(entry.title, 60) or "(no messages)", *(f"[{mark}]" for mark in marks)])


def _end(path: str) -> str:
    """The end of a path, which tells folders apart."""
    shown = one_line(path, 400)
    return shown if len(shown) <= 32 else "…" + shown[-31:]
