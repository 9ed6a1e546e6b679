"""`tui-agent undo`: list, compare and undo the agent's file changes without a screen (K1)."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tui_agent import settings
from tui_agent.checkpoints.ledger import Checkpoint, Ledger, is_beyond_undo
from tui_agent.checkpoints.store import BlobStore
from tui_agent.commands.output import exit_code_of, print_line
from tui_agent.common import paths
from tui_agent.common.domain import Diff
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.core.state import open_stream
from tui_agent.engine.undo import CannotUndo, Checkpoints, UndoReport
from tui_agent.events.narration import commands_text
from tui_agent.platform.locks import InUse
from tui_agent.platform.pipes import print_error
from tui_agent.safety.roots import Roots
from tui_agent.safety.secrets import values_to_mask
from tui_agent.storage.catalog import latest_for
from tui_agent.storage.folder import JOURNAL, SessionError, SessionFolder, find_session, load_info, rebuild_info
from tui_agent.storage.journal import read_records
from tui_agent.text import SecretMask, clean, one_line, pluralize

FAILED = 1
_OUTCOMES = {
    "restored": "restored",
    "already": "already up to date",
    "left": "left unchanged",
    "aside": "earlier content saved next to it",
    "failed": "not done",
    "": "not tried",
}


_CHOICES = {
    "merge": "revert the agent's change, keep the rest",
    "overwrite": "restore the earlier content; `tui-agent undo --redo` brings back the current one",
    "aside": "write the earlier content next to the file",
}


def run_undo(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """List, compare, undo or redo; return the exit code."""
    if args.rewind and not args.run:
        parser.error("--rewind needs --run N, the first run to undo")
    codes = dict.fromkeys((SessionError, CannotUndo, JournalBroken), FAILED)
    return exit_code_of(lambda: _run(args), codes)


def _run(args: argparse.Namespace) -> int:
    session = _find_session(args)
    try:
        return _print_checkpoints(session) if args.list else asyncio.run(_change(args, session))
    except InUse as error:
        raise SessionError(f"{error}\nUse /undo there, or quit that session first.") from error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SessionError(f"undo failed: {error}") from error


def _find_session(args: argparse.Namespace) -> Path:
    if args.session:
        return find_session(paths.sessions_dir(), args.session)
    workspace = Path(os.path.realpath(args.workspace or Path()))
    latest = latest_for(paths.data_dir(), workspace)
    if latest is None:
        raise SessionError(f"There is no session in {workspace}. Name one with --session.")
    return latest


# --- printing -----------------------------------------------------------------------------------


def _print_checkpoints(session: Path) -> int:
    """List the runs with changes. Works while the session is in use, as the journal is enough then."""
    if (workspace := _workspace_with_notes(session)) is not None:
        from tui_agent.engine.host.quarantine import has_unfinished

        if has_unfinished(workspace, session):
            with suppress(InUse):
                asyncio.run(_open_once(session))
    ledger = Ledger()
    for record in read_records(session / JOURNAL):
        ledger.fold(record.event, record.run)
    checkpoints = ledger.checkpoints()
    print_line(f"Session {session.name}")
    if not checkpoints:
        print_line("No file changes.")
    for checkpoint in checkpoints:
        _print_checkpoint(checkpoint)
    if ledger.open is not None:
        print_line(
            "An undo is unfinished: still running, or interrupted by a crash. After a crash use --finish or --back."
        )
    return 0


def _print_checkpoint(checkpoint: Checkpoint) -> None:
    kept = "  (kept)" if checkpoint.kept else ""
    print_line(f"\n{checkpoint.run}  {_one_masked_line(checkpoint.title)}{kept}")
    for file in checkpoint.files:
        sign = {"create": "A", "delete": "D"}.get(file.kind, "M")
        state = "  undone" if file.undone else f"  can't be undone: {file.cannot_undo}" if file.cannot_undo else ""
        by = f"  by `{_one_masked_line(file.command)[:60]}`" if file.command else ""
        print_line(f"  {sign} {one_line(clean(file.display))}  +{file.added} -{file.removed}{by}{state}")
    for command in {command.command: command for command in sorted(checkpoint.commands, key=is_beyond_undo)}.values():
        for text in command.protected:
            print_line(
                f"  ! protected, undo leaves it: {one_line(clean(text))}  by `{_one_masked_line(command.command)}`"
            )
        if not is_beyond_undo(command):
            print_line(f"  $ ran `{_one_masked_line(command.command)}`")
            continue
        names = [*command.created, *command.changed, *command.deleted]
        listed = ", ".join(names[:5]) + (" …" if len(names) > 5 or command.more else "")
        what = f"changed {listed}" if names else f"not watched: {', '.join(command.unwatched)}"
        print_line(f"  ! not covered by undo: `{_one_masked_line(command.command)}` {one_line(clean(what))}")


def _print_diff(diff: Diff) -> None:
    mask = _mask()
    print_line(f"{diff.kind} {one_line(clean(diff.path))}  +{diff.added} -{diff.removed}")
    for hunk in diff.hunks:
        print_line(f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@")
        for line in hunk.lines:
            print_line(mask.mask(clean(line.rstrip("\n"))))
    if diff.note:
        print_line(f"({diff.note})")


def _print_report(report: UndoReport) -> int:
    for item in report.items:
        reason = f": {item.why}" if item.why else ""
        is_deleted = item.outcome == "restored" and item.after.kind == "absent"
        outcome = "deleted" if is_deleted else _OUTCOMES[item.outcome]
        print_line(f"{one_line(clean(item.display))}  {outcome}{one_line(clean(reason), 300)}")
    if not report.items:
        print_line("Nothing to do.")
    left = [item for item in report.items if item.outcome == "left"]
    if left:
        choices = [choice for choice in ("merge", "overwrite", "aside") if any(choice in item.choices for item in left)]
        advice = f"Use --conflicts {' or '.join(choices)}" if choices else "Restore them by hand, or with git"
        print_line(f"{pluralize(len(left), 'file')} changed since and stayed as they are. {advice}.")
        for choice in choices:
            print_line(f"  {choice}: {_CHOICES[choice]}")
    for sentence in filter(None, commands_text(report.commands, report.uncovered, report.protected).split("\n")):
        print_line(_mask().mask(clean(sentence)))
    return FAILED if report.left else 0


def _mask() -> SecretMask:
    return SecretMask(values_to_mask(os.environ))


def _one_masked_line(text: str) -> str:
    return one_line(clean(_mask().mask(text)), 100)


# --- changing -----------------------------------------------------------------------------------


def _workspace_with_notes(session: Path) -> Path | None:
    """Return the workspace of a session if there are notes about commands that ran in it."""
    workspace = Path((load_info(session) or rebuild_info(session)).workspace or Path())
    return workspace if workspace.is_dir() and paths.command_notes_dir(workspace).is_dir() else None


def _recover_commands(workspace: Path, session: Path) -> None:
    """Find what commands changed that ran when the program was killed, as each start does."""
    from tui_agent.engine.host.quarantine import recover

    for notice in recover(Roots([workspace]), attended=False, opened=session):
        print_error(clean(_mask().mask(notice.text)))


async def _open_once(session: Path) -> None:
    """Journal what a command of the session changed that ran when the program was killed."""
    async with _opened(session):
        pass


@asynccontextmanager
async def _opened(session: Path) -> AsyncIterator[Checkpoints]:
    """Open the session in this process and yield its checkpoints."""
    caps = settings.load_settings(paths.config_file(), None, None, {}).settings.caps
    workspace = await asyncio.to_thread(_workspace_with_notes, session)
    if workspace is not None:
        await asyncio.to_thread(_recover_commands, workspace, session)
    folder = await asyncio.to_thread(SessionFolder.open, session)
    was_closed = False
    try:
        stream, recovered = await open_stream(folder, _mask())
        was_closed = recovered.closed
        try:
            if (event := recovered.event()) is not None:
                stream.emit(event)
            if workspace is not None:
                from tui_agent.engine.host.quarantine import report_unfinished

                await report_unfinished(stream, workspace, session)
            store = BlobStore(folder.path, file_cap=caps.undo_file_bytes, total_cap=caps.undo_bytes)
            yield Checkpoints(stream, store)
        finally:
            await stream.close()
    finally:
        await asyncio.to_thread(folder.close, "ended" if was_closed else "crashed")


async def _change(args: argparse.Namespace, session: Path) -> int:
    run = f"run-{args.run.removeprefix('run-')}" if args.run else ""
    files = [str(Path(os.path.realpath(file))) for file in args.files] + list(args.files)
    choice = args.conflicts
    async with _opened(session) as checkpoints:
        if args.diff:
            await _print_diffs(checkpoints, run or checkpoints.ledger.latest(), files)
            return 0
        if args.keep:
            kept = checkpoints.keep(run)
            print_line(f"Kept: {', '.join(kept)}." if kept else "Nothing to keep.")
            return 0
        if args.redo:
            report = await checkpoints.redo(choice=choice)
        elif args.finish:
            report = await checkpoints.finish(choice=choice)
        elif args.back:
            report = await checkpoints.roll_back(choice=choice)
        elif args.rewind:
            report = await checkpoints.rewind(run, "code", choice=choice)
        else:
            report = await checkpoints.undo(run=run, files=files, choice=choice)
        return _print_report(report)


async def _print_diffs(checkpoints: Checkpoints, run: str, files: list[str]) -> None:
    checkpoint = next((checkpoint for checkpoint in checkpoints.listed() if checkpoint.run == run), None)
    if checkpoint is None:
        raise CannotUndo("Nothing to compare.")
    for file in checkpoint.files:
        if not files or file.path in files or file.display in files:
            _print_diff(await checkpoints.diff(run, file.path))
