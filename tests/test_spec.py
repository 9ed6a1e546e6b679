"""Every id of a requirement that code, tests and documentation cite is in docs/spec.md, and every row there is cited."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.faults.test_inventory import ROWS

COMMENT = re.compile(r"(?:^|\s)# .*")
ROOT = Path(__file__).parents[1]
SPEC = ROOT / "docs" / "spec.md"
CODE = ("tui_agent", "widgets", "tests", "benchmarks")
ID = re.compile(r"(?<![\w.@:/#-])(?:[A-Z]-?\d{1,2}(?:\.\d{1,2})?|[A-Z]{4,} [A-Z]?\d+(?:\.\d+)*)(?![\w-])")
NO_ID = re.compile(
    r"C0|F([1-9]|1[0-2])|L(?![1-5]$)\d+|V3(\.\d)?|HTTP \d+|UTF-\d+|OSC \d+|PEP \d+|F16|YAML [\d.]+|WCAG [\d.]+"
)
"""Control characters, function keys, line numbers, names of models and standards."""
OTHER_DOCUMENTS = re.compile(
    r"\b(?:FAULTS|DEMANDS|AESTHETICS|ECOSYSTEM|HOUSE|DESIGN)\b(?!\.md)(?! =)|\brule \d|\bseed \d{3}"
)


def rows() -> set[str]:
    return set(re.findall(r"^\| ([A-Z]-?\d+) \|", SPEC.read_text("utf-8"), re.MULTILINE))


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Comments and docstrings of a module, or all of a page, with line numbers."""
    text = path.read_text("utf-8")
    if not any(pattern.search(text) for pattern in (ID, OTHER_DOCUMENTS)):
        return  # nothing is cited: to parse every module takes longer than all that is looked for
    if path.suffix != ".py":
        yield 1, text
        return
    yield from (
        (number, found[0]) for number, line in enumerate(text.split("\n"), 1) if (found := COMMENT.search(line))
    )
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def pages() -> list[Path]:
    docs = [path for path in (ROOT / "docs").glob("*.md") if path != SPEC]
    return [*docs, ROOT / "README.md", ROOT / "AGENTS.md"]


@cache
def citations() -> list[tuple[str, str]]:
    files = [path for folder in CODE for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)]
    return [
        (found[0], f"{path.relative_to(ROOT)}:{line + text[: found.start()].count(chr(10))}")
        for path in [*files, *pages()]
        for line, text in prose(path)
        for pattern in (ID, OTHER_DOCUMENTS)
        for found in pattern.finditer(text)
        if not NO_ID.fullmatch(found[0])
    ]


def test_every_cited_id_is_in_the_specification() -> None:
    known = rows()
    assert [f"{where}: {cited}" for cited, where in citations() if cited not in known] == []


def test_every_row_of_the_specification_is_cited() -> None:
    assert rows() - {cited for cited, _ in citations()} == set()


def test_the_specification_lists_the_faults_that_tests_inject() -> None:
    assert re.findall(r"^\| ([a-i]\d\d) \|", SPEC.read_text("utf-8"), re.MULTILINE) == ROWS
