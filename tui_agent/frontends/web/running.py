"""A session of its own, or the full screen, served to a browser for as long as somebody wants it (X4, X5)."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui_agent.frontends.plain import StopSignals, report_saving
from tui_agent.frontends.web.addresses import PORT, CannotServe, listen, open_browser
from tui_agent.platform.pipes import print_error
from tui_agent.text import Mask, clean

if TYPE_CHECKING:
    from tui_agent.engine.options import SessionOptions
    from tui_agent.frontends.web.app import SessionPage
    from tui_agent.frontends.web.serving import PageServer

    Beside = Callable[[SessionPage], Awaitable[None]]

USAGE = 2
OWN_TERMINAL = ("TMUX", "TMUX_PANE", "STY", "COLUMNS", "LINES", "XTERM_VERSION", "TERM_PROGRAM", "TERM_PROGRAM_VERSION")
"""Variables that describe the terminal in which we run, which is another one than the page's."""
PAGE_TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def run_web(
    args: argparse.Namespace, parser: argparse.ArgumentParser, session_options: Callable[..., SessionOptions]
) -> int:
    """Serve until Ctrl+C; returns the exit code. `session_options` maps arguments to session options."""
    if args.tui:
        own = ("help", "host", "port", "open", "tui")
        arguments = repeated_arguments((one for one in parser._actions if one.dest not in own), args)
        return _listening(args.host, args.port, lambda listener: _serve_screen(arguments, listener, args.open))
    if args.resume == "":
        parser.error("--resume needs the id of a session here; `tui-agent sessions` lists them")
    options = session_options(args, args.approval_mode, attended=True)
    return serve_page(options, lambda page: invite(page, args.open), host=args.host, port=args.port)


def serve_page(options: SessionOptions, beside: Beside, *, host: str = "127.0.0.1", port: int = PORT) -> int:
    """Open a session and serve its page as long as `beside` goes on; returns the exit code."""
    return _listening(host, port, lambda listener: _serve_page(options, beside, listener))


def _listening(host: str, port: int, serve: Callable[[socket.socket], Coroutine[Any, Any, int]]) -> int:
    try:
        listener = listen(host, port)
    except CannotServe as error:
        return _failed(error, USAGE)
    return asyncio.run(serve(listener))


def _failed(error: BaseException, code: int) -> int:
    print_error(str(error))
    return code


async def _first_of(*jobs: Awaitable[Any]) -> BaseException | None:
    """Until one of the jobs ends; the others are stopped. Returns the first failure."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    await asyncio.wait(tasks, return_when="FIRST_COMPLETED")
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return next((one for one in results if isinstance(one, Exception)), None)


async def _serve_page(options: SessionOptions, beside: Beside, listener: socket.socket) -> int:
    from tui_agent.engine.opening import open_session
    from tui_agent.engine.options import SessionOpenError
    from tui_agent.frontends.web.app import SessionPage

    try:
        session = await open_session(options)
    except SessionOpenError as error:
        listener.close()
        return _failed(error, error.code)
    session.tell_saving(report_saving)
    page = SessionPage(session, listener)
    signals = StopSignals()
    failure: BaseException | None = None
    try:
        await page.start()
        failure = await _first_of(beside(page), page.ended(), signals.came())
    finally:
        await session.close(signals.reason)
        await page.stop()
    code = signals.code if failure is None else _failed(failure, 1)
    sys.stdout.write(f"Resume with: tui-agent --resume {clean(session.id)}\n")
    return code


async def _serve_screen(arguments: list[str], listener: socket.socket, open_it: bool) -> int:
    from tui_agent.frontends.web.terminal import LEFT, Screen, ScreenPage

    _keep_log()
    # -P: nothing of the folder we are in is imported.
    argv = [sys.executable, "-P", "-m", "tui_agent", *arguments]
    screen = Screen(argv, cwd=Path.cwd(), environment=environment_of(os.environ))
    try:
        page = ScreenPage(screen, listener)
    except CannotServe as error:
        listener.close()
        return _failed(error, 1)
    signals = StopSignals()
    try:
        await page.start()
        await _first_of(invite(page, open_it), asyncio.shield(screen.ended), signals.came())
        ended = screen.ended.done()
    finally:
        await page.stop()
    if screen.left:
        sys.stdout.write(f"No browser reconnected within {LEFT / 60:.0f} minutes.\n")
    if "--demo" not in arguments:
        sys.stdout.write("Continue in the same folder with: tui-agent --continue\n")
    return signals.code if not ended or screen.left else max(screen.ended.result(), 0)


def _keep_log() -> None:
    """Our own failures go where those of the screen go, and not into the terminal with the link."""
    from tui_agent.common import paths
    from tui_agent.platform.debug_log import start_debug_log
    from tui_agent.safety.secrets import values_to_mask

    with contextlib.suppress(paths.NoHome):
        start_debug_log(paths.debug_log_file(), Mask(values_to_mask(os.environ, None)))


def repeated_arguments(actions: Iterable[argparse.Action], given: argparse.Namespace) -> list[str]:
    """The arguments that say what was parsed already: every option of `actions` that was given."""
    arguments = []
    for action in actions:
        value = getattr(given, action.dest, None)
        if not action.option_strings or value is None or value is False or value == action.default:
            continue
        name = action.option_strings[-1]
        if value is True or value == action.const:
            arguments.append(name)
        else:
            arguments += [f"{name}={one}" for one in (value if isinstance(value, list) else [value])]
    return arguments


def environment_of(source: Mapping[str, str]) -> dict[str, str]:
    """Our own environment, without what describes our terminal."""
    kept = {name: value for name, value in source.items() if name not in OWN_TERMINAL}
    return kept | PAGE_TERMINAL | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


async def invite(page: PageServer, open_it: bool) -> None:
    """Show a link, and another one whenever Enter is pressed."""
    write = sys.stdout.write
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    write(f"tui-agent is at {page.address}\n\n  {page.link()}\n\n")
    write("The link works once, in one browser. ")
    write("Enter shows a new link, Ctrl+C ends.\n" if interactive else "Ctrl+C ends.\n")
    sys.stdout.flush()
    if open_it and not open_browser(page.link()):
        print_error("no browser could be opened here; use the link.")
    loop = asyncio.get_running_loop()
    fd = sys.stdin.fileno() if interactive else -1

    def pressed() -> None:
        with contextlib.suppress(OSError):
            if os.read(fd, 1024):
                write(f"  {page.link()}\n")
                sys.stdout.flush()
                return
        loop.remove_reader(fd)

    if interactive:
        loop.add_reader(fd, pressed)
    try:
        await asyncio.Event().wait()
    finally:
        if interactive:
            loop.remove_reader(fd)
