from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Answer, RunAction
from tui_agent.events import ApprovalRequested, FilesQuarantined, SandboxChanged, SessionOpened, ToolFinished
from tui_agent.safety.sandbox import find_sandbox

pytestmark = pytest.mark.skipif(find_sandbox().kind == "none", reason="neither bubblewrap nor Landlock is here")

POISON = (
    "ls() { touch poisoned; }; alias ls='touch poisoned'; export -f ls; trap 'touch poisoned' DEBUG; "
    "hash -p /bin/false ls; enable -n echo; shopt -s expand_aliases; mkdir -p evil; "
    "printf '#!/bin/sh\\ntouch poisoned\\n' > evil/ls; chmod +x evil/ls; printf 'touch poisoned\\n' > evil/env; "
    "export PATH=$PWD/evil:$PATH BASH_ENV=$PWD/evil/env ENV=$PWD/evil/env LD_PRELOAD=$PWD/evil/x.so "
    "PROMPT_COMMAND='touch poisoned' LS_COLORS=x"
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "work")


def commands(*texts: str) -> dict[str, Any]:
    return scenario("go", *(step("", call("run_terminal_command", command=text)) for text in texts), "done")


async def run(
    server: MockServer, workspace: Path, verdict: Literal["approve", "reject"] = "approve", **flags: Any
) -> SessionDriver:
    async with run_session(server, workspace, flags=flags) as session:
        watch = SessionDriver(session, lambda event: Answer(verdict=verdict))
        await session.send("go")
        await watch.ended()
        opening = [record.event async for record in _past(session)]
    watch.records = [*watch.records]
    watch.opened = opening[0]  # type: ignore[attr-defined]  # for the test that looks at it
    return watch


async def _past(session: Any) -> Any:
    async for record in session.follow():
        if isinstance(record.event, SessionOpened):
            yield record
            return


def texts(watch: SessionDriver) -> list[str]:
    return [event.text for event in watch.of(ToolFinished)]


async def test_in_auto_mode_nothing_outside_is_written_and_the_model_is_told_why(workspace: Path) -> None:
    async with serve(commands(f"touch inside && touch {workspace.parent}/outside"), strict=True) as server:
        watch = await run(server, workspace, approval_mode="auto")
    assert (workspace / "inside").exists() and not (workspace.parent / "outside").exists()
    if not find_sandbox(workspace).is_complete:  # a whole one has a /tmp of its own, and here all is below /tmp
        assert any("It ran in a sandbox" in text for text in texts(watch))
    assert watch.opened.sandbox == find_sandbox(workspace).label  # type: ignore[attr-defined]  # set above


HOOK = """#!/bin/sh
echo /tmp > .git/commondir-of-hook; cp .git/commondir-of-hook .git/commondir; echo x > .git/config.worktree
mkdir -p .git/rebase-merge && echo 'exec evil' > .git/rebase-merge/git-rebase-todo; echo hook ran
"""
GIT_WORK = (
    "git add -A && git commit -m one", "git stash list; git tag v1", "git checkout -b other", "echo x > made && git add made",
    'git commit -am "$(cat <<\'EOF\'\nSubject\n\nBody with $dollars\nEOF\n)"', "git switch main", "git merge other",
    "git rebase v1", "git cherry-pick other --allow-empty || git cherry-pick --skip", "git mv made moved",
    "git stash", "git stash pop", "git rm -q --cached moved", "git restore --staged .", "git branch third other",
    "git reset HEAD~1", "git log --oneline -1 && git commit --allow-empty -m last",
)  # fmt: skip


def make_repository(workspace: Path) -> None:
    script = "git init -q -b main && git config user.name me && git config user.email me@example.org && git commit -q --allow-empty -m x"
    subprocess.run(script, shell=True, cwd=workspace, check=True)


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_git_works_in_auto_mode_without_a_question(workspace: Path, sandbox: str) -> None:
    make_repository(workspace)
    async with serve(commands(*GIT_WORK), strict=True) as server:
        watch = await run(server, workspace, approval_mode="auto", sandbox=sandbox)
    failed = [event.text for event in watch.of(ToolFinished) if not event.result.success]
    assert failed == [] and watch.of(ApprovalRequested) == []
    git = partial(subprocess.check_output, cwd=workspace, text=True)
    assert git(["git", "log", "-1", "--format=%s"]) == "last\n"
    assert git(["git", "log", "-1", "--format=%b", "third"]) == "Body with $dollars\n\n"


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_a_hook_runs_and_what_it_plants_in_git_is_left_out(workspace: Path, sandbox: str) -> None:
    make_repository(workspace)
    hook = workspace / ".git" / "hooks" / "pre-commit"
    hook.write_text(HOOK)
    hook.chmod(0o755)
    async with serve(commands("git add . && git commit -m one"), strict=True) as server:
        watch = await run(server, workspace, "reject", approval_mode="auto", sandbox=sandbox)
    assert "hook ran" in texts(watch)[0] and (workspace / ".git" / "commondir-of-hook").exists()
    (left_out,) = watch.of(FilesQuarantined)
    names = {".git/commondir", ".git/config.worktree", ".git/rebase-merge/git-rebase-todo"}
    assert {file.display for file in left_out.files} == names
    assert not any((workspace / name).exists() for name in names)


@pytest.mark.parametrize(
    "command", ["python3 -c 1 && git commit --allow-empty -m x", "git config a.b c", "bash -c 'git tag v1'"]
)
async def test_what_may_not_write_to_git_is_told_what_to_do(workspace: Path, command: str) -> None:
    if "protected" not in find_sandbox(workspace).denies:
        pytest.skip("protected paths can be written in this sandbox")
    make_repository(workspace)
    before = (workspace / ".git" / "config").read_text()
    async with serve(commands(command), strict=True) as server:
        watch = await run(server, workspace, approval_mode="auto")
    assert "so call git by itself" in texts(watch)[0], texts(watch)
    assert (workspace / ".git" / "config").read_text() == before


async def test_in_ask_mode_what_was_allowed_runs_as_it_is(workspace: Path) -> None:
    async with serve(commands(f"touch {workspace.parent}/outside"), strict=True) as server:
        watch = await run(server, workspace, approval_mode="ask")
    (asked,) = watch.of(ApprovalRequested)
    assert "sandbox" not in asked.why
    assert (workspace.parent / "outside").exists()


async def test_the_dialog_says_that_the_sandbox_will_not_let_it_write_there(workspace: Path) -> None:
    async with serve(commands("touch ~/outside"), strict=True) as server:
        watch = await run(server, workspace, "reject", approval_mode="auto")
    (asked,) = watch.of(ApprovalRequested)
    assert "can write only to the workspace" in asked.why


async def test_required_confines_in_every_mode(workspace: Path) -> None:
    async with serve(commands(f"touch inside; touch {workspace.parent}/outside"), strict=True) as server:
        await run(server, workspace, approval_mode="ask", sandbox="required")
    assert (workspace / "inside").exists() and not (workspace.parent / "outside").exists()


async def test_switched_off_it_is_off_and_says_so(workspace: Path) -> None:
    async with serve(commands(f"touch {workspace.parent}/outside"), strict=True) as server:
        watch = await run(server, workspace, approval_mode="auto", sandbox="off")
    assert watch.opened.sandbox == "off"  # type: ignore[attr-defined]  # set above
    assert watch.of(ApprovalRequested) or (workspace.parent / "outside").exists()


@pytest.mark.parametrize("mode", ["ask", "auto"])
async def test_a_poisoned_shell_does_not_change_a_command_that_runs_unasked(workspace: Path, mode: str) -> None:
    async with serve(commands(POISON, "rm -f poisoned", "ls", "ls -1 | sort", "cat adder.py && ls")) as server:
        watch = await run(server, workspace, approval_mode=mode)
    _, _, *rest = texts(watch)
    assert "evil" in rest[0] and "adder.py" in rest[0], "the poison was laid"
    assert "poisoned" not in "".join(rest)
    assert not (workspace / "poisoned").exists()
    assert len(watch.of(ApprovalRequested)) == (2 if mode == "ask" else 1), "the others ran unasked"


@pytest.mark.parametrize("mode", ["ask", "auto"])
async def test_a_child_gets_three_descriptors_and_none_of_our_secrets(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    token = "canary-0f1e2d3c4b5a"
    names = ("LLM_AUTH_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "TUI_AGENT_X", "LLM_BASE")
    for name in names:
        monkeypatch.setenv(name, token)
    command = "ls -l /proc/self/fd | grep -c socket; echo /proc/$$/fd/*; env; cat /proc/$PPID/environ | tr '\\0' '\\n'"
    async with serve(commands(command), strict=True, token=token) as server:
        watch = await run(server, workspace, approval_mode=mode)
    (text,) = texts(watch)
    found = next(line for line in text.splitlines() if line.startswith("/proc/"))
    assert {Path(path).name for path in found.split()} <= {"0", "1", "2", "3", "255"}, found
    assert text.splitlines()[1].strip() == "0" or "\n0\n" in text
    assert token not in text and not any(f"{name}=" in text for name in names)


async def test_stricter_settings_show_in_the_status_of_the_sandbox(workspace: Path) -> None:
    async with serve(commands("true")) as server:
        async with run_session(server, workspace, flags={"sandbox_network": True}) as session:
            watch = SessionDriver(session)
            environment = session._environment
            assert environment.sandbox_policy.state().sandbox_network
            stricter = {"sandbox": "required", "sandbox_network": False}
            await environment.apply_settings(environment.settings.model_copy(update=stricter))
            changed = await watch.until_event(SandboxChanged)
            await environment.apply_settings(environment.settings)
            assert len(watch.of(SandboxChanged)) == 1, "the same again is no change"
    assert changed.sandbox_required and not changed.sandbox_network
    assert changed.sandbox == find_sandbox(workspace).label


async def test_a_command_runs_in_the_sandbox_as_its_dialog_said_whatever_the_mode_is_by_then(workspace: Path) -> None:
    outside = workspace.parent / "outside"
    async with serve(commands(f"touch {outside}; chmod 777 ."), strict=True) as server:
        async with run_session(server, workspace, flags={"approval_mode": "auto"}) as session:
            watch = SessionDriver(session, lambda event: None)
            await session.send("go")
            asked = await watch.until_event(ApprovalRequested)
            assert isinstance(asked.action, RunAction) and asked.action.sandboxed
            await session.set_modes(approval_mode="ask")  # in which approved commands run without one
            session.answer(asked.id, Answer(verdict="approve"))
            await watch.ended()
    assert not outside.exists()
