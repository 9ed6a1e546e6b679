"""The architecture page: every function that its paths name exists, and their hop counts are right."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
NAMED = re.compile(r"`([\w/]+\.py): ([\w.]+)`")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def defined(path: Path) -> set[str]:
    """Functions of a module, and methods as `Class.method`; none where there is no such file."""
    names: set[str] = set()
    if not path.is_file():
        return names
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, FUNCTIONS):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, FUNCTIONS)}
    return names


def test_every_function_of_the_page_exists() -> None:
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 60
    missing = [f"{path}: {name}" for path, name in named if name not in defined(ROOT / path)]
    assert not missing


def test_each_path_has_as_many_hops_as_it_says() -> None:
    paths = PAGE.read_text(encoding="utf-8").split("## Four paths")[1].split("\n### ")[1:]
    assert len(paths) == 4
    for path in paths:
        numbers = [int(number) for number in re.findall(r"^(\d+)\. `", path, re.MULTILINE)]
        said = re.search(r"\*\*(\d+) hops\*\*", path)
        assert numbers == list(range(1, len(numbers) + 1))
        assert said is not None and int(said[1]) == len(numbers)
