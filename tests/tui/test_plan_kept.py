from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.doubles.session import FakeSession
from tests.scenes.build import PLAN
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.paths import sessions_dir
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.edit_drafts import PLAN_FILE
from widgets.plan_panel import PlanPanel
from widgets.request_view import SAVE_DELAY, RequestModal

HINT = "you have an unfinished plan edit"


def panel(app: TuiAgentApp) -> PlanPanel:
    return app.screen_stack[0].query_one(PlanPanel)


def folder_of(session: FakeSession) -> Path:
    folder = sessions_dir() / session.id
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def type_into(pilot: Pilot[int], *keys: str) -> None:
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    await pilot.press("f3")
    await wait_for(pilot, lambda: panel(app).has_keys)
    await pilot.press(*keys)


def says(file: Path, text: str) -> bool:
    return file.exists() and text in file.read_text(encoding="utf-8")


async def crashed(*keys: str, text: str, size: tuple[int, int] = (120, 40)) -> Path:
    """An app that ended in the middle of an edit; the file in which it was kept."""
    app, session = app_for("plan")
    file = folder_of(session) / PLAN_FILE
    async with run_app(app, size) as pilot:
        await type_into(pilot, *keys)
        await wait_for(pilot, lambda: says(file, text))
    assert SAVE_DELAY < 1
    return file


async def test_an_edit_survives_a_crash() -> None:
    file = await crashed("down", "e", *" twice", text="flag twice")
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: HINT in screen_text(app))
        assert app.prompt.has_focus  # it is offered, and takes nothing
        assert panel(app)._field.text.endswith("flag twice")
        await pilot.press(*"hi")
        assert app.prompt.text == "hi"
        await type_into(pilot, *" over", "enter")
        await wait_for(pilot, lambda: session.plans != [])
        assert session.plans == [PLAN.replace("accepts the flag", "accepts the flag twice over")]
        await wait_for(pilot, lambda: not file.exists())

    calm, _session = app_for("plan")
    async with run_app(calm) as pilot:
        assert panel(calm).draft is None
        assert HINT not in screen_text(calm)


async def test_what_was_added_and_its_note_survive_a_crash() -> None:
    file = await crashed("a", *"a man page", "tab", *"ask Grace", text="ask Grace")
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: HINT in screen_text(app))
        assert "new note" in screen_text(app)
        await type_into(pilot, "enter")
        await wait_for(pilot, lambda: session.plans != [])
        assert "- [ ] a man page *(ask Grace)*\n" in session.plans[0]
        await wait_for(pilot, lambda: not file.exists())


async def test_the_goal_and_an_entry_of_the_log_survive_a_crash() -> None:
    await crashed("e", *" at last", text="at last")
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: HINT in screen_text(app))
        await type_into(pilot, "enter")
        await wait_for(pilot, lambda: session.plans != [])
        assert "export command at last\n" in session.plans[0]
    await crashed("end", "e", *" here", text="export() here")
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: HINT in screen_text(app))
        await type_into(pilot, "enter")
        await wait_for(pilot, lambda: session.plans != [])
        assert "callers of export() here" in session.plans[0]


async def test_leaving_it_drops_it() -> None:
    file = await crashed("down", "e", *" twice", text="flag twice")
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: HINT in screen_text(app))
        await type_into(pilot, "escape")
        await wait_for(pilot, lambda: not file.exists())
        assert session.plans == []


async def test_on_a_narrow_screen_it_waits_behind_the_key() -> None:
    await crashed("down", "e", *" twice", text="flag twice", size=(80, 24))
    app, session = app_for("plan")
    async with run_app(app, (80, 24)) as pilot:
        await wait_for(pilot, lambda: HINT in screen_text(app))
        assert not panel(app).display
        await type_into(pilot, *"!", "enter")
        await wait_for(pilot, lambda: session.plans != [])
        assert "accepts the flag twice!\n" in session.plans[0]


async def test_it_survives_a_resize_and_a_dialog_and_a_crash_after_them() -> None:
    app, session = app_for("plan")
    file = folder_of(session) / PLAN_FILE
    async with run_app(app) as pilot:
        await type_into(pilot, "down", "e", *" one")
        await pilot.resize_terminal(80, 24)
        await wait_for(pilot, lambda: app.size.width == 80)
        await wait_until_rendered(pilot)
        session.push(e.QuestionAsked(id="q9", question="Which?", options=("this", "that")))
        await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await wait_for(pilot, lambda: says(file, "flag one"))
    app, session = app_for("plan")
    async with run_app(app) as pilot:
        await wait_for(pilot, lambda: HINT in screen_text(app))
        assert "accepts the flag" in screen_text(app)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"id": "plan"}',
        '{"id": "plan", "draft": {"kind": "criterion"}}',
        '{"id": "another", "draft": {"kind": "goal"}}',
    ],
)
async def test_what_makes_no_sense_is_none(text: str) -> None:
    app, session = app_for("plan")
    (folder_of(session) / PLAN_FILE).write_text(text, encoding="utf-8")
    async with run_app(app) as pilot:
        await wait_until_rendered(pilot)
        assert panel(app).draft is None


@pytest.mark.parametrize(
    "odd",
    [
        {"kind": "own"},
        {"section": "own"},
        {"section": None},
        {"number": 7},
        {"texts": {"description": 3}},
        {"texts": {"title": "x"}},
        {"old": {"title": "x"}},
    ],
)
async def test_a_kept_edit_that_does_not_fit_is_none(odd: dict[str, object]) -> None:
    file = await crashed("down", "e", *" twice", text="flag twice")
    kept = json.loads(file.read_text(encoding="utf-8"))
    kept["draft"] |= odd
    file.write_text(json.dumps(kept), encoding="utf-8")
    app, _session = app_for("plan")
    async with run_app(app) as pilot:
        await wait_until_rendered(pilot)
        assert panel(app).draft is None


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
def test_offered(size: tuple[int, int], snap_compare) -> None:
    app, session = app_for("plan")
    old = {"description": "the parser accepts the flag", "completed": True, "notes": ""}
    texts = {"description": "the parser accepts the flag twice", "notes": ""}
    before = {name: str(old[name]) for name in texts}
    draft = {"kind": "criterion", "section": "acceptance_criteria", "at": 0, "old": old}
    kept = {"id": "plan", "draft": draft | {"texts": texts, "before": before, "number": 0}}
    (folder_of(session) / PLAN_FILE).write_text(json.dumps(kept), encoding="utf-8")

    async def offered(pilot: Pilot[int]) -> None:
        await wait_for(pilot, lambda: HINT in screen_text(app))
        await wait_until_rendered(pilot)

    assert snap_compare(app, terminal_size=size, run_before=offered)
