"""Runs the screen: signals, the end of the session, the words at the end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial

from tui_agent.text import clean, one_line
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.door import SessionDoor
from tui_agent.tui.terminal import DEADLINE, Saved, die_by, log_failure, widen_control_tables

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
CLOSING = 1.5
"""Seconds that the session has to close after a signal."""


def run_tui(open_session: Callable[[], Awaitable[SessionDoor]]) -> int:
    """Open a session and show it until the user leaves. Returns the exit code: 0, 1 after a failure, 128 + n after
    signal n. The terminal is as before whatever happens, and the last line says how to resume."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        print("tui-agent needs a terminal; for scripts there is: tui-agent exec", file=sys.stderr)
        return 2
    widen_control_tables()
    saved = Saved()
    threading.excepthook = lambda args: log_failure(args.exc_value) if args.exc_value else None
    app = TuiAgentApp(open_session)
    left = False
    try:
        code = asyncio.run(_run(app, saved))
        left = True
    finally:
        saved.restore(modes=not left)
        _say_goodbye(app)
    return code


async def _run(app: TuiAgentApp, saved: Saved) -> int:
    caught = _catch_signals(app, saved)
    try:
        code = await app.run_async()
    finally:
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
    """Let signals end the screen in order, and in any case in time. The list fills with what came."""
    caught: list[int] = []
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if caught:
            return
        caught.append(number)
        die_by(DEADLINE, 128 + number, partial(saved.restore, modes=True))
        app.exit(128 + number)

    def on_interrupt() -> None:
        if app.view.busy and app.session is not None:
            app.action_interrupt()
        else:
            on_signal(signal.SIGINT)

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    return caught


def _say_goodbye(app: TuiAgentApp) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        if app.failure:
            print(clean(app.failure), file=sys.stderr)
        if app.session is not None:
            print(f"Resume with: tui-agent --resume {one_line(app.session.id, 200)}", file=sys.stderr)
