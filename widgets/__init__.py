"""What the screen is made of. Widgets are built from the view alone and speak upward by their own messages."""

from __future__ import annotations
