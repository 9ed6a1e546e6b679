"""Whether a run is done: by facts alone, whatever the model says (E2, W8).

Done is a question that was answered, or a change after which every check that was run has passed. What is missing goes
back to the model, a bounded number of times; after that the run ends as not done, with what is missing in a sentence.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.common.symbols import Diagnostic
from tui_agent.engine.checks.project_checks import (
    COMMANDS,
    NOT_STARTED,
    CommandEffects,
    by_tools,
    checks_of,
    failed_check,
    last_change,
    ran,
    ran_something,
    stale_checks,
    test_command,
)
from tui_agent.engine.checks.request_reading import RequestReading
from tui_agent.engine.checks.request_scope import protected_files
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.engine.loop.calls import ToolCalls
from tui_agent.events import Notice
from tui_agent.text import clean, one_line, pluralize
from tui_agent.text.patterns import Patterns
from tui_agent.tools.code_output import format_diagnostics
from tui_agent.tools.registry import Registry

SHOWN = 10
"""Errors of one file that the model is told."""
FILES = 10
LISTED = 5
"""Errors that the user is told of in the end."""
REFUSED = 2
"""How often the same thing that is missing goes back to the model."""
_RE = Patterns("tui_agent.engine.loop", "completion")


class CompletionRefusal(msgspec.Struct, frozen=True):
    """Why a claim of completion is not accepted."""

    why: str
    """A clause for the user."""
    told: str
    """What the model is told."""
    missing: str = ""
    """What keeps the work from being done, as a sentence for the user."""


def ends_with_question(closing: str, claimed: bool) -> bool:
    """Whether a run ends with a question to the user, and not with a claim that has an offer behind it.

    `claimed`: the reply held the mark that the work is done (`[TASK_COMPLETE]`, `done: true`)."""
    last = re.split(r"(?<=[.!?])\s+|\n+", closing.strip())[-1]
    return last.endswith("?") and not claimed and _RE.courtesy.search(last) is None


def claims_change(text: str) -> bool:
    """Whether a model says that it changed something."""
    return _RE.claims.search(text) is not None


class Completion:
    """Judges the claims of one run."""

    def __init__(
        self,
        calls: ToolCalls,
        request: RequestReading,
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

    async def judged(self, outcome: str, closing: str, claimed: bool) -> CompletionRefusal | Notice | None:
        """Why a run that would end so may not; else what the user is to be told of it, if there is anything.

        Nothing goes back where the user refused something, nor where the reply is a question to a user who is there.
        """
        if outcome not in ("done", "limit", "failed"):
            return None
        excused = outcome != "done" or self._calls.declined or (self._attended and ends_with_question(closing, claimed))
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
        what, lack = next(self._lacks(closing), ("", None))
        if lack is None or (what == "run" and self._calls.declined):
            return ""
        if what == "change" and self._calls.declined:
            return "Nothing was changed, since the change was refused."
        if what == "change" and ends_with_question(closing, claimed):
            return "" if self._attended else "The model asked a question, and nobody was there to answer."
        return lack.missing

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
        left = protected_files(self._request.text, changed) if changed else frozenset()
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

    def _missing_work(self, closing: str) -> CompletionRefusal | None:
        for what, lack in self._lacks(closing):
            if not self._again(what):
                return lack
            if what.startswith("check "):
                return None
        return None

    def _lacks(self, closing: str) -> Iterator[tuple[str, CompletionRefusal]]:
        """All that is missing, what is wrong first, each with a name by which it is counted."""
        failed = self._failed()
        if failed is not None:
            command, result = failed
            shown = f"`{one_line(command, 120)}`"
            told = f"`{command}` fails ({result.error}):\n{output_of(result)}\nFind the cause and fix it."
            yield f"check {command}", _lack(f"{shown} fails", told, f"{shown} failed ({result.error}).")
        if changed := self._changed_against_orders():
            said = f"{changed} was changed, and the request says that it must stay as it is."
            told = f"{said} Put back what it held, and do the work without changing it."
            yield f"left alone {changed}", _lack(f"{changed} must stay as it is", told, said)
        if self._lacks_change(closing):
            why = "the request needs a change, and nothing was changed"
            told = "nothing has changed. Make the change now with a tool call, such as edit_file or write_file."
            yield "change", _lack(why, told, "Nothing was changed.")
        if self._lacks_run():
            why = "the request is to run something, and nothing was run"
            told = "nothing was run. Run it now with run_terminal_command."
            yield "run", _lack(why, told, "Nothing was run.")

    def _again(self, what: str, most: int = REFUSED) -> bool:
        """Whether this went back to the model often enough; counts."""
        count = self._refused.get(what, 0)
        self._refused[what] = count + 1
        return count >= most


def _lack(why: str, told: str, missing: str) -> CompletionRefusal:
    return CompletionRefusal(why, f"This is not done yet: {told}", missing)


def _refusal(wrong: dict[str, tuple[Diagnostic, ...]]) -> CompletionRefusal:
    found = "\n".join(
        f"── {name} ──\n{format_diagnostics(errors, SHOWN)}" for name, errors in list(wrong.items())[:FILES]
    )
    return CompletionRefusal(
        why=_counted(wrong),
        told=(
            f"This is not done yet: the files that you changed have {pluralize(_count(wrong), 'error')}.\n{found}\n"
            "Fix them now with the tools. If one is not caused by your changes, say so in a sentence."
        ),
    )


def _left(wrong: dict[str, tuple[Diagnostic, ...]]) -> Notice:
    """The errors with which the work ends."""
    lines = [
        f"{name}:{one.line}: {one_line(clean(one.message), 160)}" for name, errors in wrong.items() for one in errors
    ]
    more = [f"… and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    text = "\n".join([f"The run ends with {_counted(wrong)}", *lines[:LISTED], *more])
    return Notice(level="warning", text=text, code="run.errors_left")


def _counted(wrong: dict[str, tuple[Diagnostic, ...]]) -> str:
    return f"{pluralize(_count(wrong), 'error')} in changed files: {', '.join(list(wrong)[:FILES])}"


def _count(wrong: dict[str, tuple[Diagnostic, ...]]) -> int:
    return sum(len(errors) for errors in wrong.values())


SECONDS = 60
"""Time limit of one such command."""
TAIL = 900
"""Characters of a failed command's output that the model is told."""


class CheckRuns:
    """Runs commands on behalf of the program for one run."""

    def __init__(self, environment: ToolEnvironment, calls: ToolCalls, registry: Registry) -> None:
        self._environment = environment
        self._calls = calls
        self._registry = registry
        self._tests: str | None = None
        self._ended: set[str] = set()
        """Commands that ended by themselves."""

    async def test_command(self) -> str:
        """The command that runs the project's tests, as it was found first in this run; empty where there are none."""
        if not self._tests:
            self._tests = await asyncio.to_thread(test_command, self._environment.workspace)
        return self._tests

    async def may_run(self, command: str, *, unasked: bool = False) -> bool:
        """Whether a command can be run here: allowed as it is, or, unless `unasked`, with somebody there to ask."""
        if self._registry.find(COMMANDS) is None:
            return False
        place = self._environment
        action = await place.judge(command, place.workspace)
        verdict = await place.verdict(action)
        return verdict.decision == "run" or (verdict.decision == "ask" and place.attended and not unasked)

    async def run(
        self, command: str, node: str, *, seconds: int = SECONDS, must_end: bool = False
    ) -> ToolResult | None:
        """How a command ended in the workspace's folder; None where that shows nothing of the work: it was not allowed,
        could not be started, or ran into its time limit. `must_end`: that one counts, as it does for a command that
        ended in time before."""
        place = self._environment
        arguments: dict[str, Any] = {"command": command, "timeout_seconds": seconds}
        if place.shell_cwd() != place.workspace:
            arguments["cwd"] = str(place.workspace)
        call = ToolCall(id=f"check{secrets.token_hex(4)}", name=COMMANDS, arguments=arguments)
        await self._calls.carry_out((call,), node)
        result = self._calls.results[-1][1]
        if result.code in NOT_STARTED or not ran(result):
            return None
        if result.code == "timeout" and not (must_end or command in self._ended):
            return None
        self._ended.add(command)
        return result


def output_of(result: ToolResult) -> str:
    """The end of what a command printed, without rulers and empty lines."""
    text = result.data if isinstance(result.data, str) else ""
    lines = [line for line in text.splitlines() if line.strip() and not _RE.ruler.fullmatch(line.strip())]
    return "\n".join(lines)[-TAIL:]
