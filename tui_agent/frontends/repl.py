"""`tui-agent repl`: the agent line by line, for a plain terminal, a screen reader or a pipe (X2, R26.4)."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui_agent.engine.wishes import Wishes

EPILOG = """in the loop:
  a message and Enter      the agent works on it; Ctrl+C stops it
  !command                 runs in the session's shell
  /help                    all commands, such as /clear, /undo, /plan
  Ctrl+D                   leaves; the session can be resumed here, with exec, or on the screen

in a pipe every line is a message. What would ask is refused, as in exec:
--approval-mode auto-edit or auto, and --trust, say what may happen without you.
The exit code is that of the last message, as exec has it.

There is no colour where NO_COLOR is set, and never anything but lines from top to bottom.
"""


def build_parser(shared: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The parser of `tui-agent repl`; `shared` holds what all ways of starting a session have."""
    parser = argparse.ArgumentParser(
        prog="tui-agent repl",
        parents=[shared],
        description="Talk to the agent line by line, without a screen: plain text from top to bottom.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--approval-mode",
        choices=("ask", "auto-edit", "auto", "read-only"),
        help="who is asked when; default ask",
    )
    return parser


def run(
    argv: Sequence[str],
    shared: argparse.ArgumentParser,
    wishes: Callable[..., Wishes],
) -> int:
    """Open a session and talk; returns the exit code. `wishes` makes of the arguments what is asked of a session."""
    parser = build_parser(shared)
    args = parser.parse_args(argv)
    if args.resume == "":
        parser.error("--resume needs the id of a session; `tui-agent sessions` lists them")
    from tui_agent import paths
    from tui_agent.engine.wishes import CannotOpen
    from tui_agent.frontends.line_mode.loop import serve
    from tui_agent.frontends.line_mode.terminal import Terminal
    from tui_agent.text import clean

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        terminal = Terminal(paths.data_dir())
        if args.demo and terminal.attended:
            from tui_agent.frontends.scratch import DEMO_TASK

            terminal.again(DEMO_TASK)
        return serve(wishes(args, args.approval_mode, attended=terminal.attended), terminal)
    except (CannotOpen, paths.NoHome) as error:
        sys.stderr.write(f"tui-agent: {clean(str(error))}\n")
        return getattr(error, "code", 2)
