"""A Linux driver that copes with lost, slow and suspended terminals, job control and invalid UTF-8."""

from __future__ import annotations

import asyncio
import os
import re
import select
import selectors
import signal
import socket
import sys
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, ClassVar, Final, TextIO, cast

from textual import events
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Size

from tui_agent.tui.guardian import TerminalGuardian
from tui_agent.tui.paste import PasteGuard

MAX_QUEUED: Final = 128_000
"""Characters that may be queued. A slower terminal is repainted once it has taken them."""

MAX_SWITCH_LENGTH: Final = 40
"""Maximum characters of a mode switch, which is written even while frames are dropped."""

MAX_SWITCHES: Final = 2_000
"""Maximum number of queued mode switches."""

CLIPBOARD: Final = "\x1b]52;"
"""Start of a clipboard write. It is never dropped, and replaces earlier ones."""

WRITE_BYTES: Final = 4_096
"""Bytes per write."""

DRAIN_TIMEOUT: Final = 1.0
"""Seconds that the terminal has to take the last output."""

NEVER_WRITTEN: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2060-\u206f\u2028\u2029\ufeff]")
"""DEL, C1 controls, and invisible characters that no text needs; a line keeps its width without them."""


HYPERLINK: Final = re.compile(r"\x1b\]8;[^\x1b\x07]*(?:\x1b\\|\x07)")
"""Beginning or end of a hyperlink (OSC 8)."""

WITHOUT_LINKS: Final = ("linux", "vt100", "vt220", "ansi")
"""Values of TERM of terminals that may print a hyperlink's target as text."""


class TerminalOutput:
    """Replaces Textual's writer thread; a write never blocks, however long the terminal is suspended."""

    def __init__(self, file: TextIO, *, on_lost: Callable[[], object]) -> None:
        """`on_lost` is called once, from the thread, when the terminal is gone."""
        self.on_caught_up: Callable[[], object] = lambda: None
        """Called from the thread when writes were dropped and the terminal takes data again."""
        self.dropped = 0
        """Number of dropped writes."""
        self.open = False
        """False while something else has the terminal; writes are dropped then."""
        self.timed_out = False
        """The terminal did not take the last output in time."""
        self._file = file
        self._on_lost = on_lost
        self._lost = False
        self._changed = threading.Condition()
        self._queue: list[str] = []
        self._queued = 0
        """Characters in the queue."""
        self._behind = False
        self._ending = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Accept writes from now on."""
        self.open = True

    def stop(self) -> None:
        """Accept no more writes, and wait until the terminal has taken the queue, or `DRAIN_TIMEOUT` is over."""
        self.open = False
        self.timed_out = not self.drain(DRAIN_TIMEOUT)

    def write(self, text: str) -> None:
        """Queue text without control characters that a terminal should not get.

        While the terminal is behind, only mode switches and clipboard writes are accepted.
        """
        text = text if text.isascii() else NEVER_WRITTEN.sub("", text)
        with self._changed:
            if not text or self._lost or not self.open:
                return
            if not self._behind and self._queue and self._queued + len(text) > MAX_QUEUED:
                self._behind = True
            if text.startswith(CLIPBOARD):
                self._queue = [queued for queued in self._queue if not queued.startswith(CLIPBOARD)]
                self._queued = sum(map(len, self._queue))
            elif self._behind and (len(text) > MAX_SWITCH_LENGTH or len(self._queue) > MAX_SWITCHES):
                self.dropped += 1
                return
            self._queue.append(text)
            self._queued += len(text)
            if self._thread is None:
                self._ending = False
                self._thread = threading.Thread(target=self._run, name="terminal-output", daemon=True)
                self._thread.start()
            self._changed.notify()

    def drain(self, seconds: float) -> bool:
        """Wait until everything is written and end the thread; return False if that takes too long."""
        with self._changed:
            thread, self._ending = self._thread, True
            self._changed.notify()
        if thread is not None:
            thread.join(seconds)
            return not thread.is_alive()
        return True

    def _run(self) -> None:
        handle = self._file.fileno()
        while (text := self._next()) is not None:
            data = memoryview(text.encode(self._file.encoding or "utf-8", "replace"))
            while data and not self._lost:
                try:
                    data = data[os.write(handle, data[:WRITE_BYTES]) :]
                except BlockingIOError:  # another program made it non-blocking
                    with suppress(OSError, ValueError):
                        select.select([], [handle], [], 1.0)
                except OSError:
                    self._lost = True
                    self._on_lost()

    def _next(self) -> str | None:
        """Return everything in the queue, or None at the end."""
        with self._changed:
            if not self._queue and self._behind:
                self._behind = False
                self.on_caught_up()
            while not self._queue and not self._ending:
                self._changed.wait()
            if not self._queue:
                self._thread = None
                return None
            text = "".join(self._queue)
            self._queue.clear()
            self._queued = 0
            return text


BACKGROUND_QUERY: Final = "\x1b]11;?\x1b\\"
BACKGROUND_ANSWER: Final = re.compile(
    r"\x1b?\]11;(?P<color>rgba?:[\dA-Fa-f/]{1,40}|#[\dA-Fa-f]{3,16})(?:\x1b\\|\x07|\x9c)"
)
"""An answer; its ESC may have been delivered before."""
PARTIAL_ANSWER: Final = re.compile(
    r"\x1b?\](?:1(?:1(?:;(?:r|rg|rgb|(?:rgba?:|#)[\dA-Fa-f/]{0,40}\x1b?)?)?)?)?\Z|\x1b\Z"
)
"""Beginning of an answer at the end of the input."""
KEY_SECONDS: Final = 0.05
"""Seconds after which the beginning of an answer that a key sends, too, is a key."""
LONE_ESCAPE_SECONDS: Final = 2.0
"""Seconds after the question in which a single ESC may be the beginning of the answer."""
LIGHT_FROM: Final = 0.5
"""Brightness, from 0 to 1, from which a background is light."""


def is_light(color: str) -> bool | None:
    """Return whether a color (`rgb:ffff/ffff/ffff` or `#ffffff`) is light; None if it is invalid."""
    if color.startswith("#"):
        size = (len(color) - 1) // 3
        parts = [color[1 + size * index : 1 + size * (index + 1)] for index in range(3)]
    else:
        parts = color.partition(":")[2].split("/")[:3]
    try:
        red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in parts)
    except ValueError:
        return None
    return bool(0.299 * red + 0.587 * green + 0.114 * blue >= LIGHT_FROM)


class BackgroundQuery:
    """The question for the background color (OSC 11) and its answer, which is kept out of what is typed.

    Used by the thread that reads the input. Nobody waits for the answer: it is used when it comes, and a terminal that
    does not know the question ignores it.
    """

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self.light: bool | None = None
        """Whether the background is light; None while unknown."""
        self._clock = clock
        self._asked_at: float | None = None
        self._held = ""
        """Input that may be the beginning of the answer."""
        self._held_at = 0.0

    @property
    def asked(self) -> bool:
        """Whether the question was sent."""
        return self._asked_at is not None

    @property
    def held(self) -> bool:
        """Whether what is held back may be a key, so that `release` is due soon."""
        return 0 < len(self._held) <= 2

    def ask(self) -> str:
        """Return the question for the terminal, once; the input is searched for the answer from now on."""
        self._asked_at = self._clock()
        return BACKGROUND_QUERY

    def strip(self, data: str) -> str:
        """Return input without the answer, or without what may become one."""
        if self._asked_at is None or self.light is not None:
            return data
        text, self._held = self._held + data, ""
        if match := BACKGROUND_ANSWER.search(text):
            self.light = is_light(match["color"])
            return text[: match.start()] + text[match.end() :]
        partial = PARTIAL_ANSWER.search(text)
        if partial is None or not self._may_hold(partial[0]):
            return text
        self._held, self._held_at = partial[0], self._clock()
        return text[: partial.start()]

    def _may_hold(self, text: str) -> bool:
        assert self._asked_at is not None
        if text[0] == "]" and len(text) < 4:  # as typed
            return False
        return text != "\x1b" or self._clock() - self._asked_at < LONE_ESCAPE_SECONDS

    def release(self) -> str:
        """Return held input that turned out to be a key, such as Esc; empty if there is none."""
        if not self.held or self._clock() - self._held_at < KEY_SECONDS:
            return ""
        text, self._held = self._held, ""
        return text


class WakingEvent(threading.Event):
    """An event whose `set` also wakes up a thread that waits for descriptors."""

    def __init__(self) -> None:
        super().__init__()
        self._writer: socket.socket | None = None

    @contextmanager
    def descriptor(self) -> Iterator[socket.socket]:
        """Return a socket that is readable once the event is set, for one thread, which then looks at the event."""
        reader, writer = socket.socketpair()
        with reader, writer:
            self._writer = writer
            try:
                yield reader
            finally:
                self._writer = None

    def set(self) -> None:
        """Set the event, and wake up the thread."""
        super().set()
        if (writer := self._writer) is not None:
            with suppress(OSError):  # the thread has just ended
                writer.send(b"\0")


PUSH_TITLE, POP_TITLE = "\x1b[22;2t", "\x1b[23;2t"
"""Save and restore the window's title in the terminal (xterm's ctlseqs)."""


class ScreenDriver(LinuxDriver):
    """Reads with `PasteGuard`; sends SIGHUP to the process when the terminal is gone."""

    _handed_over: ClassVar[tuple[PasteGuard, Callable[[bytes], str]] | None] = None
    """Parser and decoder of the previous app, which may have stopped in the middle of a paste."""
    guardian: ClassVar[TerminalGuardian | None] = None
    """Restores the terminal if the program is killed."""
    background: ClassVar[BackgroundQuery] = BackgroundQuery()
    """The terminal is asked once per process."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        self._suspended = False
        """True from SIGTSTP until the program is in the foreground again."""
        self.output = TerminalOutput(cast(TextIO, sys.__stderr__), on_lost=_hang_up)
        self.output.on_caught_up = self._repaint_soon
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self.exit_event = self._exits = WakingEvent()
        self._has_links = os.environ.get("TERM", "") not in WITHOUT_LINKS
        self._hands_over_input = False
        """Further keys are for the next app."""
        self._has_title = False
        """The window shows our title; the terminal has saved its own."""

    # --- output ---

    def write(self, data: str) -> None:
        """Write to the terminal, without hyperlinks if it is one that may print their targets."""
        if not self._has_links and "\x1b]8;" in data:
            data = HYPERLINK.sub("", data)
        super().write(data)

    @property
    def _writer_thread(self) -> Any:
        """Our output. Textual's thread, which it creates at every start, stays unused."""
        return self.output

    @_writer_thread.setter
    def _writer_thread(self, thread: object) -> None: ...

    def show_title(self, text: str) -> None:
        """Set the window's title to printable text; an empty one restores the original title."""
        if text:
            self.write(("" if self._has_title else PUSH_TITLE) + f"\x1b]2;{text}\a")
        elif self._has_title:
            self.write("\x1b]2;tui-agent\a" + POP_TITLE)  # some terminals can't restore titles
        self._has_title = bool(text)

    def stop_application_mode(self) -> None:
        """Also switch off modes that Textual forgets."""
        self.show_title("")
        if self._mouse_pixels:
            self.write("\x1b[?1016l")
        if _needs_modify_other_keys(os.environ):
            self.write("\x1b[>4m")
        super().stop_application_mode()

    def suspend_application_mode(self) -> None:
        """Also tell the guardian that the terminal is not ours."""
        super().suspend_application_mode()
        self._tell_guardian(False)

    def _tell_guardian(self, active: bool) -> None:
        if ScreenDriver.guardian is not None:
            ScreenDriver.guardian.tell(active)

    def _repaint_soon(self) -> None:
        """Repaint after dropped writes; called from the output thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._repaint)

    def _repaint(self) -> None:
        if self.output.open and self._app.is_running:
            self._app.screen.refresh(layout=True)

    # --- input ---

    async def hand_over_input(self) -> None:
        """Stop reading keys: they are for the next app."""
        self._hands_over_input = True
        self.exit_event.set()
        if self._key_thread is not None:
            await asyncio.to_thread(self._key_thread.join)

    def _disable_bracketed_paste(self) -> None:
        if not self._hands_over_input:  # text pasted between two apps is still a paste
            super()._disable_bracketed_paste()

    def disable_input(self) -> None:
        """Don't flush input that was typed for the next app."""
        if not self._hands_over_input:
            super().disable_input()
            return
        signal.signal(signal.SIGWINCH, signal.SIG_DFL)
        self._disable_mouse_support()
        if self._key_thread is not None:
            self._key_thread.join()

    def _run_input_thread(self) -> None:
        """Report errors of the thread to the app, without a traceback on the screen."""
        try:
            self.run_input_thread()
        except Exception as error:
            self._loop.call_soon_threadsafe(self._app._handle_exception, error)

    def run_input_thread(self) -> None:
        """Read until `exit_event` is set; end of input ends the program."""
        parser, decode = ScreenDriver._handed_over or (
            PasteGuard(self._debug),
            getincrementaldecoder("utf-8")("replace").decode,
        )
        ScreenDriver._handed_over, parser.mouse_pixels = None, False
        with selectors.DefaultSelector() as selector, self._exits.descriptor() as exits:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(exits, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(self._patience(parser)) and not self.exit_event.is_set():
                    data = _read(self.fileno)
                    if data == b"":
                        _hang_up()
                        return
                    text = self._without_answer(decode(data)) if data else ""
                    for message in parser.feed(text) if text else ():
                        self.process_message(message)
                if key := ScreenDriver.background.release():
                    for message in parser.feed(key):
                        self.process_message(message)
                for message in parser.tick():
                    self.process_message(message)
        if self._hands_over_input:
            ScreenDriver._handed_over = parser, decode

    @staticmethod
    def _patience(parser: PasteGuard) -> float | None:
        """Return the seconds until something is due without input; None if nothing is: an idle program sleeps."""
        held = ScreenDriver.background.held
        return parser.patience if parser.patience is not None or not held else KEY_SECONDS

    def _without_answer(self, text: str) -> str:
        """Return input without the terminal's answer about its background, which is reported."""
        query = ScreenDriver.background
        known = query.light
        text = query.strip(text)
        if query.light is not known:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._report_background)
        return text

    def _report_background(self) -> None:
        report, light = self._app_background(), ScreenDriver.background.light
        if report is not None and light is not None:
            report(light)

    def _app_background(self) -> Callable[[bool], object] | None:
        return getattr(self._app, "on_background", None)

    def _ask_background(self) -> None:
        """Ask for the background if the app wants to know it; the answer to an earlier app is reported at once."""
        if self._app_background() is None:
            return
        if not ScreenDriver.background.asked:
            self.write(ScreenDriver.background.ask())
        self._report_background()

    # --- size ---

    def start_application_mode(self) -> None:
        """Also install our SIGWINCH handler, and request Shift+Enter where that needs a mode."""
        self._tell_guardian(True)
        super().start_application_mode()  # type: ignore[no-untyped-call]  # Textual gives it no annotation
        signal.signal(signal.SIGWINCH, self._sigwinch)
        if _needs_modify_other_keys(os.environ):
            self.write("\x1b[>4;1m")
        self._ask_background()

    def _get_terminal_size(self) -> tuple[int, int]:
        """Ask the terminal: exported COLUMNS and LINES are wrong after a resize."""
        with suppress(OSError):
            size = os.get_terminal_size(self.fileno)
            if size.columns and size.lines:
                return size.columns, size.lines
        return super()._get_terminal_size()

    def _sigwinch(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._post_size)

    def _post_size(self) -> None:
        """Read the size in the loop: nested signal handlers would post an older size last."""
        if not self._in_band_window_resize:
            size = Size(*self._get_terminal_size())
            self._app.post_message(events.Resize(size, size))

    # --- job control ---

    def _sigtstp_application(self, *_: object) -> None:
        """Suspend in the loop: the signal may arrive in the middle of a write."""
        self._loop.call_soon_threadsafe(self._suspend)

    def _sigcont_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._resume)

    def _suspend(self) -> None:
        if self._auto_restart and self.output.open:
            self.suspend_application_mode()
            self._suspended = True
        os.kill(os.getpid(), signal.SIGSTOP)

    def _resume(self) -> None:
        """Set all modes again: after a SIGSTOP from outside, their state is unknown."""
        if not self._auto_restart or not (self.output.open or self._suspended):
            return  # an editor has the terminal, or nothing was shown yet
        if self.output.open:
            self.suspend_application_mode()
        self.resume_application_mode()
        self._suspended = not self.output.open  # still in the background, and stopped again
        if self._suspended:
            return
        self._app.app_resume_signal.publish(self._app)
        screen = self._app.screen
        self._app.call_later(screen.refresh, layout=True)


def _needs_modify_other_keys(environment: Mapping[str, str]) -> bool:
    """Return True for terminals that distinguish Shift+Enter only with xterm's modifyOtherKeys.

    The others support kitty's protocol, and some of them mistake this mode for a color.
    """
    return bool(environment.get("TMUX") or environment.get("XTERM_VERSION"))


def _read(handle: int) -> bytes | None:
    """Return the available bytes; empty if the terminal is gone, None if there are none yet."""
    try:
        return os.read(handle, 65536)
    except BlockingIOError:  # another program made it non-blocking
        return None
    except OSError:
        return b""


def _hang_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)
