"""Base class of all events."""

from __future__ import annotations

from typing import ClassVar

import msgspec

VERSION = 1
"""Schema version of a record."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of all events. `type` is the name on disk."""

    type: ClassVar[str] = ""
