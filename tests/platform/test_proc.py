from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.doubles.process import run_process
from tests.waiting import wait_for, within_timeout
from tui_agent.common.domain import CommandOutcome
from tui_agent.platform import proc, supervisor
from tui_agent.platform.environment import bare_environment, child_environment
from tui_agent.platform.output import Capture
from tui_agent.platform.proc import Child, ProcessError, Stage


def bash(command: str) -> list[Stage]:
    return [Stage(program="/bin/bash", argv=("bash", "-c", command))]


async def run(command: str, cwd: Path, **kwargs: object) -> CommandOutcome:
    kwargs.setdefault("timeout", 20.0)
    return await run_process(bash(command), cwd=cwd, environment=child_environment(), **kwargs)  # type: ignore[arg-type]  # the keywords of run_process


def alive(pid: int) -> bool:
    return pid in supervisor.process_table()


async def pids_in(folder: Path, count: int) -> list[int]:
    """Process ids that the processes themselves wrote down, one file each."""
    await wait_for(lambda: sum(1 for f in folder.glob("*.pid") if f.read_text().strip()) >= count)
    return [int(file.read_text()) for file in folder.glob("*.pid")]


@pytest.fixture
async def children() -> AsyncIterator[list[Child]]:
    started: list[Child] = []
    yield started
    for child in started:
        child.stop()
        await child.gone()


async def start(command: str, cwd: Path, children: list[Child], *, keep: bool = True) -> Child:
    child = await Child.start(bash(command), cwd=cwd, environment=child_environment(), capture=Capture(), keep=keep)
    children.append(child)
    return child


# --- the straight path ---------------------------------------------------------------------------


async def test_output_status_and_counts(tmp_path: Path) -> None:
    result = await run("echo one; echo two >&2; exit 3", tmp_path)
    assert (result.exit_code, result.output) == (3, "one\ntwo")
    assert (result.total_bytes, result.total_lines, result.timed_out) == (8, 2, False)


async def test_folder_and_environment_are_as_given(tmp_path: Path) -> None:
    stage = Stage(program="/usr/bin/env", argv=("env",))
    result = await run_process([stage], cwd=tmp_path, environment={"A": "b c", "Ü": "ö"}, timeout=60)
    assert result.output.splitlines() == ["A=b c", "Ü=ö"]
    assert (await run("pwd -P", tmp_path)).output == str(tmp_path.resolve())


async def test_a_pipeline_without_a_shell(tmp_path: Path) -> None:
    stages = [
        Stage(program="/bin/cat", argv=("cat", "missing", "/etc/hostname"), discards_stderr=True),
        Stage(program="/usr/bin/wc", argv=("wc", "-l")),
    ]
    result = await run_process(stages, cwd=tmp_path, environment=bare_environment(), timeout=60)
    assert (result.exit_code, result.output) == (0, "1")


async def test_a_writer_ends_when_its_reader_does(tmp_path: Path) -> None:
    stages = [Stage(program="/usr/bin/yes", argv=("yes",)), Stage(program="/usr/bin/head", argv=("head", "-n1"))]
    result = await run_process(stages, cwd=tmp_path, environment={}, timeout=20)
    assert (result.exit_code, result.output) == (0, "y")


async def test_live_output_comes_while_the_command_runs(tmp_path: Path) -> None:
    seen: list[str] = []
    running = asyncio.create_task(
        run("echo first; until [ -e go ]; do sleep 0.02; done", tmp_path, on_output=seen.append)
    )
    await wait_for(lambda: "first\n" in seen)
    assert not running.done()
    (tmp_path / "go").touch()
    assert (await running).exit_code == 0


@pytest.mark.parametrize(
    ("program", "cwd", "code"),
    [
        ("/no/such/program", "/", "not_found"),
        ("/etc/passwd", "/", "denied"),
        ("/bin/true", "/no/such/folder", "folder"),
    ],
)
async def test_what_cannot_start_says_why(program: str, cwd: str, code: str) -> None:
    with pytest.raises(ProcessError) as caught:
        await run_process([Stage(program=program, argv=("x",))], cwd=Path(cwd), environment={}, timeout=10)
    assert caught.value.code == code


# --- floods --------------------------------------------------------------------------------------

FLOOD = """
import asyncio, resource, sys, time
from pathlib import Path
from tests.doubles.process import run_process
from tui_agent.platform import proc
async def main():
    def rss():
        return int(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1])
    ticks = []
    async def tick():
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            ticks.append(time.monotonic() - last); last = time.monotonic()
    await run_process([proc.Stage(program='/bin/true', argv=('true',))], cwd=Path('/'), environment={}, timeout=30)
    before = rss()
    ticker = asyncio.create_task(tick())
    stage = proc.Stage(program='/bin/bash', argv=('bash', '-c', sys.argv[1]))
    got = []
    r = await run_process([stage], cwd=Path('/'), environment={'PATH': '/usr/bin:/bin'}, timeout=50, on_output=got.append)
    print(r.total_bytes, r.total_lines, rss() - before, len(ticks), sum(map(len, got)), len(r.output), sep='\\n')
    print(r.note)
    print(r.output)
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize(
    ("command", "lines", "note"),
    [
        ("yes abcdefghijklmnopqrstuvwxyz | head -c 108000000", 4_000_000, ""),
        ("head -c 108000000 /dev/zero | tr '\\0' x", 1, ""),
        ("head -c 108000000 /dev/urandom", None, "binary"),
    ],
    ids=["lines", "one line", "binary"],
)
async def test_a_flood_costs_no_memory_and_leaves_the_loop_alive(command: str, lines: int | None, note: str) -> None:
    flood = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FLOOD, command, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    out, _ = await flood.communicate()
    size, count, grown, ticks, live, shown = map(int, out.split(b"\n")[:6])
    assert size == 108_000_000 and count == (lines or count)
    assert grown < 32 * 1024  # KiB
    assert ticks > 10
    assert live < 4_000_000 and shown <= 31_000
    text = out.decode().split("\n", 6)[6]
    assert note in text.split("\n")[0]
    if lines and lines > 1:
        assert f"{lines - 100:,} of {lines:,} lines left out" in text
        assert len(text.split("\n", 1)[1].strip().split("\n")) == 101


# --- ends ----------------------------------------------------------------------------------------


async def test_time_out_keeps_what_was_written(tmp_path: Path) -> None:
    result = await within_timeout(run("echo before; echo $$ > a.pid; sleep 300; echo after", tmp_path, timeout=1.0))
    assert result.timed_out and result.exit_code is None and result.output == "before"
    assert not alive(int((tmp_path / "a.pid").read_text()))


STUBBORN = {
    "ignores TERM": "trap '' TERM INT HUP; echo $$ > a.pid; while :; do sleep 0.1; done",
    "stopped": "echo $$ > a.pid; kill -STOP $$; sleep 300",
    "stopped and ignores TERM": "trap '' TERM; echo $$ > a.pid; kill -STOP $$; sleep 300",
    "child ignores all it can": "bash -c 'trap \"\" TERM INT HUP USR1 USR2; echo $$ > a.pid; sleep 300'; sleep 300",
    "setsid": "setsid bash -c 'echo $$ > a.pid; sleep 300'; sleep 300",
    "setsid in the background": "setsid bash -c 'echo $$ > a.pid; sleep 300' & sleep 300",
    "nohup": "nohup bash -c 'echo $$ > a.pid; sleep 300' & sleep 300",
    "disown": "bash -c 'echo $$ > a.pid; sleep 300' & disown -a; sleep 300",
    "double fork": "( ( bash -c 'echo $$ > a.pid; sleep 300' & ) & ); sleep 300",
    "double fork with setsid and TERM ignored": "(setsid bash -c 'trap \"\" TERM HUP; (echo $BASHPID > a.pid; while :; do sleep 0.1; done) &' &); sleep 300",
    "forks when told to end": "trap 'setsid sleep 300 & echo $! > b.pid' TERM; echo $$ > a.pid; while :; do sleep 0.1; done",
}


@pytest.mark.parametrize("command", STUBBORN.values(), ids=STUBBORN.keys())
async def test_every_descendant_is_dead_soon_after_a_stop(command: str, tmp_path: Path, children: list[Child]) -> None:
    child = await start(command, tmp_path, children)
    (pid,) = await pids_in(tmp_path, 1)
    assert alive(pid)  # the fault is there
    below = set(supervisor.descendants(child.pid))
    assert pid in below
    child.stop()
    await within_timeout(child.gone())
    assert not any(alive(p) for p in {*below, child.pid, *await pids_in(tmp_path, 1)})


async def test_daemons_again_and_again(tmp_path: Path) -> None:
    command = "for i in 1 2 3; do (setsid bash -c 'echo $$ > '$i'.pid; exec sleep 300' &); done; sleep 300"
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        child = await Child.start(bash(command), cwd=folder, environment=child_environment(), capture=Capture())
        pids = await pids_in(folder, 3)
        assert all(alive(pid) for pid in pids)
        child.stop()
        await child.gone()
        assert not any(alive(pid) for pid in pids)


async def test_a_polite_program_may_clean_up(tmp_path: Path, children: list[Child]) -> None:
    child = await start(
        "trap 'echo done > cleaned; exit' TERM; echo $$ > a.pid; while :; do sleep 0.05; done", tmp_path, children
    )
    await pids_in(tmp_path, 1)
    child.stop()
    await child.gone()
    assert (tmp_path / "cleaned").exists()


async def test_a_background_process_that_holds_the_pipe_delays_nothing(tmp_path: Path, children: list[Child]) -> None:
    capture = Capture()
    child = await Child.start(
        bash("sleep 300 & echo $! > a.pid; echo said"),
        cwd=tmp_path,
        environment=child_environment(),
        capture=capture,
        keep=True,
    )
    children.append(child)
    assert await within_timeout(child.wait(200)) == 0  # what holds the pipe sleeps longer
    assert bytes(capture.rings.head) == b"said\n"
    (pid,) = await pids_in(tmp_path, 1)
    assert child.left_over and child.alive and alive(pid)


async def test_without_keep_nothing_outlives_the_command(tmp_path: Path) -> None:
    await run("setsid sleep 300 & echo $! > a.pid", tmp_path)
    (pid,) = await pids_in(tmp_path, 1)
    assert not alive(pid)


async def test_a_cancelled_wait_kills(tmp_path: Path) -> None:
    running = asyncio.create_task(run("trap '' TERM; echo $$ > a.pid; sleep 300", tmp_path))
    (pid,) = await pids_in(tmp_path, 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within_timeout(running)
    await wait_for(lambda: not alive(pid))


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02, 0.05])
async def test_a_start_cancelled_half_way_leaves_nothing(delay: float, tmp_path: Path) -> None:
    before, others = len(os.listdir("/dev/fd")), set(supervisor.descendants(os.getpid()))
    large = {**child_environment(), **{f"V{number}": "x" * 50_000 for number in range(30)}}  # does not fit the socket
    starting = asyncio.create_task(Child.start(bash("sleep 312"), cwd=tmp_path, environment=large, capture=Capture()))
    await asyncio.sleep(delay)
    starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        (await starting).stop()
    await wait_for(lambda: len(os.listdir("/dev/fd")) <= before)
    await wait_for(lambda: others.issuperset(supervisor.descendants(os.getpid())))


# --- the program itself dies -----------------------------------------------------------------------

OWNER = """
import asyncio, sys
from pathlib import Path
from tests.doubles.process import run_process
from tui_agent.platform import proc
stage = proc.Stage(program='/bin/bash', argv=('bash', '-c', sys.argv[1]))
asyncio.run(run_process([stage], cwd=Path(sys.argv[2]), environment={'PATH': '/usr/bin:/bin'}, timeout=300))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_children_die_with_the_program(number: signal.Signals, tmp_path: Path) -> None:
    command = (
        "trap '' TERM HUP; (setsid bash -c 'trap \"\" TERM; echo $$ > b.pid; sleep 300' &); echo $$ > a.pid; sleep 300"
    )
    with subprocess.Popen(  # noqa: ASYNC220 - it returns at once
        [sys.executable, "-c", OWNER, command, str(tmp_path)], cwd=Path(__file__).parents[2]
    ) as owner:
        pids = await pids_in(tmp_path, 2)
        assert all(alive(pid) for pid in pids)
        owner.send_signal(number)
    await wait_for(lambda: not any(alive(pid) for pid in pids))


async def test_a_killed_supervisor_takes_its_command_along(tmp_path: Path) -> None:
    running = asyncio.create_task(run("echo $$ > a.pid; (echo $BASHPID > b.pid; sleep 300) & sleep 300", tmp_path))
    pids = await pids_in(tmp_path, 2)
    parent = supervisor.process_table()[int((tmp_path / "a.pid").read_text())][0]
    os.kill(parent, signal.SIGKILL)
    result = await running
    assert result.exit_code is None
    await wait_for(lambda: not any(alive(pid) for pid in pids))


@pytest.mark.parametrize(
    "command", ["cat", "read x; echo $?", f"{sys.executable} -c 'import sys; sys.stdin.read()'", "sort"]
)
async def test_standard_input_is_at_its_end(command: str, tmp_path: Path) -> None:
    result = await run(command, tmp_path, timeout=20)
    assert not result.timed_out and result.exit_code == 0


async def test_there_is_no_terminal(tmp_path: Path) -> None:
    result = await run("tty; (exec < /dev/tty) 2>&1 | tail -c 60; stty raw 2>&1", tmp_path)
    assert "not a tty" in result.output
    assert "No such device or address" in result.output


@pytest.mark.parametrize(("name", "status"), [("SEGV", -11), ("KILL", -9), ("TERM", -15)])
async def test_the_terminating_signal_is_reported(name: str, status: int, tmp_path: Path) -> None:
    result = await run(f"kill -{name} $$", tmp_path)
    assert (result.exit_code, proc.signal_name(result.exit_code)) == (128 - status, f"SIG{name}")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc/self/fd")
async def test_only_three_descriptors_are_inherited(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)  # a descriptor that a child would inherit
        result = await run("cd /proc/self/fd && for f in *; do [ -e $f ] && echo $f; done", tmp_path)
    # bash keeps 255 for itself when it reads a script, never for -c
    assert result.output.split() == ["0", "1", "2"]


async def test_signals_ignored_here_are_not_ignored_there(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        result = await run("kill -HUP $$; echo survived", tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert result.exit_code == 128 + signal.SIGHUP


SECRETS = {
    "LLM_AUTH_TOKEN": "canary",
    "LLM_BASE_URL": "canary",
    "OPENAI_API_KEY": "canary",
    "GITHUB_TOKEN": "canary",
    "AWS_SECRET_ACCESS_KEY": "canary",
    "DB_PASSWORD": "canary",
    "LC_SECRET": "canary",
    "XDG_TOKEN_HOME": "canary",
    "RANDOM_VARIABLE": "canary",
}


async def test_no_secrets_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    assert os.environ["LLM_AUTH_TOKEN"] == "canary"
    for environment in (child_environment(), bare_environment()):
        stage = Stage(program="/usr/bin/env", argv=("env",))
        result = await run_process([stage], cwd=tmp_path, environment=environment, timeout=60)
        assert "canary" not in result.output
        assert "TERM=dumb" in result.output


def test_what_programs_need_is_passed() -> None:
    source = {
        "PATH": "/x",
        "HOME": "/h",
        "LANG": "de_DE.UTF-8",
        "VIRTUAL_ENV": "/v",
        "SHELL": "/bin/fish",
        "LC_TIME": "C",
    }
    environment = child_environment(source)
    assert environment.items() >= source.items()
    assert (environment["GIT_TERMINAL_PROMPT"], environment["PAGER"]) == ("0", "cat")
    assert "HOME" not in bare_environment(source)
    assert bare_environment(source)["PATH"] == "/usr/local/bin:/usr/bin:/bin"


# --- parallel work --------------------------------------------------------------------------------


@pytest.mark.parametrize("variables", [{}, {"LANG": "C"}, {"LC_ALL": "POSIX"}, {"LANG": ""}])
async def test_text_is_utf8_whatever_the_locale(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "Größe ✓").touch()
    environment = child_environment({"PATH": "/usr/bin:/bin", **variables})
    result = await run_process(bash("ls; v=ä; echo ${#v}"), cwd=tmp_path, environment=environment, timeout=60)
    assert result.output == "Größe ✓\n1"


async def test_twenty_at_once_and_one_hangs(tmp_path: Path) -> None:
    quick = [run(f"echo {number}", tmp_path) for number in range(19)]
    *results, slow = await asyncio.gather(*quick, run("echo x; sleep 300", tmp_path, timeout=2.0))
    assert [result.output for result in results] == [str(number) for number in range(19)]
    assert slow.timed_out and slow.output == "x"


async def test_nothing_is_left_open(tmp_path: Path) -> None:
    await run("true", tmp_path)
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        await run("echo x; sleep 300 &", tmp_path)
        with contextlib.suppress(ProcessError):
            await run_process([Stage(program="/no", argv=("x",))], cwd=tmp_path, environment={}, timeout=5)
    await wait_for(lambda: len(os.listdir("/dev/fd")) <= before)
