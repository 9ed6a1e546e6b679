from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.commands.asking import CommandResult, run_command
from tests.doubles.gguf import write_gguf
from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.doubles.raw_server import FakeConnection, FakeRawServer, Script
from tests.waiting import within_timeout
from tui_agent.commands import doctor_files
from tui_agent.commands.doctor import print_findings
from tui_agent.commands.doctor_files import Finding
from tui_agent.commands.output import TextPage
from tui_agent.commands.probing import probe_project
from tui_agent.common import paths
from tui_agent.lsp.languages import languages
from tui_agent.mock_server.replies import ServedModel
from tui_agent.models.local import library
from tui_agent.models.local.engine import EngineStatus
from tui_agent.models.local.memory import GraphicsCard, Memory

CAPSYS = pytest.CaptureFixture[str]
READS = scenario("Read the file", step(None, call("read_file", path="src/app.py")))


def write_models(text: str) -> None:
    paths.models_file().parent.mkdir(parents=True, exist_ok=True)
    paths.models_file().write_text(text)


async def doctor(capsys: CAPSYS, server: MockServer | FakeRawServer, *argv: str, v1: bool = False) -> CommandResult:
    kind = ("--provider", "openai", "--base-url", server.url + "/v1") if v1 else ("--base-url", server.url)
    return await run_command(capsys, "doctor", "--json", *kind, *argv)


@pytest.mark.parametrize("v1", [False, True])
async def test_a_server_that_works_is_well(capsys: CAPSYS, v1: bool) -> None:
    async with serve(READS, models=["mock-model"]) as server:
        result = await doctor(capsys, server, v1=v1)
    states = result.states()
    assert result.code == 0 and result.data["ok"]
    assert "bad" not in states.values()
    assert all(states[name] == "ok" for name in ("address", "name", "native calls", "window", "data folder"))


async def test_the_scripted_model_needs_no_server(capsys: CAPSYS) -> None:
    result = await run_command(capsys, "doctor", "--json", "--provider", "scripted", "--no-probe")
    assert result.code == 0
    assert "scripted" in result.text_of("address")


async def test_a_server_that_is_not_there_is_told_with_what_was_tried(capsys: CAPSYS) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound but not listening: refused
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        result = await within_timeout(run_command(capsys, "doctor", "--json", "--base-url", url))
    assert result.code == 1
    assert url in result.text_of("address") and "ollama serve" in result.text_of("address")
    assert "git" in result.states(), "the other checks run all the same"


async def test_a_server_that_hangs_holds_up_nothing(capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_agent.commands.server_access.METADATA_TIMEOUT", 0.3)

    async def silence(connection: FakeConnection) -> None:
        connection.note("silent")
        await connection.gone()

    async with FakeRawServer({"/api/tags": silence, "/api/version": silence}) as server:
        result = await doctor(capsys, server)
        assert server.log
    assert result.code == 1
    assert "in time" in result.text_of("address")


async def test_a_model_that_never_answers_is_given_up(capsys: CAPSYS) -> None:
    async with serve(scenario("", step("late", delay=600)), models=["mock-model"]) as server:
        result = await doctor(capsys, server, "--timeout", "0.5")
        assert len(server.requests) == 1, "no second probe"
    assert result.code == 1
    assert "--timeout" in result.text_of("native calls")


async def test_a_model_without_tools_is_asked_in_other_forms(capsys: CAPSYS) -> None:
    plain = ServedModel(name="plain", capabilities=("completion",))
    text = '{"tool_calls": [{"name": "read_file", "parameters": {"path": "src/app.py"}}]}'
    async with serve(scenario("Read the file", text), models=[plain]) as server:
        result = await doctor(capsys, server)
        assert not any(request.body.get("tools") for request in server.requests)
    assert result.code == 0
    assert (result.states()["native calls"], result.states()["calls as JSON"]) == ("note", "ok")


USAGE = {"prompt_tokens": 1_000, "cached_tokens": 930, "completion_tokens": 20}


async def test_the_strategy_is_told_with_its_reason_and_the_speed_by_asking_twice(capsys: CAPSYS) -> None:
    measured = '{"strategy": "json", "date": "2026-01-31", "scores": {"native": 0.5, "json": 1}}'
    write_models(f'{{"models": {{"m": {{"calibration": {measured}}}}}}}')
    text = '{"tool_calls": [{"name": "read_file", "parameters": {"path": "src/app.py"}}]}'
    async with serve(scenario("Read the file", step(text, usage=USAGE)), models=["m"]) as server:
        result = await doctor(capsys, server)
        assert ["format" in request.body for request in server.requests] == [True, True, False, False]
    text = result.text_of("strategy")
    assert "json: calibrated on 2026-01-31; measured: native 50%, json 100%" in text
    assert "93% of the prompt from the cache" in result.text_of("speed")


async def test_a_model_that_works_with_files_is_asked_for_nothing_else(capsys: CAPSYS) -> None:
    write_models('{"models": {"m": {"options": {"strategy": "files"}}}}')
    task = probe_project().tasks[0]
    async with serve(scenario(task.text[:30], f"{task.file}\n```\n{task.content}```"), models=["m"]) as server:
        result = await doctor(capsys, server)
        assert ["tools" in request.body for request in server.requests] == [False, False]
    assert result.code == 0
    assert result.states()["whole files"] == "ok" and "calls as JSON" not in result.states()
    assert "set in models.json" in result.text_of("strategy")


async def test_a_model_that_only_talks_stands_in_the_way(capsys: CAPSYS) -> None:
    async with serve(scenario("", "You should read that file yourself."), models=["m"]) as server:
        result = await doctor(capsys, server)
    assert result.code == 1
    assert "choose another model" in result.text_of("native calls")


async def test_a_server_without_models_and_one_without_the_named_model(capsys: CAPSYS) -> None:
    async with FakeRawServer({"/api/tags": _answer_with({"models": []})}) as empty:
        assert "ollama pull" in (await doctor(capsys, empty)).text_of("name")
    async with serve(READS, models=["a", "b"]) as server:
        result = await doctor(capsys, server, "--model", "c")
        assert not server.requests
    assert result.code == 1
    assert "available: a, b" in result.text_of("name")
    async with serve(READS, models=["qwen2.5-coder:7b"]) as server:
        result = await doctor(capsys, server, "--model", "qwen2.5-codr:7b")
    assert "did you mean `qwen2.5-coder:7b`?" in result.text_of("name")


SHOW: dict[str, object] = {"capabilities": ["completion", "tools"], "model_info": {"x.context_length": 32768}}


def ollama_routes(loaded: Mapping[str, object], show: dict[str, object] = SHOW, **tag: object) -> dict[str, Script]:
    answers: dict[str, object] = {
        "/api/ps": {"models": [{"name": "mock-model", **loaded}] if loaded else []},
        "/api/tags": {"models": [{"name": "mock-model"} | tag]},
        "/api/version": {"version": "0.6.2"},
        "/api/show": show,
    }
    return {path: _answer_with(value) for path, value in answers.items()} | {"/api/chat": _send_call}


async def test_a_window_that_is_not_granted_is_told_with_the_line_to_write(capsys: CAPSYS) -> None:
    loaded = {"size": 8_000_000_000, "size_vram": 2_000_000_000, "context_length": 4096}
    async with FakeRawServer(ollama_routes(loaded)) as server:
        result = await doctor(capsys, server)
    assert result.code == 0
    assert '"num_ctx": 4096' in result.text_of("window")
    assert "25%" in result.text_of("memory")
    assert "0.6.2 is old" in result.text_of("version")
    assert result.states()["prompt"] == "warn" and "40 of about" in result.text_of("prompt")


@pytest.mark.parametrize(
    ("in_vram", "state"), [(8_000_000_000, "ok"), (2_000_000_000, "warn"), (0, "note"), (None, "warn")]
)
async def test_the_memory_of_a_model_is_told_with_advice(
    in_vram: int | None, state: str, capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = GraphicsCard(name="card", total=8 << 30, free=(8 << 30) - (in_vram or 0))
    machine = Memory(total=64 << 30, available=32 << 30, graphics=(card,))
    monkeypatch.setattr("tui_agent.commands.doctor.read_memory", lambda: machine)
    facts = {"general.architecture": "x", "x.block_count": 32, "x.context_length": 131_072, "x.embedding_length": 4096}
    facts |= {"x.attention.head_count": 32, "x.attention.head_count_kv": 8}
    loaded = {} if in_vram is None else {"size": 8_000_000_000, "size_vram": in_vram}
    routes = ollama_routes(loaded, {"capabilities": ["tools"], "model_info": facts}, size=5_000_000_000)
    async with FakeRawServer(routes) as server:
        result = await doctor(capsys, server, "--no-probe")
    assert result.states()["memory"] == state
    text = result.text_of("memory")
    assert "1,000 tokens of the window take 131 MB" in text
    assert ("not loaded" in text) == (in_vram is None)
    assert ("`/settings context_window 18432`" in text) == (state == "warn")


@pytest.mark.parametrize(("size", "knows"), [(576, True), (5_000_000_000, False)])
async def test_the_model_file_of_llama_cpp_tells_what_the_cache_takes(
    size: int, knows: bool, capsys: CAPSYS, tmp_path: Path
) -> None:
    meta = {"n_ctx": 32_768, "n_ctx_train": 32_768, "size": size}
    routes = {
        "/v1/models": _answer_with({"data": [{"id": "m", "owned_by": "llamacpp", "meta": meta}]}),
        "/props": _answer_with({"model_path": str(write_gguf(tmp_path / "m.gguf"))}),
    }
    async with FakeRawServer(routes) as server:
        result = await doctor(capsys, server, "--no-probe", v1=True)
    assert ("1,000 tokens of the window take 2.0 MB" in result.text_of("memory")) == knows


@pytest.mark.parametrize("host", ["127.0.0.1", "box.lan"])
async def test_only_a_server_on_this_machine_uses_its_memory_and_files(
    host: str, capsys: CAPSYS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = socket.getaddrinfo
    monkeypatch.setattr(
        "socket.getaddrinfo",
        lambda name, *more, **options: look_up(
            "127.0.0.1" if name in ("box.lan", b"box.lan") else name, *more, **options
        ),
    )
    monkeypatch.setattr("tui_agent.commands.doctor.read_memory", lambda: Memory(total=8 << 30, available=8 << 30))
    meta = {"n_ctx": 32_768, "n_ctx_train": 32_768, "size": 576}
    routes = {
        "/v1/models": _answer_with({"data": [{"id": "m", "owned_by": "llamacpp", "meta": meta}]}),
        "/props": _answer_with({"model_path": str(write_gguf(tmp_path / "m.gguf"))}),
    }
    async with FakeRawServer(routes) as server:
        address = f"{server.url.replace('127.0.0.1', host)}/v1"
        options = ("--provider", "openai", "--base-url", address, "--no-probe")
        result = await run_command(capsys, "doctor", "--json", *options)
    text = result.text_of("memory")
    assert "576 B of weights" in text
    assert ("1,000 tokens of the window take" in text, "fit in memory" in text) == (host != "box.lan",) * 2


async def local_doctor(capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch, model: Path) -> CommandResult:
    machine = Memory(total=64 << 30, available=32 << 30)
    monkeypatch.setattr("tui_agent.commands.doctor.read_memory", lambda: machine)
    return await run_command(capsys, "doctor", "--json", "--provider", "local", "--model", str(model), "--no-probe")


@pytest.mark.parametrize("running", [True, False])
async def test_a_local_model_is_told_with_file_state_and_memory(
    running: bool, capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    state = EngineStatus(phase="ready", key="", model=str(path), name="m", window=8_192, slots=1, log="")
    for name in ("tui_agent.commands.doctor.running_status", "tui_agent.models.local.engine.running_status"):
        monkeypatch.setattr(name, lambda _: state if running else None)
    monkeypatch.setattr("tui_agent.commands.doctor.engine_installed", lambda: True)
    result = await local_doctor(capsys, monkeypatch, path)
    assert result.code == 0
    assert result.text_of("engine").startswith("installed")
    assert str(path) in result.text_of("file")
    assert ("ready, with a window of 8,192 tokens" in result.text_of("file")) == running
    assert ("not loaded" in result.text_of("memory")) != running
    assert "1,000 tokens of the window take 2.0 MB" in result.text_of("memory")
    assert "tokens fit in memory" in result.text_of("memory")


async def test_a_local_model_needs_the_engine(capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tui_agent.commands.doctor.engine_installed", lambda: False)
    result = await local_doctor(capsys, monkeypatch, write_gguf(tmp_path / "m.gguf"))
    assert (result.code, result.states()["engine"]) == (1, "bad")
    assert "pip install 'tui-agent[local]'" in result.text_of("engine")


async def test_a_local_file_need_not_be_in_the_library(
    capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library.add(write_gguf(tmp_path / "other.gguf"), copy=True)
    result = await local_doctor(capsys, monkeypatch, write_gguf(tmp_path / "m.gguf"))
    assert result.states()["name"] == "ok"
    result = await local_doctor(capsys, monkeypatch, tmp_path / "gone.gguf")
    assert "is not on this machine" in result.text_of("name")


async def test_without_local_models_it_says_how_to_get_one(capsys: CAPSYS) -> None:
    result = await run_command(capsys, "doctor", "--json", "--provider", "local", "--no-probe")
    assert "this machine has no models" in result.text_of("name") and "models get" in result.text_of("name")


def _answer_with(value: object) -> Script:
    async def answer(connection: FakeConnection) -> None:
        await connection.answer(200, value)

    return answer


async def _send_call(connection: FakeConnection) -> None:
    await connection.head(200, "application/x-ndjson", chunked=True)
    tool_call = {"function": {"name": "read_file", "arguments": {"path": "src/app.py"}}}
    await connection.lines(
        {"message": {"role": "assistant", "content": "", "tool_calls": [tool_call]}, "done": False},
        {
            "message": {"role": "assistant", "content": ""},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 40,
            "eval_count": 9,
        },
    )
    await connection.end()


async def test_mistakes_in_the_files_are_named(capsys: CAPSYS) -> None:
    write_models('{"models": {\n"a": {"contextWindow": "big"}}}')
    paths.config_file().write_text("temperatur: 1\nmodel: mock-model\n")
    async with serve(READS, models=["mock-model"]) as server:
        result = await doctor(capsys, server)
    assert result.code == 1
    assert "line 2: models.a.contextWindow" in result.text_of("models.json")
    assert "line 1: temperatur" in result.text_of("settings")
    assert result.states()["native calls"] == "ok"


async def test_nothing_is_written(capsys: CAPSYS) -> None:
    async with serve(READS, models=["mock-model"]) as server:
        await doctor(capsys, server)
    assert not paths.models_file().exists() and not paths.data_dir().exists()


async def test_a_data_folder_that_cannot_be_written_stands_in_the_way(
    capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUI_AGENT_HOME", "/proc/1/nowhere")
    result = await run_command(capsys, "doctor", "--json", "--provider", "scripted", "--no-probe")
    assert result.code == 1
    assert "TUI_AGENT_HOME" in result.text_of("data folder")


async def test_missing_programs_are_told(capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = await run_command(capsys, "doctor", "--json", "--provider", "scripted", "--no-probe")
    assert result.code == 0
    assert result.states()["git"] == "warn"


async def test_a_program_of_the_folder_itself_is_never_run(
    capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    git = tmp_path / "git"
    git.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    await run_command(capsys, "doctor", "--json", "--provider", "scripted", "--no-probe", "-C", str(tmp_path))
    assert not (tmp_path / "ran").exists()


async def test_the_languages_of_the_folder_are_told_with_their_servers(
    capsys: CAPSYS, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work, bin_ = tmp_path / "work", tmp_path / "bin"
    (work / "bin").mkdir(parents=True)
    bin_.mkdir()
    for suffix, count in (("py", 15), ("ts", 4), ("go", 3), ("sh", 1), ("rs", 3), ("odd", 3), ("txt", 9)):
        for number in range(count):
            (work / f"{number}.{suffix}").write_text("")
    for program in (bin_ / "pylsp", bin_ / "tsc", work / "bin" / "gopls"):
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-${{0##*/}}\necho Version 5.9.2\n")
        program.chmod(0o755)
    monkeypatch.delenv("TUI_AGENT_LANGUAGE_SERVERS_ON")
    monkeypatch.setenv("PATH", f"{bin_}:{work / 'bin'}:/usr/bin:/bin")
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text("language_servers:\n  odd: [no-such-odd-server]\n  rust: [no-such-rust]\n")
    arguments = ("doctor", "--json", "--provider", "scripted", "--no-probe", "-C", str(work))
    result = await run_command(capsys, *arguments)
    states = result.states()
    assert result.code == 0
    assert {name: states[name] for name in ("python", "typescript", "go", "bash", "rust", "odd")} == {
        "python": "ok",
        "typescript": "warn",
        "go": "warn",
        "bash": "note",
        "rust": "warn",
        "odd": "warn",
    }
    assert result.text_of("python") == f"15 files: pylsp, {bin_}/pylsp "
    assert "npm install -g typescript typescript-language-server" in result.text_of("typescript")
    assert "gopls is not on PATH" in result.text_of("go") and "go install" in result.text_of("go")
    assert "`no-such-odd-server` of the settings is not on PATH" in result.text_of("odd")
    assert "language_servers.rust" in result.text_of("rust")
    assert "until the folder is trusted" in result.text_of("servers")
    assert [path.name for path in tmp_path.glob("ran-*")] == ["ran-tsc"]  # only to print its version
    paths.config_file().write_text("language_servers_on: false\n")
    off = await run_command(capsys, *arguments)
    assert "switched off" in off.text_of("servers") and "python" not in off.states()


def test_every_language_that_can_be_served_says_how() -> None:
    assert set(doctor_files._install_hints()) == {language.name for language in languages({})}


# --- the page -------------------------------------------------------------------------------

FINDINGS = [
    Finding(group="Server", name="address", state="ok", text="http://localhost:11434"),
    Finding(group="Model", name="window", state="warn", text="4,096 tokens", advice="Raise it. " * 12),
    Finding(group="Model", name="calls", state="bad", text="words \x1b[31mred\x1b]0;title\x07 " * 9, advice="→"),
]


def test_the_page_is_aligned_and_carries_no_control(capsys: CAPSYS) -> None:
    print_findings(FINDINGS, TextPage())
    lines = capsys.readouterr().out.split("\n")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "".join(lines))
    assert max(map(len, lines)) <= 100
    assert {line.index("→") for line in lines if "→" in line and "Raise" in line} == {13}
    assert lines[-2] == "1 problem, 1 warning."


def test_colours_only_where_they_are_welcome(capsys: CAPSYS) -> None:
    print_findings(FINDINGS, TextPage(color=True))
    assert "\x1b[31m✗" in capsys.readouterr().out


def test_an_old_encoding_gets_plain_signs() -> None:
    code = (
        "from tui_agent.commands.doctor import print_findings\nfrom tui_agent.commands.output import TextPage\n"
        "from tui_agent.commands.doctor_files import Finding as F\n"
        "print_findings([F(group='Gruppe', name='a', state='bad', text='größer …', advice='x')], TextPage())"
    )
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=True)
    assert b"x  a  gr??er ..." in result.stdout and b"-> x" in result.stdout


def test_help_names_both_commands(capsys: CAPSYS) -> None:
    from tui_agent.__main__ import main

    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert "doctor" in text and "reliability" in text
