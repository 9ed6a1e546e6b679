"""Which reply of a scenario file fits a conversation: a pure function of what was said (M4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from tui_agent.common.domain import (
    PROGRAM_MARK,
    AssistantMessage,
    Message,
    ProgramMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from tui_agent.models.scenarios import Scenario, Scenarios, ScenarioStep

# --- the conversation -----------------------------------------------------------------------


class ScriptMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message, reduced to what a choice can depend on."""

    role: Literal["system", "user", "program", "assistant", "tool"]
    text: str = ""
    results: int = 0
    """Tool results that it carries."""
    call_ids: tuple[str, ...] = ()


class ScriptConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A request, reduced to what a choice can depend on."""

    messages: tuple[ScriptMessage, ...] = ()
    model: str = ""
    tools: bool = False

    @property
    def system(self) -> str:
        """All system messages, one after the other."""
        return "\n".join(said.text for said in self.messages if said.role == "system")

    @property
    def task(self) -> str:
        """What the program asks for beside the conversation, in the last `<agent_task>`, with what it said of answers
        to it; empty where the request is the conversation itself."""
        told: list[str] = []
        for said in reversed(self.messages):
            if said.role == "user":
                break
            if said.role == "program":
                told.append(said.text)
                if _TASK in said.text:
                    return "\n".join(reversed(told)).partition(_TASK)[2]
        return ""


_BLOCK = re.compile(r"^<agent_(\w+)[^>\n]*>(.*?)</agent_\1>", re.DOTALL | re.MULTILINE)
_CONTROL = re.compile(r"^<agent_control\b.*", re.DOTALL | re.MULTILINE)
_OUTCOME = re.compile(r"^<agent_outcome>.*?</agent_outcome>$", re.DOTALL | re.MULTILINE)
"""Where an earlier run ended: what the user says behind it is a new message."""
_STEP = f"{PROGRAM_MARK}step>"
_TASK = f"{PROGRAM_MARK}task>"
_RESULT = re.compile(r'\{\s*"tool_result"|^<tool_result>', re.MULTILINE)


def own_words(text: str) -> str:
    """What the user wrote in a user-role message; "" when the program wrote all of it.

    Clients join neighbouring user-role messages for servers that refuse two in a row, so the program's blocks are
    taken out. A control packet that is JSON alone reaches to the end of its message: its directive follows (W15).
    """
    if PROGRAM_MARK not in text:
        return text
    rest = _CONTROL.sub("", _BLOCK.sub(_bare_packet, text)).strip()
    return "" if rest.startswith(PROGRAM_MARK) else rest


def _bare_packet(block: re.Match[str]) -> str:
    if block[1] != "control":
        return ""
    try:
        json.loads(block[2])
    except (ValueError, RecursionError):
        return ""
    return block[0]


def _user(text: str) -> Iterator[ScriptMessage]:
    words = own_words(text)
    if words == text:
        yield ScriptMessage(role="user", text=text)
        return
    newest = _OUTCOME.split(text)[-1]
    if len(newest) < len(text) and own_words(newest).strip():
        yield from _user(text[: -len(newest)])
        yield from _user(newest.strip())
        return
    if words:
        yield ScriptMessage(role="user", text=words)
    yield ScriptMessage(role="program", text=text, results=len(_RESULT.findall(text)))


def from_messages(messages: Iterable[Message], model: str = "", tools: bool = False) -> ScriptConversation:
    """The conversation of our own messages."""
    said: list[ScriptMessage] = []
    for message in messages:
        match message:
            case SystemMessage(text=text):
                said.append(ScriptMessage(role="system", text=text))
            case UserMessage(text=text):
                said.extend(_user(text))
            case ProgramMessage(text=text):
                said.append(ScriptMessage(role="program", text=text, results=len(_RESULT.findall(text))))
            case AssistantMessage(text=text, calls=calls):
                said.append(ScriptMessage(role="assistant", text=text, call_ids=tuple(call.id for call in calls)))
            case ToolMessage(text=text):
                said.append(ScriptMessage(role="tool", text=text, results=1))
    return ScriptConversation(messages=tuple(said), model=model, tools=tools)


def text_of(content: object) -> str:
    """The text of a message's `content`: a string, null, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
        return "\n".join(part for part in parts if isinstance(part, str))
    return ""


def from_wire(payload: Mapping[str, Any]) -> ScriptConversation:
    """The conversation of a request body in OpenAI's or Ollama's form; what it can't read, it leaves out."""
    said: list[ScriptMessage] = []
    messages = payload.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, Mapping):
            continue
        role, text = message.get("role"), text_of(message.get("content"))
        if role == "user":
            said.extend(_user(text))
        elif role in ("tool", "function"):
            said.append(ScriptMessage(role="tool", text=text, results=1))
        elif role in ("system", "developer"):
            said.append(ScriptMessage(role="system", text=text))
        elif role == "assistant":
            calls = message.get("tool_calls") or ()
            ids = (call.get("id") for call in calls if isinstance(call, Mapping))
            said.append(ScriptMessage(role="assistant", text=text, call_ids=tuple(str(i) for i in ids if i)))
    return ScriptConversation(
        messages=tuple(said), model=str(payload.get("model") or ""), tools=bool(payload.get("tools"))
    )


# --- the choice -----------------------------------------------------------------------------


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call with an id that the conversation has not used yet."""

    id: str
    name: str
    raw: str
    """Arguments as text; possibly unreadable on purpose."""


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply to a conversation."""

    scenario: str
    """Its name; "" for the default response."""
    index: int
    step: ScenarioStep
    calls: tuple[ScriptedCall, ...] = ()


def choose_reply(scenarios: Scenarios, conversation: ScriptConversation) -> ScriptedReply:
    """The reply to `conversation`; the same for the same conversation, whatever was asked before (M4).

    The trigger is sought in the user's own last message; the step is the number of tool results since it, or the
    last step when there are fewer. A task beside the conversation (`<agent_task>`) gets the first step.
    """
    words, results, latest, in_step = "", 0, "", None
    for said in reversed(conversation.messages):
        if said.role == "user":
            words = said.text
            break
        if said.results and not results:
            latest = said.text
        if in_step is None and _STEP in said.text and said.role == "program":
            in_step = results + len(_RESULT.findall(said.text.rpartition(_STEP)[2]))
        results += said.results
    scenario = matching_scenario(scenarios, words, conversation)
    if scenario is None:
        return _chosen("", 0, ScenarioStep(response=scenarios.default_response), conversation)
    if conversation.task:
        return reply_at(scenario, 0, "", conversation)
    if scenario.when.step is not None:
        return reply_at(scenario, in_step or 0, latest if in_step else "", conversation)
    return reply_at(scenario, results, latest, conversation)


def _step_of(conversation: ScriptConversation) -> str | None:
    """The newest step that the program set since the user spoke; None when there is none, and in a task beside the
    conversation."""
    if conversation.task:
        return None
    for said in reversed(conversation.messages):
        if said.role == "program" and _STEP in said.text:
            return said.text.rpartition(_STEP)[2].partition(_STEP.replace("<", "</", 1))[0]
        if said.role == "user":
            return None
    return None


def matching_scenario(scenarios: Scenarios, words: str, conversation: ScriptConversation) -> Scenario | None:
    """The first scenario that is triggered by the user's `words`, or that `system` finds in a task and whose trigger
    stands in one of both."""
    return next((one for one in scenarios.scenarios if _fits(one, words, conversation)), None)


def reply_at(scenario: Scenario, index: int, latest: str, conversation: ScriptConversation) -> ScriptedReply:
    """The scenario's reply number `index`, or its last one; `latest` is the newest tool result."""
    index = min(index, len(scenario.steps) - 1)
    return _chosen(scenario.name, index, _varied(scenario.steps[index], latest, conversation), conversation)


def _varied(step: ScenarioStep, latest: str, conversation: ScriptConversation) -> ScenarioStep:
    for variant in step.instead:
        has, lacks = variant.has, variant.lacks
        if (has is not None and has not in latest) or (lacks is not None and lacks in latest):
            continue
        seen, unseen = _several(variant.seen), _several(variant.unseen)
        said = _since_the_user(conversation) if seen or unseen else ""
        if all(part in said for part in seen) and not any(part in said for part in unseen):
            return msgspec.structs.replace(step, response=variant.response)
    return step


def _several(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


def _since_the_user(conversation: ScriptConversation) -> str:
    """The user's last message and all that was told to the model since, or a task beside the conversation alone."""
    if conversation.task:
        return conversation.task
    told: list[str] = []
    for said in reversed(conversation.messages):
        if said.role != "assistant":
            told.append(said.text)
        if said.role == "user":
            break
    return "\n".join(reversed(told))


def _fits(scenario: Scenario, words: str, conversation: ScriptConversation) -> bool:
    triggers, system, task = _several(scenario.trigger), scenario.when.system, conversation.task
    if system is not None and system in task:
        words = f"{words}\n{task}"
    if scenario.ignore_case:
        words, triggers = words.casefold(), tuple(t.casefold() for t in triggers)
    when = scenario.when
    if when.step is not None and when.step not in (_step_of(conversation) or ""):
        return False
    return (
        any(trigger in words for trigger in triggers)
        and (when.model is None or fnmatchcase(conversation.model, when.model))
        and (when.tools is None or when.tools == conversation.tools)
        and (system is None or system in conversation.system or system in task)
    )


def _chosen(name: str, index: int, step: ScenarioStep, conversation: ScriptConversation) -> ScriptedReply:
    taken = {call_id for said in conversation.messages for call_id in said.call_ids}
    calls = []
    for part in step.response.tool_calls or ():
        stem = part.id or "call_mock"
        call_id, count = (stem, 1) if part.id else (f"{stem}_1", 1)
        while call_id in taken:
            count += 1
            call_id = f"{stem}_{count}"
        taken.add(call_id)
        calls.append(ScriptedCall(id=call_id, name=part.called, raw=part.raw))
    return ScriptedReply(scenario=name, index=index, step=step, calls=tuple(calls))


_FRAGMENT = re.compile(r"\s*\S{1,7}|\s+", re.DOTALL)


def fragments(text: str) -> list[str]:
    """`text` cut into pieces of about a token each; joined they are `text` again."""
    return _FRAGMENT.findall(text)


def estimate_tokens(text: str) -> int:
    """A plausible number of tokens: a quarter of the characters, at least 1."""
    return max(1, len(text) // 4)


def finish_reason(choice: ScriptedReply) -> str:
    """The reason to report: the step's own, or what follows from its calls."""
    given = choice.step.response.finish_reason
    return given if given is not None else ("tool_calls" if choice.calls else "stop")
