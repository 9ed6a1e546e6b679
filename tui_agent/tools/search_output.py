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
    """Gathers lines until a limit is met. A file counts once it was gone through: one that turns out to be binary has
    no lines, and one that comes a second time is passed over."""

    def __init__(self, name_of: Callable[[str], str | None], most: int = MATCHES) -> None:
        """`name_of` gives a file's name as the model knows it, or None for a file that must not be shown. `most`:
        matches of one result."""
        self._name_of = name_of
        self._most = most
        self._lines: list[str] = []
        self._told = 0
        self._size = 0
        self._done: set[str] = set()
        self._path = ""
        self._waiting: list[tuple[int, dict[str, Any], bool]] = []
        self.matches = 0
        self.files = 0
        self.full = False

    @property
    def text(self) -> str:
        """The result so far."""
        return "\n".join(self._lines)

    def fresh(self) -> str:
        """What has come to the result since the last time, as lines."""
        fresh, self._told = self._lines[self._told :], len(self._lines)
        return "".join(f"{line}\n" for line in fresh)

    def take(self, line: bytes) -> None:
        """One line of JSON; anything else is passed over."""
        try:
            event = json.loads(line)
            kind, data = event["type"], event["data"]
            if kind in ("match", "context"):
                path = _text(data["path"])
                if path != self._path:
                    self.finish()
                    self._path = path
                self._waiting.append((int(data["line_number"]), data, kind == "match"))
            elif kind == "end":
                if data.get("binary_offset") is not None:
                    self._waiting.clear()
                self.finish()
        except (ValueError, KeyError, TypeError):
            return

    def finish(self) -> None:
        """The file that is being gone through is over, or the search is."""
        path, waiting = self._path, self._waiting
        self._path, self._waiting = "", []
        if not waiting or path in self._done or self.full:
            return
        self._done.add(path)
        name = self._name_of(path)
        if name is None:
            return
        if self.matches >= self._most:
            self.full = True
            return
        self.files += 1
        self._put(f"── {name} ──")
        for number, data, hit in waiting:
            self._add(number, data, hit)
            if self.full:
                return

    def _add(self, number: int, data: dict[str, Any], hit: bool) -> None:
        if hit and self.matches >= self._most:
            self.full = True
            return
        lines = _text(data["lines"]).rstrip("\r\n").split("\n")
        for offset, line in enumerate(lines):
            text = line.removesuffix("\r")
            text = text.removeprefix("\ufeff") if number + offset == 1 else text
            shown = _window(text, data if hit and not offset else {})
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
    start = int(hits[0].get("start", 0))  # in bytes
    before = len(text.encode()[:start].decode("utf-8", "ignore"))
    at = min(max(0, before - WIDE // 4), len(text) - WIDE)
    return ("…" if at else "") + text[at : at + WIDE] + ("…" if at + WIDE < len(text) else "")
