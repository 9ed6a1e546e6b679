"""Group E: paths and files that misbehave, met by a session."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from tests.doubles.mock import call
from tests.faults.kit import command, reject, run_calls
from tests.waiting import within_timeout
from tui_agent.common.domain import EditAction, ReadAction
from tui_agent.platform.watching import file_changes


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    work = tmp_path / "app"
    (work / "src").mkdir(parents=True)
    (work / "src" / "a.txt").write_text("inside\n")
    (tmp_path / "app-secret").mkdir()
    (tmp_path / "app-secret" / "a.txt").write_text("SECRET\n")
    (tmp_path / "far.txt").write_text("SECRET\n")
    return work


async def test_e01_e02_e04_paths_that_lead_out_are_asked_for_and_refused_paths_touch_nothing(ground: Path) -> None:
    (ground / "out").symlink_to("..")
    (ground / "file-out").symlink_to("../far.txt")
    (ground / "dangling").symlink_to("../not-there.txt")
    (ground / "loop").symlink_to("loop")
    (ground / "c0").symlink_to("../far.txt")
    for number in range(1, 50):
        (ground / f"c{number}").symlink_to(f"c{number - 1}")
    far = ground.parent
    outside = [
        "../far.txt", str(far / "far.txt"), f"//{far}/far.txt", "src/../../far.txt", "./../far.txt", "src/./.././../far.txt", "out/far.txt", "file-out",
        "dangling", "../app-secret/a.txt", str(far / "app-secret" / "a.txt"), "c30", "~/x.txt",
    ]  # fmt: skip
    impossible = ["", "a\0b", "x" * 5_000, "loop", "loop/x", "c49"]
    paths = [*outside, *impossible]
    before = sorted(str(path) for path in far.rglob("*"))
    story = await run_calls(
        ground, *(call("write_file", path=path, content="mine\n") for path in paths), answer=reject, at_once=8
    )
    for path, key in zip(paths, story.order, strict=True):
        assert not story.results[key].success, path
        action = story.asked.get(key)
        assert action is None or (isinstance(action, EditAction) and action.outside), path
        assert path not in impossible or (action is None and len(str(story.results[key].error)) > 10), path
    named = str(story.results[story.order[paths.index("loop")]].error)
    assert "link" in named.lower() or "loop" in named.lower()
    assert sorted(str(path) for path in far.rglob("*")) == before
    story = await run_calls(ground, *(call("read_file", path=path) for path in paths), answer=reject, at_once=8)
    assert not any(story.results[key].success for key in story.order)
    assert all(isinstance(action, ReadAction) and action.outside for action in story.asked.values())
    assert not any("SECRET" in story.text(place) for place in range(len(paths)))


async def test_e01_ways_round_that_stay_inside_are_no_question(ground: Path) -> None:
    ways = ["src//a.txt", "./src/./a.txt", "src/../src/a.txt", str(ground / "src/a.txt"), "src/nope/../a.txt"]
    story = await run_calls(ground, *(call("read_file", path=path) for path in ways), answer=reject)
    assert not story.asked and all("inside" in story.text(place) for place in range(len(ways)))


async def test_e05_protected_names_in_any_dress_always_ask(ground: Path) -> None:
    wide = unicodedata.normalize("NFKC", ".ＥＮＶ")
    assert wide == ".ENV"
    names = [".GIT/config", ".git/../.git/hooks/pre-push", ".env.local", ".ＥＮＶ", ".Git/HEAD", "sub/.VSCODE/settings.json", "Agents.MD", ".env\u200b"]  # fmt: skip
    for mode in ("auto-edit", "auto"):
        story = await run_calls(
            ground,
            *(call("write_file", path=name, content="x\n") for name in names),
            answer=reject,
            at_once=8,
            flags={"approval_mode": mode},
        )
        free = [name for name, key in zip(names, story.order, strict=True) if story.decision(key) == "run"]
        assert free == []
    assert sorted(os.listdir(ground)) == ["src"]


async def test_e06_what_is_no_file_is_refused_at_once(ground: Path) -> None:
    os.mkfifo(ground / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        before = os.getcwd()
        os.chdir(ground)
        listening.bind("socket")
        os.chdir(before)
    (ground / "zero").symlink_to("/dev/zero")
    (ground / "log").symlink_to("/proc/kmsg")
    names = ["pipe", "socket", "zero", "log", "src", "/dev/zero", "/proc/self/environ", "/dev/stdin"]
    story = await within_timeout(
        run_calls(
            ground,
            *(call("read_file", path=name) for name in names),
            *(call("write_file", path=name, content="x") for name in names),
            at_once=8,
        )
    )
    assert not any(result.success for result in story.results.values())
    assert {result.code for result in story.results.values()} <= {
        "not_regular",
        "too_large",
        "refused",
        "other",
        "denied",
        "io",
        "link",
    }


HUGE = int(os.environ.get("TUI_AGENT_HUGE", "500000000"))
"""Bytes of the largest file; 5 GB of it take half a minute."""
LARGE = """
import asyncio, os, resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.doubles.fake_tool_context import FakeToolContext
from tests.tools.calling import call
async def main():
    ctx = FakeToolContext(Path(sys.argv[1]))
    await call(ctx, "read_file", path="small")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name in ("holes", "lines", "line"):
        result = await call(ctx, "read_file", path=name)
        print(name, result.success, result.code, len(str(result.data or result.error)))
        result = await call(ctx, "edit_file", path=name, old_string="text", new_string="other")
        print(name, result.success, result.code, len(str(result.data or result.error)))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
asyncio.run(main())
"""


async def test_e07_huge_files_cost_no_memory(workspace: Path) -> None:
    (workspace / "small").write_text("text\n")
    with (workspace / "holes").open("wb") as file:
        file.truncate(HUGE)
    with (workspace / "lines").open("wb") as file:
        file.write(b"text\n" * 1_000)
        file.truncate(HUGE)
    with (workspace / "line").open("wb") as file:
        for _ in range(HUGE // 25_000_000):
            file.write(b"x" * 1_000_000)
    assert (workspace / "line").stat().st_size == HUGE // 25
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LARGE, str(workspace), str(Path(__file__).parents[2]), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )  # fmt: skip
    out, err = await process.communicate()
    (workspace / "line").unlink()
    *told, grown = out.decode().splitlines()
    assert len(told) == 6, err.decode()
    assert int(grown) < 50_000, told  # KiB
    assert all(int(line.split()[-1]) < 40_000 for line in told)
    assert [line.split()[1] for line in told[1::2]] == ["False"] * 3


async def test_e08_e13_odd_names_and_bytes_are_read_shown_and_kept(ground: Path) -> None:
    names = [
        "a\nb.txt",
        "a\x1b[31mb.txt",
        "[red]x[bold].txt",
        "a\u202etxt.exe",
        "-rf",
        ";rm x.txt",
        "a b  c.txt",
        "$(touch pwned).txt",
        "'q\".txt",
        "ü\u0301日🙂.txt",
    ]
    for name in names:
        (ground / name).write_bytes("é\r\n".encode("latin-1") + b"old\r\n")
    (ground / os.fsdecode(b"bad\xff.txt")).write_text("one\n")
    reads = [call("read_file", path=name) for name in names]
    edits = [call("edit_file", path=name, old_string="old", new_string="new") for name in names]
    story = await run_calls(ground, call("list_files"), *reads, *edits, at_once=5)
    assert all(result.success for result in story.results.values()), [
        r.error for r in story.results.values() if not r.success
    ]
    listed = story.text(0)
    assert "\x1b" not in listed and "\u202e" not in listed and "\\u202e" in listed and "pwned" in listed
    for name in names:
        assert (ground / name).read_bytes() == "é\r\n".encode("latin-1") + b"new\r\n"
    for action in story.asked.values():
        assert isinstance(action, EditAction) and "\x1b" not in action.display and "\n" not in action.display
    assert not (ground / "pwned").exists()


async def test_e09_a_file_that_changed_since_it_was_read_is_not_overwritten(ground: Path) -> None:
    story = await run_calls(
        ground,
        call("read_file", path="src/a.txt"),
        command("echo theirs > src/a.txt"),
        call("write_file", path="src/a.txt", content="mine\n"),
        call("edit_file", path="src/a.txt", old_string="inside", new_string="mine"),
    )
    assert [story.result(place).success for place in (2, 3)] == [False, False]
    assert story.result(2).code == "changed"
    assert (ground / "src" / "a.txt").read_text() == "theirs\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_e11_a_folder_without_leave_to_write(ground: Path) -> None:
    (ground / "src").chmod(0o500)
    story = await run_calls(
        ground, call("read_file", path="src/a.txt"), call("write_file", path="src/a.txt", content="x")
    )
    (ground / "src").chmod(0o700)
    assert not story.result().success and (ground / "src" / "a.txt").read_text() == "inside\n"


async def test_e11_a_running_program_is_replaced_whole_or_not_at_all(ground: Path) -> None:
    shutil.copy("/bin/sleep", ground / "tool")
    running = await asyncio.create_subprocess_exec(str(ground / "tool"), "600")
    try:
        with pytest.raises(OSError, match="busy"):
            (ground / "tool").open("r+b")  # the fault is there: ETXTBSY
        story = await run_calls(
            ground, command("cp src/a.txt tool"), call("write_file", path="tool", content="#!/bin/sh\n")
        )
        assert not story.result(0).success
        assert (ground / "tool").read_bytes() in (Path("/bin/sleep").read_bytes(), b"#!/bin/sh\n")
        assert story.result(1).success == ((ground / "tool").stat().st_size == 10)
    finally:
        running.kill()
        await running.wait()


DEEP = int(os.environ.get("TUI_AGENT_DEEP", "1500"))


async def test_e12_a_tree_without_bottom_is_listed_and_searched_in_bounds(ground: Path) -> None:
    at = os.open(ground, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    try:
        story = await run_calls(
            ground,
            call("list_files", depth=10),
            call("search_workspace", query="inside"),
            command("find . -name none | head -n 1"),
            at_once=1,
        )
    finally:
        await asyncio.to_thread(subprocess.run, ["rm", "-rf", str(ground / "d")], check=True)
    assert story.result(0).success and len(story.text(0)) < 40_000
    assert "a.txt" in story.text(1)


async def test_e15_settings_of_ripgrep_are_not_read(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground / "pre").write_text(f"#!/bin/sh\ntouch {ground}/pwned\ncat $1\n")
    (ground / "pre").chmod(0o755)
    (ground / "rc").write_text(f"--pre={ground}/pre\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(ground / "rc"))
    story = await run_calls(ground, call("search_workspace", query="inside"), command("rg inside src"))
    assert "a.txt" in story.text(0)
    assert not (ground / "pwned").exists()
    if shutil.which("rg"):
        await asyncio.to_thread(subprocess.run, ["rg", "inside", str(ground)], check=False, capture_output=True)
        assert (ground / "pwned").exists()  # so it would have been


@pytest.mark.parametrize("rg", [True, False], ids=["rg", "without rg"])
async def test_e16_monstrous_ignore_files_are_bounded(rg: bool, ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground / ".gitignore").write_bytes(b"**/a*b*c*d*e*[!z]/**\n" * 1_000 + (b"#" * 100_000 + b"\n") * 510)
    assert (ground / ".gitignore").stat().st_size > 50_000_000
    (ground / "src" / ".gitignore").symlink_to(".gitignore")  # a cycle
    (ground / "src" / "again").symlink_to("..")
    if not rg:
        monkeypatch.setenv("PATH", "/nonexistent")
    story = await within_timeout(
        run_calls(ground, call("list_files", depth=5), call("search_workspace", query="inside", path="src"))
    )
    assert "src" in story.text(0) and len(story.text(0)) < 40_000
    assert story.results  # searched, or stopped by its own limit


async def test_e17_a_storm_of_saves_is_seen_as_few_changes_and_the_last_one_counts(tmp_path: Path) -> None:
    path, beside = tmp_path / "plan_doc.md", tmp_path / ".swap"
    path.write_text("0")
    seen: list[str] = []
    known = asyncio.Event()

    async def look() -> None:
        async for _ in file_changes(path):
            seen.append(path.read_text() if path.exists() else "")
            known.set()

    looking = asyncio.create_task(look())

    def storm() -> None:
        for number in range(1, 1_001):
            beside.write_text(str(number))
            os.replace(beside, path)

    await asyncio.sleep(0)
    await asyncio.to_thread(storm)
    async with asyncio.timeout(60):
        while not seen or seen[-1] != "1000":
            known.clear()
            if not seen or seen[-1] != "1000":
                await known.wait()
    looking.cancel()
    assert 1 <= len(seen) < 700
