"""How many faults at system calls each part of the matrix injects at least: its test counts those that came to pass,
the inventory adds them up."""

from __future__ import annotations

import os

AT_LEAST = {
    "visit new": 330,
    "visit resumed": 150,
    "short new": 15,
    "short resumed": 15,
    "short for long new": 12,
    "short for long resumed": 12,
    "lasting ENOSPC": 70,
    "lasting EIO": 70,
    "lasting EROFS": 70,
    "saving plan": 280,
    "saving edit": 130,
    "saving new file": 130,
    "saving own file": 65,
    "saving removal": 85,
    "saving content": 115,
}


def register_part(part: str, total: int) -> None:
    """So many faults came to pass in this part."""
    print(f"{part}: {total} faults")
    assert total >= AT_LEAST[part]


def numbers(name: str, usual: int) -> range:
    """The cases that the environment asks for: `10000`, or a share of them as `2500-5000`; `usual` many by default."""
    begin, _, end = os.environ.get(name, str(usual)).rpartition("-")
    return range(int(begin or 0), int(end))
