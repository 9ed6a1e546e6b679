"""The command line: reads the arguments and imports one front end, lazily."""

from __future__ import annotations

import argparse
import gc
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

COLLECT = (5_000, 20, 50)
"""When the screen's garbage is collected; see `gc.set_threshold`. Painting makes much and few cycles."""

USAGE = 2
"""Exit code of a wrong command line."""

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
        "--resume", metavar="ID", help="go on with a session, named by its id or the beginning of it"
    )
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


COMMANDS = """commands:
  exec TASK   work on one task without a screen; see `tui-agent exec --help`
  doctor      look at server, model, files and terminal, and say what to do
  reliability MODEL   measure how often a model's tool calls can run
  undo        take back what the agent did to files; see `tui-agent undo --help`
  settings    print a config.yaml that explains every setting
  rules       write ~/AGENTS.md, your rules for the agent, from a template
"""

MODES = ("agent", "direct", "chat", "plan", "explore", "review")
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
        resume="latest" if args.resume_last else args.resume,
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
    import importlib

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
    if arguments[:1] == ["doctor"]:
        from tui_agent.commands import doctor

        return doctor.run(arguments[1:])
    if arguments[:1] == ["undo"]:
        from tui_agent.commands import undo

        return undo.run(arguments[1:])
    if arguments[:1] == ["reliability"]:
        from tui_agent.commands import reliability

        return reliability.run(arguments[1:])
    args = build_parser().parse_args(arguments)
    if args.reset_tty:
        from tui_agent.tui.terminal import reset

        return reset()
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        sys.stderr.write("tui-agent needs a terminal. Without one, use `tui-agent exec`.\n")
        return USAGE
    return _screen(args)


def _screen(args: argparse.Namespace) -> int:
    """Show a session; from the first-run screen the demonstration can follow."""
    gc.disable()  # until the session is open; nothing of what is made for that is garbage
    from tui_agent.tui.app import RESTART_AS_DEMO
    from tui_agent.tui.run import run_tui

    draft = hint = ""
    if args.demo:
        from tui_agent.frontends.scratch import DEMO_TASK

        draft, hint = DEMO_TASK, "Enter starts the demonstration"
    wished = wishes(args, args.approval_mode, attended=True)
    code = run_tui(lambda: _open_behind(wished), draft=draft, hint=hint)
    if code != RESTART_AS_DEMO:
        return code
    again = ["--demo"]
    if args.approval_mode:
        again += ["--approval-mode", args.approval_mode]
    return _screen(build_parser().parse_args(again))


if __name__ == "__main__":
    sys.exit(main())
