from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.test_window import SUMMARY
from tui_agent.common.domain import AssistantMessage, Message, ToolCall, ToolMessage, ToolResult, UserMessage
from tui_agent.engine.context.compaction import HEADINGS, is_summary, plain_summary
from tui_agent.engine.core.history import History, cut_message, cut_text, repair, tail_size
from tui_agent.events import (
    ContextCompacted,
    Event,
    ProgramMessageAdded,
    ReplyEnded,
    RunEnded,
    ToolFinished,
    UserMessageAdded,
)

TASK = "Rename compute to reckon everywhere, but never in part7.py; the password of the vault is Xylophone-42."


def folded(*events: Event) -> History:
    history = History()
    for event in events:
        history.fold(event)
    return history


def round_of(number: int, text: str = "") -> list[Event]:
    call = ToolCall(id=f"c{number}", name="read_file", arguments={"path": f"f{number}.py"})
    result = ToolResult(success=True, data="x")
    return [
        ReplyEnded(text=f"step {number}", calls=(call,)),
        ToolFinished(call_id=call.id, name=call.name, result=result, text=text or f"content {number}", ms=1),
    ]


def compacted(**fields: Any) -> ContextCompacted:
    return ContextCompacted(**{"summary": "", "kept": 0, "before": 2, "after": 1, **fields})


# --- what history makes of it ---


def test_the_users_words_and_the_plan_stay_and_the_rest_becomes_the_summary() -> None:
    events = [UserMessageAdded(id="1", text=TASK), ProgramMessageAdded(kind="plan", text="1. look\n2. rename")]
    events += [event for n in range(5) for event in round_of(n)]
    events += [UserMessageAdded(id="2", text="mind the tests", steering=True)]
    events += [event for n in range(5, 10) for event in round_of(n)]
    messages = folded(*events, compacted(summary="SUMMED UP", kept=6)).window()
    words = [message.text for message in messages]
    assert words[:4] == [
        TASK,
        "mind the tests",
        "<agent_plan>\n1. look\n2. rename\n</agent_plan>",
        "<agent_summary>\nSUMMED UP\n</agent_summary>",
    ]
    assert words[4:] == ["step 7", "content 7", "step 8", "content 8", "step 9", "content 9"]


@pytest.mark.parametrize("kind", ["plan", "step"])
def test_only_the_newest_plan_and_step_stay(kind: str) -> None:
    events = [UserMessageAdded(id="1", text=TASK), ProgramMessageAdded(kind=kind, text="old")]
    events += [*round_of(1), ProgramMessageAdded(kind=kind, text="new"), *round_of(2), *round_of(3)]
    words = [message.text for message in folded(*events, compacted(summary="S", kept=2)).window()]
    assert [word for word in words if f"agent_{kind}" in word] == [f"<agent_{kind}>\nnew\n</agent_{kind}>"]


def test_fewer_earlier_messages_of_the_user_stay_in_sight() -> None:
    events: list[Event] = []
    for n in range(5):
        answer = ReplyEnded(text=f"answer {n}")
        events += [UserMessageAdded(id=str(n), text=f"ask {n}"), answer, RunEnded(outcome="done", text=answer.text)]
    words = [message.text for message in folded(*events, compacted(users=3)).window()]
    assert words == ["ask 2", "answer 2", "ask 3", "answer 3", "ask 4", "answer 4"]


def test_a_settled_run_leaves_no_summary_behind() -> None:
    events = [UserMessageAdded(id="1", text=TASK), *round_of(1), *round_of(2), compacted(summary="S", kept=2)]
    words = [message.text for message in folded(*events, RunEnded(outcome="done", text="all done")).window()]
    assert words[0] == TASK
    assert not any("agent_summary" in word for word in words)


calls = st.integers(min_value=1, max_value=3)


@given(rounds=st.lists(calls, max_size=8), cut=st.sampled_from([0, 300]), kept=st.integers(1, 8))
def test_a_call_and_its_result_are_never_parted(rounds: list[int], cut: int, kept: int) -> None:
    messages: list[Message] = [UserMessage(text=TASK)]
    for number, count in enumerate(rounds):
        made = tuple(ToolCall(id=f"{number}.{n}", name="t", arguments={"a": "b" * 900}) for n in range(count))
        messages.append(AssistantMessage(calls=made))
        messages += [ToolMessage(call_id=call.id, name="t", text="r" * 900) for call in made]
    history = History()
    history.fold(UserMessageAdded(id="1", text=TASK))
    history.turns[-1].messages = messages
    history.fold(compacted(summary="S", kept=tail_size(messages, kept), cut=cut))
    left = history.turns[-1].messages
    asked = [call.id for message in left if isinstance(message, AssistantMessage) for call in message.calls]
    answered = [message.call_id for message in left if isinstance(message, ToolMessage)]
    assert asked == answered
    assert len(repair(left)) == len(left)
    assert messages[0] in left


def test_cutting_says_so_and_spares_what_the_user_said() -> None:
    long = "a" * 5_000 + "END"
    text = cut_text(long, 600)
    assert "4,403 characters left out" in text
    assert text.startswith("aaa") and text.endswith("END")
    assert cut_text(text, 600) == text
    said = UserMessage(text=long)
    assert cut_message(said, 300) is said
    call = ToolCall(id="1", name="write_file", arguments={"path": "a.py", "content": long})
    cut = cut_message(AssistantMessage(calls=(call,)), 300)
    assert isinstance(cut, AssistantMessage)
    assert cut.calls[0].arguments["path"] == "a.py"
    assert len(cut.calls[0].arguments["content"]) < 400


# --- the summary ---


def test_a_summary_has_most_of_the_headings() -> None:
    assert is_summary(SUMMARY)
    assert is_summary(SUMMARY.replace("## ", "**").replace("\nsomething", "**\nsomething"))
    assert not is_summary("I don't understand: no scenario fits this message.")
    assert not is_summary("")


def test_the_programs_own_summary_has_all_parts_and_what_failed() -> None:
    call = ToolCall(id="1", name="edit_file", arguments={"path": "a.py", "old_string": "x"})
    messages: list[Message] = [
        AssistantMessage(text="I change a.py.", calls=(call,)),
        ToolMessage(call_id="1", name="edit_file", text="old_string was not found", success=False),
    ]
    text = plain_summary(messages * 200, 3_000)
    assert all(f"## {part}" in text for part in HEADINGS)
    assert "a.py" in text and "old_string was not found" in text
    assert len(text) < 6_000
