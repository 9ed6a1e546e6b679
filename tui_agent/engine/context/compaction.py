"""Noticing that a server cut the prompt without a word: by its own count of what it read."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from tui_agent.common.domain import (
    AssistantMessage,
    Fault,
    Message,
    ProgramMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    program_text,
)
from tui_agent.common.speed import cached_share, evaluated_tokens, total_prompt_tokens
from tui_agent.engine.core.history import SUMMARY, cut_text, is_kind
from tui_agent.engine.core.prompts import prompt
from tui_agent.engine.core.tokens import Counts, Gauge, count_message, total
from tui_agent.models.base import Failed, ModelRequest, TextFragment
from tui_agent.protocols.markup import Segment
from tui_agent.protocols.segments import Segmenter
from tui_agent.text import clean, one_line

if TYPE_CHECKING:
    from tui_agent.engine.core.model_config import ModelConfig

REMEMBERED = 4
"""Requests whose prompt the server may still hold."""
CUT_LEAST = 1_000
"""Half of the smallest window there is: no cut leaves less, so that a smaller count means a cached prompt."""
USUAL = (2_048, 4_096, 8_192, 16_384, 32_768, 40_960, 65_536, 131_072)
"""Windows that servers come with."""
EDGE = 2
"""Tokens that a prompt cut to a window may lack of it."""


class Judged(msgspec.Struct, frozen=True):
    """What a count means."""

    full: int | None = None
    """The prompt's real size where the count tells it, else None."""
    lesson: int | None = None
    """What the gauge may learn from: also a count of which it is not sure yet that it is of the whole."""
    sure: bool = False
    """The lesson can't be of a part."""
    cut_to: int = 0
    """Tokens that the server read of a prompt that it cut; 0 if it did not."""
    window: int | None = None
    """The window that it cut for, where that follows."""


class _Case(msgspec.Struct, frozen=True):
    """A request and its count."""

    messages: tuple[Message, ...]
    real: int
    size: int
    """The estimate."""
    part: int
    """The estimate of what no cache can hold."""
    part_least: int
    most: int
    """What it may have at the most, as far as the gauge knows."""
    counts: Counts
    told: bool
    """The server says what it had cached, so that the count is of the whole prompt."""

    @property
    def explained(self) -> bool:
        """True if the count is about that of the part that was not cached."""
        return 0.6 * self.real - 50 < self.part < 1.5 * self.real + 50


class Watch:
    """Judges the counts of one model, one after the other.

    Honest servers say less than the whole, too: Ollama and llama.cpp count only what they had not cached. What can be
    cached is known, though, since a cache holds beginnings of earlier requests. A cut is seen by what no cache does:
    - a count of half a window and 2 or 3 tokens, which is what Ollama leaves (O-7);
    - a count that just fills a window, of a prompt that should have more; also one close below it twice in a row, since
      whole messages are left out, too (O-6);
    - fewer tokens than the new part alone can have;
    - the same count three times, although different parts came in;
    - a count that does not grow with the prompt, from a server that says what it had cached.
    """

    def __init__(self) -> None:
        self._past: deque[tuple[tuple[Message, ...], int]] = deque(maxlen=REMEMBERED)
        """Requests with what they have at the least."""
        self._last: deque[_Case] = deque(maxlen=2)
        self._lowered = 0
        """Counts that seem to be of less than the whole, since the rest was cached."""
        self._apart = False
        """The server counts what it read and what it had cached each for itself, so that one can't tell the whole."""

    def judge(
        self, messages: tuple[Message, ...], counts: Counts, usage: Usage, gauge: Gauge, windows: Sequence[int]
    ) -> Judged:
        """What `usage` says of the request that just ended. `windows`: those asked for and in effect."""
        fresh, size = self._fresh(messages), gauge.estimate(counts)
        new = total(map(count_message, fresh))
        part, floor = gauge.estimate(new), self._floor(messages, gauge)
        real = _whole(usage, part)
        if real is None:
            self._past.append((messages, floor))
            self._last.clear()
            return Judged()
        self._apart = self._apart or (usage.prompt_tokens or 0) < (usage.cached_tokens or 0)
        told = usage.cached_tokens is not None and not self._apart
        case = _Case(messages, real, size, part, gauge.lower_bound(new), gauge.upper_bound(counts), counts, told)
        judged = self._cut(case, gauge, windows) if real >= CUT_LEAST else None
        if judged is None:
            judged = self._honest(case, floor, gauge.lower_bound(counts))
            self._lowered += judged.full is None
        self._past.append((messages, max(floor, 0 if judged.cut_to else real)))
        self._last.append(case)
        return judged

    def _honest(self, case: _Case, floor: int, least: int) -> Judged:
        real, first = case.real, not self._past
        if real < floor:
            return Judged()
        if real >= 0.75 * case.size:
            return Judged(real, real)
        whole = first and real >= least and case.size - case.part < 0.25 * real
        return Judged(real if whole else None, real, sure=whole)

    def _cut(self, case: _Case, gauge: Gauge, windows: Sequence[int]) -> Judged | None:
        real, size = case.real, case.size
        larger = size > 1.08 * real if gauge.samples > 1 else case.most > 1.15 * real
        for window in windows:
            if 2 <= real - window // 2 <= 3 and larger:
                return Judged(cut_to=real, window=window)
        if (full := self._filled(case, gauge, (*windows, *USUAL))) is not None:
            return Judged(cut_to=real, window=full)
        if case.told and self._grown_without_count(case, gauge):
            return Judged(cut_to=real)
        if real > 0.75 * size:
            return None
        usual = next((window for window in USUAL if 2 <= real - window // 2 <= 3), None)
        if usual and not case.explained and size > 1.3 * real:
            return Judged(cut_to=real, window=usual)
        if real < 0.75 * case.part_least:
            return Judged(cut_to=real, window=usual)
        if self._stands_still(case):
            return Judged(cut_to=real, window=usual or 2 * real)
        return None

    def _filled(self, case: _Case, gauge: Gauge, windows: Sequence[int]) -> int | None:
        """The window that the count fills, where the prompt should have more."""
        real = case.real
        if (case.explained and self._past) or (self._lowered > 1 and not case.told):
            return None
        for window in windows:
            if window - EDGE <= real <= window and case.size > 1.08 * window:
                return window
            low, last = 0.95 * window, self._last[-1] if self._last else None
            if last is None or not (low <= last.real <= window and low <= real <= window):
                continue
            grown = case.size - gauge.estimate(last.counts) > 0.1 * window and case.size > 1.2 * window
            if grown and not last.explained:
                return window
        return None

    def _grown_without_count(self, case: _Case, gauge: Gauge) -> bool:
        """The prompt has clearly more than the one before, the count has not."""
        if not self._last or not self._last[-1].told or case.explained:
            return False  # some tell of the rest and the cached part each for itself
        last = self._last[-1]
        grown = case.size - gauge.estimate(last.counts)
        return grown > 400 and grown > 0.08 * case.size and case.real - last.real < 0.15 * grown

    def _stands_still(self, case: _Case) -> bool:
        """The same count three times, although what came in was not alike."""
        if len(self._last) < 2 or any(abs(case.real - past.real) > 2 for past in self._last):
            return False
        parts = [past.part for past in self._last] + [case.part]
        return max(parts) > 1.15 * min(parts) + 40 and case.size > self._last[0].size + 200

    def _floor(self, messages: tuple[Message, ...], gauge: Gauge) -> int:
        """What begins like an earlier prompt and goes on is longer than that was."""
        floors = [0]
        for past, least in self._past:
            if least and _shared(messages, past) == len(past):
                floors.append(least + gauge.lower_bound(total(map(count_message, messages[len(past) :]))))
        return max(floors)

    def _fresh(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages that no cache can hold: behind the longest beginning that an earlier request had too, or, in
        the first request of a process, the user's last message and what follows it."""
        if not self._past:
            own = [at for at, message in enumerate(messages) if isinstance(message, UserMessage)]
            return messages[own[-1] :] if own else ()
        rest = messages[self._shared(messages) :]
        # The reply to the earlier request was written on the same cache.
        return rest[1:] if rest and isinstance(rest[0], AssistantMessage) else rest

    def _shared(self, messages: tuple[Message, ...]) -> int:
        return max((_shared(messages, past) for past, _ in self._past), default=0)

    def known(self, messages: tuple[Message, ...]) -> int:
        """How many messages the server should still have, since the request before began with them or led to them."""
        known = _shared(messages, self._past[-1][0]) if self._past else 0
        written = known < len(messages) and isinstance(messages[known], AssistantMessage)
        return known + 1 if known and written else known


def _shared(one: tuple[Message, ...], other: tuple[Message, ...]) -> int:
    at = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine is not theirs and mine != theirs:
            break
        at += 1
    return at


def _whole(usage: Usage, part: int) -> int | None:
    """The count of the prompt, with what was cached where the server gives that apart."""
    real, cached = usage.prompt_tokens, usage.cached_tokens or 0
    if real is not None and real < cached and real < 1.5 * part + 50:
        return real + cached
    return real


LONG = 2_000
"""Tokens from which on reading a prompt again is worth a word."""
EXPECTED = 0.9
"""Share of a prompt that the request before began with, too."""
FOUND = 0.5
"""Share that the server still had: below this it read the prompt again."""


def reread(usage: Usage, size: int, fresh: int, *, reloaded: bool, apart: bool, provider: str) -> str:
    """What to tell the user of a prompt of `size` tokens, all but `fresh` of which the request before had, too; empty
    where all is well, or where the server does not say. `reloaded`: the model was loaded anew for it. `apart`: other
    requests of ours came in between."""
    share, real = cached_share(usage), total_prompt_tokens(usage) or 0
    if share is None or real < LONG or fresh >= (1 - EXPECTED) * size or share >= FOUND:
        return ""
    read = evaluated_tokens(usage) or 0
    seconds = (usage.prompt_ms or 0) / 1_000
    took = f", which took {seconds:.0f} s" if seconds >= 1.5 else ""
    what = f"The server read {read:,} of {real:,} tokens again{took}, although the previous request had the same prefix"
    return f"{what}: {_cause(reloaded, apart, provider)}"


def _cause(reloaded: bool, apart: bool, provider: str) -> str:
    ollama = provider == "ollama"
    if reloaded:
        keeps = "A larger `keep_alive` keeps it loaded, unless memory is short. " if ollama else ""
        return f"the model was reloaded. {keeps}Another program that uses the server may have displaced it."
    if apart:
        fix = "`OLLAMA_NUM_PARALLEL=2`" if ollama else "`llama-server --parallel 2` with twice the context (`-c`)"
        return f"other requests displaced it in the cache. {fix} gives them their own slot."
    fix = "" if ollama else " For models with a sliding window llama-server needs `--swa-full` to keep it."
    return f"it did not keep the cache; another program may have used the server in between.{fix}"


PARTS = ("State", "Work done", "Files", "Failed approaches", "Promises", "Remaining", "Key facts")
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
    messages: Sequence[Message], brain: ModelConfig, limit: int, size: Size
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


async def _rolled(chunks: list[str], brain: ModelConfig, answer: int) -> tuple[str, Fault | None]:
    summary = ""
    for number, chunk in enumerate(chunks, 1):
        told = [f"Part {number} of {len(chunks)}."] if len(chunks) > 1 else []
        if summary:
            told.append(f"The summary of what was before; carry all of it on:\n\n{summary}\n\nWhat came next:")
        told += [chunk, "Now write the summary of all of it under the seven headings."]
        text, fault = await _asked(brain, "\n\n".join(told), answer)
        if not is_summary(text):
            return "", fault
        summary = cut_text(text, 4 * answer)
    return summary, None


async def _asked(brain: ModelConfig, told: str, answer: int) -> tuple[str, Fault | None]:
    request = ModelRequest(
        model=brain.name,
        messages=(SystemMessage(text=prompt("compaction")), ProgramMessage(text=program_text("transcript", told))),
        temperature=brain.temperature,
        max_tokens=answer,
        num_ctx=brain.num_ctx,
        think=False,
        keep_alive=brain.keep_alive,
    )
    segmenter = Segmenter(detect_invented=False)
    said: list[Segment] = []
    fault: Fault | None = None
    async with aclosing(brain.model.stream(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, TextFragment):
                said += segmenter.feed(piece.text)
                if sum(len(part.raw) for part in said) > 40 * answer:
                    break
            elif isinstance(piece, Failed):
                fault = piece.fault
    said += segmenter.finish()
    return clean("".join(part.raw for part in said if part.is_text)).strip(), fault


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
    for part in pieces:
        piece, need = part, size(part) + 2
        if need > room:
            piece, need = cut_text(part, max(100, room)), room  # a token is a character at the least, nearly
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
