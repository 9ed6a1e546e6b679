"""Token estimates: characters counted by kind, with weights learned from the server's real counts (H4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from tui_agent.common.bounded import put_bounded
from tui_agent.common.domain import AssistantMessage, Message, ToolSpec

Counts = tuple[float, ...]
"""One number for each of KINDS."""

KINDS = (
    "words",
    "letters",
    "digits",
    "signs",
    "blanks",
    "lines",
    "wide",
    "foreign",
    "dense",
    "same",
    "messages",
    "base",
)
"""Latin words and their letters; digits; punctuation; blanks; line ends; CJK characters and emoji; other scripts;
base64, hashes and the like; repeated characters; messages and calls with their template; the template itself."""

EXPECTED = (0.8, 0.06, 0.5, 0.55, 0.02, 0.9, 0.75, 0.45, 0.6, 0.12, 5.0, 20.0)
"""Initial tokens per kind, before a model's real counts are known."""
_DEVIATION = (0.2, 0.04, 0.2, 0.2, 0.1, 0.5, 0.35, 0.25, 0.2, 0.1, 3.0, 60.0)
"""Standard deviation of EXPECTED over common tokenizers."""
_MINIMUM = (0.45, 0.03, 0.22, 0.15, 0.0, 0.0, 0.22, 0.18, 0.22, 0.03, 0.0, 0.0)
"""Lower bound over common tokenizers."""
_MAXIMUM = (2.5, 0.5, 1.2, 1.6, 0.5, 3.0, 2.5, 2.0, 1.2, 1.0, 20.0, 2_000.0)

_SAMPLING_MIN = 24_000
"""Longer texts, in characters, are counted by samples to keep the screen responsive."""
_SAMPLE_SIZE = 2_400

_DENSE = re.compile(r"[A-Za-z0-9+/=_-]{32,}")
_SAME = re.compile(r"(\S)\1{7,}")
_WIDE = "[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\ufe30-\uffef\U0001f000-\U0003ffff]"
"""Compiled on first use, as that takes 2 ms."""
_WORD = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = b"0123456789"
_BLANKS = b" \t\r\f\v"


MAX_COUNTED = 4_096
"""Number of texts whose counts are cached, by length and hash: the cache must not hold the texts."""
_counted: dict[tuple[int, int], Counts] = {}


def count(text: str) -> Counts:
    """Count the characters of `text` by kind; long texts are sampled."""
    key = len(text), hash(text)
    if (counts := _counted.get(key)) is None:
        counts = _count_samples(text)
        put_bounded(_counted, key, counts, MAX_COUNTED)
    return counts


def _count_samples(text: str) -> Counts:
    if len(text) <= _SAMPLING_MIN:
        return _count_all(text)
    step = (len(text) - _SAMPLE_SIZE) // 9
    sample = "".join(text[start : start + _SAMPLE_SIZE] for start in range(0, 10 * step, step))
    scale = len(text) / len(sample)
    return tuple(number * scale for number in _count_all(sample))


def _count_all(text: str) -> Counts:
    dense = same = 0

    def count_dense(match: re.Match[str]) -> str:
        nonlocal dense
        run = match[0].encode()
        if len(run.translate(None, b"abcdefghijklmnopqrstuvwxyz_-/=")) * 10 < 3 * len(run):
            return match[0]  # a path or a long name
        if len(set(run)) < 8:
            return match[0]
        dense += len(run)
        return ""

    def count_same(match: re.Match[str]) -> str:
        nonlocal same
        same += len(match[0])
        return ""

    text = _SAME.sub(count_same, _DENSE.sub(count_dense, text))
    wide = foreign = 0
    if not text.isascii():
        text, wide = re.subn(_WIDE, "", text)
        text, foreign = _FOREIGN.subn("", text)
    data = text.encode("ascii", "replace")
    words = len(_WORD.findall(data))
    letters = len(data) - len(data := data.translate(None, _LETTERS))
    digits = len(data) - len(data := data.translate(None, _DIGITS))
    blanks = len(data) - len(data := data.translate(None, _BLANKS))
    lines = len(data) - len(data := data.translate(None, b"\n"))
    return (words, letters, digits, len(data), blanks, lines, wide, foreign, dense, same, 0.0, 0.0)


CHARACTERS_PER_TOKEN = 3
"""Conservative estimate for code."""


def characters_in_window(window: int | None, share: float, maximum: int) -> int:
    """Return how many characters fit into a share of the context window; `maximum` if that is less or it is unknown."""
    return maximum if window is None else min(maximum, round(share * CHARACTERS_PER_TOKEN * window))


def total(parts: Iterable[Counts]) -> Counts:
    """Add counts by kind."""
    rows = [row for row in parts if row]
    return tuple(map(sum, zip(*rows, strict=True))) if rows else (0.0,) * len(KINDS)


_MESSAGE: Counts = (0.0,) * (len(KINDS) - 2) + (1.0, 0.0)
_BASE: Counts = (0.0,) * (len(KINDS) - 1) + (1.0,)


def count_message(message: Message) -> Counts:
    """Count a message with its calls."""
    parts = [count(message.text), _MESSAGE]
    if isinstance(message, AssistantMessage):
        for call in message.calls:
            arguments = call.raw or json.dumps(call.arguments, ensure_ascii=False)
            parts += [count(call.name), count(arguments), _MESSAGE]
        if message.calls and message.reasoning:
            parts.append(count(message.reasoning))
    return total(parts)


def count_tools(tools: Sequence[ToolSpec]) -> Counts:
    """Count the definitions of tools."""
    parts = []
    for tool in tools:
        parts += [count(tool.name), count(tool.description), count(json.dumps(tool.parameters)), _MESSAGE]
    return total(parts)


def count_request(messages: Iterable[Message], tools: Sequence[ToolSpec]) -> Counts:
    """Count a whole request."""
    return total([*map(count_message, messages), count_tools(tools), _BASE])


class Gauge:
    """Estimates the tokens of one model, learning from the server's real counts.

    Recursive least squares with full covariance (a Kalman filter with constant state): a count of mostly Chinese text
    changes the weight of Chinese and hardly that of code. Servers may report too few tokens, by omitting cached
    tokens, so a clearly lower count is learned only if the next one agrees.
    """

    def __init__(self) -> None:
        self._weights = list(EXPECTED)
        size = len(KINDS)
        self._covariance = [[_DEVIATION[i] ** 2 if i == j else 0.0 for j in range(size)] for i in range(size)]
        self._pending: tuple[float, Counts, int] | None = None
        self.samples = 0
        """Number of real counts learned."""

    def estimate(self, counts: Counts) -> int:
        """Return the expected tokens."""
        return round(_dot(self._weights, counts))

    def lower_bound(self, counts: Counts) -> int:
        """Return the fewest tokens any tokenizer produces."""
        return round(_dot(_MINIMUM, counts))

    def upper_bound(self, counts: Counts) -> int:
        """Return a cautious estimate while few real counts are known, else `estimate`."""
        if self.samples > 1:
            return self.estimate(counts)
        high = [weight + 1.6 * deviation for weight, deviation in zip(EXPECTED, _DEVIATION, strict=True)]
        return round(_dot(high, counts))

    def learn(self, counts: Counts, real: int, *, complete: bool = False) -> bool:
        """Learn the real count of a request, `complete` if it covers all of it. False if it is (still) rejected."""
        ratio = real / max(1.0, _dot(self._weights, counts))
        if ratio < 0.9 and not complete:
            if real < _dot(_MINIMUM, counts):
                return False
            pending, self._pending = self._pending, (ratio, counts, real)
            if pending is None or not 0.9 < ratio / pending[0] < 1.1:
                return False
            self._update(pending[1], pending[2])
        self._pending = None
        self._update(counts, real)
        self.samples += 1
        return True

    def _update(self, counts: Counts, real: int) -> None:
        gain = [_dot(row, counts) for row in self._covariance]
        variance = _dot(gain, counts) + (0.02 * real) ** 2 + 100.0
        error = real - _dot(self._weights, counts)
        for i, part in enumerate(gain):
            weight = self._weights[i] + part / variance * error
            self._weights[i] = min(max(weight, _MINIMUM[i]), _MAXIMUM[i])
            for j, other in enumerate(gain):
                self._covariance[i][j] -= part * other / variance


def _dot(weights: Sequence[float], counts: Sequence[float]) -> float:
    return sum(weight * number for weight, number in zip(weights, counts, strict=True))
