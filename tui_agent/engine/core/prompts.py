"""Prompt texts, one a file, found by name (H8)."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def prompt(name: str) -> str:
    """The text of `prompts/<name>.md`."""
    return files("tui_agent.engine").joinpath(f"prompts/{name}.md").read_text(encoding="utf-8").strip()


@cache
def reply_schema(name: str) -> dict[str, Any]:
    """The JSON schema of the reply to that prompt: `prompts/<name>.schema.json`. Not to be changed."""
    schema: dict[str, Any] = json.loads(
        files("tui_agent.engine").joinpath(f"prompts/{name}.schema.json").read_text(encoding="utf-8")
    )
    return schema


@cache
def version(*names: str) -> str:
    """A short fingerprint of the texts, for metrics."""
    return fingerprint("\0".join(prompt(name) for name in names))


def fingerprint(text: str) -> str:
    """The same of any text."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
