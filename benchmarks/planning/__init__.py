"""Small tasks with faults in their way, worked on by the agent with planning and without."""

from __future__ import annotations
