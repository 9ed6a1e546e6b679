"""The structure of the code: imports, sizes of packages, unique names, and the paths of the architecture page."""

from __future__ import annotations

import ast
import graphlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
NAMED = re.compile(r"`([\w/]+\.py): ([\w.]+)`")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text("utf-8"))
    for folder in ("tui_agent", "widgets")
    for path in (ROOT / folder).rglob("*.py")
    if "_lib" not in path.parts
}
ENGINE_PACKAGES, PACKAGE_FILES = 8, 14
SINGLE_IMPORTERS = 60
"""Modules that only one other module imports, other than the package that re-exports them: more of them would mean files
that were split without need."""


def imported(nodes: Iterable[ast.AST], module: str) -> Iterator[str]:
    """Yield the modules of the product that these nodes import, except the module itself."""
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [path if path in MODULES else node.module or "" for path in paths]
        yield from (name for name in names if name in MODULES and name != module)


def test_no_import_cycles_even_for_type_checking_or_inside_functions() -> None:
    graph = {module: set(imported(ast.walk(tree), module)) for module, tree in MODULES.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the cycle


def test_engine_packages_are_few_and_small() -> None:
    engine = ROOT / "tui_agent" / "engine"
    sizes = {path.parent.name: len(list(path.parent.glob("*.py"))) for path in engine.glob("*/__init__.py")}
    assert len(sizes) <= ENGINE_PACKAGES
    assert max(sizes.values()) <= PACKAGE_FILES


def test_few_modules_have_a_single_importer() -> None:
    importers = defaultdict(set)
    for module, tree in MODULES.items():
        for name in imported(tree.body, module):
            importers[name].add(module)
    single = [
        name for name, modules in importers.items() if len(modules) == 1 and name.rpartition(".")[0] not in modules
    ]
    assert len(single) <= SINGLE_IMPORTERS


def test_public_classes_and_functions_have_unique_names() -> None:
    owners = defaultdict(set)
    for module, tree in MODULES.items():
        for node in tree.body:
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
                owners[node.name].add(module)
    assert {name: modules for name, modules in owners.items() if len(modules) > 1} == {}


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
