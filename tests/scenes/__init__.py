"""Recorded streams: one file a state of the screen, without crc; `build.py` writes them, fold and screen tests read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tui_agent.events import VERSION, Event, Record
from tui_agent.storage.lines import _to_event

FOLDER = Path(__file__).parent


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def load(name: str) -> list[Record]:
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")
    return [record(json.loads(line)) for line in lines if line]


def from_data(name: str, data: dict[str, Any], version: int = VERSION) -> Event:
    """The event `name` from its data, as the journal reads it."""
    return _to_event(name, json.dumps(data).encode(), version)


def record(raw: dict[str, Any]) -> Record:
    return Record(
        seq=raw["seq"],
        at=raw["at"],
        event=from_data(raw["type"], raw["data"], raw["v"]),
        run=raw["run"],
        node=raw["node"],
        parent=raw["parent"],
    )
