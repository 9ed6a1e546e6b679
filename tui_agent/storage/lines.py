"""One record as one line of `events.jsonl`, and back."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import msgspec

from tui_agent.events import TABLE, VERSION, Event, Record, UnknownEvent

MAX_LINE = 16 << 20
"""Bytes in a record's line at most."""

_CRC = b',"crc":"'
_HEAD = re.compile(
    rb'\{"v":\d{1,9},"seq":([1-9]\d{0,17}),"at":"[^"\\]*","type":"([a-z_.]+)",'
    rb'"run":"[^"\\]*","node":"([^"\\]*)",'
)
"""How a line begins that we wrote: number, type and node."""


class RecordTooBig(ValueError):
    """An event is larger than a line may be; what makes it so belongs into a file of its own."""


# --- writing --------------------------------------------------------------------------------


def encode_json(value: Any) -> bytes:
    """`value` as one line of JSON; lone surrogates, which UTF-8 can't hold, are escaped and survive."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value)
        return json.dumps(plain, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def encode_event(event: Event) -> bytes:
    """The event's fields as JSON. Raises TypeError for what is not plain data and RecordTooBig."""
    data = encode_json(event.raw if isinstance(event, UnknownEvent) else event)
    if len(data) > MAX_LINE - 4096:
        raise RecordTooBig(f"{event.type} holds {len(data)} bytes; {MAX_LINE - 4096} are allowed")
    return data


def to_line(record: Record, log: int, data: bytes | None = None, keep: Any = None) -> bytes:
    """The record's line. `log` is the size of chat_history.log before its projection, `data` its encoded event,
    `keep` what the journal's own readers need beside a `state.saved` to start from there."""
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
    """An intact line of the journal. Its event is decoded only when `record()` is called."""

    __slots__ = ("_envelope", "_text", "crc", "node", "offset", "seq", "size", "type")

    def __init__(self, text: bytes, head: tuple[int, str, str], crc: int, offset: int, size: int) -> None:
        self.seq, self.type, self.node = head
        self.crc = crc
        self.offset = offset
        """Byte where it begins."""
        self.size = size
        """Bytes with the newline."""
        self._text = text
        self._envelope: _Envelope | None = None

    def _content(self) -> _Envelope:
        if self._envelope is None:
            known = _envelope_of(self._text)
            # its sum is right, so it is as somebody wrote it
            self._envelope = known or _Envelope(self.seq, self.type, data=msgspec.Raw(b"null"))
        return self._envelope

    @property
    def raw(self) -> bytes:
        """Its bytes, with one newline."""
        return self._text if self._text.endswith(b"\n") else self._text + b"\n"

    @property
    def log(self) -> int:
        """Size of chat_history.log before this record's projection."""
        return self._content().log

    @property
    def keep(self) -> Any:
        """What `to_line` was given; None when there is none or it can't be read."""
        try:
            return json.loads(bytes(self._content().keep))
        except (ValueError, RecursionError):
            return None

    def record(self) -> Record:
        """The record; an event that this program does not know comes as `UnknownEvent`."""
        head = self._content()
        event = _to_event(head.type, bytes(head.data), head.v)
        return Record(seq=head.seq, at=head.at, event=event, run=head.run, node=head.node, parent=head.parent)


class Damage(msgspec.Struct, frozen=True):
    """A place where records can't be read. The bytes stay in the file."""

    offset: int
    size: int
    why: str
    """`torn`, `damaged`, `too long`, `order` (an old number with other content), `gap` (numbers are missing),
    or `retried` (a failed write that was repeated in full on the next line: nothing is lost)."""
    lost: int = 0
    """Records known to be missing here, by their numbers."""


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decoders: dict[str, msgspec.json.Decoder[Any]] = {}


def _to_event(name: str, data: bytes, version: int) -> Event:
    cls = TABLE.get(name)
    if cls is not None and version <= VERSION:
        decoder = _decoders.get(name)
        if decoder is None:
            decoder = _decoders[name] = msgspec.json.Decoder(cls)
        try:
            event: Event = decoder.decode(data)
            return event
        except (msgspec.DecodeError, RecursionError):
            try:
                return msgspec.convert(json.loads(data), cls)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                pass
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        raw = None
    return UnknownEvent(name=name, raw=raw if isinstance(raw, dict) else {"value": raw})


def parse_line(raw: bytes, offset: int = 0) -> JournalLine | None:
    """The line's content; None when it is not intact."""
    if raw[-19:-11] == _CRC and raw.endswith(b'"}\n'):  # as we write it
        crc = zlib.crc32(memoryview(raw)[:-19])
        if b"%08x" % crc == raw[-11:-3] and (head := _HEAD.match(raw)) is not None:
            return JournalLine(raw, _names(head), crc, offset, len(raw))
    text = raw.rstrip(b"\r\n")
    body, mark, tail = text.rpartition(_CRC)
    crc = zlib.crc32(body)
    if not mark or tail != b'%08x"}' % crc:
        return None
    if (head := _HEAD.match(text)) is not None:
        return JournalLine(text, _names(head), crc, offset, len(raw))
    envelope = _envelope_of(text)
    if envelope is None or envelope.seq < 1 or not bytes(envelope.data).startswith(b"{"):
        return None
    line = JournalLine(text, (envelope.seq, envelope.type, envelope.node), crc, offset, len(raw))
    line._envelope = envelope
    return line


def _names(head: re.Match[bytes]) -> tuple[int, str, str]:
    seq, kind, node = head.groups()
    return int(seq), kind.decode("ascii"), node.decode("utf-8", "replace")


def _envelope_of(text: bytes) -> _Envelope | None:
    try:
        return _decode_envelope(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _lenient(text)


def _lenient(text: bytes) -> _Envelope | None:
    """An envelope whose strings hold escaped lone surrogates, which the fast decoder does not take."""
    try:
        fields = json.loads(text)
        data = json.dumps(fields.pop("data", {})).encode("ascii")
        keep = json.dumps(fields.pop("keep", None)).encode("ascii")
        envelope = msgspec.convert(fields, _Envelope)
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    envelope.data, envelope.keep = msgspec.Raw(data), msgspec.Raw(keep)
    return envelope


def salvage(raw: bytes, offset: int) -> JournalLine | None:
    """A whole record glued behind a torn or zero-filled one on the same line."""
    at = raw.rfind(b'{"v":')
    return parse_line(raw[at:], offset + at) if at > 0 else None
