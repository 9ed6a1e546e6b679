"""What the model sees: system prompt, project rules, modes, the context window and compaction."""

from __future__ import annotations
