"""Rules of folders below the root: given to the model once, where a tool first works beneath them (H1, R29.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.domain import Message
from tui_agent.engine.agent_files import AGENTS_FILE, NESTED_CAP, AgentFile, Ground, read_agent_file, stamp_of
from tui_agent.engine.condensing import RULES, SHORTENED, is_kind, sealed
from tui_agent.events import ProgramSaid

if TYPE_CHECKING:
    from tui_agent.engine.workplace import Workplace

KNOWN = 2_000
"""Files that are remembered, absent ones among them."""


async def bring(place: Workplace, touched: Iterable[str], run: str) -> None:
    """Tell the model of a conversation the rules that it needs for the files `touched` and has not before its eyes.
    Called between a round of calls and the next request: results stay with their calls."""
    if place.rules is None:
        return
    for text in await place.rules.due(touched, place.stream.state.history.window()):
        place.stream.emit(ProgramSaid(kind=RULES, text=text), run=run)


class NestedRules:
    """For all conversations of a session; what one of them has seen is found in its own messages."""

    def __init__(self, grounds: Callable[[], Sequence[Ground]], tell: Callable[[AgentFile], object]) -> None:
        """`grounds`: the folders that are trusted at this moment. `tell` is called for each file as it is read."""
        self._grounds = grounds
        self._tell = tell
        self._read: dict[Path, AgentFile] = {}
        self._new: list[AgentFile] = []

    async def due(self, touched: Iterable[str], shown: Sequence[Message]) -> list[str]:
        """The rules that hold for the files `touched` (absolute paths) and stand in none of the messages `shown`."""
        found = await asyncio.to_thread(self._found, tuple(touched))
        new, self._new = self._new, []
        for one in new:
            self._tell(one)
        seen = [message.text for message in shown if is_kind(message, RULES)]
        return [text for one in found if not _stands(text := told(one), seen)]

    def _found(self, touched: Sequence[str]) -> list[AgentFile]:
        places: dict[Path, Ground] = {}
        grounds = self._grounds()
        own = set(touched)
        for name in touched:
            path = Path(name)
            around = [ground for ground in grounds if path.is_relative_to(ground.folder)]
            if not around:
                continue
            ground = max(around, key=lambda one: len(one.folder.parts))
            folder = ground.folder
            for part in path.relative_to(ground.folder).parts[:-1]:
                folder = folder / part
                if str(folder / AGENTS_FILE) not in own:
                    places[folder] = ground
        found = (self._one(folder / AGENTS_FILE, ground) for folder, ground in places.items())
        return [one for one in found if one.text]

    def _one(self, path: Path, ground: Ground) -> AgentFile:
        known, stamp = self._read.get(path), stamp_of(path)
        if known is not None and known.stamp == stamp:
            return known
        if len(self._read) >= KNOWN:
            self._read.clear()
        read = read_agent_file(path, ground.shown(path), ground.folder, NESTED_CAP)
        self._read[path] = read
        if read.text or read.warning:
            self._new.append(read)
        return read


def told(file: AgentFile) -> str:
    """What the model gets of a file: its first line names it."""
    folder = file.source.rpartition("/")[0]
    return (
        f"Rules from {file.source}. They hold for what lies in {folder}, and come before those of folders above it.\n"
        f"{file.text}"
    )


def _stands(text: str, seen: Sequence[str]) -> bool:
    whole = sealed(RULES, text).text
    first = "\n".join(whole.split("\n", 2)[:2])
    return any(one == whole or (one.startswith(first) and SHORTENED in one) for one in seen)
