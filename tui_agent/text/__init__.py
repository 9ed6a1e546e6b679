"""Untrusted text: removing terminal control, showing invisible characters, masking secrets."""

from __future__ import annotations

from tui_agent.text.cleaning import Cleaner, clean, file_size, pluralize, with_full_stop
from tui_agent.text.masking import SecretMask, StreamMasker
from tui_agent.text.visible import (
    DisplayStream,
    RevealingStream,
    displayable,
    make_visible,
    mark_invisible,
    one_line,
    reveal,
    strip_invisible,
    visible_name,
)

__all__ = [
    "Cleaner",
    "DisplayStream",
    "RevealingStream",
    "SecretMask",
    "StreamMasker",
    "clean",
    "displayable",
    "file_size",
    "make_visible",
    "mark_invisible",
    "one_line",
    "pluralize",
    "reveal",
    "strip_invisible",
    "visible_name",
    "with_full_stop",
]
