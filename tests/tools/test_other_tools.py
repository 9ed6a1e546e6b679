from __future__ import annotations

import asyncio
import os
import stat
import sys
from pathlib import Path

import pytest

from tests.doubles.fake_tool_context import FakeToolContext
from tests.tools.calling import call
from tui_agent.common.domain import CommandOutcome, ReadAction
from tui_agent.tools.list_files import MAX_ENTRIES
from tui_agent.tools.search_workspace import SearchWorkspace, SearchWorkspaceArgs, find_ripgrep


def put(root: Path, name: str, data: str = "") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data, encoding="utf-8")
    return path


# --- list_files ---


async def test_list_shows_a_tree_down_to_the_depth(ctx: FakeToolContext) -> None:
    root = ctx.roots[0]
    for name in ("b.txt", "src/a.py", "src/deep/x.py", ".git/config", ".hidden"):
        put(root, name)
    (root / "link").symlink_to("src/a.py")
    assert (await call(ctx, "list_files")).data == "\n".join(
        [".hidden", "b.txt", "link -> src/a.py", "src/", "  a.py", "  deep/"]
    )
    assert (await call(ctx, "list_files", path="src", depth=1)).data == "a.py\ndeep/"
    assert "    x.py" in (await call(ctx, "list_files", depth=3)).data


async def test_list_leaves_out_what_git_ignores(ctx: FakeToolContext) -> None:
    root = ctx.roots[0]
    put(root, ".gitignore", "*.log\nbuild/\n/top.txt\n")
    put(root, "sub/.gitignore", "!keep.log\nlocal\n")
    for name in ("a.log", "build/x", "top.txt", "sub/top.txt", "sub/keep.log", "sub/b.log", "sub/local", "local"):
        put(root, name)
    assert (await call(ctx, "list_files")).data == "\n".join(
        [".gitignore", "local", "sub/", "  .gitignore", "  keep.log", "  top.txt"]
    )
    assert (await call(ctx, "list_files", path="sub")).data == ".gitignore\nkeep.log\ntop.txt"


async def test_list_empty_ignored_missing_and_file(ctx: FakeToolContext) -> None:
    root = ctx.roots[0]
    (root / "empty").mkdir()
    put(root, "ignored/.gitignore", "*")
    put(root, "src/a.py")
    assert (await call(ctx, "list_files", path="empty")).data == "[empty folder]"
    assert "ignored" in (await call(ctx, "list_files", path="ignored")).data
    assert "src" in str((await call(ctx, "list_files", path="scr")).error)
    assert (await call(ctx, "list_files", path="src/a.py")).code == "not_a_folder"


async def test_list_shows_odd_names_escaped(ctx: FakeToolContext) -> None:
    root = ctx.roots[0]
    for raw in (b"a\nb", b"\x1b[31mred", b"[red]", "\u202etxt.exe".encode(), b"\xff", b"-rf", "ü b".encode()):
        (root / os.fsdecode(raw)).write_text("")
    data = (await call(ctx, "list_files")).data
    assert sorted(data.split("\n")) == sorted(
        ["a\\nb", "\\x1b[31mred", "[red]", "\\u202etxt.exe", "\\xff", "-rf", "ü b"]
    )
    data.encode("utf-8")


async def test_list_is_capped_and_fair(ctx: FakeToolContext) -> None:
    root = ctx.roots[0]
    for number in range(300):
        put(root, f"crowded/{number:04}.txt")
    put(root, "other/found.txt")
    data = (await call(ctx, "list_files")).data
    assert "  … [100 more]" in data and "  found.txt" in data
    for number in range(MAX_ENTRIES + 5):
        put(root, f"many/{number:05}.txt")
    lines = (await call(ctx, "list_files", path="many")).data.split("\n")
    assert len(lines) == MAX_ENTRIES + 1
    assert lines[-1] == "… [5 more]"
    for number in range(10):
        for other in range(150):
            put(root, f"much/{number}/{other:03}.txt")
    lines = (await call(ctx, "list_files", path="much")).data.split("\n")
    assert len(lines) <= MAX_ENTRIES + 10
    assert "cut after 1,000 entries" in lines[-1]


async def test_list_links_are_not_followed(ctx: FakeToolContext) -> None:
    root = ctx.roots[0]
    put(root, "a/x")
    (root / "a" / "up").symlink_to(root)
    assert (await call(ctx, "list_files", depth=20)).data == f"a/\n  up -> {root}\n  x"


async def test_list_outside_asks(ctx: FakeToolContext, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    await call(ctx, "list_files", path=str(outside))
    assert isinstance(ctx.actions[0], ReadAction) and ctx.actions[0].outside


# --- search_workspace ---


@pytest.fixture(params=[pytest.param("rg", marks=pytest.mark.needs("rg")), "python"])
def searching(request: pytest.FixtureRequest, ctx: FakeToolContext) -> FakeToolContext:
    ctx.search_program = find_ripgrep(ctx.roots) if request.param == "rg" else None
    if request.param == "rg" and ctx.search_program is None:
        pytest.skip("rg")
    root = ctx.roots[0]
    put(root, "src/a.py", "import os\n\n\ndef run(x):\n    return os.run(x)\n")
    put(root, "b.txt", "Run (x) once\nnothing\nrun(x)\n")
    put(root, ".gitignore", "out/\n")
    put(root, "out/c.py", "run(x)\n")
    put(root, ".git/config", "run(x)\n")
    (root / "bin").write_bytes(b"run(x)\0\n")
    return ctx


async def test_search_text_in_files(searching: FakeToolContext) -> None:
    result = await call(searching, "search_workspace", query="run(x)")
    assert result.data == "\n".join(
        ["── b.txt ──", "→ 3: run(x)", "── src/a.py ──", "→ 4: def run(x):", "→ 5:     return os.run(x)"]
    )


async def test_search_by_regular_expression_with_context(searching: FakeToolContext) -> None:
    result = await call(searching, "search_workspace", query=r"def \w+\(", is_regex=True, context=1, directory="src")
    assert result.data == "\n".join(["── src/a.py ──", "  3: ", "→ 4: def run(x):", "  5:     return os.run(x)"])


async def test_search_capitals_make_case_count(searching: FakeToolContext) -> None:
    assert "→ 1: Run (x) once" in (await call(searching, "search_workspace", query="run (x)")).data
    assert (await call(searching, "search_workspace", query="RUN (x)")).data.startswith("No matches")


async def test_search_of_a_single_file_and_without_matches(searching: FakeToolContext) -> None:
    result = await call(searching, "search_workspace", query="run", directory="b.txt")
    assert result.data == "── b.txt ──\n→ 1: Run (x) once\n→ 3: run(x)"
    assert (await call(searching, "search_workspace", query="run", directory="none")).code == "not_found"
    result = await call(searching, "search_workspace", query="a|zzz")
    assert result.success and "set is_regex" in result.data


async def test_search_reports_an_invalid_expression(searching: FakeToolContext) -> None:
    result = await call(searching, "search_workspace", query="run(", is_regex=True)
    assert result.code == "bad_arguments" and "regular expression" in str(result.error)


async def test_search_is_capped(searching: FakeToolContext) -> None:
    for number in range(10):
        put(searching.roots[0], f"many/{number}.txt", "needle in hay\n" * 90)
    data = (await call(searching, "search_workspace", query="needle")).data
    assert data.count("→") == 200
    assert "[cut after 200 matches" in data


async def test_search_shows_the_part_of_a_long_line_and_bad_bytes(searching: FakeToolContext) -> None:
    put(searching.roots[0], "long.txt", "x" * 3000 + "needle" + "y" * 3000 + "\n")
    (searching.roots[0] / "latin.txt").write_bytes("é needle\n".encode("latin-1"))
    data = (await call(searching, "search_workspace", query="needle")).data
    data.encode("utf-8")
    assert len(data) < 1500
    assert "── latin.txt ──" in data


async def test_search_does_not_show_credentials(searching: FakeToolContext) -> None:
    put(searching.roots[0], ".env", "needle=secret\n")
    searching.credentials = {".env"}
    data = (await call(searching, "search_workspace", query="needle")).data
    assert "secret" not in data and data.startswith("No matches")
    data = (await call(searching, "search_workspace", query="needle", directory=".env")).data
    assert "secret" in data
    assert [action.credentials for action in searching.actions if isinstance(action, ReadAction)] == [True]


async def test_search_does_not_tell_whether_credentials_match(searching: FakeToolContext) -> None:
    put(searching.roots[0], ".env", "KEY=s3cret\n")
    searching.credentials = {".env"}
    right, wrong = [
        (await call(searching, "search_workspace", query=query, is_regex=True)).data for query in ("KEY=s", "KEY=z")
    ]
    assert right.replace("KEY=s", "") == wrong.replace("KEY=z", "")


async def test_search_query_that_looks_like_an_option(searching: FakeToolContext) -> None:
    put(searching.roots[0], "o.txt", "use --pre=sh here\n")
    assert "o.txt" in (await call(searching, "search_workspace", query="--pre=sh")).data


def program(folder: Path, text: str) -> Path:
    path = folder / "rg"
    path.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


async def test_search_stops_a_program_that_floods(
    ctx: FakeToolContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("bin")
    ctx.search_program = program(folder, "import os\nblock = b'x' * (1 << 20)\nwhile True: os.write(1, block)\n")
    result = await SearchWorkspace(seconds=120).run(SearchWorkspaceArgs(query="x"), ctx)
    assert "too much" in result.data


async def test_search_dies_with_its_call(ctx: FakeToolContext, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("bin")
    os.mkfifo(folder / "pid")
    ctx.search_program = program(
        folder, f"import os, time\nopen({str(folder / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    )
    task = asyncio.create_task(call(ctx, "search_workspace", query="x"))
    pid = int(await asyncio.to_thread((folder / "pid").read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_search_continues_without_a_failing_program(
    ctx: FakeToolContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    put(ctx.roots[0], "a.txt", "needle\n")
    folder = tmp_path_factory.mktemp("bin")
    for broken in (program(folder, "raise SystemExit(3)\n"), folder / "none"):
        ctx.search_program = broken
        assert (await call(ctx, "search_workspace", query="needle")).data == "── a.txt ──\n→ 1: needle"


async def test_search_survives_a_catastrophic_expression(ctx: FakeToolContext) -> None:
    put(ctx.roots[0], "a.txt", "a" * 40 + "\n")
    args = SearchWorkspaceArgs(query="(a+)+$b", is_regex=True)
    result = await SearchWorkspace(seconds=1).run(args, ctx)
    assert "stopped after 1 s" in result.data


def test_ripgrep_from_the_workspace_is_never_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, outside = tmp_path / "work", tmp_path / "bin"
    inside.mkdir()
    outside.mkdir()
    program(inside, "")
    monkeypatch.setenv("PATH", f"{inside}:.:relative")
    found = find_ripgrep((inside,))
    assert found is None or found.parent == Path(sys.prefix) / "bin"
    (outside / "rg").symlink_to(inside / "rg")
    monkeypatch.setenv("PATH", str(outside))
    found = find_ripgrep((inside,))
    assert found is None or found.parent == Path(sys.prefix) / "bin"
    (tmp_path / "more").mkdir()
    program(tmp_path / "more", "")
    monkeypatch.setenv("PATH", f"{outside}:{tmp_path / 'more'}")
    assert find_ripgrep((inside,)) == tmp_path / "more" / "rg"


def test_ripgrep_beside_the_interpreter_is_not_taken_from_the_workspace_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "work" / ".venv" / "bin"
    own.mkdir(parents=True)
    program(own, "")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(sys, "prefix", str(own.parent))
    assert find_ripgrep((tmp_path / "work",)) is None
    assert find_ripgrep((tmp_path / "elsewhere",)) == own / "rg"


# --- run_terminal_command ---


async def test_command_gives_exit_code_and_output(ctx: FakeToolContext) -> None:
    ctx.outcome = CommandOutcome(exit_code=0, output="3 passed\n", note="shell restarted")
    result = await call(ctx, "bash", script="pytest -q")
    assert (result.success, result.data) == (True, "exit code 0\n3 passed\n[shell restarted]")
    assert ctx.judged == [("pytest -q", "")]
    assert ctx.timeouts == [30]


async def test_command_that_fails_keeps_its_output(ctx: FakeToolContext) -> None:
    ctx.outcome = CommandOutcome(exit_code=2, output="boom\n")
    result = await call(ctx, "run_terminal_command", command="false")
    assert (result.success, result.error, result.data, result.code) == (False, "exit code 2", "boom", "exit")
    ctx.outcome = CommandOutcome(exit_code=None, output="", timed_out=True)
    result = await call(ctx, "run_terminal_command", command="sleep 9")
    assert (result.code, result.data) == ("timeout", "(no output)")
    ctx.outcome = CommandOutcome(exit_code=None, output="half", interrupted=True)
    assert (await call(ctx, "run_terminal_command", command="sleep 9")).code == "interrupted"


async def test_command_that_was_cut_names_the_full_output(ctx: FakeToolContext) -> None:
    ctx.outcome = CommandOutcome(exit_code=0, output="…", total_lines=12345, spill="/scratch/1.txt")
    assert (
        "[12,345 lines in all; the full output is in /scratch/1.txt]"
        in (await call(ctx, "run_terminal_command", command="x")).data
    )


async def test_command_time_limit_and_folder(ctx: FakeToolContext) -> None:
    (ctx.roots[0] / "sub").mkdir()
    for given, limit in ((0, 1), (5, 5), (10_000, 600), ("7", 7)):
        await call(ctx, "run_terminal_command", command="x", cwd="sub", timeout_seconds=given)
        assert ctx.timeouts[-1] == limit
    assert ctx.judged[-1] == ("x", str(ctx.roots[0] / "sub"))
    assert (await call(ctx, "run_terminal_command", command="x", cwd="none")).code == "not_found"
    assert (await call(ctx, "run_terminal_command", command="x", timeout_seconds="inf")).code == "bad_arguments"
    assert (await call(ctx, "run_terminal_command", command="  ")).code == "bad_arguments"


async def test_command_refused_does_not_run(ctx: FakeToolContext) -> None:
    ctx.refuse = True
    assert (await call(ctx, "run_terminal_command", command="x")).code == "refused"
    assert ctx.timeouts == []


# --- ask_user ---


async def test_question_and_answer(ctx: FakeToolContext) -> None:
    ctx.answer = "blue"
    result = await call(ctx, "ask_user", question="Which?", options=["red", "blue", "red", " "])
    assert result.data == "blue"
    assert ctx.questions == [("Which?", ("red", "blue"))]
    ctx.refuse = True
    result = await call(ctx, "ask_user", question="Which?")
    assert (result.code, result.error) == ("refused", "No user is present.")
