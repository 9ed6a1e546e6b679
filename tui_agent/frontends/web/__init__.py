"""A session, or the full screen, in a browser; served to loopback only (X4)."""

from __future__ import annotations
