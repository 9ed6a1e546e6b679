"""`tui-agent web --tui`: the full screen in a browser on this machine (X4)."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tui_agent.frontends.web.addresses import CannotServe, listen
from tui_agent.frontends.web.running import USAGE, Signals, invite
from tui_agent.text import Mask, clean

NOT_THEIRS = (
    "TMUX",
    "TMUX_PANE",
    "STY",
    "COLUMNS",
    "LINES",
    "XTERM_VERSION",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
)
"""What tells of the terminal in which we run, which is another one than the page's."""
THEIRS = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def again(actions: Iterable[argparse.Action], given: argparse.Namespace) -> list[str]:
    """The arguments that say what was parsed already: every option of `actions` that was given."""
    said = []
    for action in actions:
        value = getattr(given, action.dest, None)
        if not action.option_strings or value is None or value is False or value == action.default:
            continue
        name = action.option_strings[-1]
        if value is True or value == action.const:
            said.append(name)
        else:
            said += [f"{name}={one}" for one in (value if isinstance(value, list) else [value])]
    return said


def environment_of(source: Mapping[str, str]) -> dict[str, str]:
    """Our own environment, but for what tells of our terminal."""
    kept = {name: value for name, value in source.items() if name not in NOT_THEIRS}
    return kept | THEIRS | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def serve_screen(said: list[str], *, host: str, port: int, open_it: bool) -> int:
    """Serve a screen that was begun with these arguments, until it or we end; returns the exit code."""
    try:
        listener = listen(host, port)
    except CannotServe as error:
        sys.stderr.write(f"tui-agent: {clean(str(error))}\n")
        return USAGE
    return asyncio.run(_serve(said, listener, open_it))


def _keep_log() -> None:
    """Our own failures go where those of the screen go, and not into the terminal with the link."""
    from tui_agent import paths
    from tui_agent.platform.debug_log import keep_debug_log
    from tui_agent.safety.secrets import values_to_mask

    with contextlib.suppress(paths.NoHome):
        keep_debug_log(paths.debug_log_file(), Mask(values_to_mask(os.environ, None)))


async def _serve(said: list[str], listener: socket.socket, open_it: bool) -> int:
    from tui_agent.frontends.web.serving import Listening
    from tui_agent.frontends.web.terminal import LEFT, Screen, ServingScreen

    _keep_log()
    # -P: nothing of the folder we are in is imported.
    argv = [sys.executable, "-P", "-m", "tui_agent", *said]
    screen = Screen(argv, cwd=Path.cwd(), environment=environment_of(os.environ))
    try:
        serving = ServingScreen(screen, Listening(listener))
    except CannotServe as error:
        listener.close()
        sys.stderr.write(f"tui-agent: {clean(str(error))}\n")
        return 1
    signals = Signals()
    try:
        await serving.start()
        going: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(invite(serving, open_it)),
            asyncio.ensure_future(asyncio.shield(screen.ended)),
            signals.task(),
        ]
        await asyncio.wait(going, return_when="FIRST_COMPLETED")
        for task in going:
            task.cancel()
        await asyncio.gather(*going, return_exceptions=True)
        ended = screen.ended.done()
    finally:
        await serving.stop()
    if screen.left:
        sys.stdout.write(f"No browser came back for {LEFT / 60:.0f} minutes.\n")
    if "--demo" not in said:
        sys.stdout.write("Go on in the same folder with: tui-agent --continue\n")
    return signals.code if not ended or screen.left else max(screen.ended.result(), 0)
