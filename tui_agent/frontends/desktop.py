"""`tui-agent desktop`: the page in a window of its own; server, session and window end together (X5)."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.frontends.web.addresses import CannotServe
from tui_agent.platform.locks import process_lives
from tui_agent.platform.pipes import print_error

if TYPE_CHECKING:
    import argparse

    from tui_agent.engine.options import SessionOptions
    from tui_agent.frontends.web.app import SessionPage

SIZE = (900, 700)
FOLDER = "tui-agent-window-"
"""What the folder of a window's browser is called, with our process id behind it."""
SOON = 60.0
"""Seconds that a link is good for: the window uses it at once."""


def run_desktop(
    args: argparse.Namespace, parser: argparse.ArgumentParser, session_options: Callable[..., SessionOptions]
) -> int:
    """Open a session in a window, and close it with that. Returns the exit code."""
    if args.resume == "":
        parser.error("--resume needs the id of a session here; `tui-agent sessions` lists them")
    try:
        program = find_browser(args.browser, os.environ)
    except CannotServe as error:
        print_error(str(error))
        return 2
    from tui_agent.frontends.web.running import serve_page

    options = session_options(args, args.approval_mode, attended=True)
    return serve_page(options, lambda page: show_window(page, program), port=0)


def find_browser(wanted: str | None, environ: Mapping[str, str]) -> str:
    """The absolute path of a browser, or `webview`. Raises CannotServe with what to do."""
    if sys.platform == "linux" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        raise CannotServe("There is no display for a window. `tui-agent web` shows the page in any browser.")
    if wanted not in (None, "webview"):
        found = shutil.which(wanted or "")
        if found is None:
            raise CannotServe(f"The browser {wanted} was not found. Omit --browser to use one that is installed.")
        return found
    if wanted is None:
        found = next(filter(None, map(shutil.which, _settings()["browsers"])), None)
        if found is not None:
            return found
    if importlib.util.find_spec("webview") is not None:
        return "webview"
    raise CannotServe(
        "A window needs Chromium, Chrome, Edge, Brave or Vivaldi, or pywebview: pip install 'tui-agent[desktop]'. "
        "Without one, `tui-agent web` shows the page in any browser."
    )


async def show_window(page: SessionPage, program: str) -> None:
    """Show the page in a window until it is closed. Nothing of the window is left afterwards, also where we are
    stopped or killed: it runs below a supervisor. Raises CannotServe when it can't be started."""
    import asyncio
    import tempfile

    from tui_agent.platform.environment import child_environment
    from tui_agent.platform.output import Capture
    from tui_agent.platform.proc import Child, ProcessError, Stage

    await asyncio.to_thread(sweep, Path(tempfile.gettempdir()))
    prefix = f"{FOLDER}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
        environment = child_environment() | {
            name: os.environ[name] for name in _settings()["environment"] if name in os.environ
        }
        link = page.link(SOON)
        if program == "webview":
            program = sys.executable
            argv = [program, "-m", "tui_agent.frontends.desktop"]
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
    if status and not page.feed.readers and asyncio.get_running_loop().time() - began < SOON:
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
            if ours and owner.isascii() and owner.isdigit() and not process_lives(int(owner)):
                shutil.rmtree(one, ignore_errors=True)


@cache
def _settings() -> dict[str, list[str]]:
    """`browsers` that can show a page as an application, in the order in which they are looked for; `flags` with which
    they contact nobody but our page; `environment` variables of the display."""
    text = (resources.files("tui_agent.frontends") / "desktop.json").read_text(encoding="utf-8")
    tables: dict[str, list[str]] = json.loads(text)
    return tables


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
        made += ["--no-sandbox", "--test-type"]  # it does not start as root with one; the second spares a bar about it
    return [*made, *_settings()["flags"]]


def _show_webview() -> None:
    """Show the page that the environment names in pywebview's window, in a process of its own: it wants the main
    thread, which is the session's."""
    webview = importlib.import_module("webview")
    link = os.environ.pop("TUI_AGENT_LINK")
    webview.create_window("tui-agent", link, width=SIZE[0], height=SIZE[1])
    webview.start(private_mode=True)


if __name__ == "__main__":
    _show_webview()
