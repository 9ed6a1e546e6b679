"""Lines from a person at a terminal or from a pipe, and plain text to them."""

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

HISTORY = "repl_history"
"""In the data folder."""
HISTORY_LINES = 1_000
LINE_MAX = 1 << 20
"""Bytes of a line."""
STILL = 0.4
"""Seconds without a key before a question takes one (A9)."""
_COLOURS = {"added": "32", "removed": "31", "dim": "2", "strong": "1", "warn": "33"}


class InputEnded(Exception):
    """There are no more lines: Ctrl+D, or the pipe's end."""


class LineTerminal:
    """Reads lines and knows whether somebody is there. `attended` is False in a pipe."""

    def __init__(self, home: Path) -> None:
        self.attended = sys.stdin.isatty() and sys.stdout.isatty()
        dumb = os.environ.get("TERM", "dumb") == "dumb"
        self._colour = self.attended and not dumb and not os.environ.get("NO_COLOR")
        self._history = home / HISTORY
        self._readline = _load_readline() if self.attended and not dumb else None
        self._draft = ""
        """What was typed before it was asked for."""
        if self._readline is not None:
            self._load_history()

    # --- out ---

    def say(self, text: str = "", style: str = "") -> None:
        """Write lines, which must be clean and masked."""
        sys.stdout.write(self.styled(text, style) + "\n")
        sys.stdout.flush()

    def styled(self, text: str, style: str) -> str:
        """`text` in a style, where colour is welcome."""
        if not (self._colour and style and text):
            return text
        return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m"

    # --- in ---

    def line(self, prompt: str, more: str = "") -> str:
        """A line for the agent, cleaned; one that ends with a backslash goes on in the next one. Raises InputEnded."""
        parts: list[str] = []
        while True:
            text = self._read(prompt if not parts else more)
            if not text.endswith("\\"):
                break
            parts.append(text[:-1])
        whole = clean("\n".join([*parts, text]))
        if not self.attended:
            return whole
        self._remember(whole)
        return whole

    def answer(self, prompt: str) -> str:
        """An answer to a question that was just shown, never what was typed before. Raises InputEnded."""
        self._drain_typed_ahead()
        return clean(self._ask(prompt)).strip()

    def edit(self, prompt: str, text: str) -> str:
        """`text` as the user changes it; an empty line leaves it where it can't be put into the line.

        Raises InputEnded.
        """
        flat = " ".join(text.split("\n"))
        self._drain_typed_ahead()
        draft, self._draft = self._draft, flat
        try:
            said = clean(self._read(prompt)).strip()
        finally:
            self._draft = draft
        return text if said in ("", flat) else said

    def offer(self, words: Sequence[str]) -> None:
        """Complete these words with Tab."""
        readline = self._readline
        if readline is None:
            return

        def found(text: str, number: int) -> str | None:
            fits = [word for word in words if text and word.startswith(text)]
            return fits[number] if number < len(fits) else None

        readline.set_completer_delims(" ")
        readline.set_completer(found)
        editline = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if editline else "tab: complete")

    def prefill(self, text: str) -> None:
        """Put text into the next line, to be changed or sent."""
        self._draft += text

    def _read(self, prompt: str) -> str:
        if not self.attended:
            return self._piped()
        draft, self._draft = self._draft, ""
        readline = self._readline
        if draft and readline is not None:
            readline.set_startup_hook(lambda: readline.insert_text(draft.replace("\n", " ")))
        try:
            return self._ask(prompt)
        finally:
            if draft and readline is not None:
                readline.set_startup_hook(None)

    @staticmethod
    def _piped() -> str:
        """The next line of a pipe. One that is too long is left out whole: its end is no message of its own."""
        while raw := sys.stdin.buffer.readline(LINE_MAX):
            if len(raw) < LINE_MAX or raw.endswith(b"\n"):
                return raw.decode("utf-8", "replace").rstrip("\r\n")
            while (rest := sys.stdin.buffer.readline(LINE_MAX)) and not rest.endswith(b"\n"):
                pass
            told = f"error: A line of more than {LINE_MAX:,} bytes is too long. Put it in a file and mention that.\n"
            sys.stdout.write(told)
        raise InputEnded

    @staticmethod
    def _ask(prompt: str) -> str:
        try:
            return input(prompt)
        except EOFError:
            raise InputEnded from None
        except UnicodeDecodeError:
            return ""
        except SystemError as error:
            # Python says so where one signal meets another in readline: what the first one raised is the cause.
            if error.__cause__ is None:
                raise
            raise error.__cause__ from None

    def _drain_typed_ahead(self) -> None:
        """Keys that were pressed before a question stood there are not meant for it: they go to the next line."""
        while taken := _typed_ahead(sys.stdin.fileno(), STILL):
            self._draft += taken

    # --- history ---

    def _load_history(self) -> None:
        assert self._readline is not None
        self._readline.set_auto_history(False)
        with contextlib.suppress(OSError):
            for one in self._history.read_text("utf-8", "replace").splitlines()[-HISTORY_LINES:]:
                if one.strip():
                    self._readline.add_history(clean(one))

    def _remember(self, line: str) -> None:
        if self._readline is None or not line.strip() or line.startswith(" "):
            return
        line = line.replace("\n", " ").rstrip()
        count = self._readline.get_current_history_length()
        if not count or self._readline.get_history_item(count) != line:
            self._readline.add_history(line)

    def keep_history(self) -> None:
        """Write it to the data folder, for the user alone. What fails is no loss."""
        if self._readline is None:
            return
        from tui_agent.platform.file_faults import FileFault
        from tui_agent.platform.files import atomic_write

        count = self._readline.get_current_history_length()
        first = max(1, count - HISTORY_LINES + 1)
        lines = [self._readline.get_history_item(number) or "" for number in range(first, count + 1)]
        with contextlib.suppress(OSError, FileFault):
            atomic_write(self._history, "".join(f"{one}\n" for one in lines).encode("utf-8", "replace"))


def _load_readline() -> Any:
    """The module, where there is one."""
    try:
        import readline
    except ImportError:
        return None
    return readline


def _typed_ahead(fd: int, seconds: float) -> str:
    """What is typed within `seconds`, unfinished lines too; empty when that is nothing."""
    import termios

    try:
        before = termios.tcgetattr(fd)
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
        termios.tcsetattr(fd, termios.TCSANOW, before)


ENDING = (signal.SIGTERM, signal.SIGHUP)
NUDGE = signal.SIGURG
"""Does nothing by itself, in any program."""
PAUSES = (0.05, 0.2, 1.0)
"""Seconds from one nudge to the next: the wait may begin late on a busy machine."""
_WAITS = frozenset((LineTerminal._ask.__code__, LineTerminal._read.__code__, LineTerminal._piped.__code__))


class Hangup(Exception):
    """A signal ends the program. `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class LineSignals:
    """What signals do in line mode. Made on the main thread, which gets a `Hangup` from those that end the program."""

    def __init__(self) -> None:
        self._number = 0
        self._wakeup_fd, end = os.pipe()
        for one in (self._wakeup_fd, end):
            os.set_blocking(one, False)
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                signal.signal(number, self._hang_up)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(NUDGE, self._raise_again)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)

    async def wake(self) -> NoReturn:
        """Interrupt the main thread's wait after each signal; for a thread beside it, until it is cancelled."""
        loop, there = asyncio.get_running_loop(), asyncio.Event()

        def noted() -> None:
            if not {*ENDING, signal.SIGINT}.isdisjoint(os.read(self._wakeup_fd, 4096)):
                there.set()

        loop.add_reader(self._wakeup_fd, noted)
        try:
            while True:
                await there.wait()
                there.clear()
                for pause in PAUSES:
                    await asyncio.sleep(pause)
                    signal.pthread_kill(threading.main_thread().ident or 0, NUDGE)
        finally:
            loop.remove_reader(self._wakeup_fd)

    def _hang_up(self, number: int, _: FrameType | None) -> NoReturn:
        self._number = number
        raise Hangup(number)

    def _raise_again(self, _: int, frame: FrameType | None) -> None:
        """It still waits for a line: what was raised was dropped."""
        if self._number and frame is not None and frame.f_code in _WAITS:
            raise Hangup(self._number)
