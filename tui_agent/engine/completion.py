"""Whether a run is done: by facts alone, whatever the model says (E2, W8).

Done is a question that was answered, or a change after which every check that was run has passed. What is missing goes
back to the model, a bounded number of times; after that the run ends as not done, with what is missing in a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from tui_agent.domain import ToolResult
from tui_agent.engine.calls import Calls
from tui_agent.engine.check_runs import CheckRuns, output_of
from tui_agent.engine.command_effects import CommandEffects
from tui_agent.engine.files_left_alone import files_left_alone
from tui_agent.engine.project_checks import (
    by_tools,
    checks_of,
    failed_check,
    last_change,
    ran_something,
    stale_checks,
)
from tui_agent.engine.request_reading import Reading
from tui_agent.events import Notice
from tui_agent.symbols import Diagnostic
from tui_agent.text import clean, one_line
from tui_agent.tools.code_output import counted, diagnostics_text

SHOWN = 10
"""Errors of one file that the model is told."""
FILES = 10
LISTED = 5
"""Errors that the user is told of in the end."""
REFUSED = 2
"""How often the same thing that is missing goes back to the model."""
_COURTESY = re.compile(
    r"\b(?:anything|something|what) (?:else|more|further)\b|\b(?:more|other|further|any) questions\b|\bhelp you with\b"
    r"|\b(?:further|other|more) (?:help|changes|assistance|adjustments|improvements|tasks)\b"
    r"|\b(?:does|do|is|are) (?:this|that|it|these|everything)\b.{0,40}\b(?:help|look|fine|good|ok|okay|right|work)\b",
    re.IGNORECASE,
)
"""Questions that are put behind work that is said to be done."""
_CHANGED = (
    "(?:added|changed|updated|fixed|corrected|removed|deleted|renamed|replaced|created|modified|implemented|rewritten"
    "|rewrote|moved|adjusted|inserted|edited|extended|refactored|increased|decreased|reduced|set)"
)
_CLAIMS = re.compile(
    rf"\bI(?:['’]ve| have)? (?:just |now |also |successfully )*{_CHANGED}\b"
    rf"|\b(?:has|have) been (?:now |successfully )+{_CHANGED}\b",
    re.IGNORECASE,
)


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


def claims_change(text: str) -> bool:
    """Whether a model says that it changed something."""
    return _CLAIMS.search(text) is not None


class Completion:
    """Judges the claims of one run."""

    def __init__(
        self,
        calls: Calls,
        request: Reading,
        next_strategy: Callable[[], bool],
        checks: CheckRuns,
        *,
        node: str,
        attended: bool,
        writes: bool,
    ) -> None:
        """`node`: the progress node below which the program's own checks stand. `writes`: the mode can change
        something; where it can't, nothing is asked for but an answer."""
        self._calls = calls
        self._request = request
        self.next_strategy = next_strategy
        """Has the model asked in another way from now on; False where there is none."""
        self._checks = checks
        self._node = node
        self._attended = attended
        self._writes = writes
        self._refused: dict[str, int] = {}
        self.needs_change = writes and request.kind == "change"
        """Nothing counts as done unless something was changed."""
        self._effects = CommandEffects(calls.by_command)

    async def judged(self, outcome: str, closing: str, claimed: bool) -> Refusal | Notice | None:
        """Why a run that would end so may not; else what the user is to be told of it, if there is anything.

        Nothing goes back where the user refused something, nor where the reply is a question to a user who is there.
        """
        if outcome not in ("done", "limit", "failed"):
            return None
        excused = outcome != "done" or self._calls.declined or (self._attended and asks(closing, claimed))
        if not excused:
            await self._run_checks()
            if (refusal := self._missing_work(closing)) is not None:
                return refusal
        changes = [change for _, result in self._calls.results for change in result.changes]
        wrong = await self._calls.code.errors(changes) if changes else {}
        if not wrong:
            return None
        return _left(wrong) if excused or self._again("errors", 1) else _refusal(wrong)

    def missing(self, closing: str, claimed: bool) -> str:
        """What keeps the work from being done, in a sentence; empty where the facts say that it is done."""
        if not self._writes:
            return ""
        failed = self._failed()
        if failed is not None:
            return f"`{one_line(failed[0], 120)}` failed ({failed[1].error})."
        if changed := self._changed_against_orders():
            return f"{changed} was changed, and the request says that it must stay as it is."
        if self._lacks_change(closing):
            if self._calls.declined:
                return "Nothing was changed, since the change was refused."
            if asks(closing, claimed):
                return "" if self._attended else "The model asked a question, and nobody was there to answer."
            return "Nothing was changed."
        return "Nothing was run." if self._lacks_run() and not self._calls.declined else ""

    def acted(self) -> bool:
        """Whether something was changed, or run that may have changed something: to look or to test is neither."""
        return self._effects.acted(self._calls.results, self._request)

    def _lacks_change(self, closing: str) -> bool:
        """Whether a change is missing: one was asked for, or the model says that it made one."""
        claims = self._writes and self._request.kind == "unclear" and claims_change(closing)
        return (self.needs_change or claims) and not self.acted()

    def _lacks_run(self) -> bool:
        """Whether the request is to run something, and nothing was run."""
        if not self._writes or self._request.kind != "command":
            return False
        return not ran_something(self._calls.results)

    # --- facts ---

    def _failed(self) -> tuple[str, ToolResult] | None:
        """The newest check that failed; only where something was changed, since else it is what was asked about."""
        done = self._calls.results
        return failed_check(done, self._request.text) if last_change(done, self._effects.altered) else None

    def _changed_against_orders(self) -> str:
        """The file that this run changed although the request says that it stays; empty where there is none."""
        first: dict[str, str] = {}
        last: dict[str, str | None] = {}
        for _, result in self._calls.results:
            for change in result.changes:
                if change.before is not None or change.display in first:
                    first.setdefault(change.display, change.before or "")
                    last[change.display] = change.after
        changed = [name for name, before in first.items() if last[name] != before]
        left = files_left_alone(self._request.text, changed) if changed else frozenset()
        return next((name for name in changed if name in left), "")

    async def _run_checks(self) -> None:
        """Run again what failed before the last change, and the project's tests where they were not run since. What a
        command leaves behind counts here only where a change is asked for: tests are no answer to a command."""
        done = self._calls.results
        altered = self._effects.altered if self.needs_change else by_tools
        since = last_change(done, altered)
        if not since or not self._writes:
            return
        commands = stale_checks(done, altered, self._request.text)
        tests = await self._checks.test_command()
        if not commands and tests and not checks_of(done[since:]):
            commands = [tests]
        for command in commands:
            if await self._checks.may_run(command):
                await self._checks.run(command, self._node)

    def _missing_work(self, closing: str) -> Refusal | None:
        failed = self._failed()
        if failed is not None:
            command, result = failed
            if self._again(f"check {command}"):
                return None
            return Refusal(
                why=f"`{one_line(command, 120)}` fails",
                told=(
                    f"This is not done yet: `{command}` fails ({result.error}):\n{output_of(result)}\n"
                    "Find the cause and fix it."
                ),
            )
        if (changed := self._changed_against_orders()) and not self._again(f"left alone {changed}"):
            return Refusal(
                why=f"{changed} must stay as it is",
                told=(
                    f"This is not done yet: {changed} was changed, and the request says that it must stay as it is. "
                    "Put back what it held, and do the work without changing it."
                ),
            )
        if self._lacks_change(closing) and not self._again("change"):
            return Refusal(
                why="the request needs a change, and nothing was changed",
                told=(
                    "This is not done yet: nothing has changed. Make the change now with a tool call, such as "
                    "edit_file or write_file."
                ),
            )
        if self._lacks_run() and not self._again("run"):
            return Refusal(
                why="the request is to run something, and nothing was run",
                told="This is not done yet: nothing was run. Run it now with run_terminal_command.",
            )
        return None

    def _again(self, what: str, most: int = REFUSED) -> bool:
        """Whether this went back to the model often enough; counts."""
        count = self._refused.get(what, 0)
        self._refused[what] = count + 1
        return count >= most


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
