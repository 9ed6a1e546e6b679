"""Tables of words and rules, stored as JSON or TOML files next to the code that uses them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def read_table(module: str, name: str) -> dict[str, Any]:
    """Return the table in file `name` next to the file `module`; cached."""
    text = Path(module).with_name(name).read_text(encoding="utf-8")
    if name.endswith(".toml"):
        import tomllib

        return tomllib.loads(text)
    table: dict[str, Any] = json.loads(text)
    return table
