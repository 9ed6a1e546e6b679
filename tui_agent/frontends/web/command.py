"""`tui-agent web`: the agent in a browser on this machine (X4). What serves is loaded after the options are read."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tui_agent.arguments import Sections, add_session_options, page
from tui_agent.frontends.web.addresses import PORT

if TYPE_CHECKING:
    from tui_agent.engine.wishes import Wishes
    from tui_agent.frontends.web.serving import Serving

    Wish = Callable[..., Wishes]


EXAMPLES = {
    "tui-agent web --open": "the page, in your browser",
    "tui-agent web --tui --open": "the full screen in it",
    "tui-agent web --resume 2026-11 --port 0": "a session of before, on a free port",
    "tui-agent web --demo": "try it without a server",
}
GUARD = """\
Only this machine can reach it. The link that is printed works once, and is
exchanged for a cookie. Requests with a foreign Host or Origin are refused.
`/web` in the terminal shows the session that runs there."""
EXIT_CODES = """\
0 ended by Ctrl+C or in the browser   1 failed
2 wrong usage, or nothing to serve on   128+N ended by signal N"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent web`."""
    about = (
        "The agent in a browser on this machine, and on no other: a page of its own, or\n"
        "with --tui the full screen."
    )
    sections: Sections = {"examples": EXAMPLES, "who can reach it": GUARD, "exit codes": EXIT_CODES}
    parser = page("web", about, ["[OPTION]..."], sections)
    group = parser.add_argument_group("page")
    group.add_argument("--open", action="store_true", help="open the page in your browser")
    group.add_argument(
        "--tui",
        action="store_true",
        help="the full screen instead of the page; it ends when you quit in it, with this command, or when no browser "
        "has been there for five minutes",
    )
    group.add_argument(
        "--port", type=int, default=PORT, metavar="N", help=f"default: {PORT}; 0 takes a free one"
    )
    group.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="a loopback address: 127.0.0.1, ::1 or localhost; default: 127.0.0.1",
    )
    add_session_options(parser)
    return parser


def run(argv: Sequence[str], wish: Wish) -> int:
    """Serve until Ctrl+C; returns the exit code. `wish` makes of the options what is asked of a session."""
    parser = build_parser()
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
