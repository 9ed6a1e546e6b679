"""The chat page in a browser: one session, served to loopback only (X4, R-40)."""

from __future__ import annotations
