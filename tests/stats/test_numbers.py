from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stats.journals import Journal, approval_answer, plan, reply, step_verified, three_runs, tool
from tui_agent import events as e
from tui_agent.common.domain import Action, Answer, ReadAction, RunAction
from tui_agent.common.workplan import Summary
from tui_agent.stats.numbers import MAX_KEYS, OTHER, Numbers, Tally, Times, count_up, round_duration
from tui_agent.stats.reading import RunStats, read_tally
from tui_agent.stats.report import as_json, comparison_tables

SUMMARY = Summary(action="x")


def tally_of(journal: Journal, folder: Path) -> Tally:
    path = folder / "events.jsonl"
    path.write_bytes(journal.data)
    return read_tally(path)


def added(tallies: Iterable[Tally]) -> Tally:
    complete = Tally()
    for item in tallies:
        complete.add(item)
    return complete


def test_a_journal_with_known_answers(tmp_path: Path) -> None:
    tally = tally_of(three_runs(), tmp_path)
    complete = tally.total
    assert (complete.runs, complete.outcomes) == (3, {"done": 1, "refused": 1, "interrupted": 1})
    assert (complete.first_try, complete.intervened) == (1, 2)
    assert complete.interventions == {"rejection": 1, "answer": 1, "interrupt": 1}
    assert (complete.iterations, complete.tool_calls, complete.ms) == (11, 5, 12_500)
    assert (complete.plans, complete.cache_hits, complete.fallbacks) == (3, 1, 0)
    assert (complete.executed_plans, complete.plan_steps, complete.mean_steps) == (4, 10, 2.5)
    assert sorted(complete.planning.counts) == [100, 1_230, 9_000]
    assert (complete.met, complete.unmet) == ({"facts": 2, "command": 1}, {"model": 1})
    assert complete.recoveries == {"recovery": 1}
    assert (complete.parse_errors, complete.retries) == (1, 1)
    assert complete.failures == {
        "reply.unreadable": 1,
        "reply.duplicate": 1,
        "tool.not_found": 2,
        "step.missing_program": 1,
        "model.timeout": 1,
    }
    planning, work = complete.tokens["planning"], complete.tokens["execution"]
    assert (planning.replies, planning.prompt, planning.completion) == (2, 600, 180)
    assert (work.replies, work.prompt, work.completion, work.cached, work.uncounted) == (3, 1_020, 50, 800, 1)
    assert {name: item.runs for name, item in tally.models.items()} == {"small": 2, "large": 1}
    assert tally.models["large"].first_try == 0
    assert {name: item.runs for name, item in tally.prompts["rules"].items()} == {"aaaa": 1, "bbbb": 1}
    assert {row[0] for row in comparison_tables(tally)[1].rows} == {"rules aaaa", "rules bbbb"}
    assert {day: (item.runs, item.first_try) for day, item in tally.days.items()} == {
        "2026-01-05": (1, 1),
        "2026-01-06": (2, 0),
    }
    assert tally.days["2026-01-05"].tokens == 1_440


def test_rates_follow_from_the_counts(tmp_path: Path) -> None:
    result = as_json(tally_of(three_runs(), tmp_path))
    assert result["first_attempt"] == {"count": 1, "rate": 1 / 3}
    assert result["planning"]["cache_rate"] == 1 / 3
    assert result["planning"]["fallback_rate"] == 0.0
    assert [result["planning"][f"p{part}_ms"] for part in (50, 95, 99)] == [1_230, 9_000, 9_000]
    assert result["verification"]["rate"] == 0.75
    assert result["interventions"]["rate"] == 2 / 3
    json.dumps(result)


def test_rates_without_data_are_none() -> None:
    result = as_json(Tally())
    assert result["first_attempt"]["rate"] is None
    assert result["planning"]["p95_ms"] is None
    assert result["verification"]["rate"] is None


def test_a_run_without_an_end_is_unfinished(tmp_path: Path) -> None:
    journal = Journal().begin().put(reply()).begin()
    complete = tally_of(journal.end(), tmp_path).total
    assert complete.outcomes == {"done": 1, "unfinished": 1}
    assert complete.first_try == 1


def test_a_run_that_lacks_what_was_refused_is_not_done(tmp_path: Path) -> None:
    run = RunAction(command="make", cwd="/w")
    read = ReadAction(path="/w/.env", display=".env")
    answer = Answer(verdict="reject", by="--approve safe")

    def asked(name: str, action: Action) -> tuple[e.Event, ...]:
        requested = e.ApprovalRequested(id=name, action=action, digest="", why="")
        return requested, e.ApprovalAnswered(id=name, answer=answer)

    journal = Journal().begin().put(*asked("a", run)).end()
    journal.begin().put(tool(), *asked("b", read)).end()
    journal.begin().put(*asked("c", run), e.ApprovalAnswered(id="d", answer=Answer(verdict="reject"))).end("failed")
    complete = read_tally(journal.write(tmp_path, "refused")).total
    assert complete.outcomes == {"refused": 1, "done": 1, "failed": 1}
    assert complete.first_try == 1


def test_records_copied_by_a_fork_are_not_counted(tmp_path: Path) -> None:
    journal = three_runs().put(e.SessionForked(parent="p"), run="").begin().end(iterations=2)
    tally = tally_of(journal, tmp_path)
    assert (tally.total.runs, tally.total.iterations) == (1, 2)
    assert list(tally.models) == ["small"]


def test_only_the_user_intervenes(tmp_path: Path) -> None:
    journal = Journal().begin().put(
        approval_answer("approve"),
        approval_answer("approve", by="Approval mode auto"),
        approval_answer("reject", by="--approve safe"),
        approval_answer("withdrawn", by="interrupt"),
        e.SummaryReviewed(id="s", outcome="accepted", summary=SUMMARY),
    )  # fmt: skip
    assert tally_of(journal.end(), tmp_path).total.intervened == 0
    edits = Journal().begin().put(
        approval_answer("approve", data={"hunks": [0]}),
        *plan(2, 10, user=Answer(verdict="approve"), edited=True),
        *plan(2, 10, user=Answer(verdict="approve"), alternative=1),
        *plan(2, 10, user=Answer(verdict="reject", text="no")),
        e.SummaryReviewed(id="s", outcome="discarded", summary=SUMMARY),
    )  # fmt: skip
    complete = tally_of(edits.end(), tmp_path).total
    assert complete.interventions == {"edit": 2, "answer": 1, "rejection": 2}
    assert (complete.intervened, complete.first_try) == (1, 0)


def test_a_decision_after_its_run_counts_for_the_session(tmp_path: Path) -> None:
    journal = Journal().begin().end()
    journal.put(e.SummaryReviewed(id="s", outcome="edited", summary=SUMMARY), run="")
    complete = tally_of(journal, tmp_path).total
    assert (complete.runs, complete.interventions) == (1, {"edit": 1})


def test_every_run_is_reported_as_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(three_runs().data)
    told: list[tuple[str, RunStats]] = []
    read_tally(path, lambda key, run: told.append((key, run)))
    assert [(key, run.outcome) for key, run in told] == [
        ("run-1", "done"),
        ("run-2", "refused"),
        ("run-3", "interrupted"),
    ]
    assert told[1][1].numbers.retries == 1


def test_tables_of_hostile_names_stay_small(tmp_path: Path) -> None:
    counts: dict[str, int] = {}
    for number in range(3 * MAX_KEYS):
        count_up(counts, f"kind {number}")
    assert len(counts) == MAX_KEYS + 1 and counts[OTHER] == 2 * MAX_KEYS
    journal = Journal()
    for number in range(MAX_KEYS + 50):
        journal.begin(f"model {number} \x1b[2J" + "x" * 500).end()
    tally = tally_of(journal, tmp_path)
    assert len(tally.models) == MAX_KEYS + 1
    assert all(len(name) <= 80 and "\x1b" not in name for name in tally.models)


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=60), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
@settings(max_examples=100)
def test_percentiles_are_those_of_the_sorted_times(times: list[int], part: float) -> None:
    saved = Times()
    for ms in times:
        saved.record(ms)
    ordered = sorted(round_duration(ms) for ms in times)
    rank = max(1, -(-round(part * 100) * len(ordered) // 100))
    assert saved.percentile(part) == ordered[rank - 1]
    assert abs(round_duration(times[0]) - times[0]) <= times[0] * 0.005 + 0.5


OUTCOMES = ["done", "failed", "interrupted", "limit", "refused", "unreachable"]
PIECES = {
    "reply": lambda: [reply()],
    "planning": lambda: [reply("planning", None, None)],
    "fault": lambda: [reply(fault="broken")],
    "plan": lambda: plan(3, 1_500),
    "cached": lambda: plan(2, cached=True),
    "fallback": lambda: plan(1, 20_000, fallback=True),
    "met": lambda: [step_verified(True)],
    "unmet": lambda: [step_verified(False, "command")],
    "recovery": lambda: [e.StepRecoveryStarted(by="fallback", error_class="timeout")],
    "tool": lambda: [tool("refused")],
    "no": lambda: [approval_answer("reject")],
    "yes": lambda: [approval_answer()],
    "unread": lambda: [e.ReplyRejected(kind="empty")],
}
run = st.tuples(
    st.sampled_from(["small", "large", ""]),
    st.lists(st.sampled_from(sorted(PIECES)), max_size=5),
    st.sampled_from([*OUTCOMES, ""]),
    st.sampled_from(["aaaa", "bbbb"]),
)


@given(st.lists(st.lists(run, max_size=4), max_size=5), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_sessions_does_not_matter_and_counts_add_up(sessions, random) -> None:
    tallies: list[Tally] = []
    with tempfile.TemporaryDirectory() as folder:
        for runs in sessions:
            journal = Journal()
            for model, pieces, outcome, version in runs:
                journal.begin(model)
                for piece in pieces:
                    journal.put(*PIECES[piece]())
                if outcome:
                    journal.end(outcome, iterations=2, prompts={"rules": version})
            tallies.append(tally_of(journal, Path(folder)))
    complete = added(tallies)
    shuffled = list(tallies)
    random.shuffle(shuffled)
    assert as_json(added(shuffled)) == as_json(complete)
    flat = [item for runs in sessions for item in runs]
    assert complete.total.runs == sum(complete.total.outcomes.values()) == len(flat)
    assert complete.total.runs == sum(day.runs for day in complete.days.values())
    assert sum(item.runs for item in complete.models.values()) == sum(bool(model) for model, *_ in flat)
    assert sum(item.runs for item in complete.prompts.get("rules", {}).values()) == sum(bool(o) for *_, o, _ in flat)
    assert complete.total.first_try <= complete.total.done and complete.total.intervened <= complete.total.runs
    assert complete.total.checks == sum(p.count("met") + p.count("unmet") for _, p, *_ in flat)
    assert msgspec.json.decode(msgspec.json.encode(complete), type=Tally) == complete
    assert added([]) == Tally() and Numbers().all_tokens.replies == 0
