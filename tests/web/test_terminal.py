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
from tests.web.kit import log_in
from tests.web.windows import screenshot, throttle
from tui_agent.commands.arguments import command_parser
from tui_agent.frontends.web import serving
from tui_agent.frontends.web.addresses import CannotServe, listen
from tui_agent.frontends.web.guard import Tickets
from tui_agent.frontends.web.running import repeated_arguments, screen_environment
from tui_agent.frontends.web.terminal import HANGUP_SECONDS, WEBSOCKET_MAX, Screen, ScreenPage, emulator_files
from tui_agent.platform import interactive

pytestmark = pytest.mark.asyncio(loop_scope="module")

TIMEOUT = 60.0
ECHO = """
import os, select, signal, sys, tty
def print_size(*_):
    size = os.get_terminal_size()
    os.write(1, b"size %dx%d\\n" % (size.columns, size.lines))
signal.signal(signal.SIGWINCH, print_size)
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"repainted\\n"))
tty.setraw(0)
print_size()
while True:
    if not select.select([0], [], [], 0.05)[0]:  # a signal just before a wait is handled after it
        continue
    if not (data := os.read(0, 65536)):
        break
    os.write(1, b"got %d %s\\n" % (len(data), data[:20]))
    if data.endswith(b"q"):  # possibly together with earlier input
        sys.exit(7)
"""
"""Takes the place of the screen: prints its size and what is typed."""


class ServedScreen:
    """A served screen, and the headers of a browser with the token."""

    def __init__(self, screen: Screen, page_server: ScreenPage) -> None:
        self.screen = screen
        self.page_server = page_server

    @property
    def headers(self) -> dict[str, str]:
        return {"Host": f"127.0.0.1:{self.page_server.port}", "Origin": self.page_server.address} | self.cookie()

    def cookie(self, token: str | None = None) -> dict[str, str]:
        return {"Cookie": f"{self.page_server.cookie}={token or self.page_server.tickets.token}"}

    def socket(self, headers: dict[str, str | None] | None = None, **options: Any) -> connect:
        """`headers` replace those of a browser; None omits one."""
        sent: dict[str, str | None] = {**self.headers, **(headers or {})}
        named = sent.pop("Host")
        return connect(
            f"ws://{named}/terminal?width=100&height=30", host="127.0.0.1", port=self.page_server.port,
            additional_headers=[(name, value) for name, value in sent.items() if value is not None],
            proxy=None, user_agent_header=None, **options,
        )  # fmt: skip


@contextlib.asynccontextmanager
async def serve_screen(hangup_seconds: float = HANGUP_SECONDS, program: str = ECHO) -> AsyncIterator[ServedScreen]:
    argv = [sys.executable, "-I", "-S", "-c", program]
    screen = Screen(argv, cwd=Path("/"), environment={"PATH": os.environ["PATH"]}, hangup_seconds=hangup_seconds)
    page_server = ScreenPage(screen, listen("127.0.0.1", 0))
    await page_server.start()
    try:
        yield ServedScreen(screen, page_server)
    finally:
        await page_server.stop()
        assert screen.pid is None


async def read_until(socket: ClientConnection, text: bytes) -> bytes:
    output = b""
    async with asyncio.timeout(TIMEOUT):
        while text not in output:
            part = await socket.recv()
            output += part if isinstance(part, bytes) else b""
    return output


async def wait_for_close(socket: ClientConnection) -> int:
    async with asyncio.timeout(TIMEOUT):
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.recv()
    assert socket.close_code is not None
    return socket.close_code


def process_exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def idle_screen() -> AsyncIterator[ServedScreen]:
    """A screen that no test may start."""
    async with serve_screen() as served:
        yield served
        assert served.screen.pid is None, "nothing was started"


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
async def test_a_foreign_socket_is_refused_and_begins_nothing(idle_screen: ServedScreen, name: str) -> None:
    fill = {
        "port": idle_screen.page_server.port, "cookie": idle_screen.page_server.cookie, "token": idle_screen.page_server.tickets.token,
        "other": Tickets().token,
    }  # fmt: skip
    headers = {key: None if value is None else value.format(**fill) for key, value in HOSTILE[name].items()}
    with pytest.raises(InvalidStatus) as refusal:
        async with idle_screen.socket(headers):
            pass
    without_token = "cookie" in name or "token" in name
    assert refusal.value.response.status_code == (401 if without_token else 403)
    assert idle_screen.screen.pid is None


async def test_the_page_has_a_policy_of_its_own_and_nothing_without_the_token(idle_screen: ServedScreen) -> None:
    async with httpx.AsyncClient(base_url=idle_screen.page_server.address, trust_env=False) as client:
        assert "door.js" in (await client.get("/")).text
        for name in ("terminal.js", "textual.js", "xterm.css", "terminal.html", "terminal"):
            assert (await client.get(f"/{name}")).status_code == 401
        ticket = idle_screen.page_server.link().partition("#")[2]
        await log_in(client, idle_screen.page_server.address, ticket)
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
    ids=lambda message: str(message[:30]),
)  # fmt: skip
async def test_what_the_page_never_says_closes_the_socket(idle_screen: ServedScreen, message: str | bytes) -> None:
    async with serve_screen() as served, served.socket() as socket:
        await socket.send(message)
        assert await wait_for_close(socket) == 1008


@pytest.mark.parametrize("parts", [1, 40], ids=["whole", "in parts"])
async def test_a_message_may_have_a_size(parts: int) -> None:
    async with serve_screen() as served, served.socket(max_size=None) as socket:
        await read_until(socket, b"size 100x30")
        text = json.dumps(["stdin", "x" * WEBSOCKET_MAX])
        size = len(text) // parts + 1
        with contextlib.suppress(ConnectionClosed):
            await socket.send(text if parts == 1 else [text[at : at + size] for at in range(0, len(text), size)])
        assert await wait_for_close(socket) == 1009
        async with served.socket() as again:
            assert b"got" not in await read_until(again, b"repainted"), "none of it was passed on"


async def test_keys_sizes_a_new_page_and_the_end() -> None:
    async with serve_screen() as served:
        async with served.socket() as first:
            await read_until(first, b"size 100x30")
            await first.send('["resize", {"width": 77, "height": 22}]')
            await read_until(first, b"size 77x22")
            await first.send('["resize", {"width": 999999, "height": -5}]')
            await read_until(first, b"size 1000x2")
            await first.send(json.dumps(["stdin", "ä" * 100_000]))
            await read_until(first, b"got ")
            pid = served.screen.pid
            async with served.socket() as second:
                assert await wait_for_close(first) == 4000, "the latest browser takes over"
                output = await read_until(second, b"repainted")
                assert output.startswith(b"\x1bc")
                assert served.screen.pid == pid
                await second.send('["ping", "1"]')
                await second.send('["focus"]')
        async with served.socket() as third:
            await read_until(third, b"repainted")
            assert served.screen.pid == pid, "a reload continues"
            await third.send('["stdin", "q"]')
            assert await wait_for_close(third) == 1000
        async with asyncio.timeout(TIMEOUT):
            assert await served.screen.ended == 7
        async with served.socket() as late:
            assert await wait_for_close(late) == 1001
    assert pid is not None and not process_exists(pid)


async def test_a_socket_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving.PageConnection, "head_seconds", 0.2)
    async with serve_screen() as served, served.socket() as socket:
        await read_until(socket, b"size")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):  # five times the limit for a request head
                await socket.recv()
        await socket.send('["stdin", "x"]')
        await read_until(socket, b"got 1")


async def test_without_a_browser_it_ends() -> None:
    async with serve_screen(hangup_seconds=0.3) as served:
        async with served.socket() as socket:
            await read_until(socket, b"size")
            pid = served.screen.pid
        async with asyncio.timeout(TIMEOUT):
            assert await served.screen.ended == -1, "hung up"
        assert served.screen.was_abandoned and pid is not None and not process_exists(pid)


async def test_it_ends_with_the_server_even_when_it_does_not_want_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactive, "HANGUP_TIMEOUT", 0.3)
    stubborn = "import os, signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\nos.write(1, b'here')\nwhile True: signal.pause()"
    async with serve_screen(program=stubborn) as served:
        async with served.socket() as socket:
            await read_until(socket, b"here")
        pid = served.screen.pid
    assert pid is not None and not process_exists(pid)


@contextlib.asynccontextmanager
async def start_command(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run `tui-agent web --tui --demo`; yield the process and the link that it prints."""
    home = folder / "home"
    home.mkdir()
    env = environment(home, TMPDIR=str(folder), TUI_AGENT_MODE="agent")
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tui_agent", "web", "--tui", "--demo", "--port", "0", env=env, cwd=home,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert program.stdout is not None
    try:
        async with asyncio.timeout(TIMEOUT):
            output = (await program.stdout.readuntil(b"ends.\n")).decode()
        link = re.search(r"http://127\.0\.0\.1:\d+/#\S+", output)
        assert link is not None, output
        yield program, link[0]
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    async with asyncio.timeout(TIMEOUT):
        while processes_of(str(folder)):  # noqa: ASYNC110  # another process's children can only be polled
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl+c", "kill"])
async def test_no_process_outlives_the_command(tmp_path: Path, number: signal.Signals) -> None:
    async with start_command(tmp_path) as (program, link):
        address, _, ticket = link.partition("/#")
        async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
            await log_in(client, address, ticket)
            ((name, token),) = client.cookies.items()
        headers = {"Origin": address, "Cookie": f"{name}={token}"}
        async with connect(
            f"{address}/terminal".replace("http", "ws"), additional_headers=headers, proxy=None
        ) as socket:
            await read_until(socket, b"word counter")
            await socket.send('["stdin", "\\r"]')
            await read_until(socket, b"Classified as")
            assert len(processes_of(str(tmp_path))) > 1
            program.send_signal(number)
            assert await wait_for_close(socket) in (1000, 1006)
        async with asyncio.timeout(TIMEOUT):
            out, err = await program.communicate()
        assert (program.returncode, err) == (0 if number == signal.SIGINT else -number, b""), out
    assert list((tmp_path / "home" / "tui-agent" / "sessions").iterdir()) == [], "closed in order, and then deleted"


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
        parsed = parser.parse_args(line)
        repeated = repeated_arguments(
            (action for action in parser._actions if action.dest not in ("help", "host", "port", "open", "tui")), parsed
        )
        assert command_parser("").parse_args(repeated) == command_parser("").parse_args(line)


async def test_the_terminal_of_the_page_is_no_other() -> None:
    environment = screen_environment({"TMUX": "x", "TERM": "dumb", "HOME": "/h", "COLUMNS": "7", "LANG": "C"})
    assert environment["TERM"] == "xterm-256color" and environment["HOME"] == "/h" and environment["LANG"] == "C"
    assert "TMUX" not in environment and "COLUMNS" not in environment


SCREEN = {"width": 1280, "height": 800}


class PageDisplay:
    """The screen contents that the terminal in a page receives."""

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

    async def wait_for_text(self, text: str, *, gone: bool = False) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
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
    messages: list[str] = []
    requests: list[str] = []
    async with start_command(tmp_path) as (program, link):
        async with driver_of() as driver:
            flags = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = await driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
            page = await browser.new_page(viewport=SCREEN)
            page.on("console", lambda message: messages.append(message.text))  # xterm also warns of a busy machine
            page.on("pageerror", lambda error: messages.append(str(error)))
            page.on("request", lambda request: requests.append(request.url))
            await throttle(page)
            display = PageDisplay(page)
            await page.goto(link)
            await display.wait_for_text("Find the bug")
            page_url = page.url
            await display.wait_for_text("you are asked before a file changes")
            await screenshot(page, "terminal-start")
            await page.keyboard.press("Enter")
            await display.wait_for_text("plans need your approval")
            await screenshot(page, "terminal-plan")
            async with page.expect_websocket():
                await page.reload()
            await display.wait_for_text("plans need your approval")
            await screenshot(page, "terminal-again")
            while "plans need your approval" in display.text:
                await page.keyboard.press("a")  # ignored if it is too early
                with contextlib.suppress(AssertionError, TimeoutError):
                    async with asyncio.timeout(1):
                        await display.wait_for_text("plans need your approval", gone=True)
            await display.wait_for_text("Edit wordcount/counting.py")
            await page.set_viewport_size({"width": 900, "height": 600})
            await display.wait_for_text("Edit wordcount/counting.py")
            await screenshot(page, "terminal-edit")
            program.terminate()
            await page.wait_for_selector("#disconnected")
            await screenshot(page, "terminal-over")
            await browser.close()
        async with asyncio.timeout(TIMEOUT):
            out, err = await program.communicate()
    assert (program.returncode, err) == (143, b""), out
    address = link.partition("#")[0]
    assert [url for url in requests if not url.startswith(address)] == [], "requests to other servers"
    assert {socket.url.partition("?")[0] for socket in display.sockets} == {f"{page_url}terminal".replace("http", "ws")}
    assert [line for line in messages if line != "CLOSED" and "exceeded allotted deadline" not in line] == []


def processes_of(folder: str) -> list[int]:
    """Processes whose scratch folder is `folder`."""
    pids = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"TMPDIR={folder}".encode() in (entry / "environ").read_bytes():
                pids.append(int(entry.name))
    return pids
