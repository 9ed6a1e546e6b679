"""The contract between the engine and a model: a request goes in, a stream of reply parts comes out."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from tui_agent.common.domain import Fault, Message, ModelInfo, ToolCall, ToolSpec, Usage

LOCAL_ENGINE = "the local engine"
"""What the provider `local` is called in messages."""
GET_MODELS = "`tui-agent models get` suggests models for this machine, and fetches them."
"""What to do without a model for the local engine."""
_EXAMPLE = "qwen2.5-coder:7b"


def first_model_advice(provider: str, name: str = "") -> str:
    """Return what to do if a server has no models; `name` is the one to get, if there is a better one than the example.

    `provider` is `ollama`, `openai` or `local`.
    """
    pull = f"Pull one first, such as `ollama pull {name or _EXAMPLE}`."
    return {"ollama": pull, "local": GET_MODELS}.get(provider, "Load one there, or name one with `--model`.")


def model_owner(provider: str, endpoint: str) -> str:
    """Return who has the models of a server, as the subject of a sentence."""
    return "This machine" if provider == "local" else endpoint


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, independent of the provider. `messages` must already be valid (H2)."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    num_ctx: int | None = None
    """Ollama's context window. Must be the same for all requests of a model and session, or the model is reloaded."""
    think: bool | str | None = None
    """None: the client decides by the model's capabilities (O-19)."""
    keep_alive: str | int | None = None
    """How long Ollama keeps the model loaded: a duration with its unit, or seconds. None: the client's default."""
    format: Literal["json"] | dict[str, Any] | None = None
    """Structured output; not combined with tools (O-21)."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """The request reached a new phase, before any text arrived."""

    phase: Literal["connecting", "loading", "reading"]
    detail: str = ""
    done: int | None = None
    """Prompt tokens processed so far, including cached ones; None when unknown."""
    total: int | None = None
    """Tokens of the whole prompt; None when unknown."""


class TextFragment(msgspec.Struct, frozen=True, kw_only=True):
    """A fragment of the answer, exactly as received."""

    text: str


class ReasoningFragment(msgspec.Struct, frozen=True, kw_only=True):
    """A fragment of the model's reasoning."""

    text: str


class CallProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call is arriving; repeated as more of its arguments become readable.

    `arguments` is the readable part of incomplete JSON, for the status line only.
    """

    name: str
    arguments: dict[str, Any]


class CallReady(msgspec.Struct, frozen=True, kw_only=True):
    """A call is complete."""

    call: ToolCall


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts and times."""

    usage: Usage


class RetryWait(msgspec.Struct, frozen=True, kw_only=True):
    """The request failed and will be retried after `seconds` (M7)."""

    attempt: int
    of: int
    seconds: float
    why: str


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The reply is complete. `reason` is `stop`, `length`, `tool_calls`, …, or empty if none was given."""

    reason: str


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The reply failed; what came before remains valid."""

    fault: Fault


ReplyPart: TypeAlias = (
    Phase | TextFragment | ReasoningFragment | CallProgress | CallReady | UsageReport | RetryWait | Stop | Failed
)


class Model(Protocol):
    """A model server, or the scripted model.

    `stream` raises nothing but CancelledError; failures are `Failed` parts. The last part is exactly one `Stop` or
    `Failed`. Cancelling the consuming task, or closing the iterator, closes the connection at once.
    """

    provider: str
    """`ollama`, `openai`, `local` or `scripted`."""
    endpoint: str
    """Display name: the base URL without secrets, or a description."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyPart, None]:
        """Yield the parts of one reply, in order."""
        ...

    async def describe(self, model: str) -> ModelInfo | Fault:
        """Return capabilities and context windows, possibly cached, or a `Fault` if the server can't be asked."""
        ...

    async def list_models(self) -> tuple[str, ...] | Fault:
        """Return the names of the models that the server offers."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


@runtime_checkable
class LoadsModels(Protocol):
    """A Model whose server may load and unload models on request."""

    async def load(self, model: str, window: int | None = None, keep_alive: str | int | None = None) -> Fault | None:
        """Load a model into memory, for a context window of `window` tokens, and keep it for so long without a request,
        where the server lets that be chosen.

        Returns when it is loaded, or why it is not."""
        ...

    async def unload(self, model: str) -> Fault | None:
        """Remove a model from memory; returns why that failed, if so."""
        ...
