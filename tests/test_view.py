from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scenes import build, load, names, record
from tui_agent import events as e
from tui_agent.common.domain import Answer, Scope, ToolResult
from tui_agent.view.fold import STEPS, add_older, drop_older, fold_record
from tui_agent.view.items import (
    TAIL,
    EndItem,
    GrowingText,
    NoticeItem,
    OutputTail,
    ReplyItem,
    RequestItem,
    SessionView,
    ToolItem,
    ViewPart,
)


def view_of(records: list[e.Record]) -> SessionView:
    view = SessionView()
    for one in records:
        fold_record(view, one)
    return view


def view_of_scene(name: str) -> SessionView:
    return view_of(load(name))


def last(view: SessionView, kind: type) -> object:
    return next(item for item in reversed(view.items) if isinstance(item, kind))


@pytest.mark.parametrize("scene", names())
def test_live_and_replayed_views_are_equal(scene: str) -> None:
    records = build.SCENES[scene]().records
    assert view_of(records) == view_of_scene(scene)


@pytest.mark.parametrize("scene", names())
def test_a_record_folded_twice_changes_nothing(scene: str) -> None:
    once, twice = view_of_scene(scene), SessionView()
    for one in load(scene):
        fold_record(twice, one)
        twice.take_changes()
        fold_record(twice, one)
        assert not twice.changes
    assert once == twice


@pytest.mark.parametrize("scene", names())
def test_every_difference_is_named_in_the_change(scene: str) -> None:
    view = SessionView()
    for one in load(scene):
        before = [repr(item) for item in view.items]
        status, queue, pending = repr(view.status), repr(view.queue), list(view.pending)
        fold_record(view, one)
        change = view.take_changes()
        after = [repr(item) for item in view.items]
        changed = {n for n, text in enumerate(after) if n >= len(before) or before[n] != text}
        assert changed <= change.items
        assert (repr(view.status) != status) <= (ViewPart.STATUS in change.parts)
        assert (repr(view.queue) != queue) <= (ViewPart.QUEUE in change.parts)
        assert (list(view.pending) != pending) <= (ViewPart.PENDING in change.parts)


@pytest.mark.parametrize("scene", names())
def test_older_items_can_be_dropped_at_any_time_and_come_back(scene: str) -> None:
    records = load(scene)
    for keep in (1, 3):
        view, full = SessionView(), SessionView()
        for one in records:
            fold_record(view, one)
            view.take_changes()
            drop_older(view, keep)
            fold_record(full, one)
            assert view.items == full.items[view.older :]
            assert [view.items[n] for n in view.indexes.values()] == [
                full.items[full.indexes[key]] for key in view.indexes
            ]
            assert (view.pending, view.status, view.running) == (full.pending, full.status, full.running)
            nodes, kept = full.tree.nodes, view.tree.nodes
            assert [kept[n].id for n in view.tree.running] == [nodes[n].id for n in full.tree.running]
            assert all(node.item < len(view.items) and -1 <= node.parent < len(kept) for node in kept)
            assert all(kept[child].parent == n for n, node in enumerate(kept) for child in node.children)
        newest, dropped = list(view.items), view.older
        assert add_older(view, full) == dropped
        assert view.older == 0 or not dropped
        assert all(mine is other for mine, other in zip(view.items[dropped:], newest, strict=True))
        assert view == full


def test_older_items_of_another_journal_are_refused() -> None:
    view, full = view_of_scene("subagents_done"), view_of_scene("tests_ok")
    before = list(view.items)
    drop_older(view, 2)
    assert add_older(view, full) == 0
    assert view.items == before[-2:]
    assert view.older == len(before) - 2


def test_every_event_has_a_step_or_is_known_to_need_none() -> None:
    none = {e.StateSaved, e.ProgramMessageAdded, e.ApprovalExecuted, e.GrantRevoked}  # the last one comes with a notice
    assert set(e.TABLE.values()) - set(STEPS) == none


def test_a_thought_takes_as_long_as_it_took() -> None:
    view = view_of_scene("thinking")
    reply = last(view, ReplyItem)
    assert isinstance(reply, ReplyItem)
    assert reply.thinking_since is not None
    assert view.status.phase == "thinking"
    view = view_of_scene("tools_read")
    reply = last(view, ReplyItem)
    assert isinstance(reply, ReplyItem)
    assert (reply.thinking_since, reply.reasoning_ms) == (None, 3200)


def test_a_thought_ends_when_text_arrives() -> None:
    scene = build.thinking().write("Now")
    reply = last(view_of(scene.records), ReplyItem)
    assert isinstance(reply, ReplyItem)
    assert reply.thinking_since is None
    assert reply.reasoning_ms == pytest.approx(6_050, abs=60)


@pytest.mark.parametrize(
    ("scene", "phase", "detail"),
    [
        ("empty", "", ""),
        ("connecting", "loading", ""),
        ("thinking", "thinking", ""),
        ("streaming", "writing", ""),
        ("edit_asked", "waiting", "edit src/export.py"),
        ("command_asked", "waiting", "run a command"),
        ("question", "waiting", "a question"),
        ("trust", "waiting", "trust this folder"),
        ("command_running", "running", "python -m pytest -q tests/test_export.py"),
        ("retrying", "retrying", "2 of 5"),
        ("tests_ok", "", ""),
        ("interrupted", "", ""),
    ],
)
def test_the_phase_names_what_holds_things_up(scene: str, phase: str, detail: str) -> None:
    status = view_of_scene(scene).status
    assert (status.phase, status.detail) == (phase, detail)


def test_a_phase_keeps_its_beginning_while_its_detail_grows() -> None:
    scene = build.streaming()
    since = view_of(scene.records).status.since
    scene.emit(e.ReplyPhase(phase="writing", detail="write_file src/a.py"), seconds=3)
    status = view_of(scene.records).status
    assert (status.detail, status.since) == ("write_file src/a.py", since)


def test_a_tool_call_gathers_all_that_belongs_to_it() -> None:
    view = view_of_scene("tests_ok")
    edit, command = (item for item in view.items if isinstance(item, ToolItem) and not item.reads_only)
    assert (edit.status, edit.diffs, [c.added for c in edit.changes]) == ("ok", [build.EDIT.diff], [5])
    assert edit.requests[0].answer == Answer(verdict="approve")
    assert command.requests[0].answer == Answer(verdict="approve", scope=Scope.SESSION)
    assert command.output.lines == 2
    assert not any(isinstance(item, RequestItem) for item in view.items)
    assert not view.pending


@pytest.mark.parametrize(
    ("code", "status"),
    [("refused", "refused"), ("interrupted", "interrupted"), ("timeout", "failed"), (None, "failed")],
)
def test_a_failure_says_of_what_kind(code: str | None, status: str) -> None:
    scene = build.Scene().opened().ask("x").reply()
    call = scene.call("read_file")
    scene.start(call, "").finish(call, ToolResult(success=False, error="no", code=code))
    tool = last(view_of(scene.records), ToolItem)
    assert isinstance(tool, ToolItem)
    assert tool.status == status


def test_a_result_without_a_beginning_still_shows() -> None:
    scene = build.Scene().opened().ask("x").reply()
    scene.finish(scene.call("no_such_tool"), ToolResult(success=False, error="unknown tool"))
    tool = last(view_of(scene.records), ToolItem)
    assert isinstance(tool, ToolItem)
    assert tool.status == "failed"


def test_queued_messages_wait_until_they_are_said() -> None:
    scene = build.queued()
    assert [one.text for one in view_of(scene.records).queue] == ["also update the README", "keep the old default"]
    scene.emit(e.MessageChanged(id="m8", text="also the docs"))
    scene.emit(e.MessageWithdrawn(id="m9")).emit(e.UserMessageAdded(id="m8", text="also the docs"))
    view = view_of(scene.records)
    assert view.queue == []
    assert last(view, e.UserMessageAdded) == e.UserMessageAdded(id="m8", text="also the docs")


def test_the_first_answer_wins() -> None:
    scene = build.edit_asked().answer("reject", text="no").answer("approve")
    request = view_of(scene.records).requests["q1"]
    assert request.answer == Answer(verdict="reject", text="no")


def test_an_automatic_approval_belongs_to_its_call_without_a_question() -> None:
    scene = build.Scene().opened().ask("x").reply()
    call = scene.call("run_terminal_command")
    scene.start(call, "ls").answer("approve", key="auto1", by="rule unasked")
    view = view_of(scene.records)
    tool = last(view, ToolItem)
    assert isinstance(tool, ToolItem)
    assert [r.answer.by for r in tool.requests if r.answer] == ["rule unasked"]
    assert not view.pending


@pytest.mark.parametrize("again", ["opened", "recovered", "closed"])
def test_what_a_dead_process_left_open_is_open_no_longer(again: str) -> None:
    scene = build.command_asked()
    if again == "opened":
        scene.opened(resumed=True)
    elif again == "recovered":
        scene.emit(e.SessionRecovered(interrupted=("c4",), void=("q2",), damaged=1))
    else:
        scene.emit(e.SessionClosed(reason="user"))
    view = view_of(scene.records)
    tool = last(view, ToolItem)
    assert isinstance(tool, ToolItem)
    assert (tool.status, view.pending, view.busy, view.status.phase) == ("interrupted", {}, False, "")
    assert view.requests["q2"].answer is not None
    assert view.requests["q2"].answer.verdict == "withdrawn"
    assert isinstance(view.items[-1], NoticeItem) == (again != "closed")


def test_records_of_a_newer_program_are_counted_and_shown() -> None:
    raw = {
        "v": 1,
        "seq": 1,
        "at": "2026-01-05T09:00:00.000+00:00",
        "type": "dream.had",
        "run": "",
        "node": "",
        "parent": "",
        "data": {"x": 1},
    }
    view = view_of([record(json.loads(json.dumps(raw)))])
    assert "dream.had" in getattr(view.items[-1], "text", "")


def test_the_end_does_not_say_twice_what_the_reply_said() -> None:
    end = last(view_of_scene("tests_ok"), EndItem)
    assert isinstance(end, EndItem)
    assert (end.already_shown, end.text) == (True, "")
    end = last(view_of_scene("failed"), EndItem)
    assert isinstance(end, EndItem)
    assert end.already_shown


def test_the_full_text_of_a_reply_replaces_what_was_streamed() -> None:
    scene = build.Scene().opened().ask("x").reply().write("Hel")
    scene.end("Hello")
    reply = last(view_of(scene.records), ReplyItem)
    assert isinstance(reply, ReplyItem)
    assert reply.text.text == "Hello"


@given(st.lists(st.text()), st.data())
def test_growing_text_is_its_parts(parts: list[str], data: st.DataObject) -> None:
    growing = GrowingText()
    whole = ""
    for part in parts:
        growing.add(part)
        whole += part
        place = data.draw(st.integers(0, len(whole)))
        assert growing.text_after(place) == whole[place:]
    assert growing.text == whole
    assert growing.text_after(-5) == whole


@given(st.lists(st.text(alphabet="ab\n", max_size=9)))
def test_a_tail_keeps_the_end_and_counts_everything(parts: list[str]) -> None:
    tail = OutputTail()
    for part in parts:
        tail.add(part)
    assert tail.text == "".join(parts)[-TAIL:]
    assert tail.lines == "".join(parts).count("\n")


def test_a_tail_is_bounded() -> None:
    tail = OutputTail()
    for _number in range(2_000):
        tail.add("x" * 999 + "\n")
    assert len(tail.text) == TAIL
    assert tail.lines == 2_000
    assert sum(map(len, tail._chunks)) < TAIL + 1_000


def counting(view: SessionView) -> list[object]:
    """What shows a running time."""
    replies = [item for item in view.items if isinstance(item, ReplyItem)]
    return [
        *([view.status] if view.status.phase not in ("", "waiting") else []),
        *(view.tree.nodes[index] for index in view.tree.running),
        *(item for item in view.items if isinstance(item, ToolItem) and item.status == "running"),
        *(reply for reply in replies if not reply.ended or reply.thinking_since or reply.started_at),
        *(reply for reply in replies if reply.retry is not None and not reply.retry.is_over),
    ]


END_EVENTS = (e.ReplyEnded, e.ToolFinished, e.StageEnded, e.RunEnded)


@pytest.mark.parametrize("scene", names())
def test_nothing_counts_after_the_end_of_a_run(scene: str) -> None:
    """Wherever a run ends, and whatever of it comes afterwards, such as the request for a title."""
    records = [one for one in load(scene) if not isinstance(one.event, END_EVENTS)]
    runs = [number for number, one in enumerate(records) if one.run]
    for cut in runs[:: max(1, len(runs) // 12)]:
        run, at = records[cut].run, records[cut].at
        for outcome in ("done", "failed", "interrupted"):
            view = view_of(records[: cut + 1])
            ended = e.Record(seq=0, at=at, run=run, node="", parent="", event=e.RunEnded(outcome=outcome))
            for number, one in enumerate([ended, *(one for one in records[cut + 1 :] if one.run == run)]):
                fold_record(view, msgspec.structs.replace(one, seq=10_000 + number))
                if isinstance(one.event, e.RunStarted):
                    break
                assert counting(view) == []
