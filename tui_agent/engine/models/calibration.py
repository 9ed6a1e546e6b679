"""Calibration of a model that is used for the first time, in the background (E4).

It runs `tui-agent reliability --quick` as a child process, which can be killed at any time and saves its result in
models.json. The user's first message ends it; then the model's size and capabilities decide.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import cast

import msgspec

from tui_agent.common.domain import Fault
from tui_agent.engine.core.model_config import ModelConfig
from tui_agent.engine.core.shielded import end_tasks
from tui_agent.engine.core.state import SessionStream
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.engine.models.roles import ModelRoles
from tui_agent.events import Notice
from tui_agent.models.base import LoadsModels
from tui_agent.models.catalog import Calibration
from tui_agent.models.endpoint import endpoint
from tui_agent.platform.programs import run_program

TIMEOUT = 60.0
"""Maximum seconds for a calibration."""
IDLE = 5.0
"""Seconds without a message before a calibration starts."""
_REPORT_MAX = 4_000_000
"""Maximum bytes of the report."""


class _Report(msgspec.Struct):
    """The part of the report of `reliability --json` that is used here."""

    calibration: Calibration
    kept: bool = False
    not_kept: str = ""


class Calibrator:
    """Calibrates the model of a session, once."""

    def __init__(self, stream: SessionStream, roles: ModelRoles, environment: ToolEnvironment) -> None:
        self._stream = stream
        self._roles = roles
        self._environment = environment
        self._task: asyncio.Task[None] | None = None
        self._announced = False

    def start(self) -> None:
        """Start in the background, unless the model is calibrated or the session has been used.

        Only local servers that describe the model are measured: others may forward requests to paid models.
        """
        if self._task is None and self._is_due():
            self._task = asyncio.create_task(self._calibrate())

    def skip(self) -> None:
        """Cancel a running calibration: a run needs the model."""
        if self._task is None or not self._task.cancel():
            return
        if self._announced:
            self._notify("The measurement was skipped. It runs in the next new session.", "model.not_calibrated")

    async def close(self) -> None:
        """Cancel a running calibration and wait for the end of its process."""
        await end_tasks(self._task)

    def _is_due(self) -> bool:
        roles, environment = self._roles, self._environment
        if not (environment.attended and environment.settings.calibrate and roles.name):
            return False
        if roles.listed_server is not None:
            return False  # the command that measures uses the server of the settings
        provider = roles.model.provider
        if provider == "scripted" or (provider != "local" and not endpoint(roles.model.endpoint, None, {}).local):
            return False
        has_strategy = roles.protocol is not None or roles.calibration.date or roles.calibration.strategy
        return not has_strategy and not self._stream.state.runs

    async def _calibrate(self) -> None:
        name = self._roles.name
        await asyncio.sleep(IDLE)
        info = await self._roles.model.describe(name)
        if isinstance(info, Fault) or info.parameters is None:
            return
        self._announced = True
        self._notify(
            f"{name} is new here: measuring which strategy suits it, for at most a minute. "
            "Sending a message ends the measurement.",
            "model.calibrating",
        )
        await self._load()
        catalog = self._roles.catalog
        catalog.paused = True
        try:
            async with asyncio.timeout(TIMEOUT):
                report = await self._measure(name)
        except TimeoutError:
            report = None
        finally:
            catalog.paused = False
        if report is None or report.calibration.strategy is None:
            self._notify(
                f"{name} could not be measured in time. `tui-agent reliability --quick` tries again.",
                "model.not_calibrated",
            )
            return
        from tui_agent.engine.models.protocol_fallback import STRATEGY_NAMES

        await catalog.reload(quietly=True)
        calibration = report.calibration
        rate = f", {calibration.tokens_per_second:,.0f} tokens/s" if calibration.tokens_per_second else ""
        saved = "Saved in models.json." if report.kept else f"Not saved: {report.not_kept}."
        text = f"{name} uses {STRATEGY_NAMES[calibration.strategy or 'native']}{rate}. {saved}"
        self._notify(text, "model.calibrated")

    async def _load(self) -> None:
        """Let the session use the local engine before the measurement does, so that it stays afterwards."""
        if self._roles.model.provider == "local" and isinstance(config := await self._roles.config(), ModelConfig):
            await cast(LoadsModels, config.model).load(config.name, config.num_ctx)

    async def _measure(self, name: str) -> _Report | None:
        # -P: don't import modules from the current folder.
        argv = (sys.executable, "-P", "-m", "tui_agent", "reliability", "--quick", "--json", "--", name)
        cwd = str(self._environment.roots.folders[0])
        result = await run_program(argv, env=self._child_environment(), cwd=cwd, cap=_REPORT_MAX)
        try:
            return msgspec.json.decode(result[1], type=_Report) if result else None
        except msgspec.DecodeError:
            return None

    def _child_environment(self) -> dict[str, str]:
        """Return the environment with the session's server, which flags may have changed."""
        settings = self._environment.settings
        overrides = {"TUI_AGENT_PROVIDER": settings.provider, "TUI_AGENT_BASE_URL": settings.base_url}
        return {**os.environ, **{name: value for name, value in overrides.items() if value}}

    def _notify(self, text: str, code: str) -> None:
        self._stream.emit(Notice(level="info", text=text, code=code))
