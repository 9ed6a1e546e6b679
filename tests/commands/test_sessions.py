from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from pathlib import Path

import pytest

from tests.doubles.job import make_workspace
from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session, session_options
from tests.storage.test_catalog import TALK, make
from tui_agent import events as e
from tui_agent.__main__ import main
from tui_agent.commands.arguments import command_parser
from tui_agent.commands.output import cell_width
from tui_agent.commands.sessions import time_ago
from tui_agent.common import paths
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOpenError
from tui_agent.storage import catalog

SECRET = "ghp_" + "a1B2" * 9
EDIT = {"flags": {"approval_mode": "auto-edit", "mode": "direct"}}
WORK = scenario(
    "work",
    step("Reading.", call("read_file", path="a.txt")),
    step("", call("edit_file", path="a.txt", old_string="two", new_string="TWO")),
    "All of it is done.",
)
MORE = scenario("more", step("", call("edit_file", path="a.txt", old_string="one", new_string="1")), "more done")


@pytest.fixture
def home() -> Path:
    return paths.data_dir()


def test_sessions_are_listed_for_this_folder_or_all(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["sessions"]) == 0
    assert "no session in this folder" in capsys.readouterr().err
    first = make(home, *TALK, workspace=tmp_path / "here")
    second = make(home, e.UserMessageAdded(id="m1", text=f"\x1b]0;x\x07 {SECRET}"), workspace=tmp_path / "gone")
    (second.path / "events.jsonl").rename(tmp_path / "moved")
    assert main(["sessions"]) == 0
    out = capsys.readouterr().out
    assert first.id in out and "Make the importer faster" in out and second.id not in out
    assert main(["sessions", "list", "--all"]) == 0
    out = capsys.readouterr().out
    assert first.id in out and second.id in out and "missing" in out
    assert main(["sessions", "--all", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["id"] for row in rows} == {first.id, second.id}
    row = next(row for row in rows if row["id"] == first.id)
    assert (row["title"], row["workspace"], row["running"]) == (
        "Make the importer faster",
        str(tmp_path / "here"),
        False,
    )
    assert main(["sessions", "-C", str(tmp_path / "gone")]) == 0
    assert second.id in capsys.readouterr().out


def test_a_search_shows_what_it_found(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = make(home, *TALK, e.ReplyEnded(text=f"the exporter has {SECRET}"), workspace=Path.cwd())
    assert main(["sessions", "search", "EXPORTER"]) == 0
    out = capsys.readouterr().out
    assert first.id in out and "now the exporter" in out and "Exporter done too." in out
    assert "⟨secret GitHub token, 40 characters⟩" in out and SECRET not in out
    assert main(["sessions", "search", "--json", "now", "exporter"]) == 0
    (hit,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (hit["id"], hit["hit"]) == (first.id, "now the exporter")
    assert main(["sessions", "search", "nowhere"]) == 1
    assert "Nothing found" in capsys.readouterr().err


def test_ids_are_told_by_their_beginning(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = make(home, *TALK), make(home, *TALK)
    assert main(["sessions", "rename", first.id, "New", "name"]) == 0
    assert "“New name”" in capsys.readouterr().out
    assert catalog.read_entry(first.path).title == "New name"
    assert main(["sessions", "rename", first.id[:4], "x"]) == 2
    assert "2 session ids start with" in capsys.readouterr().err
    assert main(["sessions", "fork", "nothing"]) == 2
    assert "tui-agent sessions list --all" in capsys.readouterr().err
    assert main(["sessions", "delete", second.id, "--yes"]) == 0
    assert main(["sessions", "rename", first.id[:4], "alone"]) == 0
    assert main(["sessions", "rename", first.id, "\x1b[2J"]) == 1
    assert catalog.read_entry(first.path).title == "alone"


def test_a_fork_is_made_before_a_message(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = make(home, *TALK)
    assert main(["sessions", "fork", first.id, "--at", "2"]) == 0
    out = capsys.readouterr().out
    new = out.split()[0]
    assert f"tui-agent --resume {new}" in out
    assert [message.id for message in catalog.user_messages(catalog.read_entry(home / "sessions" / new))] == ["m1"]
    assert main(["sessions", "fork", first.id, "--at", "m1"]) == 0
    capsys.readouterr()
    for number in ("0", "3", "-1", "²", "x"):
        assert main(["sessions", "fork", first.id, f"--at={number}"]) == 2
        assert "its messages are 1 to 2" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [80, 120, 200])
@pytest.mark.parametrize("title", ["word" * 25, "漢字" * 50])
def test_titles_take_the_rest_of_the_line(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, title: str
) -> None:
    class FakeTerminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    monkeypatch.chdir(tmp_path)
    folder = make(home, e.UserMessageAdded(id="m1", text=title), workspace=tmp_path)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", FakeTerminal())
    assert main(["sessions"]) == 0
    out = sys.stdout
    assert isinstance(out, FakeTerminal)
    row = next(line for line in out.getvalue().splitlines() if folder.id in line)
    assert row.endswith(title) if columns == 200 and title.isascii() else columns - 1 <= cell_width(row) <= columns


def test_deleting_asks_a_person(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make(home, *TALK)

    class FakeTerminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert main(["sessions", "delete", first.id]) == 3
    assert "--yes" in capsys.readouterr().err
    for reply in ("", "n\n", "yesterday\n"):
        monkeypatch.setattr(sys, "stdin", FakeTerminal(reply))
        assert main(["sessions", "delete", first.id]) == 1
    assert "Make the importer faster" in capsys.readouterr().out
    assert first.path.exists()
    monkeypatch.setattr(sys, "stdin", FakeTerminal("y\n"))
    assert main(["sessions", "delete", first.id]) == 0
    assert not first.path.exists()


def test_an_export_replaces_nothing_unasked(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make(home, *TALK)
    monkeypatch.chdir(tmp_path)
    assert main(["sessions", "export", first.id]) == 0
    (exported,) = tmp_path.glob("session-*.md")
    assert exported.read_text().startswith("# Make the importer faster\n") and ":" not in exported.name
    assert exported.stat().st_mode & 0o777 == 0o600
    target = tmp_path / "it.html"
    target.write_text("mine")
    assert main(["sessions", "export", first.id, "-o", "it.html"]) == 1
    assert "--force" in capsys.readouterr().err and target.read_text() == "mine"
    assert main(["sessions", "export", first.id, "-o", "it.html", "--force"]) == 0
    assert target.read_text().startswith("<!DOCTYPE html>")
    assert main(["sessions", "export", first.id, "-o", "none/it.html"]) == 1
    assert "no folder none" in capsys.readouterr().err
    (tmp_path / "out").mkdir()
    assert main(["sessions", "export", first.id, "-o", "out", "--format", "html"]) == 0
    assert [path.suffix for path in (tmp_path / "out").iterdir()] == [".html"]
    (tmp_path / "link.md").symlink_to(target)
    assert main(["sessions", "export", first.id, "-o", "link.md"]) == 1
    capsys.readouterr()
    (first.path / "events.jsonl").unlink()
    assert main(["sessions", "export", first.id, "-o", "gone.md"]) == 1
    assert "tui-agent: " in capsys.readouterr().err and not (tmp_path / "gone.md").exists()


def test_secrets_of_the_environment_are_masked(
    home: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make(home, e.UserMessageAdded(id="m1", text="the password is hunter2-hunter2, é"))
    monkeypatch.setenv("DEPLOY_PASSWORD", "hunter2-hunter2")
    for form in ("markdown", "html"):
        with open(os.dup(1), "w", encoding="ascii") as out:
            monkeypatch.setattr(sys, "stdout", out)
            assert main(["sessions", "export", first.id, "-o", "-", "--format", form]) == 0
        text = capfdbinary.readouterr().out.decode()
        assert "⟨secret DEPLOY_PASSWORD, 15 characters⟩, é" in text and "hunter2" not in text


def test_wrong_usage_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["foo"],
        ["rename", "x"],
        ["search"],
        ["list", "--all", "-C", "x"],
        ["export", "x", "--format", "pdf"],
    ):
        with pytest.raises(SystemExit) as exit_:
            main(["sessions", *arguments])
        assert exit_.value.code == 2
    with pytest.raises(SystemExit) as exit_:
        main(["sessions", "--help"])
    assert exit_.value.code == 0
    assert "export" in capsys.readouterr().out
    assert [time_ago(seconds) for seconds in (-5, 59, 60, 3_600, 90_000, 200_000)] == [
        "just now",
        "just now",
        "1 min ago",
        "1 h ago",
        "25 h ago",
        "2 days ago",
    ]


async def test_a_running_session_is_forked_and_both_go_on(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_workspace(tmp_path / "work")
    (folder / "a.txt").write_text("one\ntwo\n")
    async with serve(WORK, MORE, strict=True) as server:
        async with run_session(server, folder, **EDIT) as session:
            await session.send("work")
            await SessionDriver(session).ended()
            assert await asyncio.to_thread(main, ["sessions", "delete", session.folder.name, "--yes"]) == 1
            assert await asyncio.to_thread(main, ["sessions", "rename", session.folder.name, "x"]) == 1
            assert "Rename it once it has ended" in capsys.readouterr().err
            forked = await open_session(
                session_options(server, None, flags=EDIT["flags"], resume=session.folder.name, fork=True)
            )
            try:
                assert forked.title == "work (fork)" and forked.folder != session.folder
                await forked.send("more")
                await SessionDriver(forked).ended()
                assert (folder / "a.txt").read_text() == "1\nTWO\n"
                for run in ("run-2", "run-1"):  # the snapshots from before the fork exist too
                    assert not (await forked.checkpoints.undo(run=run)).left
                assert (folder / "a.txt").read_text() == "one\ntwo\n"
            finally:
                await forked.close()
            original = session.folder
        assert [message.text for message in catalog.user_messages(catalog.read_entry(original))] == ["work"]
        assert await asyncio.to_thread(main, ["sessions", "rename", original.name, "Renamed"]) == 0
        async with run_session(server, None, **EDIT, resume=original.name) as resumed:
            assert resumed.title == "Renamed"
        with pytest.raises(SessionOpenError, match="No session"):
            await open_session(session_options(server, None, resume="none", fork=True))
        count = len(catalog.list_sessions(paths.data_dir()))
        with pytest.raises(SessionOpenError):
            await open_session(
                session_options(server, None, flags={"base_url": "ftp://nowhere"}, resume=original.name, fork=True)
            )
        assert len(catalog.list_sessions(paths.data_dir())) == count, "a failed start leaves no copy"


def test_a_fork_can_be_asked_for_at_the_start() -> None:
    args = command_parser("").parse_args(["--fork", "2026"])
    assert args.fork == "2026" and args.resume is None
    with pytest.raises(SystemExit):
        command_parser("").parse_args(["--fork", "2026", "--continue"])
