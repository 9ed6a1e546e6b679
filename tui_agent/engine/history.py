"""What was said, neutral of protocol and provider; folded from the event stream, so a resume rebuilds it exactly."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tui_agent.domain import (
    AssistantMessage,
    Message,
    ProgramMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    marked,
)
from tui_agent.events import (
    Event,
    ProgramSaid,
    ReplyEnded,
    RunEnded,
    ToolFinished,
    UserSaid,
)

USER_MESSAGES = 5
"""How many of the user's own messages the model sees (H2)."""

CUT_CALL = "Interrupted: the call did not finish, its outcome is unknown. It was not run again."
CUT_REPLY = "The user interrupted you here; what stands above is all that was kept."


class Turn(msgspec.Struct):
    """A user message and what followed it: whole while its run goes on, condensed when that has ended (H2)."""

    messages: list[Message]
    ended: bool = False

    def settle(self, outcome: str, closing: str = "") -> None:
        """Keep the user's words, the names of the calls and the closing reply; of a run that was cut also what it
        had said last (W12)."""
        said: list[Message] = [message for message in self.messages if isinstance(message, UserMessage)]
        replies = [message for message in self.messages if isinstance(message, AssistantMessage)]
        called = [call.name for reply in replies for call in reply.calls]
        last = next((reply.text for reply in reversed(replies) if reply.text), "")
        parts = [closing or last] if outcome == "done" else [last, closing]
        if called:
            parts.append(f"(Tools used: {_counted(called)}.)")
        if outcome != "done":
            parts.append(f"(The work on this message ended early: {outcome}.)")
        if any(parts):
            said.append(AssistantMessage(text="\n".join(filter(None, parts))))
        self.messages, self.ended = said, True


class History:
    """The turns of a session. `fold` takes every event in order; `window` is what the model may see."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    def fold(self, event: Event) -> None:
        """Take in one event; those that are no part of the conversation change nothing."""
        match event:
            case UserSaid(text=text, steering=steering):
                if steering and self.turns:
                    self.turns[-1].messages.append(UserMessage(text=text))
                else:
                    if self.turns and not self.turns[-1].ended:
                        self.turns[-1].settle("the program was stopped")
                    self.turns.append(Turn(messages=[UserMessage(text=text)]))
                    del self.turns[:-USER_MESSAGES]
            case RunEnded(outcome=outcome, text=text) if self.turns:
                self.turns[-1].settle(outcome, text)
            case _ if self.turns:
                self._fold_reply(self.turns[-1], event)

    def _fold_reply(self, turn: Turn, event: Event) -> None:
        match event:
            case ReplyEnded(text=text, calls=calls, thought=thought, interrupted=interrupted):
                if text or calls:
                    kept = thought if calls else ""
                    turn.messages.append(AssistantMessage(text=text, calls=calls, thought=kept))
                if interrupted:
                    turn.messages.append(ProgramMessage(text=marked("feedback", CUT_REPLY)))
            case ToolFinished(call_id=call_id, name=name, text=text, result=result):
                message = ToolMessage(call_id=call_id, name=name, text=text, success=result.success)
                turn.messages.append(message)
            case ProgramSaid(kind=kind, text=text):
                turn.messages.append(ProgramMessage(text=marked(kind, text)))

    def window(self) -> tuple[Message, ...]:
        """The last five user messages: earlier runs as message and closing reply, the current one whole (H2)."""
        kept: list[list[Message]] = []
        left = USER_MESSAGES
        for turn in reversed(self.turns):
            users = sum(isinstance(message, UserMessage) for message in turn.messages)
            if kept and users > left:
                break
            left -= users
            kept.append(turn.messages)
        return repair(message for turn in reversed(kept) for message in turn)

    def export(self) -> list[dict[str, object]]:
        """Plain data for `state.saved`."""
        data: list[dict[str, object]] = msgspec.to_builtins(self.turns)
        return data

    @classmethod
    def restore(cls, data: object) -> History:
        """The history that `export` wrote. Raises msgspec.ValidationError on another shape."""
        history = cls()
        history.turns = msgspec.convert(data, list[Turn])
        return history


def _counted(names: list[str]) -> str:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())


def repair(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Make a history that every strict server accepts (R2.2, H2).

    Each call has exactly one result, directly behind its message and in call order (an interrupted one says so); no
    result without its call; no assistant message without text and calls; calls without text get one sentence.
    """
    fixed: list[Message] = []
    waiting: dict[str, ToolCall] = {}
    results: dict[str, ToolMessage] = {}

    def close() -> None:
        for call in waiting.values():
            cut = ToolMessage(call_id=call.id, name=call.name, text=CUT_CALL, success=False)
            fixed.append(results.get(call.id, cut))
        waiting.clear()
        results.clear()

    for message in messages:
        match message:
            case ToolMessage():
                if message.call_id in waiting and message.call_id not in results:
                    results[message.call_id] = message
                    if len(results) == len(waiting):
                        close()
                continue
            case AssistantMessage(text=text, calls=calls):
                close()
                if not text and not calls:
                    continue
                fixed.append(message if text else msgspec.structs.replace(message, text=_sentence(calls)))
                waiting.update((call.id, call) for call in calls)
            case _:
                close()
                fixed.append(message)
    close()
    return tuple(fixed)


def _sentence(calls: tuple[ToolCall, ...]) -> str:
    return f"I call {_counted([call.name for call in calls])}."
