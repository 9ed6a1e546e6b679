from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from tests.doubles.mock import scenario, serve
from tests.doubles.session import FakeSession
from tests.engine.kit import session_options
from tests.scenes import build
from tests.tui.kit import app_for, run_app, screen_text, wait_for, wait_until_idle, wait_until_rendered
from tui_agent import events as e
from tui_agent.common import paths
from tui_agent.common.domain import Fault
from tui_agent.engine.models.choice import CHOICES, Candidate
from tui_agent.engine.opening import open_session
from tui_agent.models.discovery import FoundServer
from tui_agent.models.selection import Role
from tui_agent.tui.app import TuiAgentApp
from widgets.approval_modal import ApprovalModal
from widgets.first_run import FirstRun
from widgets.model_picker import ModelPicker

OWN = "qwen2.5-coder:7b"
OWN_SERVER = FoundServer(
    name="ollama",
    kind="Ollama",
    provider="ollama",
    base_url="http://localhost:11434",
    version="0.12.10",
    configured=True,
)
STUDIO = FoundServer(name="lm-studio", kind="LM Studio", provider="openai", base_url="http://localhost:1234/v1")
VLLM = FoundServer(
    name="work", kind="vLLM", provider="openai", base_url="http://10.0.0.5:8000/v1", version="0.32.0", setting="work"
)
CLOSED = FoundServer(
    name="llama.cpp",
    kind="llama.cpp",
    provider="openai",
    base_url="http://localhost:8080/v1",
    problem="requires a token",
)


def model(name: str, able: str, window: int, build: str, **more: Any) -> Candidate:
    more.setdefault("loaded", False)
    return Candidate(
        name=name,
        described=True,
        tools="tools" in able,
        thinks="thinking" in able,
        sees="vision" in able,
        window=window,
        build=build,
        **more,
    )


MODELS = (
    model("deepseek-r1:14b", "thinking", 32_768, "14.8B · Q4_K_M · 9.0 GB"),
    model("gpt-oss:20b", "tools thinking", 32_768, "20.9B · MXFP4 · 13.8 GB", label="The big one"),
    model("llama3.2:latest", "tools vision", 8_192, "3.2B · Q4_K_M · 2.0 GB"),
    model("nomic-embed-text:latest", "", 2_048, "137M · F16 · 0.3 GB", answers=False),
    model(OWN, "tools", 32_768, "7.6B · Q4_K_M · 4.7 GB", loaded=True),
    Candidate(name="[b]odd[/b]\x1b[2J\u202e", described=True, window=4_096),
    Candidate(name="hf.co/unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF:Q4_K_M", described=True, problem="It is silent."),
)


class FakeModels:
    """Models that are chosen as they are asked to be."""

    endpoint = "http://localhost:11434"
    provider = "ollama"
    fault: Fault | None = None

    def __init__(self, models: Sequence[Candidate] | Fault = MODELS) -> None:
        self.models = models
        self.others: dict[FoundServer, Sequence[Candidate] | Fault] = {}
        self.loaded: dict[tuple[str, str], bool] = {}
        self.searches: list[bool] = []
        self.search = asyncio.Event()
        self.search.set()
        self.chosen: list[tuple[str, str]] = []
        self.problem = ""
        self.answers = asyncio.Event()
        self.answers.set()
        self.roles: dict[Role, tuple[str, bool]] = dict.fromkeys(CHOICES, (OWN, False))

    def of(self, server: FoundServer | None) -> Sequence[Candidate] | Fault:
        return self.models if server is None else self.others[server]

    async def servers(self, *, fresh: bool = False) -> list[FoundServer]:
        self.searches.append(fresh)
        await self.search.wait()
        return [OWN_SERVER, *self.others] if self.others else []

    def is_current(self, server: FoundServer) -> bool:
        return server == OWN_SERVER

    async def listed(self, server: FoundServer | None = None) -> list[Candidate] | Fault:
        models = self.of(server)
        if isinstance(models, Fault):
            return models
        name = server.name if server is not None else ""
        return [Candidate(name=one.name, label=one.label, server=name) for one in models]

    async def describe(
        self, names: Sequence[str], tell: Callable[[Candidate], object], server: FoundServer | None = None
    ) -> None:
        models = self.of(server)
        assert not isinstance(models, Fault)
        for one in models:
            if one.name in names:
                loaded = self.loaded.get((one.server, one.name), one.loaded)
                tell(msgspec.structs.replace(one, loaded=loaded))

    async def set_loaded(self, model: Candidate, wanted: bool) -> str:
        await self.answers.wait()
        if not self.problem:
            self.loaded[model.server, model.name] = wanted
        return self.problem

    async def current(self) -> dict[Role, tuple[str, bool]]:
        return dict(self.roles)

    async def window(self) -> int:
        return 32_768

    async def choose(self, role: Role, name: str, server: str = "") -> str:
        self.chosen.append((role, f"{server}:{name}" if server else name))
        await self.answers.wait()
        if not self.problem:
            self.roles[role] = (name or OWN, bool(name))
        return self.problem


def on_screen(models: FakeModels | None = None, **more: Any) -> tuple[TuiAgentApp, FakeSession, FakeModels]:
    app, session = app_for("answered", **more)
    session.models = given = models or FakeModels()  # type: ignore[attr-defined]  # only some sessions have a choice
    return app, session, given


def picker(app: TuiAgentApp) -> ModelPicker:
    assert isinstance(app.screen, ModelPicker)
    return app.screen


def chosen(app: TuiAgentApp) -> str:
    row = picker(app).current
    return row.name if row is not None else ""


async def told(pilot: Pilot[int], text: str) -> None:
    app = pilot.app
    assert isinstance(app, TuiAgentApp)
    await wait_for(pilot, lambda: text in " ".join(screen_text(app).split()))


async def opened(pilot: Pilot[int], app: TuiAgentApp) -> None:
    await pilot.press("f8")
    await wait_for(pilot, lambda: isinstance(app.screen, ModelPicker) and app.screen.rows is not None)
    await wait_until_idle(pilot)


async def test_a_model_is_found_its_meaning_said_and_chosen() -> None:
    app, _session, models = on_screen()
    async with run_app(app, (100, 30)) as pilot:
        await opened(pilot, app)
        assert chosen(app) == OWN
        for part in ("In use now.", "14.8B · Q4_K_M", "embeddings only", "tools vision", "not known"):
            await told(pilot, part)
        await pilot.press("home", "end", "pageup", *"llama")
        assert chosen(app) == "llama3.2:latest"
        await told(pilot, "It has to be loaded first. A window of 8,192 tokens instead of 32,768.")
        await pilot.press("enter")
        await wait_for(pilot, lambda: not isinstance(app.screen, ModelPicker))
        assert models.chosen == [("execution", "llama3.2:latest")]
        await told(pilot, "llama3.2:latest answers from the next message")


async def test_a_role_gets_a_model_and_loses_it_again() -> None:
    app, _session, models = on_screen()
    async with run_app(app, (100, 30)) as pilot:
        await opened(pilot, app)
        await pilot.press("tab", *"big")
        assert chosen(app) == "gpt-oss:20b"
        await told(pilot, "Switching between the two reloads")
        models.problem = "The server is gone."
        await pilot.press("enter")
        await told(pilot, "The server is gone.")
        models.problem = ""
        await pilot.press("enter")
        await told(pilot, "planning: gpt-oss:20b")
        await told(pilot, "now gpt-oss:20b · chosen here")
        await pilot.press("f8")
        await told(pilot, "planning: the configured one")
        assert models.chosen[1:] == [("planning", "gpt-oss:20b"), ("planning", "")]
        await pilot.press("shift+tab", "shift+tab", "ctrl+u", *"zzz")
        await told(pilot, "No model matches.")
        role = picker(app).role
        assert role is not None and role.role == "explorer"
        await pilot.press("enter", "f8", "escape")
        await wait_for(pilot, lambda: not isinstance(app.screen, ModelPicker))
        assert len(models.chosen) == 3


async def test_a_second_enter_says_that_the_first_goes_on() -> None:
    app, _session, models = on_screen()
    models.answers.clear()
    async with run_app(app) as pilot:
        await opened(pilot, app)
        await pilot.press("enter", "enter")
        await told(pilot, "still checking the previously chosen model")
        models.answers.set()
        await wait_for(pilot, lambda: not isinstance(app.screen, ModelPicker))
        assert len(models.chosen) == 1


async def test_names_are_chosen_at_once() -> None:
    app, _session, models = on_screen()
    async with run_app(app) as pilot:
        await pilot.press(*"/model llama3.2:latest", "enter")
        await told(pilot, "llama3.2:latest answers from the next message")
        await pilot.press(*"/model sub-agents tiny", "enter")
        await told(pilot, "sub-agents: tiny")
        await pilot.press(*"/model explorer default", "enter")
        await told(pilot, "sub-agents: the configured one")
        await pilot.press(*"/model planning", "enter")
        await told(pilot, "needs a model name")
        models.problem = "http://localhost:11434 has no model \x1b[2Jnone."
        await pilot.press(*"/model none", "enter")
        await told(pilot, "has no model")
        assert models.chosen == [
            ("execution", "llama3.2:latest"),
            ("explorer", "tiny"),
            ("explorer", ""),
            ("execution", "none"),
        ]


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ((), "http://localhost:11434 has no models. Pull one first"),
        (Fault(kind="unreachable", message="It can't be reached.", advice="Start it."), "can't be reached. Start it."),
    ],
)
async def test_no_models_and_no_server_are_said(models: Any, words: str) -> None:
    app, session, _ = on_screen(FakeModels(models))
    request = next(one.event for one in build.trust().records if one.event.type == "approval.asked")
    async with run_app(app, (60, 16)) as pilot:
        await opened(pilot, app)
        await told(pilot, words)
        await pilot.press("enter", "tab", "down", "x")
        session.push(request)  # somebody must decide something
        await wait_for(pilot, lambda: isinstance(app.screen, ApprovalModal))


async def test_nothing_of_a_model_is_markup_or_control_at_any_size() -> None:
    app, _session, _ = on_screen()
    async with run_app(app, (120, 30)) as pilot:
        await opened(pilot, app)
        await pilot.press(*"odd")
        await told(pilot, "[b]odd[/b]")
        for size in ((40, 10), (1, 1), (60, 60), (100, 12)):
            await pilot.resize_terminal(*size)
            await pilot.press("tab", "x", "backspace")
            await wait_until_idle(pilot)
        text = screen_text(app)
        assert not any((ord(one) < 32 and one != "\n") or 0x7F <= ord(one) < 0xA0 for one in text)
        assert "\u202e" not in text


def several() -> FakeModels:
    own = [one for one in MODELS if one.name in ("gpt-oss:20b", "llama3.2:latest", OWN)]
    models = FakeModels([*own[:2], msgspec.structs.replace(own[2], where="graphics", speed=41.3)])
    models.others[STUDIO] = (
        model("qwen3-coder-30b", "tools", 32_768, "30B · Q4_K_M · 18.6 GB", server="lm-studio", speed=12.0),
        model("gemma-3-4b", "vision", 8_192, "4B · Q4_0 · 2.4 GB", server="lm-studio", loaded=True),
    )
    models.others[CLOSED] = ()
    models.others[VLLM] = (model(OWN, "tools", 131_072, "", server="work", loaded=True),)
    return models


async def test_models_of_all_servers_are_found_told_apart_and_chosen() -> None:
    app, _session, models = on_screen(several())
    async with run_app(app, (100, 40)) as pilot:
        await opened(pilot, app)
        for part in (
            "Ollama 0.12.10 · localhost:11434",
            "LM Studio · localhost:1234",
            "work · vLLM 0.32.0 · 10.0.0.5:8000",
        ):
            await told(pilot, part)
        for part in ("4 servers", "requires a token", "loaded · graphics", "41 tok/s", "12 tok/s"):
            await told(pilot, part)
        assert chosen(app) == OWN
        await pilot.press("end")
        assert picker(app).current == picker(app).rows[-1]  # type: ignore[index]
        await told(pilot, "The session moves to work. A window of 131,072 tokens instead of 32,768.")
        await pilot.press("enter")
        await wait_for(pilot, lambda: not isinstance(app.screen, ModelPicker))
        assert models.chosen == [("execution", f"work:{OWN}")]


async def test_a_search_goes_through_all_servers_and_names_them() -> None:
    app, _session, _models = on_screen(several())
    async with run_app(app, (100, 40)) as pilot:
        await opened(pilot, app)
        await told(pilot, "requires a token")
        await pilot.press(*"coder")
        await told(pilot, "3 of 6")
        assert "Ollama 0.12.10" not in screen_text(app)
        await pilot.press("ctrl+u", *"lm-studio")
        await told(pilot, "2 of 6")
        await pilot.press("ctrl+u")
        await told(pilot, "work · vLLM")
        await pilot.press("tab", "end")
        await told(pilot, "Roles use models of the session's server.")


async def test_the_row_of_a_server_without_models_can_not_be_used() -> None:
    app, _session, models = on_screen(several())
    async with run_app(app, (100, 40)) as pilot:
        await opened(pilot, app)
        await told(pilot, "requires a token")
        await pilot.press("end", "up")
        assert chosen(app) == "" and "use it" not in screen_text(app)
        await pilot.press("enter", "f4")
        await wait_until_idle(pilot)
        assert models.chosen == [] and models.loaded == {}


async def test_the_own_models_are_there_before_the_other_servers_answer() -> None:
    app, _session, models = on_screen(several())
    models.search.clear()
    async with run_app(app, (100, 40)) as pilot:
        await pilot.press("f8")
        await told(pilot, "loaded · graphics")
        assert chosen(app) == OWN and "LM Studio" not in screen_text(app)
        await pilot.press("up")
        before = chosen(app)
        models.search.set()
        await told(pilot, "LM Studio · localhost:1234")
        assert chosen(app) == before  # the cursor stays


async def test_other_servers_are_listed_if_the_own_one_fails() -> None:
    models = several()
    models.models = Fault(kind="status", message="http://localhost:11434 answered 500.", advice="See its log.")
    app, _session, _models = on_screen(models)
    async with run_app(app, (100, 40)) as pilot:
        await opened(pilot, app)
        await told(pilot, "http://localhost:11434 answered 500. See its log.")
        await told(pilot, "qwen3-coder-30b")


async def test_a_model_is_loaded_and_unloaded_after_a_second_press_if_that_affects_one_in_use() -> None:
    app, _session, models = on_screen(several())
    async with run_app(app, (100, 40)) as pilot:
        await opened(pilot, app)
        await told(pilot, "F4 unload it")
        await pilot.press("f4")
        await told(pilot, f"{OWN} is in use here. F4 again unloads it.")
        await pilot.press("up", "down", "f4")
        assert models.loaded == {}  # the cursor moved: it is asked again
        await pilot.press("f4")
        await told(pilot, f"{OWN} is no longer in memory")
        assert models.loaded == {("", OWN): False}
        await pilot.press("f4")
        await told(pilot, f"{OWN} is loaded")
        await pilot.press(*"llama", "f4")
        await told(pilot, f"{OWN} is in use here and may be removed from memory. F4 again loads it.")
        models.problem = "There is not enough memory."
        await pilot.press("f4")
        await told(pilot, "There is not enough memory.")
        models.problem = ""
        models.answers.clear()
        await pilot.press("ctrl+u", *"qwen3", "f4")  # no model in use on that server
        await told(pilot, "loading …")
        await pilot.press("f4")
        await told(pilot, "still busy")
        models.answers.set()
        await told(pilot, "qwen3-coder-30b is loaded")
        assert models.loaded["lm-studio", "qwen3-coder-30b"]


async def test_a_sleeping_model_can_be_unloaded() -> None:
    models = several()
    models.others[STUDIO] = (model("gemma-3-4b", "vision", 8_192, "", server="lm-studio", state="sleeping"),)
    app, _session, _models = on_screen(models)
    async with run_app(app, (100, 40)) as pilot:
        await opened(pilot, app)
        await pilot.press(*"gemma")
        await told(pilot, "F4 unload it")
        assert "sleeping" in screen_text(app)
        await pilot.press("f4")
        await told(pilot, "gemma-3-4b is no longer in memory")
        assert models.loaded == {("lm-studio", "gemma-3-4b"): False}


async def test_a_server_that_loads_nothing_on_request_has_no_key_for_it() -> None:
    app, _session, models = on_screen(several())
    async with run_app(app, (100, 40)) as pilot:
        await opened(pilot, app)
        await told(pilot, "requires a token")
        await pilot.press("end")
        await wait_until_idle(pilot)
        assert "F4" not in screen_text(app)
        await pilot.press("f4", "f4")
        assert models.loaded == {}


async def test_servers_are_looked_for_again() -> None:
    app, _session, models = on_screen()
    async with run_app(app, (100, 40)) as pilot:
        await opened(pilot, app)
        models.others = several().others
        await pilot.press("f5")
        await told(pilot, "LM Studio · localhost:1234")
        assert models.searches == [False, True]
        del models.others[STUDIO]
        await pilot.press("f5")
        await wait_for(pilot, lambda: "LM Studio" not in screen_text(app))


async def test_looking_again_ends_a_search_that_still_runs() -> None:
    app, _session, models = on_screen(several())
    models.search.clear()
    async with run_app(app, (100, 40)) as pilot:
        await pilot.press("f8")
        await wait_for(pilot, lambda: isinstance(app.screen, ModelPicker) and models.searches == [False])
        await pilot.press("f5")
        await wait_for(pilot, lambda: models.searches == [False, True])
        models.search.set()
        await told(pilot, "LM Studio · localhost:1234")
        await told(pilot, "4 servers")


async def test_a_model_of_another_server_is_chosen_while_the_own_server_is_dead() -> None:
    models = several()
    models.models = models.fault = Fault(kind="unreachable", message="No connection to http://localhost:11434.")
    app, _session, _ = on_screen(models)
    async with run_app(app, (100, 40)) as pilot:
        await opened(pilot, app)
        await told(pilot, "qwen3-coder-30b")
        await told(pilot, "for session")
        await pilot.press(*"qwen3-coder")
        assert chosen(app) == "qwen3-coder-30b"
        await pilot.press("enter")
        await wait_for(pilot, lambda: not isinstance(app.screen, ModelPicker))
        assert models.chosen == [("execution", "lm-studio:qwen3-coder-30b")]


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)], ids=["60x16", "80x24", "120x40"])
def test_pictures_of_several_servers(size: tuple[int, int], snap_compare: Any) -> None:
    app, _session, _ = on_screen(several())

    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await opened(pilot, app)
        await wait_for(pilot, lambda: len(picker(app).rows or ()) == 7)
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=show)


@pytest.mark.parametrize(
    ("size", "theme"),
    [((80, 24), "dark"), ((120, 40), "dark"), ((120, 40), "light")],
    ids=["80x24", "120x40", "120x40-light"],
)
def test_pictures(size: tuple[int, int], theme: str, snap_compare: Any) -> None:
    seven = [one for one in MODELS if "odd" not in one.name]
    seven[-1] = msgspec.structs.replace(seven[-1], problem="", window=32_768, build="30.5B · Q4_K_M · 18.6 GB")
    models = FakeModels(seven)
    models.roles["explorer"] = ("llama3.2:latest", True)
    app, _session, _ = on_screen(models, theme=theme)

    async def show(pilot: Pilot[int]) -> None:
        await wait_until_rendered(pilot)
        await opened(pilot, app)
        await pilot.press("home", "down", "down")
        await told(pilot, "It has to be loaded first.")
        await wait_until_idle(pilot)

    assert snap_compare(app, terminal_size=size, run_before=show)


async def test_without_a_server_the_key_of_the_models_asks_for_one() -> None:
    models = FakeModels(())
    models.fault = Fault(kind="unreachable", message="No connection to http://localhost:11434.", advice="Start it.")
    app, _session, _ = on_screen(models)
    async with run_app(app, (80, 24)) as pilot:
        await pilot.press("f8")
        await wait_for(pilot, lambda: isinstance(app.screen, FirstRun))
        await wait_until_idle(pilot)
        assert "No connection to http://localhost:11434. Start it." in " ".join(screen_text(app).split())
        assert "enter connect, or retry" in screen_text(app)


class FakeEfforts:
    """Efforts that are set as they are asked to be."""

    next_level = "off"

    def __init__(self) -> None:
        self.chosen: list[str] = []
        self.problem = ""

    def choose(self, argument: str) -> str:
        self.chosen.append(argument)
        return self.problem

    def described(self, argument: str) -> str:
        return f"effort set by {argument or 'the key'}"


async def test_the_effort_is_changed_by_key_and_command() -> None:
    app, session = app_for("answered")
    session.efforts = efforts = FakeEfforts()  # type: ignore[attr-defined]  # only some sessions have a choice
    async with run_app(app, (100, 30)) as pilot:
        await pilot.press("alt+t")
        await told(pilot, "effort set by the key")
        await pilot.press(*"/effort planning high", "enter")
        await told(pilot, "effort set by planning high")
        efforts.problem = "it can't reason"
        await pilot.press("alt+t")
        await told(pilot, "it can't reason")
        session.push(e.EffortChanged(effort="low", effective="low"))
        await told(pilot, "qwen2.5-coder:7b · effort low")
    assert efforts.chosen == ["off", "planning high", "off"]


async def test_without_a_choice_the_effort_key_says_so() -> None:
    app, _ = app_for("answered")
    async with run_app(app, (100, 30)) as pilot:
        await pilot.press("alt+t")
        await told(pilot, "the effort can't be changed here")


async def test_other_servers_are_offered_if_the_own_one_is_not_reachable() -> None:
    models = several()
    models.models = models.fault = Fault(kind="unreachable", message="No connection to http://localhost:11434.")
    app, _session, _ = on_screen(models)
    async with run_app(app, (100, 40)) as pilot:
        await opened(pilot, app)
        await told(pilot, "No connection to http://localhost:11434.")
        await told(pilot, "qwen3-coder-30b")


async def test_a_named_server_that_is_slow_is_listed_once_it_answers() -> None:
    models = several()
    slow = msgspec.structs.replace(VLLM, problem="http://10.0.0.5:8000/v1 did not answer in time.")
    models.others = {slow: models.others[VLLM]}
    app, _session, _ = on_screen(models)
    async with run_app(app, (100, 40)) as pilot:
        await opened(pilot, app)
        await told(pilot, "128k")
        assert "in time" not in screen_text(app)


async def test_a_real_session_moves_to_a_model_of_another_server(tmp_path: Path) -> None:
    async with serve(scenario("hi", "from one"), models=("one",)) as first:
        async with serve(scenario("hi", "from two"), models=("two",)) as second:
            paths.config_file().parent.mkdir(parents=True, exist_ok=True)
            paths.config_file().write_text(f"servers: {{other: {{base_url: '{second.url}/v1'}}}}\n")
            options = session_options(first, tmp_path, flags={"model": "one"}, attended=True)
            app = TuiAgentApp(partial(open_session, options), quiet_seconds=0.0)
            async with app.run_test(size=(100, 40)) as pilot:
                await wait_for(pilot, lambda: app.view.model == "one" and app.view.context_limit is not None)
                await pilot.press("f8")
                await told(pilot, f"other · OpenAI-compatible · {second.url.partition('://')[2]}")
                await told(pilot, "two")
                await pilot.press(*"two", "enter")
                await told(pilot, "two answers from the next message")
                await pilot.press("h", "i", "enter")
                await told(pilot, "from two")
                assert app.view.model == "two"
                app.exit(0)
    assert not [request for request in first.requests if request.body.get("messages")]
