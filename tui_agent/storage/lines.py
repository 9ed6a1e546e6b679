"""Converting records to lines of `events.jsonl` and back."""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from functools import cache
from typing import Any

import msgspec

from tui_agent.events import TABLE, VERSION, Event, Record, UnknownEvent

MAX_LINE = 16 << 20
"""Maximum size of a record's line in bytes."""

_CRC = b',"crc":"'
_HEAD = re.compile(
    rb'\{"v":\d{1,9},"seq":([1-9]\d{0,17}),"at":"[^"\\]*","type":"([a-z_.]+)",'
    rb'"run":"[^"\\]*","node":"([^"\\]*)",'
)
"""Start of a line written by this program: number, type and node."""


class RecordTooBig(ValueError):
    """The event is too large for a line; its large content belongs in a separate file."""


# --- writing --------------------------------------------------------------------------------


def encode_json(value: Any) -> bytes:
    """Encode as one line of JSON; lone surrogates are escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        builtins = msgspec.to_builtins(value)
        return json.dumps(builtins, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def encode_event(event: Event) -> bytes:
    """Encode the event's fields. Raises TypeError for unsupported data, and RecordTooBig."""
    data = encode_json(event.raw if isinstance(event, UnknownEvent) else event)
    if len(data) > MAX_LINE - 4096:
        raise RecordTooBig(f"{event.type} holds {len(data)} bytes; {MAX_LINE - 4096} are allowed")
    return data


def to_line(record: Record, log: int, data: bytes | None = None, keep: Any = None) -> bytes:
    """Encode a record as a line.

    `log` is the size of chat_history.log before its projection, `data` the encoded event, `keep` the state that the
    journal's own readers need to start from a `state.saved`.
    """
    event = record.event
    name = event.name if isinstance(event, UnknownEvent) else event.type
    body = b'{"v":%d,"seq":%d,"at":%s,"type":%s,"run":%s,"node":%s,"parent":%s,"data":%s,"log":%d' % (
        VERSION,
        record.seq,
        encode_json(record.at),
        encode_json(name),
        encode_json(record.run),
        encode_json(record.node),
        encode_json(record.parent),
        encode_event(event) if data is None else data,
        log,
    )
    if keep is not None:
        body += b',"keep":' + encode_json(keep)
    return b'%s,"crc":"%08x"}\n' % (body, zlib.crc32(body))


# --- reading one line -----------------------------------------------------------------------


class _Envelope(msgspec.Struct):
    seq: int
    type: str
    v: int = 1
    at: str = ""
    run: str = ""
    node: str = ""
    parent: str = ""
    data: msgspec.Raw = msgspec.Raw(b"{}")
    log: int = 0
    keep: msgspec.Raw = msgspec.Raw(b"null")


class JournalLine:
    """An intact line of the journal. `record()` decodes its event on demand."""

    __slots__ = ("_envelope", "_text", "crc", "node", "offset", "seq", "size", "type")

    def __init__(self, text: bytes, head: tuple[int, str, str], crc: int, offset: int, size: int) -> None:
        self.seq, self.type, self.node = head
        self.crc = crc
        self.offset = offset
        """Offset of the line."""
        self.size = size
        """Size in bytes, including the newline."""
        self._text = text
        self._envelope: _Envelope | None = None

    def _load_envelope(self) -> _Envelope:
        if self._envelope is None:
            parsed = _parse_envelope(self._text)
            # The checksum is right, so the line is as it was written.
            self._envelope = parsed or _Envelope(self.seq, self.type, data=msgspec.Raw(b"null"))
        return self._envelope

    @property
    def raw(self) -> bytes:
        """The bytes, with one newline."""
        return self._text + b"\n"

    @property
    def log(self) -> int:
        """Size of chat_history.log before this record's projection."""
        return self._load_envelope().log

    @property
    def keep(self) -> Any:
        """The `keep` value given to `to_line`, or None."""
        try:
            return json.loads(bytes(self._load_envelope().keep))
        except (ValueError, RecursionError):
            return None

    def record(self) -> Record:
        """Decode the record; an unknown event becomes an `UnknownEvent`."""
        line = self._load_envelope()
        event = _to_event(line.type, bytes(line.data), line.v)
        return Record(seq=line.seq, at=line.at, event=event, run=line.run, node=line.node, parent=line.parent)


class Damage(msgspec.Struct, frozen=True):
    """A range of unreadable bytes, which remain in the file."""

    offset: int
    size: int
    why: str
    """`torn`, `damaged`, `too long`, `order` (a known number with other content), `gap` (numbers are missing) or
    `retried` (a failed write, repeated completely on the next line)."""
    lost: int = 0
    """Number of records known to be missing here."""
    seq: int = 0
    """Number of the last missing record; 0 if it is not known."""


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_event_decoder = cache(msgspec.json.Decoder)


def _to_event(name: str, data: bytes, version: int) -> Event:
    cls = TABLE.get(name)
    if cls is not None and version <= VERSION:
        try:
            event: Event = _event_decoder(cls).decode(data)
            return event
        except (msgspec.DecodeError, RecursionError):
            with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
                return msgspec.convert(json.loads(data), cls)
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        raw = None
    return UnknownEvent(name=name, raw=raw if isinstance(raw, dict) else {"value": raw})


def parse_line(raw: bytes, offset: int = 0) -> JournalLine | None:
    """Parse a line; None if it is not intact."""
    text = raw.rstrip(b"\r\n")
    crc = zlib.crc32(memoryview(text)[: -len(_CRC) - 10])
    if not text.endswith(b'%s%08x"}' % (_CRC, crc)):
        return None
    if (match := _HEAD.match(text)) is not None:
        head = (int(match[1]), match[2].decode("ascii"), match[3].decode("utf-8", "replace"))
        return JournalLine(text, head, crc, offset, len(raw))
    envelope = _parse_envelope(text)
    if envelope is None or envelope.seq < 1 or not bytes(envelope.data).startswith(b"{"):
        return None
    line = JournalLine(text, (envelope.seq, envelope.type, envelope.node), crc, offset, len(raw))
    line._envelope = envelope
    return line


def _parse_envelope(text: bytes) -> _Envelope | None:
    try:
        return _decode_envelope(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _parse_leniently(text)


def _parse_leniently(text: bytes) -> _Envelope | None:
    """Parse an envelope with escaped lone surrogates, which msgspec rejects."""
    try:
        fields = json.loads(text)
        data = json.dumps(fields.pop("data", {})).encode("ascii")
        keep = json.dumps(fields.pop("keep", None)).encode("ascii")
        envelope = msgspec.convert(fields, _Envelope)
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    envelope.data, envelope.keep = msgspec.Raw(data), msgspec.Raw(keep)
    return envelope
