"""The past as a screen needs it: the pieces of a text that is there as a whole are left out (S3, U1).

A reply is journaled as it streams and once more when it ends. To who looks back the end tells all; the thousands of
records before it would only be read, masked and thrown away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tui_agent import events as e
from tui_agent.storage.journal import JournalReader
from tui_agent.storage.lines import MAX_LINE, Damage, Line

HELD_LINES = 20_000
HELD_BYTES = 8 << 20
"""How far a reply's end is looked for; a longer one is given piece by piece."""

SHORT = 2 << 20
"""Bytes of a journal that is read at once."""
END = 256 << 10
END_MAX = 8 << 20
"""Bytes of a longer one in which its end is looked for, first and at most."""

PIECES = frozenset((e.ReplyText.type, e.ReplyThought.type, e.ReplyPhase.type))
"""What a reply is made of until it ends."""
_THINKS = b'"phase":"thinking"'


class _Held:
    """A line in its place, until it is known whether it is needed."""

    __slots__ = ("line", "settled", "size")

    def __init__(self, line: Line | Damage) -> None:
        self.line: Line | Damage | None = line
        self.size = line.size
        self.settled = True


class _Replies:
    """The replies that go on, and their pieces, which their end may make needless."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Held]] = {}
        """By node."""

    def note(self, one: _Held, line: Line) -> None:
        """The next line, as it is held."""
        if line.type in PIECES:
            one.settled = False
            self._waiting.setdefault(line.node, []).append(one)
        elif line.type == e.ReplyEnded.type and (pieces := self._waiting.pop(line.node, None)):
            self._settle(pieces, line.record().event)

    def give_up(self) -> None:
        """What waits is given as it is."""
        for pieces in self._waiting.values():
            self._settle(pieces, None)
        self._waiting.clear()

    @staticmethod
    def _settle(pieces: list[_Held], end: e.Event | None) -> None:
        whole = isinstance(end, e.ReplyEnded) and all(
            _is_told(end, piece.line) for piece in pieces if isinstance(piece.line, Line)
        )
        for piece in pieces:
            piece.settled = True
            if whole:
                piece.line = None


def _is_told(end: e.ReplyEnded, piece: Line) -> bool:
    """Whether the end says all that the piece does, how long the model thought included."""
    if piece.type == e.ReplyText.type:
        return bool(end.text)
    if piece.type == e.ReplyThought.type:
        return bool(end.thought and end.thought_ms)
    return bool(end.thought_ms) or _THINKS not in piece.raw


def without_pieces(lines: Iterator[Line | Damage]) -> Iterator[Line | Damage]:
    """`lines` in their order, but for the pieces of replies whose end holds the whole. In bounded memory."""
    held: deque[_Held] = deque()
    size = 0
    replies = _Replies()
    for line in lines:
        one = _Held(line)
        held.append(one)
        size += one.size
        if isinstance(line, Line):
            replies.note(one, line)
        if size > HELD_BYTES or len(held) > HELD_LINES:
            replies.give_up()
        while held and held[0].settled:
            given = held.popleft()
            size -= given.size
            if given.line is not None:
                yield given.line
    yield from (one.line for one in held if one.line is not None)


def end_of(journal: Path, last: int) -> list[e.Record]:
    """The last records up to number `last`, from where the user said something on; none of a short journal, which is
    read at once. Blocks; raises OSError."""
    size = journal.stat().st_size
    reach = END if size > SHORT else 0
    while reach:
        found = [
            line for line in without_pieces(_lines_from(journal, size - reach)) if isinstance(line, Line)
        ]
        said = (place for place, line in enumerate(found) if line.type == e.UserSaid.type)
        begin = next(said, None)
        if begin is not None or reach >= min(size, END_MAX):
            return [line.record() for line in found[begin or 0 :] if line.seq <= last]
        reach = min(4 * reach, size)
    return []


def _lines_from(journal: Path, begin: int) -> Iterator[Line | Damage]:
    """From the first line on that begins behind byte `begin`."""
    with journal.open("rb") as file:
        file.seek(begin)
        start = begin + len(file.readline(MAX_LINE))
    return iter(JournalReader(journal, start=start))
