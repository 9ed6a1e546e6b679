"""Choose the model and options of each role from catalog, settings and served models; pure functions (M5).

Every role uses the session's model, since each switch loads another one. A role gets its own model only if the settings
or models.json say so and the server has it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from tui_agent.common.domain import FrozenValue, ModelInfo
from tui_agent.models.catalog import Catalog, ModelEntry, best_model, same_model, served_name

if TYPE_CHECKING:
    from tui_agent.settings import Settings

Role: TypeAlias = Literal["dispatcher", "planning", "execution", "summary", "title", "explorer"]

_ROLE_TEMPERATURES: Mapping[str, float] = {"planning": 0.3, "execution": 0.2, "explorer": 0.2}
_STRUCTURED_TEMPERATURE = 0.1
"""Temperature of summaries and all other calls that expect a fixed form."""
_SHORT_REPLY_TOKENS: Mapping[str, int] = {"planning": 2_048, "dispatcher": 512, "title": 64}
"""Maximum reply tokens of roles that need few, whatever the settings allow."""
_THINKING_FACTOR = 4
"""Factor on reply tokens for models that reason first, since reasoning counts too (O-11)."""
_SMALL_ROLES = ("title", "dispatcher")
"""Roles with short side tasks, which use `small_model`, and reason only if the user says so (L5)."""


DEFAULT_WINDOW = 32_768
"""Context window to request, in tokens, if neither settings nor model specify one."""
SMALL_WINDOW = 16_384
"""Context window in tokens below which the user is warned once."""


class SelectedModel(FrozenValue, frozen=True, kw_only=True):
    """The model chosen for a role."""

    name: str
    because: str
    """Which setting or rule chose it, for the user."""
    missing: str = ""
    """A notice if another model was requested that the server doesn't have; shown once per session."""


class Sampling(FrozenValue, frozen=True, kw_only=True):
    """Options of a request; None leaves a choice to the server."""

    temperature: float
    max_tokens: int
    think: bool | str | None = None
    keep_alive: str | int | None = None


def select_session_model(
    catalog: Catalog, served: Sequence[ModelInfo], *, configured: bool = True, named: str = ""
) -> SelectedModel | None:
    """Choose the model of a session: `named` by flag or setting, else the default rule, else the server's best model.

    `configured` False: the catalog is the built-in one, so its default is not reported as missing. Returns None if
    nothing is named and the server has no model that can chat.
    """
    if named:
        return SelectedModel(name=named, because="the setting `model`")
    requested = catalog.rules.default
    if served_as := served_name(requested, [info.name for info in served]):
        return SelectedModel(name=served_as, because="models.json, selectionRules.default")
    chosen = best_model(served)
    if not chosen:
        return None
    missing = f"models.json names {requested} as the default, but the server does not have it; {chosen} is used."
    return SelectedModel(name=chosen, because="the server has it", missing=missing if requested and configured else "")


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
    """Choose the model of `role` in a session that uses the model `session`.

    `chosen` is the user's choice for the role in this session and takes precedence. `settings` maps roles, and `small`
    for short side tasks, to model names. `task` is the current task type, such as `refactoring`. `served` None: the
    server doesn't list its models, so only the session's model is certain to exist.
    """
    requested, because = _requested_model(role, catalog, settings or {}, task)
    if chosen:
        requested, because = chosen, "the choice in this session"
    if not requested or same_model(requested, session):
        return SelectedModel(name=session, because="the session's model")
    if served_as := served_name(requested, served or ()):
        return SelectedModel(name=served_as, because=because)
    why = "does not have it" if served is not None else "does not list its models"
    missing = f"{because} specifies {requested} for {task or role}, but the server {why}; {session} is used instead."
    return SelectedModel(name=session, because="the session's model", missing=missing)


def _requested_model(role: Role, catalog: Catalog, settings: Mapping[str, str | None], task: str) -> tuple[str, str]:
    """Return the requested name and its source, by precedence."""
    rules = catalog.rules
    candidates: list[tuple[str | None, str]] = [
        (settings.get(role), "the setting `explorer_model`" if role == "explorer" else f"the setting `roles.{role}`"),
        (rules.by_stage.get(role), f"models.json, byStage.{role}"),
    ]
    if role in ("execution", "explorer") and task:
        candidates.append((rules.by_task_type.get(task), f"models.json, byTaskType.{task}"))
    candidates.append((rules.by_task_type.get(role), f"models.json, byTaskType.{role}"))
    if role in _SMALL_ROLES:
        candidates.append((settings.get("small"), "the setting `small_model`"))
    return next(((name, because) for name, because in candidates if name), ("", ""))


def window_for(info: ModelInfo, chosen: int | None, provider: str) -> int:
    """Return the context window for requests, in tokens; `chosen` comes from settings or models.json.

    By default, the window of the loaded model, since Ollama would reload it for another one, unless that is too small
    and Ollama can provide more.
    """
    loaded, maximum = info.loaded_window, info.context_window
    if provider == "local":
        maximum = min(filter(None, (maximum, info.fitting_window)), default=None)
        chosen = chosen or loaded
    elif provider == "openai":  # its window can't be chosen per request
        if loaded:
            return min(chosen or loaded, loaded)
    elif not chosen and loaded and loaded >= SMALL_WINDOW:
        return loaded
    requested = chosen or DEFAULT_WINDOW
    return min(requested, maximum) if maximum else requested


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
    """Return the request options: the model's own, else the settings' (`temperature`, `reply_tokens`, `keep_alive`),
    else the role's.

    A reply gets at most half the window. `thinks`: the model can reason. The model's sampling options apply to work
    only; calls that expect a fixed form keep their own temperature.
    """
    options = entry.options
    is_work = role in ("execution", "explorer")
    temperature = options.temperature if is_work and options.temperature is not None else temperature
    if temperature is None:
        temperature = _ROLE_TEMPERATURES.get(role, _STRUCTURED_TEMPERATURE)
    max_tokens = options.num_predict
    if max_tokens is None:
        max_tokens = min(reply_tokens, _SHORT_REPLY_TOKENS.get(role, reply_tokens))
        if thinks and options.think is not False:
            max_tokens *= _THINKING_FACTOR
    if window is not None:
        max_tokens = max(64, min(max_tokens, window // 2))
    keep_alive = options.keep_alive if options.keep_alive is not None else keep_alive
    return Sampling(temperature=temperature, max_tokens=max_tokens, think=options.think, keep_alive=keep_alive)


def with_effort(
    sampling: Sampling,
    role: Role,
    settings: Settings,
    capabilities: Collection[str] | None,
    chosen: Mapping[str, str] | None = None,
) -> Sampling:
    """Return the request options of `role` with its reasoning effort (L5).

    The first that is set counts: the user's choice in the session (`chosen`: role → level, "" for all roles with work
    to do), the model's own in models.json, the settings, and "off" for short side tasks. Nothing changes for a model
    that can't reason; one whose `capabilities` are unknown gets only what the user has set.
    """
    if capabilities is not None and "thinking" not in capabilities:
        return sampling
    own, is_side_task = sampling.think, role in _SMALL_ROLES
    levels = chosen or {}
    level = levels.get(role) or ("" if is_side_task else levels.get("", ""))
    if not level and own is None:
        level = getattr(settings.efforts, role) or ("" if is_side_task else settings.effort)
        if not level and capabilities is not None:
            level = "off"
    think = own if level in ("", "default") else level != "off" and level
    return msgspec.structs.replace(sampling, think=think)


def effort_in_effect(sampling: Sampling, capabilities: Collection[str] | None) -> str:
    """Return the level of request options to show; empty for the default, and for a model that can't reason."""
    if capabilities is not None and "thinking" not in capabilities:
        return ""
    return sampling.think if isinstance(sampling.think, str) else "off" if sampling.think is False else ""
