from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.doubles import hostile
from tests.nightly import POSTERS, sampled
from tests.scenes import from_data, load, names
from tests.tui.kit import wait_until_rendered
from tests.tui.test_hostile import assert_no_actions, painted
from tui_agent import events as e
from tui_agent.events import Record, to_data
from tui_agent.tui.app import TuiAgentApp

FIXED = {"id", "type", "at", "run", "node", "call_id", "kind", "sha256", "digest", "before", "after", "by"}
"""Names of the program's own words; every other text in a record is poisoned."""


class Poisoner:
    """Puts a hostile string into every text of a record that takes one."""

    def __init__(self, seed: int) -> None:
        self._given = hostile.hostile_texts(500, seed)
        self.count = 0

    def _next(self) -> str:
        self.count += 1
        return self._given[self.count % len(self._given)]

    def record(self, record: Record) -> Record:
        event = record.event
        if isinstance(event, e.PlanDocChanged):
            lines = (f"{one} {self._next()}" if one[:1] in "-[*" else one for one in event.text.split("\n"))
            return msgspec.structs.replace(record, event=msgspec.structs.replace(event, text="\n".join(lines)))
        data = to_data(event)
        for path in list(self._texts(data)):
            kept = self._set(data, path, None)
            self._set(data, path, f"{self._next()} {kept}")
            try:
                event = from_data(event.type, data)
            except (msgspec.ValidationError, ValueError):  # a word of a fixed choice
                self._set(data, path, kept)
        return msgspec.structs.replace(record, event=event)

    def _texts(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        if isinstance(value, str):
            yield path
        elif isinstance(value, dict | list):
            for key, one in value.items() if isinstance(value, dict) else enumerate(value):
                if key not in FIXED:
                    yield from self._texts(one, (*path, key))

    @staticmethod
    def _set(data: Any, path: tuple[Any, ...], text: str | None) -> Any:
        for key in path[:-1]:
            data = data[key]
        before = data[path[-1]]
        if text is not None:
            data[path[-1]] = text
        return before


@pytest.mark.parametrize("scene", sampled(names(), POSTERS))
async def test_every_scene_with_hostile_texts_is_only_text(scene: str) -> None:
    poisoner = Poisoner(len(scene))
    records = [poisoner.record(one) for one in load(scene)]
    async with painted(records, (120, 60)) as (pilot, driver):
        app = pilot.app
        assert isinstance(app, TuiAgentApp)
        for keys in (("ctrl+o",), ("f3",), ("escape", "f9"), ("escape", "f1")):
            await pilot.press(*keys)
            await wait_until_rendered(pilot)
            assert_no_actions(app)
        assert hostile.find_forbidden(driver.written) == ""
        assert len(driver.written) > 1_000
        assert app.is_running
    assert poisoner.count > len(records) // 4
