"""The README's screenshots, from scenes: `python -m tests.screenshots` writes `docs/screenshots/*.svg`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.tui.kit import app_for, wait_for, wait_until_idle, wait_until_rendered
from widgets.request_view import RequestModal

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
SHOTS = {"plan": "plan_waits", "edit": "edit_asked", "summary": "summary_waits"}
"""File → scene."""


async def shoot(name: str, scene: str) -> None:
    app, _session = app_for(scene)
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until_rendered(pilot)
        if any(one.proposal or one.summary for one in app.view.pending.values()):
            docking = app.dialogs.dock
            await wait_for(pilot, lambda: docking.panel is not None and docking.panel.is_mounted)
            await wait_until_idle(pilot)
            await wait_for(pilot, lambda: docking.panel is not None and docking.panel.armed)
        elif app.view.pending:
            await wait_for(pilot, lambda: isinstance(app.screen, RequestModal) and app.screen.armed)
        await wait_until_idle(pilot)
        text = app.export_screenshot(title="tui-agent")
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{name}.svg").write_text(text, encoding="utf-8")
        app.exit(0)


async def main() -> None:
    for name, scene in SHOTS.items():
        await shoot(name, scene)


if __name__ == "__main__":
    asyncio.run(main())
