"""Texts that grow while they are shown: whole ones, and ends of long ones."""

from __future__ import annotations

from collections import deque

TAIL = 64_000
"""Characters of live output that a card keeps; the log has the rest."""


class Growing:
    """Text that grows at its end: adding costs what is added, reading joins once and keeps the result."""

    __slots__ = ("chunks", "size")

    def __init__(self, text: str = "") -> None:
        self.chunks: list[str] = [text] if text else []
        self.size = len(text)

    def add(self, text: str) -> None:
        """Append `text`."""
        self.chunks.append(text)
        self.size += len(text)

    @property
    def text(self) -> str:
        """All of it."""
        if len(self.chunks) > 1:
            self.chunks = ["".join(self.chunks)]
        return self.chunks[0] if self.chunks else ""

    def since(self, place: int) -> str:
        """What stands behind the first `place` characters; cost grows with the answer only."""
        missing, parts = self.size - place, []
        for chunk in reversed(self.chunks):
            if missing <= 0:
                break
            parts.append(chunk[-missing:] if missing < len(chunk) else chunk)
            missing -= len(chunk)
        return "".join(reversed(parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Growing) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]  # mutable, so not a key

    def __repr__(self) -> str:
        return f"Growing({self.text!r})"


class Tail:
    """The end of live output, at most `TAIL` characters, with a count of all lines that went through."""

    __slots__ = ("_chunks", "_size", "lines")

    def __init__(self) -> None:
        self._chunks: deque[str] = deque()
        self._size = 0
        self.lines = 0

    def add(self, text: str) -> None:
        """Append `text`; the oldest chunks fall out."""
        text, self.lines = text[-TAIL:], self.lines + text.count("\n")
        self._chunks.append(text)
        self._size += len(text)
        while self._size - len(self._chunks[0]) >= TAIL:
            self._size -= len(self._chunks.popleft())

    @property
    def text(self) -> str:
        """The last `TAIL` characters."""
        return "".join(self._chunks)[-TAIL:]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tail) and (self.lines, self.text) == (other.lines, other.text)

    __hash__ = None  # type: ignore[assignment]  # mutable, so not a key

    def __repr__(self) -> str:
        return f"Tail({self.text!r}, lines={self.lines})"
