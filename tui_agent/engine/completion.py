"""The completion gate: what is said to be done while changed files have errors goes back to the model, once (W8)."""

from __future__ import annotations

import re

import msgspec

from tui_agent.engine.calls import Calls
from tui_agent.events import Notice
from tui_agent.symbols import Diagnostic
from tui_agent.text import clean, one_line
from tui_agent.tools.code_output import counted, diagnostics_text

SHOWN = 10
"""Errors of one file that the model is told."""
FILES = 10
LISTED = 5
"""Errors that the user is told of in the end."""
_COURTESY = re.compile(
    r"\b(?:anything|something|what) (?:else|more|further)\b|\b(?:more|other|further|any) questions\b|\bhelp you with\b"
    r"|\b(?:further|other|more) (?:help|changes|assistance|adjustments|improvements|tasks)\b"
    r"|\b(?:does|do|is|are) (?:this|that|it|these|everything)\b.{0,40}\b(?:help|look|fine|good|ok|okay|right|work)\b",
    re.IGNORECASE,
)
"""Questions that are put behind work that is said to be done."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a claim of completion is not accepted."""

    why: str
    """A clause for the user."""
    told: str
    """What the model is told."""


def asks(closing: str, claimed: bool) -> bool:
    """Whether a run ends with a question to the user, and not with a claim that has an offer behind it.

    `claimed`: the reply held the mark that the work is done (`[TASK_COMPLETE]`, `done: true`)."""
    last = re.split(r"(?<=[.!?])\s+|\n+", closing.strip())[-1]
    return last.endswith("?") and not claimed and _COURTESY.search(last) is None


class Completion:
    """Judges the claims of one run."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._refused = False

    async def judged(self, outcome: str, closing: str, claimed: bool) -> Refusal | Notice | None:
        """Why a run that would end so may not; else what the user is to be told of it, if there is anything.

        Errors count that were not in a file before the run changed it. Nothing is refused a second time, nor where the
        user refused something, nor when the reply is a question, which `claimed` says it is not (see `asks`): of errors
        that are left then the user is told. What no server can tell in time is no error.
        """
        changes = [change for _, result in self._calls.results for change in result.changes]
        if not changes or outcome not in ("done", "limit", "failed"):
            return None
        wrong = await self._calls.code.errors(changes)
        if not wrong:
            return None
        if self._refused or outcome != "done" or self._calls.declined or asks(closing, claimed):
            return _left(wrong)
        self._refused = True
        return _refusal(wrong)


def _refusal(wrong: dict[str, tuple[Diagnostic, ...]]) -> Refusal:
    found = "\n".join(
        f"── {name} ──\n{diagnostics_text(errors, SHOWN)}" for name, errors in list(wrong.items())[:FILES]
    )
    return Refusal(
        why=_counted(wrong),
        told=(
            f"This is not done yet: the files that you changed have {counted(_count(wrong), 'error')}.\n{found}\n"
            "Fix them now with the tools. If one is not caused by your changes, say so in a sentence."
        ),
    )


def _left(wrong: dict[str, tuple[Diagnostic, ...]]) -> Notice:
    """The errors with which the work ends."""
    lines = [
        f"{name}:{one.line}: {one_line(clean(one.message), 160)}"
        for name, errors in wrong.items()
        for one in errors
    ]
    more = [f"… and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    text = "\n".join([f"It ends with {_counted(wrong)}", *lines[:LISTED], *more])
    return Notice(level="warning", text=text, code="run.errors_left")


def _counted(wrong: dict[str, tuple[Diagnostic, ...]]) -> str:
    return f"{counted(_count(wrong), 'error')} in changed files: {', '.join(list(wrong)[:FILES])}"


def _count(wrong: dict[str, tuple[Diagnostic, ...]]) -> int:
    return sum(len(errors) for errors in wrong.values())
