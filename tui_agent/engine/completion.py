"""The completion gate: what is said to be done while changed files have errors goes back to the model, once (W8)."""

from __future__ import annotations

import msgspec

from tui_agent.engine.calls import Calls
from tui_agent.tools.code_output import counted, diagnostics_text

SHOWN = 10
"""Errors of one file that the model is told."""
FILES = 10


class Refusal(msgspec.Struct, frozen=True):
    """Why a claim of completion is not accepted."""

    why: str
    """A clause for the user."""
    told: str
    """What the model is told."""


class Completion:
    """Judges the claims of one run."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._refused = False

    async def refusal(self, outcome: str, closing: str) -> Refusal | None:
        """Why a run that would end so may not, None where it may.

        Errors count that were not in a file before the run changed it. Nothing is refused a second time, nor where the
        user refused something, nor when the reply is a question; what no server can tell in time is no error.
        """
        results = self._calls.results
        if self._refused or outcome != "done" or closing.rstrip().endswith("?"):
            return None
        changes = [change for _, result in results for change in result.changes]
        if not changes or any(result.code == "refused" for _, result in results):
            return None
        wrong = await self._calls.code.errors(changes)
        if not wrong:
            return None
        self._refused = True
        count = sum(len(errors) for errors in wrong.values())
        names = ", ".join(list(wrong)[:FILES])
        found = "\n".join(
            f"── {name} ──\n{diagnostics_text(errors, SHOWN)}" for name, errors in list(wrong.items())[:FILES]
        )
        return Refusal(
            why=f"{counted(count, 'error')} in changed files: {names}",
            told=(
                f"This is not done yet: the files that you changed have {counted(count, 'error')}.\n{found}\n"
                "Fix them now with the tools. If one is not caused by your changes, say so in a sentence."
            ),
        )
