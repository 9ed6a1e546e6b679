"""From ripgrep's JSON to what the model reads: `── path ──`, `→ N: text`, indented context (T1)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from tui_agent.tools.lines import MODEL_CAP

MATCHES = 200
"""Matching lines of one result."""
WIDE = 400
"""Characters of one line."""


class Findings:
    """Gathers lines until a limit is met."""

    def __init__(self, name_of: Callable[[str], str | None]) -> None:
        """`name_of` gives a file's name as the model knows it, or None for a file that must not be shown."""
        self._name_of = name_of
        self._names: dict[str, str | None] = {}
        self._lines: list[str] = []
        self._size = 0
        self._file = ""
        self.matches = 0
        self.files = 0
        self.full = False

    @property
    def text(self) -> str:
        """The result so far."""
        return "\n".join(self._lines)

    def take(self, line: bytes) -> None:
        """One line of JSON; anything else is passed over."""
        try:
            event = json.loads(line)
            kind, data = event["type"], event["data"]
            if kind in ("match", "context"):
                self._add(_text(data["path"]), int(data["line_number"]), data, kind == "match")
        except (ValueError, KeyError, TypeError):
            return

    def _add(self, path: str, number: int, data: dict[str, Any], hit: bool) -> None:
        if path not in self._names:
            self._names[path] = self._name_of(path)
        name = self._names[path]
        if name is None:
            return
        if self.full or (hit and self.matches >= MATCHES):
            self.full = True
            return
        if path != self._file:
            self._file = path
            self.files += 1
            self._put(f"── {name} ──")
        lines = _text(data["lines"]).rstrip("\r\n").split("\n")
        for offset, text in enumerate(lines):
            shown = _window(text.rstrip("\r"), data if len(lines) == 1 else {})
            self._put(f"→ {number + offset}: {shown}" if hit else f"  {number + offset}: {shown}")
        self.matches += hit
        if self._size > MODEL_CAP:
            self.full = True

    def _put(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1


def _text(value: dict[str, str]) -> str:
    """ripgrep gives bytes that are no UTF-8 as base64."""
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "surrogateescape")


def _window(text: str, data: dict[str, Any]) -> str:
    """The part of a long line around its first match."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if len(text) <= WIDE:
        return text
    hits = data.get("submatches") or [{}]
    at = max(0, int(hits[0].get("start", 0)) - WIDE // 4)
    at = min(at, len(text) - WIDE)
    return ("…" if at else "") + text[at : at + WIDE] + ("…" if at + WIDE < len(text) else "")
