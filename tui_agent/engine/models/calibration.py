"""Finds out how to ask a model that is used for the first time, while nobody waits for it (E4).

The measurement is `tui-agent reliability --quick`, in a process of its own: it can be ended at any moment, and what it
found stands in models.json. The first message of the user ends it; the model's size and abilities decide then.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping

import msgspec

from tui_agent.common.domain import Fault
from tui_agent.engine.core.shielded import end_tasks
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.engine.models.roles import ModelRoles
from tui_agent.events import Notice
from tui_agent.models.catalog import Calibration
from tui_agent.models.endpoint import endpoint
from tui_agent.platform.programs import run_program

SECONDS = 60.0
"""The measurement takes no longer."""
IDLE = 5.0
"""Seconds in which a user who knows what they want has sent their first message."""
_OUTPUT = 4_000_000
"""Bytes of its report at most."""


class _Report(msgspec.Struct):
    """What `reliability --json` says, as far as it matters here."""

    calibration: Calibration
    kept: bool = False
    not_kept: str = ""


class Calibrator:
    """Calibrates the model of a session that is open in this process, once."""

    def __init__(self, stream: SessionStream, roles: ModelRoles, environment: ToolEnvironment) -> None:
        self._stream = stream
        self._roles = roles
        self._environment = environment
        self._task: asyncio.Task[None] | None = None
        self._announced = False

    def start(self) -> None:
        """Begin in the background, where a measurement is wanted: the model is settled, nothing was measured of it, the
        session has not been used yet, and the server is near and says what it serves: one that does not may pass the
        requests on to a model that costs money."""
        if self._task is None and self._wanted():
            self._task = asyncio.create_task(self._calibrate())

    def skip(self) -> None:
        """The user goes on: the model is theirs."""
        if self._task is None or not self._task.cancel():
            return
        if self._announced:
            self._tell("The measurement was skipped. It runs in the next new session.", "model.not_calibrated")

    async def close(self) -> None:
        """End the measurement, and wait until its process is gone."""
        await end_tasks(self._task)

    def _wanted(self) -> bool:
        roles, place = self._roles, self._environment
        if not (place.attended and place.settings.calibrate and roles.name):
            return False
        if roles.model.provider == "scripted" or not endpoint(roles.model.endpoint, None, {}).local:
            return False
        known = roles.protocol is not None or roles.calibration.date or roles.calibration.strategy
        return not known and not self._stream.state.runs

    async def _calibrate(self) -> None:
        from tui_agent.engine.models.protocol_fallback import STRATEGY_NAMES

        name = self._roles.name
        await asyncio.sleep(IDLE)
        info = await self._roles.model.describe(name)
        if isinstance(info, Fault) or info.parameters is None:
            return
        self._announced = True
        self._tell(
            f"{name} is new here: measuring which strategy suits it, for at most a minute. "
            "Sending a message ends the measurement.",
            "model.calibrating",
        )
        catalog = self._roles.catalog
        catalog.paused = True
        try:
            async with asyncio.timeout(SECONDS):
                report = await self._measure(name)
        except TimeoutError:
            report = None
        finally:
            catalog.paused = False
        if report is None or report.calibration.strategy is None:
            self._tell(
                f"{name} could not be measured in time. `tui-agent reliability --quick` tries again.",
                "model.not_calibrated",
            )
            return
        await catalog.reload(quietly=True)
        found = report.calibration
        rate = f", {found.tokens_per_second:,.0f} tokens/s" if found.tokens_per_second else ""
        kept = "Saved in models.json." if report.kept else f"Not saved: {report.not_kept}."
        text = f"{name} uses {STRATEGY_NAMES[found.strategy or 'native']}{rate}. {kept}"
        self._tell(text, "model.calibrated")

    async def _measure(self, name: str) -> _Report | None:
        # -P: nothing of the folder we are in is imported.
        argv = (sys.executable, "-P", "-m", "tui_agent", "reliability", "--quick", "--json", "--", name)
        cwd = str(self._environment.roots.folders[0])
        ended = await run_program(argv, env=self._child_environment(os.environ), cwd=cwd, cap=_OUTPUT)
        try:
            return msgspec.json.decode(ended[1], type=_Report) if ended else None
        except msgspec.DecodeError:
            return None

    def _child_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """That of this process, with the session's server: flags may name another than the settings do."""
        chosen = self._environment.settings
        said = {"TUI_AGENT_PROVIDER": chosen.provider, "TUI_AGENT_BASE_URL": chosen.base_url}
        return {**base, **{name: value for name, value in said.items() if value}}

    def _tell(self, text: str, code: str) -> None:
        self._stream.emit(Notice(level="info", text=text, code=code))
