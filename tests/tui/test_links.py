from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.doubles.terminal import Terminal
from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle
from tui_agent.platform.programs import editor_at_line
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.file_locator import FileLocator, file_in
from tui_agent.tui.link_opener import LinkList

TEXT = "The bug is in src/app.py:12, see `notes.md` and https://example.com/a_b. Not in missing.py:3 or ../out.py:1."


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("x\n" * 20)
    (folder / "notes.md").write_text("notes\n")
    (tmp_path / "out.py").write_text("outside\n")
    return folder


@asynccontextmanager
async def told(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[TuiAgentApp, Pilot[int], list[object]]]:
    """An app that shows `TEXT`, and what it opened."""
    opened: list[object] = []

    async def open_at_line(app: TuiAgentApp, path: str, line: int) -> None:
        opened.append((path, line))

    def open_browser(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("tui_agent.tui.external_editor.open_at_line", open_at_line)
    monkeypatch.setattr("tui_agent.tui.link_opener.open_browser", open_browser)
    app, _session = app_for(build.Scene().opened().ask("why").reply().write(TEXT).end(TEXT).done().records)
    async with run_app(app, (140, 30)) as pilot:
        app.view.workspace = str(workspace)
        app.transcript._relayout()
        app.transcript.repaint()
        await wait_until_idle(pilot)
        yield app, pilot, opened


async def click(app: TuiAgentApp, pilot: Pilot[int], text: str) -> None:
    rows = screen_text(app).split("\n")
    y = max(number for number, row in enumerate(rows) if text in row)  # below the progress tree
    await pilot.click(offset=(rows[y].index(text) + 1, y))
    await wait_until_idle(pilot)


async def test_a_click_on_a_place_opens_the_editor_there(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with told(workspace, monkeypatch) as (app, pilot, opened):
        await click(app, pilot, "src/app.py:12")
        await wait_for(pilot, lambda: opened == [(str(workspace / "src" / "app.py"), 12)])
        await click(app, pilot, "notes.md")
        await wait_for(pilot, lambda: opened[1:] == [(str(workspace / "notes.md"), 0)])
        await click(app, pilot, "missing.py:3")
        await click(app, pilot, "out.py:1")
        assert len(opened) == 2


async def test_a_file_that_is_gone_is_not_opened(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with told(workspace, monkeypatch) as (app, pilot, opened):
        (workspace / "notes.md").unlink()
        (workspace / "notes.md").symlink_to("/etc/passwd")
        await click(app, pilot, "notes.md")
        await wait_for(pilot, lambda: "no longer in the workspace" in screen_text(app))
        assert opened == []


async def test_a_url_shows_where_it_leads_before_it_opens(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with told(workspace, monkeypatch) as (app, pilot, opened):
        await click(app, pilot, "example.com/a_b. Not")
        assert "click again to open https://example.com/a_b" in screen_text(app)
        assert opened == []
        await click(app, pilot, "example.com/a_b. Not")
        assert opened == ["https://example.com/a_b"]


async def test_without_a_browser_the_url_is_copied(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with told(workspace, monkeypatch) as (app, pilot, _opened):
        monkeypatch.setattr("tui_agent.tui.link_opener.open_browser", lambda url: False)
        await click(app, pilot, "example.com/a_b. Not")
        await click(app, pilot, "example.com/a_b. Not")
        await wait_for(pilot, lambda: app.clipboard == "https://example.com/a_b")


async def test_a_key_lists_the_links_and_enter_opens_one(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with told(workspace, monkeypatch) as (app, pilot, opened):
        await pilot.press("alt+o")
        await wait_for(pilot, lambda: isinstance(app.screen, LinkList))
        await wait_until_idle(pilot)
        text = screen_text(app)
        assert all(name in text for name in ("src/app.py:12", "notes.md", "https://example.com/a_b"))
        await pilot.press("enter")
        await wait_for(pilot, lambda: opened == [(str(workspace / "src" / "app.py"), 12)])


async def test_without_links_the_key_says_so() -> None:
    app, _session = app_for("empty")
    async with run_app(app) as pilot:
        await pilot.press("alt+o")
        await wait_for(pilot, lambda: "there are no links" in screen_text(app))


@pytest.mark.parametrize(
    ("editor", "arguments"),
    [
        ("vim", ["+12", "/w/a.py"]),
        ("/usr/bin/nvim", ["+12", "/w/a.py"]),
        ("nano", ["+12", "/w/a.py"]),
        ("emacsclient", ["+12", "/w/a.py"]),
        ("code", ["--goto", "/w/a.py:12"]),
        ("subl", ["/w/a.py:12"]),
        ("hx", ["/w/a.py:12"]),
        ("zed", ["/w/a.py:12"]),
        ("pycharm", ["--line", "12", "/w/a.py"]),
        ("unheard-of", ["/w/a.py"]),
    ],
)
def test_editors_are_told_the_line(editor: str, arguments: list[str]) -> None:
    assert editor_at_line([editor, "--wait"], "/w/a.py", 12) == [editor, "--wait", *arguments]
    assert editor_at_line([editor], "/w/a.py") == [editor, "/w/a.py"]


def locator(folder: str, found: list[AbstractSet[str]], now: Callable[[], float] = time.monotonic) -> FileLocator:
    """Runs its jobs as tasks, and tells `found` what it finds."""
    tasks: list[asyncio.Task[None]] = []

    def run(job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        tasks.append(asyncio.create_task(job()))

    return FileLocator(lambda: folder, run, found.append, clock=now)


async def test_files_are_looked_for_in_a_thread_and_then_told(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()

    def look(folder: str, name: str) -> str:
        threads.add(threading.get_ident())
        return file_in(folder, name)

    monkeypatch.setattr("tui_agent.tui.file_locator.file_in", look)
    now, found = [0.0], list[AbstractSet[str]]()
    locate = locator(str(workspace), found, lambda: now[0])
    assert locate("src/app.py") == locate("missing.py") == "" and threads == set(), "it does not wait"
    await locate.settled()
    assert locate("src/app.py") == os.path.realpath(workspace / "src/app.py") and locate("missing.py") == ""
    assert found == [{"src/app.py"}] and threading.get_ident() not in threads and len(threads) == 1
    (workspace / "missing.py").write_text("")
    assert locate("missing.py") == "" and locate.is_idle, "just looked for"
    now[0] += 60
    assert locate("missing.py") == ""
    await locate.settled()
    assert locate("missing.py") and found[1:] == [{"missing.py"}]
    now[0] += 60
    locate("missing.py"), locate("src/app.py")
    await locate.settled()
    assert len(found) == 2, "nothing changed"


async def test_more_names_than_are_kept_are_no_links_and_cost_nothing(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui_agent.tui.file_locator.MAX_KNOWN", 3)
    now, found = [0.0], list[AbstractSet[str]]()
    locate = locator(str(workspace), found, lambda: now[0])
    for name in ("a", "b", "c", "notes.md"):
        locate(name)
    await locate.settled()
    assert locate("notes.md") == "" and locate.is_idle and found == []
    now[0] += 61
    locate("notes.md")
    await locate.settled()
    assert locate("notes.md") and found == [{"notes.md"}]


def test_only_files_of_the_workspace_are_found(workspace: Path) -> None:
    locate = partial(file_in, str(workspace))
    assert locate("src/app.py") == locate("./src/app.py") == locate(str(workspace / "src/app.py"))
    assert locate("src/app.py") == os.path.realpath(workspace / "src/app.py")
    (workspace / "link.py").symlink_to(workspace.parent / "out.py")
    for name in ("", "src", "../out.py", "link.py", "/etc/passwd", "a\0b", "x" * 500, "new.py"):
        assert locate(name) == "", name
    assert file_in("", "src/app.py") == ""


async def test_the_terminal_gets_hyperlinks_and_opens_the_editor(tmp_path: Path) -> None:
    """A real editor, a real click and the bytes of a real terminal."""
    script = tmp_path / "vim"
    script.write_text('#!/bin/sh\necho "opened $*"; sleep 0.3\n', encoding="utf-8")
    script.chmod(0o700)
    env = {"VISUAL": str(script), "TUI_AGENT_HOME": str(tmp_path / "home"), "PLACE": str(tmp_path)}
    (tmp_path / "app.py").write_text("x\n")
    terminal = Terminal("-m", "tests.tui.pty_app", "links", "told", size=(90, 30), env=env)
    try:
        await terminal.wait_for_text("app.py:12")
        target = f"file://{tmp_path}/app.py#12".encode()
        await terminal.wait_for_text(lambda: b";" + target + b"\x1b\\" in terminal.bytes)
        assert b";https://example.com/a\x1b\\" in terminal.bytes
        row = next(number for number, text in enumerate(terminal.text.split("\n")) if "app.py:12" in text)
        column = terminal.text.split("\n")[row].index("app.py:12")
        for letter in "Mm":
            terminal.type(f"\x1b[<0;{column + 2};{row + 1}{letter}")
        await terminal.wait_for_text(lambda: f"opened +12 {tmp_path}/app.py".encode() in terminal.bytes)
        await terminal.wait_for_text(lambda: b"for a change" in terminal.bytes.rpartition(b"opened +12")[2])
        terminal.type("\x04")
        assert await terminal.end() == 0
        assert terminal.is_sane()
    finally:
        terminal.close()


async def test_a_terminal_that_may_print_targets_gets_none(tmp_path: Path) -> None:
    env = {"TERM": "linux", "COLORTERM": "", "TUI_AGENT_HOME": str(tmp_path / "home"), "PLACE": str(tmp_path)}
    (tmp_path / "app.py").write_text("x\n")
    terminal = Terminal("-m", "tests.tui.pty_app", "links", "told", size=(90, 30), env=env)
    try:
        await terminal.wait_for_text("app.py:12")
        assert b"\x1b]8;" not in terminal.bytes
    finally:
        terminal.close()


async def test_the_list_of_links_speaks_of_links(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with told(workspace, monkeypatch) as (app, pilot, _opened):
        await pilot.press("alt+o")
        await wait_for(pilot, lambda: isinstance(app.screen, LinkList))
        await wait_until_idle(pilot)
        assert "enter open" in screen_text(app) and "enter run" not in screen_text(app)
        await pilot.press(*"zzzz")
        await wait_for(pilot, lambda: "no link matches" in screen_text(app))


def test_a_name_that_is_no_file_costs_one_look_and_asks_no_user_database(workspace: Path) -> None:
    looks: list[str] = []

    def note_call(_frame: object, event: str, called: object) -> None:
        name = getattr(called, "__name__", "")
        if event == "c_call" and name in ("stat", "lstat", "getpwnam"):
            looks.append(name)

    locate = partial(file_in, str(workspace))
    assert locate("notes.md") == str(workspace / "notes.md")
    sys.setprofile(note_call)
    try:
        assert locate("missing.py") == "" and locate("~root/x.py") == ""
        assert looks == ["stat", "stat"]
        assert locate("src/app.py") == str(workspace / "src" / "app.py")
    finally:
        sys.setprofile(None)
    below = len((workspace / "src" / "app.py").parts) - 1
    assert looks.count("lstat") == below  # the root is resolved once
