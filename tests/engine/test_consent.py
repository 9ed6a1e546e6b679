from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Answer, RunAction, Scope
from tui_agent.events import ApprovalRequested, Event, ToolFinished


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


async def carried_out(
    workspace: Path,
    *calls: dict[str, Any],
    approval_mode: str = "ask",
    answer: Callable[[Event], Answer] = lambda _: Answer(verdict="reject"),
) -> SessionDriver:
    talk = scenario("go", *[step("", one) for one in calls], "done")
    async with (
        serve(talk, strict=True) as server,
        run_session(server, workspace, flags={"approval_mode": approval_mode}) as session,
    ):
        watch = SessionDriver(session, answer)
        await session.send("go")
        await watch.ended()
    return watch


def asked(watch: SessionDriver) -> list[RunAction]:
    actions = [event.action for event in watch.of(ApprovalRequested)]
    return [action for action in actions if isinstance(action, RunAction)]


async def test_a_command_outside_the_workspace_asks_in_every_mode(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("private")
    (workspace / "link").symlink_to(tmp_path)
    for cwd in ("..", "link", str(tmp_path)):
        watch = await carried_out(
            workspace, call("run_terminal_command", command="cat mine", cwd=cwd), approval_mode="auto"
        )
        (action,) = asked(watch)
        assert action.always_ask and action.cwd == str(tmp_path)
        (finished,) = watch.of(ToolFinished)
        assert finished.result.code == "refused" and "private" not in finished.text


async def test_a_shell_that_left_the_workspace_asks_from_then_on(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("private")

    def only_the_first(event: Event) -> Answer:
        leaves = isinstance(event, ApprovalRequested) and "cd .." in str(event.action)
        return Answer(verdict="approve" if leaves else "reject")

    watch = await carried_out(
        workspace,
        call("run_terminal_command", command="cd .. && true"),
        call("run_terminal_command", command="cat mine"),
        approval_mode="auto",
        answer=only_the_first,
    )
    assert [action.command for action in asked(watch)][-1] == "cat mine"
    assert "private" not in watch.of(ToolFinished)[-1].text


async def test_the_scratch_folder_is_inside(workspace: Path) -> None:
    async with serve(scenario("go", "done"), strict=True) as server, run_session(server, workspace) as session:
        place = session._environment
        (place.scratch / "note").write_text("kept")
        running = await place.judge("cat note", place.scratch)
        assert running.safe and not running.always_ask


async def test_leave_for_a_command_does_not_outlast_a_change_of_its_variables(workspace: Path) -> None:
    run = call("run_terminal_command", command="sh -c true")
    for_session = Answer(verdict="approve", scope=Scope.SESSION)
    watch = await carried_out(
        workspace,
        run,
        run,
        call("run_terminal_command", command='export PATH="$PWD:$PATH"'),
        run,
        answer=lambda _: for_session,
    )
    commands = [action.command for action in asked(watch)]
    assert commands == ["sh -c true", 'export PATH="$PWD:$PATH"', "sh -c true"]
    assert asked(watch)[-1].env_changes[0].startswith("PATH=")


async def test_a_command_does_not_run_in_another_folder_than_was_shown(workspace: Path, tmp_path: Path) -> None:
    (workspace / "shown").mkdir()

    def swap(_: Event) -> Answer:
        (workspace / "shown").rmdir()
        (workspace / "shown").symlink_to(tmp_path)
        return Answer(verdict="approve")

    watch = await carried_out(
        workspace, call("run_terminal_command", command="touch planted", cwd="shown"), answer=swap
    )
    (finished,) = watch.of(ToolFinished)
    assert (workspace / "shown").is_symlink() and finished.result.code == "changed"
    assert not (tmp_path / "planted").exists()


async def test_a_write_does_not_follow_a_link_that_came_after_the_question(workspace: Path, tmp_path: Path) -> None:
    (workspace / "shown").mkdir()
    (tmp_path / "far").mkdir()

    def swap(_: Event) -> Answer:
        (workspace / "shown").rmdir()
        (workspace / "shown").symlink_to(tmp_path / "far")
        return Answer(verdict="approve")

    watch = await carried_out(workspace, call("write_file", path="shown/x", content="x"), answer=swap)
    (finished,) = watch.of(ToolFinished)
    assert (workspace / "shown").is_symlink() and not finished.result.success
    assert list((tmp_path / "far").iterdir()) == []


@pytest.mark.parametrize("modes", [{"approval_mode": "read-only"}, {"mode": "plan"}])
async def test_what_a_stricter_mode_refuses_does_not_run_although_it_is_approved(
    workspace: Path, modes: dict[str, str]
) -> None:
    """The mode changes while the dialog is open."""
    async with (
        serve(
            scenario("go", step("", call("run_terminal_command", command="touch made")), "done"), strict=True
        ) as server,
        run_session(server, workspace, flags={"approval_mode": "ask"}) as session,
    ):
        watch = SessionDriver(session, lambda _: None)
        await session.send("go")
        asked_for = await watch.until_event(ApprovalRequested)
        await session.set_modes(**modes)
        session.answer(asked_for.id, Answer(verdict="approve", scope=Scope.SESSION))
        await watch.ended()
        assert session._environment.grants.listed() == ()
    (finished,) = watch.of(ToolFinished)
    assert finished.result.code == "refused" and "Not allowed" in finished.text
    assert not (workspace / "made").exists()


async def test_a_read_that_is_refused_by_then_is_not_shared_with_the_same_question(workspace: Path) -> None:
    """Two calls of one reply ask the same question; the mode becomes stricter while its dialog is open."""
    (workspace / ".env").write_text("SECRET=value\n")
    both = step("", call("read_file", path=".env"), call("read_file", path=".env", start_line=1))
    async with (
        serve(scenario("go", both, "done"), strict=True) as server,
        run_session(server, workspace, flags={"approval_mode": "ask"}) as session,
    ):
        watch = SessionDriver(session, lambda _: None)
        await session.send("go")
        asked_for = await watch.until_event(ApprovalRequested)
        await session.set_modes(approval_mode="read-only")
        session.answer(asked_for.id, Answer(verdict="approve"))
        await watch.ended()
    results = watch.of(ToolFinished)
    assert [finished.result.code for finished in results] == ["refused", "refused"]
    assert not any("value" in finished.text for finished in results)


@pytest.mark.parametrize(
    ("before", "mode", "stricter"), [("auto", "ask", "required"), ("off", "auto", "required"), ("off", "auto", "auto")]
)
async def test_a_sandbox_that_became_stricter_confines_a_command_that_is_approved(
    workspace: Path, tmp_path: Path, before: str, mode: str, stricter: str
) -> None:
    """A trusted workspace tightens the sandbox while the dialog is open."""
    outside = tmp_path / "outside"
    run = call("run_terminal_command", command=f"touch {outside}; rm -rf {tmp_path / 'nothing'}")
    async with (
        serve(scenario("go", step("", run), "done"), strict=True) as server,
        run_session(server, workspace, flags={"approval_mode": mode, "sandbox": before}) as session,
    ):
        watch = SessionDriver(session, lambda _: None)
        await session.send("go")
        asked_for = await watch.until_event(ApprovalRequested)
        assert isinstance(asked_for.action, RunAction) and not asked_for.action.sandboxed
        environment = session._environment
        if environment.sandbox.kind == "none" and before != "off":
            pytest.skip("no sandbox here")
        await environment.apply_settings(environment.settings.model_copy(update={"sandbox": stricter}))
        session.answer(asked_for.id, Answer(verdict="approve"))
        await watch.ended()
    assert not outside.exists()
