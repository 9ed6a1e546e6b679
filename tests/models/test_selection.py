from __future__ import annotations

from typing import Any, get_args

import pytest

from tests.models import seed_models
from tui_agent.common.domain import ModelInfo
from tui_agent.models import catalog
from tui_agent.models.catalog import Catalog, ModelEntry, ModelOptions, SelectionRules
from tui_agent.models.selection import Role, Sampling, request_options, select_model, select_session_model, with_effort
from tui_agent.settings import Settings

SEED = catalog.parse_catalog(seed_models.TEXT).catalog or Catalog()
SERVED = ("qwen2.5-coder:7b", "llama3.1:8b", "tiny:latest")


def rules(**stages: str) -> Catalog:
    return Catalog(rules=SelectionRules(by_stage=stages))


@pytest.mark.parametrize("role", ["dispatcher", "planning", "execution", "summary", "title", "explorer"])
def test_every_role_uses_the_sessions_model(role: Role) -> None:
    found = select_model(role, "mine", Catalog(), SERVED)
    assert (found.name, found.missing) == ("mine", "")


def test_a_role_gets_its_own_model_where_the_file_says_so_and_the_server_has_it() -> None:
    assert select_model("planning", "qwen2.5-coder:7b", SEED, SERVED).name == "llama3.1:8b"
    assert select_model("summary", "m", rules(summary="tiny"), SERVED).name == "tiny:latest"


def test_a_model_that_the_server_lacks_is_told_and_the_sessions_is_used() -> None:
    found = select_model("execution", "qwen2.5-coder:7b", SEED, SERVED, task="refactoring")
    assert found.name == "qwen2.5-coder:7b"
    assert "qwen2.5-coder:32b for refactoring" in found.missing
    assert select_model("planning", "m", SEED, None).name == "m"


def test_the_sessions_own_name_is_no_wish() -> None:
    assert not select_model("planning", "tiny", rules(planning="tiny:latest"), ()).missing


def test_settings_come_before_stages_and_stages_before_task_types() -> None:
    wishes = Catalog(rules=SelectionRules(by_stage={"planning": "b"}, by_task_type={"planning": "c"}))
    served = ("a", "b", "c")
    assert select_model("planning", "m", wishes, served, settings={"planning": "a"}).name == "a"
    assert select_model("planning", "m", wishes, served).name == "b"
    assert select_model("planning", "m", SEED, SERVED).because == "models.json, byTaskType.planning"


def test_the_small_model_is_for_side_tasks_only() -> None:
    settings = {"small": "tiny"}
    assert select_model("title", "m", Catalog(), SERVED, settings=settings).name == "tiny:latest"
    assert select_model("planning", "m", Catalog(), SERVED, settings=settings).name == "m"


def test_the_type_of_task_counts_for_work_alone() -> None:
    assert select_model("title", "m", SEED, SERVED, task="planning").name == "m"
    assert select_model("execution", "m", SEED, SERVED, task="coding").name == "qwen2.5-coder:7b"


def there(*names: str) -> list[ModelInfo]:
    return [ModelInfo(name=name) for name in names]


def test_a_session_takes_the_named_model_else_the_default_else_one_that_is_there() -> None:
    named = select_session_model(SEED, there(*SERVED), named="x")
    assert named is not None and named.name == "x"
    default = select_session_model(SEED, there(*SERVED))
    assert default is not None and (default.name, default.missing) == ("qwen2.5-coder:7b", "")
    other = select_session_model(SEED, there("llama3.1:8b"))
    assert other is not None and other.name == "llama3.1:8b" and "qwen2.5-coder:7b" in other.missing
    assert select_session_model(SEED, ()) is None
    quiet = select_session_model(SEED, there("a"), configured=False)
    assert quiet is not None and not quiet.missing


@pytest.mark.parametrize(
    ("role", "temperature", "most"),
    [("planning", 0.3, 2_048), ("execution", 0.2, 4_096), ("summary", 0.1, 4_096), ("title", 0.1, 64)],
)
def test_each_role_has_its_temperature_and_length(role: Role, temperature: float, most: int) -> None:
    found = request_options(role, ModelEntry(), thinks=False, window=32_768)
    assert (found.temperature, found.max_tokens, found.think) == (temperature, most, None)


def test_a_model_that_thinks_gets_room_for_it() -> None:
    assert request_options("execution", ModelEntry(), thinks=True, window=65_536).max_tokens == 16_384
    quiet = ModelEntry(options=ModelOptions(think=False))
    assert request_options("execution", quiet, thinks=True, window=65_536).max_tokens == 4_096


def test_a_reply_never_takes_more_than_half_the_window() -> None:
    assert request_options("execution", ModelEntry(), thinks=True, window=8_192).max_tokens == 4_096


def test_the_models_options_come_before_the_settings() -> None:
    entry = ModelEntry(options=ModelOptions(temperature=0.9, num_predict=100, keep_alive="1h", think="low"))
    found = request_options("execution", entry, thinks=True, window=None, temperature=0.5, keep_alive="30m")
    assert (found.temperature, found.max_tokens, found.keep_alive, found.think) == (0.9, 100, "1h", "low")
    assert request_options("summary", entry, thinks=True, window=None).temperature == 0.1
    assert request_options("summary", entry, thinks=True, window=None, temperature=0.5).temperature == 0.5


def effort(role: Role, *, own: bool | str | None = None, thinks: bool | None = True, **more: Any) -> bool | str | None:
    settings = Settings.model_validate(more.pop("settings", {}))
    capabilities = {True: ("completion", "thinking"), False: ("completion",), None: None}[thinks]
    options = Sampling(temperature=0, max_tokens=1, think=own)
    return with_effort(options, role, settings, capabilities, more.pop("chosen", None)).think


@pytest.mark.parametrize("role", get_args(Role))
def test_reasoning_is_off_for_side_tasks_only(role: Role) -> None:
    assert effort(role) is (False if role in ("dispatcher", "title") else None)
    assert effort(role, settings={"effort": "high"}) == (False if role in ("dispatcher", "title") else "high")
    assert effort(role, chosen={"": "high"}) == (False if role in ("dispatcher", "title") else "high")


@pytest.mark.parametrize("role", get_args(Role))
@pytest.mark.parametrize("own", [None, True, False, "low"])
def test_nothing_changes_for_a_model_that_cannot_reason(role: Role, own: bool | str | None) -> None:
    settings = {"effort": "high", "efforts": {role: "off"}}
    assert effort(role, own=own, thinks=False, settings=settings, chosen={"": "low", role: "low"}) == own


def test_a_model_that_may_reason_gets_only_what_the_user_sets() -> None:
    assert effort("dispatcher", thinks=None) is None
    assert effort("dispatcher", thinks=None, settings={"efforts": {"dispatcher": "off"}}) is False
    assert effort("execution", thinks=None, chosen={"": "off"}) is False


@pytest.mark.parametrize(
    ("chosen", "own", "settings", "expected"),
    [
        ({"planning": "low", "": "high"}, True, {"effort": "medium"}, "low"),
        ({"": "high"}, True, {"efforts": {"planning": "medium"}}, "high"),
        ({"": "default"}, "low", {"effort": "medium"}, "low"),
        ({"": "default"}, None, {"effort": "medium"}, None),
        ({}, True, {"effort": "medium", "efforts": {"planning": "off"}}, True),
        ({}, None, {"effort": "medium", "efforts": {"planning": "off"}}, False),
        ({}, None, {"effort": "medium", "efforts": {"planning": "default"}}, None),
        ({}, None, {"effort": "medium"}, "medium"),
    ],
)
def test_the_first_effort_that_is_set_counts(
    chosen: dict[str, str], own: bool | str | None, settings: dict[str, Any], expected: bool | str | None
) -> None:
    assert effort("planning", own=own, settings=settings, chosen=chosen) == expected
