"""In which form tool calls are asked for: native, JSON, or XML in plain text (C1 to C3).

The first rung is chosen by what the server says of the model, the next ones by what the model does. Within a run the
form stays what it is unless it does not work, since a change makes the server read the whole prompt anew.
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

PRINTED = 2
"""Replies in a row that hold calls as text, by a model that never made a native one."""
PRINTED_NOW = 3
"""The same for a model that did make native ones."""
UNREADABLE = 3
"""JSON replies in a row that can't be read."""
STRATEGY_NAMES = {
    "native": "native tool calls",
    "json": "JSON calls",
    "xml": "XML calls in plain text",
    "files": "whole files",
}
"""What a model is asked for, in words."""
FAILURES = 2
"""Runs that went on with files after which a session stays with them."""
WORKS = 0.5
"""Share of right replies from which on a strategy is worth a try."""
SMALL = 4.0
"""Thousand millions of parameters below which a model is asked for whole files: few such get on with calls (E4)."""


class RequestFormat(msgspec.Struct, frozen=True):
    """What a protocol makes of messages and tools."""

    tools: tuple[ToolSpec, ...]
    """Those that go into the request's own field."""
    format: Literal["json"] | dict[str, Any] | None


class InitialStrategy(msgspec.Struct, frozen=True):
    """The strategy that a model is asked with at first, and why that one; no reason is needed for native calls."""

    strategy: Protocol = "native"
    why: str = ""


def initial_strategy(info: ModelInfo, fixed: Protocol | None, calibration: Calibration) -> InitialStrategy:
    """How a model is asked at first (E4): as models.json says, else as was measured, else by its size and abilities."""
    if fixed is not None:
        return InitialStrategy(fixed, "set in models.json")
    if calibration.strategy is not None:
        on = f" on {calibration.date}" if calibration.date else ""
        return InitialStrategy(calibration.strategy, f"calibrated{on}")
    if info.parameters is not None and info.parameters < SMALL:
        return InitialStrategy("files", f"{info.name} is a small model with {info.parameters:.1f} B parameters")
    if info.capabilities and "tools" not in info.capabilities:
        return InitialStrategy("json", f"the server reports no native tool calls for {info.name}")
    return InitialStrategy()


class ProtocolFallback:
    """The protocol of one model in one session. `tell` emits events; the state folds them for a resume."""

    def __init__(
        self,
        model: str,
        *,
        protocol: str = "",
        fixed: Protocol | None = None,
        calibration: Calibration | None = None,
        tell: Callable[[Event], object],
    ) -> None:
        """`protocol` is the one that was settled before, if any; a `fixed` one is never left. `calibration`: what was
        measured of the model, which it begins with."""
        self.model = model
        self.fixed = fixed
        self._calibration = calibration or Calibration()
        self._settled = bool(protocol) and fixed is None
        self.protocol: Protocol = fixed or _known(protocol)
        self._tell = tell
        self._native = False
        self._printed = 0
        self._unreadable = 0
        self._failures = 0
        """Runs that were not done with calls."""
        self._replaced_for_run: Protocol | None = None
        """What a run was begun with that went on with files, while that was the only one."""

    async def settle(self, model: Model) -> None:
        """Choose the first rung, see `start`; native where nothing is known. Called as a run begins."""
        if self._replaced_for_run is not None:
            back, self._replaced_for_run = self._replaced_for_run, None
            self._move(back, f"{STRATEGY_NAMES[self.protocol]} were used for one request only")
        if self._settled:
            return
        self._settled = True
        known = ModelInfo(name=self.model)
        if self.fixed is None and self._calibration.strategy is None:
            info = await model.describe(self.model)
            if isinstance(info, ModelInfo):
                known = msgspec.structs.replace(info, name=self.model)
        first = initial_strategy(known, self.fixed, self._calibration)
        if self.fixed is None and first.strategy != self.protocol:
            self._move(first.strategy, first.why)
        elif first.why:
            self._tell(ProtocolChanged(protocol=first.strategy, why=first.why, fixed=self.fixed is not None))

    # --- what the model does ---

    def took(self, calls: Sequence[ToolCall]) -> None:
        """A reply had calls that could be read."""
        self._unreadable = 0
        if self.protocol != "native":
            return
        if not all(call.recovered for call in calls):
            self._native, self._printed = True, 0
            return
        self._printed += 1
        if self._printed >= (PRINTED_NOW if self._native else PRINTED):
            self._move("json", f"{self.model} writes its calls as text")

    def missed(self) -> None:
        """A reply could not be read."""
        self._unreadable += 1
        if self.protocol == "json" and self._unreadable >= UNREADABLE:
            self._move("xml", f"{self.model} does not stick to JSON")

    def failed(self, why: str) -> bool:
        """A run was not done with this strategy; True where another one is left, which the run goes on with, and
        after the second such run the session (E4). From whole files it goes on only with what was measured to work."""
        to = self._next()
        if to is None:
            return False
        self._failures += 1
        self._replaced_for_run = self.protocol if self._failures < FAILURES else None
        self._move(to, why)
        return True

    def _next(self) -> Protocol | None:
        if self.fixed is not None or self._replaced_for_run is not None:
            return None
        if self.protocol != "files":
            return "files"
        scores = self._calibration.scores
        best = max((one for one in scores if one != "files"), key=lambda one: scores[one], default="")
        return _known(best) if scores.get(best, 0.0) >= WORKS else None

    def refused(self, fault: Fault) -> bool:
        """True if the server refuses the form of the request and another one was taken: ask again at once."""
        if fault.status not in (400, 422, 501):
            return False
        before, words = self.protocol, fault.message.lower()
        if before == "native" and "tool" in words and ("support" in words or "--jinja" in words):
            self._move("json", "the server does not accept tools for this model")
        elif before == "json" and ("format" in words or "grammar" in words or "schema" in words):
            self._move("xml", "the server does not accept a format for this model")
        return self.protocol != before

    def _move(self, to: Protocol, why: str) -> None:
        if self.fixed is not None:
            return
        self.protocol, self._printed, self._unreadable = to, 0, 0
        self._tell(ProtocolChanged(protocol=to, why=why))
        text = f"Switching to {STRATEGY_NAMES[to]}: {why}."
        self._tell(Notice(level="info", text=text, code="protocol.changed"))

    def versions(self) -> dict[str, str]:
        """Name → version of what the protocol adds to the rules, tools aside (H8); nothing for native calls."""
        if self.protocol == "files":
            return {"reply_files": version("files_rules", "files_form")}
        style = style_of(self.protocol)
        return {f"reply_{style}": fingerprint(system_section(style, ()))} if style else {}

    # --- what a request looks like ---

    def messages(self, neutral: tuple[Message, ...], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
        """The conversation as this protocol writes it."""
        style = style_of(self.protocol)
        return render_messages(style, _with(neutral, system_section(style, tools))) if style else neutral

    def dress(self, tools: tuple[ToolSpec, ...]) -> RequestFormat:
        """Tools and format of the request; never both (O-21)."""
        if self.protocol == "native":
            return RequestFormat(tools, None)
        wanted = reply_format(tools) if self.protocol == "json" and tools else None
        return RequestFormat((), wanted)


def _with(messages: tuple[Message, ...], section: str) -> tuple[Message, ...]:
    """The messages with a section behind the rules, which are the first system message; the plan may be another."""
    first, *rest = messages
    if not isinstance(first, SystemMessage):
        return messages
    return (SystemMessage(text=f"{first.text}\n\n{section}"), *rest)


def _known(protocol: str) -> Protocol:
    return next((one for one in get_args(Protocol) if one == protocol), "native")
