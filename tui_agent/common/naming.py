"""Names as models write them, and the tools and arguments that they mean."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import TypeVar

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

T = TypeVar("T")


def snake_case(name: str) -> str:
    """`readFile`, `read-file` and `Read File` as `read_file`."""
    return _HUMP.sub("_", name.strip()).replace("-", "_").replace(" ", "_").lower()


def find_named(name: str, *tables: Mapping[str, T]) -> T | None:
    """What a model means by `name`, whatever way of writing it uses, in the first of the tables that has it."""
    plain = snake_case(name)
    for one in (name, plain, plain.rpartition(".")[2], plain.rpartition(":")[2]):
        for table in tables:
            if one in table:
                return table[one]
    return None


def argument_name(name: str, fields: Container[str], aliases: Mapping[str, str]) -> str:
    """Our name of the argument that a model means; its own where we have none."""
    plain = name if name in fields else snake_case(name)
    return plain if plain in fields else aliases.get(plain, name)
