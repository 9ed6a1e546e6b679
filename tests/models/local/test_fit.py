from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.common.domain import ModelInfo
from tui_agent.models.local.fit import Fit, advice, fit_model, memory_advice
from tui_agent.models.local.memory import GraphicsCard, Memory

GIB = 1 << 30
RAM = Memory(total=16 * GIB, available=9 * GIB)  # 1.6 GiB stay free: 7.4 GiB can be used
CARD = GraphicsCard(name="card", total=10 * GIB, free=9 * GIB)  # 8 GiB can be used
WITH_CARD = Memory(total=16 * GIB, available=9 * GIB, graphics=(CARD,))
KIB100 = 100 << 10


# --- window and slots -------------------------------------------------------------


def test_the_default_window() -> None:
    assert fit_model(GIB, KIB100, 131_072, RAM).window == 32_768
    assert fit_model(GIB, KIB100, 8_192, RAM).window == 8_192
    assert fit_model(GIB, KIB100, None, RAM).window == 32_768


def test_a_window_that_fits_is_chosen() -> None:
    fit = fit_model(6 * GIB, KIB100, 131_072, RAM)
    room = RAM.available - RAM.total // 10 - 6 * GIB
    assert fit.window == fit.largest_window == room // KIB100 // 1024 * 1024
    assert 4_096 < fit.window < 32_768
    assert fit.problem == ""
    assert fit.need == 6 * GIB + fit.window * KIB100


def test_what_does_not_fit_is_a_problem_with_numbers() -> None:
    fit = fit_model(8 * GIB, KIB100, 131_072, RAM)
    assert (fit.window, fit.largest_window, fit.largest_on_graphics, fit.slots) == (4_096, None, None, 1)
    assert fit.problem == (
        "With a window of 4,096 tokens the model needs 9.0 GB of memory; 7.9 GB can be used. "
        "Choose a smaller model, or a smaller quantization of this one."
    )


def test_a_wanted_window_is_kept_and_reported() -> None:
    fit = fit_model(6 * GIB, KIB100, 131_072, RAM, wanted=65_536)
    assert fit.window == 65_536
    assert fit.largest_window is not None
    assert fit.problem.endswith(f"A window of up to {fit.largest_window:,} tokens fits.")
    assert fit_model(GIB, KIB100, 8_192, RAM, wanted=65_536).window == 8_192


def test_a_small_trained_window_is_the_smallest() -> None:
    assert fit_model(8 * GIB, KIB100, 2_048, RAM).window == 2_048


def test_a_second_slot_where_its_cache_is_small() -> None:
    assert fit_model(GIB, 1 << 10, 32_768, RAM).slots == 2
    assert fit_model(GIB, KIB100, 32_768, RAM).slots == 1
    assert fit_model(GIB, KIB100, 32_768, RAM, slots=2).need == GIB + 2 * 32_768 * KIB100
    assert fit_model(GIB, 1 << 10, 32_768, RAM, fixed=4 * GIB).slots == 1


def test_the_graphics_card() -> None:
    whole = fit_model(4 * GIB, KIB100, 131_072, WITH_CARD)
    assert whole.on_graphics == 1
    assert whole.largest_on_graphics == 4 * GIB // KIB100 // 1024 * 1024
    split = fit_model(12 * GIB, KIB100, 131_072, WITH_CARD)
    assert split.window == 32_768 and split.problem == ""
    assert split.on_graphics == pytest.approx(8 * GIB / split.need)
    assert split.largest_on_graphics is None


def test_unified_memory_is_counted_once() -> None:
    metal = GraphicsCard(name="Metal", total=12 * GIB, free=9 * GIB)
    memory = Memory(total=16 * GIB, available=9 * GIB, graphics=(metal,), unified=True)
    fit = fit_model(9 * GIB, KIB100, 131_072, memory)
    assert fit.problem
    assert fit_model(4 * GIB, KIB100, 131_072, memory).on_graphics == 1


def test_unknown_memory_and_cache_limit_nothing() -> None:
    unknown = fit_model(100 * GIB, KIB100, 131_072, Memory())
    assert unknown == Fit(
        window=32_768,
        slots=1,
        need=100 * GIB + 32_768 * KIB100,
        on_graphics=0,
        largest_window=None,
        largest_on_graphics=None,
        problem="",
    )
    assert fit_model(4 * GIB, None, 131_072, RAM).window == 32_768
    assert "Choose a smaller model" in fit_model(10 * GIB, None, None, RAM).problem


@given(
    st.integers(0, 1 << 40),
    st.none() | st.integers(0, 1 << 22),
    st.none() | st.integers(1, 1 << 21),
    st.builds(
        Memory,
        total=st.integers(0, 1 << 40),
        available=st.integers(0, 1 << 40),
        graphics=st.lists(
            st.builds(GraphicsCard, name=st.just("x"), total=st.integers(0, 1 << 37), free=st.integers(0, 1 << 37)),
            max_size=3,
        ).map(tuple),
        unified=st.booleans(),
    ),
    st.none() | st.integers(1, 1 << 21),
)
def test_a_fit_is_consistent(
    size: int, cache: int | None, trained: int | None, memory: Memory, wanted: int | None
) -> None:
    fit = fit_model(size, cache, trained, memory, wanted)
    assert fit.window <= (trained or fit.window)
    assert wanted or fit.window >= min(4_096, trained or 4_096)
    assert fit.need == size + fit.slots * (cache or 0) * fit.window
    assert 0 <= fit.on_graphics <= 1
    assert (fit.largest_on_graphics or 0) <= (fit.largest_window or 0)
    if not wanted and fit.largest_window:
        assert fit.window <= fit.largest_window
        assert not fit.problem


# --- advice -----------------------------------------------------------------------


def served(**facts: Any) -> ModelInfo:
    known: dict[str, Any] = {
        "name": "m",
        "size": 4 * GIB,
        "cache_bytes": KIB100,
        "context_window": 131_072,
        "loaded": False,
    }
    return ModelInfo(**(known | facts))


LOADED = {"loaded": True, "memory": 8_000_000_000}


def test_facts_of_a_model_that_is_not_loaded() -> None:
    assert advice(served(), RAM, "ollama", 32_768) == (
        "4.3 GB of weights, not loaded: the first message has to wait for it.",
        "1,000 tokens of the window take 102 MB, all 32,768 take 3.4 GB.",
        "Up to 34,816 tokens fit in memory.",
    )


@pytest.mark.parametrize(
    ("graphics", "text"),
    [
        (8_000_000_000, "8.0 GB loaded, all of it on the graphics card"),
        (4_000_000_000, "8.0 GB loaded, 50% of it on the graphics card"),
        (0, "8.0 GB loaded, none of it on a graphics card: expect it to be slow"),
        (None, "8.0 GB loaded"),
    ],
)
def test_what_is_loaded_and_where(graphics: int | None, text: str) -> None:
    advised = memory_advice(served(**LOADED, graphics_memory=graphics), Memory(), "ollama", 32_768)
    assert advised.facts[0] == text
    assert advised.is_short == ("50%" in text)


def test_a_loaded_model_counts_as_free() -> None:
    card = GraphicsCard(name="card", total=10 * GIB, free=1 * GIB)
    memory = Memory(total=16 * GIB, available=9 * GIB, graphics=(card,))
    info = served(loaded=True, memory=8 * GIB, graphics_memory=8 * GIB)
    assert advice(info, memory, "ollama", 32_768)[2] == (
        "Up to 118,784 tokens fit in memory, up to 40,960 on the graphics card."
    )


@pytest.mark.parametrize(
    ("provider", "window", "cache"),
    [
        ("ollama", "`/settings context_window 10,240`", "OLLAMA_KV_CACHE_TYPE=q8_0"),
        ("openai", "`-c 10,240 -ngl 99`", "-ctk q8_0"),
        ("local", "`/settings context_window 10,240`", ""),
    ],
)
def test_tips_for_a_model_that_is_partly_on_the_card(provider: str, window: str, cache: str) -> None:
    info = served(size=6 * GIB, loaded=True, memory=10 * GIB, graphics_memory=8 * GIB)
    memory = Memory(total=16 * GIB, available=6 * GIB, graphics=(GraphicsCard(name="", total=9 * GIB, free=0),))
    advised = memory_advice(info, memory, provider, 32_768)
    assert window.replace(",", "") in advised.tips[0]
    assert advised.is_short
    assert any("from 3.4 GB to 1.8 GB" in tip and cache in tip for tip in advised.tips) == bool(cache)


def test_tips_for_a_window_that_does_not_fit() -> None:
    info = served(size=6 * GIB)
    assert "`/settings context_window 14336` makes it fit." in advice(info, RAM, "ollama", 32_768)
    assert "Start llama-server with `-c 14336` to make it fit." in advice(info, RAM, "openai", 32_768)


def test_tips_for_a_model_that_does_not_fit() -> None:
    assert "A smaller model, or a smaller quantization of this one, would fit completely." in advice(
        served(size=20 * GIB), RAM, "ollama", 32_768
    )


def test_a_card_that_is_not_used() -> None:
    info = served(**LOADED, graphics_memory=0)
    assert any("-ngl 99" in tip for tip in advice(info, WITH_CARD, "openai", 32_768))
    assert not any("graphics card is not used" in tip for tip in advice(info, RAM, "ollama", 32_768))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Qwen3.5-35B-A3B-Q4_K_M.gguf", True), ("qwen3-next-80b", True), ("qwen3-8b", False), ("qwen2.5-coder:7b", False)],
)
def test_checkpoints_for_hybrid_models(name: str, expected: bool) -> None:
    assert any("--ctx-checkpoints" in text for text in advice(served(name=name), RAM, "openai", 4_096)) == expected
    assert not any("--ctx-checkpoints" in text for text in advice(served(name=name), RAM, "ollama", 4_096))


def test_other_servers_get_no_tips_for_llama_server() -> None:
    assert advice(ModelInfo(name="qwen3.5"), RAM, "openai", 4_096) == ()
