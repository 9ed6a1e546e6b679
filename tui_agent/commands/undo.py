"""`tui-agent undo`: what the agent did to files, listed, compared and taken back, without a screen (K1)."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tui_agent import settings
from tui_agent.checkpoints.ledger import Checkpoint, Ledger
from tui_agent.checkpoints.store import BlobStore
from tui_agent.commands.output import exit_code_of, say
from tui_agent.common import paths
from tui_agent.common.domain import Diff
from tui_agent.engine.core.state import open_stream
from tui_agent.engine.core.stream import JournalBroken
from tui_agent.engine.undo import CannotUndo, Checkpoints, UndoReport
from tui_agent.platform.locks import InUse
from tui_agent.safety.secrets import values_to_mask
from tui_agent.storage.catalog import latest_for
from tui_agent.storage.folder import JOURNAL, SessionError, SessionFolder, find_session
from tui_agent.storage.journal import records
from tui_agent.text import Mask, clean, one_line

FAILED = 1


def run_undo(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """List, compare, undo or redo; returns the exit code."""
    if args.rewind and not args.run:
        parser.error("--rewind needs --run N, the first run to undo")
    codes = dict.fromkeys((SessionError, CannotUndo, JournalBroken), FAILED)
    return exit_code_of(lambda: _run(args), codes)


def _run(args: argparse.Namespace) -> int:
    session = _session(args)
    try:
        return _list(session) if args.list else asyncio.run(_do(args, session))
    except InUse as error:
        raise SessionError(f"{error}\nUse /undo there, or quit that session first.") from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SessionError(f"undo failed: {error}") from error


def _session(args: argparse.Namespace) -> Path:
    if args.session:
        return find_session(paths.sessions_dir(), args.session)
    workspace = Path(os.path.realpath(args.workspace or Path()))
    found = latest_for(paths.data_dir(), workspace)
    if found is None:
        raise SessionError(f"There is no session in {workspace}. Name one with --session.")
    return found


# --- looking ------------------------------------------------------------------------------------


def _list(session: Path) -> int:
    """Reads the journal only: works while the session is in use."""

    ledger = Ledger()
    for record in records(session / JOURNAL):
        ledger.fold(record.event, record.run)
    checkpoints = ledger.checkpoints()
    say(f"Session {session.name}")
    if not checkpoints:
        say("No file changes.")
    for one in checkpoints:
        _show(one)
    if ledger.open is not None:
        say("An undo is unfinished: still running, or interrupted by a crash. After a crash use --finish or --back.")
    return 0


def _show(one: Checkpoint) -> None:
    kept = "  (kept)" if one.kept else ""
    say(f"\n{one.run}  {_hidden(one.title)}{kept}")
    for file in one.files:
        sign = "A" if file.kind == "create" else "M"
        state = "  undone" if file.undone else f"  can't be undone: {file.unkept}" if file.unkept else ""
        say(f"  {sign} {one_line(clean(file.display))}  +{file.added} -{file.removed}{state}")
    for command in one.commands:
        names = [*command.created, *command.changed, *command.deleted]
        shown = ", ".join(names[:5]) + (" …" if len(names) > 5 or command.more else "")
        say(f"  ! can't be undone: `{_hidden(command.command)}` changed {one_line(clean(shown))}")


def _print_diff(diff: Diff) -> None:
    say(f"{diff.kind} {one_line(clean(diff.path))}  +{diff.added} -{diff.removed}")
    for hunk in diff.hunks:
        say(f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@")
        for line in hunk.lines:
            say(_mask(clean(line.rstrip("\n"))))
    if diff.note:
        say(f"({diff.note})")


def _mask(text: str) -> str:

    return Mask(values_to_mask(os.environ, None)).mask(text)


def _hidden(text: str) -> str:
    return one_line(clean(_mask(text)), 100)


# --- doing --------------------------------------------------------------------------------------


@asynccontextmanager
async def _opened(session: Path) -> AsyncIterator[Checkpoints]:
    """The session's checkpoints, in this process's hands."""

    caps = settings.load_settings(paths.config_file(), None, None, {}).settings.caps
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
            say(f"Kept: {', '.join(kept)}." if kept else "Nothing to keep.")
            return 0
        return _told(await _carried_out(args, checkpoints, name, files))


async def _diffs(checkpoints: Checkpoints, run: str, files: list[str]) -> None:

    mine = next((one for one in checkpoints.listed() if one.run == run), None)
    if mine is None:
        raise CannotUndo("Nothing to compare.")
    for file in mine.files:
        if not files or file.path in files or file.display in files:
            _print_diff(await checkpoints.diff(run, file.path))


async def _carried_out(args: argparse.Namespace, checkpoints: Checkpoints, run: str, files: list[str]) -> UndoReport:
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
    "already": "already up to date",
    "left": "left unchanged",
    "aside": "earlier content saved next to it",
    "failed": "not done",
    "": "not tried",
}


def _told(report: UndoReport) -> int:
    for item in report.items:
        why = f": {item.why}" if item.why else ""
        say(f"{one_line(clean(item.display))}  {_WORDS[item.outcome]}{one_line(clean(why), 300)}")
    if not report.items:
        say("Nothing to do.")
    if any(item.outcome == "left" for item in report.items):
        say("The remaining files have changed since. Use --conflicts merge, overwrite or aside.")
    return FAILED if report.left else 0
