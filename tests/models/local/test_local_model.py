"""The client of the local engine, with a double of llama.cpp and with llama.cpp itself (L1)."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.doubles.gguf import QWEN, write_gguf
from tests.doubles.local_engine import processes
from tests.doubles.tiny_model import WINDOW, write_tiny_model
from tests.waiting import wait_for
from tui_agent.common import paths
from tui_agent.common.domain import Fault, ModelInfo, Usage, UserMessage
from tui_agent.models.base import Failed, ModelRequest, Phase, ReplyPart, RetryWait, Stop, TextFragment, UsageReport
from tui_agent.models.connect import connect
from tui_agent.models.faults import RetryPolicy
from tui_agent.models.local import engine, gguf
from tui_agent.models.local import model as module
from tui_agent.models.local.memory import Memory
from tui_agent.models.local.model import LocalModel
from tui_agent.models.selection import window_for


@pytest.fixture
def model() -> LocalModel:
    made = connect("local", "")
    assert isinstance(made, LocalModel)

    async def at_once(seconds: float) -> None:
        pass

    made.retries = RetryPolicy(sleep=at_once)
    return made


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "small.gguf")


async def ask(model: LocalModel, name: Path | str, window: int | None = 4_096) -> list[ReplyPart]:
    request = ModelRequest(model=str(name), messages=(UserMessage(text="ping"),), num_ctx=window, max_tokens=8)
    return [part async for part in model.stream(request)]


def text_of(parts: list[ReplyPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextFragment))


def phases_of(parts: list[ReplyPart]) -> list[str]:
    return [part.phase for part in parts if isinstance(part, Phase)]


def fault_of(parts: list[ReplyPart]) -> Fault:
    assert isinstance(parts[-1], Failed), parts
    return parts[-1].fault


async def test_the_first_request_starts_the_engine_and_closing_ends_it(
    engine_double: None, model: LocalModel, weights: Path
) -> None:
    info = await model.describe(str(weights))
    assert isinstance(info, ModelInfo) and info.loaded is False and processes(weights) == []
    parts = await ask(model, weights)
    assert parts[0] == Phase(phase="loading", detail="small, 1.2 kB") and text_of(parts) == "pong"
    again = await ask(model, weights)
    assert "loading" not in phases_of(again) and text_of(again) == "pong"
    info = await model.describe(str(weights))
    assert isinstance(info, ModelInfo) and (info.loaded, info.loaded_window) == (True, 4_096)
    assert len(processes(weights)) == 2
    await model.aclose()
    assert processes(weights) == []


async def test_the_engine_is_started_again_after_it_was_killed(
    engine_double: None, model: LocalModel, weights: Path
) -> None:
    await ask(model, weights)
    os.kill(processes(weights)[1], signal.SIGKILL)
    await wait_for(lambda: not processes(weights))
    parts = await ask(model, weights)
    assert text_of(parts) == "pong" and phases_of(parts)[0] == "loading"
    assert not any(isinstance(part, RetryWait) for part in parts)
    await model.aclose()


async def test_a_stopped_request_does_not_stop_loading(
    engine_double: None, model: LocalModel, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    monkeypatch.setenv("GGML_FAKE_HOLD", str(go))
    first = asyncio.create_task(ask(model, weights))
    await wait_for(lambda: len(processes(weights)) == 2)
    loading = processes(weights)
    first.cancel()
    await asyncio.wait((first,))
    second = asyncio.create_task(ask(model, weights))
    go.touch()
    assert text_of(await second) == "pong" and processes(weights) == loading
    await model.aclose()
    assert processes(weights) == []


async def test_closing_while_the_model_loads_ends_the_engine(
    engine_double: None, model: LocalModel, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGML_FAKE_HOLD", str(tmp_path / "never"))
    request = asyncio.create_task(ask(model, weights))
    await wait_for(lambda: len(processes(weights)) == 2)
    await model.aclose()
    await wait_for(lambda: processes(weights) == [])
    request.cancel()
    await asyncio.wait((request,))


async def test_a_larger_window_loads_the_model_again_and_a_smaller_one_does_not(
    engine_double: None, model: LocalModel, weights: Path
) -> None:
    await ask(model, weights, 4_096)
    first = processes(weights)
    await ask(model, weights, 2_048)
    assert processes(weights) == first
    await ask(model, weights, 8_192)
    assert processes(weights) != first
    info = await model.describe(str(weights))
    assert isinstance(info, ModelInfo) and info.loaded_window == 8_192
    await model.aclose()


async def test_while_another_session_uses_the_engine_its_window_stays(
    engine_double: None, model: LocalModel, weights: Path
) -> None:
    other = connect("local", "")
    assert isinstance(other, LocalModel)
    await ask(other, weights, 4_096)
    first = processes(weights)
    for _ in range(2):
        assert text_of(await ask(model, weights, 8_192)) == "pong"
    assert processes(weights) == first
    await model.aclose()
    assert text_of(await ask(other, weights)) == "pong"
    await other.aclose()
    assert processes(weights) == []


@pytest.fixture
def other(model: LocalModel) -> LocalModel:
    """The client of another session."""
    made = connect("local", "")
    assert isinstance(made, LocalModel)
    made.retries = model.retries
    return made


async def test_an_engine_that_another_session_restarted_is_used(
    engine_double: None, model: LocalModel, other: LocalModel, weights: Path
) -> None:
    await ask(model, weights)
    await ask(other, weights)
    os.kill(processes(weights)[1], signal.SIGKILL)
    await wait_for(lambda: not processes(weights))
    await ask(model, weights)
    restarted = processes(weights)
    assert text_of(await ask(other, weights)) == "pong" and processes(weights) == restarted
    await model.aclose()
    await other.aclose()


def limit_memory(monkeypatch: pytest.MonkeyPatch, available: int) -> None:
    monkeypatch.setattr(module, "read_memory", lambda: Memory(total=16 << 30, available=available))


async def test_joining_a_running_engine_needs_no_memory(
    engine_double: None, model: LocalModel, other: LocalModel, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(model, weights)
    limit_memory(monkeypatch, 1 << 20)
    assert text_of(await ask(other, weights)) == "pong"
    info = await other.describe(str(weights))
    assert isinstance(info, ModelInfo) and info.loaded_window == 4_096
    assert window_for(info, 32_768, "local") == 4_096
    await model.aclose()
    await other.aclose()


async def test_the_largest_window_that_fits_is_loaded_when_there_is_a_little_less_memory(
    engine_double: None, model: LocalModel, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, (16 << 30) // 10 + 2048 * 20_000)
    info = await model.describe(str(weights))
    assert isinstance(info, ModelInfo) and info.fitting_window
    window = window_for(info, None, "local")
    assert 15_000 < window < 20_000
    limit_memory(monkeypatch, (16 << 30) // 10 + 2048 * (window - 2_000))
    assert text_of(await ask(model, weights, window)) == "pong"
    assert fault_of(await ask(model, weights, 32_768)).message.startswith("With a window of 32,768 tokens")
    await model.aclose()


async def test_models_stay_side_by_side_while_there_is_memory(
    engine_double: None, model: LocalModel, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, third = write_gguf(weights.with_name("second.gguf")), write_gguf(weights.with_name("third.gguf"))
    await ask(model, weights)
    await ask(model, second)
    assert len(processes(weights)) == len(processes(second)) == 2
    memory = [Memory(total=16 << 30, available=1 << 20), Memory(total=16 << 30, available=8 << 30)]
    monkeypatch.setattr(module, "read_memory", lambda: memory[not processes(weights)])
    assert text_of(await ask(model, third)) == "pong"
    assert processes(weights) == [] and len(processes(third)) == 2
    await model.aclose()


async def test_a_reply_ends_before_its_engine_makes_room(
    engine_double: None, model: LocalModel, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    monkeypatch.setenv("GGML_FAKE_REPLY", str(go))
    second = write_gguf(weights.with_name("second.gguf"))
    first = asyncio.create_task(ask(model, weights))
    await wait_for(lambda: go.with_suffix(".asked").exists())
    memory = [Memory(total=16 << 30, available=1 << 20), Memory(total=16 << 30, available=8 << 30)]
    asked: list[bool] = []

    def read() -> Memory:
        asked.append(True)
        return memory[not processes(weights)]

    monkeypatch.setattr(module, "read_memory", read)
    other_model = asyncio.create_task(ask(model, second))
    await wait_for(lambda: asked)
    go.touch()
    assert text_of(await first) == text_of(await other_model) == "pong"
    assert processes(weights) == []
    await model.aclose()


async def test_a_client_that_is_no_longer_used_ends_its_engine(
    engine_double: None, model: LocalModel, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETIREMENT", 0.0)
    await ask(model, weights)
    model.set_retired(True)
    await wait_for(lambda: processes(weights) == [])
    assert text_of(await ask(model, weights)) == "pong"  # a run that still uses it
    await wait_for(lambda: processes(weights) == [])
    await model.aclose()


async def test_a_file_that_was_replaced_after_the_check_is_not_loaded(
    engine_double: None, model: LocalModel, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = gguf.weight_files

    def replace_it(path: Path) -> list[Path]:
        evil = weights.with_suffix(".new")
        evil.write_bytes(weights.read_bytes())
        evil.replace(weights)
        return real(path)

    monkeypatch.setattr(module, "weight_files", replace_it)
    fault = fault_of(await ask(model, weights))
    assert "the file has changed since it was checked" in fault.message
    await wait_for(lambda: processes(weights) == [])


async def test_after_a_failed_start_the_model_is_not_in_use(
    engine_double: None, model: LocalModel, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGML_FAKE_PROBLEM", "out of memory")
    assert "out of memory" in fault_of(await ask(model, weights)).message
    assert engine.running_status(weights) is None
    info = await model.describe(str(weights))
    assert isinstance(info, ModelInfo) and info.loaded is False
    assert await model.unload(str(weights)) is None
    monkeypatch.delenv("GGML_FAKE_PROBLEM")
    assert text_of(await ask(model, weights)) == "pong"
    await model.aclose()


async def test_loading_and_unloading_on_request(
    engine_double: None, model: LocalModel, other: LocalModel, weights: Path
) -> None:
    assert await model.load(str(weights), 2_048) is None
    assert len(processes(weights)) == 2
    await ask(other, weights, 2_048)
    assert "Another session uses small" in str(await model.unload(str(weights)))
    await other.aclose()
    assert processes(weights) == []


async def test_models_in_the_folder_are_listed_by_name(engine_double: None, model: LocalModel) -> None:
    paths.ensure_private_dir(paths.models_dir())
    path = write_gguf(paths.models_dir() / "Small-Q4_K_M.gguf")
    assert await model.list_models() == ("Small-Q4_K_M",)
    info = await model.describe("Small-Q4_K_M")
    assert isinstance(info, ModelInfo) and info.context_window == QWEN["qwen2.context_length"]
    assert text_of(await ask(model, "Small-Q4_K_M")) == "pong"
    assert len(processes(path)) == 2
    await model.aclose()


async def test_unknown_and_refused_files_start_nothing(engine_double: None, model: LocalModel, tmp_path: Path) -> None:
    cases: dict[str, str] = {"missing": "This machine has no model"}
    (tmp_path / "text.gguf").write_text("hello")
    cases[str(tmp_path / "text.gguf")] = "is not a GGUF file"
    hostile = QWEN | {"tokenizer.chat_template": "{{ messages.__class__.__mro__ }}"}
    cases[str(write_gguf(tmp_path / "hostile.gguf", hostile))] = "so the file is refused"
    cut = write_gguf(tmp_path / "cut.gguf")
    cut.write_bytes(cut.read_bytes()[:-100])
    cases[str(cut)] = "cut.gguf"
    for name, message in cases.items():
        described, asked = await model.describe(name), fault_of(await ask(model, name))
        assert isinstance(described, Fault) and message in described.message, described
        assert message in asked.message and processes(Path(name)) == []
    assert not (paths.data_dir() / "engines").exists()


async def test_a_model_that_does_not_fit_is_refused_with_numbers(
    engine_double: None, model: LocalModel, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_memory(monkeypatch, 1 << 20)
    fault = fault_of(await ask(model, weights))
    assert "memory" in fault.message and "smaller" in fault.message
    assert processes(weights) == []


@pytest.mark.needs("xllamacpp")
async def test_llama_cpp_itself_answers(real_engine: None, model: LocalModel, tmp_path: Path) -> None:
    weights = write_tiny_model(tmp_path / "tiny.gguf")
    info = await model.describe(str(weights))
    assert isinstance(info, ModelInfo) and info.context_window == WINDOW
    first, second = await ask(model, weights, 2_048), await ask(model, weights, 2_048)
    assert isinstance(first[-1], Stop)  # its tokens are chance
    assert Phase(phase="reading", done=0, total=_usage(first)[0].prompt_tokens) in first
    assert (_usage(second)[0].cached_tokens or 0) > (_usage(first)[0].cached_tokens or 0)
    info = await model.describe(str(weights))
    assert isinstance(info, ModelInfo) and info.loaded_window == 2_048
    await model.aclose()
    assert processes(weights) == []


def _usage(parts: list[ReplyPart]) -> list[Usage]:
    return [part.usage for part in parts if isinstance(part, UsageReport)]


@pytest.mark.needs("xllamacpp")
async def test_what_llama_cpp_says_about_a_model_that_it_does_not_know(
    real_engine: None, model: LocalModel, tmp_path: Path
) -> None:
    unknown = QWEN | {"general.architecture": "nobody", "nobody.block_count": 1}
    weights = write_gguf(tmp_path / "unknown.gguf", unknown)
    fault = fault_of(await ask(model, weights))
    assert "could not load unknown" in fault.message and "nobody" in fault.message
    assert "engine.log" in fault.advice
    await wait_for(lambda: processes(weights) == [])


async def test_a_file_elsewhere_is_listed_once_it_was_asked_for(
    engine_double: None, model: LocalModel, weights: Path
) -> None:
    paths.ensure_private_dir(paths.models_dir())
    write_gguf(paths.models_dir() / "own.gguf")
    await model.describe(str(weights))
    await model.describe("own")
    assert await model.list_models() == ("own", str(weights))


async def test_a_suggested_model_is_found_by_its_short_name(engine_double: None, model: LocalModel) -> None:
    paths.ensure_private_dir(paths.models_dir())
    write_gguf(paths.models_dir() / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf")
    assert text_of(await ask(model, "qwen2.5-coder-1.5b")) == "pong"
    await model.aclose()
