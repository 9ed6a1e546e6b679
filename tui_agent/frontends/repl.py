"""`tui-agent repl`: the agent line by line, for a plain terminal, a screen reader or a pipe (X2, R26.4)."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tui_agent.arguments import ENVIRONMENT, EXIT_CODES, Sections, add_session_options, page

if TYPE_CHECKING:
    from tui_agent.engine.wishes import Wishes

EXAMPLES = {
    "tui-agent repl": "in this folder",
    "tui-agent repl --continue": "go on with the last session here",
    'echo "explain src/app.py" | tui-agent repl': "",
    "tui-agent repl --demo": "try it without a server; Up brings its task",
}
LOOP = {
    "a message and Enter": "the agent works on it; Ctrl+C stops it",
    "!command": "runs in the session's shell",
    "/help": "all commands, such as /clear, /undo, /plan",
    "Ctrl+D": "leaves; the session can be gone on with anywhere",
}
PIPE = """\
Every line is a message. What would ask is refused, as in exec: say by
--approval-mode and --trust what may happen without you.
The exit code is that of the last message."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent repl`."""
    about = (
        "Talk to the agent line by line: plain text from top to bottom, nothing painted\n"
        "over. For a plain terminal, a screen reader, a pipe."
    )
    sections: Sections = {
        "examples": EXAMPLES,
        "in the loop": LOOP,
        "in a pipe": PIPE,
        "exit codes": EXIT_CODES,
        "environment": ENVIRONMENT,
    }
    parser = page("repl", about, ["[OPTION]..."], sections)
    add_session_options(parser)
    return parser


def run(
    argv: Sequence[str],
    wishes: Callable[..., Wishes],
) -> int:
    """Open a session and talk; returns the exit code. `wishes` makes of the arguments what is asked of a session."""
    parser = build_parser()
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
