"""What of a record may be seen: secrets out of every text, before the fold, live and replayed alike (A7).

The journal stays exact, and so does what a decision or an edit is made on: `fold` keeps the exact action of a request
and the exact text of the plan beside the ones that are shown.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from tui_agent import events as e
from tui_agent.common.domain import Hunk
from tui_agent.text import SecretMask, StreamMasker

T = TypeVar("T")

SHORTEST = 4
"""Texts that are shorter hold no secret."""
NAMES = frozenset(
    ("id", "call_id", "message_id", "digest", "sha256", "before", "after", "mode", "approval_mode", "verdict", "code")
)
"""Identifying fields: hashes, ids and our own words."""
WHOLE = (e.StateSaved, e.UnknownEvent)
"""Events of which nothing is shown."""

OVER = (e.SessionOpened, e.SessionClosed, e.SessionRecovered, e.SessionForked, e.RunEnded)
"""Events at which all that grows has ended."""

Piece = e.TextDelta | e.ReasoningDelta | e.ToolOutput


class Redactor:
    """Masks records. Pieces of a growing text may be held back as long as a secret may begin at their end."""

    def __init__(self, mask: SecretMask | None = None) -> None:
        self.mask = mask or SecretMask({})
        self._growing: dict[tuple[str, type[Piece]], StreamMasker] = {}

    def records(self, record: e.Record) -> list[e.Record]:
        """`record` as it may be seen; before the end of a growing text comes what was held back of it."""
        event = record.event
        if isinstance(event, WHOLE):
            return [record]
        if isinstance(event, Piece):
            key = (record.node, type(event))
            masker = self._growing.get(key)
            if masker is None:
                masker = self._growing[key] = StreamMasker(self.mask)
            return [_with(record, msgspec.structs.replace(event, text=masker.feed(event.text)))]
        shown = [] if not self._growing else self._ends(record)
        masked = self.any(event)
        return [*shown, record if masked is event else _with(record, masked)]

    def _ends(self, record: e.Record) -> list[e.Record]:
        """What is still held when the text of this node, or the work as a whole, is over."""
        event = record.event
        if isinstance(event, e.ReplyEnded | e.ToolFinished):
            keys = [key for key in self._growing if key[0] == record.node]
        elif isinstance(event, OVER):
            keys = list(self._growing)
        else:
            return []
        held = [(key, self._growing.pop(key).flush()) for key in keys]
        return [
            msgspec.structs.replace(record, node=node, event=kind(text=text)) for (node, kind), text in held if text
        ]

    def any(self, value: T) -> T:
        """Text, plain data, an event or a noun without secrets; the very same when there are none in it."""
        return cast(T, self._masked(value))

    def _masked(self, value: Any) -> Any:
        masked = value
        if isinstance(value, str):
            masked = self.mask.mask(value) if len(value) >= SHORTEST else value
        elif isinstance(value, Hunk):
            masked = self._hunk(value)
        elif isinstance(value, msgspec.Struct):
            masked = self._struct(value)
        elif isinstance(value, dict):
            changed = {self.any(key): self.any(one) for key, one in value.items()}
            masked = changed if changed != value else value
        elif isinstance(value, list | tuple):
            several = type(value)(self.any(one) for one in value)
            masked = several if several != value else value
        return masked

    def _struct(self, value: msgspec.Struct) -> msgspec.Struct:
        changed = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            if not before or isinstance(before, int) or name in NAMES:
                continue
            after = self._masked(before)
            if after is not before:
                changed[name] = after
        return msgspec.structs.replace(value, **changed) if changed else value

    def _hunk(self, hunk: Hunk) -> Hunk:
        """A secret may go over many lines of it; their number stays."""
        text = "\n".join(line.rstrip("\n") for line in hunk.lines)
        masked = self.mask.mask(text, keep_lines=True)
        return hunk if masked == text else msgspec.structs.replace(hunk, lines=tuple(masked.split("\n")))


def _with(record: e.Record, event: e.Event) -> e.Record:
    return msgspec.structs.replace(record, event=event)
