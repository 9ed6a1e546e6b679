from __future__ import annotations

from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from tests.nightly import screen_formats
from tests.scenes import build, load
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import ToolResult
from tui_agent.tui.app import TuiAgentApp
from tui_agent.view.fold import fold_record
from tui_agent.view.items import ReplyItem, SessionView
from widgets.columns import Columns
from widgets.markdown import plain_title
from widgets.tool_tree import MAX_CHILDREN, MAX_RUNS, ToolTree


def tree(app: TuiAgentApp) -> ToolTree:
    return app.screen_stack[0].query_one(ToolTree)


def listed(app: TuiAgentApp) -> list[str]:
    lines = [tree(app).line_at(y) for y in range(len(tree(app).rows))]
    return [" ".join(line.text.split()) for line in lines if line]


async def test_it_shows_what_a_run_is_made_of() -> None:
    app, _session = app_for("tests_ok")
    async with run_app(app):
        assert listed(app) == [
            "✓ add a --json flag to the… 18 s",
            "✓ read 1 file, ran 1 search ▸",
            "✓ edit src/export.py +5 −2",
            "✓ run python -m pytest … 1.2 s",
        ]


async def test_each_step_of_the_plan_has_a_line_from_its_approval_on() -> None:
    app, session = app_for("plan_waits")
    records = load("steps_running")
    async with run_app(app) as pilot:
        assert listed(app)[1:] == ["? Planning waits ▸"]
        later = records[len(session.records) :]
        while later and not isinstance(later[0].event, e.StepVerified):
            session.records.append(later.pop(0))
        session.wake()
        await wait_until_rendered(pilot)
        assert [row[:18] for row in listed(app)[1:]] == [
            "● 1 Read the expor",
            "○ 2 Let export() w",
            "○ 3 Add the --json",
            "○ 4 Test both form",
        ]
        session.records += later
        session.wake()
        await wait_until_rendered(pilot)
        assert [row[:3] for row in listed(app)[1:]] == ["✓ 1", "● 2", "○ 3", "○ 4"]
        session.push(e.RunEnded(outcome="interrupted", text="Interrupted by the user."), run="run1")
        await wait_until_rendered(pilot)
        assert [row[:3] for row in listed(app)[1:]] == ["✓ 1", "■ 2", "⊘ 3", "⊘ 4"]
        assert listed(app)[-1].endswith("not executed")


async def test_a_step_opens_and_closes_with_its_replies_and_calls() -> None:
    app, _session = app_for("steps_recovered")
    async with run_app(app, (160, 40)) as pilot:
        closed = listed(app)
        assert [row[:4] for row in closed[1:]] == ["✓ 1 ", "✓ 2 ", "✓ 3 ", "✗ 4 ", "✓ 5 ", "✓ Ch"]
        await pilot.press("f4")
        await wait_for(pilot, lambda: tree(app).has_focus)
        await pilot.press("home", "down", "down", "enter")
        await wait_until_idle(pilot)
        assert [row.split("  ")[0] for row in listed(app)[3:6]] == [
            "✗ edit src/export.py",
            "· I'll write a module of its own. 2.4 s",
            "✓ write src/json_export.py +5 −2",
        ]
        await pilot.press("enter")
        await wait_until_idle(pilot)
        assert listed(app) == closed
        await pilot.click(ToolTree, offset=(8, 3))
        await wait_until_idle(pilot)
        assert "✗ edit src/export.py" in listed(app)


async def test_no_line_is_a_piece_of_a_reply_or_says_that_another_step_follows() -> None:
    scene = build.Scene().opened(mode="agent").ask("explain it")
    scene.enter("planning", "Planning").leave("planning", 300).enter("execution", "Execution").reply()
    call = scene.call("read_file", path="a.py")
    scene.end("", call).start(call, "a.py", reads_only=True).finish(call, ToolResult(success=True, data="x"), 40)
    scene.reply().end("```python\nprint(1)\n```\n\n## **Done**")
    app, _session = app_for(scene.records)
    async with run_app(app):
        assert [row[2:] for row in listed(app)[1:]] == ["read a.py"]


async def test_only_the_line_that_changed_is_painted() -> None:
    app, session = app_for("steps_running")
    async with run_app(app) as pilot:
        listed(app)
        painted: list[int] = []
        paint = tree(app)._paint

        def count(index: int, *rest: Any) -> Any:
            painted.append(index)
            return paint(index, *rest)

        tree(app)._paint = count
        session.push(
            e.StepVerified(met=True, expected="", actual="written", by="facts", ms=3), node="run1.s2", run="run1"
        )
        await wait_until_rendered(pilot)
        listed(app)
        nodes = app.view.tree.nodes
        assert {nodes[index].id for index in painted} == {"run1", "run1.s2"}


async def test_without_a_plan_a_batch_of_reads_is_one_line() -> None:
    app, _session = app_for("stages")
    async with run_app(app):
        assert listed(app)[1:] == ["● reading 3 files 2 s ▸"]


@pytest.mark.parametrize(
    ("scene", "shown"),
    [
        ("edit_asked", "? edit src/export.py waits"),
        ("rejected", "⊘ edit src/export.py refused"),
        ("tests_failed", "✗ run python -m pyt"),
        ("interrupted", "■ what does the exporter do?"),
        ("failed", "✗ add JSON output"),
        ("plan_planning", "● Planning"),
        ("summary_waits", "? Summary"),
    ],
)
async def test_every_state_has_a_symbol(scene: str, shown: str) -> None:
    app, _session = app_for(scene)
    async with run_app(app):
        assert any(row.startswith(shown) for row in listed(app)), listed(app)


async def test_it_never_takes_the_focus_and_gives_it_back() -> None:
    app, _session = app_for("stages")
    async with run_app(app) as pilot:
        await pilot.press("tab", "x")
        assert app.prompt.text == "x"
        await pilot.press("f4")
        await wait_for(pilot, lambda: tree(app).has_focus)
        await pilot.press("right")
        assert "✓ read src/main.py 0.3 s" in listed(app)
        await pilot.press("left", *"yz")
        await wait_for(pilot, lambda: app.prompt.text == "xyz")
        assert app.prompt.has_focus


async def test_enter_shows_the_thing_in_the_transcript() -> None:
    app, _session = app_for("tests_ok")
    async with run_app(app, (120, 24)) as pilot:
        await pilot.press("f4")
        await wait_for(pilot, lambda: tree(app).has_focus)
        await pilot.press("home", "down", "space", "down", "enter")
        await wait_for(pilot, lambda: app.prompt.has_focus)
        await wait_until_idle(pilot)
        assert "return TABLE[fmt](rows)" in screen_text(app)


async def test_below_a_hundred_columns_it_lies_over_the_transcript_on_demand() -> None:
    app, _session = app_for("tests_ok")
    async with run_app(app, (99, 24)) as pilot:
        assert not tree(app).display
        await pilot.press("f4")
        await wait_for(pilot, lambda: tree(app).has_focus)
        assert "read 1 file, ran 1" in screen_text(app)
        await pilot.press("escape")
        await wait_for(pilot, lambda: app.prompt.has_focus)
        assert not tree(app).display
        await pilot.resize_terminal(100, 24)
        await wait_for(pilot, lambda: tree(app).display)


async def test_a_command_hides_it() -> None:
    app, _session = app_for("tests_ok")
    async with run_app(app) as pilot:
        await pilot.press(*"/tree", "enter")
        await wait_for(pilot, lambda: not tree(app).display)
        assert app.screen.query_one(Columns).transcript.size.width > 100


async def test_lines_are_those_of_a_tree_laid_out_anew() -> None:
    for scene in ("stages", "command_running"):
        app, session = app_for(build.SCENES[scene]().records)
        records, session.records = session.records, []
        async with app.run_test(size=(120, 40)) as pilot:
            for record in records:
                session.records.append(record)
                session.wake()
                await wait_until_rendered(pilot)
            rows = list(tree(app).rows)
            tree(app)._lay_out()
            assert rows == tree(app).rows, scene
            app.exit(0)


def many(runs: int, calls: int) -> list[e.Record]:
    scene = build.Scene().opened()
    for _run in range(runs):
        scene.ask("go on").reply()
        for _call in range(calls):
            call = scene.call("edit_file", path="a")
            scene.start(call, "a").finish(call, ToolResult(success=True))
        scene.done()
    return scene.records


async def test_lines_are_bounded() -> None:
    app, _session = app_for(many(MAX_RUNS + 20, 1))
    async with run_app(app):
        assert len(tree(app).rows) <= MAX_RUNS + 5
    app, _session = app_for(many(1, MAX_CHILDREN + 50))
    async with run_app(app):
        assert len(tree(app).rows) <= MAX_CHILDREN + 5


def test_what_was_open_when_the_session_ended_is_interrupted() -> None:
    scene = build.stages()
    scene.run = ""
    view = SessionView()
    for record in scene.emit(e.SessionRecovered(), node="").records:
        fold_record(view, record)
    assert not view.tree.running
    assert {node.status for node in view.tree.nodes} == {"ok", "interrupted"}


@pytest.mark.parametrize(("size", "theme"), screen_formats())
def test_progress(size: tuple[int, int], theme: str, snap_compare) -> None:
    app, _session = app_for("stages", theme=theme)

    async def visit(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await pilot.press("f4")
        await wait_for(pilot, lambda: tree(app).has_focus)
        await pilot.press("right")
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=visit)


async def test_letters_that_are_typed_at_once_go_to_the_composer_in_their_order() -> None:
    app, _session = app_for("tests_ok")
    async with run_app(app) as pilot:
        await pilot.press("f4")
        await wait_for(pilot, lambda: isinstance(app.focused, ToolTree))
        for character in "and then a longer text":
            app.post_message(events.Key("space" if character == " " else character, character))
        await wait_for(
            pilot, lambda: app.focused is app.prompt and len(app.prompt.text) == len("and then a longer text")
        )
        assert app.prompt.text == "and then a longer text"


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_keys_that_follow_f4_at_once_are_sent_from_the_composer(size: tuple[int, int]) -> None:
    app, session = app_for("tests_ok")
    async with run_app(app, size) as pilot:
        for key in ("f4", "up", "down", *"typed on"):
            app.post_message(events.Key("space" if key == " " else key, key if len(key) == 1 else None))
        await wait_for(pilot, lambda: app.prompt.text == "typed on")
        await wait_until_idle(pilot)
        await pilot.press("enter")
        await wait_for(pilot, lambda: [text for text, _ in session.sent] == ["typed on"])


@pytest.mark.parametrize("back", ["f4", "escape"])
async def test_keys_that_follow_the_way_back_at_once_are_the_composers(back: str) -> None:
    app, session = app_for("tests_ok")
    async with run_app(app) as pilot:
        await pilot.press(*"sent")
        await pilot.press("f4")
        await wait_for(pilot, lambda: isinstance(app.focused, ToolTree))
        for key in ("up", back, "enter"):
            app.post_message(events.Key(key, "\r" if key == "enter" else None))
        await wait_for(pilot, lambda: [text for text, _ in session.sent] == ["sent"])
        assert app.focused is app.prompt and session.interrupts == 0


async def test_enter_that_follows_f4_at_once_is_for_the_tree() -> None:
    app, session = app_for("tests_ok")
    async with run_app(app) as pilot:
        await pilot.press(*"draft")
        for key in ("f4", "home", "enter", *"on", "enter"):
            app.post_message(events.Key(key, {"enter": "\r"}.get(key, key)))
        await wait_for(pilot, lambda: bool(session.sent))
        assert session.sent[0][0] == "drafton"


async def test_the_footer_names_the_keys_of_the_panel_that_has_the_focus() -> None:
    app, _session = app_for("tests_ok")
    async with run_app(app) as pilot:
        assert screen_text(app).splitlines()[-1].split()[:2] == ["enter", "send"]
        await pilot.press("f4")
        await wait_until_idle(pilot)
        assert screen_text(app).splitlines()[-1].split()[:4] == ["enter", "open", "esc", "back"]
        await pilot.press("escape")
        await wait_until_idle(pilot)
        assert screen_text(app).splitlines()[-1].split()[:2] == ["enter", "send"]


async def test_a_growing_reply_is_not_read_as_markdown_with_each_token() -> None:
    app, _session = app_for("streaming")
    async with run_app(app) as pilot:
        node = next(node for node in app.view.tree.nodes if node.status == "running" and _is_reply(app, node.item))
        reply = app.view.items[node.item]
        assert isinstance(reply, ReplyItem)
        tree(app)._reply_text(node)
        before = plain_title.cache_info().misses
        for word in ["**some**", " more", " words", "\n\nnext", " line", " of", " it"] * 5:
            reply.text.add(word)
            tree(app)._reply_text(node)
        assert plain_title.cache_info().misses <= before + 2
        await wait_until_idle(pilot)


def _is_reply(app: TuiAgentApp, item: int) -> bool:
    return item >= 0 and isinstance(app.view.items[item], ReplyItem)
