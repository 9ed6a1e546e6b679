"""How much work something is, measured where other programs on the machine count least."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """AssertionError when this thread works longer than that; what it waits for, and what others do, is not counted."""
    began = time.thread_time()
    yield
    assert time.thread_time() - began < seconds
