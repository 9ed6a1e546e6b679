"""`tui-agent web`: open a session, or the full screen, and serve it to a browser (X4, X5)."""

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

import msgspec

from tui_agent.frontends.plain import StopSignals, report_saving
from tui_agent.frontends.web.addresses import PORT, CannotServe, listen, open_browser
from tui_agent.keys import keymap
from tui_agent.platform.pipes import print_error
from tui_agent.text import SecretMask, clean

if TYPE_CHECKING:
    from tui_agent.engine.api import SessionApi
    from tui_agent.engine.options import SessionOptions
    from tui_agent.engine.session import Session
    from tui_agent.frontends.web.app import SessionPage
    from tui_agent.frontends.web.serving import PageServer

    ShowPage = Callable[[SessionPage], Awaitable[None]]

USAGE = 2
WEB_OPTIONS = ("help", "host", "port", "open", "tui")
"""Options that are not passed on to the full screen."""
OWN_TERMINAL = ("TMUX", "TMUX_PANE", "STY", "COLUMNS", "LINES", "XTERM_VERSION", "TERM_PROGRAM", "TERM_PROGRAM_VERSION")
"""Variables that describe this process's terminal, not the one in the page."""
PAGE_TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


def run_web(
    args: argparse.Namespace, parser: argparse.ArgumentParser, session_options: Callable[..., SessionOptions]
) -> int:
    """Serve until Ctrl+C; return the exit code. `session_options` converts arguments to session options."""
    if args.tui:
        arguments = repeated_arguments((each for each in parser._actions if each.dest not in WEB_OPTIONS), args)
        return _serve(args.host, args.port, lambda listener: _serve_screen(arguments, listener, args.open))
    if args.resume == "":
        parser.error("--resume needs the id of a session here; `tui-agent sessions` lists them")
    draft = ""
    if args.demo:
        from tui_agent.frontends.demo_workspace import demo_task

        draft = demo_task(args)
    options = session_options(args, args.approval_mode, attended=True)
    return serve_page(options, lambda page: print_links(page, args.open), host=args.host, port=args.port, draft=draft)


def serve_page(
    options: SessionOptions, show: ShowPage, *, host: str = "127.0.0.1", port: int = PORT, draft: str = ""
) -> int:
    """Open a session and serve its page, with `draft` typed, until `show` returns; return the exit code."""
    return _serve(host, port, lambda listener: _serve_session(options, show, listener, draft))


def _serve(host: str, port: int, serve: Callable[[socket.socket], Coroutine[Any, Any, int]]) -> int:
    try:
        listener = listen(host, port)
    except CannotServe as error:
        return _failed(error, USAGE)
    return asyncio.run(serve(listener))


def _failed(error: BaseException, code: int) -> int:
    print_error(str(error))
    return code


async def _wait_for_first(*jobs: Awaitable[Any]) -> BaseException | None:
    """Run the jobs until one ends, cancel the others and return the first failure."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    await asyncio.wait(tasks, return_when="FIRST_COMPLETED")
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return next((result for result in results if isinstance(result, Exception)), None)


async def _serve_session(options: SessionOptions, show: ShowPage, listener: socket.socket, draft: str) -> int:
    from tui_agent.engine.opening import open_session
    from tui_agent.engine.options import SessionOpenError
    from tui_agent.frontends.web.app import SessionPage

    session: Session

    async def open_other(id: str) -> SessionApi:
        nonlocal session
        try:
            session = await open_session(msgspec.structs.replace(options, resume=id or None, fork=False))
        except SessionOpenError as error:
            raise ValueError(str(error)) from error
        session.watch_saving(report_saving)
        return session

    try:
        session = await open_session(options)
    except SessionOpenError as error:
        listener.close()
        return _failed(error, error.code)
    session.watch_saving(report_saving)
    keymap.use(keymap.Keymap(session.settings.settings.keys))
    page = SessionPage(session, listener, draft=draft, opener=None if options.temporary else open_other)
    signals = StopSignals()
    failure: BaseException | None = None
    try:
        await page.start()
        failure = await _wait_for_first(show(page), page.ended(), signals.wait())
    finally:
        await session.close(signals.reason)
        await page.stop()
    code = signals.code if failure is None else _failed(failure, 1)
    if session.unsaved is not None:
        print_error(str(session.unsaved))
        code = code or 1
    if not options.temporary and session.can_be_resumed():
        sys.stdout.write(f"Resume with: tui-agent --resume {clean(session.id)}\n")
    return code


async def _serve_screen(arguments: list[str], listener: socket.socket, open_page: bool) -> int:
    from tui_agent.frontends.web.terminal import HANGUP_SECONDS, Screen, ScreenPage

    _start_debug_log()
    # -P: import nothing from the current folder.
    argv = [sys.executable, "-P", "-m", "tui_agent", *arguments]
    screen = Screen(argv, cwd=Path.cwd(), environment=screen_environment(os.environ))
    try:
        page = ScreenPage(screen, listener)
    except CannotServe as error:
        listener.close()
        return _failed(error, 1)
    signals = StopSignals()
    try:
        await page.start()
        await _wait_for_first(print_links(page, open_page), asyncio.shield(screen.ended), signals.wait())
        has_ended = screen.ended.done()
    finally:
        await page.stop()
    if screen.was_abandoned:
        sys.stdout.write(f"No browser reconnected within {HANGUP_SECONDS / 60:.0f} minutes.\n")
    if "--demo" not in arguments:
        sys.stdout.write("Continue in the same folder with: tui-agent --continue\n")
    return signals.code if not has_ended or screen.was_abandoned else max(screen.ended.result(), 0)


def _start_debug_log() -> None:
    """Log failures to the file that the screen uses, not to the terminal that shows the link."""
    from tui_agent.common import paths
    from tui_agent.platform.debug_log import start_debug_log
    from tui_agent.safety.secrets import values_to_mask

    with contextlib.suppress(paths.HomeNotFoundError):
        start_debug_log(paths.debug_log_file(), SecretMask(values_to_mask(os.environ)))


def repeated_arguments(actions: Iterable[argparse.Action], args: argparse.Namespace) -> list[str]:
    """The command line for the options of `actions` that `args` has set."""
    arguments = []
    for action in actions:
        value = getattr(args, action.dest, None)
        if not action.option_strings or value is None or value is False or value == action.default:
            continue
        name = action.option_strings[-1]
        if value is True or value == action.const:
            arguments.append(name)
        else:
            arguments += [f"{name}={each}" for each in (value if isinstance(value, list) else [value])]
    return arguments


def screen_environment(source: Mapping[str, str]) -> dict[str, str]:
    """The environment of the screen: our own, with the terminal of the page."""
    inherited = {name: value for name, value in source.items() if name not in OWN_TERMINAL}
    return inherited | PAGE_TERMINAL | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


async def print_links(page: PageServer, open_page: bool) -> None:
    """Print a link, and a new one whenever Enter is pressed; never returns."""
    write = sys.stdout.write
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    write(f"Open this link in a browser. It works once:\n\n  {page.link()}\n\n")
    write("Enter shows a new link, Ctrl+C ends.\n" if interactive else "Ctrl+C ends.\n")
    sys.stdout.flush()
    if open_page and not open_browser(page.link()):
        print_error("no browser could be opened here; use the link.")
    loop = asyncio.get_running_loop()
    fd = sys.stdin.fileno() if interactive else -1

    def on_input() -> None:
        with contextlib.suppress(OSError):
            if os.read(fd, 1024):
                write(f"  {page.link()}\n")
                sys.stdout.flush()
                return
        loop.remove_reader(fd)

    if interactive:
        loop.add_reader(fd, on_input)
    try:
        await asyncio.Event().wait()
    finally:
        if interactive:
            loop.remove_reader(fd)
