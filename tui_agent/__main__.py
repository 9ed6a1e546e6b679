"""The command line: reads the arguments and imports one front end, lazily."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.arguments import COMMANDS, PICK, build_exec_parser, build_parser

if TYPE_CHECKING:
    from tui_agent.engine.session import Session
    from tui_agent.engine.wishes import Wishes
    from tui_agent.tui.leaving import GoOn

COLLECT = (5_000, 20, 50)
"""When the screen's garbage is collected; see `gc.set_threshold`. Painting makes much and few cycles."""

USAGE = 2
"""Exit code of a wrong command line."""

APART = ("doctor", "undo", "sessions", "stats", "reliability", "settings", "rules")
"""Commands with a module of their own, whose `run` takes what follows the name and returns the exit code."""

FACES = {"repl": "repl", "web": "web.command", "desktop": "desktop"}
"""Commands that show a session in another way → their modules, whose `run` takes the arguments and what makes a
session's wishes of them."""


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every command → its parser, for pages and tests; "" is the screen."""
    modules = {name: f"tui_agent.commands.{name}" for name in APART} | {
        name: f"tui_agent.frontends.{module}" for name, module in FACES.items()
    }
    own = {"": build_parser(), "exec": build_exec_parser()}
    made = {name: importlib.import_module(module).build_parser() for name, module in modules.items()}
    return own | {name: made[name] for name in COMMANDS if name in made}


APPROVE_MODES = {"none": "ask", "safe": "ask", "edits": "auto-edit", "all": "auto"}
"""`--approve` → approval mode."""


def wishes(args: argparse.Namespace, approval_mode: str | None, *, attended: bool) -> Wishes:
    """What the command line asks of a session."""
    from tui_agent.engine.wishes import Wishes

    given = {
        "provider": args.provider,
        "base_url": args.base_url,
        "model": args.model,
        "context_window": args.context_window,
        "mode": args.mode,
        "iterations.direct": args.max_iterations,
        "approval_mode": approval_mode,
    }
    flags = {name: value for name, value in given.items() if value is not None}
    workspace, trust = args.workspace, args.trust
    if args.demo:
        import tempfile

        from tui_agent.frontends.scratch import create_scratch_workspace

        workspace, trust = create_scratch_workspace(Path(tempfile.mkdtemp(prefix="tui-agent-demo-"))), True
        flags["provider"] = "scripted"
    return Wishes(
        workspace=workspace,
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


def _exec(argv: Sequence[str]) -> int:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until a session listens, it ends us as the others do
    parser = build_exec_parser()
    args = parser.parse_args(argv)
    task = args.task
    if task == "-":
        if args.answers:
            parser.error("--answers and the task `-` both need standard input")
        task = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not task and args.demo:
        from tui_agent.frontends.scratch import DEMO_TASK

        task = DEMO_TASK
    if args.resume == PICK:
        parser.error("--resume needs the id of a session here; `tui-agent sessions` lists them")
    if not task or not task.strip():
        parser.error('a task is needed, such as: tui-agent exec "fix the failing test"')
    from tui_agent.frontends import headless

    options = headless.Headless(task=task, approve=args.approve, json=args.json, read_answers=args.answers)
    wished = wishes(args, APPROVE_MODES[args.approve], attended=args.answers)
    if args.approve == "none":
        wished.flags["auto_run"] = False
    return headless.run(wished, options)


async def _open_behind(wished: Wishes) -> Session:
    """Load the engine in a thread and open the session: the screen is there and takes keys meanwhile (R23.1)."""
    import asyncio

    try:
        opening = await asyncio.to_thread(importlib.import_module, "tui_agent.engine.opening")
        session: Session = await opening.open_session(wished)
    finally:
        gc.freeze()  # what is there by now stays: no collection need look at it, which would take 20 ms each
        gc.set_threshold(*COLLECT)
        gc.enable()
    return session


def _fill_streams() -> None:
    """Lead the streams that were closed by the caller nowhere, so that no file of ours takes their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(
                sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    _fill_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["exec"]:
        return _exec(arguments[1:])
    if arguments and arguments[0] in APART:
        return _apart(arguments[0], arguments[1:])
    if arguments and arguments[0] in FACES:
        face = importlib.import_module(f"tui_agent.frontends.{FACES[arguments[0]]}")
        return int(face.run(arguments[1:], wishes))
    parser = build_parser()
    if arguments and not arguments[0].startswith("-"):
        parser.error(f"there is no command `{arguments[0]}`; `tui-agent --help` lists them")
    args = parser.parse_args(arguments)
    if args.reset_tty:
        from tui_agent.tui.terminal import reset

        return reset()
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        instead = (
            "name the session; `tui-agent sessions` lists them"
            if args.resume == PICK
            else "use `tui-agent exec`"
        )
        sys.stderr.write(f"tui-agent needs a terminal. Without one, {instead}.\n")
        return USAGE
    return _screen(args)


def _apart(name: str, arguments: list[str]) -> int:
    """Run a command that needs no session of its own; a reader that leaves, or a full disk, is no traceback."""
    from tui_agent.commands.ending import printed

    command = importlib.import_module(f"tui_agent.commands.{name}")
    return printed(lambda: int(command.run(arguments)))


def _screen(args: argparse.Namespace) -> int:
    """Show a session, then what the user goes on in from there: another session, or the demonstration."""
    from tui_agent.tui.leaving import RESTART_AS_DEMO

    typed = ""
    while True:
        ended = _show_one(args, typed)
        typed = ""
        if isinstance(ended, tuple):
            args, typed = _following(args, ended), ended.typed
            gc.unfreeze()  # the session before is garbage now
            gc.collect()
        elif ended == RESTART_AS_DEMO:
            again = ["--approval-mode", args.approval_mode] if args.approval_mode else []
            args = build_parser().parse_args(["--demo", *again])
        else:
            return ended


def _show_one(args: argparse.Namespace, typed: str = "") -> int | GoOn:
    gc.disable()  # until the session is open; nothing of what is made for that is garbage
    from tui_agent.tui import run

    if args.resume == PICK:
        gc.enable()  # that may take its time
        here = str(args.workspace or os.curdir)
        return run.run_picker(
            lambda id: _open_behind(wishes(_resuming(args, id), args.approval_mode, attended=True)), here
        )
    draft, hint = typed, ""
    if args.demo:
        from tui_agent.frontends.scratch import DEMO_TASK

        draft, hint = DEMO_TASK, "Enter starts the demonstration"
    wished = wishes(args, args.approval_mode, attended=True)
    folder = "" if args.demo else str(args.workspace or os.curdir)
    return run.run_tui(lambda: _open_behind(wished), draft=draft, hint=hint, folder=folder)


def _resuming(args: argparse.Namespace, id: str) -> argparse.Namespace:
    """The same command line for one session, which works in a folder of its own."""
    changes = {"resume": id, "resume_last": False, "fork": None, "workspace": None, "demo": False}
    return argparse.Namespace(**(vars(args) | changes))


def _following(args: argparse.Namespace, following: GoOn) -> argparse.Namespace:
    """How to go on in another session: with the same model, but its own modes, and trusted only where it is the same
    folder."""
    changes: dict[str, object] = {"add_root": [], "mode": None, "approval_mode": None, "trust": False}
    if following.same_folder:
        changes["trust"] = args.trust or args.demo
    if args.demo:
        changes["provider"] = "scripted" if following.same_folder else None
    return argparse.Namespace(**(vars(_resuming(args, following.id)) | changes))


if __name__ == "__main__":
    sys.exit(main())
