from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.fake_code import FakeCode
from tests.doubles.fake_tool_context import FakeToolContext
from tui_agent.common.domain import Mode, ToolCall, ToolResult
from tui_agent.common.symbols import (
    Diagnostic,
    Hierarchy,
    HierarchyLink,
    LocationKind,
    SourceLocation,
    SourcePosition,
    Symbol,
    Unavailable,
)
from tui_agent.tools import code_tools
from tui_agent.tools.code_tools import positions_of
from tui_agent.tools.registry import default_tools

QUESTIONS = {
    "get_diagnostics": {"path": "a.py"},
    "get_document_symbols": {"path": "a.py"},
    "find_definition": {"path": "a.py", "symbol": "x"},
    "find_references": {"path": "a.py", "symbol": "x"},
    "find_implementations": {"path": "a.py", "symbol": "x"},
    "find_symbol": {"name": "x"},
    "get_hover_info": {"path": "a.py", "symbol": "x"},
    "get_call_hierarchy": {"path": "a.py", "symbol": "x"},
    "get_type_hierarchy": {"path": "a.py", "symbol": "x"},
}


@pytest.fixture
def ctx(ctx: FakeToolContext) -> FakeToolContext:
    (ctx.roots[0] / "a.py").write_text("x = 1\n# x again\ny = x\n")
    return ctx


async def ask(ctx: FakeToolContext, tool: str, /, **arguments: Any) -> ToolResult:
    parsed = default_tools(code=True).parse(ToolCall(id="1", name=tool, arguments=arguments))
    assert not isinstance(parsed, ToolResult), parsed.error
    return await parsed[0].run(parsed[1], ctx)


def place(ctx: FakeToolContext, line: int, name: str = "a.py") -> SourceLocation:
    return SourceLocation(path=str(ctx.roots[0] / name), line=line, end_line=line)


def symbol(ctx: FakeToolContext, name: str, line: int, kind: str = "function") -> Symbol:
    return Symbol(name=name, kind=kind, location=place(ctx, line))


@pytest.mark.parametrize("tool", QUESTIONS)
async def test_without_a_server_the_result_says_what_to_do_instead(ctx: FakeToolContext, tool: str) -> None:
    result = await ask(ctx, tool, **QUESTIONS[tool])
    assert result.success
    assert result.data.startswith("Not available: no language server is installed. Use ")
    assert result.data.endswith(" instead.")


def test_they_are_offered_in_all_modes_and_only_with_code() -> None:
    plain, more = default_tools(), default_tools(code=True)
    assert set(more.names) - set(plain.names) == set(QUESTIONS)
    assert set(more.names) >= set(more.for_mode(Mode.REVIEW).names) >= set(QUESTIONS)
    assert set(QUESTIONS) <= set(more.read_only().names)
    assert not set(default_tools(["find_symbol"], code=True).names) & {"find_symbol"}
    found = more.find("goToDefinition")
    assert found is not None
    assert found.name == "find_definition"


async def test_positions_of_a_name_are_tried_until_one_has_an_answer(ctx: FakeToolContext) -> None:
    ctx.code = code = FakeCode(definitions=lambda position: (place(ctx, 1),) if position.line == 3 else ())
    result = await ask(ctx, "find_definition", path="a.py", symbolName="x", line=2)
    assert result.data == "── a.py ──\n→ 1: x = 1"
    assert [position for _, position in code.asked] == [
        SourcePosition(line=2, column=2), SourcePosition(line=1, column=0), SourcePosition(line=3, column=4)
    ]  # fmt: skip
    ctx.code = FakeCode(definitions=())
    result = await ask(ctx, "find_definition", path="a.py", symbol="x")
    assert result.data == "No definition of x was found."


async def test_the_positions_of_a_name_share_a_timeout(ctx: FakeToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeCode):
        async def locations(
            self, kind: LocationKind, path: Path, position: SourcePosition
        ) -> tuple[SourceLocation, ...] | Unavailable:
            self.asked.append(("definitions", position))
            if len(self.asked) == 2:
                await asyncio.Event().wait()
            return ()

    monkeypatch.setattr(code_tools, "TIME_LIMIT", 0.2)
    ctx.code = slow = Slow()
    async with asyncio.timeout(60):
        result = await ask(ctx, "find_definition", path="a.py", symbol="x")
    assert len(slow.asked) == 2
    assert result.data.startswith("Not available: the language server took longer than 0.2 s.")


async def test_references_are_capped_and_grouped(ctx: FakeToolContext) -> None:
    (ctx.roots[0] / "b.py").write_text("line\n" * 100)
    found = [place(ctx, line, name) for line in range(40, 0, -1) for name in ("b.py", "a.py")]
    ctx.code = FakeCode(references=tuple(found))
    head, *lines = (await ask(ctx, "find_references", path="a.py", symbol="x")).data.split("\n")
    assert head == "80 references to x in 2 files"
    assert lines[0] == "── b.py ──"
    assert lines[1] == "→ 26: line"
    assert sum(line.startswith("→") for line in lines) == 30
    assert lines[-1] == "[30 of 80 places in 2 files shown]"


async def test_lines_outside_or_with_credentials_are_not_shown(ctx: FakeToolContext) -> None:
    root = ctx.roots[0]
    (root / "keys.py").write_text("KEY = 'abc'\n")
    ctx.credentials = {"keys.py"}
    outside = root.parent / "outside.py"
    outside.write_text("hidden = 1\n")
    ctx.code = FakeCode(references=(place(ctx, 1, "keys.py"), SourceLocation(path=str(outside), line=1)))
    data = (await ask(ctx, "find_references", path="a.py", symbol="x")).data
    assert "── keys.py ──\n→ 1:\n" in data
    assert data.endswith(f"── {outside} ──\n→ 1:")
    assert not ctx.actions  # nobody was asked for that
    await ask(ctx, "get_diagnostics", path="keys.py")
    assert len(ctx.actions) == 1  # but for the file itself


async def test_hierarchies_tell_both_sides(ctx: FakeToolContext) -> None:
    family = Hierarchy(
        symbol=symbol(ctx, "f", 1), incoming=(HierarchyLink(symbol=symbol(ctx, "g", 3), lines=(3,)),), outgoing=()
    )
    ctx.code = FakeCode(calls=family, types=lambda position: None)
    answer = (await ask(ctx, "get_call_hierarchy", path="a.py", symbol="x")).data
    assert answer == "function f · a.py:1\nCalled by: 1\n  function g · a.py:3\n    → 3: y = x\nCalls: none"
    assert (await ask(ctx, "get_type_hierarchy", path="a.py", symbol="x")).data == ("x is no class or interface there.")


async def test_diagnostics_are_counted_errors_first(ctx: FakeToolContext) -> None:
    found = (
        Diagnostic(kind="warning", line=1, message="hm"),
        Diagnostic(kind="error", line=3, message="not\n  defined", code="E1"),
    )
    ctx.code = FakeCode(diagnostics=found)
    answer = (await ask(ctx, "get_diagnostics", path="a.py")).data
    assert answer == "a.py: 1 error, 1 warning\n→ 3: error: not defined [E1]\n→ 1: warning: hm"


async def test_symbols_of_a_name_with_what_holds_them(ctx: FakeToolContext) -> None:
    found = (Symbol(name="run", kind="method", location=place(ctx, 3), container="Job"),)
    ctx.code = FakeCode(symbols=found, hover="", outline=())
    assert (await ask(ctx, "find_symbol", query="run")).data == "── a.py ──\n→ 3: method run in Job"
    assert (await ask(ctx, "get_hover_info", path="a.py", line=3)).data == "Nothing is known of y there."
    assert (await ask(ctx, "get_document_symbols", path="a.py")).data == "a.py holds no symbols."


async def test_errors_after_a_write_are_part_of_its_result(ctx: FakeToolContext) -> None:
    ctx.errors = "[Diagnostics] 1 error in n.py:\n→ 1: error (new): bad"
    made = await ask(ctx, "write_file", path="n.py", content="bad\n")
    assert made.data == f"Created n.py (+1 -0)\n{ctx.errors}"
    edited = await ask(ctx, "edit_file", path="n.py", old_string="bad", new_string="worse")
    assert edited.success
    assert edited.data.endswith(ctx.errors)


SOURCE = [
    "# run comes first",
    "job.run()",
    "class Job:",
    "    def run(self):  # run",
    "        return rerun, run_all, running",
    "class Other:",
    "    async def run(self): ...",
    "const run = () => 1",
]


@pytest.mark.parametrize(
    ("name", "line", "first"),
    [
        ("run", None, (4, 8)),
        ("run", 1, (1, 2)),
        ("run", 2, (2, 4)),
        ("run", 5, (4, 8)),
        ("run()", 8, (8, 6)),
        ("Job.run", None, (4, 8)),
        ("Other.run", None, (7, 14)),
        ("Other::run", None, (7, 14)),
        ("rerun", None, (5, 15)),
    ],
)
def test_occurrences_of_a_name_are_ranked(name: str, line: int | None, first: tuple[int, int]) -> None:
    position = positions_of(SOURCE, name, line)[0]
    assert (position.line, position.column) == first


def test_a_name_within_other_names_does_not_occur() -> None:
    assert positions_of(SOURCE, "unn", None) == []
    assert positions_of(["x" * 100_000 + " y" * 100_000], "y", None)[0].line == 1


def test_unavailable_is_no_empty_answer() -> None:
    assert Unavailable(reason="")
