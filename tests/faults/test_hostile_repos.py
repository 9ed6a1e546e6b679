"""Opening a folder runs nothing of it, tells the model nothing of it and changes no setting."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.job import environment
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.faults.hostile_repos import TRAPS, WORDS, build
from tui_agent.common import paths
from tui_agent.common.domain import Answer, TrustAction
from tui_agent.events import ApprovalRequested, Event, SessionOpened

LOOK = [call("list_files"), call("search_workspace", query="one"), call("read_file", path="notes.txt")]


def needs_git(name: str) -> Any:
    return pytest.param(name, marks=[pytest.mark.needs("git")] if TRAPS[name].git else [], id=name)


def looking() -> dict[str, Any]:
    return scenario("look", step("", *LOOK), "?", "?", "seen")


def told(server: MockServer) -> str:
    return json.dumps([request.body for request in server.requests])


def songs(canaries: Path) -> list[str]:
    return sorted(os.listdir(canaries))


def test_there_are_enough() -> None:
    assert len(TRAPS) >= 25


@pytest.mark.nightly
@pytest.mark.parametrize("name", [needs_git(name) for name, trap in TRAPS.items() if trap.trigger])
def test_the_trap_is_set(name: str, tmp_path: Path) -> None:
    words = re.findall(r"(?:^|[;|&] *)(?:\w+=\S+ )*(make|rg)\b", TRAPS[name].trigger)
    if any(shutil.which(word) is None for word in words):
        pytest.skip(f"needs {words}")
    build(tmp_path / "repo", [name], tmp_path / "canaries")
    variables = {"PATH": "/usr/bin:/bin:" + os.environ["PATH"], "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x", "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x"}  # fmt: skip
    subprocess.run(
        ["bash", "-c", TRAPS[name].trigger], cwd=tmp_path / "repo", env=variables, check=False, capture_output=True,
        stdin=subprocess.DEVNULL, timeout=30,
    )  # fmt: skip
    assert songs(tmp_path / "canaries")


def hostile_surroundings(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's shell stands in the folder, with a careless search path."""
    monkeypatch.chdir(repo)
    monkeypatch.setenv("PATH", f".:{repo}:{repo}/node_modules/.bin:{os.environ['PATH']}")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(repo / ".ripgreprc"))


@pytest.mark.parametrize("name", [needs_git(name) for name in TRAPS])
async def test_g01_nothing_of_a_folder_acts_when_it_is_opened_and_looked_at(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, canaries = tmp_path / "repo", tmp_path / "canaries"
    build(repo, [name], canaries)
    hostile_surroundings(repo, monkeypatch)
    before = dict(os.environ)

    def answer(event: Event) -> Answer | None:
        trusting = isinstance(event, ApprovalRequested) and isinstance(event.action, TrustAction)
        return None if trusting else Answer(verdict="reject")

    async with serve(looking(), strict=True) as server:
        async with run_session(server, repo, trust=False, flags={"mode": "direct"}) as session:
            watch = SessionDriver(session, answer)
            asked = await watch.until_event(ApprovalRequested)
            assert isinstance(asked.action, TrustAction)
            await session.send("look")
            assert server.requests == [] and songs(canaries) == []
            session.answer(asked.id, Answer(verdict="reject"))
            await watch.ended()
        assert server.requests and WORDS not in told(server)
    assert songs(canaries) == []
    assert dict(os.environ) == before
    assert not paths.trust_file().exists()
    assert watch.of(SessionOpened)[0].approval_mode == "ask"


# --- the whole program, watched from outside -----------------------------------------------------------


async def watched(repo: Path, home: Path, server: MockServer, *flags: str) -> tuple[int, list[str], list[str]]:
    """Run `exec` in the folder under strace: exit code, programs that were started, addresses that were reached."""
    home.mkdir()
    trace = home / "trace"
    variables = environment(home)
    variables["PATH"] = f".:{repo}:{repo}/node_modules/.bin:{variables['PATH']}"
    variables["RIPGREP_CONFIG_PATH"] = str(repo / ".ripgreprc")
    process = await asyncio.create_subprocess_exec(
        shutil.which("strace") or "strace", "-f", "-qq", "-s", "256", "-e", "trace=execve,execveat,connect", "-o", str(trace),
        sys.executable, "-P", "-m", "tui_agent", "exec", "look", "--json", "--mode", "direct", "--provider", "openai",
        "--base-url", server.url + "/v1", "--model", "mock-model", *flags,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        cwd=repo, env=variables, limit=2**24,
    )  # fmt: skip
    out, err = await process.communicate()
    assert b"run.ended" in out, err.decode()
    lines = trace.read_text(errors="replace").splitlines()
    started = [found[1] for line in lines if (found := re.search(r'execve(?:at)?\((?:\w+, )?"([^"]*)".*= 0$', line))]
    reached = [found[1] for line in lines if (found := re.search(r"sin6?_port=htons\((\d+)\)", line))]
    assert process.returncode is not None
    return process.returncode, started, reached


PROBES = {"/usr/bin/bwrap", "/bin/echo"}
"""Started by the program itself, to find out whether a sandbox works here."""


def everything(tmp_path: Path) -> tuple[Path, Path]:
    repo, canaries = tmp_path / "repo", tmp_path / "canaries"
    build(repo, list(TRAPS), canaries)
    return repo, canaries


@pytest.mark.slow
@pytest.mark.needs("strace", "git")
async def test_g01_g22_from_outside_an_untrusted_folder_starts_nothing(tmp_path: Path) -> None:
    repo, canaries = everything(tmp_path)
    async with serve(scenario("look", "hello"), strict=True) as server:
        code, started, reached = await watched(repo, tmp_path / "home", server, "--approve", "all")
        port, said = server.url.rpartition(":")[2], told(server)
    assert code in (0, 3) and started  # strace saw the program itself
    assert set(started) - PROBES == {sys.executable}
    assert set(reached) == {port}
    assert songs(canaries) == [] and WORDS not in said


@pytest.mark.slow
@pytest.mark.needs("strace", "git", "rg")
@pytest.mark.parametrize("flags", [[], ["--trust"]], ids=["untrusted", "trusted"])
async def test_g01_from_outside_reading_tools_start_no_program_of_the_folder(flags: list[str], tmp_path: Path) -> None:
    repo, canaries = everything(tmp_path)
    async with serve(looking(), strict=True) as server:
        code, started, reached = await watched(repo, tmp_path / "home", server, "--approve", "all", *flags)
        port, said = server.url.rpartition(":")[2], told(server)
    assert code in (0, 3)
    assert any(Path(program).name == "rg" for program in started)  # what was to be seen was seen
    ours = {program for program in started if Path(program).is_absolute() and not Path(program).is_relative_to(repo)}
    assert set(started) == ours
    allowed = {Path(sys.executable).name, "rg"} | ({"git"} if flags else set())  # trusted, git says its state
    assert {Path(program).name for program in ours - PROBES} <= allowed
    assert set(reached) == {port}
    assert songs(canaries) == []
    assert (WORDS in said) == bool(flags)  # trusted, its rules are read
