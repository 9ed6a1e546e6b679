"""Models that this program serves itself: weights on disk, downloads, and the process that runs them (L1, L2, L4)."""

from __future__ import annotations
