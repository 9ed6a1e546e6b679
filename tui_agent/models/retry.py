"""Asking again after failures that pass by themselves: visibly, bounded, never twice for what was answered (M7)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import msgspec

from tui_agent.domain import Fault, ModelInfo
from tui_agent.models.base import (
    CallBegun,
    CallReady,
    Failed,
    Model,
    ModelRequest,
    Piece,
    Text,
    Thought,
    Waiting,
)

ATTEMPTS = 5
FIRST_WAIT = 1.0
LONGEST_WAIT = 30.0
"""Seconds between attempts when the server does not say."""
LONGEST_ASKED = 120.0
"""Seconds that a server may ask us to wait; beyond that it is for the user to decide (R-38)."""

_ANSWER = (Text, Thought, CallBegun, CallReady)


class RetryingModel:
    """A Model that repeats a request whose Fault is `retryable` and of which nothing was answered yet."""

    def __init__(
        self,
        model: Model,
        attempts: int,
        sleep: Callable[[float], Awaitable[object]],
        chance: Callable[[], float],
    ) -> None:
        self.model = model
        self.provider = model.provider
        self.endpoint = model.endpoint
        self._attempts = attempts
        self._sleep = sleep
        self._chance = chance

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """See Model. Before each further attempt comes a Waiting; cancelling ends a wait at once."""
        for attempt in range(1, self._attempts + 1):
            failed: Failed | None = None
            answered = False
            async with aclosing(self.model.stream(request)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Failed):
                        failed = piece
                        break
                    answered = answered or isinstance(piece, _ANSWER)
                    yield piece
            if failed is None:
                return
            seconds = None if answered else self._pause(failed.fault, attempt)
            if seconds is None:
                yield Failed(fault=_final(failed.fault, attempt))
                return
            why = failed.fault.message
            yield Waiting(attempt=attempt + 1, of=self._attempts, seconds=seconds, why=why)
            await self._sleep(seconds)

    def _pause(self, fault: Fault, attempt: int) -> float | None:
        """Seconds until the next attempt; None when there is none."""
        if not fault.retryable or attempt >= self._attempts:
            return None
        if fault.retry_after is not None:
            if fault.retry_after > LONGEST_ASKED:
                return None
            return fault.retry_after + self._chance() * 0.25
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (attempt - 1))
        return wait * (0.5 + self._chance() / 2)

    async def describe(self, model: str) -> ModelInfo | Fault:
        """See Model."""
        return await self.model.describe(model)

    async def list_models(self) -> tuple[str, ...] | Fault:
        """See Model."""
        return await self.model.list_models()

    async def aclose(self) -> None:
        """See Model."""
        await self.model.aclose()


def _final(fault: Fault, attempts: int) -> Fault:
    if fault.retryable and fault.retry_after is not None and fault.retry_after > LONGEST_ASKED:
        advice = f"The server asks to wait {_duration(fault.retry_after)}: ask again then, or choose another model."
        return msgspec.structs.replace(fault, advice=advice)
    if attempts > 1:
        return msgspec.structs.replace(
            fault, message=f"{fault.message.removesuffix('.')} (after {attempts} attempts)."
        )
    return fault


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"


def with_retries(
    model: Model,
    *,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    chance: Callable[[], float] = random.random,
) -> Model:
    """`model` with retries; one that already has them is returned as it is. `chance` gives numbers from 0 to 1."""
    return model if isinstance(model, RetryingModel) else RetryingModel(model, attempts, sleep, chance)
