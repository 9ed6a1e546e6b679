"""What holds for all tests: a still and empty world, snapshots in their folder, outside programs by name."""

from __future__ import annotations

import gc
import inspect
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator
from itertools import count
from pathlib import Path

import pytest
import pytest_textual_snapshot as plugin
from _pytest.unraisableexception import collect_unraisable
from hypothesis import HealthCheck, settings

from tests import headless

# How long an example takes says how busy the machine is. The same examples in every run: a failure is the change's, not
# luck's; TUI_AGENT_EXPLORE=1 looks for others.
settings.register_profile(
    "ours",
    deadline=None,
    max_examples=int(os.environ.get("TUI_AGENT_EXAMPLES", "25")),
    derandomize=os.environ.get("TUI_AGENT_EXPLORE") != "1",
    suppress_health_check=(HealthCheck.too_slow,),
)
settings.load_profile("ours")

ROOT = Path(__file__).resolve().parents[1]

# Hundreds of child processes import the program: compiled once, it starts in half the time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_NAMED = re.compile(r"terminal-\d+")


class TopLevelSVG(plugin.SVGImageExtension):  # type: ignore[misc]  # the plugin has no types
    """Snapshots of `tests/<folders>/<module>.py` lie in `snapshots/<folders>/<module>/`."""

    @classmethod
    def dirname(cls, *, test_location):
        inside = Path(test_location.filepath).resolve().relative_to(ROOT / "tests").with_suffix("")
        return str(ROOT / "snapshots" / inside)

    def matches(self, *, serialized_data, snapshot_data):
        """The same picture; the name of its classes also counts where a line is cut into pieces, which nobody sees."""
        return _NAMED.sub("", serialized_data) == _NAMED.sub("", snapshot_data)


plugin.SVGImageExtension = TopLevelSVG


@pytest.fixture(scope="session")
def _shelf(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes folders. pytest looks through those of all tests before to find a number for the next one."""
    shelf, numbers = tmp_path_factory.mktemp("of", numbered=False), count()

    def make() -> Path:
        folder = shelf / str(next(numbers))
        folder.mkdir()
        return folder

    return make


@pytest.fixture
def tmp_path(_shelf: Callable[[], Path]) -> Path:
    return _shelf()


@pytest.fixture(autouse=True)
def _still_world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _shelf: Callable[[], Path]) -> None:
    home = _shelf()
    for name in (
        "NO_COLOR",
        "OLLAMA_HOST",
        "LLM_BASE_URL",
        "LLM_AUTH_TOKEN",
        "LLM_DEFAULT_MODEL",
        "LLM_SMALL_FAST_MODEL",
    ):
        monkeypatch.delenv(name, raising=False)
    for name, folder in {
        "HOME": home,
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_DATA_HOME": home / ".local" / "share",
        "XDG_STATE_HOME": home / ".local" / "state",
        "XDG_CACHE_HOME": home / ".cache",
        "TUI_AGENT_HOME": home / "tui-agent",
    }.items():
        monkeypatch.setenv(name, str(folder))
    # Where one is installed it would be started for every Python file; tests that want one say so with a flag.
    monkeypatch.setenv("TUI_AGENT_LANGUAGE_SERVERS_ON", "false")
    # A request after the run would be one that no script foresees; tests that want it say so with a flag.
    monkeypatch.setenv("TUI_AGENT_TITLES", "false")
    monkeypatch.setenv("TUI_AGENT_CALIBRATE", "false")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("tui_agent.__version__", "0.0.0-test")
    if request.path.parent.name != "models":  # nobody waits for a server to recover
        monkeypatch.setattr("tui_agent.models.faults.FIRST_DELAY", 0.02)


@pytest.fixture(autouse=True, scope="session")
def _headless() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        headless.apply(patch)
        yield


@pytest.fixture(autouse=True)
def _still_screen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not {"tui", "widgets"} & set(request.path.relative_to(ROOT / "tests").parts):
        return
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setattr("textual.widgets.Input._toggle_cursor", lambda self: None)
    monkeypatch.setattr("textual.widgets.TextArea._toggle_cursor_blink_visible", lambda self: None)
    if "snap_compare" in request.fixturenames:
        # Shown in one piece: what a first piece had to show is measured and the rest is guessed, so that on a busy
        # machine the scroll bar would be another one.
        monkeypatch.setattr("tui_agent.tui.app.MAX_BUSY_SECONDS", math.inf)
    elif request.node.get_closest_marker("paints") is None:
        headless.leave_unpainted(monkeypatch)


gc.set_threshold(50_000, 20, 50)  # the cycles of hundreds of screens: looking for them took a quarter of all time


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """`-n auto` starts two workers for each core: half of its time a test waits for a process, a terminal or a browser."""
    return 2 * (yield)


def pytest_collection_finish() -> None:
    _keep_all()


def _keep_all() -> None:
    """What is alive now stays to the end, so the collector looks at it no more."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """What a test left open is found and warned of here, where it is the test's own fault, and not when the collector
    happens to run. Only tests with an event loop leave anything that lives in a cycle. What is alive even then is not
    looked at again: to do so was most of the work."""
    try:
        return (yield)
    finally:
        is_async = inspect.iscoroutinefunction(getattr(item, "obj", None))
        if is_async or files_open() > item.stash.setdefault(FILES_OPEN, 0):
            _keep_all()
        collect_unraisable(item.config)  # pytest has looked before, and would report it with the next test
        assert files_open() < item.stash.setdefault(FILES_OPEN, 0) + MANY, "it left open what it opened"


FILES_OPEN = pytest.StashKey[int]()
MANY = 100
"""More than servers and browsers open that are there for all tests."""


def files_open() -> int:
    """Files, pipes and sockets that this process holds; 0 where the system does not say."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # long ones first: no worker ends alone


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[FILES_OPEN] = files_open()
    for mark in item.iter_markers("needs"):
        missing = [program for program in mark.args if shutil.which(program) is None]
        if missing:
            say = pytest.fail if os.environ.get("TUI_AGENT_CI") == "1" else pytest.skip
            say(f"needs {', '.join(missing)}")
