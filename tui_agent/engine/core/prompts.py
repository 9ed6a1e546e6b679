"""Prompts: one versioned file per section (H8)."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent.parent / "prompts"


@cache
def prompt(name: str) -> str:
    """Return the text of `prompts/<name>.md`."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").strip()


@cache
def reply_schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of the reply, `prompts/<name>.schema.json`. It is shared: do not modify it."""
    schema: dict[str, Any] = json.loads((_FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    return schema


@cache
def version(*names: str) -> str:
    """Return the fingerprint of these prompts, for metrics."""
    return fingerprint("\0".join(prompt(name) for name in names))


def fingerprint(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
