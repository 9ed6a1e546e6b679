"""Every cell of A4's table, walked by a scripted model over HTTP."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.doubles.mock import call
from tests.faults.kit import RunTrace, approve, command, reject, run_calls
from tests.nightly import crossed
from tui_agent.common.domain import ApprovalMode, Mode

MODES = ("ask", "auto-edit", "auto", "read-only")


class Cell(NamedTuple):
    """A call, what each approval mode decides of it, and the trace that it leaves once it happened."""

    call: Callable[[Path], dict[str, Any]]
    row: str
    trace: str = ""


def write(path: str) -> Callable[[Path], dict[str, Any]]:
    return lambda _: call("write_file", path=path, content=f"written to {path}\n")


def run(text: str, **more: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda _: command(text, **more)


TABLE = {
    "read": Cell(lambda _: call("read_file", path="notes.txt"), "run run run run"),
    "list": Cell(lambda _: call("list_files", path="src"), "run run run run"),
    "search": Cell(lambda _: call("search_workspace", query="one"), "run run run run"),
    "read of credentials": Cell(lambda _: call("read_file", path=".env"), "ask ask ask refuse"),
    "read outside": Cell(lambda at: call("read_file", path=str(at / "far.txt")), "ask ask ask refuse"),
    "read outside through a link": Cell(lambda _: call("read_file", path="link/other/far.txt"), "ask ask ask refuse"),
    "list outside": Cell(lambda _: call("list_files", path=".."), "ask ask ask refuse"),
    "search outside": Cell(lambda _: call("search_workspace", query="far", path="../other"), "ask ask ask refuse"),
    "write outside": Cell(
        lambda at: call("write_file", path=str(at / "made.txt"), content="x\n"), "ask ask ask refuse", "../made.txt"
    ),
    "write through a link": Cell(write("link/linked.txt"), "ask ask ask refuse", "../linked.txt"),
    "edit": Cell(
        lambda _: call("edit_file", path="src/main.py", old_string="one", new_string="two"),
        "ask run run refuse",
        "src/main.py",
    ),
    "new file": Cell(write("src/new.py"), "ask run run refuse", "src/new.py"),
    "sensitive: manifest": Cell(write("package.json"), "ask ask ask refuse", "package.json"),
    "sensitive: lock file": Cell(write("uv.lock"), "ask ask ask refuse", "uv.lock"),
    "sensitive: CI": Cell(write(".gitlab-ci.yml"), "ask ask ask refuse", ".gitlab-ci.yml"),
    "protected: hook": Cell(write(".git/hooks/post-merge"), "ask ask ask refuse", ".git/hooks/post-merge"),
    "protected: rules": Cell(write("AGENTS.md"), "ask ask ask refuse", "AGENTS.md"),
    "protected: environment": Cell(write(".env.local"), "ask ask ask refuse", ".env.local"),
    "protected: editor": Cell(write(".vscode/tasks.json"), "ask ask ask refuse", ".vscode/tasks.json"),
    "protected: key, by another case": Cell(write("Deploy.PEM"), "ask ask ask refuse", "Deploy.PEM"),
    "unasked": Cell(run("ls"), "run run run run"),
    "unasked pipe": Cell(run("cat notes.txt | wc -l"), "run run run run"),
    "none": Cell(run("time ls"), "ask ask run refuse"),
    "medium": Cell(run("touch medium"), "ask ask run refuse", "medium"),
    "medium by redirection": Cell(run("echo x > redirected"), "ask ask run refuse", "redirected"),
    "high": Cell(run('LD_PRELOAD="" touch high'), "ask ask ask refuse", "high"),
    "high: unreadable": Cell(run("touch unreadable; echo )("), "ask ask ask refuse"),
    "critical": Cell(run("touch critical; false && rm -rf /"), "ask ask ask refuse", "critical"),
    "always ask: force push": Cell(run("touch pushed; false && git push --force"), "ask ask ask refuse", "pushed"),
    "always ask: root": Cell(run("touch root; false && sudo ls"), "ask ask ask refuse", "root"),
    "always ask: another folder": Cell(run("touch elsewhere", cwd=".."), "ask ask ask refuse", "../elsewhere"),
}


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    (tmp_path / "far.txt").write_text("far\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "far.txt").write_text("far\n")
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    (work / "src" / "main.py").write_text("one\n")
    (work / "notes.txt").write_text("one\n")
    (work / ".env").write_text("KEY=1\n")
    (work / "link").symlink_to(tmp_path)
    return work


def traces(work: Path) -> dict[str, bytes | None]:
    paths = {cell.trace: work / cell.trace for cell in TABLE.values() if cell.trace}
    return {name: path.read_bytes() if path.is_file() else None for name, path in paths.items()}


async def walk(work: Path, cells: dict[str, Cell], **more: Any) -> tuple[RunTrace, dict[str, str]]:
    story = await run_calls(work, *(cell.call(work.parent) for cell in cells.values()), at_once=8, **more)
    assert len(story.order) == len(cells)
    return story, dict(zip(cells, map(story.decision, story.order), strict=True))


@pytest.mark.parametrize(
    ("mode", "answer"), crossed(MODES, {"approved": approve, "rejected": reject}, whole=("ask", "auto"))
)
async def test_every_cell(mode: str, answer: Any, ground: Path) -> None:
    before = traces(ground)
    story, decided = await walk(ground, TABLE, answer=answer, flags={"approval_mode": mode})
    assert decided == {name: cell.row.split()[MODES.index(mode)] for name, cell in TABLE.items()}
    after = traces(ground)
    for (name, cell), key in zip(TABLE.items(), story.order, strict=True):
        may = decided[name] == "run" or (decided[name] == "ask" and answer is approve)
        assert (story.results[key].code == "refused") != may, name
        assert story.executed.count(key) <= may, name
        if cell.trace:
            assert (after[cell.trace] != before[cell.trace]) == may == (key in story.executed), name


@pytest.mark.parametrize(
    ("setting", "changed"),
    [
        ({"auto_run": False}, {"ask": {"unasked": "ask", "unasked pipe": "ask"}}),
        (
            {"auto_approve_sensitive_edits": True},
            {
                mode: dict.fromkeys(["sensitive: manifest", "sensitive: lock file", "sensitive: CI"], "run")
                for mode in ("auto-edit", "auto")
            },
        ),
        ({"auto_approve_high": True, "sandbox": "off"}, {}),  # without a sandbox it says nothing
    ],
    ids=["auto_run", "auto_approve_sensitive_edits", "auto_approve_high"],
)
@pytest.mark.parametrize("mode", MODES)
async def test_a_setting_changes_its_own_cells_only(
    mode: str, setting: dict[str, Any], changed: dict[str, dict[str, str]], ground: Path
) -> None:
    cells = {
        name: cell for name, cell in TABLE.items() if name.startswith(("unasked", "sensitive", "high", "protected: h"))
    }
    _, decided = await walk(ground, cells, answer=reject, flags={"approval_mode": mode, **setting})
    plain = {name: cell.row.split()[MODES.index(mode)] for name, cell in cells.items()}
    assert decided == plain | changed.get(mode, {})


READING = [mode for mode in Mode if mode.reads_only]


@pytest.mark.parametrize("mode", READING)
async def test_g15_modes_that_read_block_every_way_to_write(mode: Mode, ground: Path) -> None:
    writing = {name: cell for name, cell in TABLE.items() if cell.trace} | {
        "an interpreter": Cell(run("python3 -c \"open('made', 'w')\""), ""),
        "in place": Cell(run("sed -i s/one/two/ notes.txt"), ""),
        "by find": Cell(run("find . -name notes.txt -delete"), ""),
        "by git": Cell(run("git init made"), ""),
    }
    before = {path.name: path.read_bytes() for path in ground.rglob("*") if path.is_file()}
    shutil.rmtree(ground / "none", ignore_errors=True)
    flags = {"mode": mode, "approval_mode": ApprovalMode.AUTO, "iterations": rounds(60)}
    story, decided = await walk(ground, writing, flags=flags)
    assert set(decided.values()) == {"refuse"}
    assert not story.executed
    for result in story.results.values():
        assert result.code == "refused" and f"{mode} mode" in str(result.error)
    assert {path.name: path.read_bytes() for path in ground.rglob("*") if path.is_file()} == before


def rounds(most: int) -> dict[str, int]:
    return {str(mode).replace("-", "_"): most for mode in READING}
