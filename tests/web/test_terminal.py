from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pyte
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.doubles.job import environment
from tests.web.kit import let_in
from tests.web.windows import shot, slowed
from tui_agent.commands.arguments import command_parser
from tui_agent.frontends.web import serving
from tui_agent.frontends.web.addresses import CannotServe, listen
from tui_agent.frontends.web.guard import Tickets
from tui_agent.frontends.web.running import repeated_arguments, screen_environment
from tui_agent.frontends.web.terminal import HANGUP_SECONDS, WEBSOCKET_MAX, Screen, ScreenPage, emulator_files
from tui_agent.platform import interactive

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATIENCE = 60.0
ECHO = """
import os, select, signal, sys, tty
def told(*_):
    size = os.get_terminal_size()
    os.write(1, b"size %dx%d\\n" % (size.columns, size.lines))
signal.signal(signal.SIGWINCH, told)
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"painted anew\\n"))
tty.setraw(0)
told()
while True:
    if not select.select([0], [], [], 0.05)[0]:  # a signal just before a wait is told behind it
        continue
    if not (data := os.read(0, 65536)):
        break
    os.write(1, b"got %d %s\\n" % (len(data), data[:20]))
    if data.endswith(b"q"):  # it may come together with what was typed before
        sys.exit(7)
"""
"""What stands in for the screen: it says its size and what is typed."""


class Shown:
    """A screen that is served, and what a browser that was let in sends."""

    def __init__(self, screen: Screen, serving: ScreenPage) -> None:
        self.screen = screen
        self.serving = serving

    @property
    def own(self) -> dict[str, str]:
        return {"Host": f"127.0.0.1:{self.serving.port}", "Origin": self.serving.address} | self.cookie()

    def cookie(self, token: str | None = None) -> dict[str, str]:
        return {"Cookie": f"{self.serving.cookie}={token or self.serving.tickets.token}"}

    def socket(self, headers: dict[str, str | None] | None = None, **more: Any) -> connect:
        """`headers` are sent instead of what a browser would send; None leaves one out."""
        sent: dict[str, str | None] = {**self.own, **(headers or {})}
        named = sent.pop("Host")
        return connect(
            f"ws://{named}/terminal?width=100&height=30", host="127.0.0.1", port=self.serving.port,
            additional_headers=[(name, value) for name, value in sent.items() if value is not None],
            proxy=None, user_agent_header=None, **more,
        )  # fmt: skip


@contextlib.asynccontextmanager
async def shown(hangup_seconds: float = HANGUP_SECONDS, program: str = ECHO) -> AsyncIterator[Shown]:
    argv = [sys.executable, "-I", "-S", "-c", program]
    screen = Screen(argv, cwd=Path("/"), environment={"PATH": os.environ["PATH"]}, hangup_seconds=hangup_seconds)
    serving = ScreenPage(screen, listen("127.0.0.1", 0))
    await serving.start()
    try:
        yield Shown(screen, serving)
    finally:
        await serving.stop()
        assert screen.pid is None


async def until(socket: ClientConnection, text: bytes) -> bytes:
    seen = b""
    async with asyncio.timeout(PATIENCE):
        while text not in seen:
            part = await socket.recv()
            seen += part if isinstance(part, bytes) else b""
    return seen


async def closed(socket: ClientConnection) -> int:
    async with asyncio.timeout(PATIENCE):
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.recv()
    assert socket.close_code is not None
    return socket.close_code


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quiet() -> AsyncIterator[Shown]:
    """A screen that nobody may begin."""
    async with shown() as one:
        yield one
        assert one.screen.pid is None, "whoever came, nothing was begun"


HOSTILE: dict[str, dict[str, str | None]] = {
    "no cookie": {"Cookie": None},
    "no token": {"Cookie": "{cookie}="},
    "wrong token": {"Cookie": "{cookie}=" + "x" * 43},
    "cookie of another run": {"Cookie": "{cookie}={other}"},
    "cookie of another port": {"Cookie": "tui_agent_1={token}"},
    "token as a header": {"Cookie": None, "Authorization": "Bearer {token}"},
    "no origin": {"Origin": None},
    "empty origin": {"Origin": ""},
    "foreign origin": {"Origin": "http://evil.test"},
    "origin null": {"Origin": "null"},
    "origin with another port": {"Origin": "http://127.0.0.1:1"},
    "origin with another name of ours": {"Origin": "http://localhost:{port}"},
    "origin with our name in it": {"Origin": "http://127.0.0.1:{port}.evil.test"},
    "origin with tls": {"Origin": "https://127.0.0.1:{port}"},
    "foreign host": {"Host": "evil.test", "Origin": "http://evil.test"},
    "foreign host with our port": {"Host": "evil.test:{port}", "Origin": "http://evil.test:{port}"},
    "rebound name": {"Host": "127.0.0.1.nip.io:{port}", "Origin": "http://127.0.0.1.nip.io:{port}"},
    "host with another port": {"Host": "127.0.0.1:1"},
    "from another site": {"Sec-Fetch-Site": "cross-site"},
    "from a sibling site": {"Sec-Fetch-Site": "same-site"},
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_foreign_socket_is_refused_and_begins_nothing(quiet: Shown, name: str) -> None:
    fill = {
        "port": quiet.serving.port, "cookie": quiet.serving.cookie, "token": quiet.serving.tickets.token,
        "other": Tickets().token,
    }  # fmt: skip
    headers = {key: None if one is None else one.format(**fill) for key, one in HOSTILE[name].items()}
    with pytest.raises(InvalidStatus) as told:
        async with quiet.socket(headers):
            pass
    without_token = "cookie" in name or "token" in name
    assert told.value.response.status_code == (401 if without_token else 403)
    assert quiet.screen.pid is None


async def test_the_page_has_a_policy_of_its_own_and_nothing_without_the_token(quiet: Shown) -> None:
    async with httpx.AsyncClient(base_url=quiet.serving.address, trust_env=False) as client:
        assert "door.js" in (await client.get("/")).text
        for name in ("terminal.js", "textual.js", "xterm.css", "terminal.html", "terminal"):
            assert (await client.get(f"/{name}")).status_code == 401
        ticket = quiet.serving.link().partition("#")[2]
        await let_in(client, quiet.serving.address, ticket)
        page = await client.get("/")
        policy = page.headers["content-security-policy"]
        assert "script-src 'self';" in policy and "frame-ancestors 'none'" in policy and "http" not in policy
        assert "http" not in page.text and '"textual.js"' in page.text
        assert "xterm" in (await client.get("/textual.js")).text
        assert (await client.get("/textual.js")).headers["content-type"].startswith("text/javascript")
        for name in ("terminal", "terminal.html", "../guard.py", "%2e%2e/guard.py"):
            assert (await client.get(f"/{name}")).status_code in (401, 404)
        assert (await client.post("/chat", json={"message": "x"})).status_code in (404, 405)


@pytest.mark.parametrize(
    "message",
    ["", "no json", "{}", "[]", "[1]", '["stdin"]', '["stdin", 1]', '["resize", {}]', '["resize", [1, 2]]',
     '["resize", {"width": "9", "height": true}]', '["run", "ls"]', '["stdin", "a", "b"]', b"bytes", "[" * 200_000],
    ids=lambda one: str(one[:30]),
)  # fmt: skip
async def test_what_the_page_never_says_closes_the_socket(quiet: Shown, message: str | bytes) -> None:
    async with shown() as one, one.socket() as socket:
        await socket.send(message)
        assert await closed(socket) == 1008


@pytest.mark.parametrize("parts", [1, 40], ids=["whole", "in parts"])
async def test_a_message_may_have_a_size(parts: int) -> None:
    async with shown() as one, one.socket(max_size=None) as socket:
        await until(socket, b"size 100x30")
        text = json.dumps(["stdin", "x" * WEBSOCKET_MAX])
        size = len(text) // parts + 1
        with contextlib.suppress(ConnectionClosed):
            await socket.send(text if parts == 1 else [text[at : at + size] for at in range(0, len(text), size)])
        assert await closed(socket) == 1009
        async with one.socket() as again:
            assert b"got" not in await until(again, b"painted anew"), "none of it was typed"


async def test_keys_sizes_a_new_page_and_the_end() -> None:
    async with shown() as one:
        async with one.socket() as first:
            await until(first, b"size 100x30")
            await first.send('["resize", {"width": 77, "height": 22}]')
            await until(first, b"size 77x22")
            await first.send('["resize", {"width": 999999, "height": -5}]')
            await until(first, b"size 1000x2")
            await first.send(json.dumps(["stdin", "ä" * 100_000]))
            await until(first, b"got ")
            pid = one.screen.pid
            async with one.socket() as second:
                assert await closed(first) == 4000, "the last one to come has it"
                seen = await until(second, b"painted anew")
                assert seen.startswith(b"\x1bc")
                assert one.screen.pid == pid
                await second.send('["ping", "1"]')
                await second.send('["focus"]')
        async with one.socket() as third:
            await until(third, b"painted anew")
            assert one.screen.pid == pid, "a page that is loaded anew goes on"
            await third.send('["stdin", "q"]')
            assert await closed(third) == 1000
        async with asyncio.timeout(PATIENCE):
            assert await one.screen.ended == 7
        async with one.socket() as late:
            assert await closed(late) == 1001
    assert pid is not None and not is_there(pid)


async def test_a_socket_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving.PageConnection, "head_seconds", 0.2)
    async with shown() as one, one.socket() as socket:
        await until(socket, b"size")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):  # five times as long as the head of a request may take
                await socket.recv()
        await socket.send('["stdin", "x"]')
        await until(socket, b"got 1")


async def test_without_a_browser_it_ends() -> None:
    async with shown(hangup_seconds=0.3) as one:
        async with one.socket() as socket:
            await until(socket, b"size")
            pid = one.screen.pid
        async with asyncio.timeout(PATIENCE):
            assert await one.screen.ended == -1, "hung up"
        assert one.screen.was_abandoned and pid is not None and not is_there(pid)


async def test_it_ends_with_the_server_even_when_it_does_not_want_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactive, "HANGUP_TIMEOUT", 0.3)
    stubborn = "import os, signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\nos.write(1, b'here')\nwhile True: signal.pause()"
    async with shown(program=stubborn) as one:
        async with one.socket() as socket:
            await until(socket, b"here")
        pid = one.screen.pid
    assert pid is not None and not is_there(pid)


@contextlib.asynccontextmanager
async def started(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """`tui-agent web --tui` on the demonstration, and the link that it shows."""
    home = folder / "home"
    home.mkdir()
    env = environment(home, TMPDIR=str(folder), TUI_AGENT_MODE="agent")
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tui_agent", "web", "--tui", "--demo", "--port", "0", env=env, cwd=home,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert program.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            told = (await program.stdout.readuntil(b"ends.\n")).decode()
        found = re.search(r"http://127\.0\.0\.1:\d+/#\S+", told)
        assert found is not None, told
        yield program, found[0]
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    async with asyncio.timeout(PATIENCE):
        while below(str(folder)):  # noqa: ASYNC110  # nothing tells of the end of a child of somebody else
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl+c", "kill"])
async def test_no_process_outlives_the_command(tmp_path: Path, number: signal.Signals) -> None:
    async with started(tmp_path) as (program, link):
        address, _, ticket = link.partition("/#")
        async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
            await let_in(client, address, ticket)
            ((name, token),) = client.cookies.items()
        headers = {"Origin": address, "Cookie": f"{name}={token}"}
        async with connect(
            f"{address}/terminal".replace("http", "ws"), additional_headers=headers, proxy=None
        ) as socket:
            await until(socket, b"word counter")
            await socket.send('["stdin", "\\r"]')
            await until(socket, b"Classified as")
            assert len(below(str(tmp_path))) > 1
            program.send_signal(number)
            assert await closed(socket) in (1000, 1006)
        async with asyncio.timeout(PATIENCE):
            out, err = await program.communicate()
        assert (program.returncode, err) == (0 if number == signal.SIGINT else -number, b""), out
    (journal,) = (tmp_path / "home" / "tui-agent" / "sessions").glob("*/events.jsonl")
    assert b'"session.closed"' in journal.read_bytes(), "the session was closed in order"


async def test_without_the_terminal_for_the_page_one_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(emulator_files()) == {"textual.js", "xterm.css"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CannotServe, match="pip install"):
        emulator_files()


async def test_what_was_asked_for_is_asked_for_again() -> None:
    for line in (
        [], ["--demo"], ["--resume"], ["--resume", "s-1", "--mode", "plan"], ["--continue", "--trust", "--max-iterations", "0"],
        ["-C", "/a b", "--add-root", "/x", "--add-root", "/-y", "--base-url", "http://h/v1", "--approval-mode", "auto"],
    ):  # fmt: skip
        parser = command_parser("web")
        given = parser.parse_args(line)
        said = repeated_arguments(
            (one for one in parser._actions if one.dest not in ("help", "host", "port", "open", "tui")), given
        )
        assert command_parser("").parse_args(said) == command_parser("").parse_args(line)


async def test_the_terminal_of_the_page_is_no_other() -> None:
    made = screen_environment({"TMUX": "x", "TERM": "dumb", "HOME": "/h", "COLUMNS": "7", "LANG": "C"})
    assert made["TERM"] == "xterm-256color" and made["HOME"] == "/h" and made["LANG"] == "C"
    assert "TMUX" not in made and "COLUMNS" not in made


SCREEN = {"width": 1280, "height": 800}


class Seen:
    """What the terminal in a page is sent, as a person would see it."""

    def __init__(self, page: Any) -> None:
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self.screen)
        self._came = asyncio.Event()
        self.sockets: list[Any] = []
        page.on("websocket", self._opened)

    def _opened(self, socket: Any) -> None:
        self.sockets.append(socket)
        self.screen.reset()
        socket.on("framesent", self._sent)
        socket.on("framereceived", self._received)

    def _sent(self, text: Any) -> None:
        kind, *rest = json.loads(text)
        if kind == "resize":
            self.screen.resize(rest[0]["height"], rest[0]["width"])

    def _received(self, data: Any) -> None:
        if isinstance(data, bytes):
            self._stream.feed(data)
            self._came.set()

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    async def until(self, text: str, *, gone: bool = False) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while (text in self.text) is gone:
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError as error:
            raise AssertionError(f"{text}: {self.text}") from error


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.needs("chromium")
async def test_the_whole_screen_works_in_a_browser(tmp_path: Path) -> None:
    driver_of = pytest.importorskip("playwright.async_api").async_playwright
    said: list[str] = []
    asked: list[str] = []
    async with started(tmp_path) as (program, link):
        async with driver_of() as driver:
            flags = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
            page = await browser.new_page(viewport=SCREEN)
            page.on("console", lambda message: said.append(message.text))  # xterm also warns of a busy machine
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("request", lambda request: asked.append(request.url))
            await slowed(page)
            seen = Seen(page)
            await page.goto(link)
            await seen.until("Find the bug")
            inside = page.url
            await seen.until("you are asked before a file changes")
            await shot(page, "terminal-start")
            await page.keyboard.press("Enter")
            await seen.until("plans need your approval")
            await shot(page, "terminal-plan")
            async with page.expect_websocket():
                await page.reload()
            await seen.until("plans need your approval")
            await shot(page, "terminal-again")
            while "plans need your approval" in seen.text:
                await page.keyboard.press("a")  # one that comes too early decides nothing
                with contextlib.suppress(AssertionError, TimeoutError):
                    async with asyncio.timeout(1):
                        await seen.until("plans need your approval", gone=True)
            await seen.until("Edit wordcount/counting.py")
            await page.set_viewport_size({"width": 900, "height": 600})
            await seen.until("Edit wordcount/counting.py")
            await shot(page, "terminal-edit")
            program.terminate()
            await page.wait_for_selector("#apart")
            await shot(page, "terminal-over")
            await browser.close()
        async with asyncio.timeout(PATIENCE):
            out, err = await program.communicate()
    assert (program.returncode, err) == (143, b""), out
    ours = link.partition("#")[0]
    assert [url for url in asked if not url.startswith(ours)] == [], "it asks nobody else"
    assert {socket.url.partition("?")[0] for socket in seen.sockets} == {f"{inside}terminal".replace("http", "ws")}
    assert [line for line in said if line != "CLOSED" and "exceeded allotted deadline" not in line] == []


def below(folder: str) -> list[int]:
    """Processes whose scratch folder is this one."""
    found = []
    for one in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if one.name.isdigit() and f"TMPDIR={folder}".encode() in (one / "environ").read_bytes():
                found.append(int(one.name))
    return found
