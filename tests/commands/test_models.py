from __future__ import annotations

import asyncio
import hashlib
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.asking import CommandResult, run_command
from tests.doubles.file_server import FakeFile
from tests.doubles.gguf import gguf_bytes, write_gguf
from tests.doubles.mock import call, scenario, serve, step
from tests.doubles.raw_server import FakeConnection, FakeRawServer, Script
from tests.models.recordings import ROUTER, played
from tests.waiting import wait_for
from tui_agent.commands.probing import call_tasks
from tui_agent.common import paths
from tui_agent.models.local import library
from tui_agent.models.local.get import GetModel
from tui_agent.models.local.memory import Memory
from tui_agent.models.local.sources import HubSource

CAPSYS = pytest.CaptureFixture[str]
CONTENT = gguf_bytes(data=3_000_000)
NOWHERE = "http://127.0.0.1:9"
OLLAMA = "mock-model"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("OLLAMA_HOST", NOWHERE)
    monkeypatch.chdir(tmp_path)
    return paths.ensure_private_dir(paths.models_dir())


def answer(value: Any, status: int = 200) -> Script:
    async def script(connection: FakeConnection) -> None:
        await connection.answer(status, value)

    return script


def ollama(**routes: Any) -> FakeRawServer:
    """An Ollama server with one model; `routes` are answers by the last part of the path."""
    answers = {
        "tags": {"models": [{"name": OLLAMA, "details": {"parameter_size": "7.6B", "quantization_level": "Q4_K_M"}}]},
        "show": {"capabilities": ["completion", "tools"], "model_info": {"x.context_length": 131_072}},
        "ps": {"models": [{"name": OLLAMA, "context_length": 32_768}]},
        "generate": {"done": True},
        "delete": None,
    } | routes
    return FakeRawServer({f"/api/{name}": answer(value) for name, value in answers.items()})


async def models(capsys: CAPSYS, *argv: str, server: str = NOWHERE) -> CommandResult:
    return await run_command(capsys, "models", *argv, "--base-url", server)


# --- list -----------------------------------------------------------------------------------


async def test_files_and_models_of_the_server_are_listed(capsys: CAPSYS, folder: Path, tmp_path: Path) -> None:
    write_gguf(folder / "small.gguf")
    library.add(write_gguf(tmp_path / "mine.gguf"))
    (folder / "broken.gguf").write_text("x")
    async with ollama() as server:
        result = await models(capsys, "list", server=server.url)
    assert result.code == 0
    rows = {line.split()[0]: line.split() for line in result.out.splitlines() if line.strip()}
    assert rows["small"][3:6] == ["Q4_K_M", "32,768", "1.2"]
    assert str(tmp_path / "mine.gguf") in rows["mine"] and "unreadable" in rows["broken"]
    assert server.url in result.out and "131,072" in rows[OLLAMA] and "32,768" in rows[OLLAMA]


async def test_no_models_and_no_server_are_explained(capsys: CAPSYS) -> None:
    result = await models(capsys, "list")
    assert result.code == 0
    assert "`tui-agent models get` suggests models" in result.out and "No connection" in result.out


@pytest.mark.parametrize(
    ("listed", "end"),
    [
        ("models unloaded", " 4,096"),
        ("models loading", " 4,096  loading"),
        ("models loaded", " 32,768  loaded, 4,096 tokens"),
        ("models sleeping", " 32,768  sleeping"),
        (None, " 8,192"),
    ],
)
async def test_only_loaded_models_are_called_loaded(capsys: CAPSYS, listed: str | None, end: str) -> None:
    hosted = {"/v1/models": answer({"data": [{"id": "qwen", "context_length": 8_192}]})}
    async with played(ROUTER, listed, "props") if listed else FakeRawServer(hosted) as server:
        result = await run_command(capsys, "models", "list", "--provider", "openai", "--base-url", f"{server.url}/v1")
    (row,) = (line for line in result.out.splitlines() if line.split()[:1] == ["qwen"])
    assert row.endswith(end), row


async def test_the_list_as_json(capsys: CAPSYS, folder: Path) -> None:
    path = write_gguf(folder / "small.gguf")
    async with ollama() as server:
        data = (await models(capsys, "list", "--json", server=server.url)).data
    (file,) = data["files"]
    assert (file["name"], file["path"], file["quantization"]) == ("small", str(path), "Q4_K_M")
    assert data["server"]["models"][0]["name"] == OLLAMA and data["incomplete"] == []


# --- get ------------------------------------------------------------------------------------


async def test_suggestions_come_with_the_words_to_type(
    capsys: CAPSYS, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui_agent.commands.models.read_memory", lambda: Memory(total=10**10, available=10**10))
    write_gguf(folder / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf")
    result = await models(capsys, "get")
    assert result.code == 0 and result.out.count("  tui-agent models get ") == 6
    assert "tui-agent models get qwen2.5-coder-1.5b   (on this machine already)" in result.out
    assert "tui-agent models get qwen2.5-coder-7b\n" in result.out
    assert "4.7 GB to download" in result.out and "license Apache-2.0" in result.out


async def test_a_file_is_downloaded_and_what_to_type_next_is_said(capsys: CAPSYS, folder: Path) -> None:
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT)}) as server:
        result = await models(capsys, "get", f"{server.url}/m.gguf")
    assert result.code == 0, result.err
    assert (folder / "m.gguf").read_bytes() == CONTENT
    assert "size unknown" in result.out and "hash is not known" in result.out
    assert "tui-agent --provider local --model m" in result.out and "window 32,768" in result.out
    assert "3.0 MB of 3.0 MB" in result.err and "\r" not in result.err and "\x1b" not in result.err


@pytest.mark.parametrize(("available", "fits"), [(20 << 30, True), (1 << 30, False)])
async def test_what_the_window_takes_is_said_after_a_download(
    available: int, fits: bool, capsys: CAPSYS, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Memory(total=32 << 30, available=available)
    monkeypatch.setattr("tui_agent.commands.models.read_memory", lambda: machine)
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT)}) as server:
        result = await models(capsys, "get", "--yes", f"{server.url}/m.gguf")
    assert result.code == 0, result.err
    text = " ".join(result.out.split())
    assert "1,000 tokens of the window take 2.0 MB, all 32,768 take 67 MB." in text
    assert ("Up to 32,768 tokens fit in memory." in text) == fits
    assert ("A smaller model" in text) != fits


async def test_a_repository_shows_size_and_license_before(
    capsys: CAPSYS, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"path": "m-Q4_K_M.gguf", "size": len(CONTENT), "lfs": {"oid": hashlib.sha256(CONTENT).hexdigest()}}
    routes: dict[str, Script] = {
        "/api/models/a/b/tree/main": answer([entry]),
        "/api/models/a/b": answer({"cardData": {"license": "mit"}}),
        "/a/b/resolve/main/m-Q4_K_M.gguf": FakeFile(CONTENT),
    }
    async with FakeRawServer(routes) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        result = await models(capsys, "get", "a/b:q4_k_m")
    assert result.code == 0, result.err
    assert "m-Q4_K_M.gguf: 3.0 MB, license mit" in result.out and "hash is not known" not in result.out


async def test_a_model_that_does_not_fit_is_asked_about(
    capsys: CAPSYS, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui_agent.commands.models.read_memory", lambda: Memory(total=10**6, available=10**6))
    entry = {"path": "m.gguf", "size": len(CONTENT)}
    routes: dict[str, Script] = {"/api/models/a/b/tree/main": answer([entry])}
    file = FakeFile(CONTENT)
    routes["/a/b/resolve/main/m.gguf"] = file
    async with FakeRawServer(routes) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin.readline", lambda: "n\n", raising=False)
        result = await models(capsys, "get", "a/b")
        assert result.code == 1 and "more than is free" in result.out and file.ranges_asked == []
        assert (await models(capsys, "get", "a/b", "--yes")).code == 0
        library.remove("m")
        monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
        assert (await models(capsys, "get", "a/b")).code == 0


@pytest.mark.parametrize(
    ("what", "code", "words"),
    [
        ("nothing here", 2, "not a known model"),
        ("package:--evil", 2, "package:NAME"),
        ("/none.gguf", 1, "no file"),
        (f"{NOWHERE}/m.gguf", 4, "No connection"),
        ("a/b", 4, "Check your network"),
        ("ollama:m", 4, "No connection"),
    ],
)
async def test_what_can_not_be_got(
    capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch, what: str, code: int, words: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", NOWHERE)
    monkeypatch.setattr("asyncio.sleep", _at_once)
    result = await models(capsys, "get", what)
    assert result.code == code and words in result.err and "tui-agent: " in result.err, result.err


async def test_the_problem_of_a_source_is_said_once(capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tuple(HubSource(repository=name) for name in ("a/first", "a/second"))
    monkeypatch.setattr("tui_agent.commands.models.parse_source", lambda *_: sources)
    async with FakeRawServer({}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        result = await models(capsys, "get", "a/first", "--yes")
    first, last = result.err.splitlines()
    assert "a/first" in first and first.endswith("Trying another source.")
    assert "a/second" in last and "a/first" not in last


async def test_an_interrupt_keeps_the_part_and_says_how_to_continue(folder: Path) -> None:
    file = FakeFile(gguf_bytes(data=12_000_000), hold=asyncio.Event())
    async with FakeRawServer({"/m.gguf": file}) as server:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tui_agent", "models", "get", f"{server.url}/m.gguf",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        part = library.parts_dir() / "m.gguf" / "m.gguf"
        await wait_for(lambda: part.exists() and part.stat().st_size >= 1 << 20)
        child.send_signal(signal.SIGINT)
        out, err = await child.communicate()
        assert child.returncode == 130, err.decode()
        assert f"tui-agent models get {server.url}/m.gguf` continues" in out.decode()
        assert "Traceback" not in err.decode()


async def test_an_incomplete_download_is_listed(capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FakeFile(CONTENT, breaks=[1_000_000, 0, 0, 0, 0, 0, 0], refusals=[])
    async with FakeRawServer({"/m.gguf": file}) as server:
        monkeypatch.setattr("asyncio.sleep", _at_once)
        url = f"{server.url}/m.gguf"
        assert (await models(capsys, "get", url)).code == 4
        out = (await models(capsys, "list")).out
        assert f"m.gguf: 33% downloaded; `tui-agent models get {url}` continues" in out
        assert (await models(capsys, "get", url)).code == 0


_sleep = asyncio.sleep


async def _at_once(seconds: float) -> None:
    await _sleep(0)


async def test_ollama_gets_a_model_and_reports_progress(capsys: CAPSYS) -> None:
    async def pull(connection: FakeConnection) -> None:
        await connection.head(200, chunked=True)
        await connection.lines(
            {"status": "pulling a", "digest": "a", "total": 100, "completed": 50}, {"status": "success"}
        )
        await connection.end()

    async with ollama() as server:
        server.routes["/api/pull"] = pull
        result = await models(capsys, "get", "qwen2.5-coder:7b", server=server.url)
    assert result.code == 0, result.err
    assert "tui-agent --model qwen2.5-coder:7b" in result.out and "50 B of 100 B" in result.err
    assert server.asked_for("/api/pull")[0].json == {"model": "qwen2.5-coder:7b"}


async def test_a_file_on_this_machine(capsys: CAPSYS, folder: Path, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "mine.gguf")
    assert (await models(capsys, "get", "mine.gguf")).code == 0
    assert library.local_files()[0].path == path
    assert (await models(capsys, "remove", "mine", "--yes")).code == 0
    result = await models(capsys, "get", str(path), "--copy")
    assert result.code == 0 and (folder / "mine.gguf").exists()


async def test_a_stopped_copy_does_not_continue(
    capsys: CAPSYS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_gguf(tmp_path / "mine.gguf")

    async def run(job: GetModel) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(GetModel, "run", run)
    result = await models(capsys, "get", str(path), "--copy")
    assert result.code == 130 and "Nothing was added" in result.out and "continues" not in result.out
    assert "continues" in (await models(capsys, "get", f"{NOWHERE}/m.gguf")).out


async def test_a_first_model_becomes_the_default_unless_a_server_is_named(
    capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT)}) as server:
        monkeypatch.setenv("LLM_BASE_URL", f"{NOWHERE}/v1")
        assert "--provider local" in (await run_command(capsys, "models", "get", f"{server.url}/m.gguf")).out
        monkeypatch.delenv("LLM_BASE_URL")  # OLLAMA_HOST is set, which only says where Ollama is
        assert "default model now" in (await run_command(capsys, "models", "get", f"{server.url}/m.gguf")).out
    assert "provider: local" in paths.config_file().read_text()


# --- remove ---------------------------------------------------------------------------------


async def test_removing_needs_a_word(capsys: CAPSYS, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(folder / "small.gguf")
    result = await models(capsys, "remove", "small")
    assert result.code == 3 and "--yes" in result.err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdin.readline", lambda: "n\n", raising=False)
    assert (await models(capsys, "remove", "small")).code == 1 and (folder / "small.gguf").exists()
    result = await models(capsys, "remove", "small", "--yes")
    assert result.code == 0 and "Deleted small" in result.out and not (folder / "small.gguf").exists()


async def test_after_removing_the_default_model_the_next_one_becomes_it(capsys: CAPSYS, tmp_path: Path) -> None:
    for name in ("first", "second"):
        path = write_gguf(tmp_path / f"{name}.gguf")
        assert "default model now" in (await run_command(capsys, "models", "get", str(path))).out
        assert f"model: {name}" in paths.config_file().read_text()
        result = await run_command(capsys, "models", "remove", name, "--yes")
        assert result.code == 0 and "there is none now" in result.out
        assert "model:" not in paths.config_file().read_text()


async def test_what_can_not_be_got_is_said_without_asking_anybody(
    capsys: CAPSYS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OLLAMA_HOST")
    (tmp_path / "files").mkdir()
    for what, words in {
        "qwen2.5-coder-15": "did you mean `qwen2.5-coder-1.5b`? Name one of",
        "./files": "files is a folder",
        "../nothing": "not a file that ends in .gguf",
    }.items():
        result = await run_command(capsys, "models", "get", what)
        assert result.code == 2 and words in result.err, result.err


async def test_nothing_is_kept_of_a_download_that_brought_nothing(capsys: CAPSYS) -> None:
    result = await run_command(capsys, "models", "get", f"{NOWHERE}/m.gguf")
    assert result.code != 0
    assert "m.gguf" not in (await run_command(capsys, "models", "list")).out


async def test_a_model_of_ollama_is_removed_there(capsys: CAPSYS, folder: Path) -> None:
    write_gguf(folder / f"{OLLAMA}.gguf")
    async with ollama() as server:
        assert (await models(capsys, "remove", f"ollama:{OLLAMA}", "--yes", server=server.url)).code == 0
        assert [request.json for request in server.asked_for("/api/delete")] == [{"model": OLLAMA}]
        result = await models(capsys, "remove", "other", "--yes", server=server.url)
    assert result.code == 1 and "no model other" in result.err and f"nor on {server.url}" in result.err
    result = await run_command(capsys, "models", "remove", "other", "--yes", "--provider", "local")
    assert "no model other on this machine." in result.err
    async with serve(scenario("x", "y"), models=(OLLAMA,)) as mock:
        argv = ("models", "remove", f"ollama:{OLLAMA}", "--provider", "openai", "--base-url", f"{mock.url}/v1")
        assert "deletes no models on request" in (await run_command(capsys, *argv)).err
    assert (folder / f"{OLLAMA}.gguf").exists()


async def test_an_incomplete_download_is_removed_by_the_name_of_its_model(
    capsys: CAPSYS, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncio.sleep", _at_once)
    async with FakeRawServer({"/m.gguf": FakeFile(CONTENT, breaks=[1_000_000, *[0] * 6])}) as server:
        assert (await models(capsys, "get", f"{server.url}/m.gguf")).code == 4
    result = await models(capsys, "remove", "m")
    assert result.code == 3 and "--yes" in result.err
    result = await models(capsys, "remove", "m", "--yes")
    assert result.code == 0 and "Deleted the incomplete download of m.gguf" in result.out
    assert "continues" not in (await models(capsys, "list")).out
    assert (await models(capsys, "remove", "m", "--yes")).code == 1


# --- load, unload, test ---------------------------------------------------------------------


async def test_a_model_is_loaded_with_the_window_of_a_session(capsys: CAPSYS) -> None:
    async with ollama() as server:
        assert "is loaded" in (await models(capsys, "load", OLLAMA, server=server.url)).out
        assert "no longer" in (await models(capsys, "unload", OLLAMA, server=server.url)).out
    loaded, unloaded = (request.json for request in server.asked_for("/api/generate"))
    assert loaded["options"] == {"num_ctx": 32_768} and unloaded["keep_alive"] == 0


async def test_a_model_of_the_router_is_loaded(capsys: CAPSYS) -> None:
    async with played(ROUTER, "load", "models unloaded", "models loaded", "props") as server:
        argv = ("models", "load", "qwen", "--provider", "openai", "--base-url", f"{server.url}/v1")
        assert "qwen is loaded" in (await run_command(capsys, *argv)).out
        assert [request.json for request in server.asked_for("/models/load")] == [{"model": "qwen"}]


async def test_what_can_not_be_loaded(capsys: CAPSYS) -> None:
    result = await models(capsys, "load", "m")
    assert result.code == 4 and "No connection" in result.err
    async with ollama() as server:
        result = await models(capsys, "load", "other", server=server.url)
        assert result.code == 1 and f"It has: {OLLAMA}" in result.err
    async with serve(scenario("x", "y")) as mock:
        argv = ("models", "load", OLLAMA, "--provider", "openai", "--base-url", f"{mock.url}/v1")
        result = await run_command(capsys, *argv)
        assert result.code == 1 and "does not load models on request" in result.err


async def test_servers_that_load_on_request_do(capsys: CAPSYS) -> None:
    entries = {"loaded": False}

    async def listed(connection: FakeConnection) -> None:
        status = {"value": "loaded" if entries["loaded"] else "unloaded", "args": ["llama-server"]}
        await connection.answer(200, {"data": [{"id": "qwen", "owned_by": "llamacpp", "status": status}]})

    def change(loaded: bool) -> Script:
        async def script(connection: FakeConnection) -> None:
            entries["loaded"] = loaded
            await connection.answer(200, {"success": True})

        return script

    routes: dict[str, Script] = {"/v1/models": listed, "/models/load": change(True), "/models/unload": change(False)}
    async with FakeRawServer(routes) as server:
        for command, words in (("load", "qwen is loaded"), ("unload", "no longer in memory")):
            argv = ("models", command, "qwen", "--provider", "openai", "--base-url", f"{server.url}/v1")
            result = await run_command(capsys, *argv)
            assert result.code == 0 and words in result.out, result.err
            assert [request.json for request in server.asked_for(f"/models/{command}")] == [{"model": "qwen"}]


async def test_the_local_engine_loads_with_a_session(capsys: CAPSYS, folder: Path) -> None:
    write_gguf(folder / "small.gguf")
    for command in ("load", "unload"):
        result = await run_command(capsys, "models", command, "small", "--provider", "local")
        assert result.code == 1 and "with the first request of a session" in result.err


async def test_a_model_is_tested_with_one_request(capsys: CAPSYS) -> None:
    task = call_tasks()[0]
    good = scenario(task.text[:40], step(None, call(task.tool, **task.values)))
    async with serve(good) as server:
        result = await models(capsys, "test", OLLAMA, server=server.url)
        chats = [request for request in server.requests if "messages" in request.body]
    assert result.code == 0, result.out
    assert "a valid tool call (native)" in result.out and "first token after" in result.out
    assert len(chats) == 1
    async with serve(scenario("", "one\n\ntwo"), models=(OLLAMA,)) as server:
        result = await models(capsys, "test", OLLAMA, server=server.url)
        assert result.code == 1 and "reliability" in result.out and "one two" in " ".join(result.out.splitlines())
        result = await models(capsys, "test", "gone", server=server.url)
    assert "has no model gone" in result.err and "Tried this server" not in result.err
    assert (await models(capsys, "test", OLLAMA)).code == 4


@pytest.mark.parametrize(
    ("provider", "who", "advice"),
    [
        ("ollama", "{url}", "Pull one first, such as `ollama pull"),
        ("openai", "{url}", "Load one there, or name one with `--model`."),
        ("local", "This machine", "`tui-agent models get` suggests models for this machine"),
    ],
)
async def test_without_models_it_says_what_to_do(capsys: CAPSYS, provider: str, who: str, advice: str) -> None:
    routes = {"/api/tags": answer({"models": []}), "/v1/models": answer({"object": "list", "data": []})}
    async with FakeRawServer(routes) as server:
        url = server.url + ("/v1" if provider == "openai" else "")
        options = ("--provider", provider, *(() if provider == "local" else ("--base-url", url)))
        listed = (await run_command(capsys, "models", "list", *options)).out
        tested = (await run_command(capsys, "models", "test", *options)).err
        checked = await run_command(capsys, "doctor", "--json", *options)
    assert advice in " ".join(listed.split())
    assert f"{who.format(url=url)} has no models. {advice}" in tested
    assert advice in checked.text_of("name")


async def test_the_local_engine_has_no_list_of_its_own(capsys: CAPSYS, folder: Path) -> None:
    write_gguf(folder / "small.gguf")
    result = await run_command(capsys, "models", "list", "--provider", "local")
    assert result.code == 0 and result.out.count("small") == 1
