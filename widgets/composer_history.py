"""Texts of the composer: drafts with long pastes as chips, and the history of what was typed (U8)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

MIN_CHIP_CHARACTERS: Final = 2_000
MIN_CHIP_LINES: Final = 20
"""A paste with this many characters or lines becomes a chip."""

MAX_EXPANDED_CHARACTERS: Final = 60_000
MAX_EXPANDED_LINE: Final = 8_000
"""A text that is longer, or has a longer line, stays a chip: each key would take too long in it."""

MAX_CHIP_CHARACTERS: Final = 48_000_000
"""Total size of the pastes stored for undo and history; beyond it, the oldest unused ones are dropped."""

MAX_ENTRIES: Final = 500
"""Number of messages in the history."""

CHIP_LABEL: Final = re.compile(r"⟦paste (\d+) · [^⟦⟧\n]{1,60}⟧")


class DraftText(msgspec.Struct, frozen=True, kw_only=True):
    """A text in the composer, and the pastes behind its chips. The fields are stored on disk."""

    text: str = ""
    chips: dict[str, str] = msgspec.field(default_factory=dict)
    """Label → pasted text."""

    @property
    def blank(self) -> bool:
        """Whether there is nothing to send."""
        return not self.text.strip()

    @property
    def full_text(self) -> str:
        """The text with its chips expanded, as it is sent."""
        return expand_chips(self.text, self.chips)


NO_DRAFT: Final = DraftText()


def expand_chips(text: str, chips: Mapping[str, str]) -> str:
    """Replace the labels in `chips` by their texts, but not labels within these texts."""
    return CHIP_LABEL.sub(lambda match: chips.get(match[0], match[0]), text) if chips else text


def becomes_chip(text: str) -> bool:
    """Return whether a paste is long enough to become a chip."""
    return len(text) >= MIN_CHIP_CHARACTERS or text.count("\n") + 1 >= MIN_CHIP_LINES


def can_expand(text: str) -> bool:
    """Return whether the composer can hold a text without chips."""
    return len(text) <= MAX_EXPANDED_CHARACTERS and max(map(len, text.split("\n"))) <= MAX_EXPANDED_LINE


def format_text_size(text: str) -> str:
    """Return `812 lines, 31 kB`, or the number of characters of a single line."""
    lines = text.count("\n") + (not text.endswith("\n"))
    if lines < 2:
        return f"{len(text):,} characters"
    size = len(text)
    amount = f"{size} B" if size < 1000 else f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
    return f"{lines:,} lines, {amount}"


class Chips:
    """The pastes of a composer by the labels of their chips. A label is never reused for another text."""

    def __init__(self, in_use: Callable[[], Iterable[DraftText]] = lambda: ()) -> None:
        """`in_use` returns drafts whose pastes must not be dropped."""
        self.texts: dict[str, str] = {}
        self._in_use = in_use
        self._count = 0

    def add(self, text: str) -> str:
        """Store a paste and return its label."""
        label = self._new_label(text)
        self._drop_unused({label})
        return label

    def _new_label(self, text: str) -> str:
        self._count += 1
        label = f"⟦paste {self._count} · {format_text_size(text)}⟧"
        self.texts[label] = text
        return label

    def adopt(self, draft: DraftText) -> str:
        """Store the pastes of a saved draft, and return its text with the labels that they have here."""
        labels = {label: self._label_of(label, text) for label, text in draft.chips.items()}
        self._drop_unused(set(labels.values()))
        return expand_chips(draft.text, labels)

    def _label_of(self, label: str, text: str) -> str:
        """Store a paste, under its former label if that is free."""
        known = self.texts.get(label)
        if known == text:
            return label
        match = CHIP_LABEL.fullmatch(label)
        if known is not None or match is None or len(match[1]) > 9:
            return self._new_label(text)
        self._count = max(self._count, int(match[1]))
        self.texts[label] = text
        return label

    def to_draft(self, text: str) -> DraftText:
        """Return a text with the pastes of its chips."""
        labels = (match[0] for match in CHIP_LABEL.finditer(text))
        return DraftText(text=text, chips={label: self.texts[label] for label in labels if label in self.texts})

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Return the start and end columns of the chips in a line."""
        if not self.texts or "⟦" not in line:
            return []
        return [match.span() for match in CHIP_LABEL.finditer(line) if match[0] in self.texts]

    def snap(self, line: str, column: int, *, to_end: bool) -> int:
        """Return `column`, or the start or end of the chip around it."""
        return next((span[to_end] for span in self.spans(line) if span[0] < column < span[1]), column)

    def _drop_unused(self, new: set[str]) -> None:
        """Drop the oldest unused pastes beyond the maximum size; `new` ones are about to be used."""
        size = sum(map(len, self.texts.values()))
        if size <= MAX_CHIP_CHARACTERS:
            return
        used = new.union(label for draft in self._in_use() for label in draft.chips)
        for label in [label for label in self.texts if label not in used]:
            size -= len(self.texts.pop(label))
            if size <= MAX_CHIP_CHARACTERS:
                return


class InputHistory:
    """Texts that were sent or set aside, oldest first, followed by the unsent draft.

    Entries can be edited while browsing; nothing typed is lost by showing another entry.
    """

    def __init__(self) -> None:
        self.entries: list[DraftText] = []
        self.position: int | None = None
        """Index of the entry that is shown; None for the draft."""
        self._edits: dict[int, DraftText] = {}
        """Index → edited text of an entry."""
        self._draft = NO_DRAFT
        """The unsent draft, while an entry is shown."""

    def load(self, earlier: Iterable[DraftText]) -> None:
        """Insert the entries of earlier sessions before the current ones."""
        present = {_key(entry) for entry in self.entries}
        newest_first: dict[object, DraftText] = {}
        for entry in reversed([*earlier]):
            if not entry.blank and (key := _key(entry)) not in present:
                newest_first.setdefault(key, entry)
        older = [*newest_first.values()][: MAX_ENTRIES - len(self.entries)][::-1]
        self.entries = older + self.entries
        self._edits = {index + len(older): edit for index, edit in self._edits.items()}
        if self.position is not None:
            self.position += len(older)

    def step(self, by: int, shown: DraftText) -> DraftText | None:
        """Move to an older (-1) or newer (1) text and return it, with earlier edits; None beyond the ends.

        `shown` is the current text, which is stored if it was edited.
        """
        end = len(self.entries)
        current = end if self.position is None else self.position
        target = current + by
        if not 0 <= target <= end:
            return None
        self._edits.pop(current, None)
        if current == end:
            self._draft = shown
        elif shown != self.entries[current]:
            self._edits[current] = shown
        self.position = target if target < end else None
        return self._draft if target == end else self._edits.get(target, self.entries[target])

    def hidden_texts(self) -> list[DraftText]:
        """Return edited entries and the draft, without the text that is shown."""
        return [text for text in (*self._hidden_edits(), self.unsent_draft()) if not text.blank]

    def _hidden_edits(self) -> list[DraftText]:
        return [edit for index, edit in sorted(self._edits.items()) if index != self.position]

    def record(self, draft: DraftText) -> list[DraftText]:
        """Append a text that was sent or set aside, after all edited entries, and show the draft.

        The unsent draft is forgotten. Returns the new entries.
        """
        new = [text for text in (*self._hidden_edits(), draft) if not text.blank]
        for entry in new:
            if self.entries and self.entries[-1] == entry:
                self.entries.pop()
            self.entries.append(entry)
        del self.entries[: max(0, len(self.entries) - MAX_ENTRIES)]
        self._edits.clear()
        self.position, self._draft = None, NO_DRAFT
        return new

    def add(self, draft: DraftText) -> list[DraftText]:
        """Append a text that is not from the composer; what is shown stays. Returns the new entries."""
        if draft.blank or (self.entries and self.entries[-1] == draft):
            return []
        self.entries.append(draft)
        return [draft]

    def all_texts(self) -> list[DraftText]:
        """Return everything that can be shown again."""
        return [*self.entries, *self._edits.values(), self._draft]

    def unsent_draft(self) -> DraftText:
        """Return the draft while an entry is shown."""
        return NO_DRAFT if self.position is None else self._draft


def _key(draft: DraftText) -> tuple[str, tuple[tuple[str, str], ...]]:
    return draft.text, tuple(sorted(draft.chips.items()))
