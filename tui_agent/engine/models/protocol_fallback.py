"""The protocol for tool calls: native, JSON, or XML in plain text (C1 to C3).

The first one is chosen by what is known about the model, further ones by how the model behaves. Changes are rare, since
the server must then read the whole prompt again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import msgspec

from tui_agent.common.domain import Fault, Message, ModelInfo, SystemMessage, ToolCall, ToolSpec
from tui_agent.engine.core.prompts import fingerprint, version
from tui_agent.events import Event, Notice, ProtocolChanged
from tui_agent.models.base import Model
from tui_agent.models.catalog import Calibration
from tui_agent.protocols.parser import Protocol
from tui_agent.protocols.rendering import render_messages, reply_format, style_of, system_section

MAX_TEXT_CALLS = 2
"""Consecutive replies with calls as text, for a model that never made a native call."""
MAX_TEXT_CALLS_NATIVE = 3
"""The same for a model that has made native calls."""
MAX_UNREADABLE = 3
"""Consecutive unreadable JSON replies."""
STRATEGY_NAMES = {
    "native": "native tool calls",
    "json": "JSON calls",
    "xml": "XML calls in plain text",
    "files": "whole files",
}
"""Names of the strategies for the user."""
MAX_FAILED_RUNS = 2
"""Runs that fell back to another strategy after which the session keeps it."""
MIN_SCORE = 0.5
"""Share of valid replies above which a strategy is tried."""
SMALL_MODEL = 4.0
"""Billions of parameters below which a model is asked for whole files: few of these can handle calls (E4)."""


class RequestFormat(msgspec.Struct, frozen=True):
    """The parts of a request that depend on the protocol."""

    tools: tuple[ToolSpec, ...]
    """Tools in the field of the request."""
    format: Literal["json"] | dict[str, Any] | None


class InitialStrategy(msgspec.Struct, frozen=True):
    """The first strategy for a model, and the reason if it is not the default."""

    strategy: Protocol = "native"
    reason: str = ""


def initial_strategy(info: ModelInfo, fixed: Protocol | None, calibration: Calibration) -> InitialStrategy:
    """Choose the first strategy (E4): by models.json, else by calibration, else by size and capabilities."""
    if fixed is not None:
        return InitialStrategy(fixed, "set in models.json")
    if calibration.strategy is not None:
        on = f" on {calibration.date}" if calibration.date else ""
        return InitialStrategy(calibration.strategy, f"calibrated{on}")
    if info.parameters is not None and info.parameters < SMALL_MODEL:
        return InitialStrategy("files", f"{info.name} is a small model with {info.parameters:.1f} B parameters")
    if info.capabilities and "tools" not in info.capabilities:
        return InitialStrategy("json", f"the server reports no native tool calls for {info.name}")
    return InitialStrategy()


class ProtocolFallback:
    """The protocol of a model in a session. Changes are emitted as events, and folded for a resume."""

    def __init__(
        self,
        model: str,
        *,
        protocol: str = "",
        fixed: Protocol | None = None,
        calibration: Calibration | None = None,
        emit: Callable[[Event], object],
    ) -> None:
        """`protocol` is the one settled before, if any; a `fixed` one is never changed."""
        self.model = model
        self.fixed = fixed
        self._calibration = calibration or Calibration()
        self._settled = bool(protocol) and fixed is None
        self.protocol: Protocol = fixed or _as_protocol(protocol)
        self._emit = emit
        self._native = False
        self._text_calls = 0
        self._unreadable = 0
        self._failures = 0
        """Runs that could not be completed with their strategy."""
        self._replaced_for_run: Protocol | None = None
        """The protocol to return to after a run that fell back, the first time."""

    async def settle(self, model: Model) -> None:
        """Choose the protocol at the start of a run; see `initial_strategy`."""
        if self._replaced_for_run is not None:
            previous, self._replaced_for_run = self._replaced_for_run, None
            self._switch(previous, f"{STRATEGY_NAMES[self.protocol]} were used for one request only")
        if self._settled:
            return
        self._settled = True
        info = ModelInfo(name=self.model)
        if self.fixed is None and self._calibration.strategy is None:
            described = await model.describe(self.model)
            if isinstance(described, ModelInfo):
                info = msgspec.structs.replace(described, name=self.model)
        first = initial_strategy(info, self.fixed, self._calibration)
        if self.fixed is None and first.strategy != self.protocol:
            self._switch(first.strategy, first.reason)
        elif first.reason:
            self._emit(ProtocolChanged(protocol=first.strategy, why=first.reason, fixed=self.fixed is not None))

    # --- the model's replies ---

    def on_calls(self, calls: Sequence[ToolCall]) -> None:
        """Record a reply with readable calls."""
        self._unreadable = 0
        if self.protocol != "native":
            return
        if not all(call.recovered for call in calls):
            self._native, self._text_calls = True, 0
            return
        self._text_calls += 1
        if self._text_calls >= (MAX_TEXT_CALLS_NATIVE if self._native else MAX_TEXT_CALLS):
            self._switch("json", f"{self.model} writes its calls as text")

    def on_unreadable(self) -> None:
        """Record an unreadable reply."""
        self._unreadable += 1
        if self.protocol == "json" and self._unreadable >= MAX_UNREADABLE:
            self._switch("xml", f"{self.model} does not stick to JSON")

    def failed(self, reason: str) -> bool:
        """Switch to another strategy for a run that this one can't complete; False if none is left (E4).

        The second time, the session keeps it. After whole files, only a strategy that calibration found to work.
        """
        protocol = self._next_strategy()
        if protocol is None:
            return False
        self._failures += 1
        self._replaced_for_run = self.protocol if self._failures < MAX_FAILED_RUNS else None
        self._switch(protocol, reason)
        return True

    def _next_strategy(self) -> Protocol | None:
        """Return the strategy to try after the current one failed, or None."""
        if self.fixed is not None or self._replaced_for_run is not None:
            return None
        if self.protocol != "files":
            return "files"
        scores = self._calibration.scores
        best = max((name for name in scores if name != "files"), key=lambda name: scores[name], default="")
        return _as_protocol(best) if scores.get(best, 0.0) >= MIN_SCORE else None

    def refused(self, fault: Fault) -> bool:
        """Switch the protocol if the server rejects the form of the request. True if so: send the request again."""
        if fault.status not in (400, 422, 501):
            return False
        before, message = self.protocol, fault.message.lower()
        if before == "native" and "tool" in message and ("support" in message or "--jinja" in message):
            self._switch("json", "the server does not accept tools for this model")
        elif before == "json" and any(word in message for word in ("format", "grammar", "schema")):
            self._switch("xml", "the server does not accept a format for this model")
        return self.protocol != before

    def _switch(self, protocol: Protocol, reason: str) -> None:
        if self.fixed is not None:
            return
        self.protocol, self._text_calls, self._unreadable = protocol, 0, 0
        self._emit(ProtocolChanged(protocol=protocol, why=reason))
        text = f"Switching to {STRATEGY_NAMES[protocol]}: {reason}."
        self._emit(Notice(level="info", text=text, code="protocol.changed"))

    def versions(self) -> dict[str, str]:
        """Return name → version of the prompts that the protocol adds (H8)."""
        if self.protocol == "files":
            return {"reply_files": version("files_rules", "files_form")}
        style = style_of(self.protocol)
        return {f"reply_{style}": fingerprint(system_section(style, ()))} if style else {}

    # --- the request ---

    def messages(self, conversation: tuple[Message, ...], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
        """Render the conversation in this protocol. Its first message, the rules, gets the description of the calls."""
        style = style_of(self.protocol)
        if style is None:
            return conversation
        rules = SystemMessage(text=f"{conversation[0].text}\n\n{system_section(style, tools)}")
        return render_messages(style, (rules, *conversation[1:]))

    def request_format(self, tools: tuple[ToolSpec, ...]) -> RequestFormat:
        """Return tools and reply format of the request; never both (O-21)."""
        if self.protocol == "native":
            return RequestFormat(tools, None)
        return RequestFormat((), reply_format(tools) if self.protocol == "json" and tools else None)


def _as_protocol(text: str) -> Protocol:
    return next((protocol for protocol in get_args(Protocol) if protocol == text), "native")
