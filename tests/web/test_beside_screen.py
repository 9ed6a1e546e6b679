from __future__ import annotations

from pathlib import Path

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import run_session, session_options
from tests.tui.kit import wait_for, wait_until_idle
from tests.web.kit import PageClient
from tui_agent.engine.opening import open_session
from tui_agent.engine.session import Session
from tui_agent.tui import web
from tui_agent.tui.app import TuiAgentApp
from widgets.approval_modal import ApprovalModal
from widgets.info_panels import LinkPanel


async def test_the_page_of_the_running_session_and_a_second_browser_see_the_same(tmp_path: Path) -> None:
    write = scenario(
        ["one", "two"],
        step("first", call("write_file", path="a.txt", content="a\n")),
        step("second", call("write_file", path="b.txt", content="b\n")),
        "both are there",
    )
    async with serve(write) as server:

        async def opening() -> Session:
            return await open_session(session_options(server, tmp_path))

        app = TuiAgentApp(opening, quiet_seconds=0.0)
        async with app.run_test(size=(100, 36)) as pilot:
            await wait_for(pilot, lambda: app.session is not None and app.view.id != "")
            await pilot.press(*"/web", "enter")
            await wait_for(pilot, lambda: isinstance(app.screen, LinkPanel))
            assert isinstance(app.screen, LinkPanel)
            link = app.screen.link
            assert link.startswith("http://127.0.0.1:") and "#" in link
            page_server = web._SERVED[app][0]
            page, other = PageClient(app.session, page_server), PageClient(app.session, page_server)
            await page.enter(link)
            await other.enter()
            await pilot.press("escape")
            async with page.events() as left, other.events() as right:
                assert (
                    await other.http.post("/chat", json={"message": "one"}, headers={"Accept": "application/json"})
                ).status_code == 202
                asked = await left.until("approval.asked")
                await wait_for(pilot, lambda: isinstance(app.screen, ApprovalModal))
                assert (await page.post("/answer", id=asked.data["data"]["id"], verdict="approve")).status_code == 200
                # Closed here, it closes there; the next one is answered on the screen.
                asked = await right.until("approval.asked", why=asked.data["data"]["why"])
                await right.until("file.changed")
                again = await right.until("approval.asked")
                await wait_for(
                    pilot, lambda: getattr(getattr(app.screen, "request", None), "id", "") == again.data["data"]["id"]
                )
                await wait_until_idle(pilot)
                await pilot.press("a")
                for stream in (left, right):
                    await stream.until("approval.answered", id=again.data["data"]["id"])
                    await stream.until("done")
                assert [(e.name, e.data) for e in left.received] == [(e.name, e.data) for e in right.received]
            assert (tmp_path / "b.txt").read_text(encoding="utf-8") == "b\n"
            await pilot.press(*"/web stop", "enter")
            await wait_for(pilot, lambda: app not in web._SERVED)
            assert app.session is not None
            id = app.session.id
            await page.http.aclose()
            await other.http.aclose()
            await app.session.close()
        # And it goes on without a screen.
        async with run_session(server, None, resume=id) as session:
            await session.send("two")
            await session.interrupt()
            await session.wait()
