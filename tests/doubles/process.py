"""Commands that run to their end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tui_agent.common.domain import CommandOutcome
from tui_agent.platform.output import Capture, OnOutput
from tui_agent.platform.proc import Child, Stage, finished_process


async def run_process(
    stages: Sequence[Stage],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout: float,
    on_output: OnOutput | None = None,
    spill: Path | None = None,
) -> CommandOutcome:
    """Run a pipeline to its end, or for `timeout` seconds; nothing of it is left afterwards. Raises ProcessError."""
    capture = Capture(on_output, spill)
    child = await Child.start(stages, cwd=cwd, environment=environment, capture=capture)
    timed_out = False
    status: int | None = None
    try:
        status = await child.wait(timeout)
    except TimeoutError:
        timed_out = True
        child.stop()
    await child.gone()
    return await finished_process(capture, status, timed_out=timed_out)
