"""Tables of words and rules, kept as JSON or TOML beside the code that reads them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def read_table(module: str, name: str) -> dict[str, Any]:
    """The table `name` beside the file `module`. Read once; does file IO."""
    text = Path(module).with_name(name).read_text(encoding="utf-8")
    if name.endswith(".toml"):
        import tomllib

        return tomllib.loads(text)
    table: dict[str, Any] = json.loads(text)
    return table
