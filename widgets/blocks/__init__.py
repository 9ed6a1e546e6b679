"""The blocks that the transcript paints: one class a kind of item."""

from __future__ import annotations
