"""Signals that come at the very moment before the main thread begins to wait are noticed all the same.

Python notes a signal and acts on it between two of its own instructions. One that comes after the last of them and
before the system waits for a key is acted on with the next line only; what is raised inside of readline's own calls,
such as completion, is dropped there. So the engine's thread interrupts the wait once more, a moment later.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from types import FrameType
from typing import NoReturn

from tui_agent.frontends.line_mode.terminal import Terminal

ENDING = (signal.SIGTERM, signal.SIGHUP)
NUDGE = signal.SIGURG
"""Does nothing by itself, in any program."""
PAUSES = (0.05, 0.2, 1.0)
"""Seconds from one nudge to the next: the wait may begin late on a busy machine."""
_WAITS = frozenset((Terminal._ask.__code__, Terminal._read.__code__, Terminal._piped.__code__))


class Hangup(Exception):
    """A signal ends the program. `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """What signals do in line mode. Made on the main thread, which gets a `Hangup` from those that end the program."""

    def __init__(self) -> None:
        self._gone = 0
        self._noted, end = os.pipe()
        for one in (self._noted, end):
            os.set_blocking(one, False)
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                signal.signal(number, self._hang_up)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(NUDGE, self._look_again)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)

    async def wake(self) -> NoReturn:
        """Interrupt the main thread's wait after each signal; for a thread beside it, until it is cancelled."""
        loop, there = asyncio.get_running_loop(), asyncio.Event()

        def noted() -> None:
            if not {*ENDING, signal.SIGINT}.isdisjoint(os.read(self._noted, 4096)):
                there.set()

        loop.add_reader(self._noted, noted)
        try:
            while True:
                await there.wait()
                there.clear()
                for pause in PAUSES:
                    await asyncio.sleep(pause)
                    signal.pthread_kill(threading.main_thread().ident or 0, NUDGE)
        finally:
            loop.remove_reader(self._noted)

    def _hang_up(self, number: int, _: FrameType | None) -> NoReturn:
        self._gone = number
        raise Hangup(number)

    def _look_again(self, _: int, frame: FrameType | None) -> None:
        """It still waits for a line: what was raised was dropped."""
        if self._gone and frame is not None and frame.f_code in _WAITS:
            raise Hangup(self._gone)
