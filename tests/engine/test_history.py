from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui_agent.common.domain import (
    AssistantMessage,
    Message,
    ProgramMessage,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from tui_agent.common.workplan import PlanStep, Summary
from tui_agent.engine.core.history import USER_MESSAGES, History, repair
from tui_agent.engine.core.state import EngineState
from tui_agent.engine.core.tokens import Gauge, count_message, total
from tui_agent.events import (
    ContextCompacted,
    ConversationRewound,
    Event,
    ModelChanged,
    ProgramMessageAdded,
    ReplyEnded,
    RunEnded,
    RunStarted,
    StepFinished,
    StepStarted,
    SummaryReviewed,
    ToolFinished,
    ToolStarted,
    UserMessageAdded,
)

IDS = st.sampled_from(["a", "b", "c", "d"])
CALLS = st.lists(IDS, max_size=3, unique=True).map(
    lambda ids: tuple(ToolCall(id=one, name="read_file", arguments={}) for one in ids)
)
MESSAGES = st.one_of(
    st.builds(UserMessage, text=st.text(min_size=1, max_size=5)),
    st.builds(ProgramMessage, text=st.just("<agent_feedback>x</agent_feedback>")),
    st.builds(AssistantMessage, text=st.text(max_size=5), calls=CALLS),
    st.builds(ToolMessage, call_id=IDS, name=st.just("read_file"), text=st.just("x")),
)


def said(text: str, name: str = "m") -> UserMessageAdded:
    return UserMessageAdded(id=name, text=text)


def reply(text: str = "", *ids: str, interrupted: bool = False) -> ReplyEnded:
    calls = tuple(ToolCall(id=one, name="read_file", arguments={"path": "a"}) for one in ids)
    return ReplyEnded(text=text, calls=calls, interrupted=interrupted)


def result(call_id: str, text: str = "content") -> ToolFinished:
    done = ToolResult(success=True, data=text)
    return ToolFinished(call_id=call_id, name="read_file", result=done, text=text, ms=1)


def folded(*events: Event) -> History:
    history = History()
    for event in events:
        history.fold(event)
    return history


@given(st.lists(MESSAGES, max_size=12))
def test_repair_leaves_each_call_with_exactly_one_result(messages: list[Message]) -> None:
    fixed = repair(messages)
    waiting: list[str] = []
    for message in fixed:
        if isinstance(message, ToolMessage):
            assert waiting
            assert message.call_id == waiting.pop(0)
            continue
        assert not waiting
        if isinstance(message, AssistantMessage):
            assert message.text or message.calls
            waiting = [call.id for call in message.calls]
    assert not waiting


@given(st.lists(MESSAGES, max_size=12))
def test_repair_is_done_after_one_time(messages: list[Message]) -> None:
    assert repair(repair(messages)) == repair(messages)


@given(st.lists(MESSAGES, max_size=12))
def test_repair_keeps_what_user_and_program_said(messages: list[Message]) -> None:
    def spoken(given: list[Message]) -> list[Message]:
        return [message for message in given if isinstance(message, UserMessage | ProgramMessage)]

    assert spoken(list(repair(messages))) == spoken(messages)


def test_results_follow_in_call_order() -> None:
    history = folded(said("go"), RunStarted(message_id="m", mode="direct", model="x"), reply("", "a", "b"))
    history.fold(result("b", "second"))
    history.fold(result("a", "first"))
    texts = [message.text for message in history.window() if isinstance(message, ToolMessage)]
    assert texts == ["first", "second"]


def begun(call_id: str) -> ToolStarted:
    call = ToolCall(id=call_id, name="read_file", arguments={"path": "a"})
    return ToolStarted(call=call, title="a", reads_only=True)


def test_a_call_that_never_began_says_that_it_was_not_run() -> None:
    history = folded(said("go"), reply("", "a", "b"), begun("a"), result("a"))
    for one in (history, History.restore(history.export())):
        (*_, last) = one.window()
        assert isinstance(last, ToolMessage)
        assert not last.success
        assert last.text.startswith("Not run")


def test_an_unfinished_call_says_that_it_was_interrupted() -> None:
    events = (said("go"), reply("", "a", "b"), begun("a"), result("a"), begun("b"))
    window = History.restore(folded(*events).export()).window()
    assert isinstance(window[-1], ToolMessage)
    assert not window[-1].success
    assert "Interrupted" in window[-1].text


def test_calls_without_text_get_none_from_the_program() -> None:
    window = folded(said("go"), reply("", "a"), result("a")).window()
    assert isinstance(window[1], AssistantMessage)
    assert window[1].text == "" and window[1].calls


def test_the_current_run_is_whole_and_ended_ones_are_condensed() -> None:
    history = folded(
        said("first"),
        reply("looking", "a"),
        result("a", "LONG CONTENT"),
        reply("it is fine"),
        RunEnded(outcome="done", text="it is fine"),
        said("second"),
        reply("", "b"),
        result("b", "OTHER"),
    )
    texts = [message.text for message in history.window()]
    told = "<agent_outcome>\nTools used: read_file.\n</agent_outcome>"
    assert texts == ["first", "it is fine", told, "second", "", "OTHER"]


def test_an_early_end_is_told() -> None:
    history = folded(said("first"), reply("half"), RunEnded(outcome="interrupted", text=""), said("second"))
    own, told = history.window()[1:3]
    assert isinstance(own, AssistantMessage) and own.text == "half"
    assert isinstance(told, ProgramMessage) and "ended: interrupted" in told.text


def test_what_a_run_had_said_before_it_was_stopped_is_kept() -> None:
    history = folded(
        said("first"), reply("half a sent", interrupted=True), RunEnded(outcome="interrupted", text="Interrupted.")
    )
    own, told = history.window()[1:]
    assert isinstance(own, AssistantMessage) and own.text == "half a sent"
    assert told.text.splitlines()[1] == "Interrupted."


def test_the_model_sees_the_last_five_messages_of_the_user() -> None:
    history = History()
    for number in range(USER_MESSAGES + 30):
        for event in (said(f"m{number}"), reply(f"r{number}"), RunEnded(outcome="done", text=f"r{number}")):
            history.fold(event)
    users = [message.text for message in history.window() if isinstance(message, UserMessage)]
    assert users == [f"m{number}" for number in range(30, 35)]
    assert len(history.turns) <= 2 * USER_MESSAGES


def talk(count: int, window: int | None, words: str = "m{}", begin: int = 0) -> list[Event]:
    events: list[Event] = [ModelChanged(provider="openai", model="m", context_window=window)]
    for number in range(begin, begin + count):
        answer = f"answer {number}, as short as most of them are in a talk"
        events += [said(words.format(number)), reply(answer), RunEnded(outcome="done", text=answer)]
    return events


def users(history: History) -> list[str]:
    return [message.text for message in history.window() if isinstance(message, UserMessage)]


def test_older_messages_stay_in_sight_within_their_share_of_the_window() -> None:
    small, large = folded(*talk(60, 8_192)), folded(*talk(60, 32_768))
    assert 15 < len(users(small)) < 35 and len(users(large)) == 60
    assert users(small)[-1] == "m59" and small.left_out == 60 - len(users(small)) and not large.left_out
    older = [message for turn in small.turns[:-USER_MESSAGES] for message in turn.messages]
    assert Gauge().estimate(total(map(count_message, older))) <= 0.08 * 8_192


def test_what_is_left_out_goes_several_at_a_time() -> None:
    history, counts, heads = History(), [], []
    for event in talk(60, 8_192):
        history.fold(event)
        if isinstance(event, UserMessageAdded):
            counts.append(history.left_out)
            heads.append(users(history)[0])
    assert counts == sorted(counts) and counts[-1] > 20
    assert len(set(heads)) == len(set(counts)) < 15


def test_a_turn_that_the_plans_log_tells_of_is_neither_kept_nor_counted_when_it_is_old() -> None:
    summary = Summary(action="done", details="", result="✓ ok")
    logged = SummaryReviewed(id="s", outcome="accepted", summary=summary, by="user")
    events: list[Event] = []
    for number in range(20):
        events += [said(f"m{number}"), logged, RunEnded(outcome="done", text="ok")]
    history = folded(ModelChanged(provider="openai", model="m", context_window=8_192), *events)
    assert users(history) == [f"m{number}" for number in range(15, 20)] and history.left_out == 0


def test_fewer_messages_after_a_compaction_are_counted_as_left_out() -> None:
    history = folded(*talk(10, 8_192))
    history.fold(ContextCompacted(summary="", kept=0, before=9, after=1, by="program", users=3))
    assert len(users(history)) == 3 and history.left_out == 7
    history.fold(ConversationRewound(run="", text="", history=(), cleared=True))
    assert history.left_out == 0


def test_a_rewind_brings_the_count_of_its_time_back() -> None:
    long = "m{} " + "and more words " * 20
    before = folded(*talk(30, 8_192, long))
    after = folded(*talk(60, 8_192, long))
    assert after.left_out > before.left_out > 0
    after.fold(ConversationRewound(run="run-31", text="m30", history=tuple(before.export())))
    assert after.left_out == before.left_out and after.window() == before.window()


def test_what_the_program_says_never_counts_as_a_message_of_the_user() -> None:
    history = History()
    for number in range(USER_MESSAGES):
        history.fold(said(f"m{number}"))
        history.fold(ProgramMessageAdded(kind="feedback", text="try again"))
        history.fold(RunEnded(outcome="done", text="ok"))
    users = [message for message in history.window() if isinstance(message, UserMessage)]
    assert len(users) == USER_MESSAGES


def test_an_interrupted_reply_is_kept_and_told() -> None:
    window = folded(said("go"), reply("half a sent", interrupted=True)).window()
    assert window[1].text == "half a sent"
    assert isinstance(window[2], ProgramMessage)


EVENTS = st.one_of(
    st.builds(said, st.text(min_size=1, max_size=5), st.sampled_from(["m1", "m2"])),
    st.builds(lambda text, ids: reply(text, *ids), st.text(max_size=5), st.lists(IDS, max_size=2, unique=True)),
    st.builds(result, IDS),
    st.just(RunStarted(message_id="m", mode="direct", model="x")),
    st.just(RunEnded(outcome="done", text="ok")),
    st.just(ProgramMessageAdded(kind="feedback", text="hm")),
    st.sampled_from([ModelChanged(provider="o", model="m", context_window=size) for size in (200, 400, 4_000)]),
)


@given(st.lists(EVENTS, max_size=15), st.integers(0, 15))
def test_a_snapshot_and_the_rest_give_what_all_events_give(events: list[Event], cut: int) -> None:
    whole, first = EngineState(), EngineState()
    for event in events:
        whole.fold(event)
    for event in events[:cut]:
        first.fold(event)
    second = EngineState.restore(first.export())
    for event in events[cut:]:
        second.fold(event)
    assert second.export() == whole.export()
    assert second.history.window() == whole.history.window()


def test_a_reply_to_a_side_request_is_no_part_of_the_conversation() -> None:
    history = folded(said("hi"), ReplyEnded(text="{}", role="planning"), reply("hello"))
    assert history.window() == (UserMessage(text="hi"), AssistantMessage(text="hello"))


def test_a_finished_step_shrinks_to_its_calls_and_its_outcome() -> None:
    def one(number: int, name: str) -> tuple[Event, ...]:
        begun = StepStarted(step=PlanStep(number=number, description=name), of=2)
        return (
            begun,
            ProgramMessageAdded(kind="step", text=name),
            reply("", f"{number}"),
            result(f"{number}", "x" * 4_000),
        )

    steering = UserMessageAdded(id="s", text="mind the tests", steering=True)
    done = StepFinished(outcome="failed", text="it is not there")
    history = folded(said("go"), *one(1, "First"), steering, done, *one(2, "Second"))
    first, steered, outcome, *second = history.window()
    assert (first, steered) == (UserMessage(text="go"), UserMessage(text="mind the tests"))
    assert isinstance(outcome, ProgramMessage)
    assert "Step 1: First: failed\nTools used: read_file\nit is not there" in outcome.text
    assert [type(message) for message in second] == [ProgramMessage, AssistantMessage, ToolMessage]
    again = History.restore(history.export())
    again.fold(StepFinished(outcome="done", text="fine"))
    assert all("x" * 4_000 not in message.text for message in again.window())
