"""Resolving tool and argument names as models write them."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import TypeVar

_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

T = TypeVar("T")


def snake_case(name: str) -> str:
    """Return `readFile`, `read-file` or `Read File` as `read_file`."""
    return _CAMEL_BOUNDARY.sub("_", name.strip()).replace("-", "_").replace(" ", "_").lower()


def resolve_name(name: str, *tables: Mapping[str, T]) -> T | None:
    """Look up `name` in the tables, in any spelling and with or without a namespace; None if no table has it."""
    normalized = snake_case(name)
    for candidate in (name, normalized, normalized.rpartition(".")[2], normalized.rpartition(":")[2]):
        for table in tables:
            if candidate in table:
                return table[candidate]
    return None


def resolve_argument_name(name: str, fields: Container[str], aliases: Mapping[str, str]) -> str:
    """Return the canonical name of an argument, or `name` itself if it is unknown."""
    normalized = name if name in fields else snake_case(name)
    return normalized if normalized in fields else aliases.get(normalized, name)
