from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.doubles.fake_tool_context import FakeToolContext
from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.engine.host.code_intelligence import CodeIntelligence
from tui_agent.safety.roots import Roots
from tui_agent.settings import Settings
from tui_agent.tools.base import ToolError
from tui_agent.tools.registry import default_tools

PYTHON = {
    "shapes.py": '''"""Shapes with an area."""


class Shape:
    """Something flat."""

    def area(self) -> float:
        """How much it covers."""
        raise NotImplementedError


class Square(Shape):
    def __init__(self, side: float) -> None:
        self.side = side

    def area(self) -> float:
        return self.side * self.side


class Tile(
    Square,
):
    pass
''',
    "main.py": '''from shapes import Shape, Square


def total(shapes: list[Shape]) -> float:
    """Adds areas up."""
    return sum(shape.area() for shape in shapes)


def main() -> None:
    print("😀", total([Square(2)]), total([]))
''',
    "bad.py": "from shapes import Square\n\nnumber: int = '😀' + Square(2).sides\n",
}
TYPESCRIPT = {
    "tsconfig.json": '{"compilerOptions": {"strict": true, "target": "es2022", "module": "esnext", '
    '"moduleResolution": "bundler"}, "include": ["*.ts"]}',
    "shapes.ts": """export interface Shape {
  /** How much it covers. */
  area(): number;
}

export class Square implements Shape {
  constructor(readonly side: number) {}

  area(): number {
    return this.side * this.side;
  }
}

export class Tile extends Square {}
""",
    "main.ts": """import { Shape, Square } from "./shapes";

/** Adds areas up. */
export function total(shapes: Shape[]): number {
  return shapes.reduce((sum, shape) => sum + shape.area(), 0);
}

export function main(): void {
  console.log("😀", total([new Square(2)]), total([]));
}
""",
    "bad.ts": 'import { Square } from "./shapes";\n\nexport const number: number = "😀" + new Square(2).sides;\n',
}


class Project:
    """A project whose files are asked about as a model does: by tool and loose arguments."""

    def __init__(self, root: Path, files: dict[str, str]) -> None:
        self.root = root.resolve()
        for name, text in files.items():
            (self.root / name).write_text(text, encoding="utf-8")
        self.code = CodeIntelligence(Settings(), Roots((self.root,)), lambda notice: None, allowed=lambda: True)
        self.ctx = FakeToolContext(self.root)
        self.ctx.code = self.code

    async def ask(self, tool: str, /, **arguments: object) -> str:
        parsed = default_tools(code=True).parse(ToolCall(id="1", name=tool, arguments=dict(arguments)))
        assert not isinstance(parsed, ToolResult), parsed.error
        result = await parsed[0].run(parsed[1], self.ctx)
        assert result.success
        assert isinstance(result.data, str)
        return result.data


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def python(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Project]:
    project = Project(tmp_path_factory.mktemp("python"), PYTHON)
    yield project
    await project.code.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def typescript(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Project]:
    project = Project(tmp_path_factory.mktemp("typescript"), TYPESCRIPT)
    yield project
    await project.code.close()


@pytest.mark.needs("basedpyright-langserver")
@pytest.mark.asyncio(loop_scope="module")
class TestPython:
    async def test_outline(self, python: Project) -> None:
        told = await python.ask("get_document_symbols", path="shapes.py")
        assert told.startswith("── shapes.py ──\n4-9: class Shape\n  7-9: method area")
        assert "\n12-17: class Square\n" in told
        assert "\n20-23: class Tile" in told

    async def test_definition_of_a_name_behind_an_astral_character(self, python: Project) -> None:
        told = await python.ask("find_definition", path="main.py", symbol="Square", line=10)
        assert told == "── shapes.py ──\n→ 12: class Square(Shape):"
        told = await python.ask("find_definition", path="main.py", symbol="total", line=10)
        assert told == "── main.py ──\n→ 4: def total(shapes: list[Shape]) -> float:"

    async def test_references(self, python: Project) -> None:
        told = await python.ask("find_references", path="shapes.py", symbol="Square")
        head, *lines = told.split("\n")
        assert head == "6 references to Square in 3 files"
        assert "── main.py ──" in lines
        assert "→ 12: class Square(Shape):" in lines
        assert any(line.startswith("→ 10: ") and "Square(2)" in line for line in lines)

    async def test_implementations(self, python: Project) -> None:
        told = await python.ask("find_implementations", path="shapes.py", symbol="Shape.area")
        assert "→ 16: def area(self) -> float:" in told
        told = await python.ask("find_implementations", path="shapes.py", symbol="Shape")
        assert "→ 12: class Square(Shape):" in told

    async def test_symbol(self, python: Project) -> None:
        told = await python.ask("find_symbol", name="Square")
        assert told == "── shapes.py ──\n→ 12: class Square"
        assert "No symbol is called Zylinder" in await python.ask("find_symbol", query="Zylinder")

    async def test_hover(self, python: Project) -> None:
        told = await python.ask("get_hover_info", path="main.py", symbol="total", line=10)
        assert "(function) def total(shapes: list[Shape]) -> float" in told
        assert "Adds areas up." in told

    async def test_call_hierarchy(self, python: Project) -> None:
        told = await python.ask("get_call_hierarchy", path="main.py", symbol="total")
        assert told.startswith(
            "function total · main.py:4\nCalled by: 1\n  function main · main.py:9\n    → 10: print("
        )
        assert "  method area · shapes.py:7\n    → 6: return sum(shape.area() for shape in shapes)" in told
        told = await python.ask("get_call_hierarchy", path="main.py", symbol="total", direction="incoming")
        assert "Calls" not in told

    async def test_type_hierarchy(self, python: Project) -> None:
        told = await python.ask("get_type_hierarchy", path="main.py", symbol="Square")
        assert told == (
            "class Square · shapes.py:12\nSupertypes: 1\n  class Shape · shapes.py:4\n"
            "Subtypes: 1\n  class Tile · shapes.py:20"
        )
        assert "is no class" in await python.ask("get_type_hierarchy", path="main.py", symbol="total")

    async def test_diagnostics(self, python: Project) -> None:
        told = await python.ask("get_diagnostics", path="bad.py")
        assert told.startswith("bad.py: ")
        assert "error" in told.split("\n")[0]
        assert "→ 3: error: " in told
        assert '"sides"' in told
        (python.root / "bad.py").write_text("number = 1\n")
        assert await python.ask("get_diagnostics", path="bad.py") == "bad.py: no errors or warnings."

    async def test_a_file_that_is_written_meanwhile_is_known(self, python: Project) -> None:
        (python.root / "later.py").write_text("from shapes import Square\n\nbig = Square(9)\n")
        told = await python.ask("find_references", path="shapes.py", symbol="Square")
        assert "── later.py ──" in told
        assert "→ 3: big = Square(9)" in told
        (python.root / "later.py").unlink()
        assert "later.py" not in await python.ask("find_references", path="shapes.py", symbol="Square")


@pytest.mark.needs("tsc")
@pytest.mark.asyncio(loop_scope="module")
class TestTypeScript:
    async def test_outline(self, typescript: Project) -> None:
        told = await typescript.ask("get_document_symbols", path="shapes.ts")
        assert told.startswith("── shapes.ts ──\n1-4: interface Shape\n")
        assert "\n6-12: class Square\n" in told
        assert "  9-11: method area\n" in told

    async def test_definition_of_a_name_behind_an_astral_character(self, typescript: Project) -> None:
        told = await typescript.ask("find_definition", path="main.ts", symbol="total", line=9)
        assert told == "── main.ts ──\n→ 4: export function total(shapes: Shape[]): number {"
        told = await typescript.ask("find_definition", path="main.ts", symbol="Square", line=9)
        assert "→ 6: export class Square implements Shape {" in told

    async def test_references(self, typescript: Project) -> None:
        told = await typescript.ask("find_references", path="shapes.ts", symbol="Square")
        assert "→ 6: export class Square implements Shape {" in told
        assert "→ 14: export class Tile extends Square {}" in told
        assert "── main.ts ──" in told

    async def test_implementations(self, typescript: Project) -> None:
        told = await typescript.ask("find_implementations", path="shapes.ts", symbol="Shape")
        assert "→ 6: export class Square implements Shape {" in told
        told = await typescript.ask("find_implementations", path="shapes.ts", symbol="area", line=3)
        assert "→ 9: area(): number {" in told

    async def test_symbol(self, typescript: Project) -> None:
        assert "→ 6: class Square" in await typescript.ask("find_symbol", name="Square")

    async def test_hover(self, typescript: Project) -> None:
        told = await typescript.ask("get_hover_info", path="main.ts", symbol="total", line=9)
        assert "function total(shapes: Shape[]): number" in told
        assert "Adds areas up." in told

    async def test_call_hierarchy(self, typescript: Project) -> None:
        told = await typescript.ask("get_call_hierarchy", path="main.ts", symbol="total")
        assert told.startswith(
            "function total · main.ts:4\nCalled by: 1\n  function main · main.ts:8\n    → 9: console"
        )
        assert "  method area · shapes.ts:3\n    → 5: return shapes.reduce(" in told

    async def test_type_hierarchy(self, typescript: Project) -> None:
        told = await typescript.ask("get_type_hierarchy", path="main.ts", symbol="Square")
        assert told == (
            "class Square · shapes.ts:6\nSupertypes: 1\n  interface Shape · shapes.ts:1\n"
            "Subtypes: 1\n  class Tile · shapes.ts:14"
        )

    async def test_diagnostics(self, typescript: Project) -> None:
        told = await typescript.ask("get_diagnostics", path="bad.ts")
        assert told.startswith("bad.ts: ")
        assert "→ 3: error: " in told
        assert "'sides'" in told
        (typescript.root / "bad.ts").write_text("export const number = 1;\n")
        assert await typescript.ask("get_diagnostics", path="bad.ts") == "bad.ts: no errors or warnings."


@pytest.mark.needs("basedpyright-langserver")
@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_not_there_is_told_as_an_error(python: Project) -> None:
    for arguments, said in (
        ({"path": "none.py", "symbol": "x"}, "does not exist"),
        ({"path": "main.py", "symbol": "nobody"}, "does not occur in main.py"),
        ({"path": "main.py", "line": 999}, "main.py has 11 lines"),
        ({"path": "main.py"}, "Give symbol"),
    ):
        with pytest.raises(ToolError, match=said):
            await python.ask("find_definition", **arguments)
