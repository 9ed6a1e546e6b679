"""How long the page of a session of 2,000 messages takes until it can be used (X4): `python -m tests.benchmarks.page [RUNS]`.

The program serves the page in a process of its own; Chromium opens it with a new profile for each run. Prints when the
message field worked and when the last message was painted, in milliseconds from following the link, and the layouts.
Exits with 1 if the median is over the limit.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.doubles.fake_disk import FakeHaste
from tests.doubles.job import environment
from tui_agent import events as e
from tui_agent.engine.core.state import EngineState, SessionStream
from tui_agent.storage.folder import SessionFolder

TURNS = 1000
LIMIT = 1000.0
"""Milliseconds (X4)."""
LAST = f"reply {TURNS - 1}"
WATCH = """(() => {
  window.times = {};
  const look = () => {
    if (document.querySelector('#mode option')) times.composer ??= Date.now();
    if (document.getElementById('items')?.lastElementChild?.isConnected && document.body.textContent.includes('LAST')) {
      requestAnimationFrame(() => { times.painted ??= Date.now(); });  // what was found is laid out and painted by then
      return;
    }
    requestAnimationFrame(look);
  };
  look();
})()""".replace("LAST", LAST)


class Opening(NamedTuple):
    """What opening the page takes."""

    composer: float
    """Milliseconds from following the link until the message field works."""
    painted: float
    """Milliseconds from following the link until the last message is painted."""
    work: float
    """Milliseconds that the page's thread worked, and the server, whatever else the machine did."""
    layouts: int


async def write_session(home: Path, workspace: Path) -> str:
    """Write a session of 2,000 messages; return its id."""
    folder = SessionFolder.create(home / "tui-agent" / "sessions", workspace=workspace, model="m", mode="direct")
    stream, _ = await SessionStream.open(folder, calls=FakeHaste())
    assert isinstance(stream, SessionStream)
    stream.state = EngineState()
    stream.on_emit = stream.state.fold
    root = str(workspace)
    stream.emit(
        e.SessionOpened(
            id=folder.id, version="0", workspace=root, roots=(root,), provider="scripted", model="m", mode="direct",
            approval_mode="ask", trusted=True,
        )
    )  # fmt: skip
    for turn in range(TURNS):
        run, text = f"run-{turn}", f"reply {turn}\n\n" + "Some **more** words about `it`. " * 12
        stream.emit(e.UserMessageAdded(id=f"m-{turn}", text=f"message {turn}"), run=run)
        stream.emit(e.RunStarted(message_id=f"m-{turn}", mode="direct", model="m"), run=run)
        stream.emit(e.ReplyStarted(model="m", iteration=1, messages=2, estimate=900), run=run, node=f"r{turn}")
        stream.emit(e.ReplyEnded(text=text, stop="end"), run=run, node=f"r{turn}")
        stream.emit(e.RunEnded(outcome="done", text=text), run=run)
        if stream.state_due:
            stream.emit(e.StateSaved(state=stream.state.export()))
        await stream.written()
    stream.emit(e.SessionClosed(reason="user"))
    await stream.close()
    folder.close()
    return folder.id


@asynccontextmanager
async def serve_program(home: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The program with the page of a session of 2,000 messages, in a process."""
    workspace = home / "work"
    workspace.mkdir(parents=True)
    session = await write_session(home, workspace)
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tui_agent", "web", "--port", "0", "--resume", session, "--trust", "--provider", "scripted",
        env=environment(home), cwd=workspace, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield program
    finally:
        program.terminate()
        await program.communicate()


async def printed_link(program: asyncio.subprocess.Process) -> str:
    """The link to the page; it admits one browser."""
    assert program.stdout is not None
    while line := await program.stdout.readline():
        if link := re.search(rb"http://\S+/#\S+", line):
            return link[0].decode()
    raise AssertionError("no link was printed")


async def open_page(browser: Any, link: str, cookies: list[Any]) -> Opening:
    """Open the page in a browser with an empty cache, and measure."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800}, storage_state={"cookies": cookies})
    page = await context.new_page()
    await page.add_init_script(WATCH)
    devtools = await context.new_cdp_session(page)
    await devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    began = time.time() * 1000
    await page.goto(link, wait_until="commit")
    while not await _painted(page):  # noqa: ASYNC110 - looked at from outside
        await asyncio.sleep(0.05)
    times = await page.evaluate("times")
    metrics = await devtools.send("Performance.getMetrics")
    figures = {each["name"]: each["value"] for each in metrics["metrics"]}
    cookies[:] = await context.cookies(page.url)
    await context.close()
    return Opening(
        times["composer"] - began, times["painted"] - began, figures["TaskDuration"] * 1000, int(figures["LayoutCount"])
    )


def processor_ms(pid: int) -> float:
    """Milliseconds of processor time that a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


async def _painted(page: Any) -> bool:
    from playwright.async_api import Error

    try:
        return bool(await page.evaluate("window.times?.painted ?? 0"))
    except Error:  # the link leads to the page's own path
        return False


async def measure(home: Path, runs: int) -> list[Opening]:
    """Open the page that often; the first time with the link, then with its cookie."""
    from playwright.async_api import async_playwright

    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with serve_program(home) as program, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        warm = await browser.new_page()  # starts the processes of the browser
        await warm.goto("about:blank")
        link = await printed_link(program)
        address = link.partition("/#")[0]
        cookies: list[Any] = []
        found: list[Opening] = []
        for _ in range(runs):
            spent = processor_ms(program.pid)
            opening = await open_page(browser, link, cookies)
            found.append(opening._replace(work=opening.work + processor_ms(program.pid) - spent))
            link = address + cookies[0]["path"]
        await browser.close()
    return found


def main() -> int:
    """Measure and judge."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory() as home:
        found = asyncio.run(measure(Path(home), runs))
    for each in found:
        print(
            f"composer {each.composer:5.0f} ms   last message {each.painted:5.0f} ms   "
            f"work {each.work:4.0f} ms   {each.layouts} layouts"
        )
    slow = median(max(each.composer, each.painted) for each in found)
    print(f"median {slow:.0f} ms   limit {LIMIT:.0f} ms   {'TOO SLOW' if slow > LIMIT else 'ok'}")
    return slow > LIMIT


if __name__ == "__main__":
    sys.exit(main())
