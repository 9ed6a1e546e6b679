"""Noticing that a server cut the prompt without a word (R1.3): by its own count of what it read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from tui_agent.domain import AssistantMessage, Message, Usage, UserMessage
from tui_agent.engine.tokens import Counts, Gauge, of_message, total

REMEMBERED = 4
"""Requests whose prompt the server may still hold."""
CUT_LEAST = 1_000
"""Half of the smallest window there is: no cut leaves less, so that a smaller count means a cached prompt."""
USUAL = (2_048, 4_096, 8_192, 16_384, 32_768, 40_960, 65_536, 131_072)
"""Windows that servers come with."""
EDGE = 2
"""Tokens that a prompt cut to a window may lack of it."""


class Judged(msgspec.Struct, frozen=True):
    """What a count means."""

    full: int | None = None
    """The prompt's real size where the count tells it, else None."""
    lesson: int | None = None
    """What the gauge may learn from: also a count of which it is not sure yet that it is of the whole."""
    sure: bool = False
    """The lesson can't be of a part."""
    cut_to: int = 0
    """Tokens that the server read of a prompt that it cut; 0 if it did not."""
    window: int | None = None
    """The window that it cut for, where that follows."""


class _Case(msgspec.Struct, frozen=True):
    """A request and its count."""

    messages: tuple[Message, ...]
    real: int
    size: int
    """The estimate."""
    part: int
    """The estimate of what no cache can hold."""
    part_least: int
    most: int
    """What it may have at the most, as far as the gauge knows."""
    counts: Counts
    told: bool
    """The server says what it had cached, so that the count is of the whole prompt."""

    @property
    def explained(self) -> bool:
        """True if the count is about that of the part that was not cached."""
        return 0.6 * self.real - 50 < self.part < 1.5 * self.real + 50


class Watch:
    """Judges the counts of one model, one after the other.

    Honest servers say less than the whole, too: Ollama and llama.cpp count only what they had not cached. What can be
    cached is known, though, since a cache holds beginnings of earlier requests. A cut is seen by what no cache does:
    - a count of half a window and 2 or 3 tokens, which is what Ollama leaves (O-7);
    - a count that just fills a window, of a prompt that should have more; also one close below it twice in a row, since
      whole messages are left out, too (O-6);
    - fewer tokens than the new part alone can have;
    - the same count three times, although different parts came in;
    - a count that does not grow with the prompt, from a server that says what it had cached.
    """

    def __init__(self) -> None:
        self._past: deque[tuple[tuple[Message, ...], int]] = deque(maxlen=REMEMBERED)
        """Requests with what they have at the least."""
        self._last: deque[_Case] = deque(maxlen=2)
        self._lowered = 0
        """Counts that seem to be of less than the whole, since the rest was cached."""
        self._apart = False
        """The server counts what it read and what it had cached each for itself, so that one can't tell the whole."""

    def judge(
        self,
        messages: tuple[Message, ...],
        counts: Counts,
        usage: Usage,
        gauge: Gauge,
        windows: Sequence[int],
    ) -> Judged:
        """What `usage` says of the request that just ended. `windows`: those asked for and in effect."""
        fresh, size = self._fresh(messages), gauge.tokens(counts)
        new = total(map(of_message, fresh))
        part, floor = gauge.tokens(new), self._floor(messages, gauge)
        real = _whole(usage, part)
        if real is None:
            self._past.append((messages, floor))
            self._last.clear()
            return Judged()
        self._apart = self._apart or (usage.prompt_tokens or 0) < (usage.cached_tokens or 0)
        told = usage.cached_tokens is not None and not self._apart
        case = _Case(messages, real, size, part, gauge.least(new), gauge.most(counts), counts, told)
        judged = self._cut(case, gauge, windows) if real >= CUT_LEAST else None
        if judged is None:
            judged = self._honest(case, floor, gauge.least(counts))
            self._lowered += judged.full is None
        self._past.append((messages, max(floor, 0 if judged.cut_to else real)))
        self._last.append(case)
        return judged

    def _honest(self, case: _Case, floor: int, least: int) -> Judged:
        real, first = case.real, not self._past
        if real < floor:
            return Judged()
        if real >= 0.75 * case.size:
            return Judged(real, real)
        whole = first and real >= least and case.size - case.part < 0.25 * real
        return Judged(real if whole else None, real, sure=whole)

    def _cut(self, case: _Case, gauge: Gauge, windows: Sequence[int]) -> Judged | None:
        real, size = case.real, case.size
        larger = size > 1.08 * real if gauge.lessons > 1 else case.most > 1.15 * real
        for window in windows:
            if 2 <= real - window // 2 <= 3 and larger:
                return Judged(cut_to=real, window=window)
        if (full := self._filled(case, gauge, (*windows, *USUAL))) is not None:
            return Judged(cut_to=real, window=full)
        if case.told and self._grown_without_count(case, gauge):
            return Judged(cut_to=real)
        if real > 0.75 * size:
            return None
        usual = next((window for window in USUAL if 2 <= real - window // 2 <= 3), None)
        if usual and not case.explained and size > 1.3 * real:
            return Judged(cut_to=real, window=usual)
        if real < 0.75 * case.part_least:
            return Judged(cut_to=real, window=usual)
        if self._stands_still(case):
            return Judged(cut_to=real, window=usual or 2 * real)
        return None

    def _filled(self, case: _Case, gauge: Gauge, windows: Sequence[int]) -> int | None:
        """The window that the count fills, where the prompt should have more."""
        real = case.real
        if (case.explained and self._past) or (self._lowered > 1 and not case.told):
            return None
        for window in windows:
            if window - EDGE <= real <= window and case.size > 1.08 * window:
                return window
            low, last = 0.95 * window, self._last[-1] if self._last else None
            if last is None or not (low <= last.real <= window and low <= real <= window):
                continue
            grown = case.size - gauge.tokens(last.counts) > 0.1 * window and case.size > 1.2 * window
            if grown and not last.explained:
                return window
        return None

    def _grown_without_count(self, case: _Case, gauge: Gauge) -> bool:
        """The prompt has clearly more than the one before, the count has not."""
        if not self._last or not self._last[-1].told or case.explained:
            return False  # some tell of the rest and the cached part each for itself
        last = self._last[-1]
        grown = case.size - gauge.tokens(last.counts)
        return grown > 400 and grown > 0.08 * case.size and case.real - last.real < 0.15 * grown

    def _stands_still(self, case: _Case) -> bool:
        """The same count three times, although what came in was not alike."""
        if len(self._last) < 2 or any(abs(case.real - past.real) > 2 for past in self._last):
            return False
        parts = [past.part for past in self._last] + [case.part]
        return max(parts) > 1.15 * min(parts) + 40 and case.size > self._last[0].size + 200

    def _floor(self, messages: tuple[Message, ...], gauge: Gauge) -> int:
        """What begins like an earlier prompt and goes on is longer than that was."""
        floors = [0]
        for past, least in self._past:
            if least and _shared(messages, past) == len(past):
                floors.append(least + gauge.least(total(map(of_message, messages[len(past) :]))))
        return max(floors)

    def _fresh(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages that no cache can hold: behind the longest beginning that an earlier request had too, or, in
        the first request of a process, the user's last message and what follows it."""
        if not self._past:
            own = [at for at, message in enumerate(messages) if isinstance(message, UserMessage)]
            return messages[own[-1] :] if own else ()
        rest = messages[self._shared(messages) :]
        # The reply to the earlier request was written on the same cache.
        return rest[1:] if rest and isinstance(rest[0], AssistantMessage) else rest

    def _shared(self, messages: tuple[Message, ...]) -> int:
        return max((_shared(messages, past) for past, _ in self._past), default=0)

    def known(self, messages: tuple[Message, ...]) -> int:
        """How many messages the server should still have, since the request before began with them or led to them."""
        known = _shared(messages, self._past[-1][0]) if self._past else 0
        written = known < len(messages) and isinstance(messages[known], AssistantMessage)
        return known + 1 if known and written else known


def _shared(one: tuple[Message, ...], other: tuple[Message, ...]) -> int:
    at = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine is not theirs and mine != theirs:
            break
        at += 1
    return at


def _whole(usage: Usage, part: int) -> int | None:
    """The count of the prompt, with what was cached where the server gives that apart."""
    real, cached = usage.prompt_tokens, usage.cached_tokens or 0
    if real is not None and real < cached and real < 1.5 * part + 50:
        return real + cached
    return real
