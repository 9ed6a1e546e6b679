"""The families of faults of the noisy model: how each corrupts a correct reply, and which feedback corrects it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Literal, TypeAlias

import msgspec

from benchmarks.noise.draft import Draft, call_arguments, with_arguments, with_text_calls
from benchmarks.noise.reading import Reaction
from tui_agent.models.scenario_matching import ScriptedCall
from tui_agent.models.scenarios import SimulatedFault

Corruption: TypeAlias = Callable[[Draft, Random], Draft]
Cure: TypeAlias = Callable[[Reaction, Draft], bool]

_FIELDS = {
    "path": ("filename", "target_location", "document", "file_to_open"),
    "content": ("text", "file_body", "new_text"),
    "old_string": ("old", "search_for", "before_text"),
    "new_string": ("new", "replacement_text", "after_text"),
    "command": ("cmd", "shell_line", "to_execute"),
}
_TOOLS = {
    "read_file": ("open_document", "fetch_file_text", "ReadFiles", "cat_file"),
    "edit_file": ("patch_document", "change_source_text", "EditFiles"),
    "write_file": ("store_document", "put_file_text", "WriteFiles"),
    "run_terminal_command": ("launch_process", "do_in_console", "RunCommands"),
}
_PROSE = (
    "I will now call {name} to get on with this.",
    "Let me use the {name} tool next:",
    "To go on I need to run {name} with these arguments: {given}",
    "First I'll look at the situation. Then I'll do {name}.",
    "Sure! Here is what I am going to do: {name} on {value}.",
)
_SHAPE = re.compile(r"\bjson\b|\barguments?\b|\bformat\b|<tool_call>|\"tool_calls\"|\bneeds the\b|\bmust be\b", re.I)
_CALL = re.compile(r"\b(tools?|calls?|called)\b|\"tool_calls\"|<tool_call>", re.I)
_SILENCE = re.compile(
    r"\b(empty|nothing|no (text|answer|reply|call|tool)|without|thinking|thought|answer|call)\b", re.I
)
_CUT = re.compile(rf"contin|left off|cut|limit|go on|shorter|{_SHAPE.pattern}", re.IGNORECASE)
_AGAIN = re.compile(r"\b(already|duplicate|repeat\w*|same|again|earlier|unchanged|identical)\b", re.I)


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which replies go wrong."""

    name: str
    about: str
    applies_to: Literal["any", "call", "native", "later"] = "any"
    """The replies it can corrupt: all, those with a call, those with a call in the API's field, those after a call."""
    corrupt: Corruption
    is_cured_by: Cure = lambda reaction, draft: False
    """Whether a reaction tells the model what was wrong."""
    is_transient: bool = False
    """A fault of the transport: repeating the request is enough."""


def can_corrupt(family: Family, draft: Draft, index: int) -> bool:
    """Whether the family can corrupt this reply, which follows after `index` steps."""
    match family.applies_to:
        case "call":
            return bool(draft.calls)
        case "native":
            return bool(draft.calls) and draft.form == "native"
        case "later":
            return index > 0 and draft.form != "none"
        case _:
            return True


# --- feedback ------------------------------------------------------------------------


def _matches(pattern: re.Pattern[str]) -> Cure:
    def is_cured_by(reaction: Reaction, draft: Draft) -> bool:
        return not reaction.succeeded and pattern.search(reaction.text) is not None

    return is_cured_by


def _names_tool(reaction: Reaction, draft: Draft) -> bool:
    """The text contains the correct name of the tool."""
    return not reaction.succeeded and _has_word(reaction.text, draft.correct_name)


def _names_field(reaction: Reaction, draft: Draft) -> bool:
    """The text names the wrong field or the correct one."""
    return not reaction.succeeded and (
        _has_word(reaction.text, draft.correct_name) or _has_word(reaction.text, draft.wrong_name)
    )


def _reports_repetition(reaction: Reaction, draft: Draft) -> bool:
    """The text reports a repetition; so does a call that fails the second time."""
    return (reaction.source == "result" and not reaction.succeeded) or _AGAIN.search(reaction.text) is not None


def _has_word(text: str, word: str) -> bool:
    return bool(word) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


# --- faults of shape ------------------------------------------------------------------------


def _cut_json(draft: Draft, rng: Random) -> Draft:
    if draft.form == "native":
        *first, last = draft.calls
        length = rng.randint(1, max(1, len(last.raw) - 1))
        return draft.replace(calls=(*first, msgspec.structs.replace(last, raw=last.raw[:length])))
    text = with_text_calls(draft)
    begin = max(0, text.content.rfind('{"name"'))
    return text.replace(content=text.content[: rng.randint(begin + 9, max(begin + 9, len(text.content) - 3))])


def _cut_off(draft: Draft, rng: Random) -> Draft:
    """The output limit is reached: the reply reports that, and can be continued on request."""
    if draft.form == "native" and draft.calls:
        return _cut_json(draft, rng).replace(reason="length")
    text = with_text_calls(draft)
    length = rng.randint(1, max(1, len(text.content) - 1))
    return text.replace(content=text.content[:length], remainder=text.content[length:], reason="length")


def _prose(draft: Draft, rng: Random) -> Draft:
    call = draft.calls[0]
    arguments = call_arguments(call)
    value = next((v for v in arguments.values() if isinstance(v, str)), "it")
    shown = json.dumps(arguments, ensure_ascii=False)[1:-1]
    text = rng.choice(_PROSE).format(name=call.name, given=shown, value=value[:60])
    if draft.structured and draft.form == "json":
        text = json.dumps({"response": text}, ensure_ascii=False)
    return draft.replace(content=text, calls=(), calls_in_text=True)


def _fences(draft: Draft, rng: Random) -> Draft:
    before = rng.choice(("", "Here is the call:\n", "I'll do this next.\n\n"))
    after = rng.choice(("", "\n\nTell me when it is done."))
    call = _json_calls(draft) if draft.form == "native" else with_text_calls(draft.replace(content="")).content
    fence = rng.choice(("```json", "```"))
    return draft.replace(content=f"{before}{fence}\n{call}\n```{after}", calls=(), calls_in_text=True)


def _markup(draft: Draft, rng: Random) -> Draft:
    def call_text(name_field: str, arguments_field: str) -> str:
        call = draft.calls[0]
        return f'{{"{name_field}": {json.dumps(call.name)}, "{arguments_field}": {call.raw}}}'

    forms = {
        "native": (
            f"<tool_call>\n{call_text('name', 'arguments')}\n</tool_call>",
            f"[TOOL_CALLS][{call_text('name', 'arguments')}]",
            _json_calls(draft),
        ),
        "json": (call_text("tool", "args"), f"<tool_call>{call_text('name', 'arguments')}</tool_call>"),
        "xml": (call_text("tool", "parameters"), f"```json\n{call_text('name', 'arguments')}\n```"),
    }
    text = rng.choice(forms.get(draft.form) or (_json_calls(draft),))
    prefix = draft.content + "\n" if draft.content and draft.form != "json" else ""
    return draft.replace(content=prefix + text, calls=(), calls_in_text=True)


def _json_calls(draft: Draft) -> str:
    return "\n".join(f'{{"name": {json.dumps(call.name)}, "arguments": {call.raw}}}' for call in draft.calls)


def _tool_parse(draft: Draft, rng: Random) -> Draft:
    """The error of Ollama and llama.cpp for a call that they can't parse (O-18)."""
    call = draft.calls[-1]
    raw = call.raw[: rng.randint(1, max(1, len(call.raw) - 1))]
    message = rng.choice(
        (
            f"error parsing tool call: raw='{raw}', err=unexpected end of JSON input",
            f"Failed to parse tool call arguments as JSON: unexpected end of input in {raw}",
        )
    )
    return draft.replace(fault=SimulatedFault(kind="status", status=500, body=message))


def _empty(draft: Draft, rng: Random) -> Draft:
    return draft.replace(content=rng.choice(("", "", "\n")), thinking="", calls=(), calls_in_text=True)


def _thinking_only(draft: Draft, rng: Random) -> Draft:
    what = f"call {draft.calls[0].name}" if draft.calls else "sum up what was done"
    thought = f"The user wants this done. The next thing is to {what}. I know what to send. Now I do it."
    if rng.random() < 0.3:
        return draft.replace(content=f"<think>\n{thought}", thinking="", calls=(), calls_in_text=True)
    return draft.replace(content="", thinking=thought, calls=(), calls_in_text=True)


def _think_tags(draft: Draft, rng: Random) -> Draft:
    text = with_text_calls(draft)
    tag = rng.choice(("think", "thinking"))
    thought = rng.choice(("Easy.", 'I could call {"name": "delete_all"} but I won\'t.', "Step by step:\n1. go on"))
    return text.replace(content=f"<{tag}>{thought}</{tag}>\n{text.content}", thinking="")


def _babble(draft: Draft, rng: Random) -> Draft:
    line = rng.choice(("I have to look at the file again.\n", "and then the next one, ", "0, 0, 0, 0\n"))
    return draft.replace(content=line * 150, calls=(), calls_in_text=True, reason="stop")


# --- faults of names, fields and types --------------------------------------------------------


def _unknown_tool(draft: Draft, rng: Random) -> Draft:
    call = draft.calls[0]
    wrong = rng.choice(_TOOLS.get(call.name, (f"perform_{call.name}_now", f"{call.name}_v2")))
    calls = (msgspec.structs.replace(call, name=wrong), *draft.calls[1:])
    return draft.replace(calls=calls, wrong_name=wrong, correct_name=call.name)


def _wrong_field(draft: Draft, rng: Random) -> Draft:
    call = draft.calls[0]
    arguments = call_arguments(call)
    if not arguments:
        return draft
    right = rng.choice(list(arguments))
    wrong = rng.choice(_FIELDS.get(right, (f"{right}_value",)))
    renamed = {wrong if name == right else name: value for name, value in arguments.items()}
    return draft.replace(calls=(with_arguments(call, renamed), *draft.calls[1:]), wrong_name=wrong, correct_name=right)


def _wrong_type(draft: Draft, rng: Random) -> Draft:
    call = draft.calls[0]
    arguments = call_arguments(call)
    if not arguments:
        return draft
    name = rng.choice(list(arguments))
    corrupted: Mapping[str, Any] = {**arguments, name: rng.choice(_disguises(arguments[name]))}
    return draft.replace(calls=(with_arguments(call, corrupted), *draft.calls[1:]), wrong_name=name, correct_name=name)


def _disguises(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, str):
        return (json.dumps(value), [value])
    return ([value], {"value": value}, {"type": "string", "value": value}, 7, None)


# --- too much ---------------------------------------------------------------------------------


def _duplicate(draft: Draft, rng: Random) -> Draft:
    repeated = tuple(
        msgspec.structs.replace(call, id=f"{call.id}_{number}")
        for number in range(1, rng.choice((1, 1, 2)) + 1)
        for call in draft.calls
    )
    return draft.replace(calls=(*draft.calls, *repeated))


def repeat_calls(draft: Draft, calls: tuple[ScriptedCall, ...]) -> Draft:
    """Repeat the calls of the previous step instead of the next ones."""
    return draft.replace(content="", calls=calls)


# --- the transport ----------------------------------------------------------------------------


def _busy(draft: Draft, rng: Random) -> Draft:
    return draft.replace(fault=SimulatedFault(kind="status", status=rng.choice((500, 502, 503))))


def _stall(draft: Draft, rng: Random) -> Draft:
    return draft.replace(fault=SimulatedFault(kind="stall", after=_early_offset(rng)))


def _drop(draft: Draft, rng: Random) -> Draft:
    return draft.replace(fault=SimulatedFault(kind=rng.choice(("drop", "cut", "no_end")), after=_early_offset(rng)))


def _early_offset(rng: Random) -> int | None:
    """None or a number of bytes smaller than the shortest reply."""
    return rng.choice((None, 0, rng.randint(1, 150)))


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            name="cut_json",
            about="the call ends in the middle",
            applies_to="call",
            corrupt=_cut_json,
            is_cured_by=_matches(_SHAPE),
        ),
        Family(name="cut_off", about="the output limit is reached", corrupt=_cut_off, is_cured_by=_matches(_CUT)),
        Family(
            name="prose",
            about="says what it would call instead of calling",
            applies_to="call",
            corrupt=_prose,
            is_cured_by=_matches(_CALL),
        ),
        Family(
            name="fences",
            about="the call as text in a code fence",
            applies_to="call",
            corrupt=_fences,
            is_cured_by=_matches(_SHAPE),
        ),
        Family(
            name="markup",
            about="the call as text in another model's markup",
            applies_to="call",
            corrupt=_markup,
            is_cured_by=_matches(_SHAPE),
        ),
        Family(
            name="tool_parse",
            about="HTTP 500: the server can't read the call",
            applies_to="native",
            corrupt=_tool_parse,
            is_cured_by=_matches(_SHAPE),
        ),
        Family(
            name="unknown_tool",
            about="a tool that does not exist",
            applies_to="call",
            corrupt=_unknown_tool,
            is_cured_by=_names_tool,
        ),
        Family(
            name="wrong_field",
            about="an argument under another name",
            applies_to="call",
            corrupt=_wrong_field,
            is_cured_by=_names_field,
        ),
        Family(
            name="wrong_type",
            about="an argument of another type",
            applies_to="call",
            corrupt=_wrong_type,
            is_cured_by=_names_field,
        ),
        Family(
            name="duplicate",
            about="the same call twice in one reply",
            applies_to="call",
            corrupt=_duplicate,
            is_cured_by=_matches(_AGAIN),
        ),
        Family(
            name="repeat",
            about="the call before once more",
            applies_to="later",
            corrupt=lambda draft, rng: draft,
            is_cured_by=_reports_repetition,
        ),
        Family(name="empty", about="nothing at all", corrupt=_empty, is_cured_by=_matches(_SILENCE)),
        Family(
            name="thinking_only",
            about="a thought and nothing else",
            corrupt=_thinking_only,
            is_cured_by=_matches(_SILENCE),
        ),
        Family(
            name="think_tags", about="thinking written into the text", corrupt=_think_tags, is_cured_by=_matches(_SHAPE)
        ),
        Family(name="babble", about="the same line over and over", corrupt=_babble, is_cured_by=_matches(_SILENCE)),
        Family(name="busy", about="HTTP 500, 502 or 503, once", corrupt=_busy, is_transient=True),
        Family(name="stall", about="sending stops, the connection stays, once", corrupt=_stall, is_transient=True),
        Family(name="drop", about="the connection breaks, once", corrupt=_drop, is_transient=True),
    )
}
"""All families by name, in the order in which they are drawn."""
