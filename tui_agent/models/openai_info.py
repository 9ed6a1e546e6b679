"""What OpenAI-compatible servers report about their models, which each kind names differently (C-8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tui_agent.common.domain import ModelInfo
from tui_agent.models.decoding import as_count, as_object, build_summary, objects_in

ROUTER = "llama.cpp router"
LM_STUDIO = "LM Studio"
"""Kinds of servers that load and unload models on request."""
SLEEPING = "sleeping"
"""State of a model that llama.cpp's router has freed while it was idle; the next request wakes it."""


def model_entries(value: Any) -> list[dict[str, Any]]:
    """Return the entries of an answer of /models or of LM Studio's /api/v0/models."""
    return objects_in(value.get("data") if isinstance(value, dict) else value)


def is_llama_cpp(entries: Sequence[dict[str, Any]]) -> bool:
    """Return whether these are entries of llama.cpp's own server."""
    return any(entry.get("owned_by") == "llamacpp" for entry in entries)


def is_router(entries: Sequence[dict[str, Any]]) -> bool:
    """Return whether these are entries of llama.cpp's router, which loads several models on request."""
    return is_llama_cpp(entries) and any("value" in as_object(entry.get("status")) for entry in entries)


def entry_info(model: str, entry: dict[str, Any], *, local: bool) -> ModelInfo:
    """Read an entry of /models. The window of a local server is the real one only where it says so."""
    meta = as_object(entry.get("meta"))
    window = _first_count(meta.get("n_ctx"), entry.get("max_model_len"), entry.get("loaded_context_length"))
    hosted = _first_count(entry.get("context_length"), entry.get("context_window"))
    trained = _first_count(meta.get("n_ctx_train"), entry.get("max_context_length"), hosted)
    parameters, size = _first_count(meta.get("n_params")), _first_count(meta.get("size"))
    info = ModelInfo(
        name=model,
        capabilities=_capabilities(entry),
        context_window=trained,
        loaded_window=window,
        parameters=parameters / 1e9 if parameters else None,
        size=size,
        build=build_summary(f"{parameters / 1e9:.1f}B" if parameters else None, meta.get("ftype"), size),
        loaded=True if local and window else None,
    )
    status = as_object(entry.get("status"))
    return _with_status(info, status) if "value" in status else info


def _with_status(info: ModelInfo, status: dict[str, Any]) -> ModelInfo:
    """Add the state of a model of llama.cpp's router. A sleeping model is not in memory."""
    value = str(status["value"])
    state = "failed" if status.get("failed") is True else "" if value in ("loaded", "unloaded") else value
    window = info.loaded_window or _router_window(status.get("args"))
    return msgspec.structs.replace(info, loaded=value == "loaded", state=state[:20], loaded_window=window)


def _router_window(arguments: Any) -> int | None:
    """Return the window with which the router would load a model, from the arguments of its server."""
    if isinstance(arguments, list) and "--ctx-size" in arguments[:-1]:
        text = arguments[arguments.index("--ctx-size") + 1]
        return int(text) or None if isinstance(text, str) and text.isdecimal() and len(text) < 12 else None
    return None


def with_defaults(info: ModelInfo, *, hosted: bool) -> ModelInfo:
    """Complete the windows: the trained window is in effect only at a remote service (`hosted`)."""
    window = info.loaded_window or (info.context_window if hosted else None)
    return msgspec.structs.replace(info, loaded_window=window, context_window=info.context_window or window)


# --- LM Studio ------------------------------------------------------------------------------


def studio_entry(value: Any, model: str) -> dict[str, Any]:
    """Return the entry of a model in an answer of LM Studio's /api/v1/models or /api/v0/models; empty if missing."""
    for entry in objects_in(as_object(value).get("models")):
        if model == entry.get("key") or model in instance_ids(entry):
            return entry
    return next((entry for entry in model_entries(value) if entry.get("id") == model), {})


def instance_ids(entry: dict[str, Any]) -> list[str]:
    """Return the ids of the loaded instances of a model (v1)."""
    ids = [instance.get("id") for instance in objects_in(entry.get("loaded_instances"))]
    return [name for name in ids if isinstance(name, str)]


def studio_info(info: ModelInfo, entry: dict[str, Any]) -> ModelInfo:
    """Add to `info` what LM Studio reports in its own API, of version 1 or 0."""
    if not entry:
        return info
    instances = objects_in(entry.get("loaded_instances"))
    windows = [as_count(as_object(instance.get("config")).get("context_length")) for instance in instances]
    is_v0 = "state" in entry
    size = as_count(entry.get("size_bytes"))
    quantization = entry.get("quantization")
    if isinstance(quantization, dict):
        quantization = quantization.get("name")
    return msgspec.structs.replace(
        info,
        capabilities=info.capabilities or _capabilities(entry),
        loaded=entry["state"] == "loaded" if is_v0 else bool(instances),
        loaded_window=_first_count(info.loaded_window, entry.get("loaded_context_length"), *windows),
        context_window=_first_count(info.context_window, entry.get("max_context_length")),
        size=info.size or size,
        build=info.build or build_summary(entry.get("params_string"), quantization, size),
    )


def _capabilities(entry: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the capabilities that the server states explicitly: OpenRouter as parameters, LM Studio as abilities. LM
    Studio adds tools to any model, so their absence there means nothing."""
    parameters, abilities = entry.get("supported_parameters"), entry.get("capabilities")
    if entry.get("type") in ("embedding", "embeddings"):
        return ("embedding",)
    if isinstance(parameters, list) and parameters:
        stated = {str(name) for name in parameters}
    elif isinstance(abilities, list) and "tool_use" in abilities:
        stated = {str(name) for name in abilities}
    elif isinstance(abilities, dict) and abilities.get("trained_for_tool_use") is True:
        stated = {"tools"} | {name for name, present in abilities.items() if present is True}
    else:
        return None
    names = {"tools": {"tools", "tool_use"}, "thinking": {"reasoning", "thinking"}, "vision": {"vision"}}
    return ("completion", *(name for name, aliases in names.items() if stated & aliases))


def _first_count(*values: Any) -> int | None:
    return next((number for value in values if (number := as_count(value))), None)
