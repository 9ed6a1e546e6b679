from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent.keys import keymap
from tui_agent.keys.key_names import key_label
from tui_agent.tui import commands
from tui_agent.tui.app import TuiAgentApp
from widgets.approval_modal import ApprovalModal
from widgets.info_panels import HelpPanel
from widgets.prompt_input import PromptInput
from widgets.ranking import Rank, rank

README = Path(__file__).resolve().parents[2] / "README.md"


def helped(app: TuiAgentApp) -> bool:
    return isinstance(app.screen, HelpPanel)


@pytest.mark.parametrize("key", ["f1", "question_mark"])
async def test_help_opens_and_closes(key: str) -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(key)
        await wait_for(pilot, lambda: helped(app))
        await wait_until_idle(pilot)
        assert "next approval mode" in screen_text(app)
        await pilot.press("escape")
        await wait_for(pilot, lambda: not helped(app))
        assert app.prompt.text == ""


async def test_a_question_mark_in_a_draft_is_one() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(*"why?")
        assert app.prompt.text == "why?"
        await pilot.press("f1")
        await wait_for(pilot, lambda: helped(app))


async def test_help_over_a_request_approves_nothing() -> None:
    app, session = app_for("edit_asked")
    async with run_app(app) as pilot:
        await pilot.press("f1")
        await wait_for(pilot, lambda: helped(app))
        await pilot.press("a", "s", "escape")
        await wait_for(pilot, lambda: isinstance(app.screen, ApprovalModal))
        assert session.answers == []


async def test_a_request_comes_before_the_help() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press("f1")
        await wait_for(pilot, lambda: helped(app))
        asked = next(one.event for one in build.trust().records if one.event.type == "approval.asked")
        session.push(asked)
        await wait_for(pilot, lambda: isinstance(app.screen, ApprovalModal))


async def test_a_command_is_found_by_its_letters_and_run() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(*"/apr", "tab", *"auto", "enter")
        await wait_for(pilot, lambda: session.modes == [(None, "auto")])
        assert app.prompt.text == ""
        assert session.sent == []
        await pilot.press(*"/quit", "enter")
        await wait_for(pilot, lambda: app.return_value == 0)


async def test_the_list_follows_the_draft_and_gives_it_back() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        app.preferences.bind_keys({"commands": ["f5"]})
        await pilot.press(*"draft", "f5")
        await wait_for(pilot, lambda: app._menu.display)
        await pilot.press("down", "escape")
        assert app.prompt.text == "draft"
        await wait_for(pilot, lambda: not app._menu.display)
        await pilot.press("ctrl+c", *"/etc/hosts is odd", "enter")
        await wait_for(pilot, lambda: session.sent == [("/etc/hosts is odd", False)])


async def test_compact_makes_room_in_the_context() -> None:
    app, session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press(*"/compact", "enter")
        await wait_for(pilot, lambda: "nothing to compact" in screen_text(app))
        assert session.compactions == 1
        assert session.sent == []


def test_names_are_ranked() -> None:
    texts = ("approvals", "app", "mode", "val", "avs", "what", "x")
    ranks = [rank("approvals-mode", text, "what needs approval") for text in texts]
    assert ranks == [Rank.PREFIX, Rank.PREFIX, Rank.WORD_START, Rank.SUBSTRING, Rank.LETTERS, Rank.DESCRIPTION, None]
    assert rank("base_url", "Base-URL") == Rank.EXACT
    assert rank("base_url", "url base") == Rank.SUBSTRING
    assert rank("mode", "me", letters=False) is None


def test_every_command_says_what_it_does() -> None:
    assert all(one.description and one.name.isalpha() and one.name in commands.COMMANDS for one in keymap.COMMANDS)


def test_the_readme_names_no_key_that_there_is_not() -> None:
    section = README.read_text(encoding="utf-8").partition("### Keys")[2].partition("\n## ")[0]
    cells = [row.split("|")[1] for row in section.split("\n") if row.startswith("| ")][1:]
    named = [key.strip().lower() for cell in cells for key in cell.replace("`", "").split(",")]
    known = {key_label(key).lower() for one in keymap.SESSION.actions for key in (*one.keys, *one.alternatives)}
    assert len(named) == len(set(named))  # each in one row
    assert set(named) <= known
    deciding = {key for one in keymap.CONTEXTS["approval"].actions for key in one.keys if len(key) == 1}
    assert deciding == set(re.findall(r"`(\w)`", section.partition("In an approval, ")[2]))


def test_the_readme_and_the_pages_name_no_command_that_there_is_not() -> None:
    known = {one.name for one in keymap.COMMANDS}
    named: set[str] = set()
    for page in (README, *(README.parent / "docs").glob("*.md")):
        named |= set(re.findall(r"(?<!POST )(?<!GET )(?<![\w./~*])/([a-z]{3,})\b(?![\w./])", page.read_text("utf-8")))
    assert {"undo", "rewind", "sessions", "mode"} <= named
    assert named - known == {"tmp", "new", "permissions"}  # a folder, and commands of other agents in keys.md


async def test_every_key_of_the_table_is_bound() -> None:
    app, _session = app_for("tests_ok")
    async with run_app(app):
        composer = app.query_one(PromptInput)
        bound = {key for place in (app, composer) for key in place._bindings.key_to_bindings}
        assert {key for one in keymap.SESSION.actions for key in one.keys} <= bound


@pytest.mark.parametrize(
    ("size", "theme"), [((80, 24), "light"), ((120, 40), "dark")], ids=["80x24-light", "120x40-dark"]
)
@pytest.mark.parametrize(("name", "pressed"), [("help", ("f1",)), ("commands", ("/",))])
def test_shown(name: str, pressed: tuple[str, ...], size: tuple[int, int], theme: str, snap_compare) -> None:
    app, _session = app_for("tests_ok", theme=theme)

    async def press(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await pilot.press(*pressed)
        await wait_for(pilot, lambda: helped(app) if name == "help" else app._menu.display)
        await wait_until_idle(pilot)
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=press)


async def test_the_help_is_searched_with_a_slash() -> None:
    app, _session = app_for("answered")
    async with run_app(app) as pilot:
        await pilot.press("f1")
        await wait_for(pilot, lambda: helped(app))
        await pilot.press("slash", *"approval", "space", *"mode")
        await wait_until_idle(pilot)
        text = screen_text(app)
        assert "Keys and commands  /approval mode" in text
        assert "next approval mode" in text
        assert "new line" not in text
        await pilot.press(*"zzq")
        await wait_until_idle(pilot)
        assert "no key or command matches" in screen_text(app)
        await pilot.press("escape")
        await wait_until_idle(pilot)
        assert helped(app) and "send" in screen_text(app)
        await pilot.press("escape")
        await wait_for(pilot, lambda: not helped(app))
        assert app.prompt.text == ""
