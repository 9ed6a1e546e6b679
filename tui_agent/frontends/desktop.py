"""`tui-agent desktop`: the page in a browser window; server, session and window end together (X5)."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from tui_agent.frontends.web.addresses import CannotServe
from tui_agent.platform.pipes import print_error

if TYPE_CHECKING:
    import argparse

    from tui_agent.engine.options import SessionOptions
    from tui_agent.frontends.web.app import SessionPage

WINDOW_SIZE = (900, 700)
LINK_SECONDS = 60.0
"""Validity of the link, which the window uses at once."""


def run_desktop(
    args: argparse.Namespace, parser: argparse.ArgumentParser, session_options: Callable[..., SessionOptions]
) -> int:
    """Open a session in a window, close it with the window, and return the exit code."""
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
    """Return the path of a browser, or `webview`. Raises CannotServe if there is none."""
    if sys.platform == "linux" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        raise CannotServe("There is no display for a window. `tui-agent web` shows the page in any browser.")
    if wanted not in (None, "webview"):
        path = shutil.which(wanted or "")
        if path is None:
            raise CannotServe(f"The browser {wanted} was not found. Omit --browser to use one that is installed.")
        return path
    if wanted is None:
        for path in filter(None, map(shutil.which, _browser_data()["browsers"])):
            return path
    if importlib.util.find_spec("webview") is not None:
        return "webview"
    raise CannotServe(
        "A window needs Chromium, Chrome, Edge, Brave or Vivaldi, or pywebview: pip install 'tui-agent[desktop]'. "
        "Without one, `tui-agent web` shows the page in any browser."
    )


async def show_window(page: SessionPage, program: str) -> None:
    """Show the page in a window and wait until it is closed. Raises CannotServe if it can't be started.

    A supervisor process ends the browser even if this process is killed.
    """
    import asyncio

    from tui_agent.platform.environment import child_environment
    from tui_agent.platform.output import Capture
    from tui_agent.platform.proc import Child, ProcessError, Stage
    from tui_agent.platform.temporary import TemporaryFolder

    with TemporaryFolder(f"window-{os.getpid()}") as folder:
        environment = child_environment() | {
            name: os.environ[name] for name in _browser_data()["environment"] if name in os.environ
        }
        link = page.link(LINK_SECONDS)
        if program == "webview":
            program = sys.executable
            argv = [program, "-m", "tui_agent.frontends.desktop"]
            environment |= {"TUI_AGENT_LINK": link, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        else:
            argv = [program, *browser_arguments(link, str(folder))]
        stage = Stage(program=os.path.abspath(program), argv=tuple(argv), discards_stdout=True, discards_stderr=True)
        try:
            child = await Child.start([stage], cwd=folder, environment=environment, capture=Capture())
        except ProcessError as error:
            raise CannotServe(f"The window can't be opened: {error}") from error
        started = asyncio.get_running_loop().time()
        try:
            status = await child.wait(None)
        finally:
            child.stop()
            await child.gone()
    if status and not page.feed.readers and asyncio.get_running_loop().time() - started < LINK_SECONDS:
        raise CannotServe(
            f"The window can't be opened: {os.path.basename(program)} ended with status {status}. "
            "`tui-agent web` shows the page in any browser."
        )


@cache
def _browser_data() -> dict[str, list[str]]:
    """`browsers` with an application mode, in order of preference; `flags` that keep them from contacting other
    servers; `environment` variables of the display."""
    text = (resources.files("tui_agent.frontends") / "desktop.json").read_text(encoding="utf-8")
    data: dict[str, list[str]] = json.loads(text)
    return data


def browser_arguments(link: str, folder: str) -> list[str]:
    """Arguments that make a Chromium browser show one page as an application, with its profile in `folder`."""
    width, height = WINDOW_SIZE
    arguments = [
        f"--app={link}",
        f"--user-data-dir={folder}/profile",
        f"--window-size={width},{height}",
        "--class=tui-agent",
    ]
    if os.geteuid() == 0:
        arguments += ["--no-sandbox", "--test-type"]  # root needs the first; the second hides a warning about it
    return [*arguments, *_browser_data()["flags"]]


def _show_webview() -> None:
    """Show the page named by the environment with pywebview, in a separate process since it needs the main thread."""
    webview = importlib.import_module("webview")
    link = os.environ.pop("TUI_AGENT_LINK")
    webview.create_window("tui-agent", link, width=WINDOW_SIZE[0], height=WINDOW_SIZE[1])
    webview.start(private_mode=True)


if __name__ == "__main__":
    _show_webview()
