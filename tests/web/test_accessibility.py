"""axe finds nothing in any state of the page, in both themes and on a phone (X4)."""

from __future__ import annotations

import os
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import scenario, serve, step
from tests.doubles.page_session import FakePageSession
from tests.scenes import load, names
from tests.web.kit import serve_fake_session, serve_session
from tests.web.windows import BROWSER_MARKS, BrowserPages, open_link, screenshot, wait_for
from tui_agent import events as e

pytestmark = BROWSER_MARKS

MARKDOWN = """# Title

#### Deep heading

- [x] done
- [ ] to do

| file | what it does for the whole program |
|---|---|
| internationalization.py | translates everything there is |

```python
x = 1  # a comment
```

> quoted [link](https://example.org/a)
"""


@cache
def axe_source() -> str:
    try:
        return (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        if os.environ.get("TUI_AGENT_CI") == "1":
            raise
        pytest.skip("needs axe-playwright-python")


async def violations(page: Any) -> list[str]:
    """What axe finds, as rule and element."""
    await page.evaluate(axe_source())
    result = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{each['id']}: {node['html'][:150]} {node['any'][0]['message'][:160] if node['any'] else ''}"
        for each in result["violations"]
        for node in each["nodes"]
    ]


async def check(page: Any, found: dict[str, list[str]], state: str) -> None:
    for look in ("light", "dark"):
        await page.emulate_media(color_scheme=look)
        await screenshot(page, f"axe-{state}-{look}")
        if problems := await violations(page):
            found[f"{state} {look}"] = problems


OFTEN = (
    "markdown",
    "edit_asked",
    "plan_conflict",
    "no_server",
    "command_asked",
    "summary_waits",
    "plan_waits",
    "plan_unsure",
    "question",
    "tests_failed",
    "queued",
)
"""States that are checked every time; the others nightly."""


@pytest.mark.parametrize(
    "scenes",
    [
        pytest.param(OFTEN, id="often"),
        pytest.param(tuple(sorted(set(names()) - set(OFTEN))), id="others", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.timeout(900)
async def test_axe_finds_nothing_in_any_state(scenes: tuple[str, ...], pages: BrowserPages) -> None:
    axe_source()
    found: dict[str, list[str]] = {}
    page: Any = await pages.window()
    for number, scene in enumerate(scenes):
        session = FakePageSession(
            e.UserMessageAdded(id="m", text="Show me"), e.ReplyEnded(text=MARKDOWN, thought="Hm.")
        )
        if scene != "markdown":
            session.records = load(scene)
        async with serve_fake_session(session) as client:
            size = {"width": 390, "height": 844} if number % 2 else {"width": 1280, "height": 800}
            await page.set_viewport_size(size)
            await open_link(page, client.page_server.link())
            await wait_for(page, "document.getElementById('mode').value !== '' && !document.querySelector('.loading')")
            await check(page, found, scene)
            if scene == "markdown":
                await page.set_viewport_size({"width": 390, "height": 844})
                await check(page, found, "markdown on a phone")
                await page.click("#show-plan")
                await check(page, found, "plan on a phone")
            await page.goto("about:blank")
    assert found == {}, "\n".join(f"{state}: {problem}" for state, problems in found.items() for problem in problems)


async def test_axe_finds_nothing_in_dialogs_lists_and_while_it_runs_or_is_disconnected(
    tmp_path: Path, pages: BrowserPages
) -> None:
    axe_source()
    found: dict[str, list[str]] = {}
    slow = scenario("slowly", step("first words " + "and more " * 40, pace=0.5))
    (tmp_path / "notes.md").write_text("x\n", encoding="utf-8")
    async with serve(slow) as server:
        async with serve_session(server, tmp_path) as client:
            page = await pages.open(client.page_server.link())
            await wait_for(page, "document.getElementById('mode').value !== ''")
            await check(page, found, "empty")
            for opener, state in (("#model", "models"), ("#sessions", "sessions")):
                await page.click(opener)
                await page.wait_for_selector("dialog")
                await check(page, found, state)
                await page.keyboard.press("Escape")
            for typed, name in (("/", "commands"), ("@", "files")):
                await page.fill("#message", "")
                await page.type("#message", typed)
                await page.wait_for_selector("#completion li")
                await check(page, found, name)
            await page.fill("#message", "/status")
            await page.press("#message", "Enter")
            await page.wait_for_selector(".command-reply")
            await page.fill("#message", "slowly")
            await page.press("#message", "Enter")
            await page.wait_for_selector(".reply >> text=first words")
            await check(page, found, "running")
            await page.fill("#message", "/no-such-command")
            await page.press("#message", "Enter")
            await page.wait_for_selector("#activity.message")
            await check(page, found, "error")
            await client.session.interrupt(at_once=True)
            await client.session.wait()
        await page.wait_for_selector("#connection >> text=/closed|lost/")
        await check(page, found, "disconnected")
    pages.messages[:] = [each for each in pages.messages if "400" not in each and "ERR_" not in each]
    assert found == {}, "\n".join(f"{state}: {problem}" for state, problems in found.items() for problem in problems)


SMALL_TARGETS = """() => [...document.querySelectorAll('button, select, summary, input, textarea, label:has(input), [role=option]')]
  .filter((each) => each.checkVisibility() && (each.matches('label') || !each.closest('label:has(input)')))
  .map((each) => [each.outerHTML.slice(0, 80), each.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.height < 43.9 || box.width < 43.9))
  .map(([html, box]) => `${html} ${Math.round(box.width)}x${Math.round(box.height)}`)"""
HIDDEN_CHOICES = """() => {
  const card = document.querySelector('.request').getBoundingClientRect();
  return [...document.querySelectorAll('.request .choices button')].filter((each) => each.checkVisibility())
    .filter((each) => each.getBoundingClientRect().bottom > card.bottom - 6).map((each) => each.textContent);
}"""
BROKEN_WORDS = """() => [...document.querySelectorAll('td, th')].filter((cell) => {
  const text = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (text.nextNode()) for (const word of text.currentNode.data.matchAll(/\\S+/g)) {
    const range = document.createRange();
    range.setStart(text.currentNode, word.index);
    range.setEnd(text.currentNode, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) return true;
  }
  return false;
}).map((cell) => cell.textContent)"""


async def test_a_phone_shows_whole_words_and_targets_for_fingers(pages: BrowserPages) -> None:
    page: Any = None
    for scene in ("edit_asked", "command_asked", "question"):
        session = FakePageSession()
        session.records = load(scene)
        session.tell(e.ReplyEnded(text=MARKDOWN, thought="Hm."))
        async with serve_fake_session(session) as client:
            page = await pages.window(size=(390, 844), touch=True)
            await open_link(page, client.page_server.link())
            await page.wait_for_selector(".request")
            await page.wait_for_selector("td", state="attached")
            await screenshot(page, f"phone-{scene}")
            assert await page.evaluate(SMALL_TARGETS) == []
            assert await page.evaluate(HIDDEN_CHOICES) == []
            assert await page.evaluate(BROKEN_WORDS) == []
            await page.goto("about:blank")


async def test_dialogs_and_lists_on_a_phone_have_targets_for_fingers(tmp_path: Path, pages: BrowserPages) -> None:
    (tmp_path / "notes.md").write_text("x\n", encoding="utf-8")
    async with serve() as server, serve_session(server, tmp_path) as client:
        page = await pages.window(size=(390, 844), touch=True)
        await open_link(page, client.page_server.link())
        assert await page.evaluate(SMALL_TARGETS) == []
        for opener in ("#model", "#sessions"):
            await page.tap(opener)
            await page.wait_for_selector("dialog")
            assert await page.evaluate(SMALL_TARGETS) == [], opener
            await page.tap("dialog .picker-head button")
            await page.wait_for_selector("dialog", state="detached")
        await page.tap("#show-plan")
        assert await page.evaluate(SMALL_TARGETS) == [], "plan"
        await page.tap("#hide-plan")
        for typed in ("/", "@"):
            await page.fill("#message", "")
            await page.type("#message", typed)
            await page.wait_for_selector("#completion li")
            assert await page.evaluate(SMALL_TARGETS) == [], typed
