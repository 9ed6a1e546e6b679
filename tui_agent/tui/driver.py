"""Textual's Linux driver, made robust: a lost, slow or stopped terminal, job control, bytes that are not text."""

from __future__ import annotations

import asyncio
import os
import re
import select
import selectors
import signal
import sys
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, TextIO, cast

from textual import events
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size

from tui_agent.tui.paste import PasteGuard

BEHIND: Final = 128_000
"""Most characters that wait. A terminal that is slower gets a fresh picture once it has taken them."""

SHORT: Final = 40
"""Most characters of a mode switch: those are written even while pictures are left out."""

SWITCHES: Final = 2_000
"""So many of those wait at most."""

CLIPBOARD: Final = "\x1b]52;"
"""Start of a clipboard write, which is never left out. The last one counts."""

WRITE_BYTES: Final = 4_096
"""Bytes that are written at once."""


PATIENCE: Final = 1.0
"""Seconds that a terminal has to take the last of what is written."""

NEVER_WRITTEN: Final = re.compile("[\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2028\u2029\ufeff]")
"""DEL, C1, what turns the direction of text, what has no width: nothing that a screen is painted with.

All of them take no cell, so a line keeps its width without them.
"""


class TerminalOutput:
    """In the place of Textual's writer thread: whoever has something to show continues at once, however long the
    terminal is stopped."""

    def __init__(self, file: TextIO, *, lost: Callable[[], object]) -> None:
        """`lost` is called once, from the thread, when the terminal is gone."""
        self.on_caught_up: Callable[[], object] = lambda: None
        """Called from the thread when something was left out and the terminal takes data again."""
        self.dropped = 0
        """Writes that were left out so far."""
        self.open = False
        """The terminal is ours; what is written while it isn't is dropped."""
        self.timed_out = False
        """The terminal did not take all before the end."""
        self._file = file
        self._lost = lost
        self._gone = False
        self._more = threading.Condition()
        self._waiting: list[str] = []
        self._size = 0
        self._behind = False
        self._ending = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """From now on what is written reaches the terminal."""
        self.open = True

    def stop(self) -> None:
        """What was written is on its way, as far as the terminal takes it, before anybody else writes."""
        self.open = False
        self.timed_out = not self.drain(PATIENCE)

    def write(self, text: str) -> None:
        """Queue a text without what no terminal should get. While the terminal is behind, only mode switches and
        clipboard writes are accepted."""
        text = text if text.isascii() else NEVER_WRITTEN.sub("", text)
        with self._more:
            if not text or self._gone or not self.open:
                return
            if not self._behind and self._waiting and self._size + len(text) > BEHIND:
                self._behind = True
            if text.startswith(CLIPBOARD):
                self._waiting = [one for one in self._waiting if not one.startswith(CLIPBOARD)]
                self._size = sum(map(len, self._waiting))
            elif self._behind and (len(text) > SHORT or len(self._waiting) > SWITCHES):
                self.dropped += 1
                return
            self._waiting.append(text)
            self._size += len(text)
            if self._thread is None:
                self._ending = False
                self._thread = threading.Thread(target=self._run, name="terminal-output", daemon=True)
                self._thread.start()
            self._more.notify()

    def drain(self, seconds: float) -> bool:
        """Wait until all is written, and let the thread go; False when the terminal did not take it in time."""
        with self._more:
            thread, self._ending = self._thread, True
            self._more.notify()
        if thread is not None:
            thread.join(seconds)
            return not thread.is_alive()
        return True

    def _run(self) -> None:
        handle = self._file.fileno()
        while (text := self._next()) is not None:
            left = memoryview(text.encode(self._file.encoding or "utf-8", "replace"))
            while left and not self._gone:
                try:
                    left = left[os.write(handle, left[:WRITE_BYTES]) :]
                except BlockingIOError:  # another program made it so
                    with suppress(OSError, ValueError):
                        select.select([], [handle], [], 1.0)
                except OSError:
                    self._gone = True
                    self._lost()

    def _next(self) -> str | None:
        """All that waits; None at the end."""
        with self._more:
            if not self._waiting and self._behind:
                self._behind = False
                self.on_caught_up()
            while not self._waiting and not self._ending:
                self._more.wait()
            if not self._waiting:
                self._thread = None
                return None
            text = "".join(self._waiting)
            self._waiting.clear()
            self._size = 0
            return text


PUSH_TITLE, POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""Save and restore the window's title in the terminal (xterm's ctlseqs)."""


class ScreenDriver(LinuxDriver):
    """Reads with `PasteGuard`; ends the program as a hang-up would when the terminal is gone."""

    _left: ClassVar[tuple[PasteGuard, Callable[[bytes], str]] | None] = None
    """How far the screen before this one had read when it left the keys to it: it may be in the middle of a paste."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        self._stopped = False
        """True from a stop (SIGTSTP) until the program is in the foreground again."""
        self.output = TerminalOutput(cast(TextIO, sys.__stderr__), lost=_hang_up)
        self.output.on_caught_up = self._paint_again
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._held = False
        """Keys are left to the screen that follows."""
        self._titled = False
        """The window shows our title; the terminal has saved its own."""

    # --- what is written ---

    @property
    def _writer_thread(self) -> Any:
        """Ours; Textual's own, which is made with every start, stays unused."""
        return self.output

    @_writer_thread.setter
    def _writer_thread(self, made: object) -> None: ...

    def show_title(self, text: str) -> None:
        """Give the window this title, which is printable; without one it gets its own back."""
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

    def _paint_again(self) -> None:
        """The terminal missed something; from another thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._paint_all)

    def _paint_all(self) -> None:
        if self.output.open and self._app.is_running:
            self._app.screen.refresh(layout=True)

    # --- what is read ---

    async def hold(self) -> None:
        """Read no more keys: what is typed from now on is for the screen that follows."""
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
        """Read until `exit_event` is set. The end of the input ends the program."""
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
        if self._auto_restart and self.output.open:
            self.suspend_application_mode()
            self._stopped = True
        os.kill(os.getpid(), signal.SIGSTOP)

    def _go_on(self) -> None:
        """In the foreground again; who was stopped from outside (SIGSTOP) can't know what became of the modes."""
        if not self._auto_restart or not (self.output.open or self._stopped):
            return  # an editor has the terminal, or nothing was ever shown
        if self.output.open:
            self.suspend_application_mode()
        self.resume_application_mode()
        self._stopped = not self.output.open  # in the background still, and stopped once more
        if self._stopped:
            return
        self._app.app_resume_signal.publish(self._app)
        screen = self._app.screen
        self._app.call_later(screen.refresh, layout=True)


def _tells_other_keys(environment: Mapping[str, str]) -> bool:
    """True where only xterm's modifyOtherKeys distinguishes Shift+Enter from Enter. Elsewhere
    kitty's protocol does that, and some terminals would take this one for a color."""
    return bool(environment.get("TMUX") or environment.get("XTERM_VERSION"))


def _read(handle: int) -> bytes | None:
    """The available bytes; empty when the terminal is gone, None when there is nothing to read."""
    try:
        return os.read(handle, 65536)
    except BlockingIOError:  # another program made it so
        return None
    except OSError:
        return b""


def _hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)
