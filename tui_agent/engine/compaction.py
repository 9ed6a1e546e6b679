"""Summing up the older part of a run: by the model in seven parts, or by the program where the model can't (H5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from tui_agent.domain import (
    AssistantMessage,
    Fault,
    Message,
    ProgramMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    marked,
)
from tui_agent.engine.condensing import SUMMARY, cut_text, is_kind
from tui_agent.engine.prompts import prompt
from tui_agent.models.base import Failed, ModelRequest, Text
from tui_agent.protocols.thinking import ThinkSplitter
from tui_agent.text import clean, one_line

if TYPE_CHECKING:
    from tui_agent.engine.brain import Brain

PARTS = (
    "State",
    "Work done",
    "Files",
    "Failed approaches",
    "Promises",
    "Remaining",
    "Key facts",
)
"""Headings of a summary."""
FOUND_LEAST = 4
"""A reply with fewer of the headings is no summary."""
PIECE_SIZES = (6_000, 2_000, 800, 300)
"""Characters left of one message when it is summed up; smaller ones where the whole would take too many requests."""
REQUESTS_MAX = 8
"""Requests that one compaction may take."""
ROOM_LEAST = 400
"""Tokens of a request's transcript under which asking the model makes no sense."""

Size = Callable[[str], int]
"""Tokens of a text."""


async def summarise(
    messages: Sequence[Message], brain: Brain, limit: int, size: Size
) -> tuple[str, str, Fault | None]:
    """The summary, `model` or `program` for who wrote it, and what went wrong with the model if something did.

    What does not fit into one request of `limit` tokens goes in parts, each with the summary of those before it.
    """
    answer = max(200, min(1_024, limit // 6))
    fixed = size(prompt("compaction")) + 60
    fault: Fault | None = None
    room = round(0.9 * (limit - fixed - 2 * answer))
    while room >= ROOM_LEAST:
        chunks = _chunks(messages, room, size)
        if chunks is None:
            break
        text, fault = await _rolled(chunks, brain, answer)
        if text:
            return text, "model", None
        if fault is None or fault.kind != "context_overflow":
            break
        room //= 2
    return plain_summary(messages, 3 * answer), "program", fault


async def _rolled(chunks: list[str], brain: Brain, answer: int) -> tuple[str, Fault | None]:
    summary = ""
    for number, chunk in enumerate(chunks, 1):
        told = [f"Part {number} of {len(chunks)}."] if len(chunks) > 1 else []
        if summary:
            told.append(
                f"The summary of what was before; carry all of it on:\n\n{summary}\n\nWhat came next:"
            )
        told += [chunk, "Now write the summary of all of it under the seven headings."]
        text, fault = await _asked(brain, "\n\n".join(told), answer)
        if not is_summary(text):
            return "", fault
        summary = cut_text(text, 4 * answer)
    return summary, None


async def _asked(brain: Brain, told: str, answer: int) -> tuple[str, Fault | None]:
    request = ModelRequest(
        model=brain.name,
        messages=(
            SystemMessage(text=prompt("compaction")),
            ProgramMessage(text=marked("transcript", told)),
        ),
        temperature=brain.temperature,
        max_tokens=answer,
        num_ctx=brain.num_ctx,
        think=False,
        keep_alive=brain.keep_alive,
    )
    splitter = ThinkSplitter()
    said: list[tuple[str, str]] = []
    fault: Fault | None = None
    async with aclosing(brain.model.stream(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Text):
                said += splitter.feed(piece.text)
                if sum(len(text) for _, text in said) > 40 * answer:
                    break
            elif isinstance(piece, Failed):
                fault = piece.fault
    said += splitter.finish()
    return clean("".join(text for kind, text in said if kind == "text")).strip(), fault


def is_summary(text: str) -> bool:
    """True if the reply keeps to the headings, more or less."""
    found = sum(bool(re.search(rf"^[\W\d_]*{part}\b", text, re.IGNORECASE | re.MULTILINE)) for part in PARTS)
    return found >= FOUND_LEAST


# --- what the model is given ----------------------------------------------------------------


def _chunks(messages: Sequence[Message], room: int, size: Size) -> list[str] | None:
    """The transcript in parts of `room` tokens at the most; None where even the shortest form takes too many."""
    for length in PIECE_SIZES:
        chunks = _packed([_piece(message, length) for message in messages], room, size)
        if len(chunks) <= REQUESTS_MAX:
            return chunks
    return None


def _packed(pieces: list[str], room: int, size: Size) -> list[str]:
    chunks: list[list[str]] = [[]]
    left = room
    for whole in pieces:
        piece, need = whole, size(whole) + 2
        if need > room:
            piece, need = cut_text(whole, max(100, room)), room  # a token is a character at the least, nearly
        if need > left and chunks[-1]:
            chunks.append([])
            left = room
        chunks[-1].append(piece)
        left -= need
    return ["\n\n".join(chunk) for chunk in chunks]


def _piece(message: Message, length: int) -> str:
    match message:
        case UserMessage(text=text):
            return f"USER: {cut_text(text, length)}"
        case ToolMessage(name=name, text=text, success=success):
            return f"RESULT of {name}{'' if success else ', FAILED'}: {cut_text(text, length)}"
        case AssistantMessage(text=text, calls=calls):
            lines = [f"AGENT: {cut_text(text, length)}"] if text else []
            lines += [f"CALL {cut_text(_call(call), length)}" for call in calls]
            return "\n".join(lines)
        case _ if is_kind(message, SUMMARY):
            return f"EARLIER SUMMARY: {message.text}"
    return f"PROGRAM: {cut_text(message.text, length)}"


def _call(call: ToolCall) -> str:
    return f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}"


# --- without the model ----------------------------------------------------------------------


def plain_summary(messages: Sequence[Message], size: int) -> str:
    """The seven parts from what was recorded alone, in about `size` characters."""
    calls = [call for message in messages if isinstance(message, AssistantMessage) for call in message.calls]
    results = {message.call_id: message for message in messages if isinstance(message, ToolMessage)}
    said = [message.text for message in messages if isinstance(message, AssistantMessage) and message.text]
    earlier = [message.text for message in messages if is_kind(message, SUMMARY)]
    done = [f"- {_line(call)}: {_outcome(results.get(call.id))}" for call in calls]
    failed = [
        f"- {_line(call)}: {one_line(results[call.id].text, 160)}"
        for call in calls
        if call.id in results and not results[call.id].success
    ]
    files = dict.fromkeys(
        str(call.arguments[key]) for call in calls for key in ("path", "file_path") if call.arguments.get(key)
    )
    bodies = (
        f"{len(calls)} tool calls were made; what the model said last: {one_line(said[-1], 300)}"
        if said
        else f"{len(calls)} tool calls were made.",
        "\n".join(_last(done, size // 2)),
        "\n".join(_last([f"- {name}" for name in files], size // 6)),
        "\n".join(_last(failed, size // 4)),
        "none recorded",
        "What the user's messages ask for and the work above does not show as done.",
        "\n".join(one_line(text, 300) for text in said[-3:]) or "none recorded",
    )
    text = "\n".join(f"## {part}\n{body or 'none'}" for part, body in zip(PARTS, bodies, strict=True))
    before = [f"Earlier summary:\n{cut_text(_inner(earlier[-1]), size // 2)}\n"] if earlier else []
    return "\n".join([*before, text])


def _inner(text: str) -> str:
    return "\n".join(text.split("\n")[1:-1])


def _line(call: ToolCall) -> str:
    given = ", ".join(f"{key}={one_line(str(value), 60)}" for key, value in list(call.arguments.items())[:3])
    return f"{call.name}({given})"


def _outcome(result: ToolMessage | None) -> str:
    if result is None:
        return "no result"
    first = one_line(result.text, 80)
    return f"ok, {first}" if result.success and first else ("ok" if result.success else f"failed, {first}")


def _last(lines: list[str], size: int) -> list[str]:
    """The newest lines that fit into `size` characters, and how many there were before them."""
    kept: list[str] = []
    for line in reversed(lines):
        size -= len(line) + 1
        if size < 0 and kept:
            return [f"- ({len(lines) - len(kept)} before)", *reversed(kept)]
        kept.append(line)
    return kept[::-1]
