from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.doubles.session import FakeSession
from tests.storage.samples import story_records, write_journal
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common import paths
from tui_agent.tui import commands

REPLY = "Two of them:\n\n```py\none = 1\nand_more = 2\n```\n\nand\n\n```sh\nls -l\n```\n"
HELPERS = ("TMUX", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")


async def test_a_reply_its_code_the_plan_and_all_of_it_can_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in HELPERS:
        monkeypatch.delenv(name, raising=False)
    app, session = app_for("answered")
    async with run_app(app) as pilot:

        async def does(name: str, words: str, says: str) -> None:
            commands.execute_command(app, name, words)
            await wait_for(pilot, lambda: says in " ".join(screen_text(app).split()))
            await wait_until_idle(pilot)

        session.push(e.ReplyStarted(model="m", iteration=1, messages=1, estimate=1), node="r99")
        session.push(e.ReplyEnded(text=REPLY), node="r99")
        session.push(e.PlanDocChanged(text="# Plan: all of it", by="user"))
        await wait_until_rendered(pilot)
        await does("copy", "code 1", "code block 1 of 2 · sent 20 characters to the terminal, unconfirmed")
        assert app.clipboard.strip() == "one = 1\nand_more = 2"
        await does("copy", "code", "code block 2 of 2 · sent")
        assert app.clipboard.strip() == "ls -l"
        await does("copy", "code 3", "that reply has 2 code blocks")
        await does("copy", "code no", "the number of a code block")
        await does("copy", "everything", "use /copy with code N, plan or all")
        await does("copy", "plan", "plan · sent")
        assert app.clipboard == "# Plan: all of it"
        await does("copy", "all", "not copied: the session can't be read")
        folder = paths.sessions_dir() / FakeSession().id
        folder.mkdir(parents=True)
        write_journal(folder / "events.jsonl", story_records())
        await does("copy", "all", "the session · sent")
        assert app.clipboard.startswith("# ") and "I'll read it first." in app.clipboard
        await does("export", f"{tmp_path}/it.html", "written to")
        assert (tmp_path / "it.html").read_text().startswith("<!DOCTYPE html>")
        await does("export", f"markdown {tmp_path}/it.html", "already exists")
        await does("export", f"{tmp_path}/none/it", "There is no folder")
        shutil.rmtree(folder)
        session.on_saving("Saving events.jsonl failed: No such file or directory")
        offer = "/export FILE saves the session elsewhere"
        await wait_for(pilot, lambda: offer in " ".join(screen_text(app).split()))
        await does("export", f"{tmp_path}/kept.md", "written to")
        assert "one = 1" in (tmp_path / "kept.md").read_text()
        session.on_saving(None)
