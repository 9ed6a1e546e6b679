"""What compaction leaves of a conversation: pure functions, so that a live session and a resumed one agree (H5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tui_agent.domain import (
    PROGRAM_MARK,
    AssistantMessage,
    Message,
    ProgramMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
    marked,
)
from tui_agent.events import Attachment

SUMMARY = "summary"
"""Kind of the program message that holds the summary."""
PLAN = "plan"
"""Kind of the program message that holds the plan."""
STEP = "step"
"""Kind of the program message that says which step of the plan is to be carried out."""
ATTACHED = "attached"
"""Kind of the program message that holds what the user attached to the message after it."""
RULES = "rules"
"""Kind of the program message that holds the rules of a folder below the root."""
SHORTENED = "left out to save room"
"""Said in a text of which a part is missing."""
KEPT = 6
"""How many of the newest messages a compaction leaves (H5)."""


def is_kind(message: Message, kind: str) -> bool:
    """True for a program message of this kind."""
    return isinstance(message, ProgramMessage) and message.text.startswith(f"{PROGRAM_MARK}{kind}>")


def sealed(kind: str, text: str) -> ProgramMessage:
    """A program message of text that others wrote: nothing in it can end it."""
    return ProgramMessage(text=marked(kind, text.replace(f"</agent_{kind}", f"<\\/agent_{kind}")))


def attached(items: Sequence[Attachment]) -> ProgramMessage:
    """What the user attached, with labels that tell the model not to read it again (H7)."""
    head = "The user attached this to the message below. It is already here: do not read it again."
    parts = [f"{item.label}:\n{item.text}" if item.text else f"{item.label}." for item in items]
    return sealed(ATTACHED, "\n\n".join((head, *parts)))


def tail_of(messages: Sequence[Message], kept: int = KEPT) -> int:
    """How many of the newest messages to keep: `kept`, and more where a result would lose its call."""
    at = max(0, len(messages) - kept)
    while at > 0 and isinstance(messages[at], ToolMessage):
        at -= 1
    return len(messages) - at


def summarised(messages: Sequence[Message], summary: str, kept: int) -> list[Message]:
    """The user's words, the newest plan and step, the rules of folders, and the summary in place of all but the newest
    `kept` messages."""
    at = max(0, len(messages) - kept)
    old, new = messages[:at], messages[at:]
    own = [message for message in old if isinstance(message, UserMessage)]
    plan = [*_newest(PLAN, old, new), *_newest(STEP, old, new)]
    rules = [message for message in old if is_kind(message, RULES)]
    return [*own, *plan, *rules, ProgramMessage(text=marked(SUMMARY, summary)), *new]


def _newest(kind: str, old: Sequence[Message], new: Sequence[Message]) -> list[Message]:
    """The last message of this kind where it is in `old`."""
    if any(is_kind(message, kind) for message in new):
        return []
    return [message for message in old if is_kind(message, kind)][-1:]


def cut_text(text: str, size: int) -> str:
    """Head and tail of a text that is longer than `size` characters, and how much is missing between them."""
    if len(text) <= size + 80:
        return text
    head, tail = size * 2 // 3, size // 3
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters {SHORTENED} …]\n{text[-tail:] if tail else ''}"


def cut_message(message: Message, size: int) -> Message:
    """The message with long parts cut; what user and system say, plan, step and summary stay whole."""
    if isinstance(message, ToolMessage):
        return msgspec.structs.replace(message, text=cut_text(message.text, size))
    if isinstance(message, AssistantMessage):
        calls = tuple(
            msgspec.structs.replace(call, arguments=_cut_value(call.arguments, size))
            for call in message.calls
        )
        text, thought = cut_text(message.text, size), cut_text(message.thought, size)
        return msgspec.structs.replace(message, text=text, calls=calls, thought=thought)
    if isinstance(message, (UserMessage, SystemMessage)):
        return message
    if any(is_kind(message, kind) for kind in (PLAN, STEP, SUMMARY)):
        return message
    return msgspec.structs.replace(message, text=cut_text(message.text, size))


def _cut_value(value: Any, size: int) -> Any:
    if isinstance(value, str):
        return cut_text(value, size)
    if isinstance(value, dict):
        return {key: _cut_value(item, size) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut_value(item, size) for item in value]
    return value
