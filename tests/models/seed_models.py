"""The models.json of the format's own description."""

from __future__ import annotations

from pathlib import Path

TEXT = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
