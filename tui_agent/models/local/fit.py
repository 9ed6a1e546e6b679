"""What of a model fits in memory: window, slots, share on the graphics card, and advice with numbers (L4).

Weights take the size of the file; the cache takes `cache_bytes` for each token of each slot's window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tui_agent.common.domain import FrozenValue, ModelInfo
from tui_agent.models.local.memory import Memory
from tui_agent.text import file_size, with_full_stop
from tui_agent.text.patterns import read_table

DEFAULT_WINDOW = 32_768
SMALLEST_WINDOW = 4_096
_STEP = 1_024
"""Windows are multiples of it."""
_HEADROOM = 1 << 30
"""Bytes that stay free for other programs and for computing, if a tenth of the memory is not more."""
_SECOND_SLOT = 0.25
"""Part of the memory left that a second slot may take."""
_SMALLER_CACHE = 1.0625 / 2
"""Size of a cache in q8_0, compared with f16."""


class Fit(FrozenValue, frozen=True, kw_only=True):
    """How a model is served best on this machine."""

    window: int
    """Tokens, for each slot."""
    slots: int
    """Conversations whose cache is kept at the same time."""
    need: int
    """Bytes for weights and cache."""
    on_graphics: float
    """Part of `need` that fits on the graphics cards, 0 to 1."""
    largest_window: int | None
    """Tokens that fit in memory; None if that is unknown, or too few."""
    largest_on_graphics: int | None
    """Tokens with which everything fits on the graphics cards; None if that is unknown, or too few."""
    problem: str
    """Why the model, or the window that is wanted, does not fit, as a sentence; empty if it does."""


class _Room(NamedTuple):
    """Bytes that a model can take."""

    everywhere: int
    graphics: int


def fit_model(
    size: int,
    cache_bytes: int | None,
    trained: int | None,
    memory: Memory,
    wanted: int | None = None,
    slots: int | None = None,
    *,
    fixed: int = 0,
) -> Fit:
    """Compute window and slots for a model with `size` bytes of weights that was trained for `trained` tokens.

    A `wanted` window is used even if it does not fit; see `Fit.problem`. `fixed` are the bytes of a slot's cache that
    don't depend on the window. Nothing is limited by memory of unknown size, or by a cache of unknown size.
    """
    return _fit(_Model(size, cache_bytes, trained, fixed), _room(memory), wanted, slots)


class MemoryAdvice(FrozenValue, frozen=True, kw_only=True):
    """What a served model takes, and what to do about it."""

    facts: tuple[str, ...]
    """What is loaded and where, what the window costs, which windows fit; without capital and full stop."""
    tips: tuple[str, ...]
    """Sentences with what to type so that the model fits, or is faster."""
    is_short: bool
    """It does not fit, or only a part of it is on the graphics card."""


def memory_advice(info: ModelInfo, memory: Memory, provider: str, window: int) -> MemoryAdvice:
    """Return facts with numbers, and tips.

    `window` is the one requested, in tokens; `memory` that of the server's machine, or `Memory()` if unknown.
    `provider` is `ollama`, `openai` or `local`; of the servers for `openai`, only llama.cpp reports its model's size.
    """
    fits = _fit_loaded(info, memory, window)
    is_split = 0 < (info.graphics_memory or 0) < (info.memory or 0)
    if info.memory is None and fits is not None:
        is_split = 0 < fits.on_graphics < 1
    is_short = is_split or (fits is not None and bool(fits.problem))
    return MemoryAdvice(
        facts=tuple(filter(None, [_loaded(info), _cost(info, window), _largest(fits)])),
        tips=tuple(filter(None, _tips(info, memory, provider, window, fits, is_split))),
        is_short=is_short,
    )


def advice(info: ModelInfo, memory: Memory, provider: str, window: int) -> tuple[str, ...]:
    """Return facts and tips of `memory_advice` as sentences."""
    advised = memory_advice(info, memory, provider, window)
    return (*(with_full_stop(fact[0].upper() + fact[1:]) for fact in advised.facts), *advised.tips)


def _cost(info: ModelInfo, window: int) -> str:
    if not info.cache_bytes:
        return ""
    whole = file_size(info.cache_bytes * window)
    return f"1,000 tokens of the window take {file_size(info.cache_bytes * 1000)}, all {window:,} take {whole}"


def _largest(fits: Fit | None) -> str:
    if fits is None or not fits.largest_window:
        return ""
    on_graphics = f", up to {fits.largest_on_graphics:,} on the graphics card" if fits.largest_on_graphics else ""
    return f"up to {fits.largest_window:,} tokens fit in memory{on_graphics}"


def _tips(
    info: ModelInfo, memory: Memory, provider: str, window: int, fits: Fit | None, is_split: bool
) -> Iterator[str]:
    table = read_table(__package__, "fit.json")

    def tip(name: str, **values: Any) -> str:
        return str(table[name].get(provider, "")).format(**values)

    if provider == "openai" and info.size is None:
        return
    is_too_large = fits is not None and bool(fits.problem)
    if is_too_large and fits is not None and fits.largest_window:
        yield tip("smaller_window", window=fits.largest_window)
    if is_split and fits is not None and (most := fits.largest_on_graphics) and most < window:
        yield tip("window_on_graphics", window=most)
    elif is_split or (is_too_large and fits is not None and not fits.largest_window):
        yield tip("smaller_model")
    if info.cache_bytes and (is_split or is_too_large):
        cache = info.cache_bytes * window
        yield tip("smaller_cache", before=file_size(cache), after=file_size(int(cache * _SMALLER_CACHE)))
    if info.memory and info.graphics_memory == 0 and memory.graphics:
        yield tip("unused_graphics")
    if re.search(table["hybrid_models"], info.name, re.IGNORECASE):
        yield tip("checkpoints")


def _loaded(info: ModelInfo) -> str:
    if not info.memory:
        weights = f"{file_size(info.size)} of weights" if info.size else ""
        if info.loaded is not False:
            return weights
        return f"{weights}{', ' if weights else ''}not loaded: the first message has to wait for it"
    text = f"{file_size(info.memory)} loaded"
    if info.graphics_memory is None:
        return text
    if info.graphics_memory >= info.memory:
        return f"{text}, all of it on the graphics card"
    if info.graphics_memory:
        return f"{text}, {info.graphics_memory * 100 // info.memory}% of it on the graphics card"
    return f"{text}, none of it on a graphics card: expect it to be slow"


# --- arithmetic -----------------------------------------------------------------------------


class _Model(NamedTuple):
    size: int
    cache_bytes: int | None
    trained: int | None
    fixed: int

    def need(self, window: int, slots: int) -> int:
        return self.size + slots * self.cache(window)

    def cache(self, window: int) -> int:
        return self.fixed + (self.cache_bytes or 0) * window

    @property
    def smallest(self) -> int:
        return min(self.trained or SMALLEST_WINDOW, SMALLEST_WINDOW)

    def largest(self, room: int, slots: int) -> int | None:
        """Return the largest window in tokens that fits; None if none does, or the cache is unknown."""
        if not self.cache_bytes:
            return None
        tokens = (room - self.size - slots * self.fixed) // (slots * self.cache_bytes)
        tokens = min(tokens // _STEP * _STEP, self.trained or tokens)
        return tokens if tokens >= self.smallest else None


def _fit(model: _Model, room: _Room | None, wanted: int | None, slots: int | None) -> Fit:
    counted = slots or 1
    largest = model.largest(room.everywhere, counted) if room else None
    window = min(wanted or DEFAULT_WINDOW, model.trained or wanted or DEFAULT_WINDOW)
    if not wanted and room and model.cache_bytes:
        window = min(window, largest or model.smallest)
    need = model.need(window, counted)
    if slots is None and room and model.cache_bytes:
        within = room.graphics if need <= room.graphics else room.everywhere
        counted = 2 if model.cache(window) <= (within - need) * _SECOND_SLOT else 1
        need = model.need(window, counted)
    return Fit(
        window=window,
        slots=counted,
        need=need,
        on_graphics=min(1.0, room.graphics / need) if room and need else 0.0,
        largest_window=largest,
        largest_on_graphics=model.largest(room.graphics, slots or 1) if room else None,
        problem=_problem(model, room, window, counted, largest) if room else "",
    )


def _problem(model: _Model, room: _Room, window: int, slots: int, largest: int | None) -> str:
    if model.need(window, slots) <= room.everywhere:
        return ""
    fits = model.need(model.smallest, slots) <= room.everywhere
    shown = window if fits else min(window, model.smallest)
    text = (
        f"With a window of {shown:,} tokens the model needs {file_size(model.need(shown, slots))} of memory; "
        f"{file_size(room.everywhere)} can be used."
    )
    if fits:
        return f"{text} A window of up to {largest:,} tokens fits." if largest else text
    return f"{text} Choose a smaller model, or a smaller quantization of this one."


def _room(memory: Memory) -> _Room | None:
    """Return what can be used beyond the headroom; None if the memory is unknown."""
    if not memory.total:
        return None
    main = _usable(memory.total, memory.available)
    graphics = sum(_usable(card.total, card.free) for card in memory.graphics)
    return _Room(main, min(main, graphics)) if memory.unified else _Room(main + graphics, graphics)


def _usable(total: int, free: int) -> int:
    return max(0, free - max(_HEADROOM, total // 10))


def _fit_loaded(info: ModelInfo, memory: Memory, window: int) -> Fit | None:
    """Return the fit of a served model, which may be loaded already; None if it can't be computed."""
    if not info.size:
        return None
    taken, on_graphics = info.memory or 0, info.graphics_memory or 0
    if info.loaded and not info.memory:
        if memory.graphics:
            return None  # nobody knows which part of it is on the graphics card
        taken = (info.cache_bytes or 0) * (info.loaded_window or 0)  # its weights count as files
    cards, left = [], on_graphics
    for card in memory.graphics:
        free = min(card.total, card.free + left)
        left -= free - card.free
        cards.append(msgspec.structs.replace(card, free=free))
    available = min(memory.total, memory.available + taken - (0 if memory.unified else on_graphics))
    without = msgspec.structs.replace(memory, available=available, graphics=tuple(cards))
    return _fit(_Model(info.size, info.cache_bytes, info.context_window, 0), _room(without), window, 1)
