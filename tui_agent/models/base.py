"""The contract between the engine and a model: requests go in, a stream of pieces comes out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from tui_agent.common.domain import Fault, Message, ModelInfo, ToolCall, ToolSpec, Usage


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, neutral of provider. `messages` is already valid (H2)."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    num_ctx: int | None = None
    """Ollama's window: the same value for every request of a model and session."""
    think: bool | str | None = None
    """None lets the client decide by capability (O-19)."""
    keep_alive: str | int | None = None
    """How long Ollama keeps the model loaded afterwards: a duration, or seconds; None leaves it to the client."""
    format: Literal["json"] | dict[str, Any] | None = None
    """Never together with tools (O-21)."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """The reply reached a new phase, before any text."""

    phase: Literal["connecting", "loading", "reading"]
    detail: str = ""
    done: int | None = None
    """Tokens of the prompt that were read by now, with those that the server still had; None is unknown."""
    total: int | None = None
    """Tokens of the whole prompt."""


class TextPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A fragment of the answer, as it came."""

    text: str


class ThinkingPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A fragment of thinking."""

    text: str


class CallStarted(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of a call are arriving; sent again as more of them is known.

    `arguments` is what could be read so far (partial JSON), for the status line only.
    """

    name: str
    arguments: dict[str, Any]


class CallReady(msgspec.Struct, frozen=True, kw_only=True):
    """A call is complete."""

    call: ToolCall


class UsagePiece(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts and times."""

    usage: Usage


class RetryWait(msgspec.Struct, frozen=True, kw_only=True):
    """A retry is coming (M7)."""

    attempt: int
    of: int
    seconds: float
    why: str


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The model ended its reply in order. `reason` is `stop`, `length`, `tool_calls`, … or ``."""

    reason: str


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The reply ended badly; what came before it stays valid."""

    fault: Fault


Piece: TypeAlias = Phase | TextPiece | ThinkingPiece | CallStarted | CallReady | UsagePiece | RetryWait | Stop | Failed


class Model(Protocol):
    """A server, or the scripted model, that answers requests.

    `stream` never raises but for cancellation: failures are `Failed` pieces. Its last piece is exactly one `Stop` or
    `Failed`. Cancelling the task that iterates, or closing the iterator, closes the connection at once.
    """

    provider: str
    """`ollama`, `openai` or `scripted`."""
    endpoint: str
    """What the user is shown: the base URL without secrets, or a word."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Piece, None]:
        """The pieces of one reply, in order."""
        ...

    async def describe(self, model: str) -> ModelInfo | Fault:
        """Capabilities and windows; cached; a `Fault` when the server can't be asked."""
        ...

    async def list_models(self) -> tuple[str, ...] | Fault:
        """Names of the models that the server offers."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...
