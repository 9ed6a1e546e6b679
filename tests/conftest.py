"""Fixtures and hooks of all tests: a fixed environment, the location of snapshots, and checks for external programs."""

from __future__ import annotations

import gc
import importlib.util
import inspect
import math
import os
import re
import shutil
import signal
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

# No deadline, since the duration of an example depends on the load. Examples are the same in every run, so that a failure
# comes from the change under test; TUI_AGENT_EXPLORE=1 generates new ones.
settings.register_profile(
    "ours",
    deadline=None,
    max_examples=int(os.environ.get("TUI_AGENT_EXAMPLES", "25")),
    derandomize=os.environ.get("TUI_AGENT_EXPLORE") != "1",
    suppress_health_check=(HealthCheck.too_slow,),
)
settings.load_profile("ours")

ROOT = Path(__file__).resolve().parents[1]

# Hundreds of child processes import the program; with bytecode files it starts in half the time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Background jobs and nohup start with these signals ignored, which child processes would inherit.
for _number, _default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _default)

_NAMED = re.compile(r"terminal-\d+")


class TopLevelSVG(plugin.SVGImageExtension):  # type: ignore[misc]  # the plugin has no types
    """Stores the snapshots of `tests/<folders>/<module>.py` in `snapshots/<folders>/<module>/`."""

    @classmethod
    def dirname(cls, *, test_location):
        inside = Path(test_location.filepath).resolve().relative_to(ROOT / "tests").with_suffix("")
        return str(ROOT / "snapshots" / inside)

    def matches(self, *, serialized_data, snapshot_data):
        """Compare without the generated class names, whose length affects where lines of the SVG are split."""
        return _NAMED.sub("", serialized_data) == _NAMED.sub("", snapshot_data)


plugin.SVGImageExtension = TopLevelSVG


@pytest.fixture(scope="session")
def _shelf(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Return a function that creates folders; pytest's own lists all earlier folders to number the next one."""
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
def _fixed_environment(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _shelf: Callable[[], Path]
) -> None:
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
    # An installed language server would start for every Python file; tests that need one enable it with a flag.
    monkeypatch.setenv("TUI_AGENT_LANGUAGE_SERVERS_ON", "false")
    # Scripted models don't expect the request for a title; tests of titles enable it with a flag.
    monkeypatch.setenv("TUI_AGENT_TITLES", "false")
    monkeypatch.setenv("TUI_AGENT_CALIBRATE", "false")
    # What listens on this machine is not part of a test.
    monkeypatch.setenv("TUI_AGENT_FIND_SERVERS", "false")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("tui_agent.__version__", "0.0.0-test")
    if request.path.parent.name != "models":  # retry at once
        monkeypatch.setattr("tui_agent.models.faults.FIRST_DELAY", 0.02)


@pytest.fixture(autouse=True, scope="session")
def _headless() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        headless.apply(patch)
        yield


@pytest.fixture(autouse=True)
def _static_screen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not {"tui", "widgets"} & set(request.path.relative_to(ROOT / "tests").parts):
        return
    monkeypatch.setattr("textual.constants.TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setattr("textual.widgets.Input._toggle_cursor", lambda self: None)
    monkeypatch.setattr("textual.widgets.TextArea._toggle_cursor_blink_visible", lambda self: None)
    if "snap_compare" in request.fixturenames:
        # Load the transcript at once: with only its end loaded, the height of the rest is an estimate, which would change
        # the scroll bar on a busy machine.
        monkeypatch.setattr("tui_agent.tui.app.MAX_BUSY_SECONDS", math.inf)
    elif request.node.get_closest_marker("paints") is None:
        headless.leave_unpainted(monkeypatch)


gc.set_threshold(50_000, 20, 50)  # collecting the cycles of hundreds of screens took a quarter of the time


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Start two workers per core with `-n auto`: tests wait half of their time for processes, terminals or a browser."""
    return 2 * (yield)


def pytest_collection_finish() -> None:
    _freeze_objects()


def _freeze_objects() -> None:
    """Collect garbage and exclude all remaining objects from later collections."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Report what a test leaves open with that test, not with whichever test runs when the collector does.

    Only tests with an event loop leave resources in reference cycles, so garbage is collected after these, and after
    tests that leave more files open than before. Surviving objects are frozen, since scanning them took most of the time.
    """
    try:
        return (yield)
    finally:
        is_async = inspect.iscoroutinefunction(getattr(item, "obj", None))
        if is_async or files_open() > item.stash.setdefault(FILES_OPEN, 0):
            _freeze_objects()
        collect_unraisable(item.config)  # pytest has collected earlier, and would report it with the next test
        assert files_open() < item.stash.setdefault(FILES_OPEN, 0) + MAX_LEFT_OPEN, "the test left files open"


FILES_OPEN = pytest.StashKey[int]()
MAX_LEFT_OPEN = 100
"""More files than shared servers and browsers open."""


def files_open() -> int:
    """Return how many files, pipes and sockets this process has open; 0 if the system does not report it."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # slow ones first: no worker is left alone


def is_available(program: str) -> bool:
    """Whether a program that a test needs is installed; `xllamacpp` is a package, or in the folder of TUI_AGENT_TEST_ENGINE."""
    if program == "xllamacpp":
        return bool(os.environ.get("TUI_AGENT_TEST_ENGINE")) or importlib.util.find_spec(program) is not None
    return shutil.which(program) is not None


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[FILES_OPEN] = files_open()
    for mark in item.iter_markers("needs"):
        missing = [program for program in mark.args if not is_available(program)]
        if missing:
            fail_or_skip = pytest.fail if os.environ.get("TUI_AGENT_CI") == "1" else pytest.skip
            fail_or_skip(f"needs {', '.join(missing)}")
