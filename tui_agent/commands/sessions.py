"""`tui-agent sessions`: list, search, rename, fork, export and delete sessions, without a screen (S3)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent import paths
from tui_agent.arguments import HelpPage, Sections, page
from tui_agent.commands.ending import ended, tell

if TYPE_CHECKING:
    from tui_agent.export.reading import Format
    from tui_agent.storage.catalog import Entry
    from tui_agent.text import Mask

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

FAILED, USAGE, NEEDS_PERSON = 1, 2, 3
COMMANDS = ("list", "search", "rename", "fork", "export", "delete")

EXAMPLES = {
    "tui-agent sessions": "those that work in this folder",
    'tui-agent sessions search "flaky" --all': "",
    "tui-agent sessions export 2026-11-22 -o session.html": "",
    "tui-agent sessions fork 2026-11-22 --at 3": "",
    'tui-agent sessions rename 2026-11-22 "The parser"': "",
    "tui-agent sessions delete 2026-11-22 --yes": "",
}
EXIT_CODES = """\
0 done   1 failed, or nothing was found   2 wrong usage, or no such session
3 needs a person: deleting asks, unless --yes says that it is meant"""
NAMED = (
    "a session is named by its id or the beginning of it; /sessions and --resume show\nthem with a preview"
)


class Refused(Exception):
    """It can't be done; the message says why and what to do."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent sessions`."""
    about = f"The sessions there are. Without a command: those that work in this folder.\n\n{NAMED}"
    sections: Sections = {
        "examples": EXAMPLES,
        "exit codes": EXIT_CODES,
        "files": {"~/.local/share/tui-agent/sessions/": "one folder a session"},
    }
    parser = page("sessions", about, ["[OPTION]...", "COMMAND [OPTION]..."], sections)
    commands = parser.add_subparsers(
        dest="command",
        required=True,
        metavar="COMMAND",
        title="commands, each with a --help of its own",
        prog="tui-agent sessions",
    )
    where = _where()
    _add(commands, "list", "", "list them, newest first", where)
    search = _add(
        commands,
        "search",
        "WORD...",
        "those that hold all of these words in title, messages or replies",
        where,
    )
    search.add_argument("text", nargs="+", metavar="WORD", help="what to look for")
    one = argparse.ArgumentParser(add_help=False)
    one.add_argument("id", metavar="ID", help="the session, by its id or the beginning of it")
    rename = _add(commands, "rename", "ID TITLE...", "give one another title", one)
    rename.add_argument("title", nargs="+", metavar="TITLE", help="its words")
    fork = _add(commands, "fork", "ID", "copy one under a new id, to go another way", one)
    fork.add_argument(
        "--at",
        metavar="N",
        help="as it was before your Nth message, as an export numbers them; default: all of it",
    )
    export = _add(commands, "export", "ID", "write one as a document to read", one)
    export.add_argument(
        "--format",
        choices=("markdown", "html"),
        metavar="KIND",
        help="markdown or html; default: as FILE ends, else markdown",
    )
    export.add_argument(
        "-o", "--output", metavar="FILE", help="default: a new file here; `-` is standard output"
    )
    export.add_argument("--force", action="store_true", help="replace FILE if it is there")
    delete = _add(commands, "delete", "ID", "delete one and all its files for good", one)
    delete.add_argument("--yes", action="store_true", help="do not ask")
    return parser


def _where() -> argparse.ArgumentParser:
    where = argparse.ArgumentParser(add_help=False)
    which = where.add_mutually_exclusive_group()
    which.add_argument(
        "-C", "--workspace", type=Path, metavar="DIR", help="whose; default: the current folder"
    )
    which.add_argument("--all", action="store_true", help="those of all folders")
    where.add_argument("--json", action="store_true", help="print a line of JSON for each")
    return where


def _add(
    commands: _Commands, name: str, rest: str, about: str, *parents: argparse.ArgumentParser
) -> argparse.ArgumentParser:
    one = commands.add_parser(
        name,
        usage=f"tui-agent sessions {name} [OPTION]... {rest}".rstrip(),
        parents=parents,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        formatter_class=HelpPage,
    )
    one._positionals.title = "arguments"
    return one


def run(argv: Sequence[str]) -> int:
    """Do it; returns the exit code."""
    arguments = list(argv)
    if not arguments or (arguments[0] not in COMMANDS and arguments[0] not in ("-h", "--help")):
        if arguments and not arguments[0].startswith("-"):
            build_parser().parse_args(arguments)  # says which commands there are
        arguments = ["list", *arguments]
    args = build_parser().parse_args(arguments)
    from tui_agent.storage.folder import SessionError

    work = {
        "list": _list,
        "search": _search,
        "rename": _rename,
        "fork": _fork,
        "export": _export,
        "delete": _delete,
    }

    def answered() -> int:
        try:
            return work[args.command](args)
        except Refused as error:
            tell(str(error))
            return error.code

    return ended(answered, {SessionError: FAILED, paths.NoHome: USAGE})


# --- finding --------------------------------------------------------------------------------


def _entries(args: argparse.Namespace) -> list[Entry]:
    from tui_agent.storage import catalog

    workspace = None if args.all else args.workspace or Path()
    return catalog.sessions(paths.data_dir(), workspace)


def _find(prefix: str) -> Entry:
    """The one session whose id is `prefix` or begins with it. Raises Refused."""
    from tui_agent.storage import catalog
    from tui_agent.text import one_line

    known = catalog.sessions(paths.data_dir())
    hits = [one for one in known if one.id == prefix] or [
        one for one in known if prefix and one.id.startswith(prefix)
    ]
    if len(hits) == 1:
        return hits[0]
    named = repr(one_line(prefix))
    if not hits:
        raise Refused(
            f"No session's id begins with {named}. `tui-agent sessions list --all` shows them.", USAGE
        )
    listed = ", ".join(one_line(one.id) for one in hits[:5])
    raise Refused(f"{len(hits)} sessions begin with {named}: {listed}. Give more of the id.", USAGE)


def _mask() -> Mask:
    """All that is hidden: the environment's secrets, and the token of the model's server."""
    from tui_agent import settings
    from tui_agent.safety.secrets import values_to_mask
    from tui_agent.text import Mask

    chosen = settings.load(paths.config_file(), None, None, {}).settings
    return Mask(values_to_mask(os.environ, settings.read_token(chosen)[0]))


# --- looking --------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    from tui_agent.commands.sessions_page import as_json, print_list

    entries = _entries(args)
    if args.json:
        for entry in entries:
            _line(as_json(entry))
        return 0
    if not entries:
        elsewhere = "" if args.all else " `tui-agent sessions list --all` shows those of all folders."
        tell(f"There is no session {'yet' if args.all else 'in this folder'}.{elsewhere}")
        return 0
    print_list(entries, folders=args.all)
    return 0


def _search(args: argparse.Namespace) -> int:
    from tui_agent.commands.sessions_page import as_json, print_hits
    from tui_agent.storage import catalog

    entries = catalog.each(paths.data_dir(), None if args.all else args.workspace or Path())
    hits = catalog.search(entries, " ".join(args.text), _mask(), each=3)
    count = 0
    if args.json:
        for entry, context in hits:
            _line({**as_json(entry), "hit": context})
            count += 1
    else:
        count = print_hits(hits, folders=args.all)
    if not count:
        elsewhere = "" if args.all else " --all looks through those of all folders."
        tell(f"Nothing was found.{elsewhere}")
    return 0 if count else FAILED


def _line(data: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()


# --- changing -------------------------------------------------------------------------------


def _rename(args: argparse.Namespace) -> int:
    from tui_agent.storage import catalog

    entry = _find(args.id)
    title = catalog.rename(entry, " ".join(args.title), _mask())
    _say(f"{entry.id} is called «{title}» now.")
    return 0


def _fork(args: argparse.Namespace) -> int:
    from tui_agent.storage import catalog

    entry = _find(args.id)
    at = None if args.at is None else _message(entry, args.at)
    new = catalog.fork(entry, at, _mask())
    _say(f"{new} is a copy of {entry.id}.\nGo on in it: tui-agent --resume {new}")
    return 0


def _message(entry: Entry, number: str) -> str:
    """The id of the user's Nth message; ids are taken too. Raises Refused."""
    from tui_agent.storage import catalog

    said = catalog.messages(entry)
    if number.isascii() and number.isdecimal() and len(number) < 10 and 0 < int(number) <= len(said):
        return said[int(number) - 1].id
    if any(one.id == number for one in said):
        return number
    have = "no message" if not said else "one message" if len(said) == 1 else f"messages 1 to {len(said)}"
    raise Refused(f"There is no message {number} in {entry.id}: it has {have} of yours.", USAGE)


def _delete(args: argparse.Namespace) -> int:
    from tui_agent.commands.page import bytes_shown
    from tui_agent.storage import catalog

    entry = _find(args.id)
    if entry.running:
        raise Refused(f"{entry.id} is running. Quit it first.")
    called = f" «{entry.title}»" if entry.title else ""
    if not args.yes:
        if not sys.stdin.isatty():
            raise Refused(
                "Deleting asks first, and there is nobody to ask. --yes says that it is meant.", NEEDS_PERSON
            )
        _say(f"Delete {entry.id}{called}, {bytes_shown(entry.bytes)}, for good? [y/N] ", end="")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            _say("Nothing was deleted.")
            return FAILED
    catalog.delete(entry)
    _say(f"Deleted {entry.id}{called}.")
    return 0


def _say(text: str, end: str = "\n") -> None:
    from tui_agent.text import clean

    sys.stdout.write((clean(text) + end).encode("utf-8", "replace").decode())
    sys.stdout.flush()


# --- exporting ------------------------------------------------------------------------------


def _export(args: argparse.Namespace) -> int:
    from tui_agent.export import writing

    entry = _find(args.id)
    form: Format = args.format or writing.form_of(args.output or "") or "markdown"
    if args.output == "-":
        return _print(entry, form)
    try:
        path = writing.target(args.output or "", Path(), entry.id, form, replace=args.force)
        writing.write(entry.path, form, _mask(), path, replace=args.force)
    except writing.NotWritten as error:
        more = "" if args.force or not str(error).endswith("already.") else REPLACING
        raise Refused(f"{error}{more}") from error
    _say(f"Written to {path}.")
    return 0


REPLACING = " --force replaces it, -o names another file."


def _print(entry: Entry, form: Format) -> int:
    from tui_agent.export.reading import export

    try:
        pieces = export(entry.path, form, _mask())
    except OSError as error:
        raise Refused(f"{entry.id} can't be read: {error.strerror}.") from error
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(piece.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    return 0
