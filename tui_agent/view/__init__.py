"""The fold of events into what a screen shows; read by every front end, knows none of them."""

from __future__ import annotations
