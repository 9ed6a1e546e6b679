"""Untrusted text: taking terminal control out of it, making the invisible visible, hiding secrets."""

from __future__ import annotations

from tui_agent.text.cleaning import Cleaner, clean
from tui_agent.text.masking import Mask, Masker
from tui_agent.text.showing import marked_hidden, one_line, reveal, visible

__all__ = ["Cleaner", "Mask", "Masker", "clean", "marked_hidden", "one_line", "reveal", "visible"]
