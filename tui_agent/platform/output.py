"""What a command wrote: kept in two rings of fixed size, and cut for the model (T2)."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from tui_agent.common.domain import FrozenValue
from tui_agent.text import Cleaner, clean

HEAD = 256 * 1024
TAIL = 1024 * 1024
HEAD_LINES = 15
TAIL_LINES = 85
LINE_CAPS = (2000, 1000, 500, 200)
"""Characters a line; the first that brings the whole under TEXT_CAP is taken."""
TEXT_CAP = 30_000

_MAGIC = (
    (b"\x89PNG\r\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"\x7fELF", "ELF program"),
    (b"\x1f\x8b", "gzip data"),
    (b"PK\x03\x04", "zip archive"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"SQLite format 3", "SQLite database"),
)


class OutputView(FrozenValue, frozen=True, kw_only=True):
    """Output as the model gets it."""

    text: str
    note: str = ""
    """Set when the output is binary and therefore not shown."""
    cut: bool = False
    """True when something was left out."""


class RingBuffer:
    """The first `head` and the last `tail` bytes of a stream, with counts of all of it."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._head_cap, self._tail_cap = head, tail
        self.head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0
        self._newlines = 0
        self._open_line = False

    def add(self, data: bytes) -> None:
        """Take in more. Costs as much as `data` is long, whatever came before."""
        self.total_bytes += len(data)
        self._newlines += data.count(b"\n")
        self._open_line = not data.endswith(b"\n")
        room = self._head_cap - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._tail_cap:
            del self._tail[: -self._tail_cap]

    @property
    def total_lines(self) -> int:
        """Lines, a last one without its newline included."""
        return self._newlines + (1 if self.total_bytes and self._open_line else 0)

    @property
    def tail(self) -> bytes:
        """What follows `head`: all of it, or the last bytes when there is a gap."""
        return bytes(self._tail[-self._tail_cap :]) if self._tail_cap else b""

    @property
    def gap(self) -> int:
        """Bytes between head and tail that are gone."""
        return self.total_bytes - len(self.head) - min(len(self._tail), self._tail_cap)


def is_binary(sample: bytes) -> bool:
    """True for bytes that no reader would take for text: many undecodable or control characters."""
    if not sample:
        return False
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(sample)
    odd = sum(1 for c in text if c == "\ufffd" or (c < " " and c not in "\n\r\t\b\f\x1b\0"))
    # NUL separates names in the output of `find -print0`; alone and between text it is no sign.
    doubled = sample.count(b"\0\0")
    return (odd + 4 * doubled) * 10 > len(text) or sample.count(b"\0") * 3 > len(sample)


def output_kind(sample: bytes) -> str:
    """What the bytes look like, in words."""
    return next((name for magic, name in _MAGIC if sample.startswith(magic)), "binary data")


def settle_output(line: str) -> str:
    """What a terminal would show of a line in the end: a progress bar's last state."""
    if "\r" not in line:
        return line
    return next((part for part in reversed(line.split("\r")) if part.strip()), "")


def present(rings: RingBuffer, lines: tuple[int, int] = (HEAD_LINES, TAIL_LINES)) -> OutputView:
    """The output for the model: so many lines of its head and of its tail, and how many are left out (T2).

    Takes some ten milliseconds for full rings: call it in a thread when there is much.
    """
    head, tail = bytes(rings.head), rings.tail
    most_first, most_last = lines
    if is_binary(head[:8192]):
        note = f"The output is binary ({output_kind(head)}, {rings.total_bytes:,} bytes) and is not shown."
        return OutputView(text="", note=note, cut=True)
    if rings.gap == 0:
        whole = _lines(head + tail)
        left = len(whole) - most_first - most_last
        if left <= 0:
            return _fit(whole, [], "")
        return _fit(whole[:most_first], whole[-most_last:], _left_out(left, rings))
    first, last = _lines(head), _lines(tail.lstrip(bytes(range(0x80, 0xC0))))
    begin = rings.total_lines - len(last)
    """Number of the line in which the tail begins."""
    first, last = first[:most_first], last[-most_last:]
    left = max(0, max(begin, rings.total_lines - len(last)) - len(first))
    marker = _left_out(left, rings) if left else f"[… {rings.gap:,} bytes left out …]"
    return _fit(first, last, marker)


def _left_out(lines: int, rings: RingBuffer) -> str:
    return f"[… {lines:,} of {rings.total_lines:,} lines left out …]"


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\0", "\n")
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines


def _fit(first: list[str], last: list[str], marker: str) -> OutputView:
    # A line is cut before it is cleaned, so that a line of a megabyte costs no more than a long one.
    cleaned = [[clean(settle_output(line)[: 8 * LINE_CAPS[0]]) for line in part] for part in (first, last)]
    sizes = [[len(settle_output(line)) for line in part] for part in (first, last)]
    cap = next((cap for cap in LINE_CAPS if _size(cleaned, cap) <= TEXT_CAP), LINE_CAPS[-1])
    cut = bool(marker)
    parts: list[str] = []
    for number, part in enumerate(cleaned):
        if number and marker:
            parts.append(marker)
        for line, size in zip(part, sizes[number], strict=True):
            long = len(line) > cap
            cut |= long
            hidden = max(size, len(line)) - cap
            parts.append(f"{line[:cap]} [… {hidden:,} more characters]" if long else line)
    return OutputView(text="\n".join(parts), cut=cut)


def _size(parts: list[list[str]], cap: int) -> int:
    return sum(min(len(line), cap) + 1 for part in parts for line in part)


SPILL = 128 * 1024 * 1024
"""Bytes kept in the file with the full output."""
SPILL_LATE = 0.5
"""Seconds after which what waits for the file is written with the next read, so that the file can be followed."""
LIVE_BATCH = 16 * 1024
"""Bytes that one live update may carry; of more, the end is shown."""
LIVE_FREE = 256 * 1024
"""Bytes after which live updates come seldom and short, since every one of them is journaled."""
LIVE_SLOW_BATCH = 2 * 1024

OnOutput = Callable[[str], None]
"""Gets live text on the event loop; must be cheap."""


class KeptOutput(NamedTuple):
    """How much of an output is kept, and where."""

    file: Path | None = None
    """For the full output; made only when the output is cut."""
    lines: tuple[int, int] = (HEAD_LINES, TAIL_LINES)
    """First and last lines that the model gets."""


NOT_KEPT = KeptOutput()
"""Nowhere; the model gets as much as it does where nothing else is said."""


class Live:
    """Turns bytes as they come into text for the screen: decoded, clean, progress bars settled, bounded.

    `add` is called with every read and does next to nothing; `take` gives what may be shown now.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._skipped = 0
        self._shown = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cleaner = Cleaner(colors=True)
        self._held = ""
        self._binary: bool | None = None

    @property
    def waiting(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._pending)

    @property
    def interval(self) -> float:
        """Seconds until the next `take` is due."""
        return 0.05 if self._shown < LIVE_FREE else 1.0

    def add(self, data: bytes) -> None:
        """Remember the end of what came."""
        cap = LIVE_BATCH if self._shown < LIVE_FREE else LIVE_SLOW_BATCH
        self._pending += data
        if len(self._pending) > cap:
            self._skipped += len(self._pending) - cap
            del self._pending[:-cap]

    def take(self, *, last: bool = False) -> str:
        """The text since the last call; `last` gives what was held back, too."""
        data, skipped = bytes(self._pending), self._skipped
        self._pending.clear()
        self._skipped = 0
        self._shown += len(data)
        if self._binary is None and data:
            self._binary = is_binary(data[:8192])
            if self._binary:
                return f"[{output_kind(data)}, not shown]\n"
        if self._binary:
            return ""
        if skipped:
            end = data.find(b"\n") + 1
            data = data[end:] if 0 < end < len(data) else data
            self._decoder.reset()
            self._cleaner = Cleaner(colors=True)
            self._held = ""
        text = self._held + self._decoder.decode(data, last)
        self._held = ""
        if not last and text.endswith("\r"):
            text, self._held = text[:-1], "\r"
        text = "\n".join(settle_output(line) for line in text.replace("\r\n", "\n").split("\n"))
        text = self._cleaner.feed(text) + (self._cleaner.flush() if last else "")
        return f"\n[… {skipped:,} bytes not shown live …]\n{text}" if skipped else text


class OverflowFile:
    """The full output in a file, written once the rings can't hold it, up to a cap."""

    def __init__(self, path: Path, cap: int = SPILL) -> None:
        self.path = path
        self._room = cap
        self._waiting: list[bytes] = []
        self._written = monotonic()
        self._broken = False

    def add(self, data: bytes) -> None:
        """Put bytes aside for `flush`; beyond the cap they are dropped."""
        if self._room > 0 and not self._broken:
            self._waiting.append(data[: self._room])
            self._room -= len(data)

    @property
    def due(self) -> bool:
        """Whether enough waits to be worth a write."""
        late = bool(self._waiting) and monotonic() - self._written > SPILL_LATE
        return late or len(self._waiting) >= 8

    def flush(self) -> bool:
        """Write what waits (blocking: call it in a thread). False when the file can't be written."""
        waiting, self._waiting = self._waiting, []
        self._written = monotonic()
        if self._broken or not waiting:
            return not self._broken
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "ab") as file:
                file.writelines(waiting)
        except OSError:
            self._broken = True
        return not self._broken


class Capture:
    """Where a command's bytes go. Used on the event loop; memory is bounded whatever comes."""

    def __init__(
        self,
        on_output: OnOutput | None = None,
        spill: Path | None = None,
        rings: RingBuffer | None = None,
        lines: tuple[int, int] = (HEAD_LINES, TAIL_LINES),
    ) -> None:
        """`spill`: the file for the full output; it is created only when the output is cut. `lines`: first and last
        ones that the model gets."""
        self.rings = rings or RingBuffer()
        self._lines = lines
        self._on_output = on_output
        self._live = Live()
        self._spill = OverflowFile(spill) if spill else None
        self._spilling = False
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        """Take in what was read."""
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
        """Show nothing more, from now on (W12)."""
        self._on_output = None
        if self._timer:
            self._timer.cancel()

    @property
    def pressed(self) -> bool:
        """True when reading should wait for `relieve`."""
        return self._spill is not None and self._spill.due

    async def relieve(self) -> None:
        """Write what waits for the file."""
        if self._spill:
            await asyncio.to_thread(self._spill.flush)

    async def finish(self) -> tuple[OutputView, Path | None]:
        """All shown, the file complete: the output for the model, and the file if there is one."""
        if self._timer:
            self._timer.cancel()
        self._show(last=True)
        if self.rings.total_bytes > 16 * 1024:
            presented = await asyncio.to_thread(present, self.rings, self._lines)
        else:
            presented = present(self.rings, self._lines)
        if not self._spill or not presented.cut:
            return presented, None
        if not self._spilling:
            self._spill.add(bytes(self.rings.head) + self.rings.tail)
        written = await asyncio.to_thread(self._spill.flush)
        return presented, self._spill.path if written else None


__all__ = ["NOT_KEPT", "SPILL", "Capture", "KeptOutput", "Live", "OnOutput", "OverflowFile"]
