from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tui_agent import events
from tui_agent.__main__ import APART, FACES
from tui_agent.commands.reliability import STRATEGIES
from tui_agent.events import TABLE, from_data, to_data
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
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SMALLER = {"tui_agent/tui/app.py": 300}
HEADLESS_FORBIDDEN = ("textual", "rich", "widgets")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_files_functions_and_classes_stay_small_and_say_what_they_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= SMALLER.get(name_of(path), FILE_LINES)
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            assert (node.end_lineno or node.lineno) - node.lineno < FUNCTION_LINES, node.name
        elif isinstance(node, ast.ClassDef):
            public = [item for item in node.body if isinstance(item, FUNCTIONS) and item.name[0] != "_"]
            assert len(public) <= 20, node.name


@pytest.mark.parametrize(
    "module",
    [
        "tui_agent.frontends.headless",
        "tui_agent.engine.opening",
        "tui_agent.mock_server.app",
        "tui_agent.__main__",
    ],
)
def test_faceless_parts_never_load_the_screen(module: str) -> None:
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded.isdisjoint(HEADLESS_FORBIDDEN)


@pytest.mark.parametrize(
    "folder", ["engine", "frontends", "models", "storage", "shell", "safety", "tools", "platform"]
)
def test_tests_of_faceless_parts_need_no_screen(folder: str) -> None:
    files = sorted((ROOT / "tests" / folder).glob("test_*.py"))
    assert files
    modules = ", ".join(f"tests.{folder}.{path.stem}" for path in files)
    code = f"import sys, json, {modules}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded.isdisjoint(HEADLESS_FORBIDDEN)


@pytest.mark.parametrize("command", ["", "exec", *APART, *FACES])
def test_the_command_line_loads_no_engine_for_help(command: str) -> None:
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
    assert not heavy.intersection(loaded)


def test_the_ways_to_ask_for_a_call_are_those_there_are() -> None:
    assert get_args(Protocol) == STRATEGIES


def test_the_engine_knows_no_demonstration() -> None:
    for path in (ROOT / "tui_agent" / "engine").rglob("*"):
        if path.suffix in (".py", ".md"):
            assert "demo" not in path.read_text(encoding="utf-8").lower(), path


def test_house_rules_stay_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_committed_files_name_no_registry() -> None:
    for name in ("constraints.txt", "pyproject.toml", "README.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "index-url" not in text
        assert "files.pythonhosted" not in text


def test_every_event_has_a_name_of_its_own_and_is_frozen() -> None:
    classes = [cls for cls in events.Event.__subclasses__() if cls is not events.Unknown]
    assert len(TABLE) == len(classes)
    for name, cls in TABLE.items():
        assert cls.type == name
        assert all(name.split("."))
        assert cls.__struct_config__.frozen


def test_an_unknown_event_keeps_its_data() -> None:
    event = from_data("moon.rose", {"phase": "full"})
    assert isinstance(event, events.Unknown)
    assert to_data(event) == {"phase": "full"}


def test_a_newer_version_is_not_guessed_at() -> None:
    assert isinstance(from_data("session.closed", {"reason": "x"}, version=99), events.Unknown)


def test_a_known_event_with_a_field_of_the_future_is_read() -> None:
    assert from_data("session.closed", {"reason": "x", "mood": "good"}) == events.SessionClosed(reason="x")


def test_what_the_pages_show_and_point_to_is_there() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    named: set[Path] = set()
    for page in pages:
        links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        named |= {(page.parent / link).resolve() for link in links}
    assert [path for path in named if not path.is_file()] == []
    pictures = set((ROOT / "docs" / "screenshots").iterdir())
    assert pictures and pictures <= named
    assert set(pages) - {ROOT / "README.md"} <= named
