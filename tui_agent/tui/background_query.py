"""Asks the terminal for its background color (OSC 11), and keeps the answer out of what is typed.

Nobody waits for the answer: it is used when it comes. A terminal that does not know the question ignores it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import monotonic
from typing import Final

QUERY: Final = "\x1b]11;?\x1b\\"
ANSWER: Final = re.compile(r"\x1b?\]11;(?P<color>rgba?:[\dA-Fa-f/]{1,40}|#[\dA-Fa-f]{3,16})(?:\x1b\\|\x07|\x9c)")
"""An answer; its ESC may have been delivered before."""
PARTIAL: Final = re.compile(r"\x1b?\](?:1(?:1(?:;(?:r|rg|rgb|(?:rgba?:|#)[\dA-Fa-f/]{0,40}\x1b?)?)?)?)?\Z|\x1b\Z")
"""Beginning of an answer at the end of the input."""
KEY_SECONDS: Final = 0.05
"""Seconds after which the beginning of an answer that a key sends, too, is a key."""
LONE_ESCAPE_SECONDS: Final = 2.0
"""Seconds after the question in which a single ESC may be the beginning of the answer."""
LIGHT_FROM: Final = 0.5
"""Brightness, from 0 to 1, from which a background is light."""


def is_light(color: str) -> bool | None:
    """Return whether a color as X11 writes it (`rgb:ffff/ffff/ffff`, `#ffffff`) is light; None if it is invalid."""
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
    """The question and its answer. Used by the thread that reads the input."""

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

    def ask(self) -> str:
        """Return the question for the terminal, once; the input is searched for the answer from now on."""
        self._asked_at = self._clock()
        return QUERY

    def strip(self, data: str) -> str:
        """Return input without the answer, or without what may become one."""
        if self._asked_at is None or self.light is not None:
            return data
        text, self._held = self._held + data, ""
        if match := ANSWER.search(text):
            self.light = is_light(match["color"])
            return text[: match.start()] + text[match.end() :]
        partial = PARTIAL.search(text)
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
        if not self._held or len(self._held) > 2 or self._clock() - self._held_at < KEY_SECONDS:
            return ""
        text, self._held = self._held, ""
        return text
