"""Edits of a file that another program keeps saving: they get in, and nothing that it saved is lost (L9)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.waiting import within_timeout
from tui_agent.common import line_merge
from tui_agent.common.domain import Answer
from tui_agent.engine.host import edits, tool_context
from tui_agent.events import ApprovalRequested, ApprovalVoided, Event, FileChanged, RunEnded, ToolFinished
from tui_agent.platform import files

LINES = ["saved 000000 times", *(f"line {n}" for n in range(1, 40))]
FLAGS = {"mode": "direct", "approval_mode": "auto", "sandbox": "off"}


STAMP = b"saved %06d times\n"


def stamp(path: Path, number: int) -> None:
    """Change the first line in place, as a program that stamps files; it has no older text to write back."""
    with path.open("r+b") as file:
        file.write(STAMP % number)


def rename_over(path: Path, text: str) -> None:
    other = path.with_suffix(".swp")
    other.write_text(text, encoding="utf-8")
    os.replace(other, path)


@contextlib.contextmanager
def saving(path: Path, pause: float, save: Callable[[Path, int], None] = stamp) -> Iterator[None]:
    """Another program saves `path` every `pause` seconds."""
    stop = threading.Event()

    def run() -> None:
        for number in itertools.count(1):
            save(path, number)
            if stop.wait(pause):
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def edit(new: str, old: str = "line 20") -> dict[str, object]:
    return call("edit_file", path="a.txt", old_string=old, new_string=new)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def file(workspace: Path) -> Path:
    path = workspace / "a.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


async def run(
    workspace: Path, *calls: dict[str, object], answer: Callable[[Event], Answer | None] | None = None, **flags: str
) -> SessionDriver:
    steps = [step("", one) for one in calls]
    async with (
        serve(scenario("go", *steps, "done"), strict=True) as server,
        run_session(server, workspace, flags={**FLAGS, **flags}) as session,
    ):
        watch = SessionDriver(session, answer)
        await session.send("go")
        async with asyncio.timeout(60):
            await watch.ended()
    return watch


@contextlib.contextmanager
def checks_awaited() -> Iterator[asyncio.Event]:
    """Yields an event that is set when a changed file was found to be mergeable, or not."""
    checked, loop, real = asyncio.Event(), asyncio.get_running_loop(), line_merge.merge_bytes

    def merge_bytes(*contents: bytes) -> bytes | None:
        loop.call_soon_threadsafe(checked.set)
        return real(*contents)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edits, "merge_bytes", merge_bytes)
        yield checked


@contextlib.contextmanager
def stamped_before_writes(file: Path, times: int) -> Iterator[list[int]]:
    """Another program saves the file just before each of the first `times` writes. Yields the stamps."""
    stamps: list[int] = []
    real = files.replace_file

    def replace_file(path: Path, *args: object) -> object:
        if len(stamps) < times:
            stamps.append(len(stamps) + 1)
            stamp(file, stamps[-1])
        return real(path, *args)  # type: ignore[arg-type]  # passed on

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tool_context, "replace_file", replace_file)
        yield stamps


async def test_edits_get_in_while_another_program_keeps_saving_other_lines(workspace: Path, file: Path) -> None:
    with saving(file, 0.2), stamped_before_writes(file, 5):
        watch = await run(workspace, call("read_file", path="a.txt"), edit("LINE TWENTY"), edit("LINE 30", "line 30"))
    assert [one.result for one in watch.of(ToolFinished) if not one.result.success] == []
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("saved ") and lines[0] != LINES[0]
    expected = {"line 20": "LINE TWENTY", "line 30": "LINE 30"}
    assert lines[1:] == [expected.get(line, line) for line in LINES[1:]]


async def test_a_file_that_is_saved_all_the_time_is_given_up_with_advice(workspace: Path, file: Path) -> None:
    with stamped_before_writes(file, 1000) as stamps:
        watch = await run(workspace, edit("XX"))
    results = [one.result for one in watch.of(ToolFinished)]
    assert len(stamps) <= 100
    assert "Ask the user to stop that program" in str(results[0].error)
    assert file.read_bytes() == STAMP % stamps[-1] + "\n".join([*LINES[1:], ""]).encode()


async def test_what_the_user_approved_is_not_asked_again_for_a_change_elsewhere(workspace: Path, file: Path) -> None:
    asked: list[str] = []

    def answer(event: Event) -> Answer | None:
        assert isinstance(event, ApprovalRequested)
        asked.append(event.id)
        stamp(file, 7)  # as the user presses the key
        return Answer(verdict="approve")

    watch = await run(workspace, edit("XX"), answer=answer, approval_mode="ask")
    assert len(asked) == 1
    assert file.read_text("utf-8").splitlines()[0] == "saved 000007 times"
    assert "XX" in file.read_text("utf-8")
    (change,) = watch.of(FileChanged)
    assert [line for hunk in change.diff.hunks for line in hunk.lines if line[:1] in "+-"] == ["-line 20", "+XX"]


async def test_a_request_is_renewed_once_at_most_for_changes_elsewhere(workspace: Path, file: Path) -> None:
    """The second request stays valid, however often the file is saved while the user reads it."""
    talk = scenario("go", step("", edit("XX")), "done")
    flags = {**FLAGS, "approval_mode": "ask"}
    async with serve(talk, strict=True) as server, run_session(server, workspace, flags=flags) as session:
        watch = SessionDriver(session, lambda event: None)
        await session.send("go")
        await watch.until_event(ApprovalRequested)
        stamp(file, 1)
        void = await watch.until_event(ApprovalVoided)
        assert session.answer(void.id, Answer(verdict="approve")) is False
        request = await watch.until_event(ApprovalRequested)
        with checks_awaited() as checked:
            stamp(file, 2)
            await within_timeout(checked.wait())
        assert session.answer(request.id, Answer(verdict="approve"))
        await watch.ended()
    assert file.read_text("utf-8").splitlines()[0] == "saved 000002 times"
    assert "XX" in file.read_text("utf-8")


async def test_a_change_of_the_same_lines_is_never_overwritten(workspace: Path, file: Path) -> None:
    saved: list[str] = []

    def same_line(path: Path, number: int) -> None:
        saved.append("\n".join([*LINES[:20], f"theirs {number}", *LINES[21:]]) + "\n")
        rename_over(path, saved[-1])

    with saving(file, 0.02, same_line):
        watch = await run(workspace, call("read_file", path="a.txt"), edit("OURS"))
    assert file.read_text("utf-8") == saved[-1]
    assert watch.of(FileChanged) == []
    assert watch.of(RunEnded)[0].outcome in ("done", "failed")


async def test_the_model_can_not_replace_what_it_has_not_seen(workspace: Path, file: Path) -> None:
    """After an edit of a file with unseen changes, write_file has to read it first."""
    calls = call("read_file", path="a.txt"), edit("XX"), call("write_file", path="a.txt", content="all new\n")
    steps = [step("", one) for one in calls]
    async with (
        serve(scenario("go", *steps, "done"), strict=True) as server,
        run_session(server, workspace, flags=FLAGS) as session,
    ):
        watch = SessionDriver(session)
        await session.send("go")
        await watch.until_event(ToolFinished)
        stamp(file, 1)
        await watch.ended()
    results = [one.result for one in watch.of(ToolFinished)]
    assert file.read_text("utf-8").startswith("saved 000001 times")
    assert not results[-1].success
