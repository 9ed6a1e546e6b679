"""The packet that stands last in every request after a run's first (W15).

It is made for one request and never stored: only the newest one is ever seen, and what stands before it is the same,
byte for byte, as in the request before, so that the server's prompt cache holds (H1).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from tui_agent.domain import ProgramMessage, marked
from tui_agent.engine.prompts import prompt

State = Literal["need_tools", "need_fixes"]

QUOTED = 120
"""Characters of the task that the packet quotes."""
FILES = 10
"""Changed files that it names."""


def packet(
    *,
    state: State = "need_tools",
    iteration: int,
    limit: int,
    files: Sequence[str] = (),
    task: str = "",
) -> ProgramMessage:
    """State and budget of the run as JSON, and the directive not to repeat what is done."""
    quoted = " ".join(task.split())
    quoted = quoted if len(quoted) <= QUOTED else quoted[: QUOTED - 1] + "…"
    fields = {
        "state": state,
        "iteration": iteration,
        "maxIterations": limit,
        "remainingIterations": max(0, limit - iteration),
        "filesChanged": list(files)[-FILES:],
        "note": f"Task: {quoted}",
    }
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return ProgramMessage(text=f"{marked('control', body)}\n{prompt('directive')}")
