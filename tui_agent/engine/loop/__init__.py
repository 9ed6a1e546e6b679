"""The agent loop: ask the model, read the reply, run tool calls, decide whether the run is complete."""

from __future__ import annotations
