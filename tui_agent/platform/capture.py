"""Output on its way: shown live at a bounded rate, kept in rings, the whole of it in a file if it is long."""

from __future__ import annotations

import asyncio
import codecs
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from tui_agent.platform.output import (
    HEAD,
    HEAD_LINES,
    TAIL_LINES,
    Presented,
    Rings,
    is_binary,
    kind_of,
    present,
    settle,
)
from tui_agent.text import Cleaner

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


class Kept(NamedTuple):
    """How much of an output is kept, and where."""

    file: Path | None = None
    """For the full output; made only when the output is cut."""
    lines: tuple[int, int] = (HEAD_LINES, TAIL_LINES)
    """First and last lines that the model gets."""


class Live:
    """Turns bytes as they come into text for the screen: decoded, clean, progress bars settled, bounded.

    `add` is called with every read and does next to nothing; `take` gives what may be shown now.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._skipped = 0
        self._shown = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._cleaner = Cleaner(colours=True)
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
                return f"[{kind_of(data)}, not shown]\n"
        if self._binary:
            return ""
        if skipped:
            end = data.find(b"\n") + 1
            data = data[end:] if 0 < end < len(data) else data
            self._decoder.reset()
            self._cleaner = Cleaner(colours=True)
            self._held = ""
        text = self._held + self._decoder.decode(data, last)
        self._held = ""
        if not last and text.endswith("\r"):
            text, self._held = text[:-1], "\r"
        text = "\n".join(settle(line) for line in text.replace("\r\n", "\n").split("\n"))
        text = self._cleaner.feed(text) + (self._cleaner.flush() if last else "")
        return f"\n[… {skipped:,} bytes not shown live …]\n{text}" if skipped else text


class Spill:
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
            fd = os.open(
                self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
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
        rings: Rings | None = None,
        lines: tuple[int, int] = (HEAD_LINES, TAIL_LINES),
    ) -> None:
        """`spill`: the file for the full output; it is created only when the output is cut. `lines`: first and last
        ones that the model gets."""
        self.rings = rings or Rings()
        self._lines = lines
        self._on_output = on_output
        self._live = Live()
        self._spill = Spill(spill) if spill else None
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

    async def finish(self) -> tuple[Presented, Path | None]:
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


__all__ = ["SPILL", "Capture", "Kept", "Live", "OnOutput", "Spill"]
