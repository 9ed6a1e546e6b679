"""The context window: what fits, when to compact, and whether the server read all of it (H4, H5)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from tui_agent.common.domain import Fault, Message, ProgramMessage, SystemMessage, ToolMessage, ToolSpec, Usage
from tui_agent.engine.context import compaction, window_notices
from tui_agent.engine.context.compaction import Assessment, TruncationWatch, cache_miss
from tui_agent.engine.context.system_prompt import RESERVE
from tui_agent.engine.core.history import ATTACHED, SUMMARY, is_kind, tail_size
from tui_agent.engine.core.tokens import Counts, Gauge, count, count_message, count_request, count_tools, total
from tui_agent.events import ContextCompacted, ContextMeasured, Notice, ReplyEnded

if TYPE_CHECKING:
    from tui_agent.engine.core.history import History
    from tui_agent.engine.core.model_config import ModelConfig
    from tui_agent.engine.core.stream import StatefulStream

log = logging.getLogger(__name__)

COMPACT_SHARE = 0.7
"""Share of the window above which older messages are compacted (H5)."""
CUT_SHARE = 0.85
"""Share of the window above which messages are cut after a summary."""
MIN_GROWTH = 0.1
"""Growth since the last compaction, as a share of the window, before the next one."""
REDUCED_ENTRIES = 5
"""Full entries of the plan's log when space is scarce: the first thing to be reduced (H5, P5)."""
REDUCED_USER_MESSAGES = 3
"""User messages retained when space is scarce: reduced before anything is summarized (H5)."""
CUT_SIZES = (6_000, 3_000, 1_500, 700, 300)
"""Sizes in characters to which results and arguments are cut, tried in turn until the request fits."""
MIN_WORKING_SPACE = 4_096
"""Tokens that rules and tools should leave free."""
RELOAD_MS = 1_000
"""Load time of a reply above which the model was reloaded, perhaps with another window."""

_RESULT = re.compile(r'"tool_result"|<tool_result\b')
"""Matches program messages with tool results of text protocols (C2, C3)."""

Context = Callable[[], tuple[Message, ...]]


class PreparedRequest(msgspec.Struct, frozen=True):
    """A request that fits into the window."""

    messages: tuple[Message, ...]
    size: int
    """Estimated tokens."""
    max_tokens: int
    """Maximum tokens of the reply."""
    fresh: int
    """Tokens not shared with the previous request."""


class _CurrentRequest:
    """The request in progress. `extra` messages belong to this request only."""

    def __init__(self, messages: tuple[Message, ...], extra: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> None:
        self.messages, self.extra, self.tools = messages, extra, tools
        self.counts: Counts = count_request(messages + extra, tools)
        self.fresh = 0
        """Tokens not shared with the previous request."""
        self.side_requests = 0
        """Requests outside the conversation before this one."""


class Window:
    """The window of a session and model. Call `prepare` before each request and `measure` after each reply."""

    def __init__(self, config: ModelConfig, stream: StatefulStream) -> None:
        self.limit = config.num_ctx
        """The window in effect, if known; the value sent to the server never changes."""
        self.gauge = Gauge()
        self._config = config
        self._stream = stream
        self._watch = TruncationWatch()
        self._request = _CurrentRequest((), (), ())
        self._compacted_size = 0
        """Size after the last compaction, in tokens."""
        self._must_compact = False
        self._requested_by_user = False
        self._retried_overflow = False
        self._window_confirmed = False
        self._is_inferred = False
        """`limit` was inferred from token counts."""
        self._limit_before: int | None = None
        """The limit before that."""
        self._doubted: set[int] = set()
        """Inferred windows into which nothing fitted; adopted for good if they are inferred again."""
        self._side_requests = 0
        """Requests outside the conversation since the previous request."""
        self._notified: set[str] = set()

    @classmethod
    def reuse_or_create(cls, config: ModelConfig, stream: StatefulStream, before: Window | None) -> Window:
        """Return `before` if it is for the same model and window size, else a new window."""
        old = before._config if before is not None else None
        if before is None or old is None or (old.name, old.num_ctx) != (config.name, config.num_ctx):
            return cls(config, stream)
        before._config = config
        return before

    def compact_soon(self) -> None:
        """Compact before the next request in any case, and report the result (`/compact`)."""
        self._must_compact = self._requested_by_user = True

    # --- before a request ---

    async def prepare(
        self, context: Context, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...] = (), *, run: str
    ) -> PreparedRequest | str:
        """Return the request with the messages of `context()` and `extra`, after compacting the history if needed.

        Returns a text if it can't fit: nothing is sent that the server would have to truncate.
        """
        if self._needs_compaction(context, tools, extra):
            self._shorten_log(context, tools, extra, run)
            if self._needs_compaction(context, tools, extra):
                await self._compact(context, tools, extra, run)
        self._must_compact = self._requested_by_user = False
        request = self._begin(_CurrentRequest(context(), extra, tools))
        messages = request.messages + extra
        size, limit = self.gauge.estimate(request.counts), self.limit
        if limit is None:
            return PreparedRequest(messages, size, self._config.max_tokens, request.fresh)
        fixed = self._size([message for message in messages if isinstance(message, SystemMessage)], tools)
        if fixed + MIN_WORKING_SPACE > limit:
            warning = window_notices.little_room(self._config.name, limit, fixed, self._config.model.provider)
            self._warn("context.small", warning, run)
        if size + min(RESERVE, limit // 8) > limit:
            self._forget_inferred(doubt=True)
            return window_notices.context_full(size, limit, self._config.model.provider)
        room = max(256, limit - size - limit // 50)
        return PreparedRequest(messages, size, min(self._config.max_tokens, room), request.fresh)

    def prepare_side_request(
        self, context: Context, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...], max_tokens: int, *, run: str
    ) -> PreparedRequest | None:
        """Return a side request that shares the conversation's prefix (E7), for a reply of `max_tokens`.

        None if it does not fit; only the plan's log is shortened for it.
        """
        limit = self.limit
        if limit is not None and self._needs_compaction(context, tools, extra):
            self._shorten_log(context, tools, extra, run)
        messages = context()
        size = self._size(messages + extra, tools)
        if limit is not None:
            room = limit - size - limit // 50
            if room < min(max_tokens, RESERVE, limit // 8):
                return None
            max_tokens = min(max_tokens, room)
        request = self._begin(_CurrentRequest(messages + extra, (), tools))
        request.side_requests += 1
        return PreparedRequest(messages + extra, size, max_tokens, request.fresh)

    def _begin(self, request: _CurrentRequest) -> _CurrentRequest:
        """Make `request` the current one, and compute which part the server should have cached."""
        before, self._request = self._request, request
        self._side_requests = self._stream.state.side_requests - before.side_requests
        request.side_requests = self._stream.state.side_requests
        cached = self._watch.cached_messages(request.messages) if before.tools == request.tools else 0
        fresh = count_request(request.messages[cached:] + request.extra, ()) if cached else request.counts
        request.fresh = self.gauge.estimate(fresh)
        return request

    def _needs_compaction(self, context: Context, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...]) -> bool:
        limit = self.limit
        if limit is None or self._must_compact:
            return self._must_compact
        size = self._size(context() + extra, tools)
        if size + min(RESERVE, limit // 8) > limit:
            return True
        return size > COMPACT_SHARE * limit and size > self._compacted_size + MIN_GROWTH * limit

    def _size(self, messages: Sequence[Message], tools: tuple[ToolSpec, ...]) -> int:
        return self.gauge.estimate(count_request(messages, tools))

    def _warn(self, code: str, text: str, run: str) -> None:
        """Emit a warning once per text."""
        if text not in self._notified:
            self._notified.add(text)
            self._stream.emit(Notice(level="warning", text=text, code=code), run=run)

    # --- compaction ---

    def _shorten_log(self, context: Context, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...], run: str) -> None:
        """Reduce the full entries of the plan's log for the rest of the run, if that saves space (H5)."""
        state = self._stream.state
        if state.log_entries:
            return
        before = self._size(context() + extra, tools)
        state.log_entries = REDUCED_ENTRIES
        after = self._size(context() + extra, tools)
        state.log_entries = 0
        if after < before:
            event = ContextCompacted(
                summary="", kept=0, before=before, after=after, by="program", entries=REDUCED_ENTRIES
            )
            self._stream.emit(event, run=run)

    async def _compact(
        self, context: Context, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...], run: str
    ) -> None:
        """Compact: fewer user messages, then a summary, then cuts (H5)."""
        history = self._stream.state.history
        overhead = self._size(context() + extra, tools) - self._size(history.window(), ())

        def after(event: ContextCompacted) -> int:
            return overhead + self._size(history.compacted(event).window(), ())

        before = self._size(context() + extra, tools)
        limit = self.limit or before + 2 * RESERVE  # unknown: assume that the current size fits
        event = ContextCompacted(summary="", kept=0, before=before, after=before, by="program")
        fewer = msgspec.structs.replace(event, users=REDUCED_USER_MESSAGES)
        event = fewer if after(fewer) < before else event
        if self._must_compact or after(event) > COMPACT_SHARE * limit:
            event = await self._summarize(event, limit, run)
        for size in CUT_SIZES:
            if after(event) <= CUT_SHARE * limit:
                break
            event = msgspec.structs.replace(event, cut=size)
        if after(event) + min(RESERVE, limit // 8) > limit:
            newest_only = msgspec.structs.replace(event, users=1)
            event = newest_only if after(newest_only) < after(event) else event
        self._compacted_size = after(event)
        if self._compacted_size < before:
            self._stream.emit(msgspec.structs.replace(event, after=self._compacted_size), run=run)
        elif self._requested_by_user:
            self._stream.emit(window_notices.NOTHING_TO_COMPACT, run=run)

    async def _summarize(self, event: ContextCompacted, limit: int, run: str) -> ContextCompacted:
        turns = self._stream.state.history.turns
        messages = turns[-1].messages if turns else []
        count_to_keep = self._messages_to_keep(messages, limit)
        old = messages[: len(messages) - count_to_keep]
        if sum(not is_kind(message, SUMMARY) for message in old) < 3:
            return event
        full = f"The context is {event.before / limit:.0%} full. Its" if self.limit else "The context's"
        text = f"{full} older part is being summarized …"
        self._stream.emit(Notice(level="info", text=text, code="context.compacting"), run=run)
        summary, author, fault = await compaction.summarize(old, self._config, limit, self._tokens)
        if fault is not None:
            log.warning("the model wrote no summary: %s", fault.message)
        return msgspec.structs.replace(event, summary=summary, kept=count_to_keep, by=author)

    def _messages_to_keep(self, messages: Sequence[Message], limit: int) -> int:
        """Return how many of the newest messages to keep: six, or fewer if they are large."""
        for maximum in (6, 4, 2):
            count_to_keep = tail_size(messages, maximum)
            size = self.gauge.estimate(total(map(count_message, messages[len(messages) - count_to_keep :])))
            if size <= 0.35 * limit:
                break
        return count_to_keep

    def _tokens(self, text: str) -> int:
        return self.gauge.estimate(count(text))

    # --- after a reply ---

    async def measure(self, ended: ReplyEnded, *, run: str) -> bool:
        """Evaluate the server's token counts and emit the state of the window.

        True if the server rejected the prompt as too long: call `prepare` again and resend.
        """
        if ended.fault is not None and ended.fault.kind == "context_overflow":
            return self._handle_overflow(ended.fault, run)
        if ended.fault is None:
            self._retried_overflow = False
            if not self._window_confirmed or (ended.usage.load_ms or 0) > RELOAD_MS:
                await self._confirm_window(run)
        size = self.gauge.estimate(self._request.counts)
        assessment = self.assess(ended.usage, run=run)
        if not assessment.cut_to and ended.fault is None and not ended.interrupted:
            self._check_cache(ended.usage, size, run)
        self._emit_measured(assessment, ended, run)
        return False

    def assess(self, usage: Usage, *, run: str) -> Assessment:
        """Assess the server's token count of the last request: teach the gauge, report truncation."""
        windows = tuple(dict.fromkeys(size for size in (self._config.num_ctx, self.limit) if size))
        request, size = self._request, self.gauge.estimate(self._request.counts)
        assessment = self._watch.assess(request.messages, request.counts, usage, self.gauge, windows)
        if assessment.learnable is not None:
            self.gauge.learn(request.counts, assessment.learnable, complete=assessment.complete)
        if assessment.cut_to:
            warning = window_notices.truncation_warning(assessment.cut_to, size, self._config.model.provider)
            self._warn("context.truncated", warning, run)
            if assessment.window is not None:
                self._infer(assessment.window, run)
        elif self.limit is not None and (assessment.learnable or 0) > self.limit:
            self._forget_inferred()
        return assessment

    def _infer(self, window: int, run: str) -> None:
        """Adopt a window that the server's token counts suggest."""
        before = self.limit
        self._adopt(window, run)
        if self.limit != before:
            self._limit_before = self._limit_before if self._is_inferred else before
            self._is_inferred = window not in self._doubted

    def _forget_inferred(self, *, doubt: bool = False) -> None:
        """Return to the window before the inferred one; `doubt`: since nothing fits, which would block the session."""
        if self._is_inferred and self.limit is not None:
            if doubt:
                self._doubted.add(self.limit)
            self.limit, self._is_inferred, self._compacted_size = self._limit_before, False, 0

    def _emit_measured(self, assessment: Assessment, ended: ReplyEnded, run: str) -> None:
        prompt = assessment.full or self.gauge.estimate(self._request.counts)
        reply = ended.usage.completion_tokens
        if reply is None:
            reply = self._tokens(ended.text)
        parts = self._parts(prompt)
        parts["messages"] += reply
        measured = ContextMeasured(
            used=prompt + reply,
            limit=self.limit,
            estimated=assessment.full is None,
            parts=parts,
            truncated=assessment.cut_to,
        )
        self._stream.emit(measured, run=run)

    def _parts(self, prompt: int) -> dict[str, int]:
        """Distribute the tokens of the prompt over its parts."""
        request = self._request
        parts = dict.fromkeys(("system", "tools", "messages", "results", "files"), 0.0)
        parts["tools"] = float(self.gauge.estimate(count_tools(request.tools)))
        for message in (*request.messages, *request.extra):
            parts[_part(message)] += self.gauge.estimate(count_message(message))
        total_size = sum(parts.values()) or 1.0
        shares = {name: int(prompt * size / total_size) for name, size in parts.items()}
        shares["messages"] += prompt - sum(shares.values())
        return shares

    async def _confirm_window(self, run: str) -> None:
        """Ask the server for the window in effect, once the model is loaded (O-9)."""
        info = await self._config.model.describe(self._config.name)
        if isinstance(info, Fault):
            return
        self._window_confirmed = True
        requested, actual = self._config.num_ctx, info.loaded_window
        if not actual or self._config.model.provider == "scripted":
            return
        if requested is None or actual < requested:
            self._adopt(actual, run)
        else:
            self.limit = requested

    def _adopt(self, actual: int, run: str) -> None:
        requested, provider = self._config.num_ctx, self._config.model.provider
        if self.limit is not None and actual >= self.limit:
            return
        self.limit, self._compacted_size = actual, 0
        if requested is not None and actual < requested:
            warning = window_notices.lowered_window(self._config.name, requested, actual, provider)
            self._warn("context.lowered", warning, run)

    def _check_cache(self, usage: Usage, size: int, run: str) -> None:
        reloaded, side_requests = (usage.load_ms or 0) > RELOAD_MS, self._side_requests > 0
        provider = self._config.model.provider
        text = cache_miss(
            usage, size, self._request.fresh, reloaded=reloaded, side_requests=side_requests, provider=provider
        )
        if text and (cause := f"reread {reloaded} {side_requests}") not in self._notified:
            self._notified.add(cause)
            self._stream.emit(Notice(level="info", text=text, code="prompt.reread"), run=run)

    def _handle_overflow(self, fault: Fault, run: str) -> bool:
        """Adopt the window and prompt size that the server reports. True if the request should be sent again."""
        size = self.gauge.estimate(self._request.counts)
        if fault.n_ctx is not None:
            self._adopt(fault.n_ctx, run)
        real = fault.n_prompt or (fault.n_ctx or 0) + 1
        if real > size:
            self.gauge.learn(self._request.counts, real, complete=True)
        if fault.n_ctx is None:
            self._adopt(round(0.9 * min(size, fault.n_prompt or size)), run)
        if self._retried_overflow:
            self._retried_overflow = False
            return False
        self._retried_overflow = True
        self._must_compact = True
        return True


def compact_idle(history: History, gauge: Gauge) -> ContextCompacted | None:
    """Compact a conversation without an active run (`/compact`), without the model.

    Drops earlier user messages and cuts long replies. None if that saves nothing.
    """

    def size(candidate: History) -> int:
        return gauge.estimate(count_request(candidate.window(), ()))

    before = size(history)
    event = ContextCompacted(
        summary="", kept=0, before=before, after=before, by="program", users=REDUCED_USER_MESSAGES, cut=CUT_SIZES[0]
    )
    after = size(history.compacted(event))
    return msgspec.structs.replace(event, after=after) if after < before else None


def _part(message: Message) -> str:
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, ToolMessage):
        return "files" if message.name == "read_file" else "results"
    if is_kind(message, ATTACHED):
        return "files"
    if isinstance(message, ProgramMessage) and _RESULT.search(message.text):
        return "results"
    return "messages"
