"""What a command wrote: kept in two rings of fixed size, and cut for the model (R-51, T2)."""

from __future__ import annotations

import codecs

from tui_agent.domain import Noun
from tui_agent.text import clean

HEAD = 256 * 1024
TAIL = 1024 * 1024
HEAD_LINES = 15
TAIL_LINES = 85
LINE_CAPS = (2000, 1000, 500, 200)
"""Characters a line; the first that brings the whole under TEXT_CAP is taken."""
TEXT_CAP = 30_000

_MAGIC = (
    (b"\x89PNG\r\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"\x7fELF", "ELF program"),
    (b"\x1f\x8b", "gzip data"),
    (b"PK\x03\x04", "zip archive"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"SQLite format 3", "SQLite database"),
)


class Presented(Noun, frozen=True, kw_only=True):
    """Output as the model gets it."""

    text: str
    note: str = ""
    """Set when the output is binary and therefore not shown."""
    cut: bool = False
    """True when something was left out."""


class Rings:
    """The first `head` and the last `tail` bytes of a stream, with counts of all of it."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._head_cap, self._tail_cap = head, tail
        self.head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0
        self._newlines = 0
        self._open_line = False

    def add(self, data: bytes) -> None:
        """Take in more. Costs as much as `data` is long, whatever came before."""
        self.total_bytes += len(data)
        self._newlines += data.count(b"\n")
        self._open_line = not data.endswith(b"\n")
        room = self._head_cap - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._tail_cap:
            del self._tail[: -self._tail_cap]

    @property
    def total_lines(self) -> int:
        """Lines, a last one without its newline included."""
        return self._newlines + (1 if self.total_bytes and self._open_line else 0)

    @property
    def tail(self) -> bytes:
        """What follows `head`: all of it, or the last bytes when there is a gap."""
        return bytes(self._tail[-self._tail_cap :]) if self._tail_cap else b""

    @property
    def gap(self) -> int:
        """Bytes between head and tail that are gone."""
        return self.total_bytes - len(self.head) - min(len(self._tail), self._tail_cap)


def is_binary(sample: bytes) -> bool:
    """True for bytes that no reader would take for text: many undecodable or control characters."""
    if not sample:
        return False
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(sample)
    odd = sum(1 for c in text if c == "\ufffd" or (c < " " and c not in "\n\r\t\b\f\x1b\0"))
    # NUL separates names in the output of `find -print0`; alone and between text it is no sign.
    doubled = sample.count(b"\0\0")
    return (odd + 4 * doubled) * 10 > len(text) or sample.count(b"\0") * 3 > len(sample)


def kind_of(sample: bytes) -> str:
    """What the bytes look like, in words."""
    return next((name for magic, name in _MAGIC if sample.startswith(magic)), "binary data")


def settle(line: str) -> str:
    """What a terminal would show of a line in the end: a progress bar's last state (R17.3)."""
    if "\r" not in line:
        return line
    return next((part for part in reversed(line.split("\r")) if part.strip()), "")


def present(rings: Rings, lines: tuple[int, int] = (HEAD_LINES, TAIL_LINES)) -> Presented:
    """The output for the model: so many lines of its head and of its tail, and how many are left out (T2, R17.1).

    Takes some ten milliseconds for full rings: call it in a thread when there is much.
    """
    head, tail = bytes(rings.head), rings.tail
    most_first, most_last = lines
    if is_binary(head[:8192]):
        note = f"The output is binary ({kind_of(head)}, {rings.total_bytes:,} bytes) and is not shown."
        return Presented(text="", note=note, cut=True)
    if rings.gap == 0:
        whole = _lines(head + tail)
        left = len(whole) - most_first - most_last
        if left <= 0:
            return _fit(whole, [], "")
        return _fit(whole[:most_first], whole[-most_last:], _left_out(left, rings))
    first, last = _lines(head), _lines(tail.lstrip(bytes(range(0x80, 0xC0))))
    begin = rings.total_lines - len(last)
    """Number of the line in which the tail begins."""
    first, last = first[:most_first], last[-most_last:]
    left = max(0, max(begin, rings.total_lines - len(last)) - len(first))
    marker = _left_out(left, rings) if left else f"[… {rings.gap:,} bytes left out …]"
    return _fit(first, last, marker)


def _left_out(lines: int, rings: Rings) -> str:
    return f"[… {lines:,} of {rings.total_lines:,} lines left out …]"


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\0", "\n")
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines


def _fit(first: list[str], last: list[str], marker: str) -> Presented:
    # A line is cut before it is cleaned, so that a line of a megabyte costs no more than a long one.
    cleaned = [[clean(settle(line)[: 8 * LINE_CAPS[0]]) for line in part] for part in (first, last)]
    sizes = [[len(settle(line)) for line in part] for part in (first, last)]
    cap = next((cap for cap in LINE_CAPS if _size(cleaned, cap) <= TEXT_CAP), LINE_CAPS[-1])
    cut = bool(marker)
    parts: list[str] = []
    for number, part in enumerate(cleaned):
        if number and marker:
            parts.append(marker)
        for line, size in zip(part, sizes[number], strict=True):
            long = len(line) > cap
            cut |= long
            hidden = max(size, len(line)) - cap
            parts.append(f"{line[:cap]} [… {hidden:,} more characters]" if long else line)
    return Presented(text="\n".join(parts), cut=cut)


def _size(parts: list[list[str]], cap: int) -> int:
    return sum(min(len(line), cap) + 1 for part in parts for line in part)
