"""Prompt texts, one a file, found by name (H8)."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """The text of `<name>.md` in this folder."""
    return files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()


@cache
def version(*names: str) -> str:
    """A short fingerprint of the texts, for metrics."""
    return fingerprint("\0".join(prompt(name) for name in names))


def fingerprint(text: str) -> str:
    """The same of any text."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
