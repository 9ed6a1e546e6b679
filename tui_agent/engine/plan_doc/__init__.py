"""The plan document as the session's memory."""

from __future__ import annotations
