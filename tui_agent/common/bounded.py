"""Dicts that keep only their newest entries."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def put_bounded(entries: dict[K, V], key: K, value: V, limit: int) -> None:
    """Store `key` as the newest entry and drop the oldest ones beyond `limit`."""
    entries.pop(key, None)
    entries[key] = value
    while len(entries) > limit:
        del entries[next(iter(entries))]
