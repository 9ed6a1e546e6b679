"""Masks secrets in records before they are folded, live and replayed (A7).

The journal stays exact. `fold` also stores the exact action of a request and the exact text of the plan, which
decisions and edits need.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from tui_agent import events as e
from tui_agent.common.domain import Hunk
from tui_agent.text import DisplayStream, SecretMask, StreamMasker

T = TypeVar("T")

MIN_SECRET_LENGTH = 4
"""Shorter texts hold no secret."""
UNMASKED_FIELDS = frozenset(
    ("id", "call_id", "message_id", "digest", "sha256", "before", "after", "mode", "approval_mode", "verdict", "code")
)
"""Fields with ids, hashes and fixed words."""
UNMASKED_EVENTS = (e.StateSaved, e.UnknownEvent)
"""Events that are not shown."""
FLUSHING_EVENTS = (e.SessionOpened, e.SessionClosed, e.SessionRecovered, e.SessionForked, e.RunEnded)
"""Events that end all growing texts."""

Delta = e.TextDelta | e.ReasoningDelta | e.ToolOutput


class Redactor:
    """Masks records. The end of a growing text is held back while it may be the beginning of a secret."""

    def __init__(self, mask: SecretMask | None = None, *, reveals: bool = False) -> None:
        """`reveals`: invisible characters of growing texts are marked, too."""
        self.mask = mask or SecretMask({})
        self._stream = DisplayStream if reveals else StreamMasker
        self._growing: dict[tuple[str, type[Delta]], DisplayStream | StreamMasker] = {}

    def records(self, record: e.Record) -> list[e.Record]:
        """Return the masked record, after the held-back ends of the texts that it ends."""
        event = record.event
        if isinstance(event, UNMASKED_EVENTS):
            return [record]
        if isinstance(event, Delta):
            key = (record.node, type(event))
            stream = self._growing.get(key)
            if stream is None:
                stream = self._growing[key] = self._stream(self.mask)
            return [_with_event(record, msgspec.structs.replace(event, text=stream.feed(event.text)))]
        held_back = self._flush(record) if self._growing else []
        masked = self.redact(event)
        return [*held_back, record if masked is event else _with_event(record, masked)]

    def _flush(self, record: e.Record) -> list[e.Record]:
        """Return the held-back texts of the node, or of all nodes, that the record ends."""
        event = record.event
        if isinstance(event, e.ReplyEnded | e.ToolFinished):
            keys = [key for key in self._growing if key[0] == record.node]
        elif isinstance(event, FLUSHING_EVENTS):
            keys = list(self._growing)
        else:
            return []
        texts = [(key, self._growing.pop(key).flush()) for key in keys]
        return [
            msgspec.structs.replace(record, node=node, event=delta(text=text)) for (node, delta), text in texts if text
        ]

    def redact(self, value: T) -> T:
        """Return a text, plain data or a struct without secrets; the same object if there are none in it."""
        return cast(T, self._masked(value))

    def _masked(self, value: Any) -> Any:
        masked = value
        if isinstance(value, str):
            masked = self.mask.mask(value) if len(value) >= MIN_SECRET_LENGTH else value
        elif isinstance(value, Hunk):
            masked = self._hunk(value)
        elif isinstance(value, msgspec.Struct):
            masked = self._struct(value)
        elif isinstance(value, dict):
            masked_dict = {self.redact(key): self.redact(item) for key, item in value.items()}
            masked = masked_dict if masked_dict != value else value
        elif isinstance(value, list | tuple):
            masked_items = type(value)(self.redact(item) for item in value)
            masked = masked_items if masked_items != value else value
        return masked

    def _struct(self, value: msgspec.Struct) -> msgspec.Struct:
        changed = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            if not before or isinstance(before, int) or name in UNMASKED_FIELDS:
                continue
            after = self._masked(before)
            if after is not before:
                changed[name] = after
        return msgspec.structs.replace(value, **changed) if changed else value

    def _hunk(self, hunk: Hunk) -> Hunk:
        """Mask secrets that span lines, without changing the number of lines."""
        text = "\n".join(line.rstrip("\n") for line in hunk.lines)
        masked = self.mask.mask(text, keep_lines=True)
        return hunk if masked == text else msgspec.structs.replace(hunk, lines=tuple(masked.split("\n")))


def _with_event(record: e.Record, event: e.Event) -> e.Record:
    return msgspec.structs.replace(record, event=event)
