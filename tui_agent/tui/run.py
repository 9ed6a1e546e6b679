"""Runs the app: signals, closing the session, messages after the screen is gone."""

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
from tui_agent.platform.debug_log import keep_off_screen
from tui_agent.platform.pipes import print_error
from tui_agent.text import clean, one_line
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.base_app import QUIT_ARMED
from tui_agent.tui.driver import ScreenDriver
from tui_agent.tui.exit_codes import CONTINUE, RESTART_AS_DEMO, ContinueIn
from tui_agent.tui.guardian import TerminalGuardian
from tui_agent.tui.terminal import (
    DEADLINE,
    RESET,
    SavedTerminal,
    exit_after,
    log_failure,
    share_one_arena,
    widen_control_tables,
)
from tui_agent.tui.themes import startup_name
from widgets.textual_private import driver_of

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
CLOSE_TIMEOUT = 1.5
"""Seconds that the session has to close after a signal."""


def run_tui(
    open_session: Callable[[], Awaitable[SessionApi]],
    *,
    draft: str = "",
    hint: str = "",
    folder: str = "",
    resumable: bool = True,
) -> int | ContinueIn:
    """Open a session and show it until the user quits.

    Returns the exit code: 0, 1 after an error, 128 + n after signal n, or RESTART_AS_DEMO; or the session to continue
    in. Always restores the terminal, and prints how to resume, if the session is `resumable`. The composer starts with
    `draft`, and `hint` above it. If the session can't be opened, typed text goes to the history of `folder`.
    """
    app = TuiAgentApp(open_session, draft=draft, hint=hint)
    app.composer.folder = folder
    app.resumable = resumable
    return _run_in_terminal(app)


def run_picker(open_chosen: Callable[[str], Awaitable[SessionApi]], here: str, draft: str = "") -> int | ContinueIn:
    """Let the user pick a session, then open it by its id and show it, with `draft` typed. `here` is the current
    folder."""
    from tui_agent.tui.session_browser import pick_session

    app: TuiAgentApp = TuiAgentApp(lambda: pick_session(app, open_chosen, here), draft=draft)
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
    """Apply the theme of the settings before the first paint."""
    with contextlib.suppress(paths.HomeNotFoundError):  # reported when the session opens
        app.preferences.start_with(startup_name(paths.config_file()))


def run_app(app: TuiAgentApp) -> int:
    """Run an app in the terminal and return its exit code, as `run_tui` does."""
    keep_off_screen()
    share_one_arena()
    widen_control_tables()
    saved = SavedTerminal()
    guardian = ScreenDriver.guardian = TerminalGuardian(sys.__stdin__.fileno() if sys.__stdin__ else 0, RESET)
    threading.excepthook = lambda args: log_failure(args.exc_value) if args.exc_value else None
    app.driver_class = ScreenDriver
    finished = False
    try:
        code = asyncio.run(_run(app, saved))
        finished = True
    except Exception as error:  # raised outside of the message loop
        app.failure = log_failure(error)
        code = 1
    finally:
        if not finished:
            exit_after(DEADLINE, 1, partial(saved.restore, modes=True))
            _stop_driver(app)
        for number in (*SIGNALS, signal.SIGINT, signal.SIGTSTP, signal.SIGCONT):
            signal.signal(number, signal.SIG_DFL)
        if finished and code == CONTINUE:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # until the next screen handles it
        saved.restore(modes=not finished)
        guardian.close()
        if isinstance(driver := driver_of(app), ScreenDriver) and driver.output.timed_out:
            exit_after(DEADLINE, code if finished else 1, partial(saved.restore, modes=True))
        _print_exit_messages(app)
    return code


async def _run(app: TuiAgentApp, saved: SavedTerminal) -> int:
    received = _catch_signals(app, saved)
    try:
        code = await app.run_async()
    finally:
        app.composer.save_now()
        if app.session is not None:
            reason = f"signal {signal.Signals(received[0]).name}" if received else "error" if app.failure else "user"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(app.session.close(reason), CLOSE_TIMEOUT if received else None)
    if received:
        return 128 + received[0]
    code = code if code is not None else (app.return_code or 0)
    return 1 if code == 0 and app.session is not None and app.session.unsaved else code


def _catch_signals(app: TuiAgentApp, saved: SavedTerminal) -> list[int]:
    """Make signals end the app, within `DEADLINE`. The returned list gets the signal that ends it.

    The deadline starts in the signal handler, as the event loop may hang in a write to a blocked terminal.
    """
    received: list[int] = []
    loop = asyncio.get_running_loop()
    interrupted_at = float("-inf")

    def call_in_loop(function: Callable[..., object], *args: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the program ends anyway
            loop.call_soon_threadsafe(function, *args)

    def on_signal(number: int, _frame: object = None) -> None:
        if not received:
            received.append(number)
            exit_after(DEADLINE, 128 + number, partial(saved.restore, modes=True))
            call_in_loop(app.exit, 128 + number)

    def on_interrupt(number: int, _frame: object = None) -> None:
        nonlocal interrupted_at
        is_second = monotonic() - interrupted_at <= QUIT_ARMED
        if app.view.busy and app.session is not None and not is_second:
            interrupted_at = monotonic()
            call_in_loop(app.interrupt)
        else:
            on_signal(number)

    for number in SIGNALS:
        signal.signal(number, on_signal)
    signal.signal(signal.SIGINT, on_interrupt)
    return received


def _stop_driver(app: TuiAgentApp) -> None:
    """End the driver's threads after the event loop broke, or they keep writing to the terminal."""
    driver = driver_of(app)
    if driver is not None:
        with contextlib.suppress(Exception):  # in any state
            driver.disable_input()
            driver.close()


def _print_exit_messages(app: TuiAgentApp) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        if app.failure:
            print(clean(app.failure), file=sys.stderr)
        if app.composer.exit_message:
            print(app.composer.exit_message, file=sys.stderr)
        if app.session is not None and app.session.unsaved:
            print_error(str(app.session.unsaved))
        continues = app.return_value in (RESTART_AS_DEMO, CONTINUE)
        if app.session is not None and app.resumable and not continues and app.session.can_be_resumed():
            print(f"Resume with: tui-agent --resume {one_line(app.session.id, 200)}", file=sys.stderr)
