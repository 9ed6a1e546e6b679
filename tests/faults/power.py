"""What a loss of power may leave of recorded changes: everything synced, and any legal part of the rest.

Names change in order within their folder, as file systems with a journal do it, folder by folder on their own. Bytes
that were not synced may be there, not there, there in part, or be zeros where a later write made the file longer; they
do not wait for the names, nor the names for them.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.faults.syscalls import Op

ROOT = 0


def leave(ops: list[Op], chance: random.Random, target: Path) -> None:
    """Make below `target` what a loss of power right after `ops` may leave."""
    synced: dict[int, int] = {}
    for index, op in enumerate(ops):
        if op.name == "sync":
            synced[op.file] = index
    names, folders = _names(ops, synced, chance)
    target.mkdir(parents=True)
    for place in sorted(names):
        path, file = target / place, names[place]
        if not path.parent.is_dir():
            continue
        if file in folders:
            path.mkdir(mode=0o700)
        else:
            path.write_bytes(_content(ops, file, synced.get(file, -1), chance))
            path.chmod(0o600)


def _names(ops: list[Op], synced: dict[int, int], chance: random.Random) -> tuple[dict[str, int], set[int]]:
    by_folder: dict[str, list[tuple[int, Op]]] = {}
    ids, folders = {".": ROOT}, {ROOT}
    for index, op in enumerate(ops):
        if op.place:
            by_folder.setdefault(os.path.dirname(op.place) or ".", []).append((index, op))
        if op.name == "mkdir":
            ids[op.place] = op.file
            folders.add(op.file)
    names: dict[str, int] = {}
    for folder, changes in by_folder.items():
        durable = synced.get(ids.get(folder, -1), -1)
        sure = sum(index <= durable for index, _ in changes)
        for _, op in changes[: chance.randint(sure, len(changes))]:
            _rename(names, op)
    return names, folders


def _rename(names: dict[str, int], op: Op) -> None:
    if op.name in ("create", "mkdir"):
        names[op.place] = op.file
    elif op.name == "gone":
        names.pop(op.place, None)
    elif op.name == "exchange":
        names[op.place], names[op.other] = names[op.other], names[op.place]
    elif op.name == "rename":
        names[op.other] = names.pop(op.place)
    else:
        names[op.other] = names[op.place]


def _content(ops: list[Op], file: int, durable: int, chance: random.Random) -> bytes:
    changes = [(index, op) for index, op in enumerate(ops) if op.file == file and op.name in ("write", "truncate")]
    data = bytearray()
    loose: list[Op] = []
    for index, op in changes:
        if index <= durable:
            _apply(data, op)
        else:
            loose.append(op)
    way = chance.choice(("none", "prefix", "torn", "holes", "zeros", "all"))
    if way in ("prefix", "torn"):
        loose = loose[: chance.randint(0, len(loose))]
    elif way == "none":
        loose = []
    for index, op in enumerate(loose):
        if op.name == "truncate":
            _apply(data, op)
        elif way == "torn" and index == len(loose) - 1:
            _apply(data, op._replace(data=op.data[: chance.randint(0, len(op.data))]))
        elif way == "zeros":
            _apply(data, op._replace(data=bytes(len(op.data))))
        elif way != "holes" or chance.random() < 0.6:
            _apply(data, op)
    return bytes(data)


def _apply(data: bytearray, op: Op) -> None:
    if op.name == "truncate":
        del data[op.offset :]
        return
    if len(data) < op.offset:
        data.extend(bytes(op.offset - len(data)))
    data[op.offset : op.offset + len(op.data)] = op.data
