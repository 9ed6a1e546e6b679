"""The state that surfaces show, folded from the events."""

from __future__ import annotations
