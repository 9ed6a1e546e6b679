"""Which fields of a request to an OpenAI-compatible server choose how much a model reasons (L5)."""

from __future__ import annotations

import re
from typing import Any

from tui_agent.common.domain import ModelInfo


def knows_levels_only(name: str) -> bool:
    """Whether a model always reasons, and knows only how much."""
    return re.search(r"gpt[-_]?oss", name, re.IGNORECASE) is not None


def reasoning_fields(
    think: bool | str | None, info: ModelInfo, *, local: bool, llama_cpp: bool, always_reasons: bool
) -> dict[str, Any]:
    """Return the fields for `think`: a level, False for none, True and None for what the model does by default.

    A model that can't reason gets none. `info.reasoning_switches` decide if they are known; else a `local` server,
    such as llama.cpp or vLLM, gets the common switch for chat templates, and a remote one an effort. `always_reasons`:
    the server rejects the effort `none`.
    """
    if think is None or (info.capabilities is not None and "thinking" not in info.capabilities):
        return {}
    switches = info.reasoning_switches
    has_levels_only = knows_levels_only(info.name) if switches is None else switches == ("reasoning_effort",)
    level = think if isinstance(think, str) else "low" if think is False and has_levels_only else ""
    if switches is not None:
        values = {"enable_thinking": think is not False, "thinking": think is not False, "reasoning_effort": level}
        chosen = {name: value for name, value in values.items() if name in switches and value != ""}
        return {"chat_template_kwargs": chosen} if chosen else {}
    if level:  # llama.cpp reads only `none` from the field, up to its build 10433
        return {"reasoning_effort": level} | (
            {"chat_template_kwargs": {"reasoning_effort": level}} if llama_cpp else {}
        )
    if think is True:
        return {}
    if local:
        return {"chat_template_kwargs": {"enable_thinking": False}}
    return {} if always_reasons else {"reasoning_effort": "none"}
