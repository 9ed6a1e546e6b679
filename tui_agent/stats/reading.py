"""One journal in numbers: read once from beginning to end, in memory that does not grow with it (S4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tui_agent import events as e
from tui_agent.domain import Answer
from tui_agent.stats.numbers import OTHER, Day, Numbers, Tally, count_up
from tui_agent.storage.journal import JournalReader
from tui_agent.storage.lines import Damage, Line
from tui_agent.text import clean, one_line

OPEN_MAX = 64
"""Runs without an end that are kept apart; an older one is counted as unfinished."""
NAME_MAX = 80
"""Characters of a name that comes from a server or a model."""

_DATE = re.compile(r"\d{4}-\d\d-\d\dT")
_NO_PARSE_ERROR = frozenset(("duplicate", "loop", "too_many", "server"))
"""Kinds of `reply.rejected` that were read well enough."""
_NO_FAILURE = frozenset(("duplicate", "interrupted"))
"""Codes of results that tell of no failure."""


class Run:
    """What is known of a run so far."""

    def __init__(self, date: str, model: str) -> None:
        self.date = date
        self.model = model
        self.prompts: dict[str, str] = {}
        self.numbers = Numbers(runs=1)
        self.stumbled = False
        """It can't be a success at the first attempt any more."""

    @property
    def outcome(self) -> str:
        """How it ended, once it has."""
        return next(iter(self.numbers.outcomes), "unfinished")


def read(journal: Path, each: Callable[[str, Run], None] = lambda key, run: None) -> Tally:
    """The numbers of a journal; `each` gets every run as it ends. Raises OSError when the file can't be read; what is
    damaged in it is counted and passed over."""
    reading = _Reading(each)
    for line in JournalReader(journal):
        if isinstance(line, Damage):
            reading.tally.damaged += line.lost or (line.why != "retried")
        elif line.type in _TAKEN:
            reading.take(line)
    return reading.end()


class _Reading:
    def __init__(self, each: Callable[[str, Run], None]) -> None:
        self.tally = Tally(sessions=1)
        self._each = each
        self._runs: dict[str, Run] = {}

    def take(self, line: Line) -> None:
        record = line.record()
        event = record.event
        if isinstance(event, e.Unknown):
            return  # of a newer program
        if isinstance(event, e.SessionForked):
            self._forget()
        elif isinstance(event, e.RunStarted):
            self._runs[record.run] = Run(_date(record.at), _name(event.model))
            if len(self._runs) > OPEN_MAX:
                self._close(next(iter(self._runs)), "unfinished")
        elif isinstance(event, e.RunEnded):
            self._ended(record.run, event)
        elif (run := self._runs.get(record.run)) is not None:
            _TAKEN[line.type](run, event)
        elif record.run == "" and line.type in _LATE:
            late = Run("", "")
            _TAKEN[line.type](late, event)
            late.numbers.runs = 0
            self.tally.whole.add(late.numbers)

    def _forget(self) -> None:
        """What came before is another session's, which counts it."""
        self._runs.clear()
        self.tally = Tally(sessions=1, damaged=self.tally.damaged)

    def _ended(self, key: str, event: e.RunEnded) -> None:
        run = self._runs.get(key)
        if run is None:
            return
        run.numbers.iterations += event.iterations
        run.numbers.tool_calls += event.tool_calls
        run.numbers.ms += event.ms
        run.prompts |= {_name(name): _name(version) for name, version in event.prompts.items()}
        self._close(key, event.outcome)

    def _close(self, key: str, outcome: str) -> None:
        run = self._runs.pop(key)
        if outcome == "interrupted":
            count_up(run.numbers.interventions, "interrupt")
        run.numbers.outcomes = {outcome: 1}
        run.numbers.first_try = int(outcome == "done" and not run.stumbled)
        run.numbers.hands_on = int(bool(run.numbers.interventions))
        self.tally.whole.add(run.numbers)
        if run.model:
            self.tally.of_model(run.model).add(run.numbers)
        slim = run.numbers.slim()
        for name, version in run.prompts.items():
            self.tally.of_prompt(name, version).add(slim)
        tokens = run.numbers.all_tokens
        day = Day(runs=1, first_try=run.numbers.first_try, tokens=tokens.prompt + tokens.completion)
        if run.date:
            self.tally.days.setdefault(run.date, Day()).add(day)
        self._each(key, run)

    def end(self) -> Tally:
        for key in tuple(self._runs):
            self._close(key, "unfinished")
        return self.tally


# --- one event ------------------------------------------------------------------------------


def _reply_started(run: Run, event: e.ReplyStarted) -> None:
    if event.model and (not event.role or not run.model):
        run.model = _name(event.model)


def _reply_ended(run: Run, event: e.ReplyEnded) -> None:
    run.numbers.stage(_name(event.role) or "execution").note(event.usage)
    if event.fault is not None and event.fault.kind != "cancelled":
        count_up(run.numbers.failures, f"model.{event.fault.kind}")


def _reply_rejected(run: Run, event: e.ReplyRejected) -> None:
    count_up(run.numbers.failures, f"reply.{_name(event.kind)}")
    run.numbers.parse_errors += event.kind not in _NO_PARSE_ERROR


def _retry(run: Run, _: e.RetryWaiting) -> None:
    run.numbers.retries += 1


def _tool(run: Run, event: e.ToolFinished) -> None:
    if not event.result.success and event.result.code not in _NO_FAILURE:
        count_up(run.numbers.failures, f"tool.{_name(event.result.code or '') or 'failed'}")


def _proposed(run: Run, event: e.PlanProposed) -> None:
    if event.prompt_version:
        run.prompts["plan_steps"] = _name(event.prompt_version)
    asked = not event.cached and bool(event.prompt_version or event.fallback)
    if asked and event.ms:
        run.numbers.planning.note(event.ms)
    if event.recovery:
        run.stumbled = True
    elif asked or event.cached:
        run.numbers.plans += 1
        run.numbers.cache_hits += event.cached
        run.numbers.fallbacks += asked and event.fallback


def _reviewed(run: Run, event: e.PlanReviewed) -> None:
    if event.answer.verdict == "approve":
        run.numbers.carried += 1
        run.numbers.plan_steps += len(event.plan.steps)
        if event.answer.by == "user" and event.alternative is not None:
            count_up(run.numbers.interventions, "answer")
        elif event.answer.by == "user" and event.edited:
            count_up(run.numbers.interventions, "edit")
    else:
        _rejected(run, event.answer)


def _verified(run: Run, event: e.StepVerified) -> None:
    count_up(run.numbers.met if event.met else run.numbers.unmet, event.by)
    run.stumbled = run.stumbled or not event.met


def _recovering(run: Run, event: e.StepRecovering) -> None:
    run.stumbled = True
    count_up(run.numbers.recoveries, event.by)
    count_up(run.numbers.failures, f"step.{_name(event.error_class) or OTHER}")


def _answered(run: Run, event: e.ApprovalAnswered | e.PlanDocSettled) -> None:
    if event.answer.verdict == "approve":
        if event.answer.by == "user" and event.answer.data:
            count_up(run.numbers.interventions, "edit")
    elif event.answer.verdict == "reply" and event.answer.by == "user":
        count_up(run.numbers.interventions, "answer")
    else:
        _rejected(run, event.answer)


def _question(run: Run, event: e.QuestionAnswered) -> None:
    if event.answer.verdict != "withdrawn" and event.answer.by == "user":
        count_up(run.numbers.interventions, "answer")


def _summary(run: Run, event: e.SummarySettled) -> None:
    if event.by == "user" and event.outcome == "edited":
        count_up(run.numbers.interventions, "edit")
    elif event.by == "user" and event.outcome == "discarded":
        count_up(run.numbers.interventions, "rejection")


def _rejected(run: Run, answer: Answer) -> None:
    if answer.verdict == "reject" and answer.by == "user":
        count_up(run.numbers.interventions, "rejection")
        run.stumbled = True


def _date(at: str) -> str:
    return at[:10] if _DATE.match(at) else ""


def _name(text: str) -> str:
    return one_line(clean(text), NAME_MAX)


_TAKEN: dict[str, Callable[..., None]] = {
    e.SessionForked.type: lambda run, event: None,
    e.RunStarted.type: lambda run, event: None,
    e.RunEnded.type: lambda run, event: None,
    e.ReplyStarted.type: _reply_started,
    e.ReplyEnded.type: _reply_ended,
    e.ReplyRejected.type: _reply_rejected,
    e.RetryWaiting.type: _retry,
    e.ToolFinished.type: _tool,
    e.PlanProposed.type: _proposed,
    e.PlanReviewed.type: _reviewed,
    e.StepVerified.type: _verified,
    e.StepRecovering.type: _recovering,
    e.ApprovalAnswered.type: _answered,
    e.PlanDocSettled.type: _answered,
    e.QuestionAnswered.type: _question,
    e.SummarySettled.type: _summary,
}
"""What is looked at; of all other lines only that they are whole."""
_LATE = frozenset((e.SummarySettled.type, e.PlanDocSettled.type))
"""What may be decided when its run is over."""
