"""What stands in the composer as plain values: big pastes as chips, and the history of what was written (U8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

CHIP_CHARACTERS: Final = 2_000
CHIP_LINES: Final = 20
"""A paste of so many characters or lines becomes a chip."""

OPEN_CHARACTERS: Final = 60_000
OPEN_LINE: Final = 8_000
"""What is longer, in all or in one line, stays a chip: a key into such a text takes too long."""

CHIPS_KEPT: Final = 48_000_000
"""Characters of pastes that are kept for undo and history; beyond them the oldest that nothing shows are dropped."""

ENTRIES: Final = 500
"""Messages that the history holds."""

LABEL: Final = re.compile(r"⟦paste (\d+) · [^⟦⟧\n]{1,60}⟧")


class DraftText(msgspec.Struct, frozen=True, kw_only=True):
    """A text as it stands in the composer, with what its chips stand for."""

    text: str = ""
    chips: dict[str, str] = msgspec.field(default_factory=dict)
    """Label → pasted text."""

    @property
    def blank(self) -> bool:
        """True when there is nothing to send."""
        return not self.text.strip()

    @property
    def whole(self) -> str:
        """What is sent: pastes in the place of their chips."""
        return expanded(self.text, self.chips)


NO_DRAFT: Final = DraftText()


def expanded(text: str, chips: Mapping[str, str]) -> str:
    """`text` with every known chip replaced by what it stands for, once: a paste may hold what looks like a chip."""
    return LABEL.sub(lambda found: chips.get(found[0], found[0]), text) if chips else text


def is_big(text: str) -> bool:
    """True for a paste that becomes a chip."""
    return len(text) >= CHIP_CHARACTERS or text.count("\n") + 1 >= CHIP_LINES


def can_open(text: str) -> bool:
    """True for what may stand in the composer character by character."""
    return len(text) <= OPEN_CHARACTERS and max(map(len, text.split("\n"))) <= OPEN_LINE


def size_in_words(text: str) -> str:
    """`812 lines, 31 kB`; a single line in characters."""
    lines = text.count("\n") + (not text.endswith("\n"))
    if lines < 2:
        return f"{len(text):,} characters"
    size = len(text)
    amount = f"{size} B" if size < 1000 else f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
    return f"{lines:,} lines, {amount}"


class Chips:
    """Pastes by the labels that stand for them. A label once given is never given to another text."""

    def __init__(self, shown: Callable[[], Iterable[DraftText]] = lambda: ()) -> None:
        """What `shown` tells keeps its pastes, however many there are."""
        self.texts: dict[str, str] = {}
        self._shown = shown
        self._count = 0

    def add(self, text: str) -> str:
        """A label for `text`."""
        label = self._add(text)
        self._forget({label})
        return label

    def _add(self, text: str) -> str:
        self._count += 1
        label = f"⟦paste {self._count} · {size_in_words(text)}⟧"
        self.texts[label] = text
        return label

    def adopt(self, written: DraftText) -> str:
        """The text of something kept, with labels of ours for its chips."""
        names = {label: self._name(label, text) for label, text in written.chips.items()}
        self._forget(set(names.values()))
        return expanded(written.text, names)

    def _name(self, label: str, text: str) -> str:
        known = self.texts.get(label)
        if known == text:
            return label
        number = LABEL.fullmatch(label)
        if known is not None or number is None or len(number[1]) > 9:
            return self._add(text)
        self._count = max(self._count, int(number[1]))
        self.texts[label] = text
        return label

    def within(self, text: str) -> DraftText:
        """`text` with those chips that stand in it."""
        found = {label[0]: self.texts[label[0]] for label in LABEL.finditer(text) if label[0] in self.texts}
        return DraftText(text=text, chips=found)

    def spans(self, line: str) -> list[tuple[int, int]]:
        """From where to where chips stand in a line."""
        if not self.texts or "⟦" not in line:
            return []
        return [found.span() for found in LABEL.finditer(line) if found[0] in self.texts]

    def widened(self, line: str, column: int, *, end: bool) -> int:
        """`column`, or the edge of the chip that it lies in: its end or its beginning."""
        return next((span[end] for span in self.spans(line) if span[0] < column < span[1]), column)

    def _forget(self, new: set[str]) -> None:
        """Drop the oldest pastes beyond CHIPS_KEPT that nothing shows; `new` ones are about to be shown."""
        size = sum(map(len, self.texts.values()))
        if size <= CHIPS_KEPT:
            return
        wanted = new.union(label for draft_text in self._shown() for label in draft_text.chips)
        for label in [label for label in self.texts if label not in wanted]:
            size -= len(self.texts.pop(label))
            if size <= CHIPS_KEPT:
                return


class InputHistory:
    """What was sent or set aside, oldest first; the unsent draft behind the newest; what was changed on the way.

    Nothing that was written is lost by looking at something else.
    """

    def __init__(self) -> None:
        self.entries: list[DraftText] = []
        self._changed: dict[int, DraftText] = {}
        """Of the places that were left: the draft, and entries that are other than they were."""
        self.place: int | None = None
        """None at the draft."""

    def load(self, earlier: Iterable[DraftText]) -> None:
        """Put what earlier sessions wrote before what is there."""
        own = {_key(entry) for entry in self.entries}
        newest_first = {
            _key(entry): entry for entry in reversed([*earlier]) if not entry.blank and _key(entry) not in own
        }
        before = [*newest_first.values()][::-1]
        before = before[max(0, len(before) + len(self.entries) - ENTRIES) :]
        if self.place is not None:
            self.place += len(before)
        draft = len(self.entries)
        self._changed = {index + len(before): entry for index, entry in self._changed.items() if index <= draft}
        self.entries = before + self.entries

    def step(self, by: int, shown: DraftText) -> DraftText | None:
        """The entry before (-1) or behind (1) the one shown, as it was left; None when there is none."""
        here = len(self.entries) if self.place is None else self.place
        there = here + by
        if not 0 <= there <= len(self.entries):
            return None
        self._changed.pop(here, None)
        if here == len(self.entries) or shown != self.entries[here]:
            self._changed[here] = shown
        self.place = there if there < len(self.entries) else None
        return self._changed.get(there) or (self.entries[there] if there < len(self.entries) else NO_DRAFT)

    def elsewhere(self) -> list[DraftText]:
        """What was changed and is not shown: entries first, the draft last."""
        here = len(self.entries) if self.place is None else self.place
        return [entry for index, entry in sorted(self._changed.items()) if index != here and not entry.blank]

    def remember(self, written: DraftText) -> list[DraftText]:
        """`written` was sent or set aside. Returns what is new in the history: it, and before it what was changed
        elsewhere on the way, but for the draft (`draft_left`)."""
        draft, here = len(self.entries), self.place
        left = [entry for index, entry in sorted(self._changed.items()) if index < draft and index != here]
        new = [entry for entry in (*left, written) if not entry.blank]
        for entry in new:
            if self.entries and self.entries[-1] == entry:
                self.entries.pop()
            self.entries.append(entry)
        del self.entries[: max(0, len(self.entries) - ENTRIES)]
        self._changed.clear()
        self.place = None
        return new

    def add(self, written: DraftText) -> list[DraftText]:
        """A text from elsewhere is the newest one now; what is shown stays, and so does what was changed on the way.
        Returns what is new in the history."""
        if written.blank or (self.entries and self.entries[-1] == written):
            return []
        draft = len(self.entries)
        self.entries.append(written)
        self._changed = {index + (index == draft): entry for index, entry in self._changed.items()}
        return [written]

    def everything(self) -> list[DraftText]:
        """All that can be shown again."""
        return [*self.entries, *self._changed.values()]

    def draft_left(self) -> DraftText:
        """The unsent draft, when something else is shown."""
        return NO_DRAFT if self.place is None else self._changed.get(len(self.entries), NO_DRAFT)


def _key(written: DraftText) -> tuple[str, tuple[tuple[str, str], ...]]:
    return written.text, tuple(sorted(written.chips.items()))
