from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import sys
from pathlib import Path

import pytest

from tui_agent.platform import supervisor
from tui_agent.platform.interactive import MAX_PENDING, DuplexProcess, WriteBlocked
from tui_agent.platform.proc import ProcessError


class ReceivedOutput:
    def __init__(self) -> None:
        self.data = b""
        self.over = asyncio.Event()
        self.news = asyncio.Event()

    def take(self, data: bytes) -> None:
        self.data += data
        self.news.set()

    async def until(self, wanted: bytes) -> None:
        async with asyncio.timeout(60):
            while wanted not in self.data:
                self.news.clear()
                await self.news.wait()


async def talk(received: ReceivedOutput, code: str, cwd: Path) -> DuplexProcess:
    argv = ("python", "-c", code)
    return await DuplexProcess.with_program(
        Path(sys.executable), argv, cwd=cwd, environment={"A": "1"}, on_output=received.take, on_end=received.over.set
    )


async def test_input_and_output_are_exchanged_and_errors_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = (
        "import os, sys\n"
        "print('oh\\x1b[31m no', file=sys.stderr, flush=True)\n"
        "data = sys.stdin.buffer.read(200_000)\n"
        "os.write(1, data[::-1] + os.getcwd().encode())\n"
        "os.write(1, b'%d' % os.isatty(0) + repr(sorted(os.listdir('/proc/self/fd'))).encode())\n"
    )
    logging.getLogger("tui_agent").propagate = True
    with caplog.at_level(logging.DEBUG, "tui_agent.platform.interactive"):
        received = ReceivedOutput()
        child = await talk(received, code, tmp_path)
        child.send(b"ab\0\xff" * 50_000)
        async with asyncio.timeout(60):
            await received.over.wait()
            await child.gone()
    assert received.data.startswith(b"\xff\0ba" * 50_000 + os.fsencode(tmp_path) + b"0['0', '1', '2', ")
    assert "oh no" in caplog.text
    assert "\x1b" not in caplog.text
    child.send(b"nobody is there")


async def test_its_whole_tree_is_dead_after_a_stop(tmp_path: Path) -> None:
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "os.write(1, f'{os.getpid()} {child.pid}\\n'.encode())\n"
        "time.sleep(1000)\n"
    )
    received = ReceivedOutput()
    child = await talk(received, code, tmp_path)
    await received.until(b"\n")
    pids = [int(pid) for pid in received.data.split()]
    child.stop()
    async with asyncio.timeout(60):
        await received.over.wait()
        await child.gone()
    assert not set(pids) & set(supervisor.process_table())


async def test_what_is_not_read_does_not_pile_up(tmp_path: Path) -> None:
    received = ReceivedOutput()
    child = await talk(received, "import time; print(1, flush=True); time.sleep(1000)", tmp_path)
    await received.until(b"1")
    with pytest.raises(WriteBlocked):
        for _ in range(MAX_PENDING // (1 << 20) + 3):
            child.send(b"x" * (1 << 20))
    child.stop()
    async with asyncio.timeout(60):
        await child.gone()


async def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    received = ReceivedOutput()
    with pytest.raises(ProcessError):
        await DuplexProcess.with_program(
            tmp_path / "none",
            ("none",),
            cwd=tmp_path,
            environment={},
            on_output=received.take,
            on_end=received.over.set,
        )


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 6])
async def test_an_abandoned_start_leaves_nothing(tmp_path: Path, turns: int) -> None:
    before = set(supervisor.process_table())
    received = ReceivedOutput()
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    starting = asyncio.create_task(talk(received, code, tmp_path))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    ours = {pid for pid, (parent, _) in supervisor.process_table().items() if parent == os.getpid()}
    assert not ours - before


async def test_where_descriptors_run_out_none_is_lost(tmp_path: Path) -> None:
    def held() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    received = ReceivedOutput()
    before, limits = held(), resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
    refused = 0
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(spare) + 1, limits[1]))
        for _ in range(12):
            os.close(spare.pop())
            try:
                child = await talk(received, "import time; time.sleep(1000)", tmp_path)
            except ProcessError:
                refused += 1
            else:
                child.stop()
                await child.gone()
                break
            assert held() == before + len(spare)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in spare:
            with contextlib.suppress(OSError):
                os.close(fd)
    assert refused > 4
