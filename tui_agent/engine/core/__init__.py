"""What every part of the engine rests on: the event stream, state, history, approvals, prompts."""

from __future__ import annotations
