"""Running what may run unasked: programs with their arguments, no shell, a bare environment (T2, R-12)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from tui_agent.domain import CommandOutcome
from tui_agent.platform.cage import Cage, Confinement
from tui_agent.platform.capture import Capture, Kept, OnOutput
from tui_agent.platform.environment import bare_environment
from tui_agent.platform.proc import Child, ProcessError, Stage, exit_code, finished, signal_name
from tui_agent.shell.unasked import Script, Step


async def run_script(
    script: Script,
    *,
    cwd: Path,
    timeout: float,
    on_output: OnOutput | None = None,
    scratch: Path | None = None,
    kept: Kept | None = None,
    confinement: Confinement | None = None,
) -> CommandOutcome:
    """Run the steps one after the other, as their joints say, for `timeout` seconds in all, confined if so wished.

    Nothing of the session's shell reaches it. Cancelling kills what was started. A program that can't be started
    counts as a shell counts it: 127 or 126.
    """
    kept = kept or Kept(scratch / f"output-{secrets.token_hex(4)}.txt" if scratch else None)
    capture = Capture(on_output, kept.file, lines=kept.lines)
    end = time.monotonic() + timeout
    status: int | None = 0
    timed_out = False
    for step in script.steps:
        if (step.joined == "&&" and status != 0) or (step.joined == "||" and status == 0):
            continue
        try:
            status = await _run_step(step, cwd, end - time.monotonic(), capture, confinement)
        except TimeoutError:
            timed_out = True
            break
        except ProcessError as error:
            capture.add(f"{step.pipeline[0].argv[0]}: {error}\n".encode())
            status = 127 if error.code == "not_found" else 126
    result = await finished(capture, status, timed_out=timed_out)
    code = exit_code(status)
    notes = [result.presented.note] if result.presented.note else []
    if timed_out:
        notes.append(f"Stopped after {timeout:g} s; the command was killed.")
    elif name := signal_name(code):
        notes.append(f"Exit code {code}: ended by {name}.")
    return CommandOutcome(
        exit_code=None if timed_out else code,
        output=result.presented.text,
        total_bytes=result.total_bytes,
        total_lines=result.total_lines,
        timed_out=timed_out,
        cwd=str(cwd),
        note="\n".join(notes),
        spill=result.spill,
    )


async def _run_step(
    step: Step, cwd: Path, timeout: float, capture: Capture, confinement: Confinement | None
) -> int | None:
    stages: Sequence[Stage] = [
        Stage(program=one.program, argv=one.argv, quiet_out=one.quiet_out, quiet_err=one.quiet_err)
        for one in step.pipeline
    ]
    cage: Cage | None = None
    if confinement is not None:
        stages, cage = confinement.confine(stages, cwd)
    child = await Child.start(stages, cwd=cwd, environment=bare_environment(), capture=capture, cage=cage)
    try:
        status = await child.wait(max(timeout, 0.01))
    except TimeoutError:
        child.stop()
        await child.gone()
        raise
    await child.gone()
    return status
