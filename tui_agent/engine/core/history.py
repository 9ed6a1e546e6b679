"""What compaction leaves of a conversation: pure functions, so that a live session and a resumed one agree (H5)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
from tui_agent.engine.core.tokens import Gauge, of_message, total
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
"""Said in a text of which a part is missing."""
KEPT = 6
"""How many of the newest messages a compaction leaves (H5)."""


def is_kind(message: Message, kind: str) -> bool:
    """True for a program message of this kind."""
    return isinstance(message, ProgramMessage) and message.text.startswith(f"{PROGRAM_MARK}{kind}>")


def sealed(kind: str, text: str) -> ProgramMessage:
    """A program message of text that others wrote: nothing in it can end it."""
    return ProgramMessage(text=program_text(kind, text.replace(f"</agent_{kind}", f"<\\/agent_{kind}")))


def attached(items: Sequence[events.Attachment]) -> ProgramMessage:
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
    return [*own, *plan, *rules, ProgramMessage(text=program_text(SUMMARY, summary)), *new]


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
            msgspec.structs.replace(call, arguments=_cut_value(call.arguments, size)) for call in message.calls
        )
        text, thought = cut_text(message.text, size), cut_text(message.reasoning, size)
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


USER_MESSAGES = 5
"""How many of the user's own messages the model sees at the least (H2)."""
OLDER_SHARE, OLDER_MOST = 0.08, 8_000
"""Of the window, and tokens at the most: what still older ones may take with their replies (H2)."""
OLDER_LEFT = 0.75
"""Of that is left when it was used up: several messages go at once, so that requests between begin alike (H1)."""

TALK_TURNS, TALK = 3, 1_200
"""Turns, and characters of each message, that whoever sorts and plans a request is told of what was said before."""

CUT_CALL = "Interrupted: the call did not finish, its outcome is unknown. It was not run again."
NOT_RUN = "Not run: the work was cut off before this call began. Nothing was changed; call it again if it is needed."
CUT_REPLY = "The user interrupted you here; what stands above is all that was kept."
_GAUGE = Gauge()
"""Not the model's own, which learns: a resume must come to the same."""


class Turn(msgspec.Struct):
    """A user message and what followed it: whole while its run goes on, condensed when that has ended (H2)."""

    messages: list[Message]
    ended: bool = False
    step: int | None = None
    """Where in `messages` the step begins that is being carried out."""
    doing: str = ""
    """What that step is."""
    begun: list[str] = []
    """Ids of the calls that were begun and have no end."""
    logged: bool = False
    """The plan's log tells what came of it."""
    before: int = 0
    """How many of the user's messages were left out just before this turn; those that are logged don't count."""

    def attach(self, message: ProgramMessage) -> None:
        """Put what the user attached in front of their newest message."""
        own = (at for at, one in enumerate(self.messages) if isinstance(one, UserMessage))
        at = max(own, default=len(self.messages))
        self.messages.insert(at, message)
        if self.step is not None and at < self.step:
            self.step += 1

    def begin_step(self, number: int, description: str) -> None:
        """From here on everything belongs to a step of the plan."""
        self.step = len(self.messages)
        self.doing = f"Step {number}: {description}" if number else description

    def finish_step(self, outcome: str, text: str) -> None:
        """Keep of the step what the user said in it, the names of its calls and how it came out (H2)."""
        if self.step is None:
            return
        mine, self.messages = self.messages[self.step :], self.messages[: self.step]
        self.messages += [message for message in mine if isinstance(message, UserMessage)]
        called = names_with_counts([message.name for message in mine if isinstance(message, ToolMessage)])
        parts = [f"{self.doing}: {outcome}", f"Tools used: {called}" if called else "", text]
        self.messages.append(ProgramMessage(text=program_text("outcome", "\n".join(filter(None, parts)))))
        self.step = None

    def settle(self, outcome: str, closing: str = "", own: str | None = None) -> None:
        """Keep the user's words, what the model said last in its own words, and the facts as the program tells them.

        `own`: what of `closing` the model said itself, where that is known; else it is what it said last (E3, W12)."""
        said: list[Message] = [message for message in self.messages if isinstance(message, UserMessage)]
        replies = [message for message in self.messages if isinstance(message, AssistantMessage)]
        called = [call.name for reply in replies for call in reply.calls]
        last = next((reply.text for reply in reversed(replies) if reply.text), "")
        own = last if own is None else own
        rest = closing[len(own) :].strip() if own and closing.startswith(own) else closing.strip()
        if own:
            said.append(AssistantMessage(text=own))
        facts = [rest if rest != own else ""]
        facts += [f"Tools used: {names_with_counts(called)}."] if called else []
        facts += [f"The work on this message ended: {outcome}."] if outcome != "done" else []
        if any(facts):
            said.append(ProgramMessage(text=program_text("outcome", "\n".join(filter(None, facts)))))
        self.messages, self.ended, self.step = said, True, None
        self.begun = []


class History:
    """The turns of a session. `fold` takes every event in order; `window` is what the model may see."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.limit: int | None = None
        """Tokens of the model's window, as far as they are known."""

    @property
    def left_out(self) -> int:
        """How many of the user's messages the model does not see any more, and finds in no log either (H2)."""
        return sum(turn.before for turn in self.turns)

    def fold(self, event: events.Event) -> None:
        """Take in one event; those that are no part of the conversation change nothing."""
        match event:
            case events.UserMessageAdded(text=text, steering=steering):
                if steering and self.turns:
                    self.turns[-1].messages.append(UserMessage(text=text))
                else:
                    if self.turns and not self.turns[-1].ended:
                        self.turns[-1].settle("the program was stopped")
                    self.turns.append(Turn(messages=[UserMessage(text=text)]))
                    self._keep(self._with_older(self._seen(USER_MESSAGES)))
            case events.ModelChanged(context_window=limit):
                self.limit = limit
            case events.SummaryReviewed(outcome="accepted" | "edited") if self.turns and not self.turns[-1].ended:
                self.turns[-1].logged = True
            case events.RunEnded(outcome=outcome, text=text, said=own) if self.turns:
                self.turns[-1].settle(outcome, text, own)
            case events.ContextAttached(items=items) if self.turns:
                self.turns[-1].attach(attached(items))
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
                pass  # a sub-agent's own conversation
            case events.StepStarted(step=step):
                turn.begin_step(step.number, step.description)
            case events.StepFinished(outcome=outcome, text=text):
                turn.finish_step(outcome, text)
            case events.ReplyEnded(text=text, calls=calls, thought=thought, interrupted=interrupted, role=""):
                if text or calls:
                    kept = thought if calls else ""
                    turn.messages.append(AssistantMessage(text=text, calls=calls, reasoning=kept))
                if interrupted:
                    turn.messages.append(ProgramMessage(text=program_text("feedback", CUT_REPLY)))
            case events.ToolStarted(call=call):
                turn.begun.append(call.id)
            case events.ToolFinished(call_id=call_id, name=name, text=text, result=result):
                turn.begun = [one for one in turn.begun if one != call_id]
                message = ToolMessage(call_id=call_id, name=name, text=text, success=result.success)
                turn.messages.append(message)
            case events.ProgramMessageAdded(kind=kind, text=text):
                turn.messages.append(ProgramMessage(text=program_text(kind, text)))

    def _fold_compaction(self, event: events.ContextCompacted) -> None:
        if event.users:
            self._keep(self._seen(event.users))
        if event.summary and self.turns:
            turn, before = self.turns[-1], len(self.turns[-1].messages)
            turn.messages = summarised(turn.messages, event.summary, event.kept)
            if turn.step is not None:
                turn.step = len(turn.messages) - min(before - turn.step, event.kept)
        if event.cut:
            for turn in self.turns:
                turn.messages = [cut_message(message, event.cut) for message in turn.messages]

    @property
    def request(self) -> str:
        """What the user said in the turn that is worked on."""
        messages = self.turns[-1].messages if self.turns else []
        return "\n".join(message.text for message in messages if isinstance(message, UserMessage))

    @property
    def attached(self) -> str:
        """What the user attached to the message that is worked on; empty where they did not."""
        messages = self.turns[-1].messages if self.turns else ()
        return "\n".join(message.text for message in messages if is_kind(message, ATTACHED))

    def compacted(self, event: events.ContextCompacted) -> History:
        """Another history: this one as it would be after `event`."""
        other = History()
        other.limit = self.limit
        other.turns = [msgspec.structs.replace(turn, messages=list(turn.messages)) for turn in self.turns]
        other.fold(event)
        return other

    def window(self) -> tuple[Message, ...]:
        """What is kept: earlier runs as message and closing reply, the current one whole (H2)."""
        begun = [key for turn in self.turns for key in turn.begun]
        return repair((message for turn in self.turns for message in turn.messages), begun)

    def talk(self) -> str:
        """The newest turns before the one that is worked on, as text: who said what, each a little shortened."""
        rows = []
        for message in (one for turn in self.turns[:-1][-TALK_TURNS:] for one in turn.messages):
            if isinstance(message, UserMessage | AssistantMessage) and message.text.strip():
                who = "User" if isinstance(message, UserMessage) else "Agent"
                rows.append(f"{who}: {message.text.strip()[:TALK]}")
        return "\n".join(rows)

    def earlier(self) -> tuple[Message, ...]:
        """What the model may see of the turns before the one that is worked on."""
        return repair(message for turn in self.turns[:-1] for message in turn.messages)

    def _seen(self, left: int) -> list[Turn]:
        """The newest turns with `left` user messages at the most; the last one whole, however many it has."""
        kept: list[Turn] = []
        for turn in reversed(self.turns):
            users = _users(turn)
            if kept and users > left:
                break
            left -= users
            kept.append(turn)
        return kept[::-1]

    def _with_older(self, newest: list[Turn]) -> list[Turn]:
        """The newest turns, and of the older ones that are in no log as many as there is room for."""
        older = [turn for turn in self.turns[: len(self.turns) - len(newest)] if not turn.logged]
        sizes = [_GAUGE.tokens(total(map(of_message, turn.messages))) for turn in older]
        room = min(OLDER_MOST, int(OLDER_SHARE * (self.limit or 0)))
        gone, taken = 0, sum(sizes)
        if taken > room:
            while gone < len(older) and taken > OLDER_LEFT * room:
                taken -= sizes[gone]
                gone += 1
        return older[gone:] + newest

    def _keep(self, kept: list[Turn]) -> None:
        """Let go of all turns but `kept`, and count them."""
        count, ids = 0, {id(turn) for turn in kept}
        for turn in self.turns:
            if id(turn) not in ids:
                count += turn.before + (0 if turn.logged else _users(turn))
            elif count:
                turn.before, count = turn.before + count, 0
        self.turns = kept

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


def _users(turn: Turn) -> int:
    return sum(isinstance(message, UserMessage) for message in turn.messages)


def repair(messages: Iterable[Message], begun: Collection[str] = ()) -> tuple[Message, ...]:
    """Make a history that every strict server accepts (H2).

    Each call has exactly one result, directly behind its message and in call order; no result without its call; no
    assistant message without text and calls. A call without a result says that
    its outcome is unknown if its id is in `begun`, else that it was not run.
    """
    fixed: list[Message] = []
    waiting: dict[str, ToolCall] = {}
    results: dict[str, ToolMessage] = {}

    def close() -> None:
        for call in waiting.values():
            why = CUT_CALL if call.id in begun else NOT_RUN
            cut = ToolMessage(call_id=call.id, name=call.name, text=why, success=False)
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
                fixed.append(message)
                waiting.update((call.id, call) for call in calls)
            case _:
                close()
                fixed.append(message)
    close()
    return tuple(fixed)
