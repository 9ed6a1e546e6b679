"""Runs the screen: signals, the end of the session, the words at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic

from tui_agent.common import paths
from tui_agent.engine.api import SessionApi
from tui_agent.text import clean, one_line
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.base_app import QUIT_ARMED
from tui_agent.tui.driver import ScreenDriver
from tui_agent.tui.exit_codes import CONTINUE, RESTART_AS_DEMO, ContinueIn
from tui_agent.tui.terminal import DEADLINE, SavedTerminal, exit_after, log_failure, widen_control_tables
from tui_agent.tui.themes import startup_theme
from widgets.textual_private import driver_of

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
CLOSING = 1.5
"""Seconds that the session has to close after a signal."""


def run_tui(
    open_session: Callable[[], Awaitable[SessionApi]], *, draft: str = "", hint: str = "", folder: str = ""
) -> int | ContinueIn:
    """Open a session and show it until the user leaves. Returns the exit code: 0, 1 after a failure, 128 + n after
    signal n, RESTART_AS_DEMO when the user wants the demonstration instead; or the session that the user goes on in.
    The terminal is as before whatever happens, and the last line says how to resume. `draft` stands in the composer,
    `hint` above it. What is typed for a session that can't be opened goes to the history of `folder`."""
    app = TuiAgentApp(open_session, draft=draft, hint=hint)
    app.composer.folder = folder
    return _run_in_terminal(app)


def run_picker(open_chosen: Callable[[str], Awaitable[SessionApi]], here: str) -> int | ContinueIn:
    """The same, but the user first picks a session from the list of all, to be opened by its id. `here` is the folder
    that the user is in."""
    from tui_agent.tui.session_browser import pick_session

    app: TuiAgentApp = TuiAgentApp(lambda: pick_session(app, open_chosen, here))
    app.composer.folder = here
    return _run_in_terminal(app)


def _run_in_terminal(app: TuiAgentApp) -> int | ContinueIn:
    _apply_startup_theme(app)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        print("tui-agent needs a terminal; in scripts use: tui-agent exec", file=sys.stderr)
        return 2
    if os.environ.get("TERM") == "dumb":
        print("This terminal (TERM=dumb) can't show a full screen; for plain text use: tui-agent repl", file=sys.stderr)
        return 2
    code = run_app(app)
    return app.next_session if code == CONTINUE and app.next_session is not None else code


def _apply_startup_theme(app: TuiAgentApp) -> None:
    """The theme of the settings, before anything is painted."""
    with contextlib.suppress(paths.NoHome):  # the session reports it
        if (theme := startup_theme(paths.config_file())).name != app.theme:
            app.theme = theme.name


def run_app(app: TuiAgentApp) -> int:
    """The same for an app that was built already."""
    widen_control_tables()
    saved = SavedTerminal()
    threading.excepthook = lambda args: log_failure(args.exc_value) if args.exc_value else None
    app.driver_class = ScreenDriver
    left = False
    try:
        code = asyncio.run(_run(app, saved))
        left = True
    except Exception as error:  # such as one from the app's own last steps
        app.failure = log_failure(error)
        code = 1
    finally:
        if not left:
            exit_after(DEADLINE, 1, partial(saved.restore, modes=True))
            _stop_driver(app)
        for number in (*SIGNALS, signal.SIGINT, signal.SIGTSTP, signal.SIGCONT):
            signal.signal(number, signal.SIG_DFL)
        if left and code == CONTINUE:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # until the screen that follows has it
        saved.restore(modes=not left)
        if isinstance(driver := driver_of(app), ScreenDriver) and driver.output.timed_out:
            exit_after(DEADLINE, code if left else 1, partial(saved.restore, modes=True))
        _print_exit_messages(app)
    return code


async def _run(app: TuiAgentApp, saved: SavedTerminal) -> int:
    caught = _catch_signals(app, saved)
    try:
        code = await app.run_async()
    finally:
        app.composer.save_now()
        if app.session is not None:
            reason = f"signal {signal.Signals(caught[0]).name}" if caught else "error" if app.failure else "user"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(app.session.close(reason), CLOSING if caught else None)
    if caught:
        return 128 + caught[0]
    return code if code is not None else (app.return_code or 0)


def _catch_signals(app: TuiAgentApp, saved: SavedTerminal) -> list[int]:
    """Let signals end the screen in order, and in any case in time. The list fills with what came.

    The deadline begins in the signal handler itself: the event loop may hang, also in a write to a terminal that
    takes nothing.
    """
    caught: list[int] = []
    loop = asyncio.get_running_loop()
    interrupted = float("-inf")

    def on_signal(number: int, _frame: object = None) -> None:
        if not caught:
            caught.append(number)
            exit_after(DEADLINE, 128 + number, partial(saved.restore, modes=True))
            loop.call_soon_threadsafe(app.exit, 128 + number)

    def on_interrupt(number: int, _frame: object = None) -> None:
        nonlocal interrupted
        again = monotonic() - interrupted <= QUIT_ARMED
        if app.view.busy and app.session is not None and not again:
            interrupted = monotonic()
            loop.call_soon_threadsafe(app.action_interrupt)
        else:
            on_signal(number)

    for number in SIGNALS:
        signal.signal(number, on_signal)
    signal.signal(signal.SIGINT, on_interrupt)
    return caught


def _stop_driver(app: TuiAgentApp) -> None:
    """The event loop was torn down under the app: end the driver's threads, or they outlive us and write."""
    driver = driver_of(app)
    if driver is not None:
        with contextlib.suppress(Exception):  # whatever state it is in
            driver.disable_input()
            driver.close()


def _print_exit_messages(app: TuiAgentApp) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        if app.failure:
            print(clean(app.failure), file=sys.stderr)
        if app.composer.exit_message:
            print(app.composer.exit_message, file=sys.stderr)
        if app.session is not None and app.return_value not in (RESTART_AS_DEMO, CONTINUE):
            print(f"Resume with: tui-agent --resume {one_line(app.session.id, 200)}", file=sys.stderr)
