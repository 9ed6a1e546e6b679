from __future__ import annotations

import base64
import random
from collections.abc import Callable

import pytest

from tests.nightly import repetitions, sampled
from tui_agent.common.domain import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage
from tui_agent.engine.context.compaction import Assessment, TruncationWatch
from tui_agent.engine.core.tokens import KINDS, Counts, Gauge, count_request

NUM_CTX = 32_768
WORDS = ["file", "test", "agent", "run", "value", "return", "the", "a", "of", "to", "line", "change", "path"]
SYSTEM = SystemMessage(text="You are a coding agent. Read before you change, and check what you did. " * 30)


def prose(dice: random.Random, size: int) -> str:
    return " ".join(dice.choice(WORDS) for _ in range(size // 5)) + "."


def code(dice: random.Random, size: int) -> str:
    line = "        self.{0}[{2}] = {1}({2}, key='{0}')\n"
    return "".join(line.format(dice.choice(WORDS), dice.choice(WORDS), dice.randrange(99)) for _ in range(size // 40))


def cjk(dice: random.Random, size: int) -> str:
    return "".join(chr(dice.randrange(0x4E00, 0x9F00)) for _ in range(size // 3)) + "。"


def dense(dice: random.Random, size: int) -> str:
    return base64.b64encode(dice.randbytes(size * 3 // 4)).decode()


CONTENTS: dict[str, Callable[[random.Random, int], str]] = {"prose": prose, "code": code, "cjk": cjk, "base64": dense}


class FakeTokenizer:
    """Counts as some model would: by weights drawn from what tokenizers do, or by a quarter of the characters."""

    def __init__(self, dice: random.Random) -> None:
        self.quarter = dice.random() < 0.25
        self.weights = {
            "words": dice.uniform(0.6, 1.1),
            "letters": dice.uniform(0.04, 0.1),
            "digits": dice.uniform(0.35, 1.0),
            "signs": dice.uniform(0.35, 0.8),
            "lines": dice.uniform(0.4, 1.2),
            "wide": dice.uniform(0.5, 1.6),
            "foreign": dice.uniform(0.3, 0.8),
            "dense": dice.uniform(0.45, 0.8),
            "same": dice.uniform(0.06, 0.2),
            "messages": dice.uniform(3, 8),
            "base": dice.uniform(0, 150),
        }

    def count(self, messages: tuple[Message, ...]) -> int:
        if self.quarter:
            return sum(len(message.text) + 40 for message in messages) // 4
        counts = count_request(messages, ())
        return round(sum(self.weights.get(kind, 0) * n for kind, n in zip(KINDS, counts, strict=True)))


def usage(server: str, full: int, new: int, hit: bool, dice: random.Random) -> Usage:
    """What a server says of a prompt of which it read only `new` tokens, since it had the others."""
    sometimes = server.removeprefix("often ")
    if not hit or (sometimes != server and dice.random() < 0.3):
        return Usage(prompt_tokens=full)
    match sometimes:
        case "omits":
            return Usage()
        case "lowers":
            return Usage(prompt_tokens=new)
        case "lowers to one":
            return Usage(prompt_tokens=1)
        case "lowers a little":
            return Usage(prompt_tokens=new + (full - new) * dice.randrange(100) // 100)
        case "tells apart":
            return Usage(prompt_tokens=new, cached_tokens=full - new)
    return Usage(prompt_tokens=full)


SERVERS = (
    "counts all",
    "omits",
    "often omits",
    "lowers",
    "often lowers",
    "lowers to one",
    "lowers a little",
    "tells apart",
)


def judge(watch: TruncationWatch, gauge: Gauge, messages: tuple[Message, ...], said: Usage) -> Assessment:
    counts = count_request(messages, ())
    judged = watch.assess(messages, counts, said, gauge, (NUM_CTX,))
    if judged.learnable is not None:
        gauge.learn(counts, judged.learnable, complete=judged.complete)
    return judged


def talk(seed: int, resumed: bool = False) -> list[tuple[Assessment, int, int]]:
    """An honest session; for each reply the judgement, the estimate before it, the truth."""
    dice = random.Random(seed)
    server, tokenizer = SERVERS[seed % len(SERVERS)], FakeTokenizer(dice)
    kinds = [list(CONTENTS)[seed // len(SERVERS) % 4]] if dice.random() < 0.6 else list(CONTENTS)
    watch, gauge = TruncationWatch(), Gauge()
    task = UserMessage(text=CONTENTS[dice.choice(kinds)](dice, dice.choice([40, 400, 8_000, 30_000])))
    messages: tuple[Message, ...] = (SYSTEM, task)
    cached: tuple[Message, ...] = (SYSTEM,) if dice.random() < 0.5 else ()
    if resumed:
        messages += tuple(AssistantMessage(text=prose(dice, 3_000)) for _ in range(8))
        messages += (UserMessage(text="go on"),)
        cached = messages[:-1]
    seen = []
    for turn in range(12):
        full, new = tokenizer.count(messages), tokenizer.count(messages[len(cached) :])
        if full > 0.7 * NUM_CTX:
            break
        estimate = gauge.estimate(count_request(messages, ()))
        seen.append((judge(watch, gauge, messages, usage(server, full, new, bool(cached), dice)), estimate, full))
        call = ToolCall(id=f"c{turn}", name="read_file", arguments={"path": f"src/{turn}.py"})
        said = AssistantMessage(text=prose(dice, 120), calls=(call,))
        text = CONTENTS[dice.choice(kinds)](dice, dice.choice([50, 500, 3_000, 9_000]))
        cached = (*messages, said)
        messages = (*messages, said, ToolMessage(call_id=call.id, name="read_file", text=text))
    return seen


@pytest.mark.parametrize("seeds", repetitions(60, 200))
def test_honest_sessions_raise_no_warning(seeds: int) -> None:
    told = [(seed, at) for seed in range(seeds) for at, one in enumerate(talk(seed)) if one[0].cut_to]
    assert not told


@pytest.mark.parametrize("seeds", repetitions(60, 200))
def test_resumed_sessions_whose_past_is_still_cached_raise_no_warning(seeds: int) -> None:
    told = [(seed, at) for seed in range(seeds) for at, one in enumerate(talk(seed, True)) if one[0].cut_to]
    assert not told


@pytest.mark.parametrize("seeds", repetitions(60, 200))
def test_estimates_of_honest_sessions_are_close_once_the_server_has_counted(seeds: int) -> None:
    errors = [
        abs(estimate / full - 1)
        for seed in range(seeds)
        if SERVERS[seed % len(SERVERS)] in ("counts all", "tells apart")
        for _, estimate, full in talk(seed)[3:]
    ]
    errors.sort()
    assert errors[len(errors) // 2] < 0.01
    assert errors[len(errors) * 9 // 10] < 0.05
    assert errors[len(errors) * 95 // 100] < 0.1


@pytest.mark.parametrize("seeds", repetitions(60, 200))
def test_what_is_shown_as_the_prompts_size_is_never_a_count_of_the_uncached_part(seeds: int) -> None:
    for seed in range(seeds):
        for judged, _, full in talk(seed):
            assert judged.full is None or judged.full >= 0.6 * full, seed


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("seed", sampled(range(8), 2))
def test_a_prompt_cut_to_half_the_window_is_noticed_at_the_first_reply(content: str, seed: int) -> None:
    dice = random.Random(seed)
    tokenizer = FakeTokenizer(dice)
    text = ""
    while tokenizer.count((SYSTEM, UserMessage(text=text))) < 0.85 * NUM_CTX:
        text += CONTENTS[content](dice, 3_000)
    judged = judge(TruncationWatch(), Gauge(), (SYSTEM, UserMessage(text=text)), Usage(prompt_tokens=NUM_CTX // 2 + 2))
    assert judged.cut_to == NUM_CTX // 2 + 2
    assert judged.window == NUM_CTX


def test_2050_tokens_of_eight_thousand_are_noticed_whatever_was_asked_for() -> None:
    dice = random.Random(5)
    messages = (SYSTEM, UserMessage(text=prose(dice, 32_000)))
    judged = judge(TruncationWatch(), Gauge(), messages, Usage(prompt_tokens=2_050))
    assert (judged.cut_to, judged.window) == (2_050, 4_096)


def test_a_window_of_no_usual_size_is_noticed_when_the_count_stands_still() -> None:
    dice = random.Random(6)
    watch, gauge = TruncationWatch(), Gauge()
    messages: tuple[Message, ...] = (SYSTEM, UserMessage(text=prose(dice, 1_000)))
    found = []
    for turn in range(8):
        full = FakeTokenizer(random.Random(6)).count(messages)
        found.append(judge(watch, gauge, messages, Usage(prompt_tokens=full if full < 5_000 else 2_502)).cut_to)
        call = ToolCall(id=str(turn), name="read_file", arguments={})
        result = ToolMessage(call_id=call.id, name="read_file", text=code(dice, 2_000 + 900 * turn))
        messages = (*messages, AssistantMessage(text="next", calls=(call,)), result)
    assert 2_502 in found


def test_the_same_prompt_sent_again_is_not_truncated_when_the_estimate_has_grown() -> None:
    before, messages = growing(random.Random(1), [4_000, 1_500])[-2:]
    watch, gauge = TruncationWatch(), Gauge()
    counts = count_request(messages, ())
    said = Usage(prompt_tokens=round(0.7 * gauge.estimate(counts)))
    earlier = count_request(before, ())
    watch.assess(before, earlier, Usage(prompt_tokens=round(0.7 * gauge.estimate(earlier))), gauge, (NUM_CTX,))
    for _ in range(2):
        assert not watch.assess(messages, counts, said, gauge, (NUM_CTX,)).cut_to
    while gauge.estimate(counts) < 1.5 * (said.prompt_tokens or 0) + 300:
        gauge.learn(counts, 2 * (said.prompt_tokens or 0), complete=True)  # as for another prompt with such text
    assert not watch.assess(messages, counts, said, gauge, (NUM_CTX,)).cut_to


@pytest.mark.parametrize("window", [4_096, 8_192, 16_384])
def test_a_count_that_meets_a_usual_window_by_chance_is_no_sign_of_it(window: int) -> None:
    """The estimate is far too high, and was so for the prompt before, too."""
    watch, gauge = TruncationWatch(), FixedGauge()
    messages: tuple[Message, ...] = (UserMessage(text="begin"),)
    reached = 0
    for real in (0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1):
        tokens = round(real * window) + (3 if real == 0.5 else -1)
        messages += (AssistantMessage(text="so"), UserMessage(text="word " * round(1.35 * (tokens - reached))))
        reached = tokens
        assert gauge.estimate(count_request(messages, ())) > 1.34 * tokens
        assert not judge(watch, gauge, messages, Usage(prompt_tokens=tokens)).cut_to


class FixedGauge(Gauge):
    """A gauge that never learns: each count seems to be too low."""

    def learn(self, counts: Counts, real: int, *, complete: bool = False) -> bool:
        return False


def test_a_window_is_never_smaller_than_what_the_server_has_read() -> None:
    dice = random.Random(5)
    watch, gauge = TruncationWatch(), Gauge()
    large = (SYSTEM, UserMessage(text=prose(dice, 60_000)))
    judge(watch, gauge, large, Usage(prompt_tokens=FakeTokenizer(random.Random(6)).count(large)))
    other = (SYSTEM, UserMessage(text=prose(dice, 32_000)))
    assert judge(watch, gauge, other, Usage(prompt_tokens=2_050)).window != 4_096


def growing(dice: random.Random, sizes: list[int]) -> list[tuple[Message, ...]]:
    """The requests of a run, each with a longer result."""
    messages: tuple[Message, ...] = (SYSTEM, UserMessage(text=prose(dice, 1_000)))
    found = [messages]
    for turn, size in enumerate(sizes):
        call = ToolCall(id=str(turn), name="read_file", arguments={})
        result = ToolMessage(call_id=call.id, name="read_file", text=code(dice, size))
        messages = (*messages, AssistantMessage(text="next", calls=(call,)), result)
        found.append(messages)
    return found


@pytest.mark.parametrize("window", [2_048, 4_096, 8_192])
@pytest.mark.parametrize("seed", sampled(range(8), 2))
def test_a_prompt_cut_to_a_window_is_noticed_at_the_first_reply(window: int, seed: int) -> None:
    dice = random.Random(seed)
    tokenizer = FakeTokenizer(dice)
    text = ""
    while tokenizer.count((SYSTEM, UserMessage(text=text))) < 1.7 * window:
        text += code(dice, 500)
    messages = (SYSTEM, UserMessage(text=text))
    judged = judge(TruncationWatch(), Gauge(), messages, Usage(prompt_tokens=window - seed % 3))
    assert (judged.cut_to, judged.window) == (window - seed % 3, window)


@pytest.mark.parametrize("window", [4_096, 8_192])
@pytest.mark.parametrize("lacking", [0, 1])
def test_a_window_that_is_reached_while_the_prompt_grows_is_noticed_at_once(window: int, lacking: int) -> None:
    tokenizer, watch, gauge = FakeTokenizer(random.Random(3)), TruncationWatch(), Gauge()
    for messages in growing(random.Random(7), [window] * 8):
        full = tokenizer.count(messages)
        judged = judge(watch, gauge, messages, Usage(prompt_tokens=min(full, window - lacking)))
        assert not judged.cut_to or full > window
        if full > 1.2 * window:
            assert judged.cut_to
        if judged.cut_to:
            assert judged.window == window
            return
    raise AssertionError("the window was never reached")


def test_whole_messages_that_are_left_out_are_noticed_at_the_second_reply() -> None:
    tokenizer, watch, gauge = FakeTokenizer(random.Random(3)), TruncationWatch(), Gauge()
    seen = []
    for number, messages in enumerate(growing(random.Random(7), [3_000] * 8)):
        full = tokenizer.count(messages)
        left = full if full <= 4_096 else 4_096 - (37, 150, 90)[number % 3]
        seen.append((full > 4_096, bool(judge(watch, gauge, messages, Usage(prompt_tokens=left)).cut_to)))
    over = [told for cut, told in seen if cut]
    assert not any(told for cut, told in seen if not cut)
    assert any(over[:2])


def test_a_window_of_no_usual_size_is_noticed_at_once_where_the_cache_is_told() -> None:
    tokenizer, watch, gauge = FakeTokenizer(random.Random(6)), TruncationWatch(), Gauge()
    for messages in growing(random.Random(6), [2_000] * 10):
        full = tokenizer.count(messages)
        said = Usage(prompt_tokens=min(full, 2_502), cached_tokens=500)
        told = judge(watch, gauge, messages, said).cut_to
        assert not told or full > 2_502
        if full > 3_300:
            assert told == 2_502
            return
    raise AssertionError("the window was never reached")
