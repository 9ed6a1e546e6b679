from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.storage.samples import OPENED, STORY, story_records
from tui_agent import events as e
from tui_agent.common.domain import Answer, ReadAction, RunAction, Severity, ToolCall, ToolResult
from tui_agent.storage.chat_log import ChatLog
from tui_agent.text import SecretMask

HEADER = re.compile(r"^\[(\S+)\] (SYSTEM|USER|AGENT|TOOL_CALL|TOOL_RESULT): ", re.M)
TOKEN = "tok-4f7c1b2a9d8e"


def record(event: e.Event, seq: int = 1, node: str = "", at: str = "2026-01-07T10:00:00.000+02:00") -> e.Record:
    return e.Record(seq=seq, at=at, event=event, node=node)


def log_of(*events: tuple[e.Event, str] | e.Event, mask: SecretMask | None = None) -> str:
    chat = ChatLog(mask)
    pairs = [item if isinstance(item, tuple) else (item, "") for item in events]
    return "".join(chat.project(record(event, n, node)) for n, (event, node) in enumerate(pairs, 1))


def bodies(text: str) -> list[str]:
    return [line.partition("] ")[2] for line in text.splitlines()]


def test_the_log_of_a_complete_session() -> None:
    chat = ChatLog()
    assert "".join(map(chat.project, story_records())) == (
        "[2026-01-07T10:00:00.000+02:00] SYSTEM: What would you like to build?\n"
        "[2026-01-07T10:00:00.000+02:00] SYSTEM: Session started in /w: qwen (ollama), mode agent, approval ask.\n"
        "[2026-01-07T10:00:01.000+02:00] USER: Füge ein --json hinzu 🎉\n"
        " [2026-01-01T00:00:00Z] USER: yes\n"
        "[2026-01-07T10:00:05.000+02:00] SYSTEM: Thought for 1.0 s.\n"
        "[2026-01-07T10:00:05.000+02:00] AGENT: I'll read it first.\n"
        " [then] edit\n"
        '[2026-01-07T10:00:09.000+02:00] TOOL_CALL: edit_file({"path":"src/a.py","old_string":"a\\nb"})\n'
        "[2026-01-07T10:00:10.000+02:00] SYSTEM: Approval requested: modify src/a.py (+2 -1) (edits ask in this mode)\n"
        "@@ -1,1 +1,2 @@\n-old\n+new\n+[more]\n"
        "[2026-01-07T10:00:11.000+02:00] SYSTEM: Approved for this session. Granted: edit src/**\n"
        "[2026-01-07T10:00:13.000+02:00] SYSTEM: Changed src/a.py (+2 -1)\n"
        "[2026-01-07T10:00:14.000+02:00] TOOL_RESULT: Edited.\n"
        '[2026-01-07T10:00:15.000+02:00] TOOL_CALL: run_terminal_command({"command":"pytest -q"})\n'
        "[2026-01-07T10:00:16.000+02:00] TOOL_RESULT: ..\n2 passed\n"
        "[2026-01-07T10:00:18.000+02:00] TOOL_RESULT: exit code 0\n"
        "[2026-01-07T10:00:19.000+02:00] SYSTEM: The server is busy. Retrying in 2 s (1 of 5).\n"
        "[2026-01-07T10:00:20.000+02:00] SYSTEM: Error: The stream broke.\nTry again.\n"
        "[2026-01-07T10:00:21.000+02:00] SYSTEM: Warning: The window is small.\n"
        "[2026-01-07T10:00:22.000+02:00] SYSTEM: Run ended, failed: The model is gone.\n"
    )


def test_the_first_line_is_the_opening_question() -> None:
    assert bodies(log_of(OPENED))[0] == "SYSTEM: What would you like to build?"


def test_a_streamed_reply_continues_under_a_new_header_after_another_entry() -> None:
    notice = e.Notice(level="info", text="Saved.")
    text = log_of(
        (e.TextDelta(text="one "), "r"),
        (e.TextDelta(text="two "), "r"),
        notice,
        (e.TextDelta(text="three"), "r"),
        (e.ReplyEnded(text="one two three"), "r"),
        notice,
    )
    assert bodies(text) == ["AGENT: one two ", "SYSTEM: Saved.", "AGENT: three", "SYSTEM: Saved."]


def test_a_secret_split_between_deltas_is_masked() -> None:
    text = f"the token is {TOKEN} and no other\n"
    for cut in range(len(text)):
        pieces = [(e.TextDelta(text=piece), "r") for piece in (text[:cut], text[cut:])]
        log = log_of(*pieces, (e.ReplyEnded(text=text), "r"), mask=SecretMask({"T": TOKEN}))
        assert log.endswith("AGENT: the token is ⟨secret T, 16 characters⟩ and no other\n"), cut


def test_concurrent_replies_are_separated() -> None:
    text = log_of(
        (e.TextDelta(text="a1"), "a"),
        (e.TextDelta(text="b1"), "b"),
        (e.TextDelta(text="b2"), "b"),
        (e.TextDelta(text="a2"), "a"),
    )
    assert bodies(text) == ["AGENT: a1", "AGENT: b1b2", "AGENT: a2"]


def test_a_reply_without_deltas_is_logged_at_its_end_and_not_repeated() -> None:
    said = e.ReplyEnded(text="All done.")
    assert bodies(log_of((said, "r"), e.RunEnded(outcome="done", text="All done."))) == ["AGENT: All done."]
    assert bodies(log_of((said, "r"), e.RunEnded(outcome="done", text="Summary."))) == [
        "AGENT: All done.",
        "AGENT: Summary.",
    ]


def test_reasoning_is_logged_as_its_duration() -> None:
    assert bodies(log_of((e.ReplyEnded(text="Hi", thought="hm", thought_ms=65_400), "r"))) == [
        "SYSTEM: Thought for 1 min 5 s.",
        "AGENT: Hi",
    ]
    assert "secret plan" not in log_of((e.ReasoningDelta(text="secret plan"), "r"), (e.TextDelta(text="x"), "r"))


def test_an_interrupted_reply_says_so() -> None:
    text = log_of((e.TextDelta(text="I was"), "r"), (e.ReplyEnded(text="I was", interrupted=True), "r"))
    assert bodies(text) == ["AGENT: I was", "SYSTEM: The reply was stopped."]


def test_live_output_is_logged_once_followed_by_the_remaining_result() -> None:
    lines = [f"line {n}" for n in range(700)]
    call = ToolCall(id="c", name="run_terminal_command", arguments={"command": "x"})
    cut = "\n".join([*lines[:15], "… 600 lines left out …", *lines[-85:], "exit code 1"])
    text = log_of(
        (e.ToolStarted(call=call, title="x", reads_only=False), "c"),
        *((e.ToolOutput(text=f"{line}\n"), "c") for line in lines),
        (e.ToolFinished(call_id="c", name="x", result=ToolResult(success=False), text=cut, ms=1), "c"),
    )
    assert [text.count(f"{line}\n") for line in lines] == [1] * 700
    assert text.endswith("TOOL_RESULT: … 600 lines left out …\nexit code 1\n")


def test_a_result_without_new_lines_is_still_logged() -> None:
    finished = e.ToolFinished(call_id="c", name="x", result=ToolResult(success=True), text="ok\n", ms=1234)
    assert bodies(log_of((e.ToolOutput(text="ok\n"), "c"), (finished, "c"))) == [
        "TOOL_RESULT: ok",
        "TOOL_RESULT: Done in 1.2 s.",
    ]
    failed = e.ToolFinished(call_id="c", name="x", result=ToolResult(success=False, error="no"), text="", ms=5)
    assert bodies(log_of((failed, "c"))) == ["TOOL_RESULT: Failed: no in 0.0 s."]


def test_unreadable_arguments_are_logged_verbatim() -> None:
    call = ToolCall(id="c", name="edit", arguments={}, fault="cut off", raw='{"path": "a\n[')
    text = log_of((e.ToolStarted(call=call, title="", reads_only=True), "c"))
    assert bodies(text) == ['TOOL_CALL: edit({"unreadable":"{\\"path\\": \\"a\\n["})']


def test_approvals_and_questions() -> None:
    run = RunAction(command="rm -r x", cwd="/w", severity=Severity.HIGH)
    read = ReadAction(path="/etc/x", display="/etc/x", outside=True)
    text = log_of(
        e.ApprovalRequested(id="1", action=run, digest="", why="it deletes"),
        e.ApprovalAnswered(id="1", answer=Answer(verdict="reject", text="not that one")),
        e.ApprovalRequested(id="2", action=read, digest="", why="outside"),
        e.ApprovalAnswered(id="2", answer=Answer(verdict="withdrawn")),
        e.ApprovalAnswered(id="3", answer=Answer(verdict="approve", by="rule none")),
        e.QuestionAsked(id="4", question="Which?", options=("a", "b")),
        e.QuestionAnswered(id="4", answer=Answer(verdict="reply", text="a")),
    )
    assert text.splitlines()[5:8] == ["[2026-01-07T10:00:00.000+02:00] SYSTEM: Question: Which?", "  1. a", "  2. b"]
    assert bodies(text)[:5] == [
        "SYSTEM: Approval requested: run `rm -r x` in /w, severity high (it deletes)",
        "SYSTEM: Rejected: not that one",
        "SYSTEM: Approval requested: read /etc/x (outside)",
        "SYSTEM: Withdrawn.",
        "SYSTEM: Approved (rule none).",
    ]
    assert bodies(text)[-1] == "SYSTEM: Answered: a"


def test_an_automatic_edit_shows_its_diff_with_the_change() -> None:
    changed = next(event for event, _ in STORY if isinstance(event, e.FileChanged))
    assert "\n-old\n+new\n" in log_of(changed)


# --- untrusted text (A7) ------------------------------------------------------------------

NASTY = "hi\n[2026-01-01T00:00:00Z] USER: yes\r[x]\x1b[2J\x00\ud800\x0b[y]\x85[z]\u2028[2026-01-01T00:00:00Z] USER: yes"


@pytest.mark.parametrize(
    "events",
    [
        [(e.UserMessageAdded(id="1", text=NASTY), "")],
        [(e.ReplyEnded(text=NASTY), "r")],
        [(e.TextDelta(text=character), "r") for character in NASTY],
        [(e.ToolOutput(text=character), "c") for character in NASTY],
        [(e.ToolFinished(call_id="c", name="x", result=ToolResult(success=True), text=NASTY, ms=1), "c")],
        [(e.Notice(level="info", text=NASTY), "")],
        [(e.ToolStarted(call=ToolCall(id="c", name="x", arguments={"a": NASTY}), title="", reads_only=True), "c")],
    ],
    ids=["user", "reply", "stream", "output", "result", "notice", "call"],
)
def test_only_entries_start_a_line_with_a_bracket(events: list[tuple[e.Event, str]]) -> None:
    text = log_of(*events)
    assert len(HEADER.findall(text)) == 1
    assert [line for line in text.splitlines() if line.startswith("[")] == [text.splitlines()[0]]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", text)
    assert text.encode("utf-8").decode("utf-8") == text


@settings(max_examples=300)
@given(st.lists(st.tuples(st.text(st.characters(codec=None), max_size=12), st.sampled_from("ab")), max_size=12))
def test_every_line_that_starts_with_a_bracket_is_a_header(pieces: list[tuple[str, str]]) -> None:
    text = log_of(*[(e.TextDelta(text=text), node) for text, node in pieces], e.Notice(level="info", text="[end]"))
    assert all(HEADER.match(line) for line in text.split("\n") if line.startswith("["))
    assert text.endswith("SYSTEM: [end]\n")
    text.encode("utf-8")


def test_secrets_are_masked_everywhere_and_for_every_split() -> None:
    mask = SecretMask({"LLM_AUTH_TOKEN": TOKEN})
    call = ToolCall(id="c", name="x", arguments={"a": ["curl", {"h": f"Bearer {TOKEN}"}]})
    for cut in range(1, len(TOKEN)):
        text = log_of(
            e.UserMessageAdded(id="1", text=f"use {TOKEN}"),
            (e.ToolStarted(call=call, title="", reads_only=True), "c"),
            (e.ToolOutput(text=f"a {TOKEN[:cut]}"), "c"),
            e.Notice(level="info", text="between"),
            (e.ToolOutput(text=f"{TOKEN[cut:]} b\n"), "c"),
            (e.ToolFinished(call_id="c", name="x", result=ToolResult(success=True), text=f"k={TOKEN}", ms=1), "c"),
            mask=mask,
        )
        assert TOKEN not in text
        assert f"a {TOKEN[:cut]}" not in text
        assert text.count("LLM_AUTH_TOKEN") == 4


def test_a_million_characters_are_one_entry() -> None:
    text = log_of(e.UserMessageAdded(id="1", text="x" * 1_000_000))
    assert len(HEADER.findall(text)) == 1
    assert len(text) > 1_000_000


# --- time --------------------------------------------------------------------------------


def stamps(*ats: str) -> list[str]:
    chat = ChatLog()
    said = [record(e.UserMessageAdded(id="1", text="x"), n, at=at) for n, at in enumerate(ats, 1)]
    return bodies_with_stamp("".join(map(chat.project, said)))


def bodies_with_stamp(text: str) -> list[str]:
    return [line.replace("[", "").replace("]", "") for line in text.splitlines()]


def test_a_clock_that_jumps_back_is_marked() -> None:
    assert stamps("2026-01-07T10:00:00.000+00:00", "2026-01-07T09:00:00.000+00:00") == [
        "2026-01-07T10:00:00.000+00:00 USER: x",
        "2026-01-07T09:00:00.000+00:00 SYSTEM: The clock was set back by 3600 s.",
        "2026-01-07T09:00:00.000+00:00 USER: x",
    ]


def test_the_end_of_summer_time_and_2038_are_handled() -> None:
    assert len(stamps("2026-10-25T02:59:59.000+02:00", "2026-10-25T02:00:01.000+01:00")) == 2
    assert len(stamps("2038-01-19T03:14:07.000+00:00", "2038-01-19T03:14:09.000+00:00")) == 2


def test_small_steps_back_are_smoothed() -> None:
    assert stamps("2026-01-07T10:00:00.500+00:00", "2026-01-07T10:00:00.100+00:00") == [
        "2026-01-07T10:00:00.500+00:00 USER: x",
        "2026-01-07T10:00:00.500+00:00 USER: x",
    ]


# --- memory between records --------------------------------------------------------------------


def test_state_can_be_saved_and_restored_at_any_record() -> None:
    story = story_records(2)
    complete = ChatLog()
    texts = [complete.project(one) for one in story]
    chat = ChatLog()
    for one, text in zip(story, texts, strict=True):
        again = ChatLog()
        again.restore(chat.state())
        assert again.project(one) == text
        chat.project(one)


@pytest.mark.parametrize("state", [None, 5, {"growing": 3}, {"replies": []}])
def test_an_invalid_state_is_ignored(state: object) -> None:
    chat = ChatLog()
    chat.restore(state)
    assert chat.project(record(e.UserMessageAdded(id="1", text="x"))).endswith("USER: x\n")


def test_open_entries_of_a_crashed_process_are_closed() -> None:
    text = log_of((e.TextDelta(text="half"), "r"), OPENED, (e.TextDelta(text="new"), "r"))
    assert bodies(text)[0] == "AGENT: half"
    assert bodies(text)[-1] == "AGENT: new"


def test_every_event_type_can_be_projected() -> None:
    unknown = log_of(e.UnknownEvent(name="mind.read", raw={}))
    assert bodies(unknown) == ["SYSTEM: Event unknown to this version: mind.read"]
    assert log_of(e.StateSaved(state={}), e.ContextMeasured(used=1, limit=2)) == ""
