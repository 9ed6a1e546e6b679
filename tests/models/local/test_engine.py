"""The local engine's process: shared, supervised, and gone with its last user (L1). llama.cpp is a double."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.doubles.local_engine import processes
from tests.waiting import wait_for, wait_until
from tui_agent.models.local import engine
from tui_agent.models.local.engine import EngineError, EnginePlan, use_engine

USER = """
import asyncio, sys
from pathlib import Path
from tui_agent.models.local.engine import EnginePlan, use_engine

async def main():
    plan = EnginePlan(model=Path(sys.argv[1]), name="m", window=2048)
    await use_engine(plan, on_loading=lambda: print("loading", flush=True))
    print("ready", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""
"""A program that uses the engine until it is killed."""


@pytest.fixture
def weights(engine_double: None, tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    return path


@pytest.fixture
def held(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Loading does not end before this file exists."""
    path = tmp_path / "go"
    monkeypatch.setenv("GGML_FAKE_HOLD", str(path))
    yield path
    path.touch()


def plan(weights: Path, name: str = "m") -> EnginePlan:
    return EnginePlan(model=weights, name=name, window=2_048, slots=2)


def start_user(weights: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen((sys.executable, "-c", USER, str(weights)), stdout=subprocess.PIPE)


def line_of(user: subprocess.Popen[bytes]) -> bytes:
    assert user.stdout is not None
    return user.stdout.readline().strip()


async def test_an_engine_is_shared_and_ends_with_its_last_user(weights: Path) -> None:
    announced: list[bool] = []
    first, state = await use_engine(plan(weights), on_loading=lambda: announced.append(True))
    second, same = await use_engine(plan(weights, "other"))
    assert (state.window, state.slots, same) == (2_048, 2, state)
    async with httpx.AsyncClient() as client:
        response = await client.post(
            f"{state.address}/v1/chat/completions",
            json={"model": "m", "messages": []},
            headers={"Authorization": f"Bearer {state.key}"},
        )
    assert "pong" in response.text
    running = processes(weights)
    assert len(running) == 2
    first.release()
    first.release()
    assert engine.running_status(weights) == state and processes(weights) == running
    second.release()
    await wait_for(lambda: not processes(weights))
    assert engine.running_status(weights) is None


async def test_the_key_is_in_no_command_line_and_no_environment(weights: Path) -> None:
    use, state = await use_engine(plan(weights))
    for pid in processes(weights):
        for name in ("cmdline", "environ"):
            assert state.key.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    files = [path for path in use.folder.iterdir() if path.is_file()]
    assert {path.stat().st_mode & 0o077 for path in (*files, use.folder)} == {0}
    use.release()


@pytest.mark.parametrize("name", ["LLM_AUTH_TOKEN", "VK_ACCESS_TOKEN", "GPU_API_KEY", "CUDA_SECRET"])
async def test_secrets_of_the_user_do_not_reach_the_engine(
    weights: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "hush-hush")
    use, _ = await use_engine(plan(weights))
    for pid in processes(weights):
        assert b"hush-hush" not in Path(f"/proc/{pid}/environ").read_bytes()
    use.release()


@pytest.mark.parametrize("victim", ["user", "watcher", "engine"])
@pytest.mark.parametrize("phase", ["loading", "ready"])
def test_no_process_stays_whatever_is_killed(weights: Path, held: Path, victim: str, phase: str) -> None:
    user = start_user(weights)
    assert line_of(user) == b"loading"
    if phase == "ready":
        held.touch()
        assert line_of(user) == b"ready"
    wait_until(lambda: len(processes(weights)) == 2)
    watcher, process = processes(weights)
    os.kill({"user": user.pid, "watcher": watcher, "engine": process}[victim], signal.SIGKILL)
    wait_until(lambda: not processes(weights))
    user.kill()
    user.wait()
    held.touch()
    assert asyncio.run(_runs_again(weights))


async def _runs_again(weights: Path) -> bool:
    use, state = await use_engine(plan(weights))
    use.release()
    return state.phase == "ready"


def test_an_engine_outlives_the_session_that_started_it_while_another_uses_it(weights: Path) -> None:
    first, second = start_user(weights), start_user(weights)
    while line_of(first) != b"ready":
        pass
    while line_of(second) != b"ready":
        pass
    running = processes(weights)
    first.kill()
    first.wait()
    assert processes(weights) == running and len(running) == 2
    second.kill()
    second.wait()
    wait_until(lambda: not processes(weights))


async def test_many_sessions_that_start_at_once_share_one_engine(weights: Path) -> None:
    uses = await asyncio.gather(*(use_engine(plan(weights)) for _ in range(8)))
    assert len({state.key for _, state in uses}) == 1
    assert len(processes(weights)) == 2
    for use, _ in uses:
        use.release()
    await wait_for(lambda: not processes(weights))


async def test_the_next_session_does_not_get_the_engine_that_is_ending(weights: Path) -> None:
    for _ in range(10):
        use, state = await use_engine(plan(weights))
        assert use.status == state and state.phase == "ready"
        use.release()


async def test_what_the_engine_says_about_a_file_that_it_can_not_load(weights: Path) -> None:
    weights.write_bytes(b"something else")
    with pytest.raises(EngineError, match=r"could not load m: llama: invalid magic characters\.$") as caught:
        await use_engine(plan(weights))
    assert "engine.log" in caught.value.advice
    weights.write_bytes(b"GGUF and the rest")
    use, _ = await use_engine(plan(weights))
    use.release()


async def test_without_the_package_the_command_to_install_it(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MODULE", "no_such_package")
    with pytest.raises(EngineError) as caught:
        await use_engine(plan(weights))
    assert "not installed" in str(caught.value) and "pip install" in caught.value.advice


async def test_a_cancelled_start_leaves_no_process(weights: Path, held: Path) -> None:
    loading = asyncio.Event()
    starting = asyncio.create_task(use_engine(plan(weights), on_loading=loading.set))
    await loading.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await wait_for(lambda: not processes(weights))


async def test_an_engine_whose_state_can_not_be_read_is_not_started_twice(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use, _ = await use_engine(plan(weights))
    running = processes(weights)
    (use.folder / "state.json").write_text('{"phase": "of another version"}')
    monkeypatch.setattr(engine, "LEAVE_SECONDS", 0.1)
    with pytest.raises(EngineError, match="Another version"):
        await use_engine(plan(weights))
    assert processes(weights) == running
    use.release()


async def test_folders_of_engines_that_were_not_used_for_a_month_are_removed(weights: Path) -> None:
    old, recent = (engine.engine_folder(weights).with_name(name) for name in ("old", "recent"))
    for folder in (old, recent):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    use, _ = await use_engine(plan(weights))
    use.release()
    assert not old.exists() and recent.exists()


async def test_the_log_goes_where_the_session_wants_it(weights: Path, tmp_path: Path) -> None:
    log = tmp_path / "session.log"
    use, _ = await use_engine(plan(weights), log=log)
    use.release()
    await wait_for(lambda: b"no session uses the engine" in log.read_bytes())
