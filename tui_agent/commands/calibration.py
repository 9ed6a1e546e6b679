"""Which strategy a model starts with, from its measurements, and how models.json remembers it (E4)."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.commands.arguments import STRATEGIES
from tui_agent.commands.probing import VALID, Attempt, Cell
from tui_agent.common import speed
from tui_agent.common.domain import Fault, Usage
from tui_agent.engine.models.live_catalog import described
from tui_agent.models import catalog
from tui_agent.models.base import Model
from tui_agent.models.catalog import Calibration, Strategy, same_model
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, replace_file
from tui_agent.stats.numbers import percent
from tui_agent.text.json_values import json_members

PREFERRED: tuple[Strategy, ...] = ("native", "json", "files", "xml")
"""Of strategies that are as good as each other, the one that is named first is taken."""
SMALL: tuple[Strategy, ...] = ("files", "native", "json", "xml")
"""The same for small models: they make single calls well, but lose their way over several."""
_NO_REPLY = ("broken", "unreachable")
"""Kinds that say nothing of the model."""
CLOSE = 0.05
"""Difference of shares that says nothing."""
LEAST = 2
"""Replies of each strategy from which on a measurement is kept."""


def best_strategy(scores: Mapping[str, float], small: bool = False) -> Strategy | None:
    """The strategy to begin with, of shares by strategy; None where nothing came out right."""
    most = max(scores.values(), default=0.0)
    if most <= 0:
        return None
    return next(one for one in (SMALL if small else PREFERRED) if scores.get(one, 0.0) >= max(most - CLOSE, 1e-9))


def calibrate(cells: Sequence[Cell], small: bool = False) -> Calibration:
    """What the cells say; each strategy counts with its best temperature. `small`: the model has few parameters."""
    scores: dict[str, float] = {}
    for cell in cells:
        replies = [one for one in cell.attempts if one.kind not in _NO_REPLY]
        if replies:
            right = round(sum(_speaks_for_strategy(one, cell) for one in replies) / len(replies), 3)
            scores[cell.protocol] = max(right, scores.get(cell.protocol, 0.0))
    chosen = best_strategy(scores, small)
    own = [cell for cell in cells if chosen in (None, cell.protocol)]
    rate, share = measured_speed([[one.usage for one in cell.attempts] for cell in own])
    return Calibration(
        strategy=chosen,
        date=dt.date.today().isoformat(),
        tokens_per_second=None if rate is None else round(rate, 1),
        cached_share=None if share is None else round(share, 2),
        scores=scores,
    )


def _speaks_for_strategy(one: Attempt, cell: Cell) -> bool:
    """Whether a reply speaks for its strategy; a native call that came as text does not: JSON would be asked for."""
    return one.kind == VALID and not (one.recovered and cell.protocol == "native")


def measured_speed(rows: Sequence[Sequence[Usage]]) -> tuple[float | None, float | None]:
    """Tokens written in a second, and the share of the prompts that the server still had; None where it does not say.

    `rows`: replies that followed each other. The first of a row counts only for the writing, since its prompt is new.
    """
    every = [usage for row in rows for usage in row]
    timed = [usage for usage in every if usage.completion_tokens and usage.generate_ms]
    written = sum(usage.completion_tokens or 0 for usage in timed)
    whole = Usage(completion_tokens=written, generate_ms=sum(usage.generate_ms or 0 for usage in timed))
    later = [usage for row in rows for usage in row[1:] if usage.cached_tokens is not None]
    read = sum(speed.prompt_tokens_in_all(usage) or 0 for usage in later)
    cached = sum(usage.cached_tokens or 0 for usage in later)
    return speed.generation_rate(whole), cached / read if read else None


def describe_calibration(found: Calibration) -> str:
    """The strategy with its scores, and what the server does in which time."""
    first = f"{found.strategy or 'none works'} ({describe_scores(found)})"
    return " · ".join([first, *describe_speed(found.tokens_per_second, found.cached_share)])


def describe_scores(found: Calibration) -> str:
    """Each strategy with its share of right replies."""
    return ", ".join(f"{name} {percent(found.scores[name])}" for name in sorted(found.scores, key=_place))


def describe_speed(rate: float | None, share: float | None) -> list[str]:
    """Tokens per second and cached share, as far as they are known."""
    told = [] if rate is None else [f"{rate:,.1f} tokens/s"]
    return told if share is None else [*told, f"{percent(share)} of the prompt from the cache"]


def _place(name: str) -> int:
    return STRATEGIES.index(name) if name in STRATEGIES else len(STRATEGIES)


def is_perfect(cell: Cell) -> bool:
    """Whether a strategy did all that it was asked: none that comes after it can be preferred."""
    return len(cell.attempts) >= LEAST and all(_speaks_for_strategy(one, cell) for one in cell.attempts)


def reason_not_to_save(
    found: Calibration, cells: Sequence[Cell], *, stopped: bool, provider: str, settled: bool = False
) -> str:
    """Why a measurement is not kept; empty where it is. `settled`: those that were not measured can't be better."""
    if provider == "scripted":
        return "the scripted model is only measured"
    if found.strategy is None:
        return "no strategy worked"
    if stopped:
        return "the measurement was interrupted"
    if not settled and (missing := sorted(set(STRATEGIES) - set(found.scores), key=_place)):
        return f"{', '.join(missing)} {'was' if len(missing) == 1 else 'were'} not measured"
    if any(sum(one.kind not in _NO_REPLY for one in cell.attempts) < LEAST for cell in cells):
        return f"fewer than {LEAST} replies per strategy are too few"
    return ""


async def save_measurement(path: Path, model: Model, name: str, found: Calibration) -> str:
    """Put what was found into models.json at `path`, which is made where there is none; returns why that can't be."""
    try:
        if not await asyncio.to_thread(path.exists):
            served = await model.list_models()
            infos = await described(model, () if isinstance(served, Fault) else served)
            await asyncio.to_thread(catalog.create_models_file, path, infos, model.provider)
        await asyncio.to_thread(save_calibration, path, name, found)
    except (CalibrationNotSaved, FileFault, OSError) as error:
        return str(error)
    return ""


_BOM = "\ufeff"
_MOST = 4_000_000
"""Bytes of the file that are read at most."""
_NAME = "calibration"
_INDENT = "  "


class CalibrationNotSaved(Exception):
    """The file is left as it is; the message is for the user."""


def save_calibration(path: Path, model: str, found: Calibration) -> None:
    """Put `found` into the entry of `model` in the file at `path`, which is there; the entry is made where there is
    none. Blocks for a moment. Raises CalibrationNotSaved."""
    try:
        real = path.resolve()
        old = read_file(real, _MOST)
        new = with_calibration(old.data.decode("utf-8"), model, found)
        if new.encode() != old.data:
            replace_file(real, new.encode(), old.sha256)
    except (FileFault, OSError) as error:
        raise CalibrationNotSaved(f"{path} could not be written: {error}") from error
    except UnicodeDecodeError as error:
        raise CalibrationNotSaved(f"{path} is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise CalibrationNotSaved(f"{path} is not valid: {error}") from error


def with_calibration(text: str, model: str, found: Calibration) -> str:
    """The text of models.json with `found` in the entry of `model`. Raises ValueError where it is no JSON, or
    `models` and the entry are no objects."""
    bom, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    whole = json.loads(text)
    value = json.dumps(msgspec.to_builtins(found), ensure_ascii=False)
    at = _object(text, len(text) - len(text.lstrip()), "the file")
    models = _member(text, at, "models")
    if models is None:
        return bom + _put(text, at, "models", json.dumps({model: {_NAME: json.loads(value)}}, ensure_ascii=False))
    at = _object(text, models, '"models"')
    name = _known_as(whole["models"], model)
    entry = _member(text, at, name)
    if entry is None:
        return bom + _put(text, at, model, f'{{"{_NAME}": {value}}}')
    return bom + _put(text, _object(text, entry, f'the entry of "{name}"'), _NAME, value)


def _known_as(models: dict[str, Any], model: str) -> str:
    if model in models:
        return model
    return next((name for name in models if same_model(name, model)), model)


def _object(text: str, at: int, what: str) -> int:
    if text[at] != "{":
        raise ValueError(f"{what} is not a JSON object")
    return at


def _member(text: str, at: int, name: str) -> int | None:
    """Where the value of a member begins, of the object at `at`; the first of several, which is the one that counts."""
    return next((one.at for one in json_members(text, at) if one.key == name), None)


def _put(text: str, at: int, name: str, value: str) -> str:
    """The text with a member of the object at `at` set: in its place, else behind the others and laid out as they
    are."""
    members = list(json_members(text, at))
    for one in members:
        if one.key == name:
            return text[: one.at] + value + text[one.end :]
    member = f"{json.dumps(name, ensure_ascii=False)}: {value}"
    if members:
        last = members[-1]
        lead = text[text.rfind("\n", 0, last.begin) + 1 : last.begin]
        gap = " " if lead.strip() or "\n" not in text[at : last.begin] else f"{_line_end(text)}{lead}"
        return f"{text[: last.end]},{gap}{member}{text[last.end :]}"
    lead = text[text.rfind("\n", 0, at) + 1 : at]
    indent = lead[: len(lead) - len(lead.lstrip())]
    line = _line_end(text)
    rest = text[at + 1 :].lstrip(" \t\r\n")
    return f"{text[: at + 1]}{line}{indent}{_INDENT}{member}{line}{indent}{rest}"


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
