"""How far a download is, reported at a bounded rate."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

from tui_agent.common.domain import FrozenValue
from tui_agent.common.errors import CodedError

INTERVAL = 0.2
"""Seconds between two reports."""
RATE_SECONDS = 10.0
"""Seconds over which the rate is measured."""

Stage: TypeAlias = Literal["downloading", "checking", "waiting"]


class DownloadFailed(CodedError):
    """A download that ended without a model. `code`: `unreachable`, `not_found`, `denied`, `no_space`, `in_use`,
    `wrong` (what came is not what was announced) or `failed`."""


class Progress(FrozenValue, frozen=True, kw_only=True):
    """The state of a download."""

    stage: Stage = "downloading"
    done: int = 0
    """Bytes."""
    total: int | None = None
    """Bytes; None if unknown."""
    rate: float | None = None
    """Bytes per second; None until it is known."""
    note: str = ""
    """What happens apart from that, such as another attempt; a sentence."""

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end at this rate; None if unknown."""
        if self.total is None or not self.rate:
            return None
        return max(0.0, (self.total - self.done) / self.rate)


OnProgress: TypeAlias = Callable[[Progress], object]


class Meter:
    """Measures the rate of a download and reports its progress, at most once per INTERVAL, and at changes of stage."""

    def __init__(self, on_progress: OnProgress, total: int | None = None) -> None:
        self._on_progress = on_progress
        self._samples: deque[tuple[float, int]] = deque(maxlen=round(RATE_SECONDS / INTERVAL))
        self._last = 0.0
        self._stage: Stage | None = None
        self.total = total
        self.offset = 0
        """Bytes of the files before this one."""

    def report(self, done: int, stage: Stage = "downloading", note: str = "") -> None:
        """Report that `done` bytes of the present file are downloaded, or checked."""
        now = time.monotonic()
        changed = stage != self._stage
        if changed:
            self._samples.clear()
        if not (changed or note) and now - self._last < INTERVAL and self.offset + done != self.total:
            return
        self._stage, self._last = stage, now
        done += self.offset
        if self._samples and done < self._samples[-1][1]:  # started over
            self._samples.clear()
        rate = None
        if self._samples and now > self._samples[0][0]:
            rate = (done - self._samples[0][1]) / (now - self._samples[0][0])
        self._samples.append((now, done))
        self._on_progress(Progress(stage=stage, done=done, total=self.total, rate=rate, note=note))
