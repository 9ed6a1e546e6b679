"""Computing the statistics of a journal in one pass and constant memory, and of all sessions with a cache (S4)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from tui_agent import events as e
from tui_agent.common.domain import Answer
from tui_agent.events.refusals import Refusals
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import atomic_write, read_file
from tui_agent.stats.numbers import OTHER, Day, Numbers, Tally, Tokens, count_up, table_entry
from tui_agent.storage.folder import JOURNAL, load_info, session_folders
from tui_agent.storage.journal import JournalReader
from tui_agent.storage.lines import Damage, JournalLine
from tui_agent.text import clean, one_line

MAX_OPEN_RUNS = 64
"""Open runs that are tracked; older ones count as unfinished."""
MAX_NAME_LENGTH = 80
"""Maximum length of a name from a server or a model."""

_DATE = re.compile(r"\d{4}-\d\d-\d\dT")
_PARSED = frozenset(("duplicate", "loop", "too_many", "server"))
"""Kinds of `reply.rejected` whose reply was parsed."""
_NOT_FAILED = frozenset(("duplicate", "interrupted"))
"""Result codes that are no failure."""


class RunStats:
    """Statistics of a run so far."""

    def __init__(self, date: str, model: str) -> None:
        self.date = date
        self.model = model
        self.prompts: dict[str, str] = {}
        self.numbers = Numbers(runs=1)
        self.refusals = Refusals()
        self.had_setback = False
        """It can no longer be a success at the first attempt."""

    @property
    def outcome(self) -> str:
        """Its outcome, or `unfinished`."""
        return next(iter(self.numbers.outcomes), "unfinished")


def read_tally(journal: Path, on_run: Callable[[str, RunStats], None] = lambda key, run: None) -> Tally:
    """Return the statistics of a journal; `on_run` gets every run as it ends. Raises OSError if unreadable.

    Damaged records are counted and skipped.
    """
    counter = _JournalCounter(on_run)
    for line in JournalReader(journal):
        if isinstance(line, Damage):
            counter.tally.damaged += line.lost or (line.why != "retried")
        elif line.type in _COUNTERS:
            counter.feed(line)
    return counter.end()


class _JournalCounter:
    """Adds up the events of one journal."""

    def __init__(self, on_run: Callable[[str, RunStats], None]) -> None:
        self.tally = Tally(sessions=1)
        self._on_run = on_run
        self._runs: dict[str, RunStats] = {}

    def feed(self, line: JournalLine) -> None:
        record = line.record()
        event = record.event
        if isinstance(event, e.UnknownEvent):
            return  # from a newer version
        if isinstance(event, e.SessionForked):
            self._restart()
        elif isinstance(event, e.RunStarted):
            self._runs[record.run] = RunStats(_date(record.at), _clean_name(event.model))
            if len(self._runs) > MAX_OPEN_RUNS:
                self._close(next(iter(self._runs)), "unfinished")
        elif isinstance(event, e.RunEnded):
            self._end_run(record.run, event)
        elif (run := self._runs.get(record.run)) is not None:
            run.refusals.feed(record)
            _COUNTERS[line.type](run, event)
        elif record.run == "" and line.type in _AFTER_RUN:
            extra = RunStats("", "")
            _COUNTERS[line.type](extra, event)
            extra.numbers.runs = 0
            self.tally.total.add(extra.numbers)

    def _restart(self) -> None:
        """Discard the records of the original session, which counts them."""
        self._runs.clear()
        self.tally = Tally(sessions=1, damaged=self.tally.damaged)

    def _end_run(self, key: str, event: e.RunEnded) -> None:
        run = self._runs.get(key)
        if run is None:
            return
        run.numbers.iterations += event.iterations
        run.numbers.tool_calls += event.tool_calls
        run.numbers.ms += event.ms
        run.prompts |= {_clean_name(name): _clean_name(version) for name, version in event.prompts.items()}
        is_refused = event.outcome == "done" and bool(run.refusals.prevented("done"))
        self._close(key, "refused" if is_refused else event.outcome)

    def _close(self, key: str, outcome: str) -> None:
        run = self._runs.pop(key)
        if outcome == "interrupted":
            count_up(run.numbers.interventions, "interrupt")
        run.numbers.outcomes = {outcome: 1}
        run.numbers.first_try = int(outcome == "done" and not run.had_setback)
        run.numbers.intervened = int(bool(run.numbers.interventions))
        self.tally.total.add(run.numbers)
        if run.model:
            table_entry(self.tally.models, run.model, Numbers).add(run.numbers)
        # Without the large tables, which prompt versions are not compared by.
        comparable = msgspec.structs.replace(run.numbers, failures={}, interventions={}, recoveries={}, tokens={})
        for name, version in run.prompts.items():
            versions: dict[str, Numbers] = table_entry(self.tally.prompts, name, dict)
            table_entry(versions, version, Numbers).add(comparable)
        tokens = run.numbers.all_tokens
        day = Day(runs=1, first_try=run.numbers.first_try, tokens=tokens.prompt + tokens.completion)
        if run.date:
            self.tally.days.setdefault(run.date, Day()).add(day)
        self._on_run(key, run)

    def end(self) -> Tally:
        for key in tuple(self._runs):
            self._close(key, "unfinished")
        return self.tally


# --- one event ------------------------------------------------------------------------------


def _on_reply_started(run: RunStats, event: e.ReplyStarted) -> None:
    if event.model and (not event.role or not run.model):
        run.model = _clean_name(event.model)


def _on_reply_ended(run: RunStats, event: e.ReplyEnded) -> None:
    table_entry(run.numbers.tokens, _clean_name(event.role) or "execution", Tokens).record(event.usage)
    if event.fault is not None and event.fault.kind != "cancelled":
        count_up(run.numbers.failures, f"model.{event.fault.kind}")


def _on_reply_rejected(run: RunStats, event: e.ReplyRejected) -> None:
    count_up(run.numbers.failures, f"reply.{_clean_name(event.kind)}")
    run.numbers.parse_errors += event.kind not in _PARSED


def _on_retry_scheduled(run: RunStats, _: e.RetryScheduled) -> None:
    run.numbers.retries += 1


def _on_tool_finished(run: RunStats, event: e.ToolFinished) -> None:
    if not event.result.success and event.result.code not in _NOT_FAILED:
        count_up(run.numbers.failures, f"tool.{_clean_name(event.result.code or '') or 'failed'}")


def _on_plan_proposed(run: RunStats, event: e.PlanProposed) -> None:
    if event.prompt_version:
        run.prompts["plan_steps"] = _clean_name(event.prompt_version)
    is_request = not event.cached and bool(event.prompt_version or event.fallback)
    if is_request and event.ms:
        run.numbers.planning.record(event.ms)
    if event.recovery:
        run.had_setback = True
    elif is_request or event.cached:
        run.numbers.plans += 1
        run.numbers.cache_hits += event.cached
        run.numbers.fallbacks += is_request and event.fallback


def _on_plan_reviewed(run: RunStats, event: e.PlanReviewed) -> None:
    if event.answer.verdict == "approve":
        run.numbers.executed_plans += 1
        run.numbers.plan_steps += len(event.plan.steps)
        if event.answer.by == "user" and event.alternative is not None:
            count_up(run.numbers.interventions, "answer")
        elif event.answer.by == "user" and event.edited:
            count_up(run.numbers.interventions, "edit")
    else:
        _count_rejection(run, event.answer)


def _on_step_verified(run: RunStats, event: e.StepVerified) -> None:
    count_up(run.numbers.met if event.met else run.numbers.unmet, event.by)
    run.had_setback = run.had_setback or not event.met


def _on_recovery_started(run: RunStats, event: e.StepRecoveryStarted) -> None:
    run.had_setback = True
    count_up(run.numbers.recoveries, event.by)
    count_up(run.numbers.failures, f"step.{_clean_name(event.error_class) or OTHER}")


def _on_approval_answered(run: RunStats, event: e.ApprovalAnswered | e.PlanDocResolved) -> None:
    if event.answer.verdict == "approve":
        if event.answer.by == "user" and event.answer.data:
            count_up(run.numbers.interventions, "edit")
    elif event.answer.verdict == "reply" and event.answer.by == "user":
        count_up(run.numbers.interventions, "answer")
    else:
        _count_rejection(run, event.answer)


def _on_question_answered(run: RunStats, event: e.QuestionAnswered) -> None:
    if event.answer.verdict != "withdrawn" and event.answer.by == "user":
        count_up(run.numbers.interventions, "answer")


def _on_summary_reviewed(run: RunStats, event: e.SummaryReviewed) -> None:
    if event.by == "user" and event.outcome == "edited":
        count_up(run.numbers.interventions, "edit")
    elif event.by == "user" and event.outcome == "discarded":
        count_up(run.numbers.interventions, "rejection")


def _count_rejection(run: RunStats, answer: Answer) -> None:
    if answer.verdict == "reject" and answer.by == "user":
        count_up(run.numbers.interventions, "rejection")
        run.had_setback = True


def _date(at: str) -> str:
    return at[:10] if _DATE.match(at) else ""


def _clean_name(text: str) -> str:
    return one_line(clean(text), MAX_NAME_LENGTH)


_COUNTERS: dict[str, Callable[..., None]] = {
    e.SessionForked.type: lambda run, event: None,
    e.RunStarted.type: lambda run, event: None,
    e.RunEnded.type: lambda run, event: None,
    e.ReplyStarted.type: _on_reply_started,
    e.ReplyEnded.type: _on_reply_ended,
    e.ReplyRejected.type: _on_reply_rejected,
    e.RetryScheduled.type: _on_retry_scheduled,
    e.ToolFinished.type: _on_tool_finished,
    e.ApprovalRequested.type: lambda run, event: None,
    e.ToolStarted.type: lambda run, event: None,
    e.FileChanged.type: lambda run, event: None,
    e.PlanProposed.type: _on_plan_proposed,
    e.PlanReviewed.type: _on_plan_reviewed,
    e.StepVerified.type: _on_step_verified,
    e.StepRecoveryStarted.type: _on_recovery_started,
    e.ApprovalAnswered.type: _on_approval_answered,
    e.PlanDocResolved.type: _on_approval_answered,
    e.QuestionAnswered.type: _on_question_answered,
    e.SummaryReviewed.type: _on_summary_reviewed,
}
"""Events that are examined."""
_AFTER_RUN = frozenset((e.SummaryReviewed.type, e.PlanDocResolved.type))
"""Events that may come after the end of their run."""


CACHE_FILE = "stats-cache.jsonl"
"""In the data folder; can be deleted at any time."""
MAX_CACHE_SIZE = 256 << 20
"""Maximum size of the cache file."""
VERSION = 4
"""Version of the cache format and the counting rules; changing it rereads all journals."""
_HEADER = b'{"version":%d}' % VERSION


class CachedTally(msgspec.Struct, array_like=True):
    """The statistics of a journal, with the file's metadata when they were computed."""

    name: str
    """Id of the session."""
    size: int
    mtime: int
    """Nanoseconds."""
    tally: Tally


class StatsResult(msgspec.Struct):
    """The statistics of several sessions, and what is missing in them."""

    tally: Tally
    skipped: dict[str, str] = {}
    """Session → why it is unreadable, as a sentence."""
    damaged: list[str] = []
    """Sessions with unreadable records; the others are counted."""
    read: int = 0
    """Number of journals that were not in the cache."""


def gather_stats(
    home: Path,
    workspace: Path | None = None,
    *,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> StatsResult:
    """Return the statistics of the sessions under `home` (`paths.data_dir()`), or of those in `workspace`.

    `on_progress` gets the number examined and the total; `is_cancelled` is polled before each, and the result so far is
    returned. Blocks. Never raises for the content of the folders.
    """
    cache = _load_cache(home / CACHE_FILE)
    new_cache: dict[str, CachedTally] = {}
    result = StatsResult(tally=Tally())
    folders = sorted(session_folders(home / "sessions"))
    for number, folder in enumerate(folders):
        name = folder.name
        on_progress(number, len(folders))
        if is_cancelled():
            new_cache = {**cache, **new_cache}
            break
        entry = _cached_tally(folder, cache, result)
        if entry is None:
            continue
        new_cache[name] = entry
        if workspace is not None and not _is_in_workspace(folder, workspace):
            continue
        result.tally.add(entry.tally)
        if entry.tally.damaged:
            result.damaged.append(name)
    if result.read or new_cache.keys() != cache.keys():
        _save_cache(home / CACHE_FILE, new_cache)
    return result


def _cached_tally(folder: Path, cache: dict[str, CachedTally], result: StatsResult) -> CachedTally | None:
    name, path = folder.name, folder / JOURNAL
    try:
        status = os.lstat(path)
        cached = cache.get(name)
        if cached is not None and (cached.size, cached.mtime) == (status.st_size, status.st_mtime_ns):
            return cached
        tally = read_tally(path)
    except OSError as error:
        result.skipped[name] = f"{JOURNAL} can't be read: {error.strerror or error}."
        return None
    result.read += 1
    return CachedTally(name, status.st_size, status.st_mtime_ns, tally)


def _is_in_workspace(folder: Path, workspace: Path) -> bool:
    info = load_info(folder)
    return info is not None and info.workspace == os.path.realpath(workspace)


def _load_cache(path: Path) -> dict[str, CachedTally]:
    """Read the cache line by line, so that other threads get their turn."""
    try:
        lines = read_file(path, MAX_CACHE_SIZE).data.split(b"\n")
    except (FileFault, OSError):
        return {}
    cached: dict[str, CachedTally] = {}
    if lines[0] != _HEADER:
        return cached
    decode = msgspec.json.Decoder(CachedTally).decode
    for line in lines[1:]:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            entry = decode(line)
            cached[entry.name] = entry
    return cached


def _save_cache(path: Path, cache: dict[str, CachedTally]) -> None:
    """Write the cache, ignoring errors: the journals are then read again."""
    with contextlib.suppress(OSError, FileFault, UnicodeEncodeError):
        lines = [_HEADER, *(msgspec.json.encode(entry) for entry in cache.values())]
        atomic_write(path, b"\n".join(lines) + b"\n")
