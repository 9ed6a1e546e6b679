from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from tests.scenes import from_data
from tui_agent import events
from tui_agent.commands.arguments import STRATEGIES, command_names
from tui_agent.events import TABLE, to_data
from tui_agent.protocols.parser import Protocol

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    path
    for folder in ("tui_agent", "widgets", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if "_lib" not in path.parts
)
FILE_LINES = 600
FUNCTION_LINES = 50
CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time"}
CLOCK_READERS = {
    "tests/waiting.py": "limits of waiting",
    "tests/tui/kit.py": "limits of waiting",
    "tests/doubles/terminal.py": "limits of waiting",
    "tests/faults/test_soak.py": "runs for a given time",
    "tests/mock_server/test_faults.py": "a delay takes at least the given time",
}
"""Test files that read a clock, and why."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SMALLER = {"tui_agent/tui/app.py": 300}
HEADLESS_FORBIDDEN = ("textual", "rich", "widgets")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def too_large(path: Path, text: str, tree: ast.Module) -> Iterator[str]:
    if text.count("\n") > SMALLER.get(name_of(path), FILE_LINES):
        yield "the file is too long"
    if not ast.get_docstring(tree):
        yield "the file has no docstring"
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_LINES:
            yield f"{node.name} is too long"
        elif isinstance(node, ast.ClassDef):
            public = [item for item in node.body if isinstance(item, FUNCTIONS) and item.name[0] != "_"]
            if len(public) > 20:
                yield f"{node.name} has too many public methods"


def test_files_functions_and_classes_are_small_and_documented() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES}
    wrong = {name_of(path): [*too_large(path, text, ast.parse(text))] for path, text in texts.items()}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_tests_read_no_clock() -> None:
    """Durations are measured in tests/benchmarks; all other tests wait with tests/waiting.py."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "benchmarks"]
    called = {
        name_of(path)
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        if (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) in CLOCKS
    }
    assert called - CLOCK_READERS.keys() == set()
    assert CLOCK_READERS.keys() - called == set()


@pytest.mark.parametrize(
    "module",
    ["tui_agent.frontends.headless", "tui_agent.engine.opening", "tui_agent.mock_server.app", "tui_agent.__main__"],
)
def test_headless_modules_do_not_load_the_ui(module: str) -> None:
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded.isdisjoint(HEADLESS_FORBIDDEN)


def test_tests_of_headless_packages_do_not_load_the_ui() -> None:
    folders = ("engine", "frontends", "models", "storage", "shell", "safety", "tools", "platform")
    files = [path for folder in folders for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))]
    assert {path.parent.name for path in files} == set(folders)
    modules = [f"tests.{path.parent.name}.{path.stem}" for path in files]
    code = (
        "import sys, json, importlib\n"
        f"for name in {modules!r}:\n    importlib.import_module(name)\n"
        f"    if bad := set(sys.modules) & set({HEADLESS_FORBIDDEN!r}):\n        print(name, bad); break\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT)
    assert done.stdout == b""


def test_the_command_line_loads_no_engine_for_help() -> None:
    assert {command: found for command in ["", *command_names()] if (found := heavy_for_help(command))} == {}


def heavy_for_help(command: str) -> set[str]:
    code = (
        "import sys, json\n"
        "from tui_agent.__main__ import main\n"
        "try:\n    main([*sys.argv[1:], '--help'])\nexcept SystemExit:\n    pass\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    words = [sys.executable, "-c", code, *filter(None, [command])]
    done = subprocess.run(words, capture_output=True, check=True, cwd=ROOT)
    assert f"usage: tui-agent {command}".strip() in done.stdout.decode()
    loaded = json.loads(done.stdout.splitlines()[-1])
    heavy = {
        "pydantic", "httpx", "msgspec", "yaml", "asyncio", "ssl", "readline", "starlette", "uvicorn", "textual",
        "tui_agent.engine", "tui_agent.settings",
    }  # fmt: skip
    return heavy.intersection(loaded)


def test_strategies_of_the_command_line_match_the_protocols() -> None:
    assert get_args(Protocol) == STRATEGIES


def test_the_engine_knows_no_demo() -> None:
    for path in (ROOT / "tui_agent" / "engine").rglob("*"):
        if path.suffix in (".py", ".md"):
            assert "demo" not in path.read_text(encoding="utf-8").lower(), path


def test_agents_md_is_short() -> None:
    lines = (ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()
    assert "## How to add" in lines and len(lines) <= 120


def test_committed_files_name_no_registry() -> None:
    for name in ("constraints.txt", "pyproject.toml", "README.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "index-url" not in text
        assert "files.pythonhosted" not in text


def test_every_event_has_a_name_of_its_own_and_is_frozen() -> None:
    classes = [cls for cls in events.Event.__subclasses__() if cls is not events.UnknownEvent]
    assert len(TABLE) == len(classes)
    for name, cls in TABLE.items():
        assert cls.type == name
        assert all(name.split("."))
        assert cls.__struct_config__.frozen


def test_an_unknown_event_keeps_its_data() -> None:
    event = from_data("moon.rose", {"phase": "full"})
    assert isinstance(event, events.UnknownEvent)
    assert to_data(event) == {"phase": "full"}


def test_a_newer_version_is_not_guessed_at() -> None:
    assert isinstance(from_data("session.closed", {"reason": "x"}, version=99), events.UnknownEvent)


def test_a_known_event_with_a_field_of_the_future_is_read() -> None:
    assert from_data("session.closed", {"reason": "x", "mood": "good"}) == events.SessionClosed(reason="x")


def test_links_and_images_of_the_documentation_exist() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    named: set[Path] = set()
    for page in pages:
        links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        named |= {(page.parent / link).resolve() for link in links}
    assert [path for path in named if not path.is_file()] == []
    pictures = set((ROOT / "docs" / "screenshots").iterdir())
    assert pictures and pictures <= named
    assert set(pages) - {ROOT / "README.md"} <= named
