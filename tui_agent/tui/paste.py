"""What the terminal sends, as messages: a paste is one paste whatever it holds, and a torn one ends by itself.

Textual's parser reads the inside of a paste as keys wherever an ESC stands in it, and waits for the end marker for
ever. So the inside never reaches it: it sees the two markers next to each other, and the text goes round it.
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

from tui_agent.text import clean

GRACE: Final = 0.02
"""Seconds of silence after an end marker until it counts: one within the pasted text is followed by more."""

WARY_GRACE: Final = 0.5
"""The same once an end marker was followed by more text: its author wants the rest to be read as keys."""

LONGEST_GRACE: Final = 1.0
"""Seconds after which the last end marker counts although keys keep coming; a paste that flows is let flow."""

TORN: Final = 1.5
"""Seconds without more text until a paste that lacks its end is over."""

TYPED: Final = 16
"""Characters at most that one key sends. So few do not keep a torn paste open, unless they come one after the other."""

FLOW: Final = 120
"""Characters a second that come in such small reads only where something flows: a slow line, and no key held down."""

SUSPECT: Final = 10.0
"""Seconds after the last text of a torn paste in which its rest may come yet, without a start marker."""

ENTER_GRACE: Final = 0.3
"""Seconds that an Enter waits meanwhile: followed by more text, it is a line break of the paste."""

LONGEST: Final = 16_000_000
"""Most characters of a paste; the rest is dropped."""

REST: Final = 8192
"""Characters of the rest that are looked at for the end marker."""

ALSO_TYPED: Final = "\u00a0\u2009\u202f\u3000\u200c\u200d"
"""Spaces of other kinds, such as that of a Japanese keyboard, and what joins or parts letters and emoji."""

STOP_KEYS: Final = ("\x03", "\x1b[99;5u")
"""Ctrl+C, plain and as kitty's protocol writes it: after a pause it is a key in a paste too."""

ALT_ENTER: Final = ("\x1b\r", "\x1b\n")
"""What terminals send for it that know no protocol of keys, and VS Code for Shift+Enter when it is told to."""

OTHER_KEY: Final = re.compile(r"\x1b\[27;(\d+);(\d+)~")
"""A key as xterm's modifyOtherKeys and tmux's extended-keys write it: modifiers, then the code."""

WHOLE_KEY: Final = re.compile(r"\x1b\[(\d*)[\d:]*;(\d*)(?::(\d*))?((?:;[\d:]*)?[u~ABCDEFHPQRS])")
"""A key as kitty's protocol writes it where it also tells other layouts' keys, and presses from releases."""

RELEASED: Final = "3"

SEQUENCES: Final = re.compile(r"(?:\x1b(?:\[[0-9;:<?]*[A-Za-z~]|O[A-Za-z]|[^\[O\x1b]))+")
"""Keys, the mouse and reports, as no pasted text writes them."""

SEQUENCE_BEGUN: Final = re.compile(r"\x1b(?:\[[0-9;:<?]*|O)?")

MOUSE: Final = re.compile(r"(?:\x1b\[<[\d;]+[mM])+")

MARKERS: Final = (BRACKETED_PASTE_START, BRACKETED_PASTE_END)

ENTER: Final = re.compile(r"[\r\n]|\x1b(?:\[13(?:[;:][\d;:]*)?u|\[27;\d+;13~|OM|\r|\n)")

BACKSLASH_ENTER: Final = "\\\r\n"
"""What VS Code sends for Shift+Enter when older programs configured it: one new line, not two."""


class TypedCharacter(events.Key):
    """A character that is typed like every other one, though Python does not call it printable."""

    @property
    def is_printable(self) -> bool:
        """It is text."""
        return True

    def copy(self) -> TypedCharacter:
        """Another one of the same."""
        return TypedCharacter(self.key, self.character)


TypedCharacter.handler_name = events.Key.handler_name  # who handles keys handles these


class PasteGuard(XTermParser):
    """Textual's parser, with pastes filtered out first. `feed` it what was read, `tick` it every `patience`."""

    def __init__(self, debug: bool = False, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._beginning = ""
        """The end of what was read outside of a paste, when it may begin a marker."""
        self._pasting = False
        self._parts: list[str] = []
        self._size = 0
        self._rest = ""
        """Of a paste that is too long: the end of it, with the end marker and the keys after it."""
        self._beyond = 0
        """Characters that came after there were too many."""
        self._tail = ""
        """The last characters of the paste: a marker may lie across reads."""
        self._ended: float | None = None
        """When the first end marker came."""
        self._wary = False
        """More text than a key sends followed it."""
        self._last = self._grown = 0.0
        """When anything came, and when more came than keys send."""
        self._level = 0.0
        """Characters a second in small reads, about."""
        self._patient = TORN
        """Seconds that this paste may stand still without its end."""
        self._suspect = 0.0
        """Until when text without a start marker may be the rest of a torn paste."""
        self._held = ""
        """Input that is a key if nothing follows it."""
        super().__init__(debug)

    @property
    def patience(self) -> float:
        """Seconds until the next `tick` is due."""
        return GRACE if self._held or (self._pasting and self._ended is not None) else 0.1

    def feed(self, data: str) -> Iterable[Message]:
        """The messages of what was read; an empty text is the end of all."""
        if not data:
            yield from self._let_go()
            yield from self._end_paste()
            yield from super().feed("")
        elif self._pasting:
            yield from self._inside(data)
        elif self._held or self._clock() < self._suspect:
            yield from self._behind_torn(data)
        else:
            yield from self._outside(data)

    def tick(self) -> Iterable[Message]:
        """Handle timeouts: the end of a paste, or of an incomplete escape sequence."""
        if self._held:
            if self._clock() - self._last >= (ENTER_GRACE if ENTER.fullmatch(self._held) else GRACE):
                yield from self._let_go()
        elif not self._pasting:
            waited = self._timeout_time is not None
            yield from super().tick()
            if waited and self._timeout_time is None:
                self._beginning = ""
        elif self._is_over(self._clock()):
            yield from self._end_paste()

    def _is_over(self, now: float) -> bool:
        if self._ended is None:
            return now - self._grown >= self._patient
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
            for key in super()._sequence_to_key_events(sequence, alt):
                yield TypedCharacter(key.key, key.character) if (key.character or "\n") in ALSO_TYPED else key
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
        self._begin_paste(TORN)
        self._suspect = self._last + SUSPECT
        if data[cut:]:
            yield from self._inside(data[cut:])

    def _begin_paste(self, patience: float) -> None:
        self._beginning, self._pasting, self._patient = "", True, patience
        self._last = self._grown = self._clock()

    def _behind_torn(self, data: str) -> Iterable[Message]:
        """More than a key at once is the rest of the torn paste, and so is all that follows closely."""
        if SEQUENCES.fullmatch(data) and not (ENTER.fullmatch(data) or data in MARKERS):
            yield from self._outside(data)  # whatever waits: it is not text
            return
        text, self._held = self._held + data, ""
        before, start, behind = text.partition(BRACKETED_PASTE_START)
        if start or (SEQUENCES.fullmatch(text) and not ENTER.fullmatch(text) and text != BRACKETED_PASTE_END):
            if start and before:
                yield from self._go_on(before)
                yield from self._end_paste()
            yield from self._outside(start + behind if start else text)
        elif len(text) == 1 or ENTER.fullmatch(text) or SEQUENCE_BEGUN.fullmatch(text):
            self._held, self._last = text, self._clock()
        else:
            yield from self._go_on(text)

    def _go_on(self, text: str) -> Iterable[Message]:
        """The rest of a torn paste, as a paste of its own."""
        yield from super().feed(BRACKETED_PASTE_START)
        self._begin_paste(WARY_GRACE)
        yield from self._inside(text)

    def _let_go(self) -> Iterable[Message]:
        """What was held was a key."""
        held, self._held = self._held, ""
        if held:
            yield from self._outside(held)

    def _inside(self, data: str) -> Iterable[Message]:
        now = self._clock()
        if self._ended is None and data in STOP_KEYS and now - self._last >= GRACE:
            yield from self._end_paste()
            yield from super().feed(data)
            return
        flows = self._flows(data, now)
        self._last = now
        if flows:
            self._grown, self._suspect = now, now + SUSPECT
        self._keep(data)
        if self._ended is not None:
            self._wary = self._wary or flows
        elif (at := (self._tail + data).find(BRACKETED_PASTE_END)) >= 0:
            self._ended = now
            self._wary = len(self._tail + data) - at - len(BRACKETED_PASTE_END) > TYPED
        self._tail = (self._tail + data)[1 - len(BRACKETED_PASTE_END) :]

    def _flows(self, data: str, now: float) -> bool:
        """More than keys send: at once, or in the last second."""
        if len(data) > TYPED:
            return MOUSE.fullmatch(data) is None
        faded = self._level * exp(self._last - now)
        self._level = min(faded + len(data), FLOW * 1.25)  # it is forgotten soon after the flow
        return self._level > FLOW

    def _keep(self, data: str) -> None:
        if self._size < LONGEST:
            self._parts.append(data)
            self._size += len(data)
        else:
            self._rest = (self._rest + data)[-REST:]
            self._beyond += len(data)

    def _end_paste(self) -> Iterable[Message]:
        """The paste in one message; then what was read after its end, as if it came now."""
        if not self._pasting:
            return
        before, end, after = self._taken_apart()
        if end:
            self._suspect = 0.0
        else:
            before = MOUSE.sub("", before)  # the mouse moved while the end did not come
        alone = not before and self._patient != TORN
        self._pasting, self._ended, self._wary, self._tail = False, None, False, ""
        self._parts, self._size, self._rest, self._beyond, self._level = [], 0, "", 0, 0.0
        for message in super().feed(BRACKETED_PASTE_END):
            if not isinstance(message, events.Paste):
                yield message
        if not alone:
            yield events.Paste(clean(before))
        if after:
            yield from self.feed(after)

    def _taken_apart(self) -> tuple[str, bool, str]:
        """The paste, whether its end came, and what follows it."""
        text = "".join(self._parts)
        if self._beyond <= REST:
            text += self._rest
            at = text.rfind(BRACKETED_PASTE_END)
            kept = text if at < 0 else text[:at]
            gone = max(0, len(kept) - self._size)
        else:
            at = self._rest.rfind(BRACKETED_PASTE_END)
            kept, gone = text, self._beyond - (len(self._rest) - at if at >= 0 else 0)
            text = self._rest
        after = text[at + len(BRACKETED_PASTE_END) :] if at >= 0 else ""
        if gone:
            kept = f"{kept[: self._size]}\n[… {gone:,} more characters of this paste were left out]"
        return kept, at >= 0, after


def _marker_begun(text: str) -> str:
    """The longest end of `text` that a start marker may begin with."""
    at = text.rfind("\x1b")
    end = text[at:] if at >= 0 else ""
    return end if BRACKETED_PASTE_START.startswith(end) else ""
