"""Start the programs of a script, and pass on what they write."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from tui_agent.platform.environment import bare_environment
from tui_agent.platform.output import Capture, RingBuffer
from tui_agent.platform.proc import Child, Confinement, ProcessError, Stage
from tui_agent.shell.safe_arguments import require
from tui_agent.shell.script import Redirects

MAX_MEMORY = 2 << 30
"""Bytes that a program may use: a short text can make sed, awk or jq use all there is."""
MAX_BUFFER = 4 << 20
"""Bytes that one part of a script may pass to the next."""


class Buffer:
    """What a part of a script wrote, for another part of it."""

    def __init__(self) -> None:
        self.data = bytearray()


Target: TypeAlias = Buffer | Literal["capture", "null"]


class Sink(NamedTuple):
    """Where output and error messages go."""

    out: Target = "capture"
    err: Target = "capture"

    def with_redirects(self, redirects: Redirects) -> Sink:
        """Return the sink of a command with redirections."""
        targets: dict[str, Target] = {"out": self.out, "err": self.err, "null": "null"}
        return Sink(targets[redirects.stdout], targets[redirects.stderr])


class ScriptExecution:
    """Starts programs until `deadline`, in seconds of the monotonic clock; their output ends in `capture`."""

    def __init__(self, capture: Capture, deadline: float, confinement: Confinement | None) -> None:
        self._capture = capture
        self._deadline = deadline
        self._confinement = confinement

    def write(self, target: Target, data: bytes) -> None:
        """Pass on what needed no program. Raises TimeoutError after the deadline."""
        if time.monotonic() > self._deadline:
            raise TimeoutError
        if isinstance(target, Buffer):
            target.data += data
            require(len(target.data) <= MAX_BUFFER)
        elif target == "capture" and data:
            self._capture.add(data)

    async def execute(
        self, stages: Sequence[Stage], cwd: Path, environment: Mapping[str, str], data: bytes | None, sink: Sink
    ) -> int | None:
        """Run a pipeline of programs that reads `data`; return its status. Raises TimeoutError."""
        captured = Capture(rings=RingBuffer(head=MAX_BUFFER, tail=0)) if sink.out != "capture" else self._capture
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as errors:
            if data is not None:
                source.write(data)
                source.seek(0)
            try:
                child = await Child.start(
                    [_redirected(stage, sink, is_last=stage is stages[-1]) for stage in stages],
                    cwd=cwd,
                    environment={**bare_environment(), **environment},
                    capture=captured,
                    confinement=self._confinement,
                    memory=MAX_MEMORY,
                    stdin=source.fileno() if data is not None else -1,
                    stderr=errors.fileno() if sink.out is not sink.err and sink.out != "capture" else -1,
                )
            except ProcessError as error:
                self.write(sink.err, f"{stages[0].argv[0]}: {error}\n".encode())
                return 127 if error.code == "not_found" else 126
            status = await self._wait(child)
            if captured is not self._capture:
                require(captured.rings.gap == 0)
                self.write(sink.out, bytes(captured.rings.head))
                errors.seek(0)
                self.write(sink.err, errors.read(MAX_BUFFER))
        return status

    async def _wait(self, child: Child) -> int | None:
        try:
            return await child.wait(max(self._deadline - time.monotonic(), 0.01))
        except TimeoutError:
            child.stop()
            raise
        finally:
            await child.gone()


def _redirected(stage: Stage, sink: Sink, *, is_last: bool) -> Stage:
    """Return a stage whose output goes to /dev/null where the sink says so."""
    if sink.err == "null" and not stage.joins_stderr:
        stage = replace(stage, discards_stderr=True)
    if is_last and sink.out == "null" and not stage.redirects_stdout:
        stage = replace(stage, discards_stdout=True, discards_stderr=stage.discards_stderr or stage.joins_stderr)
    return stage
