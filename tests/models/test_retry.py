from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Self

import pytest

from tests.models.asking import ask, make_request
from tui_agent.common.domain import Fault, ModelInfo, Usage
from tui_agent.models.base import Failed, ModelRequest, Phase, ReplyPart, RetryWait, Stop, TextFragment, UsageReport
from tui_agent.models.endpoint import endpoint
from tui_agent.models.exchange import Exchange, HttpModel
from tui_agent.models.faults import RetryPolicy, WireFault, retry_after
from tui_agent.models.wire import Wire


class FakeExchange(Exchange):
    """Gives pieces one by one instead of talking to a server."""

    def __init__(self, pieces: list[ReplyPart], model: FakeModel) -> None:
        self.pieces = list(pieces)
        self.model = model

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.model.closed += 1

    async def next(self) -> list[ReplyPart] | None:
        return [self.pieces.pop(0)] if self.pieces else None


class FakeModel(HttpModel):
    """Answers with one list of pieces after the other, the last one for ever."""

    def __init__(self, *replies: list[ReplyPart]) -> None:
        super().__init__(Wire("ollama", endpoint("http://127.0.0.1:1", None, {})), RetryPolicy())
        self.replies = list(replies)
        self.asked = 0
        self.closed = 0

    async def _body(self, make_request: ModelRequest) -> dict[str, Any]:
        return {"messages": make_request.messages}

    def _exchange(self, make_request: ModelRequest, body: dict[str, Any]) -> Exchange:
        self.asked += 1
        return FakeExchange(self.replies.pop(0) if len(self.replies) > 1 else self.replies[0], self)

    def _adapt(self, model: str, error: WireFault, body: dict[str, Any]) -> bool:
        return False

    async def describe(self, model: str) -> ModelInfo:
        return ModelInfo(name=model)

    async def list_models(self) -> tuple[str, ...]:
        return ("m",)


def failed(**more: object) -> Failed:
    more = {"kind": "status", "message": "busy", "retryable": True} | more
    return Failed(fault=Fault(**more))  # type: ignore[arg-type] # fields of a Fault


GOOD: list[ReplyPart] = [Phase(phase="reading"), TextFragment(text="x"), Stop(reason="stop")]


def fast(model: FakeModel, slept: list[float], chance: float = 0.0):
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    model.retries = RetryPolicy(sleep=sleep, jitter=lambda: chance)
    return model


async def test_a_passing_failure_is_waited_out_visibly():
    slept: list[float] = []
    model = FakeModel([Phase(phase="reading"), failed()], [failed()], GOOD)
    reply = await ask(fast(model, slept))
    assert reply.text == "x"
    assert reply.waits == [
        RetryWait(attempt=2, of=5, seconds=0.5, why="busy"),
        RetryWait(attempt=3, of=5, seconds=1.0, why="busy"),
    ]
    assert slept == [0.5, 1.0]
    assert model.closed == 3


async def test_five_attempts_and_no_more():
    slept: list[float] = []
    model = FakeModel([failed()])
    fault = (await ask(fast(model, slept))).fault
    assert (model.asked, len(slept)) == (5, 4)
    assert fault.message == "busy (after 5 attempts)."


async def test_waits_grow_with_jitter_between_half_and_whole():
    for chance, wanted in ((0.0, [0.5, 1, 2, 4]), (1.0, [1, 2, 4, 8])):
        slept: list[float] = []
        await ask(fast(FakeModel([failed()]), slept, chance))
        assert slept == wanted


async def test_counts_and_phases_are_no_answer():
    model = FakeModel([Phase(phase="reading"), UsageReport(usage=Usage(prompt_tokens=1)), failed()], GOOD)
    assert (await ask(fast(model, []))).text == "x"


async def test_what_will_not_pass_is_not_repeated():
    model = FakeModel([failed(retryable=False)])
    await ask(fast(model, []))
    assert model.asked == 1


@pytest.mark.parametrize(("asked", "slept"), [(0.0, [0.0]), (7.0, [7.0]), (120.0, [120.0]), (121.0, [])])
async def test_what_the_server_asks_for_is_waited_up_to_two_minutes(asked, slept):
    waited: list[float] = []
    model = FakeModel([failed(retry_after=asked)], GOOD)
    reply = await ask(fast(model, waited))
    assert waited == slept
    if not slept:
        assert "2.02 min" in reply.fault.advice


async def test_closing_the_iterator_closes_the_exchange():
    model = FakeModel(GOOD)
    pieces = fast(model, []).stream(make_request())
    async for piece in pieces:
        if isinstance(piece, TextFragment):
            break
    await pieces.aclose()
    assert model.closed == 1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        ("Wed, 21 Oct 2026 07:28:10 GMT", 10.0),
        ("Wed, 21 Oct 2026 07:00:00 GMT", 0.0),
        ("-1", None),
        ("inf", None),
        ("1e400", None),
        ("tomorrow", None),
        ("", None),
    ],
)
def test_retry_after_in_seconds_or_as_a_date(value, seconds):
    now = datetime(2026, 10, 21, 7, 28, 0, tzinfo=UTC)
    assert retry_after({"retry-after": value}, now) == seconds
