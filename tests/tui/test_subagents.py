from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.nightly import crossed
from tests.scenes import load
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tests.tui.test_tree import listed, tree
from tui_agent import events as e
from tui_agent.common.domain import Mode
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.commands import MODES

SIZES = {"80x24": (80, 24), "120x40": (120, 40)}


async def in_the_tree(pilot: Pilot[int], *keys: str) -> None:
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    await wait_until_rendered(pilot)
    await pilot.press("f4")
    await wait_for(pilot, lambda: tree(app).has_focus)
    await pilot.press(*keys)
    await wait_until_idle(pilot)


async def test_what_sub_agents_do_is_nested_below_them_and_folds_when_they_end() -> None:
    app, session = app_for("subagents_running")
    async with run_app(app, (160, 40)) as pilot:
        rows = listed(app)
        assert rows[2:] == [
            "✓ Review parsers — how rows are… 5.4 s ▸",
            "● Review storage — how files are wr… 7 s",
            "· The store first, then what ca… 2.3 s",
            "✓ list src 0.1 s",
            "● reading 3 files 4 s ▸",
            "● Review network — retries and time… 7 s",
            "✓ search retry 3.1 s",
        ]
        assert "running 2 sub-agents" in screen_text(app)
        transcript = app.transcript
        assert "src/reader.py" not in screen_text(app) and "Where are the rows" not in screen_text(app)
        await in_the_tree(pilot, "home", "down", "down", "right", "down", "enter")
        await wait_until_idle(pilot)
        assert "│ ▾ Thought for 2.1 s" in screen_text(app) and "Where are the rows read?" in screen_text(app)
        shown = [block for block in transcript.blocks if block.nested]
        assert [block.open for block in shown].count(True) == 1
        session.push(e.RunEnded(outcome="interrupted", text="Interrupted by the user."), run="run1")
        await wait_until_rendered(pilot)
        assert listed(app)[-1].startswith("■ Review network") and listed(app)[-1].endswith("▸")


async def test_a_key_stops_the_sub_agent_of_the_line_alone() -> None:
    app, session = app_for("subagents_running")
    async with run_app(app) as pilot:
        await in_the_tree(pilot, "end")
        assert "x stops it" not in listed(app)[-1]  # a call of it
        await pilot.press("x")
        assert session.subagents.stopped == ["c3"]
        await pilot.press("up")
        await wait_until_idle(pilot)
        assert "x stops it" in listed(app)[-2]
        await pilot.press("home", "down", "down", "x")  # this one has ended: a letter like any other
        await wait_for(pilot, lambda: not tree(app).has_focus)
        assert app.prompt.text == "x" and session.subagents.stopped == ["c3"]


async def test_a_key_goes_from_mode_to_mode_and_looking_modes_have_a_badge() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        assert MODES[:2] == (Mode.AGENT, Mode.PLAN)  # planning is one key away
        for before, after in zip(MODES, [*MODES[1:], Mode.AGENT], strict=True):
            session.push(e.ModeChanged(mode=before, approval_mode="ask"))
            await wait_until_rendered(pilot)
            assert (f"◇ {before} · ask" in screen_text(app)) is before.reads_only
            await pilot.press("alt+m")
            await wait_until_idle(pilot)
            assert session.modes[-1] == (after, None)


def test_a_batch_is_named_by_its_kind() -> None:
    from widgets import tool_tree

    def title(*names: str, going: bool = True) -> str:
        from tui_agent.common.domain import ToolCall
        from tui_agent.view.items import ToolItem

        tools = [ToolItem(str(n), ToolCall(id=str(n), name=name, arguments={}), f"{n}") for n, name in enumerate(names)]
        return tool_tree.batch_title(tools, going)

    assert title("read_file", "read_file") == "reading 2 files"
    assert title("search_workspace", "search_workspace", going=False) == "ran 2 searches"
    assert title("find_references", "get_hover_info", "read_file") == "analyzing code, 3 questions"
    assert title("edit_file", "write_file") == "editing 2 files"
    assert title("run_terminal_command", "run_terminal_command", going=False) == "ran 2 commands"
    assert title("get_document_symbols", "get_document_symbols") == "inspecting 2 files"
    assert title("find_symbol", "search_workspace", going=False) == "ran 2 searches"
    mixed = ("read_file", "search_workspace", "read_file", "list_files")
    assert title(*mixed, going=False) == "read 2 files, ran 1 search, listed 1 folder"
    assert title("read_file", "new_tool", "search_workspace") == "reading 1 file, running 1 search, 1 more"
    assert title("new_tool", "new_tool") == "looking at 2 things"


@pytest.mark.parametrize(("scene", "size"), crossed(["subagents_running", "subagents_done"], SIZES))
def test_in_the_transcript(scene: str, size: tuple[int, int], snap_compare) -> None:
    app, _session = app_for(scene)
    assert snap_compare(app, terminal_size=size, run_before=wait_until_rendered)


KEYS = {
    "running": ("up", "up", "up", "up", "up"),
    "done": ("home", "down", "down", "right", "down", "down", "down", "right"),
}


@pytest.mark.parametrize(("name", "size"), crossed(list(KEYS), SIZES))
def test_in_the_tree(name: str, size: tuple[int, int], snap_compare) -> None:
    app, _session = app_for(f"subagents_{name}")

    async def press(pilot: Pilot[int]) -> None:
        await in_the_tree(pilot, *KEYS[name])

    assert snap_compare(app, terminal_size=size, run_before=press)


@pytest.mark.parametrize(("mode", "size"), crossed(["agent", "deep-explore"], SIZES))
def test_the_badge_of_a_mode(mode: str, size: tuple[int, int], snap_compare) -> None:
    records = load("answered")
    changed = e.ModeChanged(mode=mode, approval_mode="ask")
    last = records[-1]
    from msgspec.structs import replace

    records.append(replace(last, seq=last.seq + 1, event=changed, run="", node="", parent=""))
    app, _session = app_for(records)
    assert snap_compare(app, terminal_size=size, run_before=wait_until_rendered)
