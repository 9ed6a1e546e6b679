"""The output of a command: bounded in memory, shortened for the model, and streamed to the screen (T2)."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from tui_agent.common.domain import FrozenValue
from tui_agent.platform.encoding import describe_binary
from tui_agent.text import Cleaner, clean

HEAD = 256 * 1024
TAIL = 1024 * 1024
HEAD_LINES = 15
TAIL_LINES = 85
LINE_WIDTHS = (2000, 1000, 500, 200)
"""Characters per line; the first that keeps the text within MAX_TEXT is used."""
MAX_TEXT = 30_000


class OutputView(FrozenValue, frozen=True, kw_only=True):
    """Output for the model."""

    text: str
    note: str = ""
    """Set if the output is binary and therefore not shown."""
    is_cut: bool = False
    """Whether something was left out."""


class RingBuffer:
    """The first `head` and the last `tail` bytes of a stream, and the size of all of it."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._head_size, self._tail_size = head, tail
        self.head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0
        self._newlines = 0
        self._has_partial_line = False

    def add(self, data: bytes) -> None:
        """Add bytes; the cost depends only on their number."""
        self.total_bytes += len(data)
        self._newlines += data.count(b"\n")
        self._has_partial_line = not data.endswith(b"\n")
        room = self._head_size - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: -self._tail_size]

    @property
    def total_lines(self) -> int:
        """Number of lines, including a last one without a newline."""
        return self._newlines + (1 if self.total_bytes and self._has_partial_line else 0)

    @property
    def tail(self) -> bytes:
        """What follows `head`: everything, or the last bytes if there is a gap."""
        return bytes(self._tail[-self._tail_size :]) if self._tail_size else b""

    @property
    def gap(self) -> int:
        """Number of discarded bytes between head and tail."""
        return self.total_bytes - len(self.head) - min(len(self._tail), self._tail_size)


def is_binary(sample: bytes) -> bool:
    """Return whether the bytes contain many undecodable or control characters."""
    if not sample:
        return False
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(sample)
    odd = sum(1 for c in text if c == "\ufffd" or (c < " " and c not in "\n\r\t\b\f\x1b\0"))
    # Single NULs may separate names, as in the output of `find -print0`.
    doubled = sample.count(b"\0\0")
    return (odd + 4 * doubled) * 10 > len(text) or sample.count(b"\0") * 3 > len(sample)


def settle_output(line: str) -> str:
    """Return what a terminal finally shows of a line: the last state of a progress bar."""
    if "\r" not in line:
        return line
    return next((part for part in reversed(line.split("\r")) if part.strip()), "")


def present(rings: RingBuffer, lines: tuple[int, int] = (HEAD_LINES, TAIL_LINES)) -> OutputView:
    """Return the output for the model: its first and last `lines`, and how many are left out (T2).

    Takes some ten milliseconds for large output, which should be done in a thread.
    """
    head, tail = bytes(rings.head), rings.tail
    max_first, max_last = lines
    if is_binary(head[:8192]):
        note = (
            f"The output is binary ({describe_binary(head, 'output')}, {rings.total_bytes:,} bytes) and is not shown."
        )
        return OutputView(text="", note=note, is_cut=True)
    if rings.gap == 0:
        all_lines = _lines(head + tail)
        omitted = len(all_lines) - max_first - max_last
        if omitted <= 0:
            return _fit(all_lines, [], "")
        return _fit(all_lines[:max_first], all_lines[-max_last:], _omission(omitted, rings))
    first, last = _lines(head), _lines(tail.lstrip(bytes(range(0x80, 0xC0))))
    tail_line = rings.total_lines - len(last)
    first, last = first[:max_first], last[-max_last:]
    omitted = max(0, max(tail_line, rings.total_lines - len(last)) - len(first))
    marker = _omission(omitted, rings) if omitted else f"[… {rings.gap:,} bytes left out …]"
    return _fit(first, last, marker)


def _omission(lines: int, rings: RingBuffer) -> str:
    return f"[… {lines:,} of {rings.total_lines:,} lines left out …]"


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\0", "\n")
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines


def _fit(first: list[str], last: list[str], marker: str) -> OutputView:
    settled = [settle_output(line) for line in (*first, *last)]
    # Cut before cleaning, to limit the cost of very long lines.
    cleaned = [clean(line[: 8 * LINE_WIDTHS[0]]) for line in settled]
    fitting = (cap for cap in LINE_WIDTHS if sum(min(len(line), cap) + 1 for line in cleaned) <= MAX_TEXT)
    cap = next(fitting, LINE_WIDTHS[-1])
    lines = [
        line if len(line) <= cap else f"{line[:cap]} [… {max(len(whole), len(line)) - cap:,} more characters]"
        for line, whole in zip(cleaned, settled, strict=True)
    ]
    if marker:
        lines.insert(len(first), marker)
    return OutputView(text="\n".join(lines), is_cut=bool(marker) or any(len(line) > cap for line in cleaned))


MAX_FILE = 128 * 1024 * 1024
"""Bytes of the file with the full output."""
FLUSH_INTERVAL = 0.5
"""Seconds after which pending output is written to the file with the next read, so that the file can be followed."""
LIVE_BATCH = 16 * 1024
"""Bytes of one live update; of more, the end is shown."""
LIVE_FAST = 256 * 1024
"""Bytes after which live updates are rare and short, as each of them is journaled."""
LIVE_SLOW_BATCH = 2 * 1024

OnOutput = Callable[[str], None]
"""Receives live text on the event loop; must be fast."""


class LiveOutput:
    """Converts incoming bytes to text for the screen: decoded, clean, bounded, only the last state of progress bars.

    `add` is called with every read and is cheap; `take` returns what may be shown now.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._skipped = 0
        self._shown = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cleaner = Cleaner(colors=True)
        self._pending_text = ""
        self._is_binary: bool | None = None

    @property
    def interval(self) -> float:
        """Seconds until the next `take` is due."""
        return 0.05 if self._shown < LIVE_FAST else 1.0

    def add(self, data: bytes) -> None:
        """Add bytes; only the end of a large amount is kept."""
        cap = LIVE_BATCH if self._shown < LIVE_FAST else LIVE_SLOW_BATCH
        self._pending += data
        if len(self._pending) > cap:
            self._skipped += len(self._pending) - cap
            del self._pending[:-cap]

    def take(self, *, last: bool = False) -> str:
        """Return the text since the last call; with `last` also an incomplete end."""
        data, skipped = bytes(self._pending), self._skipped
        self._pending.clear()
        self._skipped = 0
        self._shown += len(data)
        if self._is_binary is None and data:
            self._is_binary = is_binary(data[:8192])
            if self._is_binary:
                return f"[{describe_binary(data, 'output')}, not shown]\n"
        if self._is_binary:
            return ""
        if skipped:
            end = data.find(b"\n") + 1
            data = data[end:] if 0 < end < len(data) else data
            self._decoder.reset()
            self._cleaner = Cleaner(colors=True)
            self._pending_text = ""
        text = self._pending_text + self._decoder.decode(data, last)
        self._pending_text = ""
        if not last and text.endswith("\r"):
            text, self._pending_text = text[:-1], "\r"
        text = "\n".join(settle_output(line) for line in text.replace("\r\n", "\n").split("\n"))
        text = self._cleaner.feed(text) + (self._cleaner.flush() if last else "")
        return f"\n[… {skipped:,} bytes not shown live …]\n{text}" if skipped else text


class OverflowFile:
    """The file with the full output, up to a limit."""

    def __init__(self, path: Path, cap: int = MAX_FILE) -> None:
        self.path = path
        self._room = cap
        self._pending: list[bytes] = []
        self._last_flush = monotonic()
        self._has_failed = False

    def add(self, data: bytes) -> None:
        """Add bytes for the next `flush`; those beyond the limit are dropped."""
        if self._room > 0 and not self._has_failed:
            self._pending.append(data[: self._room])
            self._room -= len(data)

    @property
    def due(self) -> bool:
        """Whether enough bytes are pending to write them."""
        is_late = bool(self._pending) and monotonic() - self._last_flush > FLUSH_INTERVAL
        return is_late or len(self._pending) >= 8

    def flush(self) -> bool:
        """Write pending bytes; False if the file can't be written. Blocks: call it in a thread."""
        pending, self._pending = self._pending, []
        self._last_flush = monotonic()
        if self._has_failed or not pending:
            return not self._has_failed
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "ab") as file:
                file.writelines(pending)
        except OSError:
            self._has_failed = True
        return not self._has_failed


class Capture:
    """Collects the output of a command in bounded memory. Used on the event loop."""

    def __init__(
        self,
        on_output: OnOutput | None = None,
        spill: Path | None = None,
        rings: RingBuffer | None = None,
        lines: tuple[int, int] = (HEAD_LINES, TAIL_LINES),
    ) -> None:
        """`spill`: file for the full output, created only if it is shortened. `lines`: first and last for the model."""
        self.rings = rings or RingBuffer()
        self._lines = lines
        self._on_output = on_output
        self._live = LiveOutput()
        self._spill = OverflowFile(spill) if spill else None
        self._spilling = False
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        """Add bytes."""
        self.rings.add(data)
        if self._spill and (self._spilling or self.rings.total_bytes > HEAD):
            if not self._spilling:
                self._spilling = True
                data = bytes(self.rings.head) + self.rings.tail
            self._spill.add(data)
        if self._on_output:
            self._live.add(data)
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(self._live.interval, self._show)

    def _show(self, last: bool = False) -> None:
        self._timer = None
        if self._on_output and (text := self._live.take(last=last)):
            self._on_output(text)

    def mute(self) -> None:
        """Stop live output (W12)."""
        self._on_output = None
        if self._timer:
            self._timer.cancel()

    @property
    def needs_flush(self) -> bool:
        """Whether reading should wait for `flush`."""
        return self._spill is not None and self._spill.due

    async def flush(self) -> None:
        """Write pending bytes to the file."""
        if self._spill:
            await asyncio.to_thread(self._spill.flush)

    async def finish(self) -> tuple[OutputView, Path | None]:
        """Complete live output and file; return the output for the model, and the file if there is one."""
        if self._timer:
            self._timer.cancel()
        self._show(last=True)
        if self.rings.total_bytes > 16 * 1024:
            presented = await asyncio.to_thread(present, self.rings, self._lines)
        else:
            presented = present(self.rings, self._lines)
        if not self._spill or not presented.is_cut:
            return presented, None
        if not self._spilling:
            self._spill.add(bytes(self.rings.head) + self.rings.tail)
        written = await asyncio.to_thread(self._spill.flush)
        return presented, self._spill.path if written else None
