from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common import paths
from tui_agent.common.domain import Answer, TrustAction
from tui_agent.engine.context.trusted_contents import trusted_contents
from tui_agent.engine.session import Session
from tui_agent.events import ApprovalRequested, Event, ModeChanged, Notice, SessionOpened, TrustChanged
from tui_agent.safety import trust
from tui_agent.settings import Settings
from tui_agent.view.fold import fold_record
from tui_agent.view.items import SessionView

YES, NO = Answer(verdict="approve"), Answer(verdict="reject")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return (tmp_path / "work").resolve()


def settings_of(workspace: Path, text: str) -> None:
    paths.workspace_settings_file(workspace).write_text(text)


def say(yes: Answer | None) -> Callable[[Event], Answer | None]:
    return lambda event: yes


async def decided(watch: SessionDriver) -> TrustAction:
    asked = await watch.until_event(ApprovalRequested)
    assert isinstance(asked.action, TrustAction)
    return asked.action


def approval_mode(session: Session) -> str:
    return str(session._environment.approval_mode)


NEVER_READ = (
    ".claude/settings.json", "CLAUDE.md", ".cursorrules", "GEMINI.md", ".env", ".envrc", "setup.cfg", "conftest.py", ".tui-agent/skills", ".tui-agent.yml", "AGENTS.override.md", ".vscode/settings.json", ".mcp.json",
)  # fmt: skip


def test_the_question_names_what_is_read_and_nothing_else(workspace: Path) -> None:
    settings = Settings(language_servers_on=False)  # those on this machine change nothing
    for name in NEVER_READ:
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert trusted_contents(workspace, settings) == ()
    (workspace / "package.json").write_text("{}")
    (workspace / "Makefile").touch()
    (tests,) = trusted_contents(workspace, settings)
    assert tests.startswith("package.json, Makefile: how the project's tests are run")
    (workspace / "package.json").unlink()
    (workspace / "Makefile").unlink()
    (workspace / "Cargo.toml").touch()
    assert trusted_contents(workspace, settings)[0].startswith("Cargo.toml: how")
    (workspace / "Cargo.toml").unlink()
    (workspace / "test_a.py").touch()
    (workspace / "pyproject.toml").touch()
    assert trusted_contents(workspace, settings)[0].startswith("pyproject.toml, test_a.py: how")
    (workspace / "test_a.py").unlink()
    (workspace / "AGENTS.md").write_text("x")
    (workspace / "docs").mkdir()
    (workspace / "docs" / "AGENTS.md").write_text("x")
    settings_of(workspace, "")
    (workspace / ".git").mkdir()
    names = [entry.partition(":")[0] for entry in trusted_contents(workspace, settings)]
    assert names == ["AGENTS.md", "docs/AGENTS.md", ".tui-agent.yaml", ".git"]
    assert str(workspace / ".git") in trusted_contents(workspace / "docs", settings)[-1]


def test_language_servers_that_may_be_started_are_named(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "rust-analyzer"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    (workspace / "main.rs").write_text("")
    assert any("rust-analyzer" in entry for entry in trusted_contents(workspace, Settings()))
    assert trusted_contents(workspace, Settings(language_servers_on=False)) == ()
    (workspace / "main.rs").rename(workspace / "main.unknown")
    assert trusted_contents(workspace, Settings()) == ()


async def test_untrusted_leaves_the_header_when_trust_is_given_and_returns_when_it_is_revoked(workspace: Path) -> None:
    view, seen = SessionView(), []
    async with serve(scenario("hi", "hello"), strict=True) as server:
        async with run_session(server, workspace, trust=False) as session:
            watch = SessionDriver(session)
            await watch.until_event(TrustChanged, trusted=True)
            assert (await session.trust.states())[0].since
            await session.trust.revoke(str(workspace))
            await watch.until_event(Notice, code="trust.revoked")
            state = (await session.trust.states())[0]
            assert not state.trusted and not trust.is_trusted(workspace)
            assert approval_mode(session) == "read-only"
    for record in watch.records:
        fold_record(view, record)
        if isinstance(record.event, SessionOpened | TrustChanged):
            seen.append(view.trusted)
    assert seen == [False, True, False]


async def test_a_stricter_approval_mode_holds_as_soon_as_trust_is_given(workspace: Path) -> None:
    settings_of(workspace, "approval_mode: ask\nauto_run: false\ntools_off: [write_file]\nsandbox: required\n")
    async with serve(scenario("hi", "hello"), strict=True) as server:
        async with run_session(server, workspace, trust=False) as session:
            watch = SessionDriver(session, say(None))
            asked = await watch.until_event(ApprovalRequested)
            await session.set_modes(approval_mode="auto")
            session.answer(asked.id, YES)
            await watch.until_event(TrustChanged)
            assert approval_mode(session) == "ask"
            environment = session._environment
            assert not environment.settings.auto_run and not session.settings.settings.auto_run
            assert environment.sandbox_policy.settings.sandbox == "required"
            notice = next(one for one in watch.of(Notice) if one.code == "trust.settings")
            assert "approval_mode: ask" in notice.text and "auto_run: false" in notice.text
            await session.send("hi")
            await watch.ended()
    assert "write_file" not in str(server.requests[0].body.get("tools"))


async def test_the_settings_file_is_followed_while_the_session_runs_and_only_tightens(workspace: Path) -> None:
    async with serve(scenario("hi", "hello"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.set_modes(approval_mode="auto")
            settings_of(workspace, "approval_mode: ask\niterations:\n  direct: 3\n")
            await session.trust.refresh()
            assert approval_mode(session) == "ask"
            assert session._environment.settings.iterations.direct == 3
            settings_of(workspace, "approval_mode: auto\niterations:\n  direct: 300\nauto_approve_high: true\n")
            await session.trust.refresh()
            assert approval_mode(session) == "ask" and session._environment.settings.iterations.direct == 3
            assert not session._environment.settings.auto_approve_high
            paths.workspace_settings_file(workspace).unlink()
            await session.trust.refresh()
            assert approval_mode(session) == "ask" and session._environment.settings.iterations.direct == 3
            settings_of(workspace, "approval_mode: read-only\n")
            await watch.until_event(ModeChanged, approval_mode="read-only")  # without a refresh
            settings_of(workspace, ": not yaml [")
            await session.trust.refresh()
            assert approval_mode(session) == "read-only"
            session.checkpoints.clear()  # emits something to wait for
            await watch.until(lambda record: isinstance(record.event, Notice) and "YAML" in record.event.text)


async def test_a_mode_from_the_command_line_stays(workspace: Path) -> None:
    settings_of(workspace, "approval_mode: ask\n")
    async with serve(scenario("hi", "hello"), strict=True) as server:
        flags = {"approval_mode": "auto"}
        async with run_session(server, workspace, trust=False, flags=flags) as session:
            await SessionDriver(session).until_event(TrustChanged)
            assert approval_mode(session) == "auto"


async def test_revoking_elsewhere_stops_the_running_session(workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("RULES OF THE FOLDER")
    settings_of(workspace, "tools_off: [write_file]\n")
    trust.trust(workspace)
    async with serve(scenario("", "one"), scenario("", "two"), strict=True) as server:
        async with run_session(server, workspace, trust=False) as session:
            watch = SessionDriver(session)
            await session.send("one")
            await watch.ended()
            trust.revoke(workspace)
            await watch.until_event(TrustChanged, trusted=False)
            await session.send("two")
            await watch.ended()
            assert session._environment.code.obstacle()
            assert session._environment.settings.tools_off == ()
    first, second = (request.messages[0]["content"] for request in server.requests)
    assert "RULES OF THE FOLDER" in first and "RULES OF THE FOLDER" not in second


async def test_a_revoked_folder_is_judged_before_the_next_action(workspace: Path) -> None:
    trust.trust(workspace)
    write = step("", call("write_file", path="a.txt", content="x\n"))
    async with serve(scenario("", write, "done"), strict=True) as server:
        flags = {"approval_mode": "auto"}
        async with run_session(server, workspace, trust=False, flags=flags) as session:
            watch = SessionDriver(session)
            session.trust._watch.cancel()  # type: ignore[union-attr]  # it is running
            trust.revoke(workspace)
            await session.send("write")
            await watch.ended()
    assert not (workspace / "a.txt").exists()


async def test_trust_can_be_given_after_it_was_refused(workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("RULES OF THE FOLDER")
    answers = [NO, YES]
    async with serve(scenario("hi", "hello"), strict=True) as server:
        async with run_session(server, workspace, trust=False) as session:
            watch = SessionDriver(session, lambda event: answers.pop(0))
            await watch.until_event(ModeChanged, approval_mode="read-only")
            asking = asyncio.create_task(session.trust.ask(str(workspace)))
            await watch.until_event(TrustChanged, trusted=True)
            assert await asking and approval_mode(session) == "ask"
            await session.send("hi")
            await watch.ended()
    assert "RULES OF THE FOLDER" in server.requests[0].messages[0]["content"]


async def test_the_question_names_what_is_unsafe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    async with serve(scenario("hi", "hello"), strict=True) as server:
        async with run_session(server, home, trust=False) as session:
            action = await decided(SessionDriver(session, say(NO)))
    assert "your home folder" in action.risks[0]


@pytest.mark.needs("git")
async def test_nothing_of_git_is_told_after_trust_is_revoked(workspace: Path) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", "-b", "secret-branch"], cwd=workspace, check=True)
    trust.trust(workspace)
    async with serve(scenario("", "one"), scenario("", "two"), strict=True) as server:
        async with run_session(server, workspace, trust=False) as session:
            watch = SessionDriver(session)
            await session.send("one")
            await watch.ended()
            await session.trust.revoke(str(workspace))
            await session.send("two")
            await watch.ended()
    first, second = (request.messages[0]["content"] for request in server.requests)
    assert "secret-branch" in first and "secret-branch" not in second


async def test_an_approval_mode_chosen_since_trust_was_revoked_stays_when_it_is_given_again(workspace: Path) -> None:
    trust.trust(workspace)
    async with serve(scenario("hi", "hello"), strict=True) as server:
        async with run_session(server, workspace, trust=False, flags={"approval_mode": "auto"}) as session:
            watch = SessionDriver(session)
            for chosen, restored in (("ask", "ask"), ("", "ask")):
                await session.trust.revoke(str(workspace))
                await watch.until_event(TrustChanged, trusted=False)
                assert approval_mode(session) == "read-only"
                if chosen:
                    await session.set_modes(approval_mode=chosen)
                asking = asyncio.create_task(session.trust.ask(str(workspace)))
                await watch.until_event(TrustChanged, trusted=True)
                assert await asking and approval_mode(session) == restored
