"""The command line: parses the arguments and imports the requested front end."""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tui_agent.commands.arguments import (
    PICK,
    command_names,
    command_parser,
    model_flags,
    with_default_command,
    without_word,
)
from tui_agent.common.suggestions import closest_name

if TYPE_CHECKING:
    from tui_agent.engine.options import SessionOptions
    from tui_agent.engine.session import Session
    from tui_agent.platform.temporary import TemporaryFolder
    from tui_agent.tui.exit_codes import ContinueIn

COLLECT = (5_000, 20, 50)
"""`gc.set_threshold` while the screen is up: painting allocates a lot, but creates few cycles."""

USAGE = 2
"""Exit code of a wrong command line."""
LIMIT = 5
"""Exit code when a time limit was reached."""
INTERRUPTED = 130
"""Exit code after Ctrl+C, as shells report it."""

COMMANDS = {
    "sessions": "commands.sessions:run_sessions",
    "trust": "commands.trust:run_trust",
    "undo": "commands.undo:run_undo",
    "doctor": "commands.doctor:run_doctor",
    "reliability": "commands.reliability:run_reliability",
    "models": "commands.models:run_models",
    "stats": "commands.stats:run_stats",
    "settings": "commands.templates:run_settings",
    "rules": "commands.templates:run_rules",
}
"""Command without a session → function that takes the arguments and the parser and returns the exit code."""

FRONTENDS = {
    "repl": "frontends.line_mode.loop:run_repl",
    "web": "frontends.web.running:run_web",
    "desktop": "frontends.desktop:run_desktop",
}
"""Command with a session → function that also takes `session_options`."""

_TEMPORARY: list[TemporaryFolder] = []
"""Folders of demos."""

APPROVE_MODES = {"none": "ask", "safe": "ask", "edits": "auto-edit", "all": "auto"}
"""`--approve` → approval mode."""


def session_options(args: argparse.Namespace, approval_mode: str | None, *, attended: bool) -> SessionOptions:
    """The session options for command-line arguments; `attended`: a user can answer requests."""
    from tui_agent.engine.options import SessionOptions

    values = {
        **model_flags(args),
        "context_window": args.context_window,
        "mode": args.mode,
        "iterations.direct": args.max_iterations,
        "approval_mode": approval_mode,
    }
    flags = {name: value for name, value in values.items() if value is not None}
    workspace, trust = args.workspace, args.trust
    if args.demo:
        from tui_agent.frontends.demo_workspace import has_real_model

        workspace, trust = _demo_workspace(args.workspace), True
        flags["plan_cache"] = False
        if not has_real_model(args):
            flags["provider"] = "scripted"
            flags.setdefault("model", "scripted")  # whatever the user's settings name for another server
    return SessionOptions(
        workspace=workspace,
        temporary=args.demo and args.workspace is None,
        more_roots=tuple(args.add_root),
        flags=flags,
        scenarios=args.scenarios,
        trust=trust,
        attended=attended,
        accept_plan=getattr(args, "accept_plan", False),
        accept_summary=getattr(args, "accept_summary", False),
        resume="latest" if args.resume_last else args.resume if args.fork is None else args.fork,
        fork=args.fork is not None,
    )


def _demo_workspace(chosen: Path | None) -> Path:
    """Write the sample project into the chosen folder, or into a temporary one that `main` removes at the end."""
    from tui_agent.frontends.demo_workspace import create_demo_workspace

    if chosen is not None:
        try:
            return create_demo_workspace(chosen)
        except OSError as error:
            name = error.filename or chosen
            sys.stderr.write(f"tui-agent: the demo can't be written: {name}: {error.strerror}. Use an empty folder.\n")
            sys.exit(USAGE)
    from tui_agent.platform.temporary import TemporaryFolder

    folder = TemporaryFolder("demo")
    _TEMPORARY.append(folder)
    return create_demo_workspace(folder.path)


def _remove_demos(quiet: bool) -> None:
    """Remove the demos' folders and sessions, and say so; if `quiet`, only of folders that are still there."""
    for folder in _TEMPORARY:
        _delete_sessions(folder.path)
        folder.remove()
        if quiet and not folder.path.exists():
            continue
        with contextlib.suppress(OSError, ValueError):  # the terminal may be gone
            left = f"is still there: {folder.path}" if folder.path.exists() else "was removed"
            sys.stderr.write(f"The demo's folder {left}. To keep one: tui-agent --demo -C DIR\n")
    _TEMPORARY.clear()


def _delete_sessions(workspace: Path) -> None:
    """Delete the sessions of a demo whose folder is about to be removed: they can't be resumed."""
    from tui_agent.common import paths
    from tui_agent.storage import catalog, changes
    from tui_agent.storage.folder import SessionError

    with contextlib.suppress(paths.HomeNotFoundError, SessionError):
        for entry in catalog.list_sessions(paths.data_dir(), workspace):
            changes.delete_session(entry)


def _run_exec(argv: Sequence[str]) -> int:
    parser = command_parser("exec")
    args = parser.parse_args(argv)
    if args.json_schema:
        from tui_agent.commands.output import flushing_output
        from tui_agent.events.schema import print_schema

        return flushing_output(print_schema)
    if args.task == "-" and args.answers:
        parser.error("--answers and the task `-` both need standard input")
    if args.resume == PICK:
        parser.error("--resume needs the id of a session here; `tui-agent sessions` lists them")
    if (file := args.last_message) is not None:
        if not file.absolute().parent.is_dir():
            parser.error(f"there is no folder {file.absolute().parent} for --last-message; create it first")
        if file.exists() and not file.is_file():
            parser.error(f"{file} is {'a folder' if file.is_dir() else 'no regular file'}; --last-message needs a file")
    from tui_agent.frontends.piped_input import InputError, InputTimeoutError

    deadline = None if args.timeout is None else time.monotonic() + args.timeout
    try:
        task, piped = _task_and_input(args, deadline)
    except InputError as error:
        sys.stderr.write(f"tui-agent: {error}\n")
        return LIMIT if isinstance(error, InputTimeoutError) else USAGE
    if not task.strip():
        parser.error('a task is required, for example: tui-agent exec "fix the failing test"')
    from tui_agent.keys.slash import LEADING_SPACE, message_of, read_command

    if (command := read_command(task)) is not None:
        problem = command.problem or f"/{command.name} is a command of the screen. {LEADING_SPACE}"
        parser.error(f"exec takes a task: {problem}")
    from tui_agent.frontends import headless

    task_options = headless.Headless(
        task=message_of(task),
        approve=args.approve,
        json=args.json,
        read_answers=args.answers,
        attached=piped,
        quiet=args.quiet,
        last_message=args.last_message,
        deadline=deadline,
        seconds=args.timeout or 0.0,
    )
    options = session_options(args, APPROVE_MODES[args.approve], attended=args.answers)
    if args.approve == "none":
        options.flags["auto_run"] = False
    return headless.run_exec(options, task_options)


def _task_and_input(args: argparse.Namespace, deadline: float | None) -> tuple[str, str]:
    """Return the task of `exec`, and what is piped in beside it. Raises InputError."""
    from tui_agent.frontends.piped_input import read_piped

    if args.task == "-":
        return read_piped(deadline, quiet=args.quiet), ""
    if args.task is None and args.demo:
        from tui_agent.frontends.demo_workspace import demo_task

        return demo_task(args), ""
    task = args.task or ""
    return task, "" if args.answers or not task.strip() else read_piped(deadline, optional=True, quiet=args.quiet)


async def _open_session(options: SessionOptions) -> Session:
    """Import the engine in a thread and open the session, while the screen already accepts keys."""
    import asyncio

    gc.collect()  # styling the screen left a megabyte; only what came after the imports is searched: 5 ms
    try:
        opening = await asyncio.to_thread(importlib.import_module, "tui_agent.engine.opening")
        session: Session = await opening.open_session(options)
    finally:
        gc.freeze()  # these objects live as long as the process; scanning them would take 20 ms per collection
        gc.set_threshold(*COLLECT)
        gc.enable()
    return session


def _open_missing_streams() -> None:
    """Open /dev/null for standard streams that the caller closed, so that no other file gets their descriptors."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code. An unexpected exception ends in one sentence."""
    _open_missing_streams()
    if argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # terminate the process, until a front end handles the signal
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except Exception as error:
        from tui_agent.frontends.plain import report_failure

        return report_failure(error)
    finally:
        _remove_demos(quiet=not {"-q", "--quiet"}.isdisjoint(arguments))


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["exec"]:
        return _run_exec(arguments[1:])
    if arguments in (["help"], ["version"]):
        arguments = [f"--{arguments[0]}"]
    if arguments and arguments[0] in command_names():
        return _run_command(arguments[0], arguments[1:])
    parser = command_parser("")
    draft = parser.parse_known_args(arguments)[0].draft
    if draft and draft[0] in command_names():
        return _run([draft[0], *without_word(parser, arguments, draft[0])])
    if draft and " " not in draft[0]:
        command = "sessions export" if draft == ["export"] else closest_name(draft[0], command_names())
        if command:
            parser.error(f"no such command: `{draft[0]}`; did you mean `{command}`?")
    args = parser.parse_args(arguments)
    if args.reset_tty:
        from tui_agent.tui.terminal import reset_terminal

        return reset_terminal()
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        picks = args.resume == PICK
        alternative = "specify the session; `tui-agent sessions` lists them" if picks else "use `tui-agent exec`"
        sys.stderr.write(f"tui-agent needs a terminal. Without one, {alternative}.\n")
        return USAGE
    return _run_screen(args)


def _run_command(name: str, arguments: list[str]) -> int:
    """Parse the arguments, import the command's module and run it; a closed pipe or a full disk causes no traceback."""
    parser = command_parser(name)
    args = parser.parse_args(with_default_command(name, arguments))
    module, _, function = {**COMMANDS, **FRONTENDS}[name].partition(":")
    run = getattr(importlib.import_module(f"tui_agent.{module}"), function)
    if name in FRONTENDS:
        return _interruptible(lambda: int(run(args, parser, session_options)))
    from tui_agent.commands.output import flushing_output

    return _interruptible(lambda: flushing_output(lambda: int(run(args, parser))))


def _interruptible(work: Callable[[], int]) -> int:
    """Run `work`, in which Ctrl+C raises KeyboardInterrupt; before and after, it ends the process. Returns the exit
    code, 130 after Ctrl+C."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_DFL:  # ignored, or this is not the whole program
        return work()
    sys.excepthook = _report
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = work()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        return INTERRUPTED
    return code


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an uncaught exception, but not another Ctrl+C."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


def _run_screen(args: argparse.Namespace) -> int:
    """Show a session, then the sessions or the demo that the user continues in."""
    from tui_agent.tui.exit_codes import RESTART_AS_DEMO

    draft = " ".join(args.draft)
    while True:
        result = _show_session(args, draft)
        draft = ""
        if isinstance(result, tuple):
            args, draft = _arguments_to_continue(args, result), result.typed_ahead
            gc.unfreeze()  # the previous session is garbage now
            gc.collect()
        elif result == RESTART_AS_DEMO:
            kept = ["--approve", args.approval_mode] if args.approval_mode else []
            args = command_parser("").parse_args(["--demo", *kept])
        else:
            return result


def _show_session(args: argparse.Namespace, draft: str) -> int | ContinueIn:
    gc.disable()  # until the session is open: importing and opening create hardly any garbage
    from tui_agent.tui import run

    gc.freeze()
    if args.resume == PICK:
        gc.enable()  # the list may stay open for long
        return run.run_picker(
            lambda id: _open_session(
                session_options(_arguments_to_resume(args, id), args.approval_mode, attended=True)
            ),
            str(args.workspace or os.curdir),
            draft,
        )
    hint = ""
    if args.demo:
        from tui_agent.frontends.demo_workspace import demo_task

        draft, hint = draft or demo_task(args), "Enter starts the demo"
    options = session_options(args, args.approval_mode, attended=True)
    folder = "" if args.demo else str(args.workspace or os.curdir)
    return run.run_tui(
        lambda: _open_session(options), draft=draft, hint=hint, folder=folder, resumable=not options.temporary
    )


def _arguments_to_resume(args: argparse.Namespace, id: str) -> argparse.Namespace:
    """The same command line for resuming one session, in that session's folder."""
    changes = {"resume": id, "resume_last": False, "fork": None, "workspace": None, "demo": False}
    return argparse.Namespace(**(vars(args) | changes))


def _arguments_to_continue(args: argparse.Namespace, target: ContinueIn) -> argparse.Namespace:
    """The command line for continuing in another session: same model, its own modes, trust only in the same folder."""
    changes: dict[str, object] = {"add_root": [], "mode": None, "approval_mode": None, "trust": False}
    if target.same_folder:
        changes["trust"] = args.trust or args.demo
    if args.demo:
        from tui_agent.frontends.demo_workspace import has_real_model

        if not has_real_model(args):
            changes["provider"] = "scripted" if target.same_folder else None
    return argparse.Namespace(**(vars(_arguments_to_resume(args, target.id)) | changes))


if __name__ == "__main__":
    sys.exit(main())
