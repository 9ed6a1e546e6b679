from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.doubles.page_session import FakePageSession
from tests.web.kit import serve_fake_session
from tui_agent.frontends import desktop
from tui_agent.frontends.web.addresses import CannotServe
from tui_agent.platform.supervisor import GRACE, KILL_TIMEOUT

TIMEOUT = 90.0


def processes_of(owner: int) -> list[int]:
    """Processes of the window that the program with this process id opened; other tests may have theirs."""
    text = f"tui-agent-window-{owner}-"
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in line:
                pids.append(int(entry.name))
    return pids


async def wait_until_ended(owner: int) -> None:
    """Wait until the window has no process left: killed ones may take a while to end on a busy machine."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2 * (GRACE + KILL_TIMEOUT)):
            while processes_of(owner):  # noqa: ASYNC110 - other processes can only be polled
                await asyncio.sleep(0.05)
    assert processes_of(owner) == []


@pytest.fixture
async def display(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    reading, writing = os.pipe()
    server = await asyncio.create_subprocess_exec(
        "Xvfb", "-displayfd", str(writing), "-screen", "0", "1000x760x24", "-nolisten", "tcp", "-noreset",
        pass_fds=[writing], stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writing)
    with os.fdopen(reading, "rb") as output:  # up to the line's end: it dies of a pipe that is closed too early
        number = (await asyncio.to_thread(output.readline)).decode().strip()
    monkeypatch.setenv("DISPLAY", f":{number}")
    yield f":{number}"
    with contextlib.suppress(ProcessLookupError):
        server.terminate()
    await server.wait()


@pytest.mark.needs("Xvfb", "chromium")
async def test_the_window_shows_the_page_and_leaves_nothing(display: str) -> None:
    program = desktop.find_browser("chromium", os.environ)
    async with serve_fake_session(FakePageSession()) as page:
        window = asyncio.create_task(desktop.show_window(page.page_server, program))
        async with asyncio.timeout(TIMEOUT):
            while not page.page_server.feed.readers and not window.done():
                await asyncio.wait([window], timeout=0.05)
        assert not window.done()
        pids = processes_of(os.getpid())
        assert pids
        assert page.page_server.tickets.token not in "".join(
            Path(f"/proc/{pid}/cmdline").read_text(errors="replace") for pid in pids if Path(f"/proc/{pid}").exists()
        ), "H13: not in ps"
        if folder := os.environ.get("TUI_AGENT_TEST_PICTURES"):
            await asyncio.sleep(1)
            screenshot = await asyncio.create_subprocess_exec(
                "import", "-display", display, "-window", "root", f"{folder}/desktop.png"
            )
            await screenshot.wait()
        window.cancel()
        with pytest.raises(asyncio.CancelledError):
            await window
        await wait_until_ended(os.getpid())


@pytest.mark.needs("Xvfb", "chromium")
async def test_a_closed_window_ends_server_and_session(display: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("TUI_AGENT_")}
    env |= {"HOME": str(home), "TUI_AGENT_HOME": str(home / "own"), "TUI_AGENT_LANGUAGE_SERVERS_ON": "false"}
    env |= {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tui_agent", "desktop", "--demo", env=env, cwd=tmp_path,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(TIMEOUT):
            while not _has_connection(program.pid):  # a browser that is only starting does not end in order
                assert program.returncode is None, await program.communicate()
                await asyncio.sleep(0.05)
            ended = asyncio.create_task(program.communicate())
            while not ended.done():
                for pid in filter(_is_main_process, processes_of(program.pid)):
                    os.kill(pid, 15)  # as closing its window does: the browser ends
                await asyncio.wait([ended], timeout=2)
            out, err = await ended
    finally:
        if program.returncode is None:
            program.kill()
    assert program.returncode == 0, (out, err)
    assert err == b"The demo's folder was removed. To keep one: tui-agent --demo -C DIR\n"
    assert b"Resume with:" not in out
    await wait_until_ended(program.pid)


def _has_connection(pid: int) -> bool:
    """Whether a browser has a connection to the server of that process."""
    with contextlib.suppress(OSError):
        sockets = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
        rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return any(row[3] == "01" and f"socket:[{row[9]}]" in sockets for row in rows)
    return False


def _is_main_process(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(word.startswith(b"--app=") for word in words) and not any(word.startswith(b"--type=") for word in words)


def test_without_a_browser_one_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CannotServe, match="tui-agent web"):
        desktop.find_browser(None, {"DISPLAY": ":0"})
    with pytest.raises(CannotServe, match="nonsense was not found"):
        desktop.find_browser("nonsense", {"DISPLAY": ":0"})


@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a display")
def test_without_a_display_one_is_told_what_to_do() -> None:
    with pytest.raises(CannotServe, match="no display"):
        desktop.find_browser(None, {})
