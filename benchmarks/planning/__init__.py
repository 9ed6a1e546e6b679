"""Small tasks with injected faults, run by the agent with and without planning."""

from __future__ import annotations
