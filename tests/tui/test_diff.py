from __future__ import annotations

from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_for
from tui_agent.common.domain import Diff, EditAction, Hunk
from tui_agent.events import Record
from tui_agent.tui.app import TuiAgentApp
from widgets.approval_modal import ApprovalModal
from widgets.diff_view import DiffView


def edit(lines: int) -> list[Record]:
    text = tuple(f"+def function_{number}(value): return {number}" for number in range(lines))
    hunk = Hunk(old_start=0, old_count=0, new_start=1, new_count=lines, lines=text)
    diff = Diff(path="big.py", kind="create", hunks=(hunk,), added=lines, removed=0)
    action = EditAction(path="/w/big.py", display="big.py", before=None, after="1" * 64, diff=diff)
    scene = build.Scene().opened().ask("write it").reply()
    call = scene.call("write_file", path="big.py")
    return scene.end("", call).start(call, "big.py").request(action, "ask").records


def dialog(app: TuiAgentApp) -> ApprovalModal:
    assert isinstance(app.screen, ApprovalModal)
    return app.screen


def colours(app: TuiAgentApp) -> set[object]:
    view = dialog(app).query_one(DiffView)
    found = view.line_at(0)
    assert found is not None
    return {segment.style.color for segment in found.segments if segment.style}


def functions_in(text: str) -> set[int]:
    return {number for number in range(200) if f"function_{number}(" in text}


async def test_every_line_is_in_reach_on_a_small_screen_and_only_then_approving_works() -> None:
    app, session = app_for(edit(200))
    async with run_app(app, (60, 20)) as pilot:
        await wait_for(pilot, lambda: dialog(app).armed)
        seen = functions_in(screen_text(app))
        await pilot.press("a")
        assert session.answers == []
        assert "changed lines not seen" in screen_text(app)
        view = dialog(app).query_one(DiffView)
        while dialog(app).unseen() or view.lines_below:
            seen |= functions_in(screen_text(app))
            await pilot.press("pagedown")
            await pilot.pause()
        seen |= functions_in(screen_text(app))
        assert seen == set(range(200))
        assert view.end_seen
        await pilot.press("a")
        await wait_for(pilot, lambda: len(session.answers) == 1)
