"""`tui-agent undo`: what the agent did to files, listed, compared and taken back, without a screen (K1)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent import paths
from tui_agent.arguments import Sections, page
from tui_agent.text import clean, one_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tui_agent.checkpoints.ledger import Checkpoint
    from tui_agent.domain import Diff
    from tui_agent.engine.undoing import Checkpoints, Report

FAILED, USAGE = 1, 2
CHOICES = ("leave", "merge", "overwrite", "aside")

EXAMPLES = {
    "tui-agent undo": "the last run in this folder",
    "tui-agent undo --list": "what runs did to files",
    "tui-agent undo --diff src/app.py": "what it did to one file",
    "tui-agent undo --rewind --run 3": "back to before the third run",
    "tui-agent undo --redo": "after all",
}
CONFLICTS = """\
They are left as they are, unless --conflicts says otherwise:
merge      take the agent's change out and keep the rest
overwrite  put the earlier content back; --redo brings back what is there now
aside      write the earlier content beside the file"""
EXIT_CODES = "0 done   1 files were left as they are, or nothing could be done\n2 wrong usage"


class NoSession(Exception):
    """No session to work on; the message says why."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent undo`."""
    about = (
        "Take back what the agent did to files: in the last run, a certain one, or in\n"
        "single files. No git is needed, and yours is never touched."
    )
    sections: Sections = {
        "examples": EXAMPLES,
        "files that somebody changed since the agent's edit": CONFLICTS,
        "exit codes": EXIT_CODES,
    }
    parser = page("undo", about, ["[OPTION]... [FILE]..."], sections)
    parser.add_argument("files", nargs="*", metavar="FILE", help="only these files of the run")
    where = parser.add_argument_group("where")
    where.add_argument(
        "-C", "--workspace", type=Path, metavar="DIR", help="whose last session; default: the current folder"
    )
    where.add_argument("--session", metavar="ID", help="the session, by its id or the beginning of it")
    where.add_argument("--run", metavar="N", help="the run, by its number; default: the last that stands")
    doing = parser.add_argument_group("what to do; default: undo the run")
    doing.add_argument(
        "--conflicts",
        choices=CHOICES,
        metavar="HOW",
        default="leave",
        help="with files that were changed since: leave, merge, overwrite or aside; default: leave",
    )
    what = doing.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list what runs did to files, and change nothing")
    what.add_argument("--diff", action="store_true", help="show what a run did to files, and change nothing")
    what.add_argument("--redo", action="store_true", help="make the last undo undone")
    what.add_argument("--rewind", action="store_true", help="take back --run and every run after it")
    what.add_argument(
        "--keep", action="store_true", help="be content with --run, or with all: undo passes over"
    )
    what.add_argument(
        "--finish", action="store_true", help="carry out the rest of an undo that a crash cut off"
    )
    what.add_argument("--back", action="store_true", help="reverse what such an undo had done already")
    return parser


def run(argv: Sequence[str]) -> int:
    """Do it; returns the exit code."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.rewind and not args.run:
        parser.error("--rewind needs --run N: the run before which to go back")
    import asyncio

    from tui_agent.engine.stream import JournalBroken
    from tui_agent.engine.undoing import CannotUndo
    from tui_agent.platform.locks import InUse
    from tui_agent.storage.folder import SessionError

    try:
        session = _session(args)
        if args.list:
            return _list(session)
        return asyncio.run(_do(args, session))
    except InUse as error:
        sys.stderr.write(f"tui-agent: {error}\nUse /undo there, or quit it first.\n")
    except (NoSession, SessionError, CannotUndo, JournalBroken) as error:
        sys.stderr.write(f"tui-agent: {clean(str(error))}\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stderr.write(f"tui-agent: it can't be done: {error}\n")
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        return 130
    return FAILED


def _session(args: argparse.Namespace) -> Path:
    from tui_agent.storage.folder import find, latest_for

    sessions = paths.sessions_dir()
    if args.session:
        return find(sessions, args.session)
    workspace = Path(os.path.realpath(args.workspace or Path()))
    found = latest_for(sessions, workspace)
    if found is None:
        raise NoSession(f"There is no session in {workspace}. Name one with --session.")
    return found


# --- looking ------------------------------------------------------------------------------------


def _list(session: Path) -> int:
    """Reads the journal only: works while the session is in use."""
    from tui_agent.checkpoints.ledger import Ledger
    from tui_agent.storage.folder import JOURNAL
    from tui_agent.storage.journal import records

    ledger = Ledger()
    for record in records(session / JOURNAL):
        ledger.fold(record.event, record.run)
    checkpoints = ledger.checkpoints()
    _say(f"Session {session.name}")
    if not checkpoints:
        _say("Nothing was done to files.")
    for one in checkpoints:
        _show(one)
    if ledger.open is not None:
        _say("An undo has no end: it goes on, or a crash cut it off; then --finish or --back.")
    return 0


def _show(one: Checkpoint) -> None:
    kept = "  (kept)" if one.kept else ""
    _say(f"\n{one.run}  {_hidden(one.title)}{kept}")
    for file in one.files:
        sign = "A" if file.kind == "create" else "M"
        state = "  undone" if file.undone else f"  can't be undone: {file.unkept}" if file.unkept else ""
        _say(f"  {sign} {one_line(clean(file.display))}  +{file.added} -{file.removed}{state}")
    for command in one.commands:
        names = [*command.created, *command.changed, *command.deleted]
        shown = ", ".join(names[:5]) + (" …" if len(names) > 5 or command.more else "")
        _say(f"  ! can't be undone: `{_hidden(command.command)}` changed {one_line(clean(shown))}")


def _print_diff(diff: Diff) -> None:
    _say(f"{diff.kind} {one_line(clean(diff.path))}  +{diff.added} -{diff.removed}")
    for hunk in diff.hunks:
        _say(f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@")
        for line in hunk.lines:
            _say(_mask(clean(line.rstrip("\n"))))
    if diff.note:
        _say(f"({diff.note})")


def _mask(text: str) -> str:
    from tui_agent.safety.secrets import values_to_mask
    from tui_agent.text import Mask

    return Mask(values_to_mask(os.environ, None)).mask(text)


def _hidden(text: str) -> str:
    return one_line(clean(_mask(text)), 100)


def _say(text: str) -> None:
    sys.stdout.write(text.encode("utf-8", "replace").decode() + "\n")


# --- doing --------------------------------------------------------------------------------------


@asynccontextmanager
async def _opened(session: Path) -> AsyncIterator[Checkpoints]:
    """The session's checkpoints, in this process's hands."""
    import asyncio

    from tui_agent import settings
    from tui_agent.checkpoints.store import BlobStore
    from tui_agent.engine.state import open_stream
    from tui_agent.engine.undoing import Checkpoints
    from tui_agent.safety.secrets import values_to_mask
    from tui_agent.storage.folder import SessionFolder
    from tui_agent.text import Mask

    caps = settings.load(paths.config_file(), None, None, {}).settings.caps
    folder = await asyncio.to_thread(SessionFolder.open, session)
    closed = False
    try:
        stream, recovered = await open_stream(folder, Mask(values_to_mask(os.environ, None)))
        closed = recovered.closed
        try:
            if (event := recovered.event()) is not None:
                stream.emit(event)
            store = BlobStore(folder.path, file_cap=caps.undo_file_bytes, total_cap=caps.undo_bytes)
            yield Checkpoints(stream, store)
        finally:
            await stream.close()
    finally:
        await asyncio.to_thread(folder.close, "ended" if closed else "crashed")


async def _do(args: argparse.Namespace, session: Path) -> int:
    name = f"run-{args.run.removeprefix('run-')}" if args.run else ""
    files = [str(Path(os.path.realpath(one))) for one in args.files] + list(args.files)
    async with _opened(session) as checkpoints:
        if args.diff:
            await _diffs(checkpoints, name or checkpoints.ledger.latest(), files)
            return 0
        if args.keep:
            kept = checkpoints.keep(name)
            _say(f"Kept: {', '.join(kept)}." if kept else "There was nothing to keep.")
            return 0
        return _told(await _carried_out(args, checkpoints, name, files))


async def _diffs(checkpoints: Checkpoints, run: str, files: list[str]) -> None:
    from tui_agent.engine.undoing import CannotUndo

    mine = next((one for one in checkpoints.listed() if one.run == run), None)
    if mine is None:
        raise CannotUndo("There is nothing to compare.")
    for file in mine.files:
        if not files or file.path in files or file.display in files:
            _print_diff(await checkpoints.diff(run, file.path))


async def _carried_out(
    args: argparse.Namespace, checkpoints: Checkpoints, run: str, files: list[str]
) -> Report:
    choice = args.conflicts
    if args.redo:
        return await checkpoints.redo(choice=choice)
    if args.finish:
        return await checkpoints.finish(choice=choice)
    if args.back:
        return await checkpoints.roll_back(choice=choice)
    if args.rewind:
        return await checkpoints.rewind(run, "code", choice=choice)
    return await checkpoints.undo(run=run, files=files, choice=choice)


_WORDS = {
    "restored": "back",
    "already": "was as it should be",
    "left": "left as it is",
    "aside": "earlier content written beside it",
    "failed": "not done",
    "": "not tried",
}


def _told(report: Report) -> int:
    for item in report.items:
        why = f": {item.why}" if item.why else ""
        _say(f"{one_line(clean(item.display))}  {_WORDS[item.outcome]}{one_line(clean(why), 300)}")
    if not report.items:
        _say("There was nothing to do.")
    if any(item.outcome == "left" for item in report.items):
        _say("Somebody changed what was left. --conflicts merge, overwrite or aside decides about it.")
    return FAILED if report.left else 0
