from __future__ import annotations

from tests.tui.kit import FakeClock, app_for, run_app, screen_text, wait_for
from tests.tui.test_plan_review import shown
from widgets.request_view import QUIET_SECONDS


async def test_it_is_said_why_an_alternative_is_not_taken_yet() -> None:
    clock = FakeClock()
    app, session = app_for("plan_unsure", quiet_seconds=QUIET_SECONDS, clock=clock)
    async with run_app(app, (100, 24)) as pilot:
        panel = await shown(pilot, armed=False)
        clock.arm_dialogs()
        await wait_for(pilot, lambda: panel.armed)
        assert panel.unseen() and len(panel.proposal.plan.alternatives)
        while panel.unseen():
            clock.arm_dialogs()
            panel.tell("")
            await pilot.press("1")
            await wait_for(pilot, lambda: "more line" in panel.note or "press 1 again" in panel.note)
        assert "press 1 again" in screen_text(app) and session.answers == []
        clock.arm_dialogs()
        await pilot.press("1")
        await wait_for(pilot, lambda: len(session.answers) == 1)
