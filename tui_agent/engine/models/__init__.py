"""Which model answers, with which window and protocol."""

from __future__ import annotations
