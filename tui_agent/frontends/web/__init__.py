"""The chat page in a browser: one session, served to loopback only (X4)."""

from __future__ import annotations
