"""Untrusted text: removing terminal control, showing invisible characters, masking secrets."""

from __future__ import annotations

from tui_agent.text.cleaning import Cleaner, clean, make_visible, mark_invisible, one_line, pluralize, reveal
from tui_agent.text.masking import SecretMask, StreamMasker

__all__ = [
    "Cleaner",
    "SecretMask",
    "StreamMasker",
    "clean",
    "make_visible",
    "mark_invisible",
    "one_line",
    "pluralize",
    "reveal",
]
