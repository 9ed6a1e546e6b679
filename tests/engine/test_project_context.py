from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Answer
from tui_agent.engine.context.project import FULL, SMALL, ProjectFacts, describe_project, discover
from tui_agent.events import ApprovalRequested, FileChanged, Notice
from tui_agent.safety import trust


def put(folder: Path, **files: str) -> Path:
    """Files by name; `__` is a dot, `_0` a slash."""
    for name, text in files.items():
        path = folder / name.replace("__", ".").replace("_0", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def git(folder: Path, *words: str) -> None:
    own = ("-c", "user.name=x", "-c", "user.email=x@x.example", "-c", "init.defaultBranch=trunk")
    subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    put(work, pyproject__toml="", README__md="", src_0a__py="one\n", src_0b__py="", web_0x__ts="", build_0c__py="", __gitignore="build/\n")  # fmt: skip
    return work.resolve()


def texts(server: MockServer, request: int = -1) -> list[str]:
    return [str(message["content"]) for message in server.requests[request].messages]


def rules_in(server: MockServer, request: int = -1) -> int:
    return sum(text.count("<agent_rules>") for text in texts(server, request))


async def talk(server: MockServer, workspace: Path, *said: str, answer: Any = None, **more: Any) -> SessionDriver:
    async with run_session(server, workspace, **more) as session:
        watch = SessionDriver(session, answer)
        for text in said:
            await session.send(text)
            await watch.ended()
    return watch


# --- discovery ---


@pytest.mark.needs("git")
async def test_the_project_is_told_once_and_stays_as_it_was(workspace: Path) -> None:
    git(workspace, "init", "-q")
    git(workspace, "add", ".")
    git(workspace, "commit", "-qm", "x")
    put(workspace, src_0a__py="two\n", new__txt="")
    write = call("write_file", path="src/new.py", content="x\n")
    async with serve(scenario("one", step("", write), "ok"), scenario("two", "ok"), strict=True) as server:
        await talk(server, workspace, "one", "two", flags={"approval_mode": "auto-edit"})
    system = texts(server, 0)[0]
    assert "Project files: pyproject.toml." in system and "Documents: README.md." in system
    assert "Languages: Python 2 files, TypeScript 1 file." in system
    assert "Git branch trunk, 1 changed and 1 untracked when the session began: src/a.py." in system
    assert {texts(server, at)[0] for at in range(3)} == {system}  # the work of the session changes nothing of it


async def test_a_small_window_gets_less_and_nothing_is_more_than_its_room(workspace: Path) -> None:
    found = ProjectFacts(
        projects=("pyproject.toml",) * 8,
        documents=("README.md",) * 8,
        languages=tuple((f"Language{number}", 1_000) for number in range(5)),
        branch="b" * 80,
        changed=99,
        names=("n" * 80,) * 8,
    )
    assert (
        0
        < len(describe_project((("", found),), 8_192))
        <= SMALL
        < len(describe_project((("", found),), 32_768))
        <= FULL
    )
    assert len(describe_project((("a", found), ("b", found)), None)) <= FULL + 20
    assert describe_project((("", ProjectFacts()),), None) == ""
    put(workspace, **{f"lots_0{number}__rs": "" for number in range(200)})
    found = await discover(workspace, (workspace,))
    assert found.languages == (("Rust", 200),)  # a few others are no language of the project
    assert (await discover(workspace / "missing", (workspace,))) == ProjectFacts()


async def test_nothing_of_an_untrusted_folder_is_told(workspace: Path) -> None:
    put(workspace, AGENTS__md="RULES OF THE ROOT", src_0AGENTS__md="RULES BELOW")
    look = step("", call("read_file", path="src/a.py"))
    async with serve(scenario("look", look, "seen"), strict=True) as server:
        watch = await talk(server, workspace, "look", trust=False, attended=False)
    told = json.dumps([request.body for request in server.requests])
    assert "RULES" not in told and "pyproject" not in told and "Languages" not in told
    assert not [one for one in watch.of(Notice) if one.code.startswith("rules.")]


# --- AGENTS.md ---


async def test_rules_of_a_folder_come_once_where_a_tool_first_works_in_it(workspace: Path) -> None:
    put(workspace, AGENTS__md="RULES OF THE ROOT", src_0AGENTS__md="RULES OF SRC", src_0deep_0AGENTS__md="RULES OF DEEP", src_0deep_0x__py="x\n", web_0AGENTS__md="RULES OF WEB")  # fmt: skip
    steps: list[Any] = [
        step("", call("list_files", path="src"), call("search_workspace", query="one")),
        "?",
        step("", call("read_file", path="src/a.py"), call("read_file", path="src/b.py")),
        "?",
        step("", call("read_file", path="src/deep/x.py")),
        step("", call("read_file", path="src/b.py", start_line=1)),
        "done",
    ]
    async with serve(
        scenario("look", *steps), scenario("again", step("", call("read_file", path="src/a.py")), "ok"), strict=True
    ) as server:
        watch = await talk(server, workspace, "look", "again")
    assert "Rules from AGENTS.md:\nRULES OF THE ROOT" in texts(server, 0)[0]
    assert [rules_in(server, at) for at in range(5)] == [0, 0, 1, 2, 2]
    third = texts(server, 2)
    assert "RULES OF SRC" in third[-1] and "src/AGENTS.md" in third[-1]  # behind the results of both calls
    assert "RULES OF DEEP" not in "".join(third) and "RULES OF WEB" not in "".join(texts(server, 4))
    for earlier in range(4):
        kept = [text for text in texts(server, earlier) if "<agent_control>" not in text]
        assert texts(server, earlier + 1)[: len(kept) - 1] == kept[:-1]
    assert rules_in(server, 5) == 0 and rules_in(server, 6) == 1  # that run is over: once more, where it is needed
    told = [one.text for one in watch.of(Notice) if one.code in ("rules.loaded", "rules.nested")]
    assert [text.partition(" (")[0] for text in told] == ["Rules in use: AGENTS.md", "Rules of a folder, now in use: src/AGENTS.md", "Rules of a folder, now in use: src/deep/AGENTS.md"]  # fmt: skip


async def test_rules_survive_a_compaction_and_are_never_there_twice(workspace: Path) -> None:
    put(workspace, src_0AGENTS__md="RULES OF SRC")
    for number in range(8):
        (workspace / f"src/{number}.txt").write_text(f"{number} and some more words for the window\n" * 300)
    reads = [step("", call("read_file", path=f"src/{number}.txt")) for number in range(8)]
    summary = scenario("", "## State\n## Work done\n## Files\n## Remaining\n")
    async with serve(scenario("look", *reads, "done"), summary, strict=True) as server:
        await talk(server, workspace, "look", flags={"context_window": 16_384})
    asked = [at for at, request in enumerate(server.requests) if request.body.get("tools")]
    assert any("left out" in text or "<agent_summary>" in text for text in texts(server, asked[-1]))
    assert [rules_in(server, at) for at in asked] == [0] + [1] * (len(asked) - 1)


async def test_changed_rules_hold_from_the_next_message_on_and_bad_ones_are_told(workspace: Path) -> None:
    put(workspace, AGENTS__md="OLD RULES")
    (workspace / "src/AGENTS.md").write_bytes(b"\xff\xfebad")
    look = step("", call("read_file", path="src/a.py"))
    async with serve(scenario("one", look, "ok"), scenario("two", "ok"), strict=True) as server:
        async with run_session(server, workspace) as session:
            watch = SessionDriver(session)
            await session.send("one")
            await watch.ended()
            put(workspace, AGENTS__md="NEW RULES THAT ARE LONGER")
            await session.send("two")
            await watch.ended()
    assert "OLD RULES" in texts(server, 1)[0] and "NEW RULES" in texts(server, 2)[0]
    assert rules_in(server) == 0
    unread = [one for one in watch.of(Notice) if one.code == "rules.unread"]
    assert len(unread) == 1 and "src/AGENTS.md" in unread[0].text
    assert [one.text for one in watch.of(Notice) if one.code == "rules.loaded"][-1].startswith("Rules in use")


async def test_rules_above_in_the_repository_count_where_that_is_trusted(workspace: Path) -> None:
    (workspace / ".git").mkdir()
    put(workspace, AGENTS__md="RULES OF THE REPOSITORY", src_0AGENTS__md="RULES OF SRC")
    put(workspace.parent, AGENTS__md="RULES OF NOBODY")
    async with serve(scenario("", "ok"), strict=True) as server:
        await talk(server, workspace / "src", "one")
        trust.trust(workspace)
        await talk(server, workspace / "src", "two")
    first, second = texts(server, 0)[0], texts(server, 1)[0]
    assert "RULES OF SRC" in first and "RULES OF THE REPOSITORY" not in first
    assert second.index("RULES OF THE REPOSITORY") < second.index("RULES OF SRC")
    assert "Rules from ../AGENTS.md" in second and "NOBODY" not in first + second


# --- several folders ---


async def test_several_folders_have_names_in_every_path(workspace: Path, tmp_path: Path) -> None:
    lib, more = put(tmp_path / "lib", src_0only__py="one\n", twin__py="", AGENTS__md="RULES OF LIB", src_0AGENTS__md="BELOW LIB"), put(tmp_path / "more", twin__py="", AGENTS__md="RULES OF MORE")  # fmt: skip
    trust.trust(lib)
    steps = [
        step("", call("list_files"), call("search_workspace", query="one"), call("read_file", path="lib/src/only.py"), call("read_file", path="src/only.py"), call("read_file", path="twin.py"), call("search_workspace", query="one", directory="lib")),
        *"?????",
        step("", call("edit_file", path="lib/src/only.py", old_string="one", new_string="two")),
        step("", call("write_file", path="new.txt", content="x\n")),
        "done",
    ]  # fmt: skip
    async with serve(scenario("look", *steps), strict=True) as server:
        watch = await talk(server, workspace, "look @lib/src/only.py", more_roots=(lib, more))
    system = texts(server, 0)[0]
    assert f"- work is {workspace}\n- lib is {lib}\n- more is {more}" in system and "commands start in work" in system
    assert "Rules from lib/AGENTS.md:\nRULES OF LIB" in system and "RULES OF MORE" not in system
    assert "In work:\nProject files: pyproject.toml." in system and "In lib:\nLanguages: Python 2 files." in system
    assert "lib/src/only.py, all of it" in texts(server, 0)[-1] and "BELOW LIB" in texts(server, 0)[-1]
    assert any(one.code == "trust.root" and str(more) in one.text for one in watch.of(Notice))
    results = [str(one["content"]) for one in server.requests[-1].messages if one["role"] == "tool"]
    assert {"work/", "lib/", "more/", "  src/"} <= set(results[0].split("\n"))
    assert results[1] == "── work/src/a.py ──\n→ 1: one\n── lib/src/only.py ──\n→ 1: one"
    assert results[2] == results[3]
    assert "lib/twin.py, more/twin.py" in results[4] and "Begin the path" in results[4]
    assert results[5] == "── lib/src/only.py ──\n→ 1: one"
    assert [one.change.display for one in watch.of(FileChanged)] == ["lib/src/only.py", "work/new.txt"]
    assert (lib / "src/only.py").read_text("utf-8") == "two\n" and (workspace / "new.txt").exists()


async def test_trust_given_at_the_start_is_enough_for_everything(workspace: Path) -> None:
    put(workspace, AGENTS__md="RULES OF THE ROOT", src_0AGENTS__md="RULES OF SRC")
    yes = Answer(verdict="approve")
    async with serve(scenario("look", step("", call("read_file", path="src/a.py")), "ok"), strict=True) as server:
        watch = await talk(server, workspace, "look", trust=False, answer=lambda event: yes if isinstance(event, ApprovalRequested) else None)  # fmt: skip
    assert "RULES OF THE ROOT" in texts(server, 0)[0] and "Languages" in texts(server, 0)[0]
    assert rules_in(server) == 1 and watch.records
