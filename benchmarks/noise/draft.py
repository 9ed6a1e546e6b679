"""A draft of the noisy model's reply: the correct content, in the form that the request requires for calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tui_agent.models.scenario_matching import ScriptedCall, ScriptedReply, from_wire, text_of
from tui_agent.models.scenarios import SimulatedFault

Form = Literal["native", "json", "xml", "none"]
"""How a request expects tool calls: in the API's field, as a JSON object, in `<tool_call>`, or not at all."""

NO_TOOLS = "There are no tools here, so I can't go on with the work; it is not done."


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A reply before it is sent."""

    form: Form
    content: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    structured: bool = False
    """The request requires JSON by `format` or `response_format`, so the server allows nothing else."""
    reason: str | None = None
    fault: SimulatedFault | None = None
    """Fault of the transport."""
    remainder: str = ""
    """What was cut off, sent when the model is asked to continue."""
    calls_in_text: bool = False
    """The calls are part of `content`."""
    wrong_name: str = ""
    """The wrong name of a tool or field."""
    correct_name: str = ""
    """The correct one."""

    def replace(self, **changes: Any) -> Draft:
        """Return a copy with other fields."""
        return msgspec.structs.replace(self, **changes)


def form_of(payload: Mapping[str, Any]) -> Form:
    """The form that a request requires: the API's if it offers tools, else the one described in its system message.

    A request outside the conversation requires no call.
    """
    if from_wire(payload).task:
        return "none"
    if payload.get("tools"):
        return "native"
    messages = payload.get("messages")
    rules = "\n".join(
        text_of(message.get("content"))
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, Mapping) and message.get("role") in ("system", "developer")
    )
    if "<tool_call>" in rules:
        return "xml"
    return "json" if '"tool_calls"' in rules or '"tool"' in rules else "none"


def draft_of(choice: ScriptedReply, payload: Mapping[str, Any]) -> Draft:
    """The correct reply."""
    form = form_of(payload)
    response = choice.step.response
    content, calls = response.content or "", choice.calls
    if calls and form == "none":
        content, calls = NO_TOOLS, ()
    return Draft(
        form=form,
        content=content,
        thinking=response.thinking or "",
        calls=calls,
        structured=bool(payload.get("format") or payload.get("response_format")),
        reason=response.finish_reason,
    )


def with_text_calls(draft: Draft) -> Draft:
    """Write the calls as text if the form requires it."""
    if draft.calls_in_text or draft.form in ("native", "none"):
        return draft
    if draft.form == "xml":
        called = [
            f'<tool_call>{{"name": {json.dumps(call.name)}, "arguments": {call.raw}}}</tool_call>'
            for call in draft.calls
        ]
        return draft.replace(content="\n".join(filter(None, [draft.content, *called])), calls=(), calls_in_text=True)
    if not draft.calls:
        content = json.dumps({"response": draft.content}, ensure_ascii=False)
        return draft.replace(content=content, calls_in_text=True)
    listed = ", ".join(f'{{"name": {json.dumps(call.name)}, "parameters": {call.raw}}}' for call in draft.calls)
    return draft.replace(content=f'{{"tool_calls": [{listed}]}}', calls=(), calls_in_text=True)


def call_arguments(call: ScriptedCall) -> dict[str, Any]:
    """The call's arguments; {} if they are deliberately invalid."""
    try:
        arguments = json.loads(call.raw or "{}")
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


def with_arguments(call: ScriptedCall, arguments: Mapping[str, Any]) -> ScriptedCall:
    """Return the call with other arguments."""
    return msgspec.structs.replace(call, raw=json.dumps(arguments, ensure_ascii=False))
