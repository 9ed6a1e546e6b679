"""`tui-agent desktop`: the page in a window of its own; server, session and window end together (X5)."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.arguments import add_session_options, page
from tui_agent.frontends.web.addresses import CannotServe

if TYPE_CHECKING:
    from tui_agent.frontends.web.command import Wish
    from tui_agent.frontends.web.serving import Serving

SIZE = (900, 700)
BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "microsoft-edge-stable",
    "microsoft-edge",
    "brave-browser",
    "vivaldi-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "/Applications/Brave Browser.app/Contents/MacOS/Brave Browser",
)
"""What can show a page as an application, in the order in which they are looked for."""
QUIET = (
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--disable-background-mode",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,AutofillServerCommunication",
    "--disable-sync",
    "--metrics-recording-only",
    "--password-store=basic",
    "--use-mock-keychain",
)
"""The window talks to our page and asks nobody else anything (R25.1)."""
DISPLAY = (
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_SESSION_TYPE",
    "XDG_CURRENT_DESKTOP",
    "DBUS_SESSION_BUS_ADDRESS",
    "GDK_SCALE",
    "QT_SCALE_FACTOR",
)
FOLDER = "tui-agent-window-"
"""What the folder of a window's browser is called, with our process id behind it."""
SOON = 60.0
"""Seconds that a link is good for: the window uses it at once."""


EXAMPLES = {
    "tui-agent desktop": "in this folder",
    "tui-agent desktop --browser chromium": "with this browser",
    "tui-agent desktop --demo": "try it without a server",
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent desktop`."""
    about = "The agent's page in a window of its own; closing the window ends it."
    needs = (
        "an installed browser of the Chromium family, which gets a profile of its own,\n"
        "or pywebview: pip install 'tui-agent[desktop]'"
    )
    codes = "0 the window was closed   1 failed   2 wrong usage, or no browser or display\n128+N ended by signal N"
    parser = page(
        "desktop", about, ["[OPTION]..."], {"examples": EXAMPLES, "it needs": needs, "exit codes": codes}
    )
    group = parser.add_argument_group("window")
    group.add_argument(
        "--browser",
        metavar="PROGRAM",
        help="the browser to take, or `webview` for pywebview; default: the first that is there",
    )
    add_session_options(parser)
    return parser


def run(argv: Sequence[str], wish: Wish) -> int:
    """Open a session in a window, and close it with that. Returns the exit code."""
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.resume == "":
        parser.error("--resume needs the id of a session here; `tui-agent sessions` lists them")
    try:
        program = find(args.browser, os.environ)
    except CannotServe as error:
        sys.stderr.write(f"tui-agent: {error}\n")
        return 2
    from tui_agent.frontends.web.running import serve

    async def beside(serving: Serving) -> None:
        await show(serving, program)

    return serve(wish(args, args.approval_mode, attended=True), beside, port=0)


def find(wanted: str | None, environ: Mapping[str, str]) -> str:
    """The absolute path of a browser, or `webview`. Raises CannotServe with what to do."""
    if sys.platform == "linux" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        raise CannotServe("There is no display for a window. `tui-agent web` shows the page in any browser.")
    if wanted not in (None, "webview"):
        found = shutil.which(wanted or "")
        if found is None:
            raise CannotServe(
                f"The browser {wanted} was not found. Leave --browser out to take one that is there."
            )
        return found
    if wanted is None:
        found = next(filter(None, map(shutil.which, BROWSERS)), None)
        if found is not None:
            return found
    if importlib.util.find_spec("webview") is not None:
        return "webview"
    raise CannotServe(
        "A window needs Chromium, Chrome, Edge, Brave or Vivaldi, or pywebview: pip install 'tui-agent[desktop]'. "
        "Without one, `tui-agent web` shows the page in any browser."
    )


async def show(serving: Serving, program: str) -> None:
    """Show the page in a window until it is closed. Nothing of the window is left afterwards, also where we are
    stopped or killed: it runs below a supervisor (R-50). Raises CannotServe when it can't be started."""
    import asyncio
    import tempfile

    from tui_agent.platform.capture import Capture
    from tui_agent.platform.environment import child_environment
    from tui_agent.platform.proc import Child, ProcessError, Stage

    await asyncio.to_thread(sweep, Path(tempfile.gettempdir()))
    prefix = f"{FOLDER}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        environment = child_environment() | {name: os.environ[name] for name in DISPLAY if name in os.environ}
        link = serving.link(SOON)
        if program == "webview":
            program = sys.executable
            argv = [program, "-m", "tui_agent.frontends.webview_window"]
            environment |= {"TUI_AGENT_LINK": link, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        else:
            argv = [program, *flags(link, folder)]
        stage = Stage(program=os.path.abspath(program), argv=tuple(argv), quiet_out=True, quiet_err=True)
        try:
            child = await Child.start([stage], cwd=Path(folder), environment=environment, capture=Capture())
        except ProcessError as error:
            raise CannotServe(f"The window can't be opened: {error}") from error
        began = asyncio.get_running_loop().time()
        try:
            status = await child.wait(None)
        finally:
            child.stop()
            await child.gone()
    if status and not serving.feed.readers and asyncio.get_running_loop().time() - began < SOON:
        raise CannotServe(
            f"The window can't be opened: {os.path.basename(program)} ended with status {status}. "
            "`tui-agent web` shows the page in any browser."
        )


def sweep(folder: Path) -> None:
    """Remove the browser's profiles that were left behind where we were killed."""
    for one in folder.glob(f"{FOLDER}*"):
        owner = one.name.removeprefix(FOLDER).partition("-")[0]
        with contextlib.suppress(OSError):
            told = one.lstat()
            ours = stat.S_ISDIR(told.st_mode) and told.st_uid == os.geteuid()
            if ours and owner.isascii() and owner.isdigit() and not _lives(int(owner)):
                shutil.rmtree(one, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return pid > 0


def flags(link: str, folder: str) -> list[str]:
    """How a browser of the Chromium family shows one page as an application, with a profile of its own."""
    width, height = SIZE
    made = [
        f"--app={link}",
        f"--user-data-dir={folder}/profile",
        f"--window-size={width},{height}",
        "--class=tui-agent",
    ]
    if os.geteuid() == 0:
        made += [
            "--no-sandbox",
            "--test-type",
        ]  # it does not start as root with one; the second spares a bar about it
    return [*made, *QUIET]
