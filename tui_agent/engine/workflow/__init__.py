"""The staged workflow: classify, plan, execute, verify, summarise."""

from __future__ import annotations
