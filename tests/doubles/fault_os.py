"""A disk that fails at a chosen call, and that other programs write to at a chosen moment."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tui_agent.platform.syscalls import OsCalls

WATCHED = (
    "open",
    "open_beneath",
    "read",
    "write",
    "fsync",
    "close",
    "fchmod",
    "fchown",
    "link",
    "exchange",
    "rename",
    "unlink",
    "mkdir",
    "stat",
)


class FakeOs(OsCalls):
    """Counts calls; at the call number `fail_at` raises `error`, and runs `before[name]` ahead of each call `name`."""

    def __init__(
        self,
        *,
        fail_at: int | None = None,
        error: int = 0,
        fail_named: dict[str, int] | None = None,
        before: dict[str, Callable[[], None]] | None = None,
        short_writes: int | None = None,
    ) -> None:
        self.calls: list[str] = []
        self.fired = 0
        self._fail_at = fail_at
        self._error = error
        self._fail_named = fail_named or {}
        self._before = before or {}
        self._short = short_writes

    def _pass(self, name: str) -> None:
        action = self._before.get(name)
        if action is not None:
            action()
        self.calls.append(name)
        if len(self.calls) == self._fail_at:
            self.fired += 1
            raise OSError(self._error, os.strerror(self._error))
        if name in self._fail_named:
            self.fired += 1
            raise OSError(self._fail_named[name], os.strerror(self._fail_named[name]))

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self._pass("write")
        if self._short is not None:
            data = data[: self._short]
        return super().write(fd, data)

    def close(self, fd: int) -> None:
        # The descriptor is gone even when closing it reports an error.
        super().close(fd)
        self._pass("close")


def _watched(name: str) -> Callable[..., Any]:
    plain = getattr(OsCalls, name)

    def call(self: FakeOs, *args: Any, **named: Any) -> Any:
        self._pass(name)
        return plain(self, *args, **named)

    return call


for _name in WATCHED:
    if _name not in ("write", "close"):
        setattr(FakeOs, _name, _watched(_name))
