"""One journal in numbers: read once from beginning to end, in memory that does not grow with it (S4)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from tui_agent import events as e
from tui_agent.common.domain import Answer
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import atomic_write, read_file
from tui_agent.stats.numbers import OTHER, Day, Numbers, Tally, Tokens, count_up, table_entry
from tui_agent.storage.folder import JOURNAL, load_info, session_folders
from tui_agent.storage.journal import JournalReader
from tui_agent.storage.lines import Damage, JournalLine
from tui_agent.text import clean, one_line

OPEN_MAX = 64
"""Runs without an end that are kept apart; an older one is counted as unfinished."""
NAME_MAX = 80
"""Characters of a name that comes from a server or a model."""

_DATE = re.compile(r"\d{4}-\d\d-\d\dT")
_PARSED = frozenset(("duplicate", "loop", "too_many", "server"))
"""Kinds of `reply.rejected` that were read well enough."""
_NOT_FAILED = frozenset(("duplicate", "interrupted"))
"""Codes of results that tell of no failure."""


class RunStats:
    """What is known of a run so far."""

    def __init__(self, date: str, model: str) -> None:
        self.date = date
        self.model = model
        self.prompts: dict[str, str] = {}
        self.numbers = Numbers(runs=1)
        self.had_setback = False
        """It can't be a success at the first attempt any more."""

    @property
    def outcome(self) -> str:
        """How it ended, once it has."""
        return next(iter(self.numbers.outcomes), "unfinished")


def read_tally(journal: Path, each: Callable[[str, RunStats], None] = lambda key, run: None) -> Tally:
    """The numbers of a journal; `each` gets every run as it ends. Raises OSError when the file can't be read; what is
    damaged in it is counted and passed over."""
    reading = _Reading(each)
    for line in JournalReader(journal):
        if isinstance(line, Damage):
            reading.tally.damaged += line.lost or (line.why != "retried")
        elif line.type in _COUNTERS:
            reading.take(line)
    return reading.end()


class _Reading:
    def __init__(self, each: Callable[[str, RunStats], None]) -> None:
        self.tally = Tally(sessions=1)
        self._each = each
        self._runs: dict[str, RunStats] = {}

    def take(self, line: JournalLine) -> None:
        record = line.record()
        event = record.event
        if isinstance(event, e.UnknownEvent):
            return  # of a newer program
        if isinstance(event, e.SessionForked):
            self._restart()
        elif isinstance(event, e.RunStarted):
            self._runs[record.run] = RunStats(_date(record.at), _clean_name(event.model))
            if len(self._runs) > OPEN_MAX:
                self._close(next(iter(self._runs)), "unfinished")
        elif isinstance(event, e.RunEnded):
            self._ended(record.run, event)
        elif (run := self._runs.get(record.run)) is not None:
            _COUNTERS[line.type](run, event)
        elif record.run == "" and line.type in _AFTER_RUN:
            late = RunStats("", "")
            _COUNTERS[line.type](late, event)
            late.numbers.runs = 0
            self.tally.whole.add(late.numbers)

    def _restart(self) -> None:
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
        run.prompts |= {_clean_name(name): _clean_name(version) for name, version in event.prompts.items()}
        self._close(key, event.outcome)

    def _close(self, key: str, outcome: str) -> None:
        run = self._runs.pop(key)
        if outcome == "interrupted":
            count_up(run.numbers.interventions, "interrupt")
        run.numbers.outcomes = {outcome: 1}
        run.numbers.first_try = int(outcome == "done" and not run.had_setback)
        run.numbers.hands_on = int(bool(run.numbers.interventions))
        self.tally.whole.add(run.numbers)
        if run.model:
            table_entry(self.tally.models, run.model, Numbers).add(run.numbers)
        slim = run.numbers.slim()
        for name, version in run.prompts.items():
            versions: dict[str, Numbers] = table_entry(self.tally.prompts, name, dict)
            table_entry(versions, version, Numbers).add(slim)
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


def _reply_started(run: RunStats, event: e.ReplyStarted) -> None:
    if event.model and (not event.role or not run.model):
        run.model = _clean_name(event.model)


def _reply_ended(run: RunStats, event: e.ReplyEnded) -> None:
    table_entry(run.numbers.tokens, _clean_name(event.role) or "execution", Tokens).note(event.usage)
    if event.fault is not None and event.fault.kind != "cancelled":
        count_up(run.numbers.failures, f"model.{event.fault.kind}")


def _reply_rejected(run: RunStats, event: e.ReplyRejected) -> None:
    count_up(run.numbers.failures, f"reply.{_clean_name(event.kind)}")
    run.numbers.parse_errors += event.kind not in _PARSED


def _retry(run: RunStats, _: e.RetryScheduled) -> None:
    run.numbers.retries += 1


def _tool(run: RunStats, event: e.ToolFinished) -> None:
    if not event.result.success and event.result.code not in _NOT_FAILED:
        count_up(run.numbers.failures, f"tool.{_clean_name(event.result.code or '') or 'failed'}")


def _proposed(run: RunStats, event: e.PlanProposed) -> None:
    if event.prompt_version:
        run.prompts["plan_steps"] = _clean_name(event.prompt_version)
    asked = not event.cached and bool(event.prompt_version or event.fallback)
    if asked and event.ms:
        run.numbers.planning.note(event.ms)
    if event.recovery:
        run.had_setback = True
    elif asked or event.cached:
        run.numbers.plans += 1
        run.numbers.cache_hits += event.cached
        run.numbers.fallbacks += asked and event.fallback


def _reviewed(run: RunStats, event: e.PlanReviewed) -> None:
    if event.answer.verdict == "approve":
        run.numbers.carried += 1
        run.numbers.plan_steps += len(event.plan.steps)
        if event.answer.by == "user" and event.alternative is not None:
            count_up(run.numbers.interventions, "answer")
        elif event.answer.by == "user" and event.edited:
            count_up(run.numbers.interventions, "edit")
    else:
        _rejected(run, event.answer)


def _verified(run: RunStats, event: e.StepVerified) -> None:
    count_up(run.numbers.met if event.met else run.numbers.unmet, event.by)
    run.had_setback = run.had_setback or not event.met


def _recovering(run: RunStats, event: e.StepRecoveryStarted) -> None:
    run.had_setback = True
    count_up(run.numbers.recoveries, event.by)
    count_up(run.numbers.failures, f"step.{_clean_name(event.error_class) or OTHER}")


def _answered(run: RunStats, event: e.ApprovalAnswered | e.PlanDocResolved) -> None:
    if event.answer.verdict == "approve":
        if event.answer.by == "user" and event.answer.data:
            count_up(run.numbers.interventions, "edit")
    elif event.answer.verdict == "reply" and event.answer.by == "user":
        count_up(run.numbers.interventions, "answer")
    else:
        _rejected(run, event.answer)


def _question(run: RunStats, event: e.QuestionAnswered) -> None:
    if event.answer.verdict != "withdrawn" and event.answer.by == "user":
        count_up(run.numbers.interventions, "answer")


def _summary(run: RunStats, event: e.SummaryReviewed) -> None:
    if event.by == "user" and event.outcome == "edited":
        count_up(run.numbers.interventions, "edit")
    elif event.by == "user" and event.outcome == "discarded":
        count_up(run.numbers.interventions, "rejection")


def _rejected(run: RunStats, answer: Answer) -> None:
    if answer.verdict == "reject" and answer.by == "user":
        count_up(run.numbers.interventions, "rejection")
        run.had_setback = True


def _date(at: str) -> str:
    return at[:10] if _DATE.match(at) else ""


def _clean_name(text: str) -> str:
    return one_line(clean(text), NAME_MAX)


_COUNTERS: dict[str, Callable[..., None]] = {
    e.SessionForked.type: lambda run, event: None,
    e.RunStarted.type: lambda run, event: None,
    e.RunEnded.type: lambda run, event: None,
    e.ReplyStarted.type: _reply_started,
    e.ReplyEnded.type: _reply_ended,
    e.ReplyRejected.type: _reply_rejected,
    e.RetryScheduled.type: _retry,
    e.ToolFinished.type: _tool,
    e.PlanProposed.type: _proposed,
    e.PlanReviewed.type: _reviewed,
    e.StepVerified.type: _verified,
    e.StepRecoveryStarted.type: _recovering,
    e.ApprovalAnswered.type: _answered,
    e.PlanDocResolved.type: _answered,
    e.QuestionAnswered.type: _question,
    e.SummaryReviewed.type: _summary,
}
"""What is looked at; of all other lines only that they are whole."""
_AFTER_RUN = frozenset((e.SummaryReviewed.type, e.PlanDocResolved.type))
"""What may be decided when its run is over."""


CACHE_FILE = "stats-cache.jsonl"
"""In the data folder; can be deleted at any time."""
CACHE_MAX = 256 << 20
"""Bytes of it that are read at most."""
VERSION = 2
"""Of what is counted: another one makes all journals be read anew."""
_HEAD = b'{"version":%d}' % VERSION


class CachedTally(msgspec.Struct, array_like=True):
    """The numbers of a journal, and what it looked like when they were read."""

    name: str
    """Of the session."""
    size: int
    mtime: int
    """Nanoseconds."""
    tally: Tally


class Gathered(msgspec.Struct):
    """All numbers, and what is missing in them."""

    tally: Tally
    skipped: dict[str, str] = {}
    """Session → why it could not be read, as a sentence."""
    damaged: list[str] = []
    """Sessions in whose journals records could not be read; the others of them are counted."""
    read: int = 0
    """Journals that were read now; the numbers of the others were known."""


def gather_stats(
    home: Path,
    workspace: Path | None = None,
    *,
    tell: Callable[[int, int], None] = lambda done, of: None,
    stop: Callable[[], bool] = lambda: False,
) -> Gathered:
    """The numbers of the sessions under `home` (`paths.data_dir()`), with `workspace` of those that work there.

    `tell` hears how many were looked at, `stop` is asked before each; what is known by then is returned. Blocks. Never
    raises for what is in the folders.
    """
    cache = _load(home / CACHE_FILE)
    fresh: dict[str, CachedTally] = {}
    found = Gathered(tally=Tally())
    folders = sorted(session_folders(home / "sessions"))
    for number, folder in enumerate(folders):
        name = folder.name
        tell(number, len(folders))
        if stop():
            fresh = {**cache, **fresh}
            break
        kept = _numbers(folder, cache, found)
        if kept is None:
            continue
        fresh[name] = kept
        if workspace is not None and not _works_in(folder, workspace):
            continue
        found.tally.add(kept.tally)
        if kept.tally.damaged:
            found.damaged.append(name)
    if found.read or fresh.keys() != cache.keys():
        _save(home / CACHE_FILE, fresh)
    return found


def _numbers(folder: Path, cache: dict[str, CachedTally], found: Gathered) -> CachedTally | None:
    name, path = folder.name, folder / JOURNAL
    try:
        status = os.lstat(path)
        known = cache.get(name)
        if known is not None and (known.size, known.mtime) == (status.st_size, status.st_mtime_ns):
            return known
        tally = read_tally(path)
    except OSError as error:
        found.skipped[name] = f"{JOURNAL} can't be read: {error.strerror or error}."
        return None
    found.read += 1
    return CachedTally(name, status.st_size, status.st_mtime_ns, tally)


def _works_in(folder: Path, workspace: Path) -> bool:
    info = load_info(folder)
    return info is not None and info.workspace == os.path.realpath(workspace)


def _load(path: Path) -> dict[str, CachedTally]:
    """Line by line, so that no other thread waits long for its turn."""
    try:
        lines = read_file(path, CACHE_MAX).data.split(b"\n")
    except (FileFault, OSError):
        return {}
    known: dict[str, CachedTally] = {}
    if lines[0] != _HEAD:
        return known
    decode = msgspec.json.Decoder(CachedTally).decode
    for line in lines[1:]:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            kept = decode(line)
            known[kept.name] = kept
    return known


def _save(path: Path, cache: dict[str, CachedTally]) -> None:
    """What fails is no loss: the journals are read again then."""
    with contextlib.suppress(OSError, FileFault, UnicodeEncodeError):
        lines = [_HEAD, *(msgspec.json.encode(kept) for kept in cache.values())]
        atomic_write(path, b"\n".join(lines) + b"\n")
