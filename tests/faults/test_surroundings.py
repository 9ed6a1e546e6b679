from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.job import environment, make_workspace
from tests.doubles.mock import scenario, serve
from tests.engine.kit import run_session
from tests.frontends.test_exec import ExecResult
from tests.nightly import sampled
from tui_agent.storage.journal import read_records

ROOT = Path(__file__).parents[2]


class Place:
    """A home, a workspace, and the program run there through a shell that sets limits first."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.workspace = make_workspace(folder / "work")
        self.scenarios = folder / "scenarios.json"
        self.env = environment(self.home)

    def run(self, *args: str, first: str = ":", python: tuple[str, ...] = (), **env: str) -> ExecResult:
        argv = [sys.executable, *python, "-m", "tui_agent", "exec", "hi", "--provider", "scripted", "--trust", *args]
        done = subprocess.run(
            ["sh", "-c", f'{first}; exec "$@"', "sh", *argv],
            env={name: value for name, value in {**self.env, **env}.items() if value != "UNSET"},
            cwd=self.workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
        ran = ExecResult(done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in ran.err, ran.err
        return ran


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def session_in(data: Path) -> Path:
    (only,) = (data / "sessions").iterdir()
    return only


@pytest.mark.parametrize("files", sampled([64, 16], [16]))
def test_i01_few_open_files_are_enough(place: Place, files: int) -> None:
    assert place.run(first=f"ulimit -n {files}").code == 0


def test_i02_little_memory_is_enough(place: Place) -> None:
    ran = place.run(first="ulimit -d 262144", MALLOC_ARENA_MAX="2")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("home", sampled(["/proc/nothing", "/dev/null/home"], 1))
def test_i03_a_home_that_can_not_be_written_is_told_with_the_way_out(place: Place, home: str) -> None:
    ran = place.run(HOME=home, TUI_AGENT_HOME="UNSET")
    assert ran.code != 0
    assert "TUI_AGENT_HOME" in ran.err or f"{home}/.config/tui-agent/config.yaml" in ran.err


def test_i03_no_home_at_all_is_told_or_not_needed(place: Place, tmp_path: Path) -> None:
    ran = place.run(HOME="relative", TUI_AGENT_HOME="UNSET")
    assert ran.code != 0
    assert "TUI_AGENT_HOME" in ran.err
    assert place.run(HOME="UNSET").code == 0


def test_i03_a_full_disk_is_told_and_leaves_no_torn_session(place: Place) -> None:
    ran = place.run(first="ulimit -f 0")
    assert ran.code == 1
    assert "TUI_AGENT_HOME" in ran.err or "can't be" in ran.err
    sessions = place.home / "tui-agent" / "sessions"
    assert not sessions.exists() or not list(sessions.iterdir())


@pytest.mark.parametrize("name", sampled(["with space", "Jürgen 🎉 \u202ex", "-dash", "quo'te\"$HOME;"], 1))
def test_i04_any_name_of_the_data_folder_works(place: Place, tmp_path: Path, name: str) -> None:
    real = tmp_path / "elsewhere" / name
    real.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(real)
    assert place.run(TUI_AGENT_HOME=str(link)).code == 0
    session = session_in(real)
    assert [record.seq for record in read_records(session / "events.jsonl")]
    again = place.run("--resume", session.name, TUI_AGENT_HOME=str(real))
    assert again.code == 0, again.err


async def test_i07_nothing_needs_inotify(workspace: Path) -> None:
    async with serve(scenario("hi", "hello"), strict=True) as server, run_session(server, workspace):
        kinds = set()
        for name in os.listdir("/proc/self/fd"):
            try:
                kinds.add(os.readlink(f"/proc/self/fd/{name}"))
            except OSError:
                continue
    assert "anon_inode:[eventpoll]" in kinds
    assert not [one for one in kinds if "inotify" in one]


def test_i08_whatever_the_umask_our_files_are_ours_alone(place: Place) -> None:
    assert place.run(first="umask 000").code == 0
    data = place.home / "tui-agent"
    for path in [data, *data.rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path} has {mode:o}"


@pytest.mark.parametrize(
    ("python", "env"),
    [
        pytest.param(("-O",), {"TZ": "Mars/Olympus"}, marks=pytest.mark.nightly),
        pytest.param(
            ("-X", "utf8=0"),
            {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
            marks=pytest.mark.nightly,
        ),
        (("-X", "utf8=0", "-OO"), {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "TZ": "UNSET", "LANG": "UNSET"}),
    ],
    ids=["optimised", "ascii", "bare"],
)
def test_i09_any_way_to_start_python_works(place: Place, python: tuple[str, ...], env: dict[str, str]) -> None:
    ran = place.run("--json", python=python, **env)
    assert ran.code == 0, ran.err
    assert ran.records[-1]["type"] == "session.closed"
    session = session_in(place.home / "tui-agent")
    assert (session / "chat_history.log").read_bytes().decode("utf-8")


CORE = (
    "tests/storage/test_catalog.py",
    "tests/storage/test_chat_log.py",
    "tests/storage/test_folder.py",
    "tests/engine/test_resuming.py",
    "tests/engine/test_stream.py",
    "tests/engine/test_session.py",
    "tests/protocols/test_protocols.py",
)
FEW = ("tests/storage/test_chat_log.py", "tests/engine/test_resuming.py")
ALL = ("tests/engine", "tests/storage", "tests/protocols")
"""What the nightly run adds with `TUI_AGENT_ASCII=all`."""
ASCII = {"few": FEW, "core": CORE if os.environ.get("TUI_AGENT_ASCII") != "all" else ALL}


@pytest.mark.slow
@pytest.mark.nightly  # every time, the program itself runs in an ASCII world
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("which", ASCII)
def test_i09_the_tests_of_storage_engine_and_protocols_pass_in_an_ascii_world(which: str) -> None:
    narrow = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-q", "-x", "-p", "no:cacheprovider", *ASCII[which]],
        cwd=ROOT,
        env={**os.environ, **narrow},
        capture_output=True,
        timeout=3500,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-4000:]
    assert b" passed" in done.stdout
