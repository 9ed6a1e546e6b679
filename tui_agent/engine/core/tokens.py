"""How many tokens a text takes: counted by kinds of characters, weighed by what the model's real counts taught (H4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

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
"""Latin words and the letters in them, digits, punctuation, blanks, line ends; characters of CJK and pictures; other
scripts; base64, hashes and the like; one character repeated; messages and calls with what a template puts around
them; the template itself."""

EXPECTED = (0.8, 0.06, 0.5, 0.55, 0.02, 0.9, 0.75, 0.45, 0.6, 0.12, 5.0, 20.0)
"""Tokens for each, before a model's own counts are known."""
_DOUBT = (0.2, 0.04, 0.2, 0.2, 0.1, 0.5, 0.35, 0.25, 0.2, 0.1, 3.0, 60.0)
"""Standard deviation of these over the tokenizers in use."""
_LEAST = (0.45, 0.03, 0.22, 0.15, 0.0, 0.0, 0.22, 0.18, 0.22, 0.03, 0.0, 0.0)
"""No tokenizer takes less."""
_MOST = (2.5, 0.5, 1.2, 1.6, 0.5, 3.0, 2.5, 2.0, 1.2, 1.0, 20.0, 2_000.0)

_SAMPLED = 24_000
"""Characters from which on a text is counted by samples, so that a long one does not hold up the screen."""
_SLICE = 2_400

_DENSE = re.compile(r"[A-Za-z0-9+/=_-]{32,}")
_SAME = re.compile(r"(\S)\1{7,}")
_WIDE = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\ufe30-\uffef\U0001f000-\U0003ffff]")
_WORD = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = b"0123456789"
_BLANKS = b" \t\r\f\v"


@lru_cache(maxsize=4_096)
def count(text: str) -> Counts:
    """The characters of `text` by kind. Long texts are estimated from samples."""
    if len(text) <= _SAMPLED:
        return _counted(text)
    step = (len(text) - _SLICE) // 9
    sample = "".join(text[start : start + _SLICE] for start in range(0, 10 * step, step))
    scale = len(text) / len(sample)
    return tuple(number * scale for number in _counted(sample))


def _counted(text: str) -> Counts:
    dense = same = 0

    def take_dense(found: re.Match[str]) -> str:
        nonlocal dense
        run = found[0].encode()
        if len(run.translate(None, b"abcdefghijklmnopqrstuvwxyz_-/=")) * 10 < 3 * len(run):
            return found[0]  # a path or a long name
        if len(set(run)) < 8:
            return found[0]
        dense += len(run)
        return ""

    def take_same(found: re.Match[str]) -> str:
        nonlocal same
        same += len(found[0])
        return ""

    rest = _SAME.sub(take_same, _DENSE.sub(take_dense, text))
    wide = foreign = 0
    if not rest.isascii():
        rest, wide = _WIDE.subn("", rest)
        rest, foreign = _FOREIGN.subn("", rest)
    left = rest.encode("ascii", "replace")
    words = len(_WORD.findall(left))
    letters = len(left) - len(left := left.translate(None, _LETTERS))
    digits = len(left) - len(left := left.translate(None, _DIGITS))
    blanks = len(left) - len(left := left.translate(None, _BLANKS))
    lines = len(left) - len(left := left.translate(None, b"\n"))
    return (words, letters, digits, len(left), blanks, lines, wide, foreign, dense, same, 0.0, 0.0)


def total(parts: Iterable[Counts]) -> Counts:
    """The sum of counts."""
    rows = [row for row in parts if row]
    return tuple(map(sum, zip(*rows, strict=True))) if rows else (0.0,) * len(KINDS)


_MESSAGE: Counts = (0.0,) * (len(KINDS) - 2) + (1.0, 0.0)
_BASE: Counts = (0.0,) * (len(KINDS) - 1) + (1.0,)


def of_message(message: Message) -> Counts:
    """What one message takes, its calls included."""
    parts = [count(message.text), _MESSAGE]
    if isinstance(message, AssistantMessage):
        for call in message.calls:
            written = call.raw or json.dumps(call.arguments, ensure_ascii=False)
            parts += [count(call.name), count(written), _MESSAGE]
        if message.calls and message.reasoning:
            parts.append(count(message.reasoning))
    return total(parts)


def of_tools(tools: Sequence[ToolSpec]) -> Counts:
    """What the definitions of tools take."""
    parts = []
    for tool in tools:
        parts += [count(tool.name), count(tool.description), count(json.dumps(tool.parameters)), _MESSAGE]
    return total(parts)


def of_request(messages: Iterable[Message], tools: Sequence[ToolSpec]) -> Counts:
    """What a whole request takes."""
    return total([*map(of_message, messages), of_tools(tools), _BASE])


class Gauge:
    """The weights of one model: begins with what is usual, learns from the server's real counts.

    A linear estimate with a full covariance (a Kalman filter without motion), so that a count of a text that is
    mostly Chinese moves the weight of Chinese and hardly that of code. A server never counts too much, but may count
    too little (it leaves out what it had cached): a count that is clearly lower teaches only when the next agrees.
    """

    def __init__(self) -> None:
        self._weights = list(EXPECTED)
        size = len(KINDS)
        self._cov = [[_DOUBT[i] ** 2 if i == j else 0.0 for j in range(size)] for i in range(size)]
        self._pending: tuple[float, Counts, int] | None = None
        self.lessons = 0
        """Counts that were learnt from."""

    def tokens(self, counts: Counts) -> int:
        """The estimate."""
        return round(_times(self._weights, counts))

    def least(self, counts: Counts) -> int:
        """No tokenizer makes fewer of it."""
        return round(_times(_LEAST, counts))

    def most(self, counts: Counts) -> int:
        """What it may be at the most; once real counts are known that is the estimate."""
        if self.lessons > 1:
            return self.tokens(counts)
        high = [weight + 1.6 * doubt for weight, doubt in zip(EXPECTED, _DOUBT, strict=True)]
        return round(_times(high, counts))

    def learn(self, counts: Counts, real: int, *, sure: bool = False) -> bool:
        """Take in the server's count of a request; False when it is not believed (yet). `sure`: it is of the whole."""
        ratio = real / max(1.0, _times(self._weights, counts))
        if ratio < 0.9 and not sure:
            if real < _times(_LEAST, counts):
                return False
            pending, self._pending = self._pending, (ratio, counts, real)
            if pending is None or not 0.9 < ratio / pending[0] < 1.1:
                return False
            self._update(pending[1], pending[2])
        self._pending = None
        self._update(counts, real)
        self.lessons += 1
        return True

    def _update(self, counts: Counts, real: int) -> None:
        spread = [_times(row, counts) for row in self._cov]
        scale = _times(spread, counts) + (0.02 * real) ** 2 + 100.0
        surprise = real - _times(self._weights, counts)
        for i, part in enumerate(spread):
            weight = self._weights[i] + part / scale * surprise
            self._weights[i] = min(max(weight, _LEAST[i]), _MOST[i])
            for j, other in enumerate(spread):
                self._cov[i][j] -= part * other / scale


def _times(weights: Sequence[float], counts: Sequence[float]) -> float:
    return sum(weight * number for weight, number in zip(weights, counts, strict=True))
