"""The families of faults of the noisy model: how each spoils a right reply, and which words cure it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Literal, TypeAlias

import msgspec

from benchmarks.noise.draft import Draft, arguments, in_writing, with_arguments
from benchmarks.noise.reading import Heard
from tui_agent.models.scenario_matching import ScriptedCall
from tui_agent.models.scenarios import SimulatedFault

Spoil: TypeAlias = Callable[[Draft, Random], Draft]
Cure: TypeAlias = Callable[[Heard, Draft], bool]

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
    """One way in which replies go wrong."""

    name: str
    about: str
    needs: Literal["any", "call", "native", "later"] = "any"
    """Replies that it can strike: all, those with a call, those with a call in the API's field, those with a
    call before them."""
    spoil: Spoil
    cure: Cure = lambda heard, draft: False
    """Whether something that was said tells the model what was wrong."""
    passes: bool = False
    """It lies in the transport: asking again is enough."""


def strikes(family: Family, draft: Draft, index: int) -> bool:
    """Whether the family can spoil this reply, which follows after `index` steps."""
    match family.needs:
        case "call":
            return bool(draft.calls)
        case "native":
            return bool(draft.calls) and draft.form == "native"
        case "later":
            return index > 0 and draft.form != "none"
        case _:
            return True


# --- words that cure ------------------------------------------------------------------------


def _tells(pattern: re.Pattern[str]) -> Cure:
    def cure(heard: Heard, draft: Draft) -> bool:
        return not heard.good and pattern.search(heard.text) is not None

    return cure


def _names(heard: Heard, draft: Draft) -> bool:
    """The text holds the right name of the tool."""
    return not heard.good and _has(heard.text, draft.right)


def _field(heard: Heard, draft: Draft) -> bool:
    """The text names the faulty field, or the one that was wanted."""
    return not heard.good and (_has(heard.text, draft.right) or _has(heard.text, draft.wrong))


def _repeated(heard: Heard, draft: Draft) -> bool:
    """The text says that this was done before; a call that fails the second time says so too."""
    return (heard.source == "result" and not heard.good) or _AGAIN.search(heard.text) is not None


def _has(text: str, word: str) -> bool:
    return bool(word) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


# --- faults of shape ------------------------------------------------------------------------


def _cut_json(draft: Draft, rng: Random) -> Draft:
    if draft.form == "native":
        *first, last = draft.calls
        kept = rng.randint(1, max(1, len(last.raw) - 1))
        return draft.but(calls=(*first, msgspec.structs.replace(last, raw=last.raw[:kept])))
    text = in_writing(draft)
    begin = max(0, text.content.rfind('{"name"'))
    return text.but(content=text.content[: rng.randint(begin + 9, max(begin + 9, len(text.content) - 3))])


def _cut_off(draft: Draft, rng: Random) -> Draft:
    """The output limit was reached: the reply says so, and goes on where it stopped when it is asked to."""
    if draft.form == "native" and draft.calls:
        return _cut_json(draft, rng).but(reason="length")
    text = in_writing(draft)
    kept = rng.randint(1, max(1, len(text.content) - 1))
    return text.but(content=text.content[:kept], rest=text.content[kept:], reason="length")


def _prose(draft: Draft, rng: Random) -> Draft:
    call = draft.calls[0]
    given = arguments(call)
    value = next((v for v in given.values() if isinstance(v, str)), "it")
    shown = json.dumps(given, ensure_ascii=False)[1:-1]
    text = rng.choice(_PROSE).format(name=call.name, given=shown, value=value[:60])
    if draft.structured and draft.form == "json":
        text = json.dumps({"response": text}, ensure_ascii=False)
    return draft.but(content=text, calls=(), written=True)


def _fences(draft: Draft, rng: Random) -> Draft:
    before = rng.choice(("", "Here is the call:\n", "I'll do this next.\n\n"))
    after = rng.choice(("", "\n\nTell me when it is done."))
    inside = _bare(draft) if draft.form == "native" else in_writing(draft.but(content="")).content
    fence = rng.choice(("```json", "```"))
    return draft.but(content=f"{before}{fence}\n{inside}\n```{after}", calls=(), written=True)


def _markup(draft: Draft, rng: Random) -> Draft:
    def named(field: str, filled: str) -> str:
        call = draft.calls[0]
        return f'{{"{field}": {json.dumps(call.name)}, "{filled}": {call.raw}}}'

    forms = {
        "native": (
            f"<tool_call>\n{named('name', 'arguments')}\n</tool_call>",
            f"[TOOL_CALLS][{named('name', 'arguments')}]",
            _bare(draft),
        ),
        "json": (named("tool", "args"), f"<tool_call>{named('name', 'arguments')}</tool_call>"),
        "xml": (named("tool", "parameters"), f"```json\n{named('name', 'arguments')}\n```"),
    }
    text = rng.choice(forms.get(draft.form) or (_bare(draft),))
    said = draft.content + "\n" if draft.content and draft.form != "json" else ""
    return draft.but(content=said + text, calls=(), written=True)


def _bare(draft: Draft) -> str:
    return "\n".join(f'{{"name": {json.dumps(call.name)}, "arguments": {call.raw}}}' for call in draft.calls)


def _tool_parse(draft: Draft, rng: Random) -> Draft:
    """What Ollama and llama.cpp answer when they can't read their own model's call (O-18)."""
    call = draft.calls[-1]
    raw = call.raw[: rng.randint(1, max(1, len(call.raw) - 1))]
    message = rng.choice(
        (
            f"error parsing tool call: raw='{raw}', err=unexpected end of JSON input",
            f"Failed to parse tool call arguments as JSON: unexpected end of input in {raw}",
        )
    )
    return draft.but(fault=SimulatedFault(kind="status", status=500, body=message))


def _empty(draft: Draft, rng: Random) -> Draft:
    return draft.but(content=rng.choice(("", "", "\n")), thinking="", calls=(), written=True)


def _thinking_only(draft: Draft, rng: Random) -> Draft:
    what = f"call {draft.calls[0].name}" if draft.calls else "sum up what was done"
    thought = f"The user wants this done. The next thing is to {what}. I know what to send. Now I do it."
    if rng.random() < 0.3:
        return draft.but(content=f"<think>\n{thought}", thinking="", calls=(), written=True)
    return draft.but(content="", thinking=thought, calls=(), written=True)


def _think_tags(draft: Draft, rng: Random) -> Draft:
    text = in_writing(draft)
    tag = rng.choice(("think", "thinking"))
    thought = rng.choice(("Easy.", 'I could call {"name": "delete_all"} but I won\'t.', "Step by step:\n1. go on"))
    return text.but(content=f"<{tag}>{thought}</{tag}>\n{text.content}", thinking="")


def _babble(draft: Draft, rng: Random) -> Draft:
    line = rng.choice(("I have to look at the file again.\n", "and then the next one, ", "0, 0, 0, 0\n"))
    return draft.but(content=line * 150, calls=(), written=True, reason="stop")


# --- faults of names, fields and types --------------------------------------------------------


def _unknown_tool(draft: Draft, rng: Random) -> Draft:
    call = draft.calls[0]
    wrong = rng.choice(_TOOLS.get(call.name, (f"perform_{call.name}_now", f"{call.name}_v2")))
    calls = (msgspec.structs.replace(call, name=wrong), *draft.calls[1:])
    return draft.but(calls=calls, wrong=wrong, right=call.name)


def _wrong_field(draft: Draft, rng: Random) -> Draft:
    call = draft.calls[0]
    given = arguments(call)
    if not given:
        return draft
    right = rng.choice(list(given))
    wrong = rng.choice(_FIELDS.get(right, (f"{right}_value",)))
    renamed = {wrong if name == right else name: value for name, value in given.items()}
    return draft.but(calls=(with_arguments(call, renamed), *draft.calls[1:]), wrong=wrong, right=right)


def _wrong_type(draft: Draft, rng: Random) -> Draft:
    call = draft.calls[0]
    given = arguments(call)
    if not given:
        return draft
    name = rng.choice(list(given))
    spoilt: Mapping[str, Any] = {**given, name: rng.choice(_disguises(given[name]))}
    return draft.but(calls=(with_arguments(call, spoilt), *draft.calls[1:]), wrong=name, right=name)


def _disguises(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, str):
        return (json.dumps(value), [value])
    return ([value], {"value": value}, {"type": "string", "value": value}, 7, None)


# --- too much ---------------------------------------------------------------------------------


def _duplicate(draft: Draft, rng: Random) -> Draft:
    again = tuple(
        msgspec.structs.replace(call, id=f"{call.id}_{number}")
        for number in range(1, rng.choice((1, 1, 2)) + 1)
        for call in draft.calls
    )
    return draft.but(calls=(*draft.calls, *again))


def repeating(draft: Draft, before: tuple[ScriptedCall, ...]) -> Draft:
    """The calls of the step before once more, instead of what comes next."""
    return draft.but(content="", calls=before)


# --- the transport ----------------------------------------------------------------------------


def _busy(draft: Draft, rng: Random) -> Draft:
    return draft.but(fault=SimulatedFault(kind="status", status=rng.choice((500, 502, 503))))


def _stall(draft: Draft, rng: Random) -> Draft:
    return draft.but(fault=SimulatedFault(kind="stall", after=_early(rng)))


def _drop(draft: Draft, rng: Random) -> Draft:
    return draft.but(fault=SimulatedFault(kind=rng.choice(("drop", "cut", "no_end")), after=_early(rng)))


def _early(rng: Random) -> int | None:
    """Before anything, or after a few bytes: less than the shortest reply has."""
    return rng.choice((None, 0, rng.randint(1, 150)))


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family(
            name="cut_json", about="the call ends in the middle", needs="call", spoil=_cut_json, cure=_tells(_SHAPE)
        ),
        Family(name="cut_off", about="the output limit is reached", spoil=_cut_off, cure=_tells(_CUT)),
        Family(
            name="prose",
            about="says what it would call instead of calling",
            needs="call",
            spoil=_prose,
            cure=_tells(_CALL),
        ),
        Family(
            name="fences", about="the call as text in a code fence", needs="call", spoil=_fences, cure=_tells(_SHAPE)
        ),
        Family(
            name="markup",
            about="the call as text in another model's markup",
            needs="call",
            spoil=_markup,
            cure=_tells(_SHAPE),
        ),
        Family(
            name="tool_parse",
            about="HTTP 500: the server can't read the call",
            needs="native",
            spoil=_tool_parse,
            cure=_tells(_SHAPE),
        ),
        Family(name="unknown_tool", about="a tool that does not exist", needs="call", spoil=_unknown_tool, cure=_names),
        Family(
            name="wrong_field", about="an argument under another name", needs="call", spoil=_wrong_field, cure=_field
        ),
        Family(name="wrong_type", about="an argument of another type", needs="call", spoil=_wrong_type, cure=_field),
        Family(
            name="duplicate",
            about="the same call twice in one reply",
            needs="call",
            spoil=_duplicate,
            cure=_tells(_AGAIN),
        ),
        Family(
            name="repeat",
            about="the call before once more",
            needs="later",
            spoil=lambda draft, rng: draft,
            cure=_repeated,
        ),
        Family(name="empty", about="nothing at all", spoil=_empty, cure=_tells(_SILENCE)),
        Family(name="thinking_only", about="a thought and nothing else", spoil=_thinking_only, cure=_tells(_SILENCE)),
        Family(name="think_tags", about="thinking written into the text", spoil=_think_tags, cure=_tells(_SHAPE)),
        Family(name="babble", about="the same line over and over", spoil=_babble, cure=_tells(_SILENCE)),
        Family(name="busy", about="HTTP 500, 502 or 503, once", spoil=_busy, passes=True),
        Family(name="stall", about="sending stops, the connection stays, once", spoil=_stall, passes=True),
        Family(name="drop", about="the connection breaks, once", spoil=_drop, passes=True),
    )
}
"""All families by name, in the order in which a seed draws from them."""
