"""tui-agent: a coding agent for the terminal that runs on your own model."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"

_PACKAGE = Path(__file__).resolve().parent
_BUNDLED = _PACKAGE / "_lib"

ROOT: Path = _BUNDLED if _BUNDLED.is_dir() else _PACKAGE.parent
"""Where `widgets/` and `styles/` lie: inside an installed wheel, or the checkout."""
