"""`@` mentions: their syntax, and the index of file names they are completed from."""

from __future__ import annotations
