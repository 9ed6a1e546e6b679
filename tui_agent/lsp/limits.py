"""How long a language server is waited for, and how often it may fail."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Seconds, unless said otherwise."""

    start: float = 25.0
    """Until it has answered `initialize`."""
    request: float = 15.0
    """For one request."""
    indexing: float = 20.0
    """While it says that it is still reading the project; then it is asked all the same."""
    backoff: float = 2.0
    """Before it is started a second time; doubled each time."""
    starts: int = 3
    """How often it is started in a session."""
    sound: float = 600.0
    """In which it served well, so that its earlier starts count no more."""
    silences: int = 2
    """Requests in a row without a word from it after which it is ended."""
    farewell: float = 1.0
    """To end by itself when it is asked to."""
    settle: float = 0.25
    """In which a server that gives no versions may correct the diagnostics that it published."""
    settle_empty: float = 1.0
    """The same where it published that there are none: the first of several stages finds little."""
    open_size: int = 32_000_000
    """Characters of all files that are open at the same time; the last one is open whatever its size."""
