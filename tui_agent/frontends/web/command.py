"""`tui-agent web`: the agent in a browser on this machine (X4). What serves is loaded after the options are read."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tui_agent.frontends.web.addresses import PORT

if TYPE_CHECKING:
    from tui_agent.engine.wishes import Wishes
    from tui_agent.frontends.web.serving import Serving

    Wish = Callable[..., Wishes]


def parser_of(name: str, description: str, shared: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The parser of a command that serves the page."""
    parser = argparse.ArgumentParser(prog=f"tui-agent {name}", parents=[shared], description=description)
    parser.add_argument(
        "--approval-mode",
        choices=("ask", "auto-edit", "auto", "read-only"),
        help="who is asked when; default ask",
    )
    return parser


def run(argv: Sequence[str], shared: argparse.ArgumentParser, wish: Wish) -> int:
    """Serve until Ctrl+C; returns the exit code. `shared` are the options of every front end, `wish` reads them."""
    parser = parser_of("web", "The agent in a browser on this machine, and on no other.", shared)
    parser.add_argument(
        "--host", default="127.0.0.1", help="a loopback address: 127.0.0.1 (the default), ::1 or localhost"
    )
    parser.add_argument("--port", type=int, default=PORT, help=f"default {PORT}; 0 takes a free one")
    parser.add_argument("--open", action="store_true", help="open the page in your browser")
    parser.add_argument(
        "--tui",
        action="store_true",
        help="the full screen instead of the page; it ends with the last browser, or with this command",
    )
    args = parser.parse_args(argv)
    if args.tui:
        from tui_agent.frontends.web.running_screen import again, serve_screen

        own = ("help", "host", "port", "open", "tui")
        said = again((one for one in parser._actions if one.dest not in own), args)
        return serve_screen(said, host=args.host, port=args.port, open_it=args.open)
    if args.resume == "":
        parser.error("--resume needs the id of a session here; `tui-agent sessions` lists them")
    from tui_agent.frontends.web.running import invite, serve

    async def beside(serving: Serving) -> None:
        await invite(serving, args.open)

    return serve(wish(args, args.approval_mode, attended=True), beside, host=args.host, port=args.port)
