"""The conversation as the model sees it, folded from events alone, so a resumed session has the same one (H2, H5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec

from tui_agent import events
from tui_agent.common.domain import (
    PROGRAM_MARK,
    AssistantMessage,
    Message,
    ProgramMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    program_text,
)
from tui_agent.engine.core.tokens import Gauge, count_message, total
from tui_agent.protocols.rendering import names_with_counts

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
"""Marks a cut in a text."""


def is_kind(message: Message, kind: str) -> bool:
    """Return True for a program message of this kind."""
    return isinstance(message, ProgramMessage) and message.text.startswith(f"{PROGRAM_MARK}{kind}>")


def wrap_untrusted(kind: str, text: str) -> ProgramMessage:
    """Wrap foreign text in a program message; the text can't close the message's tag."""
    return ProgramMessage(text=program_text(kind, text.replace(f"</agent_{kind}", f"<\\/agent_{kind}")))


STANDARD_INPUT = "standard input"
"""Name of what was piped into the program, in an attachment."""


def format_attachments(items: Sequence[events.Attachment]) -> ProgramMessage:
    """Return the message with the user's attachments, labeled so that the model does not read them again (H7)."""
    head = "The user attached this to the message below. It is already here: do not read it again."
    parts = [f"{item.label}:\n{item.text}" if item.text else f"{item.label}." for item in items]
    return wrap_untrusted(ATTACHED, "\n\n".join((head, *parts)))


def tail_size(messages: Sequence[Message], count: int) -> int:
    """Return how many of the newest messages to keep: `count`, or more to keep a result with its call."""
    start = max(0, len(messages) - count)
    while start > 0 and isinstance(messages[start], ToolMessage):
        start -= 1
    return len(messages) - start


def apply_summary(messages: Sequence[Message], summary: str, count: int) -> list[Message]:
    """Replace all but the newest `count` messages by a summary.

    User messages, the newest plan and step, and folder rules are retained.
    """
    start = max(0, len(messages) - count)
    old, new = messages[:start], messages[start:]
    users = [message for message in old if isinstance(message, UserMessage)]
    plan = [*_newest(PLAN, old, new), *_newest(STEP, old, new)]
    rules = [message for message in old if is_kind(message, RULES)]
    return [*users, *plan, *rules, ProgramMessage(text=program_text(SUMMARY, summary)), *new]


def _newest(kind: str, old: Sequence[Message], new: Sequence[Message]) -> list[Message]:
    """Return the newest message of this kind if it is in `old`."""
    if any(is_kind(message, kind) for message in new):
        return []
    return [message for message in old if is_kind(message, kind)][-1:]


def cut_text(text: str, size: int) -> str:
    """Shorten a text of more than `size` characters to its head and tail, noting how much is left out."""
    if len(text) <= size + 80:
        return text
    head, tail = size * 2 // 3, size // 3
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters {SHORTENED} …]\n{text[-tail:] if tail else ''}"


def cut_message(message: Message, size: int) -> Message:
    """Cut long parts of a message; user and system messages, plan, step and summary stay complete."""
    if isinstance(message, ToolMessage):
        return msgspec.structs.replace(message, text=cut_text(message.text, size))
    if isinstance(message, AssistantMessage):
        calls = tuple(
            msgspec.structs.replace(call, arguments=_cut_value(call.arguments, size)) for call in message.calls
        )
        text, reasoning = cut_text(message.text, size), cut_text(message.reasoning, size)
        return msgspec.structs.replace(message, text=text, calls=calls, reasoning=reasoning)
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


USER_MESSAGES = 5
"""Minimum number of user messages the model sees (H2)."""
OLDER_SHARE, OLDER_MAX = 0.08, 8_000
"""Budget of older messages with their replies: share of the window, and maximum in tokens (H2)."""
OLDER_REFILL = 0.75
"""Share of the budget filled after it was exceeded: dropping several messages at once keeps the prefix stable (H1)."""

DIALOGUE_TURNS, DIALOGUE_MESSAGE_MAX = 3, 1_200
"""Earlier turns, and characters per message, shown to the dispatcher and the planner."""

CUT_CALL = "Interrupted: the call did not finish, its outcome is unknown. It was not run again."
NOT_RUN = "Not run: the work was cut off before this call began. Nothing was changed; call it again if it is needed."
CUT_REPLY = "The user interrupted you here; what stands above is all that was kept."
_GAUGE = Gauge()
"""Not the model's own gauge, which learns: a resumed session must drop the same messages."""


class Turn(msgspec.Struct, rename={"step_label": "doing", "open_calls": "begun"}):
    """A user message and what followed: complete during its run, condensed afterwards (H2)."""

    messages: list[Message]
    ended: bool = False
    step: int | None = None
    """Index in `messages` at which the active step begins."""
    step_label: str = ""
    """Label of the active step."""
    open_calls: list[str] = []
    """Ids of calls that were started and not finished."""
    logged: bool = False
    """True if the log of the plan document has an entry about it."""
    before: int = 0
    """Number of unlogged user messages dropped just before this turn."""

    def attach(self, message: ProgramMessage) -> None:
        """Insert attachments before the newest user message."""
        indices = (index for index, other in enumerate(self.messages) if isinstance(other, UserMessage))
        index = max(indices, default=len(self.messages))
        self.messages.insert(index, message)
        if self.step is not None and index < self.step:
            self.step += 1

    def begin_step(self, number: int, description: str) -> None:
        """Start a step of the plan; the messages that follow belong to it."""
        self.step = len(self.messages)
        self.step_label = f"Step {number}: {description}" if number else description

    def finish_step(self, outcome: str, text: str) -> None:
        """Condense the step to its user messages, the names of its calls, and its outcome (H2)."""
        if self.step is None:
            return
        messages, self.messages = self.messages[self.step :], self.messages[: self.step]
        self.messages += [message for message in messages if isinstance(message, UserMessage)]
        called = names_with_counts([message.name for message in messages if isinstance(message, ToolMessage)])
        parts = [f"{self.step_label}: {outcome}", f"Tools used: {called}" if called else "", text]
        self.messages.append(ProgramMessage(text=program_text("outcome", "\n".join(filter(None, parts)))))
        self.step = None

    def condense(self, outcome: str, closing: str = "", said: str | None = None) -> None:
        """Condense the ended turn to user messages, the model's last text, and facts stated by the program.

        `said` is the part of `closing` written by the model; by default its last text (E3, W12).
        """
        condensed: list[Message] = [message for message in self.messages if isinstance(message, UserMessage)]
        replies = [message for message in self.messages if isinstance(message, AssistantMessage)]
        called = [call.name for reply in replies for call in reply.calls]
        last = next((reply.text for reply in reversed(replies) if reply.text), "")
        said = last if said is None else said
        added = closing.removeprefix(said).strip()
        if said:
            condensed.append(AssistantMessage(text=said))
        facts = [added if added != said else ""]
        facts += [f"Tools used: {names_with_counts(called)}."] if called else []
        facts += [f"The work on this message ended: {outcome}."] if outcome != "done" else []
        if any(facts):
            condensed.append(ProgramMessage(text=program_text("outcome", "\n".join(filter(None, facts)))))
        self.messages, self.ended, self.step = condensed, True, None
        self.open_calls = []


class History:
    """The turns of a session. `fold` applies every event in order; `window` returns the messages for the model."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.limit: int | None = None
        """Size of the context window in tokens, if known."""

    @property
    def left_out(self) -> int:
        """Number of user messages that the model no longer sees, neither here nor in the plan's log (H2)."""
        return sum(turn.before for turn in self.turns)

    def fold(self, event: events.Event) -> None:
        """Apply an event; events outside the conversation change nothing."""
        match event:
            case events.UserMessageAdded(text=text, steering=steering):
                if steering and self.turns:
                    self.turns[-1].messages.append(UserMessage(text=text))
                else:
                    if self.turns and not self.turns[-1].ended:
                        self.turns[-1].condense("the program was stopped")
                    self.turns.append(Turn(messages=[UserMessage(text=text)]))
                    self._retain(self._with_older(self._newest_turns(USER_MESSAGES)))
            case events.ModelChanged(context_window=limit):
                self.limit = limit
            case events.SummaryReviewed(outcome="accepted" | "edited") if self.turns and not self.turns[-1].ended:
                self.turns[-1].logged = True
            case events.RunEnded(outcome=outcome, text=text, said=said) if self.turns:
                self.turns[-1].condense(outcome, text, said)
            case events.ContextAttached(items=items) if self.turns:
                self.turns[-1].attach(format_attachments(items))
            case events.ContextCompacted():
                self._fold_compaction(event)
            case events.ConversationRewound(history=turns):
                self.turns = msgspec.convert(list(turns), list[Turn])
            case _ if self.turns:
                self._fold_reply(self.turns[-1], event)

    def _fold_reply(self, turn: Turn, event: events.Event) -> None:
        match event:
            case (
                events.ToolStarted(agent=agent)
                | events.ToolFinished(agent=agent)
                | events.ProgramMessageAdded(agent=agent)
            ) if agent:
                pass  # part of a sub-agent's conversation
            case events.StepStarted(step=step):
                turn.begin_step(step.number, step.description)
            case events.StepFinished(outcome=outcome, text=text):
                turn.finish_step(outcome, text)
            case events.ReplyEnded(text=text, calls=calls, thought=thought, interrupted=interrupted, role=""):
                if text or calls:
                    reasoning = thought if calls else ""
                    turn.messages.append(AssistantMessage(text=text, calls=calls, reasoning=reasoning))
                if interrupted:
                    turn.messages.append(ProgramMessage(text=program_text("feedback", CUT_REPLY)))
            case events.ToolStarted(call=call):
                turn.open_calls.append(call.id)
            case events.ToolFinished(call_id=call_id, name=name, text=text, result=result):
                turn.open_calls = [other for other in turn.open_calls if other != call_id]
                message = ToolMessage(call_id=call_id, name=name, text=text, success=result.success)
                turn.messages.append(message)
            case events.ProgramMessageAdded(kind=kind, text=text):
                turn.messages.append(ProgramMessage(text=program_text(kind, text)))

    def _fold_compaction(self, event: events.ContextCompacted) -> None:
        if event.users:
            self._retain(self._newest_turns(event.users))
        if event.summary and self.turns:
            turn, before = self.turns[-1], len(self.turns[-1].messages)
            turn.messages = apply_summary(turn.messages, event.summary, event.kept)
            if turn.step is not None:
                turn.step = len(turn.messages) - min(before - turn.step, event.kept)
        if event.cut:
            for turn in self.turns:
                turn.messages = [cut_message(message, event.cut) for message in turn.messages]

    @property
    def request(self) -> str:
        """The user's messages in the current turn."""
        messages = self.turns[-1].messages if self.turns else []
        return "\n".join(message.text for message in messages if isinstance(message, UserMessage))

    @property
    def attached(self) -> str:
        """The user's attachments in the current turn."""
        messages = self.turns[-1].messages if self.turns else ()
        return "\n".join(message.text for message in messages if is_kind(message, ATTACHED))

    def compacted(self, event: events.ContextCompacted) -> History:
        """Return a copy of this history with `event` applied."""
        other = History()
        other.limit = self.limit
        other.turns = [msgspec.structs.replace(turn, messages=list(turn.messages)) for turn in self.turns]
        other.fold(event)
        return other

    def window(self) -> tuple[Message, ...]:
        """Return the messages for the model: earlier runs condensed, the current one complete (H2)."""
        open_calls = [call_id for turn in self.turns for call_id in turn.open_calls]
        return repair((message for turn in self.turns for message in turn.messages), open_calls)

    def recent_dialogue(self) -> str:
        """Return the newest earlier turns as text, one shortened line per message."""
        rows = []
        for message in chain.from_iterable(turn.messages for turn in self.turns[:-1][-DIALOGUE_TURNS:]):
            if isinstance(message, UserMessage | AssistantMessage) and message.text.strip():
                author = "User" if isinstance(message, UserMessage) else "Agent"
                rows.append(f"{author}: {message.text.strip()[:DIALOGUE_MESSAGE_MAX]}")
        return "\n".join(rows)

    def earlier(self) -> tuple[Message, ...]:
        """Return the messages of the turns before the current one."""
        return repair(message for turn in self.turns[:-1] for message in turn.messages)

    def _newest_turns(self, user_messages: int) -> list[Turn]:
        """Return the newest turns with at most this many user messages; always the last turn."""
        newest: list[Turn] = []
        for turn in reversed(self.turns):
            users = _users(turn)
            if newest and users > user_messages:
                break
            user_messages -= users
            newest.append(turn)
        return newest[::-1]

    def _with_older(self, newest: list[Turn]) -> list[Turn]:
        """Return the newest turns and as many of the unlogged older ones as the budget allows."""
        older = [turn for turn in self.turns[: len(self.turns) - len(newest)] if not turn.logged]
        sizes = [_GAUGE.estimate(total(map(count_message, turn.messages))) for turn in older]
        budget = min(OLDER_MAX, int(OLDER_SHARE * (self.limit or 0)))
        dropped, used = 0, sum(sizes)
        if used > budget:
            while dropped < len(older) and used > OLDER_REFILL * budget:
                used -= sizes[dropped]
                dropped += 1
        return older[dropped:] + newest

    def _retain(self, turns: list[Turn]) -> None:
        """Drop all turns but these, and count the dropped user messages."""
        count, ids = 0, {id(turn) for turn in turns}
        for turn in self.turns:
            if id(turn) not in ids:
                count += turn.before + (0 if turn.logged else _users(turn))
            elif count:
                turn.before, count = turn.before + count, 0
        self.turns = turns

    def export(self) -> list[dict[str, object]]:
        """Return plain data for `state.saved`."""
        data: list[dict[str, object]] = msgspec.to_builtins(self.turns)
        return data

    @classmethod
    def restore(cls, data: object) -> History:
        """Restore what `export` returned. Raises msgspec.ValidationError."""
        history = cls()
        history.turns = msgspec.convert(data, list[Turn])
        return history


def _users(turn: Turn) -> int:
    return sum(isinstance(message, UserMessage) for message in turn.messages)


def repair(messages: Iterable[Message], open_calls: Collection[str] = ()) -> tuple[Message, ...]:
    """Make messages acceptable for strict servers (H2).

    Each call gets exactly one result, right after its message and in call order; results without a call and empty
    assistant messages are dropped. A missing result is replaced: outcome unknown if the call's id is in
    `open_calls`, else not run.
    """
    repaired: list[Message] = []
    unanswered: dict[str, ToolCall] = {}
    results: dict[str, ToolMessage] = {}

    def close() -> None:
        for call in unanswered.values():
            why = CUT_CALL if call.id in open_calls else NOT_RUN
            cut = ToolMessage(call_id=call.id, name=call.name, text=why, success=False)
            repaired.append(results.get(call.id, cut))
        unanswered.clear()
        results.clear()

    for message in messages:
        match message:
            case ToolMessage():
                if message.call_id in unanswered and message.call_id not in results:
                    results[message.call_id] = message
                    if len(results) == len(unanswered):
                        close()
            case AssistantMessage(text=text, calls=calls):
                close()
                if text or calls:
                    repaired.append(message)
                unanswered.update((call.id, call) for call in calls)
            case _:
                close()
                repaired.append(message)
    close()
    return tuple(repaired)
