from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_calibration import file_block, only_files
from tests.doubles.mock import MockServer, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.commands.probing import probe_project
from tui_agent.common import paths
from tui_agent.engine.models import calibration as calibration_module
from tui_agent.events import Notice, ProtocolChanged
from tui_agent.models.endpoint import endpoint

WANTED = {"calibrate": True}


def opened(server: MockServer, workspace: Path | None, *, flags: dict[str, Any] | None = None, **more: Any) -> Any:
    """A session with the model `m` of an Ollama, which says how large it is."""
    return run_session(server, workspace, provider="ollama", flags={"model": "m", **(flags or {})}, **more)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_module, "IDLE", 0.0)


def told(watch: SessionDriver, code: str) -> list[str]:
    return [one.text for one in watch.of(Notice) if one.code == code]


def calibration(model: str) -> Any:
    return json.loads(paths.models_file().read_text("utf-8"))["models"][model].get("calibration")


async def test_a_model_used_for_the_first_time_is_measured_and_asked_in_the_way_that_suits_it(tmp_path: Path) -> None:
    greeting = scenario("hello", "Hello.")
    async with serve(*only_files(), greeting, models=["m"]) as server:
        async with opened(server, tmp_path, flags=WANTED) as session:
            watch = SessionDriver(session)
            ended = await watch.until_event(Notice, code="model.calibrated")
            assert "m uses whole files" in ended.text and "Saved in models.json" in ended.text
            assert told(watch, "models.read") == []
            assert calibration("m")["strategy"] == "files"
            await session.send("hello, who are you?")
            await watch.ended()
            assert watch.of(ProtocolChanged)[-1].protocol == "files"
        before = len(server.requests)
        async with opened(server, tmp_path, flags=WANTED) as again:
            watch = SessionDriver(again)
            await again.send("hello, who are you?")
            await watch.ended()
            assert told(watch, "model.calibrating") == []
        assert len(server.requests) == before + 1


async def test_a_message_ends_the_measurement_and_goes_first(tmp_path: Path) -> None:
    slow = [
        scenario(one.text[:40], step(file_block(one.file, one.content), delay=600.0)) for one in probe_project().tasks
    ]
    async with serve(*slow, scenario("hello", "Hello."), models=["m"]) as server:
        async with opened(server, tmp_path, flags=WANTED) as session:
            watch = SessionDriver(session)
            await watch.until_event(Notice, code="model.calibrating")
            await server.wait_for_request()
            await session.send("hello, who are you?")
            ended = await watch.ended()
            assert ended.text == "Hello."
            (skipped,) = told(watch, "model.not_calibrated")
            assert "skipped" in skipped
        assert calibration("m") is None


async def test_a_measurement_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_module, "TIMEOUT", 0.2)
    async with serve(scenario("hello", "Hello."), models=["m"]) as server:
        async with opened(server, tmp_path, flags=WANTED) as session:
            watch = SessionDriver(session)
            notice = await watch.until_event(Notice, code="model.not_calibrated")
            assert "reliability --quick" in notice.text


@pytest.mark.parametrize("why", ["off", "strategy", "measured", "resumed"])
async def test_nothing_is_measured_where_it_is_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    begun: list[str] = []

    async def measured(self: calibration_module.Calibrator, name: str) -> None:
        begun.append(name)

    monkeypatch.setattr(calibration_module.Calibrator, "_measure", measured)
    entry: dict[str, Any] = {
        "strategy": {"options": {"strategy": "native"}},
        "measured": {"calibration": {"strategy": "json", "date": "2026-11-01"}},
    }.get(why, {})
    paths.models_file().parent.mkdir(parents=True, exist_ok=True)
    paths.models_file().write_text(json.dumps({"models": {"m": entry}}), encoding="utf-8")
    async with serve(scenario("hello", "Hello."), models=["m"]) as server:
        if why == "resumed":
            async with opened(server, tmp_path) as session:
                await session.send("hello, who are you?")
                await session.wait()
        flags = {} if why == "off" else WANTED
        resume = session.id if why == "resumed" else None
        async with opened(server, None if resume else tmp_path, flags=flags, resume=resume) as again:
            assert again._model_probe is not None
            await again._model_probe
            await again.calibrator.close()
    assert begun == []


def test_a_server_far_away_is_never_measured_unasked() -> None:
    assert endpoint("http://192.168.1.5:11434", None, {}).local
    assert not endpoint("https://api.example.com/v1", None, {}).local
