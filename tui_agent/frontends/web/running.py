"""A session of its own, served as long as somebody wants its page (X4, X5)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from tui_agent.frontends.web import browsing
from tui_agent.frontends.web.addresses import PORT, CannotServe, listen
from tui_agent.text import clean

if TYPE_CHECKING:
    from tui_agent.engine.wishes import Wishes
    from tui_agent.frontends.web.serving import Serving

    Beside = Callable[[Serving], Awaitable[None]]


class Inviting(Protocol):
    """A page that is served."""

    @property
    def address(self) -> str:
        """As a browser is to call it."""
        ...

    def link(self) -> str:
        """An address that lets one browser in, once."""
        ...


USAGE = 2
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(wished: Wishes, beside: Beside, *, host: str = "127.0.0.1", port: int = PORT) -> int:
    """Open a session and serve its page as long as `beside` goes on; returns the exit code."""
    try:
        listener = listen(host, port)
    except CannotServe as error:
        sys.stderr.write(f"tui-agent: {clean(str(error))}\n")
        return USAGE
    return asyncio.run(_serve(wished, beside, listener))


async def _serve(wished: Wishes, beside: Beside, listener: socket.socket) -> int:
    from tui_agent.engine.opening import open_session
    from tui_agent.engine.wishes import CannotOpen
    from tui_agent.frontends.web.serving import Serving

    try:
        session = await open_session(wished)
    except CannotOpen as error:
        listener.close()
        sys.stderr.write(f"tui-agent: {clean(str(error))}\n")
        return error.code
    session.tell_saving(_tell_saving)
    serving = Serving(session, listener)
    signals = Signals()
    failed: BaseException | None = None
    try:
        await serving.start()
        going: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(beside(serving)),
            asyncio.ensure_future(serving.ended()),
            signals.task(),
        ]
        await asyncio.wait(going, return_when="FIRST_COMPLETED")
        for task in going:
            task.cancel()
        results = await asyncio.gather(*going, return_exceptions=True)
        failed = next((one for one in results if isinstance(one, Exception)), None)
        if failed is not None:
            sys.stderr.write(f"tui-agent: {clean(str(failed))}\n")
    finally:
        await session.close(signals.reason)
        await serving.stop()
    sys.stdout.write(f"Resume with: tui-agent --resume {clean(session.id)}\n")
    return 1 if failed is not None else signals.code


class Signals:
    """The first one ends all in order; a second one does not wait for that."""

    def __init__(self) -> None:
        self._came = 0
        self._event = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                loop.add_signal_handler(number, self._take, number)

    def _take(self, number: int) -> None:
        if self._came:
            os._exit(128 + number)
        self._came = number
        self._event.set()

    def task(self) -> asyncio.Future[bool]:
        """Done when one came."""
        return asyncio.ensure_future(self._event.wait())

    @property
    def code(self) -> int:
        """Ctrl+C is how one leaves."""
        return 0 if self._came in (0, signal.SIGINT) else 128 + self._came

    @property
    def reason(self) -> str:
        """Why the session is closed."""
        return f"signal {signal.Signals(self._came).name}" if self._came else "user"


async def invite(serving: Inviting, open_it: bool) -> None:
    """Show a link, and another one whenever Enter is pressed."""
    write = sys.stdout.write
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    write(f"tui-agent is at {serving.address}\n\n  {serving.link()}\n\n")
    write("The link lets one browser of yours in, once. ")
    write("Enter shows another one, Ctrl+C ends.\n" if interactive else "Ctrl+C ends.\n")
    sys.stdout.flush()
    if open_it and not browsing.show(serving.link()):
        sys.stderr.write("tui-agent: no browser could be opened here; take the link.\n")
    if interactive:
        loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()

        def pressed() -> None:
            with contextlib.suppress(OSError):
                if os.read(fd, 1024):
                    write(f"  {serving.link()}\n")
                    sys.stdout.flush()
                    return
            loop.remove_reader(fd)

        loop.add_reader(fd, pressed)
    try:
        await asyncio.Event().wait()
    finally:
        if interactive:
            loop.remove_reader(fd)


def _tell_saving(failure: str | None) -> None:
    sys.stderr.write(f"tui-agent: {clean(failure) if failure else 'saving works again.'}\n")
