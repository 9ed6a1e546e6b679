from __future__ import annotations

import re
from pathlib import Path

import pytest

from tui_agent.text.patterns import Patterns

ROOT = Path(__file__).parent.parent / "tui_agent"
_SECTION = re.compile(r'^(_\w+) = Patterns\("([\w.]+)", "(\w+)"\)', re.MULTILINE)
MODULES = [path for path in sorted(ROOT.rglob("*.py")) if _SECTION.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_pattern_that_a_module_uses_is_in_its_file_and_compiles(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for variable, package, section in _SECTION.findall(text):
        patterns = Patterns(package, section)
        used = set(re.findall(rf"(?<!\w){variable}\.(\w+)\b(?!\()", text))
        assert used | set(re.findall(rf"{variable}\.(?:words|source)\(", text)), f"{variable} is not used"
        for name in used:
            assert isinstance(getattr(patterns, name), re.Pattern)
        for name in re.findall(rf"{variable}\.words\([\"'](\w+)", text):
            assert patterns.words(name)
        for name in re.findall(rf"{variable}\.source\([\"'](\w+)", text):
            re.compile(patterns.source(name))


def test_an_unknown_pattern_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"request\.nothing_like_this"):
        _ = Patterns("tui_agent.engine.checks", "request").nothing_like_this
