"""Textual's Linux driver, made to survive: a lost or stopped terminal, job control, bytes that are no text."""

from __future__ import annotations

import asyncio
import os
import re
import selectors
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, cast

from textual import events
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size

from tui_agent.tui.output import TerminalOutput
from tui_agent.tui.paste import PasteGuard

NEVER_WRITTEN = re.compile("[\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2028\u2029\ufeff]")
"""DEL, C1, what turns the direction of text, what has no width: nothing that a screen is painted with (R-30, R-31).

All of them take no cell, so a line keeps its width without them.
"""

PUSH_TITLE, POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""The terminal keeps the window's title, and takes it back (xterm's ctlseqs)."""

PATIENCE = 1.0
"""Seconds that a terminal has to take the last of what is written."""


class ScreenDriver(LinuxDriver):
    """Reads with `PasteGuard`; ends the program as a hang-up would when the terminal is gone."""

    _left: ClassVar[tuple[PasteGuard, Callable[[bytes], str]] | None] = None
    """How far the screen before this one had read when it left the keys to it: it may be in the middle of a paste."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        self._stopped = False
        """True from a stop (SIGTSTP) until the program is in the foreground again."""
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._held = False
        """Keys are left to the screen that follows."""
        self.stuck = False
        """The terminal did not take all before the end."""
        self._titled = False
        """The window has a title of ours; its own one is kept by the terminal."""
        self._output: TerminalOutput | None = None
        if sys.__stderr__ is not None:
            self._output = TerminalOutput(sys.__stderr__, lost=_hang_up)
            self._output.caught_up = self._paint_again
            self._file = cast(Any, self._output)

    # --- what is written ---

    def write(self, data: str) -> None:
        """Write to the terminal, unless it is somebody else's: we are stopped, or have lent it."""
        if not self._stopped and self._writer_thread is not None:
            super().write(data if data.isascii() else NEVER_WRITTEN.sub("", data))

    def show_title(self, text: str) -> None:
        """Give the window this title, which is printable; without one it gets its own back (R28.1)."""
        if text:
            self.write(("" if self._titled else PUSH_TITLE) + f"\x1b]2;{text}\a")
        elif self._titled:
            self.write("\x1b]2;tui-agent\a" + POP_TITLE)  # the first for terminals that keep no titles
        self._titled = bool(text)

    def stop_application_mode(self) -> None:
        """Also out of the modes that Textual switches on and forgets."""
        self.show_title("")
        if self._mouse_pixels:
            self.write("\x1b[?1016l")
        if _tells_other_keys(os.environ):
            self.write("\x1b[>4m")
        super().stop_application_mode()

    def close(self) -> None:
        """What was written is on its way, as far as the terminal takes it, before anybody else writes."""
        super().close()
        self.stuck = self._output is not None and not self._output.drain(PATIENCE)

    def _paint_again(self) -> None:
        """The terminal missed something; from another thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._paint_all)

    def _paint_all(self) -> None:
        if not self._stopped and self._writer_thread is not None and self._app.is_running:
            self._app.screen.refresh(layout=True)

    # --- what is read ---

    async def hold(self) -> None:
        """Read no more keys: what is typed from now on is for the screen that follows (R11.2)."""
        self._held = True
        self.exit_event.set()
        if self._key_thread is not None:
            await asyncio.to_thread(self._key_thread.join)

    def _disable_bracketed_paste(self) -> None:
        if not self._held:  # what is pasted between two screens is a paste
            super()._disable_bracketed_paste()

    def disable_input(self) -> None:
        """Nothing is thrown away that was typed for the screen that follows."""
        if not self._held:
            super().disable_input()
            return
        signal.signal(signal.SIGWINCH, signal.SIG_DFL)
        self._disable_mouse_support()
        if self._key_thread is not None:
            self._key_thread.join()

    def _run_input_thread(self) -> None:
        """A failure ends the app in order, without a traceback on the screen."""
        try:
            self.run_input_thread()
        except Exception as error:
            self._loop.call_soon_threadsafe(self._app._handle_exception, error)

    def run_input_thread(self) -> None:
        """Read until told to stop. The end of the input is the end of the program (R14.3)."""
        parser, decode = ScreenDriver._left or (
            PasteGuard(self._debug),
            getincrementaldecoder("utf-8")("replace").decode,
        )
        ScreenDriver._left, parser.mouse_pixels = None, False
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(parser.patience) and not self.exit_event.is_set():
                    data = _read(self.fileno)
                    if data == b"":
                        _hang_up()
                        return
                    for message in parser.feed(decode(data)) if data else ():
                        self.process_message(message)
                for message in parser.tick():
                    self.process_message(message)
        if self._held:
            ScreenDriver._left = parser, decode

    # --- the size ---

    def start_application_mode(self) -> None:
        """With a way of our own to learn of another size."""
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual gives it no annotation
        signal.signal(signal.SIGWINCH, self._sigwinch)
        if _tells_other_keys(os.environ):
            self.write("\x1b[>4;1m")

    def _get_terminal_size(self) -> tuple[int, int]:
        """Of the terminal itself: COLUMNS and LINES may be exported, and are not true any more after a change."""
        with suppress(OSError):
            size = os.get_terminal_size(self.fileno)
            if size.columns and size.lines:
                return size.columns, size.lines
        return super()._get_terminal_size()

    def _sigwinch(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._tell_size)

    def _tell_size(self) -> None:
        """Read in the loop, after the signal: one handler can interrupt another, and then the older size came last."""
        if not self._in_band_window_resize:
            size = Size(*self._get_terminal_size())
            self._app.post_message(events.Resize(size, size))

    # --- job control ---

    def _sigtstp_application(self, *_: object) -> None:
        """Stop once the loop is between two things: a signal comes also in the middle of a write."""
        self._loop.call_soon_threadsafe(self._stop)

    def _sigcont_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._go_on)

    def _stop(self) -> None:
        if self._auto_restart and not self._stopped and self._writer_thread is not None:
            self.suspend_application_mode()
            self._stopped = True
        os.kill(os.getpid(), signal.SIGSTOP)

    def _go_on(self) -> None:
        """In the foreground again; who was stopped from outside (SIGSTOP) can't know what became of the modes."""
        if not self._auto_restart or self._writer_thread is None:
            return  # the terminal is lent to an editor, or nothing was ever shown
        if not self._stopped:
            self.suspend_application_mode()
        before = self._writer_thread
        self._stopped = False
        self.resume_application_mode()
        if self._writer_thread is before:  # in the background still, and stopped once more
            self._stopped = True
            return
        self._app.app_resume_signal.publish(self._app)
        screen = self._app.screen
        self._app.call_later(screen.refresh, layout=True)


def _tells_other_keys(environment: Mapping[str, str]) -> bool:
    """True where Shift+Enter is told from Enter only when asked for by xterm's modifyOtherKeys (R20.1). Elsewhere
    kitty's protocol does that, and some terminals would take this one for a colour."""
    return bool(environment.get("TMUX") or environment.get("XTERM_VERSION"))


def _read(handle: int) -> bytes | None:
    """What is there to read; nothing when the terminal is gone, None when there is nothing after all."""
    try:
        return os.read(handle, 65536)
    except BlockingIOError:  # another program made it so
        return None
    except OSError:
        return b""


def _hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)
