"""The model's window: what fits into it, what is in it, and whether the server read it all (H4, H5)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from tui_agent.common.domain import Fault, Message, ProgramMessage, SystemMessage, ToolMessage, ToolSpec, Usage
from tui_agent.engine.context import compaction
from tui_agent.engine.context.compaction import Judged, Watch, reread
from tui_agent.engine.context.system_prompt import RESERVE
from tui_agent.engine.context.window_notices import FULL, NOTHING, cut_words, larger, lowered, small
from tui_agent.engine.core.history import ATTACHED, SUMMARY, is_kind, tail_size
from tui_agent.engine.core.tokens import Counts, Gauge, count, count_message, count_request, count_tools, total
from tui_agent.events import ContextCompacted, ContextMeasured, Notice, ReplyEnded

if TYPE_CHECKING:
    from tui_agent.engine.core.history import History
    from tui_agent.engine.core.model_config import ModelConfig
    from tui_agent.engine.core.stream import StatefulStream

log = logging.getLogger(__name__)

SHARE = 0.7
"""Of the window: from here on older parts are compacted (H5)."""
CROWDED = 0.85
"""Of the window: what is still above this after a summary is cut."""
AGAIN = 0.1
"""Of the window: what must have come in since the last compaction before the next one."""
FEWER_ENTRIES = 5
"""Entries of the plan's log that stay whole when room gets scarce, before anything else goes (H5, P5)."""
FEWER_USERS = 3
"""User messages kept in sight when room gets scarce, before anything is summed up (H5)."""
CUTS = (6_000, 3_000, 1_500, 700, 300)
"""Characters that long results and arguments are cut to, one after the other until it fits."""
WORK = 4_096
"""Tokens that rules and tools should leave at the least."""
RELOADED = 1_000
"""Milliseconds of loading in a reply that show that the model was loaded anew, perhaps with another window."""

_RESULT = re.compile(r'"tool_result"|<tool_result\b')
"""In a program message: the results of a reply whose calls were text (C2, C3)."""

Context = Callable[[], tuple[Message, ...]]


class Ready(msgspec.Struct, frozen=True):
    """A request that fits."""

    messages: tuple[Message, ...]
    size: int
    """Tokens, estimated."""
    max_tokens: int
    """Tokens that the reply may have: as many as are wanted, or as there is room for."""
    fresh: int
    """Of the request's tokens, what the request before did not have."""


class _Asked:
    """The request that is on its way. `extra` stands at its end and in no later one."""

    def __init__(self, messages: tuple[Message, ...], extra: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> None:
        self.messages, self.extra, self.tools = messages, extra, tools
        self.counts: Counts = count_request(messages + extra, tools)
        self.fresh = 0
        """Tokens that the request before did not have."""
        self.apart = 0
        """Requests apart from the conversation until then."""


class Window:
    """One for a session and model. Before each request `prepare`, after each reply `measure`."""

    def __init__(self, brain: ModelConfig, stream: StatefulStream) -> None:
        self.limit = brain.num_ctx
        """The window in effect, as far as is known; the value sent to the server never changes."""
        self.gauge = Gauge()
        self._brain = brain
        self._stream = stream
        self._watch = Watch()
        self._asked = _Asked((), (), ())
        self._after = 0
        """Size after the last compaction."""
        self._must = False
        self._wanted = False
        self._retried = False
        self._read = False
        self._apart = 0
        """Requests apart from the conversation since the one before."""
        self._said: set[str] = set()

    @classmethod
    def of(cls, brain: ModelConfig, stream: StatefulStream, before: Window | None) -> Window:
        """`before` where it is of the same model and window, and so knows them already; otherwise a new one."""
        old = before._brain if before is not None else None
        if before is None or old is None or (old.name, old.num_ctx) != (brain.name, brain.num_ctx):
            return cls(brain, stream)
        before._brain = brain
        return before

    def compact_soon(self) -> None:
        """Compact before the next request, however much room there is, and say what came of it (`/compact`)."""
        self._must = self._wanted = True

    # --- before a request ---

    async def prepare(
        self, context: Context, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...] = (), *, run: str
    ) -> Ready | str:
        """The messages to send: `context()` and `extra`, compacted where they have to be (the history then has it,
        too). A text says why nothing can be sent: the server is never left to cut anything."""
        if self._crowded(context, tools, extra):
            self._shorten_log(context, tools, extra, run)
            if self._crowded(context, tools, extra):
                await self._compact(context, tools, extra, run)
        self._must = self._wanted = False
        asked = self._begin(_Asked(context(), extra, tools))
        messages = asked.messages + extra
        size, limit = self.gauge.estimate(asked.counts), self.limit
        if limit is None:
            return Ready(messages, size, self._brain.max_tokens, asked.fresh)
        self._check_work(messages, tools, limit, run)
        if size + min(RESERVE, limit // 8) > limit:
            return FULL.format(size=size, limit=limit, fix=larger(self._brain.model.provider, limit))
        room = max(256, limit - size - limit // 50)
        return Ready(messages, size, min(self._brain.max_tokens, room), asked.fresh)

    def beside(
        self, context: Context, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...], most: int, *, run: str
    ) -> Ready | None:
        """A request for another purpose that begins with the conversation (E7), for a reply of `most` tokens; None
        where there is too little room. Nothing but the plan's log is shortened for it."""
        limit = self.limit
        if limit is not None and self._crowded(context, tools, extra):
            self._shorten_log(context, tools, extra, run)
        messages = context()
        size = self._size(messages + extra, tools)
        if limit is not None:
            room = limit - size - limit // 50
            if room < min(most, RESERVE, limit // 8):
                return None
            most = min(most, room)
        asked = self._begin(_Asked(messages + extra, (), tools))
        asked.apart += 1
        return Ready(messages + extra, size, most, asked.fresh)

    def _begin(self, asked: _Asked) -> _Asked:
        """What the server should still have of the request is known before it is sent."""
        before, self._asked = self._asked, asked
        self._apart = self._stream.state.side_requests - before.apart
        asked.apart = self._stream.state.side_requests
        known = self._watch.known(asked.messages) if before.tools == asked.tools else 0
        fresh = count_request(asked.messages[known:] + asked.extra, ()) if known else asked.counts
        asked.fresh = self.gauge.estimate(fresh)
        return asked

    def _crowded(self, context: Context, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...]) -> bool:
        limit = self.limit
        if limit is None or self._must:
            return self._must
        size = self._size(context() + extra, tools)
        if size + min(RESERVE, limit // 8) > limit:
            return True
        return size > SHARE * limit and size > self._after + AGAIN * limit

    def _size(self, messages: Sequence[Message], tools: tuple[ToolSpec, ...]) -> int:
        return self.gauge.estimate(count_request(messages, tools))

    def _check_work(self, messages: Sequence[Message], tools: tuple[ToolSpec, ...], limit: int, run: str) -> None:
        fixed = self._size([message for message in messages if isinstance(message, SystemMessage)], tools)
        if fixed + WORK > limit:
            self._tell("context.small", small(self._brain.name, limit, fixed, self._brain.model.provider), run)

    def _tell(self, code: str, text: str, run: str) -> None:
        """Warn, once for each code and text."""
        if text not in self._said:
            self._said.add(text)
            self._stream.emit(Notice(level="warning", text=text, code=code), run=run)

    # --- compaction ---

    def _shorten_log(self, context: Context, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...], run: str) -> None:
        """Give the model fewer entries of the plan's log, for the rest of the run, if that makes room (H5)."""
        state = self._stream.state
        if state.log_entries:
            return
        before = self._size(context() + extra, tools)
        state.log_entries = FEWER_ENTRIES
        after = self._size(context() + extra, tools)
        state.log_entries = 0
        if after < before:
            event = ContextCompacted(
                summary="", kept=0, before=before, after=after, by="program", entries=FEWER_ENTRIES
            )
            self._stream.emit(event, run=run)

    async def _compact(
        self, context: Context, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...], run: str
    ) -> None:
        """First fewer of the user's earlier messages, then a summary, then cuts (H5)."""
        history = self._stream.state.history
        around = self._size(context() + extra, tools) - self._size(history.window(), ())

        def after(event: ContextCompacted) -> int:
            return around + self._size(history.compacted(event).window(), ())

        before = self._size(context() + extra, tools)
        limit = self.limit or before + 2 * RESERVE  # unknown: as much as was taken until now
        event = ContextCompacted(summary="", kept=0, before=before, after=before, by="program")
        fewer = msgspec.structs.replace(event, users=FEWER_USERS)
        event = fewer if after(fewer) < before else event
        if self._must or after(event) > SHARE * limit:
            event = await self._summed(event, limit, run)
        for size in CUTS:
            if after(event) <= CROWDED * limit:
                break
            event = msgspec.structs.replace(event, cut=size)
        if after(event) + min(RESERVE, limit // 8) > limit:
            alone = msgspec.structs.replace(event, users=1)
            event = alone if after(alone) < after(event) else event
        self._after = after(event)
        if self._after < before:
            self._stream.emit(msgspec.structs.replace(event, after=self._after), run=run)
        elif self._wanted:
            self._stream.emit(NOTHING, run=run)

    async def _summed(self, event: ContextCompacted, limit: int, run: str) -> ContextCompacted:
        turns = self._stream.state.history.turns
        messages = turns[-1].messages if turns else []
        kept = self._kept(messages, limit)
        old = messages[: len(messages) - kept]
        if sum(not is_kind(message, SUMMARY) for message in old) < 3:
            return event
        full = f"The context is {event.before / limit:.0%} full. Its" if self.limit else "The context's"
        text = f"{full} older part is being summarized …"
        self._stream.emit(Notice(level="info", text=text, code="context.compacting"), run=run)
        summary, by, fault = await compaction.summarise(old, self._brain, limit, self._tokens)
        if fault is not None:
            log.warning("the model wrote no summary: %s", fault.message)
        writer = "model" if by == "model" else "program"
        return msgspec.structs.replace(event, summary=summary, kept=kept, by=writer)

    def _kept(self, messages: Sequence[Message], limit: int) -> int:
        """The newest six, or fewer where they are too big; never a result without its call."""
        for wanted in (6, 4, 2):
            kept = tail_size(messages, wanted)
            size = self.gauge.estimate(total(map(count_message, messages[len(messages) - kept :])))
            if size <= 0.35 * limit:
                break
        return kept

    def _tokens(self, text: str) -> int:
        return self.gauge.estimate(count(text))

    # --- after a reply ---

    async def measure(self, ended: ReplyEnded, *, run: str) -> bool:
        """Take in what the server counted, and tell what the window holds. True: the server found the prompt too
        long and said for how much it has room, so `prepare` it again and send it once more."""
        if ended.fault is not None and ended.fault.kind == "context_overflow":
            return self._overflowed(ended.fault, run)
        if ended.fault is None:
            self._retried = False
            if not self._read or (ended.usage.load_ms or 0) > RELOADED:
                await self._read_back(run)
        size = self.gauge.estimate(self._asked.counts)
        judged = self.counted(ended.usage, run=run)
        if not judged.cut_to and ended.fault is None and not ended.interrupted:
            self._look_for_rereading(ended.usage, size, run)
        self._emit_measured(judged, ended, run)
        return False

    def counted(self, usage: Usage, *, run: str) -> Judged:
        """What the server's count of the last request means; the gauge learns from it, and a cut prompt is told of."""
        windows = tuple(dict.fromkeys(size for size in (self._brain.num_ctx, self.limit) if size))
        asked, size = self._asked, self.gauge.estimate(self._asked.counts)
        judged = self._watch.judge(asked.messages, asked.counts, usage, self.gauge, windows)
        if judged.lesson is not None:
            self.gauge.learn(asked.counts, judged.lesson, sure=judged.sure)
        if judged.cut_to:
            self._found_cut(judged, size, run)
        return judged

    def _emit_measured(self, judged: Judged, ended: ReplyEnded, run: str) -> None:
        prompt = judged.full or self.gauge.estimate(self._asked.counts)
        said = ended.usage.completion_tokens
        if said is None:
            said = self._tokens(ended.text)
        parts = self._parts(prompt)
        parts["messages"] += said
        measured = ContextMeasured(
            used=prompt + said, limit=self.limit, estimated=judged.full is None, parts=parts, truncated=judged.cut_to
        )
        self._stream.emit(measured, run=run)

    def _parts(self, prompt: int) -> dict[str, int]:
        """Tokens by part; together they are `prompt`."""
        asked = self._asked
        parts = dict.fromkeys(("system", "tools", "messages", "results", "files"), 0.0)
        parts["tools"] = float(self.gauge.estimate(count_tools(asked.tools)))
        for message in (*asked.messages, *asked.extra):
            parts[_part(message)] += self.gauge.estimate(count_message(message))
        whole = sum(parts.values()) or 1.0
        shares = {name: int(prompt * size / whole) for name, size in parts.items()}
        shares["messages"] += prompt - sum(shares.values())
        return shares

    async def _read_back(self, run: str) -> None:
        """The window in effect, from the server, once the model is loaded (O-9)."""
        info = await self._brain.model.describe(self._brain.name)
        if isinstance(info, Fault):
            return
        self._read = True
        wanted, found = self._brain.num_ctx, info.loaded_window
        if not found or self._brain.model.provider == "scripted":
            return
        if wanted is None or found < wanted:
            self._adopt(found, run)
        else:
            self.limit = wanted

    def _adopt(self, found: int, run: str) -> None:
        wanted, provider = self._brain.num_ctx, self._brain.model.provider
        if self.limit is not None and found >= self.limit:
            return
        self.limit, self._after = found, 0
        if wanted is not None and found < wanted:
            self._tell("context.lowered", lowered(self._brain.name, wanted, found, provider), run)

    def _found_cut(self, judged: Judged, size: int, run: str) -> None:
        self._tell("context.truncated", cut_words(judged.cut_to, size, self._brain.model.provider), run)
        if judged.window is not None:
            self._adopt(judged.window, run)

    def _look_for_rereading(self, usage: Usage, size: int, run: str) -> None:
        reloaded, apart = (usage.load_ms or 0) > RELOADED, self._apart > 0
        provider = self._brain.model.provider
        text = reread(usage, size, self._asked.fresh, reloaded=reloaded, apart=apart, provider=provider)
        if text and (cause := f"reread {reloaded} {apart}") not in self._said:
            self._said.add(cause)
            self._stream.emit(Notice(level="info", text=text, code="prompt.reread"), run=run)

    def _overflowed(self, fault: Fault, run: str) -> bool:
        """Adopt what the server says of its window and of the prompt; True the first time."""
        size = self.gauge.estimate(self._asked.counts)
        if fault.n_ctx is not None:
            self._adopt(fault.n_ctx, run)
        real = fault.n_prompt or (fault.n_ctx or 0) + 1
        if real > size:
            self.gauge.learn(self._asked.counts, real, sure=True)
        if fault.n_ctx is None:
            self._adopt(round(0.9 * min(size, fault.n_prompt or size)), run)
        if self._retried:
            self._retried = False
            return False
        self._retried = True
        self._must = True
        return True


def settled(history: History, gauge: Gauge) -> ContextCompacted | None:
    """What `/compact` makes of a conversation in which no run goes on, at once and without the model: fewer of the
    user's earlier messages, and long replies cut. None where nothing gets shorter. Tokens are of the conversation."""

    def size(one: History) -> int:
        return gauge.estimate(count_request(one.window(), ()))

    before = size(history)
    event = ContextCompacted(
        summary="", kept=0, before=before, after=before, by="program", users=FEWER_USERS, cut=CUTS[0]
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
