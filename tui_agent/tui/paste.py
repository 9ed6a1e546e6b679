"""A terminal input parser that delivers each paste in one message, even if it contains escapes or lacks its end.

Textual's parser takes text after an ESC in a paste for keys, and waits forever for a missing end marker. So it never
gets pasted text: it sees only the two markers, and the text is delivered directly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import exp
from time import monotonic
from typing import Final

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.keys import Keys
from textual.message import Message

from tui_agent.keys.key_names import PUNCTUATION_NAMES
from tui_agent.text import clean

GRACE: Final = 0.02
"""Seconds of silence after which an end marker is real: one inside the pasted text is followed by more."""

EMBEDDED_GRACE: Final = 0.5
"""The same after an end marker was followed by text: the author of such a text wants it to be read as keys."""

MAX_GRACE: Final = 1.0
"""Seconds after which the last end marker is real although keys keep coming."""

TORN_TIMEOUT: Final = 1.5
"""Seconds without text after which a paste without an end marker is over."""

MAX_KEY_LENGTH: Final = 16
"""Maximum characters that one key sends. So few don't extend a torn paste, unless they arrive fast."""

MIN_TEXT_RATE: Final = 120
"""Characters per second in such small reads that only text on a slow line reaches, and no repeated key."""

TORN_WINDOW: Final = 10.0
"""Seconds after the last text of a torn paste in which its remainder may arrive without a start marker."""

TICK: Final = 0.1
"""Seconds between ticks during a paste, or within an escape sequence."""

ENTER_GRACE: Final = 0.3
"""Seconds that an Enter is held in that time: if text follows, it is a line break of the paste."""

MAX_PASTE: Final = 16_000_000
"""Maximum characters of a paste; more are dropped."""

MAX_OVERFLOW_TAIL: Final = 8192
"""Dropped characters that are searched for the end marker."""

TYPEABLE: Final = "\u00a0\u2009\u202f\u3000\u200c\u200d"
"""Other spaces, such as that of a Japanese keyboard, and zero-width joiners: typed, but not printable for Python."""

STOP_KEYS: Final = ("\x03", "\x1b[99;5u")
"""Ctrl+C, plain and in kitty's protocol. After a pause, it is a key even within a paste."""

ALT_ENTER: Final = ("\x1b\r", "\x1b\n")
"""Alt+Enter in terminals without a key protocol, and Shift+Enter in a configured VS Code."""

MODIFY_OTHER_KEYS: Final = re.compile(r"\x1b\[27;(\d+);(\d+)~")
"""A key in xterm's modifyOtherKeys and tmux's extended-keys: modifiers, then code."""

KITTY_KEY: Final = re.compile(r"\x1b\[(\d*)[\d:]*;(\d*)(?::(\d*))?((?:;[\d:]*)?[u~ABCDEFHPQRS])")
"""A key in kitty's protocol with alternate layout keys and event types."""

KITTY_RELEASE: Final = "3"

SEQUENCES: Final = re.compile(r"(?:\x1b(?:\[[0-9;:<?]*[A-Za-z~]|O[A-Za-z]|[^\[O\x1b]))+")
"""Complete sequences of keys, mouse and reports; pasted text does not look like this."""

PARTIAL_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-9;:<?]*|O)?")

MOUSE: Final = re.compile(r"(?:\x1b\[<[\d;]+[mM])+")

MARKERS: Final = (BRACKETED_PASTE_START, BRACKETED_PASTE_END)

ALT_KEY: Final = re.compile(r"\x1b([^\x00-\x1f\x7f-\x9f\[\]OPX^_\\])")
"""A character typed with Alt; those that begin a longer sequence are known only when nothing follows them."""

ENTER: Final = re.compile(r"[\r\n]|\x1b(?:\[13(?:[;:][\d;:]*)?u|\[27;\d+;13~|OM|\r|\n)")

BACKSLASH_ENTER: Final = "\\\r\n"
"""Sent by VS Code for Shift+Enter as configured by older programs: one line break, not two."""


class TypedCharacter(events.Key):
    """A key whose character counts as printable although Python disagrees."""

    @property
    def is_printable(self) -> bool:
        """Always true."""
        return True

    def copy(self) -> TypedCharacter:
        """Return an equal key."""
        return TypedCharacter(self.key, self.character)


TypedCharacter.handler_name = events.Key.handler_name  # handled by `on_key`


class KeyParser(XTermParser):
    """Textual's parser for more encodings of keys; a character typed with Alt is a key that types nothing."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        """Parse more key encodings than Textual does; ignore invalid ones."""
        if sequence in ALT_ENTER:
            yield events.Key("alt+enter", None)
            return
        if sequence in ("\x1b\x7f", "\x1b\b"):
            yield events.Key("alt+backspace", None)
            return
        if match := ALT_KEY.fullmatch(sequence) or (re.fullmatch(r"([ -~])", sequence) if alt else None):
            yield _alt_key(match[1])
            return
        if match := MODIFY_OTHER_KEYS.fullmatch(sequence):
            sequence = f"\x1b[{match[2]};{match[1]}u"
        elif ":" in sequence and (match := KITTY_KEY.fullmatch(sequence)):
            if match[3] == KITTY_RELEASE:
                yield events.Key(Keys.Ignore, sequence)
                return
            sequence = f"\x1b[{match[1]};{match[2] or 1}{match[4]}"
        try:
            for key in super()._sequence_to_key_events(sequence, alt):
                yield TypedCharacter(key.key, key.character) if (key.character or "\n") in TYPEABLE else key
        except (ValueError, OverflowError):
            yield events.Key(Keys.Ignore, sequence)


class PasteGuard(KeyParser):
    """Textual's parser behind a filter for pastes. `feed` it input, and `tick` it every `patience` seconds."""

    def __init__(self, debug: bool = False, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._partial_marker = ""
        """End of the input outside of a paste, if it may be the beginning of a start marker."""
        self._pasting = False
        self._parts: list[str] = []
        self._size = 0
        self._overflow_tail = ""
        """End of a paste that is too long, with the end marker and the keys after it."""
        self._overflow = 0
        """Number of characters beyond the maximum."""
        self._tail = ""
        """Last characters of the paste, as a marker may span reads."""
        self._end_marker_at: float | None = None
        """Time of the first end marker."""
        self._text_after_end = False
        """The end marker was followed by more text than a key sends."""
        self._last_read_at = self._last_text_at = 0.0
        """Time of the last input, and of the last input that was more than keys."""
        self._rate = 0.0
        """Approximate characters per second in small reads."""
        self._timeout = TORN_TIMEOUT
        """Seconds without text after which this paste is over even without an end marker."""
        self._torn_until = 0.0
        """Time until which text without a start marker may belong to a torn paste."""
        self._pending_key = ""
        """Input that is a key unless text follows."""
        super().__init__(debug)

    @property
    def patience(self) -> float | None:
        """Seconds until the next `tick` is due; None if nothing is due without further input."""
        if self._pending_key or (self._pasting and self._end_marker_at is not None):
            return GRACE
        return TICK if self._pasting or self._timeout_time is not None else None

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the messages for input; an empty text is the end of input."""
        if not data:
            yield from self._release_pending_key()
            yield from self._end_paste()
            yield from super().feed("")
        elif self._pasting:
            yield from self._feed_paste(data)
        elif self._pending_key or self._clock() < self._torn_until:
            yield from self._feed_after_torn_paste(data)
        else:
            yield from self._feed_keys(data)

    def tick(self) -> Iterable[Message]:
        """Handle timeouts: the end of a paste, or of an incomplete escape sequence."""
        if self._pending_key:
            if self._clock() - self._last_read_at >= (ENTER_GRACE if ENTER.fullmatch(self._pending_key) else GRACE):
                yield from self._release_pending_key()
        elif not self._pasting:
            waited = self._timeout_time is not None
            yield from super().tick()
            if waited and self._timeout_time is None:
                self._partial_marker = ""
        elif self._has_ended(self._clock()):
            yield from self._end_paste()

    def _has_ended(self, now: float) -> bool:
        if self._end_marker_at is None:
            return now - self._last_text_at >= self._timeout
        typing = now - self._end_marker_at >= MAX_GRACE and now - self._last_text_at >= MAX_GRACE
        return typing or now - self._last_read_at >= (EMBEDDED_GRACE if self._text_after_end else GRACE)

    def _feed_keys(self, data: str) -> Iterable[Message]:
        data = data.replace(BACKSLASH_ENTER, BACKSLASH_ENTER[:-1])
        already_fed = len(self._partial_marker)
        text = self._partial_marker + data
        start = text.find(BRACKETED_PASTE_START)
        if start < 0:
            self._partial_marker = _partial_start_marker(text)
            yield from super().feed(data)
            return
        cut = start + len(BRACKETED_PASTE_START) - already_fed
        yield from super().feed(data[:cut])
        self._begin_paste(TORN_TIMEOUT)
        self._torn_until = self._last_read_at + TORN_WINDOW
        if data[cut:]:
            yield from self._feed_paste(data[cut:])

    def _begin_paste(self, timeout: float) -> None:
        self._partial_marker, self._pasting, self._timeout = "", True, timeout
        self._last_read_at = self._last_text_at = self._clock()

    def _feed_after_torn_paste(self, data: str) -> Iterable[Message]:
        """Treat more than one key at once, and text that follows closely, as the remainder of a torn paste."""
        if SEQUENCES.fullmatch(data) and not (ENTER.fullmatch(data) or data in MARKERS):
            yield from self._feed_keys(data)  # not text
            return
        text, self._pending_key = self._pending_key + data, ""
        before, start, after = text.partition(BRACKETED_PASTE_START)
        if start or (SEQUENCES.fullmatch(text) and not ENTER.fullmatch(text) and text != BRACKETED_PASTE_END):
            if start and before:
                yield from self._continue_torn_paste(before)
                yield from self._end_paste()
            yield from self._feed_keys(start + after if start else text)
        elif len(text) == 1 or ENTER.fullmatch(text) or PARTIAL_SEQUENCE.fullmatch(text):
            self._pending_key, self._last_read_at = text, self._clock()
        else:
            yield from self._continue_torn_paste(text)

    def _continue_torn_paste(self, text: str) -> Iterable[Message]:
        """Deliver the remainder of a torn paste as another paste."""
        yield from super().feed(BRACKETED_PASTE_START)
        self._begin_paste(EMBEDDED_GRACE)
        yield from self._feed_paste(text)

    def _release_pending_key(self) -> Iterable[Message]:
        key, self._pending_key = self._pending_key, ""
        if key:
            yield from self._feed_keys(key)

    def _feed_paste(self, data: str) -> Iterable[Message]:
        now = self._clock()
        if self._end_marker_at is None and data in STOP_KEYS and now - self._last_read_at >= GRACE:
            yield from self._end_paste()
            yield from super().feed(data)
            return
        is_text = self._is_text(data, now)
        self._last_read_at = now
        if is_text:
            self._last_text_at, self._torn_until = now, now + TORN_WINDOW
        self._append(data)
        if self._end_marker_at is not None:
            self._text_after_end = self._text_after_end or is_text
        elif (end := (self._tail + data).find(BRACKETED_PASTE_END)) >= 0:
            self._end_marker_at = now
            self._text_after_end = len(self._tail + data) - end - len(BRACKETED_PASTE_END) > MAX_KEY_LENGTH
        self._tail = (self._tail + data)[1 - len(BRACKETED_PASTE_END) :]

    def _is_text(self, data: str, now: float) -> bool:
        """Return True for more than keys send, at once or in the last second."""
        if len(data) > MAX_KEY_LENGTH:
            return MOUSE.fullmatch(data) is None
        decayed = self._rate * exp(self._last_read_at - now)
        self._rate = min(decayed + len(data), MIN_TEXT_RATE * 1.25)  # bounded, so that it decays soon
        return self._rate > MIN_TEXT_RATE

    def _append(self, data: str) -> None:
        if self._size < MAX_PASTE:
            self._parts.append(data)
            self._size += len(data)
        else:
            self._overflow_tail = (self._overflow_tail + data)[-MAX_OVERFLOW_TAIL:]
            self._overflow += len(data)

    def _end_paste(self) -> Iterable[Message]:
        """Yield the paste in one message, then the messages for the input after its end."""
        if not self._pasting:
            return
        before, end, after = self._split()
        if end:
            self._torn_until = 0.0
        else:
            before = MOUSE.sub("", before)  # the mouse was moved in the meantime
        is_empty_remainder = not before and self._timeout != TORN_TIMEOUT
        self._pasting, self._end_marker_at, self._text_after_end, self._tail = False, None, False, ""
        self._parts, self._size, self._overflow_tail, self._overflow, self._rate = [], 0, "", 0, 0.0
        for message in super().feed(BRACKETED_PASTE_END):
            if not isinstance(message, events.Paste):
                yield message
        if not is_empty_remainder:
            yield events.Paste(clean(before))
        if after:
            yield from self.feed(after)

    def _split(self) -> tuple[str, bool, str]:
        """Return the pasted text, whether an end marker came, and the input after it."""
        text = "".join(self._parts)
        if self._overflow <= MAX_OVERFLOW_TAIL:
            text += self._overflow_tail
            end = text.rfind(BRACKETED_PASTE_END)
            pasted = text if end < 0 else text[:end]
            dropped = max(0, len(pasted) - self._size)
        else:
            end = self._overflow_tail.rfind(BRACKETED_PASTE_END)
            pasted, dropped = text, self._overflow - (len(self._overflow_tail) - end if end >= 0 else 0)
            text = self._overflow_tail
        after = text[end + len(BRACKETED_PASTE_END) :] if end >= 0 else ""
        if dropped:
            pasted = f"{pasted[: self._size]}\n[… {dropped:,} more characters of this paste were left out]"
        return pasted, end >= 0, after


def _alt_key(character: str) -> events.Key:
    """Return the key of a character with Alt, which types nothing."""
    name = PUNCTUATION_NAMES.get(character) or character.lower()
    return events.Key(f"alt+shift+{name}" if character.isupper() else f"alt+{name}", None)


def _partial_start_marker(text: str) -> str:
    """Return the end of `text` if it is the beginning of a start marker."""
    escape = text.rfind("\x1b")
    end = text[escape:] if escape >= 0 else ""
    return end if BRACKETED_PASTE_START.startswith(end) else ""
