"""What the terminal sends, as messages: a paste is one paste whatever it holds, and a torn one ends by itself (R12.2).

Textual's parser reads the inside of a paste as keys wherever an ESC stands in it, and waits for the end marker for
ever. So the inside never reaches it: it sees the two markers next to each other, and the text goes round it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.keys import Keys
from textual.message import Message

from tui_agent.text import clean

GRACE: Final = 0.02
"""Seconds of silence behind an end marker until it counts: one that stands in the pasted text comes with the rest."""

WARY_GRACE: Final = 0.5
"""The same once an end marker was followed by more text: whoever wrote that wants the rest to be taken for keys."""

LONGEST_GRACE: Final = 1.0
"""Seconds after which the last end marker counts although keys keep coming; a paste that flows is let flow."""

TORN: Final = 1.5
"""Seconds without more text until a paste that lacks its end is over (R12.3)."""

TYPED: Final = 16
"""Characters at most that one key sends. They do not keep a torn paste open."""

LONGEST: Final = 16_000_000
"""Characters of a paste that are kept; what is beyond them is dropped (F07)."""

REST: Final = 8192
"""Characters of the rest that are looked at for the end marker."""

STOP_KEYS: Final = ("\x03", "\x1b[99;5u")
"""Ctrl+C, plain and as kitty's protocol writes it: after a pause it is a key in a paste too."""

ALT_ENTER: Final = ("\x1b\r", "\x1b\n")
"""What terminals send for it that know no protocol of keys, and VS Code for Shift+Enter when it is told to (R20.1)."""

OTHER_KEY: Final = re.compile(r"\x1b\[27;(\d+);(\d+)~")
"""A key as xterm's modifyOtherKeys and tmux's extended-keys write it: modifiers, then the code."""

WHOLE_KEY: Final = re.compile(r"\x1b\[(\d*)[\d:]*;(\d*)(?::(\d*))?((?:;[\d:]*)?[u~ABCDEFHPQRS])")
"""A key as kitty's protocol writes it where it also tells other layouts' keys, and presses from releases."""

RELEASED: Final = "3"

BACKSLASH_ENTER: Final = "\\\r\n"
"""What VS Code sends for Shift+Enter when it was told to by programs of old: one new line, not two."""


class PasteGuard(XTermParser):
    """Textual's parser, with pastes taken out on the way. `feed` it what was read, `tick` it every `patience`."""

    def __init__(self, debug: bool = False, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._beginning = ""
        """The end of what was read outside of a paste, when it may begin a marker."""
        self._pasting = False
        self._parts: list[str] = []
        self._size = 0
        self._rest = ""
        """Of a paste that is too long: the end of it, with the end marker and the keys behind it."""
        self._tail = ""
        """The last characters of the paste: a marker may lie across reads."""
        self._ended: float | None = None
        """When the first end marker came."""
        self._wary = False
        """More text than a key sends came behind it."""
        self._last = self._grown = 0.0
        """When anything came, and when more came than a key sends."""
        super().__init__(debug)

    @property
    def patience(self) -> float:
        """Seconds until the next `tick` is due."""
        return GRACE if self._pasting and self._ended is not None else 0.1

    def feed(self, data: str) -> Iterable[Message]:
        """The messages of what was read; an empty text is the end of all."""
        if not data:
            yield from self._end_paste()
            yield from super().feed("")
        elif self._pasting:
            yield from self._inside(data)
        else:
            yield from self._outside(data)

    def tick(self) -> Iterable[Message]:
        """What time brings: the end of a paste, and of an escape sequence that does not go on."""
        if not self._pasting:
            waited = self._timeout_time is not None
            yield from super().tick()
            if waited and self._timeout_time is None:
                self._beginning = ""
        elif self._is_over(self._clock()):
            yield from self._end_paste()

    def _is_over(self, now: float) -> bool:
        if self._ended is None:
            return now - self._grown >= TORN
        typing = now - self._ended >= LONGEST_GRACE and now - self._grown >= LONGEST_GRACE
        return typing or now - self._last >= (WARY_GRACE if self._wary else GRACE)

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        """More ways to write keys than Textual knows; one that is no key at all is ignored."""
        if sequence in ALT_ENTER:
            yield events.Key("alt+enter", None)
            return
        if found := OTHER_KEY.fullmatch(sequence):
            sequence = f"\x1b[{found[2]};{found[1]}u"
        elif ":" in sequence and (found := WHOLE_KEY.fullmatch(sequence)):
            if found[3] == RELEASED:
                yield events.Key(Keys.Ignore, sequence)
                return
            sequence = f"\x1b[{found[1]};{found[2] or 1}{found[4]}"
        try:
            yield from super()._sequence_to_key_events(sequence, alt)
        except (ValueError, OverflowError):
            yield events.Key(Keys.Ignore, sequence)

    def _outside(self, data: str) -> Iterable[Message]:
        data = data.replace(BACKSLASH_ENTER, BACKSLASH_ENTER[:-1])
        known = len(self._beginning)
        text = self._beginning + data
        at = text.find(BRACKETED_PASTE_START)
        if at < 0:
            self._beginning = _marker_begun(text)
            yield from super().feed(data)
            return
        cut = at + len(BRACKETED_PASTE_START) - known
        yield from super().feed(data[:cut])
        self._beginning = ""
        self._pasting = True
        self._last = self._grown = self._clock()
        if data[cut:]:
            yield from self._inside(data[cut:])

    def _inside(self, data: str) -> Iterable[Message]:
        now = self._clock()
        if self._ended is None and data in STOP_KEYS and now - self._last >= GRACE:
            yield from self._end_paste()
            yield from super().feed(data)
            return
        self._last = now
        if len(data) > TYPED:
            self._grown = now
        self._keep(data)
        if self._ended is not None:
            self._wary = self._wary or len(data) > TYPED
        elif (at := (self._tail + data).find(BRACKETED_PASTE_END)) >= 0:
            self._ended = now
            self._wary = len(self._tail + data) - at - len(BRACKETED_PASTE_END) > TYPED
        self._tail = (self._tail + data)[1 - len(BRACKETED_PASTE_END) :]

    def _keep(self, data: str) -> None:
        if self._size < LONGEST:
            self._parts.append(data)
            self._size += len(data)
        else:
            self._rest = (self._rest + data)[-REST:]

    def _end_paste(self) -> Iterable[Message]:
        """The paste in one message; then what was read behind its end, as if it came now."""
        if not self._pasting:
            return
        text = "".join(self._parts) + self._rest
        at = text.rfind(BRACKETED_PASTE_END)
        before, after = (text, "") if at < 0 else (text[:at], text[at + len(BRACKETED_PASTE_END) :])
        self._pasting, self._ended, self._wary, self._tail = False, None, False, ""
        self._parts, self._size, self._rest = [], 0, ""
        for message in super().feed(BRACKETED_PASTE_END):
            if not isinstance(message, events.Paste):
                yield message
        yield events.Paste(clean(before))
        if after:
            yield from self._outside(after)


def _marker_begun(text: str) -> str:
    """The longest end of `text` that a start marker may begin with."""
    at = text.rfind("\x1b")
    end = text[at:] if at >= 0 else ""
    return end if BRACKETED_PASTE_START.startswith(end) else ""
