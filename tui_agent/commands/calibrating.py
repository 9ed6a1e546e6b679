"""Which strategy a model begins with, by what was measured of it, and how that is told and kept (E4)."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from tui_agent import speed
from tui_agent.commands.probing import VALID, Attempt
from tui_agent.domain import Fault, Usage
from tui_agent.engine.live_catalog import described
from tui_agent.models import catalog
from tui_agent.models.base import Model
from tui_agent.models.calibration import CannotKeep, save
from tui_agent.models.catalog import Calibration, Strategy
from tui_agent.platform.files import FileFault

if TYPE_CHECKING:
    from tui_agent.commands.measuring import Cell

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
ALL = frozenset(get_args(Strategy))


def best(scores: Mapping[str, float], small: bool = False) -> Strategy | None:
    """The strategy to begin with, of shares by strategy; None where nothing came out right."""
    most = max(scores.values(), default=0.0)
    if most <= 0:
        return None
    return next(
        one for one in (SMALL if small else PREFERRED) if scores.get(one, 0.0) >= max(most - CLOSE, 1e-9)
    )


def calibrate(cells: Sequence[Cell], small: bool = False) -> Calibration:
    """What the cells say; each strategy counts with its best temperature. `small`: the model has few parameters."""
    scores: dict[str, float] = {}
    for cell in cells:
        replies = [one for one in cell.attempts if one.kind not in _NO_REPLY]
        if replies:
            right = round(sum(_counts(one, cell) for one in replies) / len(replies), 3)
            scores[cell.protocol] = max(right, scores.get(cell.protocol, 0.0))
    chosen = best(scores, small)
    own = [cell for cell in cells if chosen in (None, cell.protocol)]
    rate, share = pace([[one.usage for one in cell.attempts] for cell in own])
    return Calibration(
        strategy=chosen,
        date=dt.date.today().isoformat(),
        tokens_per_second=None if rate is None else round(rate, 1),
        cached_share=None if share is None else round(share, 2),
        scores=scores,
    )


def _counts(one: Attempt, cell: Cell) -> bool:
    """Whether a reply speaks for its strategy; a native call that came as text does not: JSON would be asked for."""
    return one.kind == VALID and not (one.recovered and cell.protocol == "native")


def pace(rows: Sequence[Sequence[Usage]]) -> tuple[float | None, float | None]:
    """Tokens written in a second, and the share of the prompts that the server still had; None where it does not say.

    `rows`: replies that followed each other. The first of a row counts only for the writing, since its prompt is new.
    """
    every = [usage for row in rows for usage in row]
    timed = [usage for usage in every if usage.completion_tokens and usage.generate_ms]
    written = sum(usage.completion_tokens or 0 for usage in timed)
    whole = Usage(completion_tokens=written, generate_ms=sum(usage.generate_ms or 0 for usage in timed))
    later = [usage for row in rows for usage in row[1:] if usage.cached_tokens is not None]
    read = sum(speed.whole(usage) or 0 for usage in later)
    cached = sum(usage.cached_tokens or 0 for usage in later)
    return speed.writing(whole), cached / read if read else None


def words(found: Calibration) -> str:
    """The strategy with its scores, and what the server does in which time."""
    first = f"{found.strategy or 'none works'} ({score_words(found)})"
    return " · ".join([first, *pace_words(found.tokens_per_second, found.cached_share)])


def score_words(found: Calibration) -> str:
    """Each strategy with its share of right replies."""
    return ", ".join(f"{name} {percent(found.scores[name])}" for name in sorted(found.scores, key=_place))


def pace_words(rate: float | None, share: float | None) -> list[str]:
    """Tokens per second and cached share, as far as they are known."""
    told = [] if rate is None else [f"{rate:,.1f} tokens/s"]
    return told if share is None else [*told, f"{percent(share)} of the prompt from the cache"]


def percent(share: float) -> str:
    """A share in words."""
    return f"{share:.0%}".replace("%", " %")


def _place(name: str) -> int:
    order: tuple[str, ...] = ("native", "json", "xml", "files")
    return order.index(name) if name in order else len(order)


def settled(cell: Cell) -> bool:
    """Whether a strategy did all that it was asked: none that comes after it can be preferred."""
    return len(cell.attempts) >= LEAST and all(_counts(one, cell) for one in cell.attempts)


def why_not(
    found: Calibration, cells: Sequence[Cell], *, stopped: bool, provider: str, settled: bool = False
) -> str:
    """Why a measurement is not kept; empty where it is. `settled`: those that were not measured can't be better."""
    if provider == "scripted":
        return "the scripted model is measured only"
    if found.strategy is None:
        return "no strategy worked"
    if stopped:
        return "the measurement was stopped"
    if not settled and (missing := sorted(ALL - set(found.scores), key=_place)):
        return f"{', '.join(missing)} {'was' if len(missing) == 1 else 'were'} not measured"
    if any(sum(one.kind not in _NO_REPLY for one in cell.attempts) < LEAST for cell in cells):
        return f"fewer than {LEAST} replies with one of the strategies say too little"
    return ""


async def keep(path: Path, model: Model, name: str, found: Calibration) -> str:
    """Put what was found into models.json at `path`, which is made where there is none; returns why that can't be."""
    try:
        if not await asyncio.to_thread(path.exists):
            served = await model.list_models()
            infos = await described(model, () if isinstance(served, Fault) else served)
            await asyncio.to_thread(catalog.create, path, infos, model.provider)
        await asyncio.to_thread(save, path, name, found)
    except (CannotKeep, FileFault, OSError) as error:
        return str(error)
    return ""
