"""Detecting truncated prompts and cache misses from the server's token counts; summarizing older messages (H4, H5)."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from itertools import takewhile
from typing import TYPE_CHECKING, Literal

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

REMEMBERED_REQUESTS = 4
"""Recent requests whose prompt the server may have cached."""
MIN_TRUNCATED = 1_000
"""Half of the smallest known window: truncation leaves more, so a smaller count means a cached prompt."""
COMMON_WINDOWS = (2_048, 4_096, 8_192, 16_384, 32_768, 40_960, 65_536, 131_072)
"""Default windows of servers and models, in tokens."""
EDGE = 2
"""Tokens by which a prompt truncated to a window may be shorter."""


class Assessment(msgspec.Struct, frozen=True):
    """The meaning of a token count."""

    full: int | None = None
    """The prompt's real size, if the count is of the whole prompt."""
    learnable: int | None = None
    """A count for the gauge to learn; it may be of a part unless it is `complete`."""
    complete: bool = False
    """The learnable certainly is of the whole prompt."""
    cut_to: int = 0
    """Tokens that the server read of a truncated prompt; 0 if it was not truncated."""
    window: int | None = None
    """The window to which it was truncated, if known."""


class _Case(msgspec.Struct, frozen=True):
    """A request with the server's count and our estimates."""

    messages: tuple[Message, ...]
    real: int
    size: int
    """Estimated tokens."""
    part: int
    """Estimated tokens that can't be cached."""
    part_min: int
    size_max: int
    """Upper bound of the tokens."""
    counts: Counts
    reports_cache: bool
    """The server reports cached tokens, so the count is of the whole prompt."""
    is_cut: bool = False
    """The prompt was truncated."""

    @property
    def is_uncached_part(self) -> bool:
        """True if the count is about that of the uncached part."""
        return 0.6 * self.real - 50 < self.part < 1.5 * self.real + 50


class TruncationWatch:
    """Detects truncated prompts of one model from its successive token counts.

    Low counts are normal: Ollama and llama.cpp count only uncached tokens. But only prefixes of earlier requests can be
    cached, so these counts reveal truncation:
    - half a window plus 2 or 3 tokens, which is what Ollama leaves (O-7);
    - a full window for a prompt that should be larger, or twice in a row nearly a full one, since servers also drop
      whole messages (O-6);
    - fewer tokens than the new part alone must have;
    - the same count three times for different new parts;
    - a count that does not grow with the prompt, from a server that reports cached tokens.
    """

    def __init__(self) -> None:
        self._past: deque[tuple[tuple[Message, ...], int]] = deque(maxlen=REMEMBERED_REQUESTS)
        """Requests with a lower bound of their tokens."""
        self._last: deque[_Case] = deque(maxlen=2)
        self._partial_counts = 0
        """Counts that seem to cover only the uncached part."""
        self._counts_separately = False
        """The server counts read and cached tokens separately, so the whole is unknown."""
        self._most_read = 0
        """Tokens that the server certainly has read in one request: its window is not smaller."""

    def assess(
        self, messages: tuple[Message, ...], counts: Counts, usage: Usage, gauge: Gauge, windows: Sequence[int]
    ) -> Assessment:
        """Assess the `usage` of a finished request. `windows`: the sizes requested and in effect."""
        size = gauge.estimate(counts)
        new = total(map(count_message, self._uncached(messages)))
        part, floor = gauge.estimate(new), self._floor(messages, gauge)
        real = _prompt_tokens(usage, part)
        if real is None:
            self._past.append((messages, floor))
            self._last.clear()
            return Assessment()
        self._counts_separately = self._counts_separately or (usage.prompt_tokens or 0) < (usage.cached_tokens or 0)
        reports_cache = usage.cached_tokens is not None and not self._counts_separately
        case = _Case(
            messages, real, size, part, gauge.lower_bound(new), gauge.upper_bound(counts), counts, reports_cache
        )
        assessment = self._detect_truncation(case, gauge, windows) if real >= MIN_TRUNCATED else None
        if assessment is None:
            assessment = self._assess_complete(case, floor, gauge.lower_bound(counts))
            self._partial_counts += assessment.full is None
        self._past.append((messages, max(floor, 0 if assessment.cut_to else real)))
        self._last.append(msgspec.structs.replace(case, is_cut=bool(assessment.cut_to)))
        self._most_read = max(self._most_read, real)
        return assessment

    def _assess_complete(self, case: _Case, floor: int, lower_bound: int) -> Assessment:
        real, first = case.real, not self._past
        if real < floor:
            return Assessment()
        if real >= 0.75 * case.size:
            return Assessment(real, real)
        complete = first and real >= lower_bound and case.size - case.part < 0.25 * real
        return Assessment(real if complete else None, real, complete=complete)

    def _detect_truncation(self, case: _Case, gauge: Gauge, windows: Sequence[int]) -> Assessment | None:
        real, size = case.real, case.size
        larger = size > 1.08 * real if gauge.samples > 1 else case.size_max > 1.15 * real
        for window in windows:
            if 2 <= real - window // 2 <= 3 and larger:
                return Assessment(cut_to=real, window=window)
        is_usual = self._is_usual(case, gauge)
        if not is_usual and (full := self._filled_window(case, gauge, (*windows, *COMMON_WINDOWS))) is not None:
            return Assessment(cut_to=real, window=full)
        if case.reports_cache and self._grown_without_count(case, gauge):
            return Assessment(cut_to=real)
        if real > 0.75 * size:
            return None
        possible_windows = [window for window in COMMON_WINDOWS if window >= self._most_read]
        common = next((window for window in possible_windows if 2 <= real - window // 2 <= 3), None)
        if common and not is_usual and not case.is_uncached_part and size > 1.3 * real:
            return Assessment(cut_to=real, window=common)
        if real < 0.75 * case.part_min:
            return Assessment(cut_to=real, window=common)
        if self._is_constant(case, gauge):
            return Assessment(cut_to=real, window=common or max(2 * real, self._most_read))
        return None

    def _is_usual(self, case: _Case, gauge: Gauge) -> bool:
        """Return True if the estimate is as wrong as that of the last prompt, which was neither cut nor cached."""
        last = self._last[-1] if self._last else None
        if last is None or last.is_cut or last.is_uncached_part:
            return False
        return 0.9 < (case.size / case.real) / (gauge.estimate(last.counts) / last.real) < 1.1

    def _filled_window(self, case: _Case, gauge: Gauge, windows: Sequence[int]) -> int | None:
        """Return the window that the count fills although the prompt should be larger."""
        real = case.real
        if (case.is_uncached_part and self._past) or (self._partial_counts > 1 and not case.reports_cache):
            return None
        for window in windows:
            if window - EDGE <= real <= window and case.size > 1.08 * window:
                return window
            low, last = 0.95 * window, self._last[-1] if self._last else None
            if last is None or not (low <= last.real <= window and low <= real <= window):
                continue
            grown = case.size - gauge.estimate(last.counts) > 0.1 * window and case.size > 1.2 * window
            if grown and not last.is_uncached_part:
                return window
        return None

    def _grown_without_count(self, case: _Case, gauge: Gauge) -> bool:
        """Return True if the prompt grew clearly, but its count did not."""
        if not self._last or not self._last[-1].reports_cache or case.is_uncached_part:
            return False  # the count may be of the uncached part only
        last = self._last[-1]
        grown = case.size - gauge.estimate(last.counts)
        return grown > 400 and grown > 0.08 * case.size and case.real - last.real < 0.15 * grown

    def _is_constant(self, case: _Case, gauge: Gauge) -> bool:
        """Return True for the same count three times with different new parts."""
        if len(self._last) < 2 or any(abs(case.real - past.real) > 2 for past in self._last):
            return False
        parts = [past.part for past in self._last] + [case.part]
        return max(parts) > 1.15 * min(parts) + 40 and case.size > gauge.estimate(self._last[0].counts) + 200

    def _floor(self, messages: tuple[Message, ...], gauge: Gauge) -> int:
        """Return a lower bound of the tokens: a prompt is larger than an earlier one that it extends."""
        floors = [0]
        for past, past_floor in self._past:
            if past_floor and _shared_prefix(messages, past) == len(past):
                floors.append(past_floor + gauge.lower_bound(total(map(count_message, messages[len(past) :]))))
        return max(floors)

    def _uncached(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages that can't be cached: those after the longest prefix shared with an earlier request.

        In the first request of a process, the last user message and what follows.
        """
        if not self._past:
            users = [index for index, message in enumerate(messages) if isinstance(message, UserMessage)]
            return messages[users[-1] :] if users else ()
        shared = max((_shared_prefix(messages, past) for past, _ in self._past), default=0)
        new = messages[shared:]
        # The reply to the earlier request is cached, too.
        return new[1:] if new and isinstance(new[0], AssistantMessage) else new

    def cached_messages(self, messages: tuple[Message, ...]) -> int:
        """Return how many messages the server should have cached from the previous request and its reply."""
        shared = _shared_prefix(messages, self._past[-1][0]) if self._past else 0
        has_reply = shared < len(messages) and isinstance(messages[shared], AssistantMessage)
        return shared + 1 if shared and has_reply else shared


def _shared_prefix(first: tuple[Message, ...], second: tuple[Message, ...]) -> int:
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1] or pair[0] == pair[1], pairs))


def _prompt_tokens(usage: Usage, part: int) -> int | None:
    """Return the prompt's count, including cached tokens if the server counts these separately."""
    real, cached = usage.prompt_tokens, usage.cached_tokens or 0
    if real is not None and real < cached and real < 1.5 * part + 50:
        return real + cached
    return real


MIN_REPORTED = 2_000
"""Prompt tokens above which a cache miss is reported."""
MIN_SHARED = 0.9
"""Share of a prompt that the previous request must have had."""
MIN_CACHED = 0.5
"""Cached share below which it is a cache miss."""


def cache_miss(usage: Usage, size: int, fresh: int, *, reloaded: bool, side_requests: bool, provider: str) -> str:
    """Return a notice if the server did not cache the prefix of a prompt; empty if it did, or does not report it.

    The prompt has `size` tokens, `fresh` of them not in the previous request. `reloaded`: the model was loaded for it;
    `side_requests`: there were other requests in between.
    """
    share, real = cached_share(usage), total_prompt_tokens(usage) or 0
    if share is None or real < MIN_REPORTED or fresh >= (1 - MIN_SHARED) * size or share >= MIN_CACHED:
        return ""
    read = evaluated_tokens(usage) or 0
    seconds = (usage.prompt_ms or 0) / 1_000
    delay = f", which took {seconds:.0f} s" if seconds >= 1.5 else ""
    text = (
        f"The server read {read:,} of {real:,} tokens again{delay}, although the previous request had the same prefix"
    )
    return f"{text}: {_cause(reloaded, side_requests, provider)}"


def _cause(reloaded: bool, side_requests: bool, provider: str) -> str:
    ollama = provider == "ollama"
    if reloaded:
        advice = "A larger `keep_alive` keeps it loaded, unless memory is short. " if ollama else ""
        return f"the model was reloaded. {advice}Another program that uses the server may have displaced it."
    if side_requests:
        if provider == "local":
            return (
                "other requests displaced it in the cache. With more free memory they would have a cache of their own."
            )
        fix = "`OLLAMA_NUM_PARALLEL=2`" if ollama else "`llama-server --parallel 2` with twice the context (`-c`)"
        return f"other requests displaced it in the cache. {fix} gives them their own slot."
    fix = (
        ""
        if provider in ("ollama", "local")
        else " For models with a sliding window llama-server needs `--swa-full` to keep it."
    )
    return f"it did not keep the cache; another program may have used the server in between.{fix}"


HEADINGS = ("State", "Work done", "Files", "Failed approaches", "Promises", "Remaining", "Key facts")
"""Headings of a summary."""
MIN_HEADINGS = 4
"""A reply with fewer of the headings is not a summary."""
MESSAGE_SIZES = (6_000, 2_000, 800, 300)
"""Sizes in characters to which a message is cut for the transcript, tried in turn until it fits MAX_REQUESTS."""
MAX_REQUESTS = 8
"""Maximum requests of one compaction."""
MIN_TRANSCRIPT = 400
"""Tokens for the transcript below which the model is not asked."""

TokenCounter = Callable[[str], int]
"""Returns the tokens of a text."""


async def summarize(
    messages: Sequence[Message], config: ModelConfig, limit: int, size: TokenCounter
) -> tuple[str, Literal["model", "program"], Fault | None]:
    """Return the summary, its author, and the model's fault if there was one.

    Messages that exceed one request of `limit` tokens are summarized in parts, each with the summary so far.
    """
    answer = max(200, min(1_024, limit // 6))
    fixed = size(prompt("compaction")) + 60
    fault: Fault | None = None
    room = round(0.9 * (limit - fixed - 2 * answer))
    while room >= MIN_TRANSCRIPT:
        chunks = _chunks(messages, room, size)
        if chunks is None:
            break
        text, fault = await _summarize_chunks(chunks, config, answer)
        if text:
            return text, "model", None
        if fault is None or fault.kind != "context_overflow":
            break
        room //= 2
    return plain_summary(messages, 3 * answer), "program", fault


async def _summarize_chunks(chunks: list[str], config: ModelConfig, answer: int) -> tuple[str, Fault | None]:
    summary = ""
    for number, chunk in enumerate(chunks, 1):
        parts = [f"Part {number} of {len(chunks)}."] if len(chunks) > 1 else []
        if summary:
            parts.append(f"The summary of what was before; carry all of it on:\n\n{summary}\n\nWhat came next:")
        parts += [chunk, "Now write the summary of all of it under the seven headings."]
        text, fault = await _request_summary(config, "\n\n".join(parts), answer)
        if not is_summary(text):
            return "", fault
        summary = cut_text(text, 4 * answer)
    return summary, None


async def _request_summary(config: ModelConfig, transcript: str, answer: int) -> tuple[str, Fault | None]:
    think = config.think if config.current_think is None else config.current_think()
    # OpenAI-compatible servers don't say whether a model can reason: only if the user has set an effort. The clients
    # send nothing to a model that can't.
    is_switched_off = config.model.provider != "openai" or think is not None
    request = ModelRequest(
        model=config.name,
        messages=(
            SystemMessage(text=prompt("compaction")),
            ProgramMessage(text=program_text("transcript", transcript)),
        ),
        temperature=config.temperature,
        max_tokens=answer,
        num_ctx=config.num_ctx,
        think=False if is_switched_off else None,
        keep_alive=config.keep_alive,
    )
    segmenter = Segmenter(detect_invented=False)
    segments: list[Segment] = []
    fault: Fault | None = None
    async with aclosing(config.model.stream(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, TextFragment):
                segments += segmenter.feed(piece.text)
                if sum(len(segment.raw) for segment in segments) > 40 * answer:
                    break
            elif isinstance(piece, Failed):
                fault = piece.fault
    segments += segmenter.finish()
    return clean("".join(segment.raw for segment in segments if segment.is_text)).strip(), fault


def is_summary(text: str) -> bool:
    """Return True if the reply has most of the headings."""
    patterns = (rf"^[\W\d_]*{heading}\b" for heading in HEADINGS)
    return sum(bool(re.search(pattern, text, re.I | re.M)) for pattern in patterns) >= MIN_HEADINGS


# --- the transcript for the model ----------------------------------------------------------------


def _chunks(messages: Sequence[Message], room: int, size: TokenCounter) -> list[str] | None:
    """Return the transcript in parts of at most `room` tokens; None if there would be too many."""
    for length in MESSAGE_SIZES:
        chunks = _pack([_transcribe(message, length) for message in messages], room, size)
        if len(chunks) <= MAX_REQUESTS:
            return chunks
    return None


def _pack(pieces: list[str], room: int, size: TokenCounter) -> list[str]:
    chunks: list[list[str]] = [[]]
    remaining = room
    for piece in pieces:
        text, tokens = piece, size(piece) + 2
        if tokens > room:
            text, tokens = cut_text(piece, max(100, room)), room  # a token has at least about one character
        if tokens > remaining and chunks[-1]:
            chunks.append([])
            remaining = room
        chunks[-1].append(text)
        remaining -= tokens
    return ["\n\n".join(chunk) for chunk in chunks]


def _transcribe(message: Message, length: int) -> str:
    match message:
        case UserMessage(text=text):
            return f"USER: {cut_text(text, length)}"
        case ToolMessage(name=name, text=text, success=success):
            return f"RESULT of {name}{'' if success else ', FAILED'}: {cut_text(text, length)}"
        case AssistantMessage(text=text, calls=calls):
            lines = [f"AGENT: {cut_text(text, length)}"] if text else []
            for call in calls:
                text = f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}"
                lines.append(f"CALL {cut_text(text, length)}")
            return "\n".join(lines)
        case _ if is_kind(message, SUMMARY):
            return f"EARLIER SUMMARY: {message.text}"
    return f"PROGRAM: {cut_text(message.text, length)}"


# --- without the model ----------------------------------------------------------------------


def plain_summary(messages: Sequence[Message], size: int) -> str:
    """Write the summary from recorded facts alone, in about `size` characters."""
    calls = [call for message in messages if isinstance(message, AssistantMessage) for call in message.calls]
    results = {message.call_id: message for message in messages if isinstance(message, ToolMessage)}
    texts = [message.text for message in messages if isinstance(message, AssistantMessage) and message.text]
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
        f"{len(calls)} tool calls were made; what the model said last: {one_line(texts[-1], 300)}"
        if texts
        else f"{len(calls)} tool calls were made.",
        "\n".join(_last(done, size // 2)),
        "\n".join(_last([f"- {name}" for name in files], size // 6)),
        "\n".join(_last(failed, size // 4)),
        "none recorded",
        "What the user's messages ask for and the work above does not show as done.",
        "\n".join(one_line(text, 300) for text in texts[-3:]) or "none recorded",
    )
    text = "\n".join(f"## {heading}\n{body or 'none'}" for heading, body in zip(HEADINGS, bodies, strict=True))
    if earlier:
        without_markers = "\n".join(earlier[-1].split("\n")[1:-1])
        text = f"Earlier summary:\n{cut_text(without_markers, size // 2)}\n\n{text}"
    return text


def _line(call: ToolCall) -> str:
    arguments = ", ".join(f"{key}={one_line(str(value), 60)}" for key, value in list(call.arguments.items())[:3])
    return f"{call.name}({arguments})"


def _outcome(result: ToolMessage | None) -> str:
    if result is None:
        return "no result"
    first = one_line(result.text, 80)
    return f"ok, {first}" if result.success and first else ("ok" if result.success else f"failed, {first}")


def _last(lines: list[str], size: int) -> list[str]:
    """Return the newest lines that fit into `size` characters, preceded by the number of omitted ones."""
    newest: list[str] = []
    for line in reversed(lines):
        size -= len(line) + 1
        if size < 0 and newest:
            return [f"- ({len(lines) - len(newest)} before)", *reversed(newest)]
        newest.append(line)
    return newest[::-1]
