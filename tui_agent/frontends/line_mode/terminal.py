"""Line input from a terminal or a pipe, plain text output, and signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from tui_agent.text import clean

HISTORY_FILE = "repl_history"
"""In the data folder."""
HISTORY_LINES = 1_000
LINE_MAX = 1 << 20
"""Size limit of a line in bytes."""
QUIET_SECONDS = 0.4
"""Seconds without a keypress before a question accepts an answer (A9)."""
_COLORS = {"added": "32", "removed": "31", "dim": "2", "strong": "1", "warn": "33"}


class InputEnded(Exception):
    """End of input: Ctrl+D, or the end of the pipe."""


class LineTerminal:
    """Reads and writes lines. `attended` tells whether a user is at a terminal, as opposed to a pipe."""

    def __init__(self, data_dir: Path) -> None:
        self.attended = sys.stdin.isatty() and sys.stdout.isatty()
        dumb = os.environ.get("TERM", "dumb") == "dumb"
        self._has_color = self.attended and not dumb and not os.environ.get("NO_COLOR")
        self._history = data_dir / HISTORY_FILE
        self._readline = _load_readline() if self.attended and not dumb else None
        self._draft = ""
        """Text for the next input line, such as what was typed too early."""
        if self._readline is not None:
            self._load_history()

    # --- output ---

    def print(self, text: str = "", style: str = "") -> None:
        """Write lines, which must be clean and masked."""
        if self._has_color and style and text:
            text = f"\x1b[{_COLORS[style]}m{text}\x1b[0m"
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    # --- input ---

    def read_message(self, prompt: str, continuation: str = "") -> str:
        """Read a cleaned message; a backslash at the end continues it on the next line. Raises InputEnded."""
        lines = [self._read(prompt)]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(self._read(continuation))
        message = clean("\n".join(lines))
        self._add_to_history(message)
        return message

    def read_answer(self, prompt: str) -> str:
        """Read the answer to a question, ignoring what was typed before it was shown. Raises InputEnded."""
        self._save_typeahead()
        return clean(self._input(prompt)).strip()

    def edit(self, prompt: str, text: str) -> str:
        """Let the user edit `text`, in one line; an empty line keeps it. Raises InputEnded."""
        initial = text.replace("\n", " ")
        self._save_typeahead()
        draft, self._draft = self._draft, initial
        try:
            edited = clean(self._read(prompt)).strip()
        finally:
            self._draft = draft
        return text if edited in ("", initial) else edited

    def set_completions(self, words: Sequence[str]) -> None:
        """Complete these words with Tab."""
        readline = self._readline
        if readline is None:
            return

        def complete(text: str, state: int) -> str | None:
            matches = [word for word in words if text and word.startswith(text)]
            return matches[state] if state < len(matches) else None

        readline.set_completer_delims(" ")
        readline.set_completer(complete)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")

    def prefill(self, text: str) -> None:
        """Insert text into the next input line."""
        self._draft += text

    def _read(self, prompt: str) -> str:
        if not self.attended:
            return self._read_pipe()
        draft, self._draft = self._draft, ""
        readline = self._readline
        if draft and readline is not None:
            readline.set_startup_hook(lambda: readline.insert_text(draft.replace("\n", " ")))
        try:
            return self._input(prompt)
        finally:
            if draft and readline is not None:
                readline.set_startup_hook(None)

    @staticmethod
    def _read_pipe() -> str:
        """The next line of a pipe; one that is too long is skipped with an error message."""
        while raw := sys.stdin.buffer.readline(LINE_MAX):
            if len(raw) < LINE_MAX or raw.endswith(b"\n"):
                return raw.decode("utf-8", "replace").rstrip("\r\n")
            while (rest := sys.stdin.buffer.readline(LINE_MAX)) and not rest.endswith(b"\n"):
                pass
            limit = f"A line of more than {LINE_MAX:,} bytes is too long."
            sys.stdout.write(f"error: {limit} Put it in a file and mention that.\n")
        raise InputEnded

    @staticmethod
    def _input(prompt: str) -> str:
        try:
            return input(prompt)
        except EOFError:
            raise InputEnded from None
        except UnicodeDecodeError:
            return ""
        except SystemError as error:
            # raised if two signals interrupt readline; the exception of the first one is the cause
            if error.__cause__ is None:
                raise
            raise error.__cause__ from None

    def _save_typeahead(self) -> None:
        """Move what was typed before a question was shown to the draft."""
        while typed := _read_typeahead(sys.stdin.fileno(), QUIET_SECONDS):
            self._draft += typed

    # --- history ---

    def _load_history(self) -> None:
        assert self._readline is not None
        self._readline.set_auto_history(False)
        with contextlib.suppress(OSError):
            for line in self._history.read_text("utf-8", "replace").splitlines()[-HISTORY_LINES:]:
                if line.strip():
                    self._readline.add_history(clean(line))

    def _add_to_history(self, line: str) -> None:
        if self._readline is None or not line.strip() or line.startswith(" "):
            return
        line = line.replace("\n", " ").rstrip()
        count = self._readline.get_current_history_length()
        if not count or self._readline.get_history_item(count) != line:
            self._readline.add_history(line)

    def save_history(self) -> None:
        """Write the history to the data folder, ignoring errors."""
        if self._readline is None:
            return
        from tui_agent.platform.file_faults import FileFault
        from tui_agent.platform.files import atomic_write

        count = self._readline.get_current_history_length()
        first = max(1, count - HISTORY_LINES + 1)
        lines = [self._readline.get_history_item(number) or "" for number in range(first, count + 1)]
        with contextlib.suppress(OSError, FileFault):
            atomic_write(self._history, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))


def _load_readline() -> Any:
    """The readline module, or None."""
    try:
        import readline
    except ImportError:
        return None
    return readline


def _read_typeahead(fd: int, seconds: float) -> str:
    """What is typed within `seconds`, including unfinished lines; "" if nothing is."""
    import termios

    try:
        attributes = termios.tcgetattr(fd)
    except termios.error:
        return ""
    raw = termios.tcgetattr(fd)
    raw[3] &= ~(termios.ICANON | termios.ECHO)
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 0, 0
    termios.tcsetattr(fd, termios.TCSANOW, raw)
    try:
        if not select.select([fd], [], [], seconds)[0]:
            return ""
        return clean(os.read(fd, LINE_MAX).decode("utf-8", "replace")).replace("\r", "\n")
    finally:
        termios.tcsetattr(fd, termios.TCSANOW, attributes)


TERMINATING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
WAKE_SIGNAL = signal.SIGURG
"""Ignored by default in every program."""
WAKE_DELAYS = (0.05, 0.2, 1.0)
"""Seconds between wake signals: on a busy machine the main thread may start waiting late."""
_READING_CODE = frozenset((
    LineTerminal._input.__code__,
    LineTerminal._read.__code__,
    LineTerminal._read_pipe.__code__,
))  # fmt: skip


class Hangup(Exception):
    """A signal terminates the program; `number` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class LineSignals:
    """Signal handling of line mode: terminating signals raise `Hangup` in the main thread, where this is created."""

    def __init__(self) -> None:
        self._number = 0
        self._wakeup_fd, write_fd = os.pipe()
        for fd in (self._wakeup_fd, write_fd):
            os.set_blocking(fd, False)
        for number in TERMINATING_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                signal.signal(number, self._hang_up)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(WAKE_SIGNAL, self._raise_again)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)

    async def wake_main_thread(self) -> NoReturn:
        """Interrupt blocking calls of the main thread after each signal; runs in another thread until cancelled."""
        loop, received = asyncio.get_running_loop(), asyncio.Event()

        def on_signal() -> None:
            if not {*TERMINATING_SIGNALS, signal.SIGINT}.isdisjoint(os.read(self._wakeup_fd, 4096)):
                received.set()

        loop.add_reader(self._wakeup_fd, on_signal)
        try:
            while True:
                await received.wait()
                received.clear()
                for delay in WAKE_DELAYS:
                    await asyncio.sleep(delay)
                    signal.pthread_kill(threading.main_thread().ident or 0, WAKE_SIGNAL)
        finally:
            loop.remove_reader(self._wakeup_fd)

    def _hang_up(self, number: int, _: FrameType | None) -> NoReturn:
        self._number = number
        raise Hangup(number)

    def _raise_again(self, _: int, frame: FrameType | None) -> None:
        """Raise Hangup again if the main thread still reads a line, since readline dropped the exception."""
        if self._number and frame is not None and frame.f_code in _READING_CODE:
            raise Hangup(self._number)
