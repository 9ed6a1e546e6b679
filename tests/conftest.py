"""What holds for all tests: a still and empty world, snapshots in their folder, outside programs by name."""

from __future__ import annotations

import gc
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
import pytest_textual_snapshot as plugin
from hypothesis import HealthCheck, settings
from textual.css.stylesheet import Stylesheet

# How long an example takes says how busy the machine is. The same examples in every run: a failure is the change's, not
# luck's; TUI_AGENT_EXPLORE=1 looks for others.
settings.register_profile(
    "ours",
    deadline=None,
    max_examples=50,
    derandomize=os.environ.get("TUI_AGENT_EXPLORE") != "1",
    suppress_health_check=(HealthCheck.too_slow,),
)
settings.load_profile("ours")

ROOT = Path(__file__).resolve().parents[1]


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
def _still_world(monkeypatch: pytest.MonkeyPatch, _shelf: Callable[[], Path]) -> None:
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


@pytest.fixture(autouse=True, scope="session")
def _parsed_once() -> Iterator[None]:
    """Hundreds of apps are made of the same style sheets, and reading those is a fifth of making one: what Textual
    parsed for one app serves the next. Rules are only read once they are parsed; errors are never kept."""
    parse = Stylesheet._parse_rules
    known: dict[object, object] = {}

    def parsed(self, css, read_from, is_default_rules=False, tie_breaker=0, scope=""):
        variables = tuple(sorted(self._variables.items()))
        key = (css, read_from, is_default_rules, tie_breaker, scope, variables)
        if key not in known:
            known[key] = parse(self, css, read_from, is_default_rules, tie_breaker, scope)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parsed)
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
        monkeypatch.setattr("tui_agent.tui.app.BREATH", math.inf)


gc.set_threshold(
    50_000, 20, 50
)  # the cycles of hundreds of screens: looking for them took a quarter of all time


def pytest_collection_finish() -> None:
    """What the modules hold stays to the end, so nobody looks through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(
        key=lambda item: item.get_closest_marker("slow") is None
    )  # long ones first: no worker ends alone


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        missing = [program for program in mark.args if shutil.which(program) is None]
        if missing:
            say = pytest.fail if os.environ.get("TUI_AGENT_CI") == "1" else pytest.skip
            say(f"needs {', '.join(missing)}")
