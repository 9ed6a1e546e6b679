"""The mock server's record of what was asked and what came of it, in memory and as JSON lines."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import IO, Any, Literal

Outcome = Literal["", "done", "broken", "disconnected"]
_SECRETS = ("authorization", "cookie", "proxy-authorization", "x-api-key")


class Exchange:
    """One request and its reply; filled in while the reply is sent. Times are `time.monotonic()` seconds."""

    def __init__(self, number: int, method: str, path: str, headers: dict[str, str]) -> None:
        self.number = number
        self.method = method
        self.path = path
        self.headers = {name: "…" if name in _SECRETS else value for name, value in headers.items()}
        """Names in lower case, secrets masked."""
        self.body: dict[str, Any] = {}
        """The JSON body; {} when there was none or it could not be read."""
        self.scenario: str | None = None
        """Name of the scenario that answered; "" is the default response, None means that none was asked."""
        self.step: int | None = None
        self.fault: str | None = None
        """Kind of the fault that was chosen for this reply."""
        self.fired = False
        """Whether that fault really struck."""
        self.noise = ""
        """Family of the noisy model's fault in this reply; "" when the reply was as it should be."""
        self.status: int | None = None
        self.outcome: Outcome = ""
        """`done`: sent to its end. `broken`: a fault ended it. `disconnected`: the client hung up."""
        self.asked_at = time.monotonic()
        self.first_byte_at: float | None = None
        self.ended_at: float | None = None
        self.sent = 0
        """Bytes of the body."""
        self.answering = asyncio.Event()
        """Set at the reply's first byte."""
        self.finished = asyncio.Event()
        """Set when the reply has ended, however it did."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of a chat request."""
        messages = self.body.get("messages")
        return messages if isinstance(messages, list) else []

    def __repr__(self) -> str:
        return f"<Exchange {self.number} {self.method} {self.path} {self.status} {self.outcome}>"


class RequestLog:
    """Writes the log file; a JSON object a line, each flushed."""

    def __init__(self, path: Path | None) -> None:
        self._file: IO[str] | None = path.open("a", encoding="utf-8", buffering=1) if path else None

    def write(self, event: str, exchange: Exchange, **more: object) -> None:
        """Note that `event` happened now."""
        if self._file is None:
            return
        line = {"t": time.monotonic(), "at": time.time(), "event": event, "id": exchange.number} | more
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
