from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.page_session import FakePageSession
from tests.doubles.planted import ALL_SECRETS_TEXT, BY_VARIABLE, SECRETS, find_leaks
from tests.web.kit import JSON, PageClient, serve_fake_session, serve_session
from tui_agent.frontends.web import serving as serving_module
from tui_agent.frontends.web.addresses import is_own_host, is_same_origin
from tui_agent.frontends.web.app import MAX_STREAMS
from tui_agent.frontends.web.guard import BODY_MAX, MAX_TICKETS, Tickets

pytestmark = pytest.mark.asyncio(loop_scope="module")

POSTS = {
    "/chat": {"message": "do it"},
    "/clear": {},
    "/answer": {"id": "a-1", "verdict": "approve"},
    "/interrupt": {},
    "/modes": {"approval_mode": "auto"},
    "/plan": {"accept": True, "seen": ""},
    "/plan/proposal": {"seen": "0"},
    "/plan/text": {"exact": True},
    "/plan/edit": {"text": "# Plan", "base": "0"},
    "/shell": {"command": "touch pwned"},
    "/reveal": {"id": "a-1"},
    "/part/text": {"id": "a-1", "index": 0, "exact": True},
    "/part/preview": {"id": "a-1", "edits": {}},
    "/withdraw": {"id": "m-1"},
    "/mention": {"before": "@"},
    "/models": {},
    "/sessions": {},
    "/open": {"id": ""},
    "/link": {},
}
GETS = ("/events", "/history", "/typing", "/main.js", "/page.css", "/page.html", "/nothing", "/door.html")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def open_page() -> AsyncIterator[PageClient]:
    async with serve_fake_session(FakePageSession()) as client:
        yield client


@pytest.fixture
def page(open_page: PageClient) -> Iterator[PageClient]:
    open_page.http.cookies.clear()
    open_page.http.base_url = open_page.page_server.address
    yield open_page
    assert open_page.session.done == [], "no request has an effect"


async def raw(page: PageClient, head: str, body: bytes = b"") -> bytes:
    """Return the server's response to exactly these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", page.page_server.port)
    try:
        writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        async with asyncio.timeout(30):
            return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def cookie(page: PageClient, token: str | None = None) -> str:
    return f"tui_agent_{page.page_server.port}={token or page.page_server.tickets.token}"


@pytest.mark.parametrize("token", [None, "", "x" * 43, "old"], ids=["none", "empty", "wrong", "old"])
async def test_h01_without_the_token_nothing_is_let_in(page: PageClient, token: str | None) -> None:
    value = Tickets().token if token == "old" else token
    headers = {} if value is None else {"Cookie": f"tui_agent_{page.page_server.port}={value}"}
    for path, body in POSTS.items():
        answer = await page.http.post(path, json=body, headers=headers)
        assert answer.status_code == 401, path
    for path in GETS:
        assert (await page.http.get(path, headers=headers)).status_code == 401, path
    shell = (await page.http.get("/", headers=headers)).text
    assert "door.js" in shell and page.session.id not in shell
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    socket = {**headers, **upgrade, "Sec-WebSocket-Key": "eHh4eHh4eHh4eHh4eHh4eA==", "Origin": page.page_server.address}
    assert (await page.http.get("/terminal", headers=socket)).status_code == 401


async def test_h01_a_token_elsewhere_than_in_its_cookie_is_none(page: PageClient) -> None:
    token = page.page_server.tickets.token
    for headers in (
        {"Authorization": f"Bearer {token}"},
        {"Cookie": f"token={token}"},
        {"Cookie": f"tui_agent_1={token}"},
    ):
        assert (await page.http.get("/events", headers=headers)).status_code == 401
    assert (await page.http.get("/events", params={"token": token})).status_code == 401


async def test_h01_a_ticket_is_good_once_and_not_for_long(page: PageClient) -> None:
    ticket = page.page_server.link().partition("#")[2]
    assert (await page.post("/enter", ticket="x" * 43)).status_code == 401
    assert (await page.post("/enter", ticket=ticket)).status_code == 200
    assert page.http.cookies
    page.http.cookies.clear()
    assert (await page.post("/enter", ticket=ticket)).status_code == 401
    now = [0.0]
    tickets = Tickets(now=lambda: now[0])
    late, other = tickets.issue(10), tickets.issue(100)
    now[0] = 11.0
    assert not tickets.redeem(late)
    assert tickets.redeem(other) and not tickets.redeem(other)
    first = tickets.issue(100)
    for _ in range(MAX_TICKETS):
        tickets.issue(100)
    assert not tickets.redeem(first), "the oldest link went"


HOSTS = [
    "evil.test", "evil.test:{port}", "127.0.0.1.nip.io:{port}", "127.0.0.1", "127.0.0.1:{other}", "localhost:{other}",
    "localhost.:{port}", "ok.localhost:{port}", "localhost.evil.test:{port}", "127.0.0.1:{port}.evil.test",
    "127.0.0.2:{port}", "0.0.0.0:{port}", "[::]:{port}", "[::1].evil:{port}", "127.1:{port}", "2130706433:{port}",
    "127.0.0.1:{port}@evil.test", "evil@127.0.0.1:{port}", "xn--lcalhost-n4f:{port}", "localhost:0{port}",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
async def test_h02_another_name_is_not_ours(page: PageClient, host: str) -> None:
    name = host.format(port=page.page_server.port, other=page.page_server.port + 1)
    for line in ("GET / HTTP/1.1", "GET /events HTTP/1.1", "GET /door.js HTTP/1.1"):
        answer = await raw(page, f"{line}\nHost: {name}\nCookie: {cookie(page)}")
        assert status(answer) in (400, 403), answer


@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1",
        "GET / HTTP/1.0",
        "GET / HTTP/1.1\nHost: ",
        "GET / HTTP/1.1\nHost: 127.0.0.1:{port}\nHost: 127.0.0.1:{port}",
        "GET / HTTP/1.1\nHost: 127.0.0.1:{port}\nHost: evil.test",
        "GET / HTTP/1.1\nHost: 127.0.0.1:{port}\0.evil.test",
        "GET http://evil.test/ HTTP/1.1\nHost: evil.test",
        "GET / HTTP/1.1\nHost: 127.0.0.1:{port}\nCookie: a=b\nOrigin: http://127.0.0.1:{port}\nOrigin: http://evil.test",
        "GET / HTTP/1.1\nHost: löcalhost:{port}",
        "NONSENSE",
    ],
)
async def test_h02_requests_of_a_bad_form_are_refused(page: PageClient, head: str) -> None:
    assert status(await raw(page, head.format(port=page.page_server.port))) in (400, 403)


async def test_h02_our_own_names_are_known(page: PageClient) -> None:
    port = page.page_server.port
    for name in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert status(await raw(page, f"GET / HTTP/1.1\nHost: {name}")) == 200
    assert is_own_host(b"[::1]:8765", 8765) and is_own_host(b"localhost", 80)
    assert is_same_origin(b"http://127.0.0.1:8765", b"127.0.0.1:8765")
    assert not is_same_origin(b"https://127.0.0.1:8765", b"127.0.0.1:8765")
    assert not is_same_origin(b"http://localhost:8765", b"127.0.0.1:8765")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
        {"Origin": "file://"},
        {"Origin": ""},
        {"Origin": "http://localhost:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1:{port}.evil.test"},
        {"Origin": "http://localhost:{port}"},
        {"Origin": "http://127.0.0.1:{port}/"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "nonsense"},
    ],
)
async def test_h03_other_pages_get_nothing_even_with_the_token(page: PageClient, headers: dict[str, str]) -> None:
    sent = {name: value.format(port=page.page_server.port) for name, value in headers.items()}
    sent["Cookie"] = cookie(page)
    for path, body in POSTS.items():
        assert (await page.http.post(path, json=body, headers=sent)).status_code == 403, path
    assert (await page.http.post("/enter", json={"ticket": "x"}, headers=sent)).status_code == 403
    assert (await page.http.get("/events", headers=sent)).status_code == 403
    socket = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    socket["Sec-WebSocket-Key"] = "eHh4eHh4eHh4eHh4eHh4eA=="
    assert (await page.http.get("/terminal", headers=sent | socket)).status_code == 403


@pytest.mark.parametrize(
    "kind",
    [None, "text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
     "application/jsonp", "text/json", "application/json, text/plain", "application/json; charset=utf-7"],
)  # fmt: skip
async def test_h04_only_json_is_read(page: PageClient, kind: str | None) -> None:
    headers = {"Cookie": cookie(page)} | ({} if kind is None else {"Content-Type": kind})
    for path, body in POSTS.items():
        answer = await page.http.post(path, content=json.dumps(body).encode(), headers=headers)
        assert answer.status_code == 415, path


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b'{"message": 1}', b'{"message": "a", "more": 1}', b"\xff", b'{"message": " "}']
)  # fmt: skip
async def test_h04_a_body_of_another_form_is_refused(page: PageClient, body: bytes) -> None:
    answer = await page.http.post("/chat", content=body, headers={"Cookie": cookie(page), **JSON})
    assert answer.status_code == 400 and answer.json()["error"]


async def test_h05_a_preflight_gets_no_leave(page: PageClient) -> None:
    preflight = {"Origin": "http://evil.test", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type"}  # fmt: skip
    for path in (*POSTS, "/", "/events", "/enter"):
        for options in ({}, {"Cookie": cookie(page)}, {"Origin": page.page_server.address, "Cookie": cookie(page)}):
            answer = await page.http.request("OPTIONS", path, headers=preflight | options)
            assert answer.status_code in (401, 403, 405, 415)
            assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_h06_every_answer_forbids_frames_and_foreign_code(page: PageClient) -> None:
    await page.enter()
    answers = [await page.http.get(path) for path in ("/", "/door.js", "/nothing", "/page.css")]
    answers.append(await page.post("/chat"))
    answers.append(await page.http.get("/", headers={"Origin": "null"}))
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        for rule in (
            "default-src 'self'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "object-src 'none'",
            "base-uri 'none'",
        ):
            assert rule in policy
        assert "unsafe" not in policy and "http:" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers


PATHS = [
    "/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "/static/", "/static", "/.git/config",
    "//etc/passwd", "/page.html", "/door.html", "/app.py", "/../guard.py", "/%00", "/main.js/", "/main.js%00.css",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_h07_nothing_but_the_pages_own_files(page: PageClient, path: str) -> None:
    answer = await raw(page, f"GET {path} HTTP/1.1\nHost: 127.0.0.1:{page.page_server.port}\nCookie: {cookie(page)}")
    assert status(answer) == 404


async def test_h07_reading_changes_nothing(page: PageClient) -> None:
    await page.enter()
    for path in (*POSTS, "/enter"):
        for method in ("GET", "HEAD"):
            assert (await page.http.request(method, path)).status_code in (404, 405), path
        for method in ("PUT", "DELETE", "PATCH"):
            assert (await page.http.request(method, path, json={})).status_code == 405, path
    assert (await page.http.head("/events")).status_code == 200


@pytest_asyncio.fixture(loop_scope="module")
async def impatient(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PageClient]:
    monkeypatch.setattr(serving_module.PageConnection, "head_seconds", 1.5)
    monkeypatch.setattr(serving_module, "KEEP_ALIVE_SECONDS", 1.0)
    async with serve_fake_session(FakePageSession()) as page:
        yield page


async def closed(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(30):
        with contextlib.suppress(ConnectionError):
            return await reader.read() == b""
    return True


async def test_h08_sockets_that_only_wait_are_limited_and_dropped(impatient: PageClient) -> None:
    open_ = [await asyncio.open_connection("127.0.0.1", impatient.page_server.port) for _ in range(100)]
    for _, writer in open_[:20]:
        writer.write(b"GET / HTTP/1.1\r\nHost: ")
    ended = await asyncio.gather(*(closed(reader) for reader, _ in open_))
    assert all(ended)
    for _, writer in open_:
        writer.close()
    assert (await impatient.http.get("/")).status_code == 200


async def test_h08_a_second_request_may_not_keep_its_head_back_either(impatient: PageClient) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", impatient.page_server.port)
    writer.write(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{impatient.page_server.port}\r\n\r\nGET /".encode())
    async with asyncio.timeout(30):
        assert b"200 OK" in await reader.readuntil(b"\r\n")
    await reader.readuntil(b"</html>\n")
    assert await closed(reader)
    writer.close()


async def test_h08_a_body_too_long_is_not_read(page: PageClient) -> None:
    port = page.page_server.port
    head = f"POST /chat HTTP/1.1\nHost: 127.0.0.1:{port}\nCookie: {cookie(page)}\nContent-Type: application/json\n"
    assert status(await raw(page, head + "Content-Length: 1000000000")) == 413
    assert status(await raw(page, head + f"Content-Length: {BODY_MAX + 1}")) == 413
    assert status(await raw(page, head + "Content-Length: -1")) in (400, 413)
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    assert status(await raw(page, head + "Transfer-Encoding: chunked", chunk * 20)) == 413
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000)
    async with asyncio.timeout(30):
        assert status(await reader.readline()) == 400, "a head without an end"
    writer.close()


async def test_h08_streams_are_few(open_page: PageClient) -> None:
    page = open_page
    await page.enter()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(MAX_STREAMS):
            stream = await stack.enter_async_context(page.events())
            await stream.until("session.opened")
        assert (await page.http.get("/events")).status_code == 503
        assert (await page.post("/chat", message="do it")).status_code == 503
    async with asyncio.timeout(30):
        while len(page.page_server.feed.readers) == MAX_STREAMS:
            await page.http.get("/")
    async with page.events() as stream:
        await stream.until("session.opened")


@pytest.mark.parametrize("after", ["x", "-1", "1e3", "9" * 40, "٣"])
async def test_h09_a_place_that_is_none_is_refused(page: PageClient, after: str) -> None:
    headers: Any = {"Cookie": cookie(page), "Last-Event-ID": after.encode()}
    assert (await page.http.get("/events", headers=headers)).status_code == 400


async def test_h11_what_the_model_writes_is_data(tmp_path: Path) -> None:
    text = "<script>alert(1)</script><img src=x onerror=alert(1)>\n[x](javascript:alert(1))\ndata: x\n\nevent: done\r\ndata: {}\u2028"
    async with serve(scenario("hi", text)) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        async with page.chat("hi") as stream:
            events = await stream.rest()
    (ended,) = [e for e in events if e.name == "reply.ended"]
    assert ended.data["data"]["text"].splitlines()[0] == text.splitlines()[0]
    assert [e.name for e in events].count("done") == 1


async def test_h13_the_token_is_told_in_the_cookie_only(page: PageClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    token, link = page.page_server.tickets.token, page.page_server.link()
    assert token not in link
    answer = await page.post("/enter", ticket=link.partition("#")[2])
    page.http.base_url = page.page_server.address + answer.json()["path"]
    (set_cookie,) = answer.headers.get_list("set-cookie")
    assert token in set_cookie
    assert "httponly" in set_cookie.lower() and "samesite=strict" in set_cookie.lower()
    assert token not in answer.text and token not in json.dumps(page.session.id)
    for path in ("/", "/door.js", "/page.css", "/main.js"):
        assert token not in (await page.http.get(path)).text
    async with page.events() as stream:
        await stream.until("session.opened")
    assert token not in json.dumps([event.data for event in stream.received])
    messages = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http"))
    assert "session.opened" in messages, "what the server's own libraries log was looked at"
    assert token not in messages and link.partition("#")[2] not in messages
    assert len(token) >= 43


async def test_h13_the_cookie_holds_below_an_address_that_nobody_knows(page: PageClient) -> None:
    # Cookies do not heed ports: one of `/` goes to every program that has a page on this machine.
    answer = await page.post("/enter", ticket=page.page_server.link().partition("#")[2])
    path = answer.json()["path"]
    assert len(path) > 16 and f"path={path};" in answer.headers["set-cookie"].lower().replace(path.lower(), path)
    own = {"Cookie": cookie(page)}
    page.http.cookies.clear()
    for inside in (path, "/"):  # who tells the token by hand may do it anywhere
        assert (await page.http.get(inside, headers=own)).headers["x-tui-agent"] == "page"
        assert (await page.http.get(f"{inside}main.js", headers=own)).status_code == 200
    for inside in (path, Tickets().path):  # a page of an earlier run says so instead of an error
        session = await page.http.get(inside)
        assert session.headers["x-tui-agent"] == "door" and page.session.id not in session.text
        assert (await page.http.get(f"{inside}main.js")).status_code == 401
        assert (await page.http.post(f"{inside}chat", json={"message": "x"})).status_code == 401
    assert (await page.http.get(f"{path}../guard.py", headers=own)).status_code == 404


async def test_h13_the_server_tells_of_no_nonsense_and_of_no_header(
    page: PageClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    named = f"Host: 127.0.0.1:{page.page_server.port}\nOrigin: {page.page_server.address}\nCookie: {cookie(page)}"
    upgrade = "Connection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA=="
    for head in ("NONSENSE", f"GET /x HTTP/1.1\n{named}\n{upgrade}", "GET / HTTP/1.1\nUpgrade: x\nConnection: Upgrade"):
        assert status(await raw(page, head)) in (400, 403)
    assert [record for record in caplog.records if record.name.startswith(("uvicorn", "websockets"))] == []
    assert page.page_server.tickets.token not in caplog.text


async def test_h01_a_token_is_of_no_use_to_other_users(page: PageClient, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = (
        "import sys, urllib.request as r\n"
        "try: print(r.build_opener(r.ProxyHandler({})).open(r.Request(sys.argv[1], headers={'Cookie': sys.argv[2]})).status)\n"
        "except Exception as error: print(error.code)\n"
    )
    other: dict[str, Any] = {"user": 65534} if _is_root() else {}
    if not _is_root():
        monkeypatch.setattr("os.geteuid", lambda: 12345)
    asking = await asyncio.create_subprocess_exec(
        "/usr/bin/env", "python3", "-I", "-c", ask, f"{page.page_server.address}/page.css", cookie(page),
        stdout=asyncio.subprocess.PIPE, cwd="/", env={"PATH": "/usr/bin:/bin"}, **other,
    )  # fmt: skip
    out, _ = await asking.communicate()
    assert out.strip() == b"403"


async def test_a_link_is_of_no_use_to_other_users(page: PageClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    refused = await page.post("/enter", ticket=page.page_server.link().partition("#")[2])
    here = await asyncio.to_thread(lambda: Path("/proc/net/tcp").exists())
    assert refused.status_code in ((200, 403) if not here else (200,) if _is_root() else (403,))


def _is_root() -> bool:
    return Path("/proc/self").stat().st_uid == 0


async def test_secrets_are_masked_and_shown_only_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in BY_VARIABLE.items():
        monkeypatch.setenv(name, value)
    talk = scenario(
        "go",
        step(ALL_SECRETS_TEXT, call("write_file", path="a.txt", content=SECRETS["github"] + "\n")),
        ALL_SECRETS_TEXT,
    )
    async with serve(talk, token=BY_VARIABLE["LLM_AUTH_TOKEN"]) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        async with page.events() as stream:
            await page.session.send("go")
            request = (await stream.until("approval.asked")).data["data"]
            assert request["hides_secrets"] is True
            shown: Any = (await page.post("/reveal", id=request["id"])).json()
            assert SECRETS["github"] in json.dumps(shown)
            await page.post("/answer", id=request["id"], verdict="approve")
            await stream.until("done")
            assert (await page.post("/reveal", id=request["id"])).status_code == 409
        async with page.events() as late:
            await late.until("done")
    assert find_leaks(json.dumps([e.data for e in stream.received], ensure_ascii=False)) == []
    assert find_leaks(json.dumps([e.data for e in late.received], ensure_ascii=False)) == []


async def test_two_hundred_hostile_requests_change_nothing_for_a_session_that_runs(tmp_path: Path) -> None:
    slow = scenario("long", step("word " * 100 + "end", pace=0.02))
    async with serve(slow) as server, serve_session(server, tmp_path) as page:
        await page.enter()
        port = page.page_server.port
        inside = f"/{page.page_server.tickets.path.strip('/')}"
        heads = [
            f"{method} {path} HTTP/1.1\nHost: {host}{more}"
            for path in (*POSTS, f"{inside}/chat", f"{inside}/shell", *GETS, "/../../etc/passwd")
            for method, host, more in (
                ("POST", f"127.0.0.1:{port}", "\nContent-Type: application/json\nContent-Length: 2"),
                ("POST", f"127.0.0.1:{port}", f"\nOrigin: http://evil.example\nCookie: {cookie(page)}"),
                ("POST", f"evil.example:{port}", f"\nCookie: {cookie(page)}"),
                ("GET", f"127.0.0.1:{port}", "\nCookie: tui_agent=x\nLast-Event-ID: -1"),
                ("DELETE", f"127.0.0.1:{port}", ""),
                ("NONSENSE", "\x00\xff", "\nX: " + "y" * 500),
                ("POST", f"127.0.0.1:{port}", "\nTransfer-Encoding: chunked\nContent-Length: 5"),
            )
        ]
        assert len(heads) >= 200
        async with page.chat("long") as stream:
            await stream.until("text")
            slots = asyncio.Semaphore(16)

            async def send(head: str) -> None:
                async with slots:
                    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                        answer = await raw(page, head, b"{}")
                        assert status(answer) >= 400 or head.startswith(("GET", "HEAD")), (head, answer)

            await asyncio.gather(*(send(head) for head in heads))
            events = await stream.rest()
        assert [event.name for event in events].count("run.started") == 1
        assert [event.data["data"]["outcome"] for event in events if event.name == "run.ended"] == ["done"]
        assert not [event for event in events if event.name in ("mode.changed", "shell.ran", "conversation.rewound")]
        assert not (tmp_path / "pwned").exists()
