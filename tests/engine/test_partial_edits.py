from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Answer, EditAction, ReadAction, Scope, action_digest
from tui_agent.events import (
    ApprovalAnswered,
    ApprovalExecuted,
    ApprovalRequested,
    ApprovalVoided,
    Event,
    FileChanged,
    ToolFinished,
)
from tui_agent.platform.files import sha256_of

OLD = "".join(f"line {number}\n" for number in range(30))
NEW = OLD.replace("line 2\n", "line two\n").replace("line 15\n", "line fifteen\n").replace("line 28\n", "")
DIRECT = {"mode": "direct"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text(OLD)
    return folder


class Played:
    """What a session came to."""

    def __init__(self, watch: SessionDriver, requests: list[Any]) -> None:
        self.watch = watch
        self.requests = requests

    @property
    def told(self) -> str:
        """What the model got of its last call in a request that followed."""
        results = [one["content"] for body in self.requests for one in body["messages"] if one["role"] == "tool"]
        return str(results[-1])

    @property
    def asked(self) -> list[ApprovalRequested]:
        return self.watch.of(ApprovalRequested)


async def played(workspace: Path, *calls: dict[str, Any], answer: Callable[[Event], Answer | None]) -> Played:
    talk = scenario("go", *[step("", one) for one in calls], "done")
    async with serve(talk, strict=True) as server, run_session(server, workspace, flags=DIRECT) as session:
        watch = SessionDriver(session, answer)
        await session.send("go")
        await watch.ended()
        return Played(watch, [one.body for one in server.requests])


def rewrite(content: str = NEW) -> tuple[dict[str, Any], ...]:
    return call("read_file", path="a.txt"), call("write_file", path="a.txt", content=content)


def approve(**data: Any) -> Callable[[Event], Answer]:
    return lambda _: Answer(verdict="approve", data=data)


async def test_only_the_taken_hunks_are_on_disk_and_the_model_hears_of_the_others(workspace: Path) -> None:
    done = await played(workspace, *rewrite(), answer=approve(hunks=[0, 2]))
    (asked,) = done.asked
    assert isinstance(asked.action, EditAction) and len(asked.action.diff.hunks) == 3 and asked.action.splittable
    expected = OLD.replace("line 2\n", "line two\n").replace("line 28\n", "")
    assert (workspace / "a.txt").read_text("utf-8") == expected
    assert "rejected 1 of the 3 hunks" in done.told and "+line fifteen" in done.told
    (executed,) = done.watch.of(ApprovalExecuted)
    applied = executed.action
    assert isinstance(applied, EditAction) and executed.digest == action_digest(applied) != asked.digest
    assert applied.after == sha256_of(expected.encode()) and applied.before == asked.action.before
    (changed,) = done.watch.of(FileChanged)
    assert changed.diff == applied.diff and len(changed.diff.hunks) == 2
    assert changed.change.after == applied.after


async def test_an_edited_hunk_is_written_as_it_was_shown_and_the_model_is_told(workspace: Path) -> None:
    text = "line 12\nline 13\nline 14\nline XV\nand one more\nline 16\nline 17\nline 18"
    done = await played(workspace, *rewrite(), answer=approve(hunks=[1], edits={"1": text}))
    assert (workspace / "a.txt").read_text("utf-8") == OLD.replace("line 15\n", "line XV\nand one more\n")
    assert "changed the text of the hunk" in done.told and "+line XV" in done.told
    assert "rejected 2 of the 3 hunks" in done.told
    (executed,) = done.watch.of(ApprovalExecuted)
    assert isinstance(executed.action, EditAction) and executed.action.diff.added == 2


async def test_all_hunks_taken_is_the_whole_edit(workspace: Path) -> None:
    done = await played(workspace, *rewrite(), answer=approve(hunks=[0, 1, 2]))
    assert (workspace / "a.txt").read_text("utf-8") == NEW
    (executed,) = done.watch.of(ApprovalExecuted)
    assert executed.action is None and executed.digest == done.asked[0].digest
    assert "rejected" not in done.told


@pytest.mark.parametrize(
    "data",
    [
        {"hunks": []},
        {"hunks": [7]},
        {"hunks": [-1]},
        {"hunks": "all"},
        {"hunks": [0], "edits": {"1": "x"}},
        {"hunks": [0], "edits": {"a": "x"}},
        {"hunks": [0], "content": "x"},
        {"hunks": [0], "edits": {"0": "".join(f"line {number}\n" for number in range(6))[:-1]}},
        {"hunks": [0], "edits": {"0": "\ud800"}},
    ],
)
async def test_what_can_not_be_applied_is_not_done(workspace: Path, data: dict[str, Any]) -> None:
    done = await played(workspace, *rewrite(), answer=approve(**data))
    assert (workspace / "a.txt").read_text("utf-8") == OLD
    assert not done.watch.of(ApprovalExecuted) and not done.watch.of(FileChanged)
    assert not done.watch.of(ToolFinished)[-1].result.success


async def test_leave_for_a_part_is_leave_for_nothing_else(workspace: Path) -> None:
    answers = iter([Answer(verdict="approve", scope=Scope.SESSION, data={"hunks": [0]}), Answer(verdict="reject")])
    again = OLD.replace("line 2\n", "line two\n").replace("line 9\n", "line nine\n")
    done = await played(
        workspace, *rewrite(), call("write_file", path="a.txt", content=again), answer=lambda _: next(answers)
    )
    assert len(done.asked) == 2
    assert all(one.grant is None for one in done.watch.of(ApprovalAnswered))


async def test_parts_of_a_new_file_are_its_edited_text(workspace: Path) -> None:
    done = await played(
        workspace,
        call("write_file", path="b.txt", content="one\ntwo\n"),
        answer=approve(hunks=[0], edits={"0": "one\n2"}),
    )
    assert (workspace / "b.txt").read_text("utf-8") == "one\n2\n"
    assert "+2" in done.told


async def test_line_ends_and_marks_of_the_file_stay(workspace: Path) -> None:
    old = b"\xef\xbb\xbf" + OLD.replace("\n", "\r\n").encode()[:-2]
    (workspace / "a.txt").write_bytes(old)
    done = await played(
        workspace,
        call("read_file", path="a.txt"),
        call("edit_file", path="a.txt", old_string="line 15", new_string="line fifteen"),
        answer=approve(hunks=[0], edits={"0": "line 12\nline 13\nline 14\nfif\nteen\nline 16\nline 17\nline 18"}),
    )
    assert done.asked[0].action.splittable  # type: ignore[union-attr]  # an edit
    assert (workspace / "a.txt").read_bytes() == old.replace(b"line 15", b"fif\r\nteen")


async def test_a_file_that_changes_under_the_question_voids_it_and_is_asked_about_anew(workspace: Path) -> None:
    mine = OLD.replace("line 0\n", "mine\n")
    questions = 0

    def answer(event: Event) -> Answer | None:
        nonlocal questions
        questions += 1
        if questions > 1:
            return Answer(verdict="approve")
        (workspace / "a.txt").write_text(mine)
        return None

    talk = scenario("go", step("", call("edit_file", path="a.txt", old_string="line 15", new_string="XV")), "ok")
    async with serve(talk, strict=True) as server, run_session(server, workspace, flags=DIRECT) as session:
        watch = SessionDriver(session, answer)
        await session.send("go")
        void = await watch.until_event(ApprovalVoided)
        assert void.reason == "changed on disk"
        assert session.answer(void.id, Answer(verdict="approve")) is False
        settled = await watch.until_event(ApprovalAnswered, id=void.id)
        assert settled.answer.verdict == "withdrawn" and settled.answer.by == "changed on disk"
        await watch.ended()
    assert questions == 2
    assert (workspace / "a.txt").read_text("utf-8") == mine.replace("line 15", "XV")
    assert [one.id for one in watch.of(ApprovalExecuted)] == [watch.of(ApprovalRequested)[1].id]


async def test_a_void_question_can_still_be_rejected(workspace: Path) -> None:
    def answer(event: Event) -> Answer | None:
        (workspace / "a.txt").unlink()
        return None

    talk = scenario("go", step("", call("edit_file", path="a.txt", old_string="line 15", new_string="XV")), "ok")
    async with serve(talk, strict=True) as server, run_session(server, workspace, flags=DIRECT) as session:
        watch = SessionDriver(session, answer)
        await session.send("go")
        void = await watch.until_event(ApprovalVoided)
        assert session.answer(void.id, Answer(verdict="reject", text="leave it")) is True
        await watch.ended()
    assert "leave it" in watch.of(ToolFinished)[-1].text
    assert not (workspace / "a.txt").exists()


async def test_a_file_made_under_the_question_is_not_overwritten(workspace: Path) -> None:
    def answer(event: Event) -> Answer | None:
        (workspace / "b.txt").write_text("mine")
        return None

    talk = scenario("go", step("", call("write_file", path="b.txt", content="theirs\n")), "ok")
    async with serve(talk, strict=True) as server, run_session(server, workspace, flags=DIRECT) as session:
        watch = SessionDriver(session, answer)
        await session.send("go")
        void = await watch.until_event(ApprovalVoided)
        assert session.answer(void.id, Answer(verdict="withdrawn")) is True
        await watch.ended()
    assert watch.of(ToolFinished)[-1].result.code == "changed"
    assert (workspace / "b.txt").read_text("utf-8") == "mine"


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_parallel_calls_that_need_the_same_leave_ask_once(workspace: Path, tmp_path: Path, verdict: Any) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("".join(f"{number}\n" for number in range(100)))
    calls = [call("read_file", path=str(outside), start_line=at) for at in (1, 20, 40)]
    talk = scenario("go", step("", *calls), "done")
    async with serve(talk, strict=True) as server, run_session(server, workspace, flags=DIRECT) as session:
        watch = SessionDriver(session, lambda _: Answer(verdict=verdict, text="" if verdict == "approve" else "mine"))
        await session.send("go")
        await watch.ended()
    (asked,) = watch.of(ApprovalRequested)
    assert isinstance(asked.action, ReadAction)
    finished = watch.of(ToolFinished)
    assert len(finished) == 3
    assert all(one.result.success is (verdict == "approve") for one in finished)
    assert len(watch.of(ApprovalAnswered)) == 3
    if verdict == "reject":
        assert all("mine" in one.text for one in finished)


async def test_of_parallel_questions_about_different_things_each_is_asked(workspace: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    talk = scenario("go", step("", *[call("read_file", path=str(tmp_path / name)) for name in ("one", "two")]), "done")
    async with serve(talk, strict=True) as server, run_session(server, workspace, flags=DIRECT) as session:
        watch = SessionDriver(session)
        await session.send("go")
        await watch.ended()
    assert len(watch.of(ApprovalRequested)) == 2
