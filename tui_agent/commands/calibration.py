"""Choose a model's strategy from measurements, and save the result in models.json (E4)."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tui_agent.commands.arguments import STRATEGIES
from tui_agent.commands.probing import VALID, Attempt, Cell
from tui_agent.common import speed
from tui_agent.common.domain import Fault, Usage
from tui_agent.engine.models.live_catalog import describe_models
from tui_agent.models import catalog
from tui_agent.models.base import Model
from tui_agent.models.catalog import Calibration, Strategy, same_model
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, replace_file
from tui_agent.stats.numbers import format_percent
from tui_agent.text.json_values import iter_json_members

PREFERRED: tuple[Strategy, ...] = ("native", "json", "files", "xml")
"""Strategies in order of preference when they score equally well."""
PREFERRED_SMALL: tuple[Strategy, ...] = ("files", "native", "json", "xml")
"""The same for small models: they get single calls right, but lose track over several."""
TIE_MARGIN = 0.05
"""Scores that differ by no more than this count as equal."""
MIN_REPLIES = 2
"""Replies per strategy needed to save a measurement."""
_SERVER_FAILURES = ("broken", "unreachable")
"""Failures that say nothing about the model."""


def best_strategy(scores: Mapping[str, float], small: bool = False) -> Strategy | None:
    """The strategy to start with, from the scores by strategy; None if no reply was valid."""
    best = max(scores.values(), default=0.0)
    if best <= 0:
        return None
    order = PREFERRED_SMALL if small else PREFERRED
    return next(name for name in order if scores.get(name, 0.0) >= max(best - TIE_MARGIN, 1e-9))


def calibrate(cells: Sequence[Cell], small: bool = False) -> Calibration:
    """Evaluate the cells; each strategy counts with its best temperature. `small`: the model has few parameters."""
    scores: dict[str, float] = {}
    for cell in cells:
        if replies := _replies(cell):
            score = round(sum(_counts_for_strategy(reply, cell) for reply in replies) / len(replies), 3)
            scores[cell.protocol] = max(score, scores.get(cell.protocol, 0.0))
    chosen = best_strategy(scores, small)
    rate, share = measured_speed(
        [[reply.usage for reply in cell.attempts] for cell in cells if chosen in (None, cell.protocol)]
    )
    return Calibration(
        strategy=chosen,
        date=dt.date.today().isoformat(),
        tokens_per_second=None if rate is None else round(rate, 1),
        cached_share=None if share is None else round(share, 2),
        scores=scores,
    )


def _replies(cell: Cell) -> list[Attempt]:
    return [attempt for attempt in cell.attempts if attempt.kind not in _SERVER_FAILURES]


def _counts_for_strategy(attempt: Attempt, cell: Cell) -> bool:
    """Whether a reply counts for its strategy; a native call that came as text does not, since JSON would be used."""
    return attempt.kind == VALID and not (attempt.recovered and cell.protocol == "native")


def measured_speed(rows: Sequence[Sequence[Usage]]) -> tuple[float | None, float | None]:
    """Return generated tokens per second and the cached share of the prompts; None if the server does not report it.

    `rows` are sequences of consecutive replies. The first prompt of a row is new, so it is ignored for the cache.
    """
    timed = [usage for row in rows for usage in row if usage.completion_tokens and usage.generate_ms]
    total = Usage(
        completion_tokens=sum(usage.completion_tokens or 0 for usage in timed),
        generate_ms=sum(usage.generate_ms or 0 for usage in timed),
    )
    later = [usage for row in rows for usage in row[1:] if usage.cached_tokens is not None]
    prompt_tokens = sum(speed.total_prompt_tokens(usage) or 0 for usage in later)
    cached_tokens = sum(usage.cached_tokens or 0 for usage in later)
    return speed.generation_rate(total), cached_tokens / prompt_tokens if prompt_tokens else None


def describe_calibration(calibration: Calibration) -> str:
    """The strategy with its scores, and the server's speed."""
    strategy = f"{calibration.strategy or 'none works'} ({describe_scores(calibration)})"
    return " · ".join([strategy, *describe_speed(calibration.tokens_per_second, calibration.cached_share)])


def describe_scores(calibration: Calibration) -> str:
    """Each strategy with its share of valid replies."""
    scores = calibration.scores
    return ", ".join(f"{name} {format_percent(scores[name])}" for name in sorted(scores, key=_strategy_order))


def describe_speed(rate: float | None, share: float | None) -> list[str]:
    """Tokens per second and cached share, where known."""
    parts = [] if rate is None else [f"{rate:,.1f} tokens/s"]
    return parts if share is None else [*parts, f"{format_percent(share)} of the prompt from the cache"]


def _strategy_order(name: str) -> int:
    return STRATEGIES.index(name) if name in STRATEGIES else len(STRATEGIES)


def is_perfect(cell: Cell) -> bool:
    """Whether every reply was valid, so that no strategy measured later can be preferred."""
    return len(cell.attempts) >= MIN_REPLIES and all(_counts_for_strategy(reply, cell) for reply in cell.attempts)


def reason_not_to_save(
    calibration: Calibration, cells: Sequence[Cell], *, stopped: bool, provider: str, settled: bool = False
) -> str:
    """Why the measurement must not be saved, or "". `settled`: strategies left out could not have been better."""
    if provider == "scripted":
        return "the scripted model is only measured"
    if calibration.strategy is None:
        return "no strategy worked"
    if stopped:
        return "the measurement was stopped"
    if not settled and (missing := sorted(set(STRATEGIES) - set(calibration.scores), key=_strategy_order)):
        return f"{', '.join(missing)} {'was' if len(missing) == 1 else 'were'} not measured"
    if any(len(_replies(cell)) < MIN_REPLIES for cell in cells):
        return f"fewer than {MIN_REPLIES} replies per strategy are too few"
    return ""


async def save_measurement(path: Path, model: Model, name: str, calibration: Calibration) -> str:
    """Save the result in models.json at `path`, creating the file if needed; return the error message, or ""."""
    try:
        if not await asyncio.to_thread(path.exists):
            served = await model.list_models()
            infos = await describe_models(model, () if isinstance(served, Fault) else served)
            await asyncio.to_thread(catalog.create_models_file, path, infos, model.provider)
        await asyncio.to_thread(save_calibration, path, name, calibration)
    except (CalibrationNotSaved, FileFault, OSError) as error:
        return str(error)
    return ""


# --- editing models.json --------------------------------------------------------------------

_BOM = "\ufeff"
_MAX_BYTES = 4_000_000
"""Size limit for models.json."""
_KEY = "calibration"
_INDENT = "  "


class CalibrationNotSaved(Exception):
    """The file was left unchanged; the message is for the user."""


def save_calibration(path: Path, model: str, calibration: Calibration) -> None:
    """Set the calibration of `model` in the existing file `path`. Blocks. Raises CalibrationNotSaved."""
    try:
        target = path.resolve()
        old = read_file(target, _MAX_BYTES)
        new = with_calibration(old.data.decode("utf-8"), model, calibration).encode()
        if new != old.data:
            replace_file(target, new, old.sha256)
    except (FileFault, OSError) as error:
        raise CalibrationNotSaved(f"{path} could not be written: {error}") from error
    except UnicodeDecodeError as error:
        raise CalibrationNotSaved(f"{path} is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise CalibrationNotSaved(f"{path} is not valid: {error}") from error


def with_calibration(text: str, model: str, calibration: Calibration) -> str:
    """Return the text of models.json with the calibration of `model` set and the layout of everything else kept.

    Raises ValueError if it is not JSON, or if `models` or the entry is not an object.
    """
    bom, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    data = json.loads(text)
    value = msgspec.to_builtins(calibration)
    start = _object_start(text, len(text) - len(text.lstrip()), "the file")
    models_start = _value_start(text, start, "models")
    if models_start is None:
        return bom + _set_member(text, start, "models", {model: {_KEY: value}})
    start = _object_start(text, models_start, '"models"')
    names = data["models"]
    name = model if model in names else next((name for name in names if same_model(name, model)), model)
    entry_start = _value_start(text, start, name)
    if entry_start is None:
        return bom + _set_member(text, start, model, {_KEY: value})
    return bom + _set_member(text, _object_start(text, entry_start, f'the entry of "{name}"'), _KEY, value)


def _object_start(text: str, start: int, what: str) -> int:
    if text[start] != "{":
        raise ValueError(f"{what} is not a JSON object")
    return start


def _value_start(text: str, start: int, key: str) -> int | None:
    """The offset of a member's value in the object at `start`."""
    return next((member.value_start for member in iter_json_members(text, start) if member.key == key), None)


def _set_member(text: str, start: int, key: str, value: object) -> str:
    """Replace a member of the object at `start`, or append it in the layout of the others."""
    encoded = json.dumps(value, ensure_ascii=False)
    members = list(iter_json_members(text, start))
    for member in members:
        if member.key == key:
            return text[: member.value_start] + encoded + text[member.end :]
    line_end = "\r\n" if "\r\n" in text else "\n"
    added = f"{json.dumps(key, ensure_ascii=False)}: {encoded}"
    if members:
        last = members[-1]
        lead = text[text.rfind("\n", 0, last.start) + 1 : last.start]
        gap = " " if lead.strip() or "\n" not in text[start : last.start] else f"{line_end}{lead}"
        return f"{text[: last.end]},{gap}{added}{text[last.end :]}"
    lead = text[text.rfind("\n", 0, start) + 1 : start]
    indent = lead[: len(lead) - len(lead.lstrip())]
    closing = text[start + 1 :].lstrip(" \t\r\n")
    return f"{text[: start + 1]}{line_end}{indent}{_INDENT}{added}{line_end}{indent}{closing}"
