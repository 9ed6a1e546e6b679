from __future__ import annotations

import base64
import random
import sys

import pytest

from tui_agent.common.domain import AssistantMessage, SystemMessage, ToolCall, ToolSpec, UserMessage
from tui_agent.engine.core.tokens import KINDS, Gauge, count, count_request

PROSE = "The agent reads a file before it changes it, and says plainly what it saw. " * 40
CODE = "    def add(self, a: int, b: int) -> int:\n        return self.total[a] + b * 2  # sum\n\n" * 40
CJK = "代理在更改文件之前先读取文件，并说明所看到的内容。" * 40
BASE64 = base64.b64encode(random.Random(1).randbytes(3_000)).decode()


def number(text: str, kind: str) -> float:
    return count(text)[KINDS.index(kind)]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [(PROSE, 4.0, 5.2), (CODE, 2.4, 4.2), (CJK, 1.0, 1.8), (BASE64, 1.4, 2.2), ("=" * 4_000, 5.0, 12.0)],
    ids=["prose", "code", "cjk", "base64", "same"],
)
def test_a_token_is_as_many_characters_as_its_kind_of_text_has(text: str, low: float, high: float) -> None:
    size = Gauge().estimate(count(text))
    assert low < len(text) / size < high


def test_kinds_are_told_apart() -> None:
    assert number(BASE64, "dense") == len(BASE64)
    assert number("/usr/share/perl/lib/strict/modules/deep/inside.pm", "dense") == 0
    assert number("test_a_token_is_as_many_characters_as_its_kind_of_text_has", "dense") == 0
    assert number("-" * 100, "same") == 100
    assert number("汉字 and Кириллица", "wide") == 2
    assert number("汉字 and Кириллица", "foreign") == 9
    assert number("a\n\n  b\n", "lines") == 3


def test_a_long_text_is_counted_from_samples_and_quickly() -> None:
    whole = Gauge().estimate(count(PROSE * 400))
    assert len(PROSE * 400) > 1_000_000
    assert abs(whole / (400 * Gauge().estimate(count(PROSE))) - 1) < 0.05


def test_real_counts_teach_the_weight_of_what_was_in_the_text() -> None:
    gauge = Gauge()
    chinese, code = count(CJK), count(CODE)
    before = gauge.estimate(code)
    for part in (1, 2, 3):
        counts = tuple(part * one for one in chinese)
        gauge.learn(counts, round(1.2 * part * len(CJK)))
    assert abs(gauge.estimate(chinese) / (1.2 * len(CJK)) - 1) < 0.05
    assert abs(gauge.estimate(code) / before - 1) < 0.15


def test_mixed_texts_are_estimated_well_after_a_few_counts() -> None:
    true = {"words": 0.6, "letters": 0.12, "digits": 1.0, "signs": 0.4, "lines": 0.6, "wide": 1.1, "dense": 0.75}
    mixed = [PROSE, PROSE + CODE, CODE * 3, CJK + CODE, BASE64 + PROSE, CJK * 2, CODE + BASE64 * 2]
    gauge = Gauge()
    for text in mixed + mixed:
        counts = count_request((UserMessage(text=text),), ())
        real = sum(true.get(kind, 0.0) * size for kind, size in zip(KINDS, counts, strict=True))
        gauge.learn(counts, round(real))
    for text in mixed:
        counts = count_request((UserMessage(text=text),), ())
        real = sum(true.get(kind, 0.0) * size for kind, size in zip(KINDS, counts, strict=True))
        assert abs(gauge.estimate(counts) / real - 1) < 0.03


def test_a_count_of_what_was_not_cached_teaches_nothing() -> None:
    gauge = Gauge()
    counts = count_request((UserMessage(text=PROSE * 3),), ())
    gauge.learn(counts, 2_000)
    known = gauge.estimate(counts)
    for lowered in (40, 900, 300, 1_400, 1):
        gauge.learn(counts, lowered)
    assert gauge.estimate(counts) == known


def test_a_lower_count_is_believed_when_the_next_agrees() -> None:
    gauge = Gauge()
    first, second = count(CJK * 3), count(CJK * 4)
    assert not gauge.learn(first, round(0.55 * 3 * len(CJK)))
    assert gauge.learn(second, round(0.55 * 4 * len(CJK)))
    assert abs(gauge.estimate(second) / (0.55 * 4 * len(CJK)) - 1) < 0.05


def test_calls_tools_and_the_frame_of_messages_count() -> None:
    tool = ToolSpec(name="read_file", description="Reads a file.", parameters={"type": "object"})
    call = ToolCall(id="1", name="read_file", arguments={"path": "a.py"})
    plain = (SystemMessage(text="rules"), UserMessage(text="hi"))
    gauge = Gauge()
    size = gauge.estimate(count_request(plain, ()))
    assert gauge.estimate(count_request(plain, (tool,))) > size + 8
    assert gauge.estimate(count_request((*plain, AssistantMessage(calls=(call,))), ())) > size + 12


def test_the_cache_of_counts_holds_no_text() -> None:
    text = "".join(f"line {number}\n" for number in range(1_000))
    references = sys.getrefcount(text)
    assert count(text) == count(text)
    assert sys.getrefcount(text) == references
