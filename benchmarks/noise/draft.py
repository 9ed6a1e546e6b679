"""A reply of the noisy model while it is made: what is right, in the form in which the request wants its calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tui_agent.models.scenario_matching import ScriptedCall, ScriptedReply, from_wire, text_of
from tui_agent.models.scenarios import SimulatedFault

Form = Literal["native", "json", "xml", "none"]
"""How a request wants tool calls: in the API's own field, as a JSON object, inside `<tool_call>`, or not at all."""

NO_TOOLS = "There are no tools here, so I can't go on with the work; it is not done."


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A reply before it is put on the wire."""

    form: Form
    content: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    structured: bool = False
    """The request demands JSON by `format` or `response_format`, so that the server lets nothing else through."""
    reason: str | None = None
    fault: SimulatedFault | None = None
    """What happens to the reply on its way."""
    rest: str = ""
    """What was cut off: it is said when the model is asked to continue."""
    written: bool = False
    """The calls were written into `content`."""
    wrong: str = ""
    """The name or field that a fault got wrong, as the model wrote it."""
    right: str = ""
    """What it should have been."""

    def but(self, **changes: Any) -> Draft:
        """The same with other fields."""
        return msgspec.structs.replace(self, **changes)


def form_of(payload: Mapping[str, Any]) -> Form:
    """The form that a request asks for: the API's own when it offers tools, else what its system message shows. A task
    beside the conversation wants no call."""
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
    """The right reply."""
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


def in_writing(draft: Draft) -> Draft:
    """The same with its calls as text, where the form wants them so."""
    if draft.written or draft.form in ("native", "none"):
        return draft
    if draft.form == "xml":
        called = [
            f'<tool_call>{{"name": {json.dumps(call.name)}, "arguments": {call.raw}}}</tool_call>'
            for call in draft.calls
        ]
        return draft.but(content="\n".join(filter(None, [draft.content, *called])), calls=(), written=True)
    if not draft.calls:
        content = json.dumps({"response": draft.content}, ensure_ascii=False)
        return draft.but(content=content, written=True)
    listed = ", ".join(f'{{"name": {json.dumps(call.name)}, "parameters": {call.raw}}}' for call in draft.calls)
    return draft.but(content=f'{{"tool_calls": [{listed}]}}', calls=(), written=True)


def arguments(call: ScriptedCall) -> dict[str, Any]:
    """The call's arguments; {} when they are unreadable on purpose."""
    try:
        given = json.loads(call.raw or "{}")
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def with_arguments(call: ScriptedCall, given: Mapping[str, Any]) -> ScriptedCall:
    """The call with other arguments."""
    return msgspec.structs.replace(call, raw=json.dumps(given, ensure_ascii=False))
