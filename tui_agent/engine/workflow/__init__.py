"""The staged workflow: classify, plan, execute, verify, summarize."""

from __future__ import annotations
