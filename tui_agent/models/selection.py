"""Which model does what, and with which options: pure functions over catalogue, settings and what the server has (M5).

Every role uses the session's model, since each switch loads another one. A role gets a model of its own only where
the settings or models.json say so and the server has it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias

from tui_agent.common.domain import FrozenValue, ModelInfo
from tui_agent.models.catalog import Catalog, ModelEntry, best_model, same_model, served_name

Role: TypeAlias = Literal["dispatcher", "planning", "execution", "summary", "title", "explorer"]

_TEMPERATURES: Mapping[str, float] = {"planning": 0.3, "execution": 0.2, "explorer": 0.2}
_STRUCTURED = 0.1
"""Temperature of summaries and of all other calls that want a certain form."""
_SHORT: Mapping[str, int] = {"planning": 2_048, "dispatcher": 512, "title": 64}
"""Tokens of a reply of roles that need few, whatever the settings allow."""
_THINKING = 4
"""Times as many tokens for a model that thinks first: its thoughts count too (O-11)."""
_SMALL_ROLES = ("title", "dispatcher")
"""Short side tasks, for which `small_model` is meant."""


class SelectedModel(FrozenValue, frozen=True, kw_only=True):
    """The model of a role."""

    name: str
    because: str
    """Which setting or rule chose it, for the user."""
    missing: str = ""
    """A sentence when another one was wanted that the server does not have; said once a session."""


class Sampling(FrozenValue, frozen=True, kw_only=True):
    """What a request of a role says beside its messages; None leaves it to the server."""

    temperature: float
    max_tokens: int
    think: bool | str | None = None
    keep_alive: str | int | None = None


def select_session_model(
    catalog: Catalog, served: Sequence[ModelInfo], *, configured: bool = True, named: str = ""
) -> SelectedModel | None:
    """The model of a session: the one `named` by flag or setting, else by the rule `default`, else one that is there.

    `configured` False: the catalogue is only the built-in one, so that nothing the user wrote is passed over.
    None when nothing is named and the server has no model that can answer.
    """
    if named:
        return SelectedModel(name=named, because="the setting `model`")
    wanted = catalog.rules.default
    if found := served_name(wanted, [info.name for info in served]):
        return SelectedModel(name=found, because="models.json, selectionRules.default")
    chosen = best_model(served)
    if not chosen:
        return None
    missing = f"models.json names {wanted} as the default, but the server does not have it; {chosen} is used."
    return SelectedModel(name=chosen, because="the server has it", missing=missing if wanted and configured else "")


def select_model(
    role: Role,
    session: str,
    catalog: Catalog,
    served: Collection[str] | None,
    *,
    settings: Mapping[str, str | None] | None = None,
    task: str = "",
    chosen: str = "",
) -> SelectedModel:
    """The model of `role` in a session that uses the model `session`.

    `chosen`: what the user chose for the role in this session, before all else. `settings`: names of models by role,
    and under `small` that for short side tasks. `task` is the type of task that is being worked on, such as
    `refactoring`. `served` None: the server does not say what it has, so that nothing else than the session's model is
    sure to be there.
    """
    wanted, because = _wanted(role, catalog, settings or {}, task)
    if chosen:
        wanted, because = chosen, "the choice in this session"
    if not wanted or same_model(wanted, session):
        return SelectedModel(name=session, because="the session's model")
    if found := served_name(wanted, served or ()):
        return SelectedModel(name=found, because=because)
    why = "does not have it" if served is not None else "does not list its models"
    missing = f"{because} specifies {wanted} for {task or role}, but the server {why}; {session} is used instead."
    return SelectedModel(name=session, because="the session's model", missing=missing)


def _wanted(role: Role, catalog: Catalog, settings: Mapping[str, str | None], task: str) -> tuple[str, str]:
    """The name wished for, and who wishes it; the first of these counts."""
    rules = catalog.rules
    places: list[tuple[str | None, str]] = [
        (settings.get(role), "the setting `explorer_model`" if role == "explorer" else f"the setting `roles.{role}`"),
        (rules.by_stage.get(role), f"models.json, byStage.{role}"),
    ]
    if role in ("execution", "explorer") and task:
        places.append((rules.by_task_type.get(task), f"models.json, byTaskType.{task}"))
    places.append((rules.by_task_type.get(role), f"models.json, byTaskType.{role}"))
    if role in _SMALL_ROLES:
        places.append((settings.get("small"), "the setting `small_model`"))
    return next(((name, because) for name, because in places if name), ("", ""))


def request_options(
    role: Role,
    entry: ModelEntry,
    *,
    thinks: bool,
    window: int | None,
    temperature: float | None = None,
    reply_tokens: int = 4_096,
    keep_alive: str | int | None = None,
) -> Sampling:
    """The options of a request: the model's own, else the settings' (`temperature`, `reply_tokens`, `keep_alive`),
    else what fits the role. A reply never gets more than half the window. `thinks`: the model is able to.

    Options of the model that are about sampling hold for work; a call that wants a certain form stays at its own
    temperature.
    """
    options = entry.options
    works = role in ("execution", "explorer")
    chosen = options.temperature if works and options.temperature is not None else temperature
    if chosen is None:
        chosen = _TEMPERATURES.get(role, _STRUCTURED)
    most = options.num_predict
    if most is None:
        most = min(reply_tokens, _SHORT.get(role, reply_tokens))
        if thinks and options.think is not False:
            most *= _THINKING
    if window is not None:
        most = max(64, min(most, window // 2))
    kept = options.keep_alive if options.keep_alive is not None else keep_alive
    return Sampling(temperature=chosen, max_tokens=most, think=options.think, keep_alive=kept)
