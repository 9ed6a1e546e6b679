"""The completion gate: decides from facts whether a run is done, whatever the model claims (E2, W8).

A run is done when a question was answered, or when every check that ran after the last change has passed. Unmet
requirements go back to the model a bounded number of times; then the run ends as not done and names what is missing.
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
    COMMAND_TOOL,
    NOT_STARTED,
    CommandEffects,
    check_results,
    detect_test_command,
    failed_check,
    has_run_command,
    is_tool_edit,
    next_after_change,
    produced_result,
    stale_checks,
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

MAX_ERRORS_PER_FILE = 10
"""Errors of one file reported to the model."""
MAX_FILES = 10
"""Files with errors reported to the model."""
MAX_ERRORS_IN_NOTICE = 5
"""Errors listed for the user at the end of a run."""
MAX_REFUSALS = 2
"""How often the same unmet requirement goes back to the model."""
_RE = Patterns("tui_agent.engine.loop", "completion")


class CompletionRefusal(msgspec.Struct, frozen=True):
    """Why a claim of completion is not accepted."""

    why: str
    """A clause for the user."""
    feedback: str
    """The message for the model."""
    missing: str = ""
    """The unmet requirement, as a sentence for the user."""


def ends_with_question(closing: str, claimed: bool) -> bool:
    """Return whether the reply ends with a real question, not with a claim followed by a polite offer.

    `claimed`: the reply contains a completion marker (`[TASK_COMPLETE]`, `done: true`)."""
    last_sentence = re.split(r"(?<=[.!?])\s+|\n+", closing.strip())[-1]
    return last_sentence.endswith("?") and not claimed and _RE.courtesy.search(last_sentence) is None


def claims_change(text: str) -> bool:
    """Return whether the model claims to have changed something."""
    return _RE.claims.search(text) is not None


class Completion:
    """Decides for one run whether it may end as done."""

    def __init__(
        self,
        calls: ToolCalls,
        request: RequestReading,
        next_strategy: Callable[[], bool],
        checks: CheckRunner,
        *,
        node: str,
        attended: bool,
        writes: bool,
    ) -> None:
        """`next_strategy` switches to another strategy and returns False if there is none. `node` is the progress node
        that the checks are shown under. `writes`: the mode allows changes; otherwise an answer is enough."""
        self._calls = calls
        self._request = request
        self.next_strategy = next_strategy
        self._checks = checks
        self._node = node
        self._attended = attended
        self._writes = writes
        self._refusals: dict[str, int] = {}
        self.needs_change = writes and request.kind == "change"
        """The run is not done unless something was changed."""
        self._effects = CommandEffects(calls.by_command)

    async def evaluate(self, outcome: str, closing: str, claimed: bool) -> CompletionRefusal | Notice | None:
        """Run due checks and return a refusal if the run may not end yet, a notice if it ends with errors, or None.

        A run is never refused after the user declined an action or when it ends with a question to a present user.
        """
        if outcome not in ("done", "limit", "failed"):
            return None
        excused = outcome != "done" or self._calls.declined or (self._attended and ends_with_question(closing, claimed))
        if not excused:
            await self._run_checks()
            if (refusal := self._missing_work(closing)) is not None:
                return refusal
        changes = [change for _, result in self._calls.results for change in result.changes]
        errors = await self._calls.code.errors(changes) if changes else {}
        if not errors:
            return None
        return _remaining_errors(errors) if excused or self._is_exhausted("errors", 1) else _errors_refusal(errors)

    def missing(self, closing: str, claimed: bool) -> str:
        """Return the most severe unmet requirement as a sentence, or an empty string if the run is done."""
        if not self._writes:
            return ""
        key, refusal = next(self._unmet_requirements(closing), ("", None))
        if refusal is None or (key == "run" and self._calls.declined):
            return ""
        if key == "change" and self._calls.declined:
            return "Nothing was changed, since the change was refused."
        if key == "change" and ends_with_question(closing, claimed):
            return "" if self._attended else "The model asked a question, and nobody was there to answer."
        return refusal.missing

    # --- facts ---

    def _changed_protected_file(self) -> str:
        """Return a file that was changed although the request protects it, or an empty string."""
        first: dict[str, str] = {}
        last: dict[str, str | None] = {}
        for _, result in self._calls.results:
            for change in result.changes:
                if change.before is not None or change.display in first:
                    first.setdefault(change.display, change.before or "")
                    last[change.display] = change.after
        changed = [name for name, before in first.items() if last[name] != before]
        protected = protected_files(self._request.text, changed) if changed else frozenset()
        return next((name for name in changed if name in protected), "")

    async def _run_checks(self) -> None:
        """Rerun the checks that failed before the last change, and the project's tests if they have not run since.

        Files changed by commands count only if the request asks for a change: a request to run a command is not
        answered with tests."""
        results = self._calls.results
        is_change = self._effects.changed_files if self.needs_change else is_tool_edit
        since = next_after_change(results, is_change)
        if not since or not self._writes:
            return
        commands = stale_checks(results, is_change, self._request.text)
        tests = await self._checks.test_command()
        if not commands and tests and not check_results(results[since:]):
            commands = [tests]
        for command in commands:
            if await self._checks.may_run(command):
                await self._checks.run(command, self._node)

    def _missing_work(self, closing: str) -> CompletionRefusal | None:
        for key, refusal in self._unmet_requirements(closing):
            if not self._is_exhausted(key):
                return refusal
            if key.startswith("check "):
                return None
        return None

    def _unmet_requirements(self, closing: str) -> Iterator[tuple[str, CompletionRefusal]]:
        """Yield the unmet requirements, most severe first, as (key, refusal)."""
        results = self._calls.results
        # Without a change no failed check counts: its failure is what the request is about.
        is_changed = next_after_change(results, self._effects.changed_files) > 0
        failed = failed_check(results, self._request.text) if is_changed else None
        if failed is not None:
            command, result = failed
            quoted = f"`{one_line(command, 120)}`"
            feedback = f"`{command}` fails ({result.error}):\n{output_tail(result)}\nFind the cause and fix it."
            yield f"check {command}", _refuse(f"{quoted} fails", feedback, f"{quoted} failed ({result.error}).")
        if changed := self._changed_protected_file():
            missing = f"{changed} was changed, and the request says that it must stay as it is."
            feedback = f"{missing} Put back what it held, and do the work without changing it."
            yield f"protected {changed}", _refuse(f"{changed} must stay as it is", feedback, missing)
        claims = self._writes and self._request.kind == "unclear" and claims_change(closing)
        if (self.needs_change or claims) and not self._effects.had_effect(results, self._request):
            why = "the request needs a change, and nothing was changed"
            feedback = "nothing has changed. Make the change now with a tool call, such as edit_file or write_file."
            yield "change", _refuse(why, feedback, "Nothing was changed.")
        if self._writes and self._request.kind == "command" and not has_run_command(self._calls.results):
            why = "the request is to run something, and nothing was run"
            feedback = "nothing was run. Run it now with run_terminal_command."
            yield "run", _refuse(why, feedback, "Nothing was run.")

    def _is_exhausted(self, key: str, limit: int = MAX_REFUSALS) -> bool:
        """Count one refusal for this requirement; return whether the limit was reached before."""
        count = self._refusals.get(key, 0)
        self._refusals[key] = count + 1
        return count >= limit


def _refuse(why: str, feedback: str, missing: str) -> CompletionRefusal:
    return CompletionRefusal(why, f"This is not done yet: {feedback}", missing)


def _errors_refusal(errors: dict[str, tuple[Diagnostic, ...]]) -> CompletionRefusal:
    listing = "\n".join(
        f"── {name} ──\n{format_diagnostics(diagnostics, MAX_ERRORS_PER_FILE)}"
        for name, diagnostics in list(errors.items())[:MAX_FILES]
    )
    return CompletionRefusal(
        why=_error_count(errors),
        feedback=(
            f"This is not done yet: the files that you changed have {_count_errors(errors)}.\n{listing}\n"
            "Fix them now with the tools. If one is not caused by your changes, say so in a sentence."
        ),
    )


def _remaining_errors(errors: dict[str, tuple[Diagnostic, ...]]) -> Notice:
    lines = [
        f"{name}:{diagnostic.line}: {one_line(clean(diagnostic.message), 160)}"
        for name, diagnostics in errors.items()
        for diagnostic in diagnostics
    ]
    limit = MAX_ERRORS_IN_NOTICE
    more = [f"… and {len(lines) - limit} more"] if len(lines) > limit else []
    text = "\n".join([f"The run ends with {_error_count(errors)}", *lines[:limit], *more])
    return Notice(level="warning", text=text, code="run.errors_left")


def _error_count(errors: dict[str, tuple[Diagnostic, ...]]) -> str:
    return f"{_count_errors(errors)} in changed files: {', '.join(list(errors)[:MAX_FILES])}"


def _count_errors(errors: dict[str, tuple[Diagnostic, ...]]) -> str:
    return pluralize(sum(map(len, errors.values())), "error")


CHECK_TIMEOUT = 60
"""Time limit of a check, in seconds."""
MAX_OUTPUT = 900
"""Characters at the end of a failed check's output that the model gets."""


class CheckRunner:
    """Runs checks on behalf of the program, for one run."""

    def __init__(self, environment: ToolEnvironment, calls: ToolCalls, registry: Registry) -> None:
        self._environment = environment
        self._calls = calls
        self._registry = registry
        self._tests: str | None = None
        self._terminating: set[str] = set()
        """Commands that have ended within their time limit before."""

    async def test_command(self) -> str:
        """Return the project's test command, detected once per run; empty if there is none, or no trust (A8)."""
        if not self._environment.trusted():
            return ""
        if not self._tests:
            self._tests = await asyncio.to_thread(detect_test_command, self._environment.workspace)
        return self._tests

    async def may_run(self, command: str, *, may_ask: bool = True) -> bool:
        """Return whether the command may run: without approval or, with `may_ask`, if a user can approve it."""
        if self._registry.find(COMMAND_TOOL) is None:
            return False
        environment = self._environment
        action = await environment.judge(command, environment.workspace)
        verdict = await environment.verdict(action)
        return verdict.decision == "run" or (verdict.decision == "ask" and environment.attended and may_ask)

    async def run(
        self, command: str, node: str, *, seconds: int = CHECK_TIMEOUT, must_end: bool = False
    ) -> ToolResult | None:
        """Run a command in the workspace folder and return its result.

        Return None if the result says nothing about the work: the command was not allowed, did not start or timed out.
        A timeout is a result if `must_end` is set or if the command has ended in time before."""
        environment = self._environment
        arguments: dict[str, Any] = {"command": command, "timeout_seconds": seconds}
        if environment.shell_cwd() != environment.workspace:
            arguments["cwd"] = str(environment.workspace)
        call = ToolCall(id=f"check{secrets.token_hex(4)}", name=COMMAND_TOOL, arguments=arguments)
        await self._calls.execute((call,), node)
        result = self._calls.results[-1][1]
        if result.code in NOT_STARTED or not produced_result(result):
            return None
        if result.code == "timeout" and not (must_end or command in self._terminating):
            return None
        self._terminating.add(command)
        return result


def output_tail(result: ToolResult) -> str:
    """Return the end of a command's output, without rulers and blank lines."""
    text = result.data if isinstance(result.data, str) else ""
    lines = [line for line in text.splitlines() if line.strip() and not _RE.ruler.fullmatch(line.strip())]
    return "\n".join(lines)[-MAX_OUTPUT:]
