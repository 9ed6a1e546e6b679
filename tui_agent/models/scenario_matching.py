"""Choose the reply of a scenario file for a conversation: a pure function of its messages (M4)."""

from __future__ import annotations

import json
import re
from collections import Counter
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
    Usage,
    UserMessage,
)
from tui_agent.models.scenarios import Scenario, Scenarios, ScenarioStep, SimulatedFault, UsagePart

# --- the conversation -----------------------------------------------------------------------


class ScriptMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message, reduced to what a choice can depend on."""

    role: Literal["system", "user", "program", "assistant", "tool"]
    text: str = ""
    results: int = 0
    """Number of tool results in it."""
    call_ids: tuple[str, ...] = ()


class ScriptConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A request, reduced to what a choice can depend on."""

    messages: tuple[ScriptMessage, ...] = ()
    model: str = ""
    tools: bool = False

    @property
    def system(self) -> str:
        """All system messages, joined."""
        return "\n".join(message.text for message in self.messages if message.role == "system")

    @property
    def task(self) -> str:
        """The task of the last `<agent_task>` together with the program's messages that follow; empty if the request is
        the conversation itself."""
        texts: list[str] = []
        for message in reversed(self.messages):
            if message.role == "user":
                break
            if message.role == "program":
                texts.append(message.text)
                if _TASK in message.text:
                    return "\n".join(reversed(texts)).partition(_TASK)[2]
        return ""


_BLOCK = re.compile(r"^<agent_(\w+)[^>\n]*>(.*?)</agent_\1>", re.DOTALL | re.MULTILINE)
_CONTROL = re.compile(r"^<agent_control\b.*", re.DOTALL | re.MULTILINE)
_OUTCOME = re.compile(r"^<agent_outcome>.*?</agent_outcome>$", re.DOTALL | re.MULTILINE)
"""The end of an earlier run; what the user writes after it is a new message."""
_STEP = f"{PROGRAM_MARK}step>"
_TASK = f"{PROGRAM_MARK}task>"
_RESULT = re.compile(r'\{\s*"tool_result"|^<tool_result>', re.MULTILINE)


def user_text(text: str) -> str:
    """Return what the user wrote in a message with the user's role; empty if the program wrote all of it.

    Clients join consecutive messages for servers that reject two in a row, so the program's blocks are removed. A
    control packet that is only JSON extends to the end of its message, since its directive follows (W15).
    """
    if PROGRAM_MARK not in text:
        return text
    remainder = _CONTROL.sub("", _BLOCK.sub(_keep_json_packet, text)).strip()
    return "" if remainder.startswith(PROGRAM_MARK) else remainder


def _keep_json_packet(block: re.Match[str]) -> str:
    if block[1] != "control":
        return ""
    try:
        json.loads(block[2])
    except (ValueError, RecursionError):
        return ""
    return block[0]


def _user_messages(text: str) -> Iterator[ScriptMessage]:
    by_user = user_text(text)
    if by_user == text:
        yield ScriptMessage(role="user", text=text)
        return
    latest = _OUTCOME.split(text)[-1]
    if len(latest) < len(text) and user_text(latest).strip():
        yield from _user_messages(text[: -len(latest)])
        yield from _user_messages(latest.strip())
        return
    if by_user:
        yield ScriptMessage(role="user", text=by_user)
    yield ScriptMessage(role="program", text=text, results=len(_RESULT.findall(text)))


def from_messages(messages: Iterable[Message], model: str = "", tools: bool = False) -> ScriptConversation:
    """Convert a history."""
    converted: list[ScriptMessage] = []
    for message in messages:
        match message:
            case SystemMessage(text=text):
                converted.append(ScriptMessage(role="system", text=text))
            case UserMessage(text=text):
                converted.extend(_user_messages(text))
            case ProgramMessage(text=text):
                converted.append(ScriptMessage(role="program", text=text, results=len(_RESULT.findall(text))))
            case AssistantMessage(text=text, calls=calls):
                converted.append(ScriptMessage(role="assistant", text=text, call_ids=tuple(call.id for call in calls)))
            case ToolMessage(text=text):
                converted.append(ScriptMessage(role="tool", text=text, results=1))
    return ScriptConversation(messages=tuple(converted), model=model, tools=tools)


def text_of(content: object) -> str:
    """Return the text of a message's `content`: a string, null, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        parts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
        return "\n".join(part for part in parts if isinstance(part, str))
    return ""


def from_wire(payload: Mapping[str, Any]) -> ScriptConversation:
    """Convert a request body in OpenAI's or Ollama's format, ignoring what can't be read."""
    converted: list[ScriptMessage] = []
    messages = payload.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, Mapping):
            continue
        role, text = message.get("role"), text_of(message.get("content"))
        if role == "user":
            converted.extend(_user_messages(text))
        elif role in ("tool", "function"):
            converted.append(ScriptMessage(role="tool", text=text, results=1))
        elif role in ("system", "developer"):
            converted.append(ScriptMessage(role="system", text=text))
        elif role == "assistant":
            calls = message.get("tool_calls") or ()
            ids = (call.get("id") for call in calls if isinstance(call, Mapping))
            converted.append(ScriptMessage(role="assistant", text=text, call_ids=tuple(str(i) for i in ids if i)))
    return ScriptConversation(
        messages=tuple(converted), model=str(payload.get("model") or ""), tools=bool(payload.get("tools"))
    )


# --- the choice -----------------------------------------------------------------------------


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call with an id that the conversation hasn't used yet."""

    id: str
    name: str
    raw: str
    """Arguments as text; may be invalid on purpose."""


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True):
    """The reply chosen for a conversation."""

    scenario: str
    """Its name; empty for the default response."""
    index: int
    step: ScenarioStep
    calls: tuple[ScriptedCall, ...] = ()

    @property
    def finish_reason(self) -> str:
        """The response's own reason, or what follows from its calls."""
        reason = self.step.response.finish_reason
        return reason if reason is not None else ("tool_calls" if self.calls else "stop")

    def usage(self, prompt: str, *, think: bool) -> Usage:
        """Return the token counts of the response, or estimates where it has none."""
        response, counts = self.step.response, self.step.response.usage or UsagePart()
        reasoning = response.thinking if think else None
        output = (reasoning or "") + (response.content or "") + "".join(call.raw for call in self.calls)
        prompt_tokens, completion_tokens = counts.prompt_tokens, counts.completion_tokens
        return Usage(
            prompt_tokens=_estimate_tokens(prompt) if prompt_tokens is None else prompt_tokens,
            completion_tokens=_estimate_tokens(output) if completion_tokens is None else completion_tokens,
            cached_tokens=counts.cached_tokens,
        )


class FaultCounter:
    """Counts how often the faults of scenario steps occurred."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, int]] = Counter()
        """Scenario and step → number of occurrences."""

    def next_fault(self, choice: ScriptedReply) -> SimulatedFault | None:
        """Return the fault of a reply, unless it occurred often enough."""
        fault = choice.step.fault
        if fault is None or fault.kind == "none":
            return None
        key = (choice.scenario, choice.index)
        self._counts[key] += 1
        return fault if fault.times is None or self._counts[key] <= fault.times else None


def choose_reply(scenarios: Scenarios, conversation: ScriptConversation) -> ScriptedReply:
    """Choose the reply to `conversation`; it depends on nothing else (M4).

    The trigger is looked for in the user's last message. The step is the number of tool results since then, at most the
    last one. A task beside the conversation (`<agent_task>`) gets the first step.
    """
    trigger_text, results, latest, results_in_step = "", 0, "", None
    for message in reversed(conversation.messages):
        if message.role == "user":
            trigger_text = message.text
            break
        if message.results and not results:
            latest = message.text
        if results_in_step is None and _STEP in message.text and message.role == "program":
            results_in_step = results + len(_RESULT.findall(message.text.rpartition(_STEP)[2]))
        results += message.results
    scenario = matching_scenario(scenarios, trigger_text, conversation)
    if scenario is None:
        return _build_reply("", 0, ScenarioStep(response=scenarios.default_response), conversation)
    if conversation.task:
        return reply_at(scenario, 0, "", conversation)
    if scenario.when.step is not None:
        return reply_at(scenario, results_in_step or 0, latest if results_in_step else "", conversation)
    return reply_at(scenario, results, latest, conversation)


def _step_of(conversation: ScriptConversation) -> str | None:
    """Return the newest step that the program set since the user's last message; None without one, and in a separate
    task."""
    if conversation.task:
        return None
    for message in reversed(conversation.messages):
        if message.role == "program" and _STEP in message.text:
            return message.text.rpartition(_STEP)[2].partition(_STEP.replace("<", "</", 1))[0]
        if message.role == "user":
            break
    return None


def matching_scenario(scenarios: Scenarios, text: str, conversation: ScriptConversation) -> Scenario | None:
    """Return the first scenario that `text`, the user's message, triggers. If its `system` matches a separate task, the
    trigger may also occur there."""
    return next((scenario for scenario in scenarios.scenarios if _matches(scenario, text, conversation)), None)


def reply_at(scenario: Scenario, index: int, latest: str, conversation: ScriptConversation) -> ScriptedReply:
    """Return the scenario's reply number `index`, or its last one; `latest` is the newest tool result."""
    index = min(index, len(scenario.steps) - 1)
    return _build_reply(scenario.name, index, _apply_variant(scenario.steps[index], latest, conversation), conversation)


def _apply_variant(step: ScenarioStep, latest: str, conversation: ScriptConversation) -> ScenarioStep:
    for variant in step.instead:
        has, lacks = variant.has, variant.lacks
        if (has is not None and has not in latest) or (lacks is not None and lacks in latest):
            continue
        seen, unseen = _as_tuple(variant.seen), _as_tuple(variant.unseen)
        text = _text_since_user(conversation) if seen or unseen else ""
        if all(part in text for part in seen) and not any(part in text for part in unseen):
            return msgspec.structs.replace(step, response=variant.response)
    return step


def _as_tuple(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _text_since_user(conversation: ScriptConversation) -> str:
    """Return the user's last message and all messages to the model since then, or only the separate task."""
    if conversation.task:
        return conversation.task
    texts: list[str] = []
    for message in reversed(conversation.messages):
        if message.role != "assistant":
            texts.append(message.text)
        if message.role == "user":
            break
    return "\n".join(reversed(texts))


def _matches(scenario: Scenario, text: str, conversation: ScriptConversation) -> bool:
    when, task = scenario.when, conversation.task
    triggers, system = _as_tuple(scenario.trigger), when.system
    if system is not None and system in task:
        text = f"{text}\n{task}"
    if scenario.ignore_case:
        text, triggers = text.casefold(), tuple(trigger.casefold() for trigger in triggers)
    if when.step is not None and when.step not in (_step_of(conversation) or ""):
        return False
    return (
        any(trigger in text for trigger in triggers)
        and (when.model is None or fnmatchcase(conversation.model, when.model))
        and (when.tools is None or when.tools == conversation.tools)
        and (system is None or system in conversation.system or system in task)
    )


def _build_reply(name: str, index: int, step: ScenarioStep, conversation: ScriptConversation) -> ScriptedReply:
    used_ids = {call_id for message in conversation.messages for call_id in message.call_ids}
    calls = []
    for part in step.response.tool_calls or ():
        prefix = part.id or "call_mock"
        call_id, count = (prefix, 1) if part.id else (f"{prefix}_1", 1)
        while call_id in used_ids:
            count += 1
            call_id = f"{prefix}_{count}"
        used_ids.add(call_id)
        calls.append(ScriptedCall(id=call_id, name=part.tool_name, raw=part.raw))
    return ScriptedReply(scenario=name, index=index, step=step, calls=tuple(calls))


_FRAGMENT = re.compile(r"\s*\S{1,7}|\s+", re.DOTALL)


def fragments(text: str) -> list[str]:
    """Split `text` into fragments of about a token each; joined they are `text` again."""
    return _FRAGMENT.findall(text)


def _estimate_tokens(text: str) -> int:
    return max(1, len(text) // 4)
