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

from tui_agent import paths
from tui_agent.text import clean, one_line
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.door import SessionDoor
from tui_agent.tui.driver import ScreenDriver
from tui_agent.tui.hints import QUIT_ARMED
from tui_agent.tui.leaving import GO_ON, RESTART_AS_DEMO, GoOn
from tui_agent.tui.terminal import DEADLINE, Saved, die_by, log_failure, widen_control_tables
from tui_agent.tui.themes import early

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
CLOSING = 1.5
"""Seconds that the session has to close after a signal."""


def run_tui(
    open_session: Callable[[], Awaitable[SessionDoor]], *, draft: str = "", hint: str = "", folder: str = ""
) -> int | GoOn:
    """Open a session and show it until the user leaves. Returns the exit code: 0, 1 after a failure, 128 + n after
    signal n, RESTART_AS_DEMO when the user wants the demonstration instead; or the session that the user goes on in.
    The terminal is as before whatever happens, and the last line says how to resume. `draft` stands in the composer,
    `hint` above it. What is typed for a session that can't be opened goes to the history of `folder`."""
    app = TuiAgentApp(open_session, draft=draft, hint=hint)
    app.composer.folder = folder
    return _shown(app)


def run_picker(open_chosen: Callable[[str], Awaitable[SessionDoor]], here: str) -> int | GoOn:
    """The same, but the user first picks a session from the list of all, to be opened by its id. `here` is the folder
    that the user is in."""
    from tui_agent.tui.sessions import pick

    app: TuiAgentApp = TuiAgentApp(lambda: pick(app, open_chosen, here))
    app.composer.folder = here
    return _shown(app)


def _shown(app: TuiAgentApp) -> int | GoOn:
    _dress(app)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        print("tui-agent needs a terminal; for scripts there is: tui-agent exec", file=sys.stderr)
        return 2
    if os.environ.get("TERM") == "dumb":
        print(
            "This terminal (TERM=dumb) can't show a screen; for plain text there is: tui-agent repl",
            file=sys.stderr,
        )
        return 2
    code = show(app)
    return app.following if code == GO_ON and app.following is not None else code


def _dress(app: TuiAgentApp) -> None:
    """The colours of the settings before anything is painted."""
    with contextlib.suppress(paths.NoHome):  # the session tells
        if (theme := early(paths.config_file())).name != app.theme:
            app.theme = theme.name


def show(app: TuiAgentApp) -> int:
    """The same for an app that was built already."""
    widen_control_tables()
    saved = Saved()
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
            die_by(DEADLINE, 1, partial(saved.restore, modes=True))
            _abandon(app)
        for number in (*SIGNALS, signal.SIGINT, signal.SIGTSTP, signal.SIGCONT):
            signal.signal(number, signal.SIG_DFL)
        if left and code == GO_ON:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # until the screen that follows has it
        saved.restore(modes=not left)
        if isinstance(app._driver, ScreenDriver) and app._driver.stuck:
            die_by(
                DEADLINE, code if left else 1, partial(saved.restore, modes=True)
            )  # who writes now may wait long
        _say_goodbye(app)
    return code


async def _run(app: TuiAgentApp, saved: Saved) -> int:
    caught = _catch_signals(app, saved)
    try:
        code = await app.run_async()
    finally:
        app.composer.save_now()
        if app.session is not None:
            reason = (
                f"signal {signal.Signals(caught[0]).name}" if caught else "error" if app.failure else "user"
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(app.session.close(reason), CLOSING if caught else None)
    if caught:
        return 128 + caught[0]
    return code if code is not None else (app.return_code or 0)


def _catch_signals(app: TuiAgentApp, saved: Saved) -> list[int]:
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
            die_by(DEADLINE, 128 + number, partial(saved.restore, modes=True))
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


def _abandon(app: TuiAgentApp) -> None:
    """The event loop was torn down under the app: end the driver's threads, or they outlive us and write."""
    driver = app._driver
    if driver is not None:
        with contextlib.suppress(Exception):  # whatever state it is in
            driver.disable_input()
            driver.close()


def _say_goodbye(app: TuiAgentApp) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        if app.failure:
            print(clean(app.failure), file=sys.stderr)
        if app.composer.saved_words:
            print(app.composer.saved_words, file=sys.stderr)
        if app.session is not None and app.return_value not in (RESTART_AS_DEMO, GO_ON):
            print(f"Resume with: tui-agent --resume {one_line(app.session.id, 200)}", file=sys.stderr)
