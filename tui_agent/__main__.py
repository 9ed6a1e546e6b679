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

from tui_agent import __version__

if TYPE_CHECKING:
    from tui_agent.engine.session import Session
    from tui_agent.engine.wishes import Wishes
    from tui_agent.tui.leaving import GoOn

COLLECT = (5_000, 20, 50)
"""When the screen's garbage is collected; see `gc.set_threshold`. Painting makes much and few cycles."""

USAGE = 2
"""Exit code of a wrong command line."""

PICK = ""
"""`--resume` without an id."""

EPILOG = """exit codes of exec:
  0 done   1 failed   2 wrong usage   3 refused or needs a person
  4 model unreachable   5 limit reached   130 interrupted

answers for exec --answers (JSON lines on standard input):
  {"verdict": "approve"}                          the oldest open request
  {"id": "a-…", "verdict": "reject", "text": "…"}  a certain one, with a reason
  {"id": "q-…", "verdict": "reply", "text": "…"}   the answer to a question
"""


def _shared() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    where = parser.add_argument_group("where")
    where.add_argument(
        "-C", "--workspace", type=Path, metavar="DIR", help="the folder to work in; default the current one"
    )
    where.add_argument(
        "--add-root",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="another folder that belongs to it",
    )
    where.add_argument(
        "--trust", action="store_true", help="trust this folder: read its AGENTS.md and settings"
    )
    model = parser.add_argument_group("model")
    model.add_argument("--provider", choices=("ollama", "openai", "scripted"), help="which kind of server")
    model.add_argument("--base-url", metavar="URL", help="address of the server")
    model.add_argument("--model", metavar="NAME", help="name of the model")
    model.add_argument("--context-window", type=int, metavar="TOKENS", help="size of the window to ask for")
    model.add_argument("--scenarios", type=Path, metavar="FILE", help="scenario file of the scripted model")
    session = parser.add_argument_group("session")
    earlier = session.add_mutually_exclusive_group()
    earlier.add_argument(
        "--continue", dest="resume_last", action="store_true", help="go on with the last session here"
    )
    earlier.add_argument(
        "--resume",
        nargs="?",
        const=PICK,
        metavar="ID",
        help="go on with a session, named by its id or the beginning of it; without one, pick it from a list",
    )
    earlier.add_argument("--fork", metavar="ID", help="go on in a copy of a session, which stays as it is")
    session.add_argument("--mode", choices=MODES, help="how messages are worked on")
    session.add_argument(
        "--max-iterations", type=int, metavar="N", help="rounds of the model for one message"
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="work on a small project in a scratch folder, with a scripted model",
    )
    return parser


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent` without a command."""
    parser = argparse.ArgumentParser(
        prog="tui-agent",
        parents=[_shared()],
        description="A coding agent for the terminal that runs on your own model.",
        epilog=COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tui-agent {__version__}")
    parser.add_argument(
        "--reset-tty", action="store_true", help="put a terminal in order that was left broken"
    )
    parser.add_argument(
        "--approval-mode",
        choices=("ask", "auto-edit", "auto", "read-only"),
        help="who is asked when; default ask",
    )
    return parser


def build_exec_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent exec`."""
    parser = argparse.ArgumentParser(
        prog="tui-agent exec",
        parents=[_shared()],
        description="Work on one task without a screen. Plain text, or JSON lines of every event.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("task", nargs="?", help="what to do; `-` reads it from standard input")
    parser.add_argument("--json", action="store_true", help="print every event as a line of JSON")
    parser.add_argument(
        "--approve",
        choices=("none", "safe", "edits", "all"),
        default="safe",
        help="what may happen without a person: nothing that asks, reading commands (the default), "
        "edits too, or all but what always asks",
    )
    parser.add_argument(
        "--accept-plan", action="store_true", help="carry out plans that somebody would have to look at"
    )
    parser.add_argument(
        "--accept-summary", action="store_true", help="take the summary of the work into plan_doc.md"
    )
    parser.add_argument(
        "--answers", action="store_true", help="read answers as JSON lines from standard input"
    )
    return parser


APART = ("doctor", "undo", "sessions", "stats", "reliability")
"""Commands with a module of their own, whose `run` takes what follows the name and returns the exit code."""

FACES = {"repl": "repl", "web": "web.command", "desktop": "desktop"}
"""Commands that show a session in another way → their modules, whose `run` takes the options and how to read them."""

COMMANDS = """commands:
  exec TASK   work on one task without a screen; see `tui-agent exec --help`
  repl        the agent line by line, for a plain terminal, a screen reader or a pipe
  web         the agent in a browser on this machine; see `tui-agent web --help`
  desktop     the same in a window of its own
  doctor      look at server, model, files and terminal, and say what to do
  reliability MODEL   measure how often a model's tool calls can run
  undo        take back what the agent did to files; see `tui-agent undo --help`
  sessions    list, search, rename, fork, export, delete; see `tui-agent sessions --help`
  stats       success, planning, checks, failures and tokens in numbers, over all sessions
  settings    print a config.yaml that explains every setting
  rules       write ~/AGENTS.md, your rules for the agent, from a template
"""

MODES = ("agent", "direct", "chat", "plan", "explore", "review", "deep-explore")
"""Values of `--mode` (W11)."""

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
    if arguments == ["rules"]:
        from tui_agent.commands import rules

        return rules.run()
    if arguments == ["settings"]:
        from tui_agent.commands import settings

        return settings.run()
    if arguments and arguments[0] in APART:
        return int(importlib.import_module(f"tui_agent.commands.{arguments[0]}").run(arguments[1:]))
    if arguments and arguments[0] in FACES:
        face = importlib.import_module(f"tui_agent.frontends.{FACES[arguments[0]]}")
        return int(face.run(arguments[1:], _shared(), wishes))
    args = build_parser().parse_args(arguments)
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
