"""Untrusted text: taking terminal control out of it, making the invisible visible, hiding secrets."""

from __future__ import annotations

from tui_agent.text.cleaning import Cleaner, clean, count_of, marked_hidden, one_line, reveal, visible
from tui_agent.text.masking import Mask, Masker

__all__ = ["Cleaner", "Mask", "Masker", "clean", "count_of", "marked_hidden", "one_line", "reveal", "visible"]
