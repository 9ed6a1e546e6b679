"""What was shown of a session as the sections of a document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec

from tui_agent.domain import Diff, Editing, Reading, Running, Trusting
from tui_agent.export.content import Change, Code, Facts, Fold, Part, Prose, Section, Text
from tui_agent.export.plans import plan_section, step_section, summary_section
from tui_agent.export.words import duration, noted, shown, verdict
from tui_agent.text import clean, one_line, reveal, visible
from tui_agent.view import (
    EndItem,
    Item,
    NoticeItem,
    ReplyItem,
    RequestItem,
    SessionView,
    ShellItem,
    StepItem,
    ToolItem,
    UserItem,
)

SHORT = 12
"""Lines of output that stand open."""
LONG_DIFF = 80
"""Lines of changes above which they are folded."""

TOOL_TONES = {"ok": "ok", "failed": "bad", "refused": "warn", "interrupted": "warn", "running": ""}
LEVELS = {"info": "", "warning": "warn", "error": "bad"}
ENDINGS = {
    "done": ("ok", "Done"),
    "failed": ("bad", "Failed"),
    "interrupted": ("warn", "Stopped"),
    "limit": ("warn", "Stopped at the limit"),
    "refused": ("warn", "Refused"),
    "unreachable": ("bad", "No answer from the model"),
}


class Sections:
    """One for each thing that was shown, in order, made anew by each that goes through them."""

    def __init__(self, view: SessionView, times: Mapping[str, str]) -> None:
        """`times` has when each message was said, by its id."""
        self._view = view
        self._times = times

    def __iter__(self) -> Iterator[Section]:
        return _sections(self._view, self._times)


def messages(view: SessionView) -> tuple[str, ...]:
    """The first words of each message of the user's, those that wait too."""
    said = [item.text for item in view.items if isinstance(item, UserItem)]
    return tuple(_first_words(text) for text in (*said, *(one.text for one in view.queue)))


def _first_words(text: str) -> str:
    words = " ".join(shown(text[:2_000])[:400].split())
    return (words if len(words) <= 90 else words[:89] + "…") or "(empty)"


def _sections(view: SessionView, times: Mapping[str, str]) -> Iterator[Section]:
    users = 0
    for item in view.items:
        if isinstance(item, UserItem):
            users += 1
            said = " ".join(
                filter(None, [times.get(item.id, ""), "while it worked" if item.steering else ""])
            )
            yield Section("user", f"You · {users}", note=said, parts=(Prose(shown(item.text), True),))
        else:
            yield from _section(item)
    for waiting in view.queue:
        yield Section("user", "You", note="not sent yet", parts=(Prose(shown(waiting.text), True),))
    if view.plan.text.strip():
        yield Section("document", "Plan document", parts=_plan_document(view.plan.text))
    if view.plan.proposal:
        yield Section("document", "Proposed plan document", parts=_plan_document(view.plan.proposal))


def _plan_document(text: str) -> tuple[Part, ...]:
    """The plan, what is at its head for the program apart."""
    head, mark, body = shown(text).removeprefix("---\n").partition("\n---\n")
    if text.startswith("---\n") and mark:
        return Fold("Front matter", (Code(head, "yaml"),)), Prose(body.strip("\n"), True)
    return (Prose(shown(text), True),)


def _section(item: Item) -> Iterator[Section]:
    match item:
        case ReplyItem():
            yield from _reply(item)
        case ToolItem():
            yield _tool(item)
        case StepItem():
            yield step_section(item)
        case NoticeItem(level=level, text=text, more=more):
            behind: tuple[Part, ...] = (Prose(shown(more)),) if more.strip() else ()
            yield Section("notice", one_line(text, 2_000), tone=LEVELS[level], parts=behind)
        case ShellItem(command=command, cwd=cwd, output=output, exit_code=code):
            ended = "stopped" if code is None else f"exit code {code}"
            yield Section(
                "shell",
                "You ran",
                one_line(visible(command), 2_000),
                noted(ended, cwd),
                "" if code == 0 else "warn",
                _output(output),
            )
        case EndItem():
            yield from _end(item)
        case RequestItem(proposal=proposal) if proposal is not None:
            yield plan_section(item, proposal)
        case RequestItem(offer=offer) if offer is not None:
            yield summary_section(item, offer)
        case RequestItem():
            yield _request_section(item)


# --- replies and tools ----------------------------------------------------------------------


def _reply(item: ReplyItem) -> Iterator[Section]:
    parts: list[Part] = []
    if item.thought.text.strip():
        took = duration(item.thought_ms)
        parts.append(Fold(f"Thinking · {took}" if took else "Thinking", (Prose(shown(item.thought.text)),)))
    if item.text.text.strip() and (item.agent or not item.role):
        parts.append(Prose(shown(item.text.text)))
    notes = [f"could not be used: {item.rejected.replace('_', ' ')}"] if item.rejected else []
    if item.interrupted:
        notes.append("stopped")
    elif item.stop == "length":
        notes.append("cut off at the limit of tokens")
    if item.retry is not None:
        parts.append(Text(f"Asked again ({item.retry.attempt} of {item.retry.of}): {shown(item.retry.why)}"))
    if item.fault is not None:
        parts.append(Text(shown(f"{item.fault.message} {item.fault.advice}").strip()))
    if parts:
        title = f"Agent, {item.does}" if item.does else "Agent"
        yield Section(
            "agent", title, note=noted(*notes), tone="bad" if item.fault else "", parts=tuple(parts)
        )


def _tool(item: ToolItem) -> Section:
    parts: list[Part] = []
    for request in item.requests:
        parts += _request(request, bool(item.diffs))
    parts += _changes(item)
    failed = item.result.error if item.result is not None and not item.result.success else None
    if failed:
        parts.append(Text(shown(failed)))
    live, text = shown(item.output.text), item.text or item.output.text
    if live.strip() and live.strip() not in shown(text):  # what was seen is more than what the model got
        parts += _output(live)
        parts.append(Fold("Result for the model", (Code(shown(text)),)))
    elif text.strip() and shown(text).strip() != shown(failed or "").strip():
        parts += [Fold("Result", (Code(shown(text)),))] if item.diffs else _output(text)
    arguments = _arguments(item)
    if arguments and not item.diffs:
        parts.append(Fold("Arguments", (Code(arguments, "json"),)))
    state = {"running": "no end", "ok": ""}.get(item.status, item.status)
    recovered = "read out of the text" if item.call.recovered else ""
    return Section(
        "tool",
        one_line(item.call.name, 100),
        one_line(visible(item.title), 2_000),
        noted(state, duration(item.ms), recovered, "by a sub-agent" if item.agent else ""),
        TOOL_TONES[item.status],
        tuple(parts),
    )


def _arguments(item: ToolItem) -> str:
    if item.call.raw is not None:
        return shown(item.call.raw)
    if not item.call.arguments or [str(one) for one in item.call.arguments.values()] == [item.title]:
        return ""
    return shown(json.dumps(item.call.arguments, ensure_ascii=False, indent=2, default=str))


def _changes(item: ToolItem) -> list[Part]:
    changes: tuple[Part, ...] = tuple(Change(_seen(diff)) for diff in item.diffs)
    lines = sum(len(hunk.lines) for diff in item.diffs for hunk in diff.hunks)
    return [Fold(f"Changes · {lines} lines", changes)] if lines > LONG_DIFF else list(changes)


def _seen(diff: Diff) -> Diff:
    """A diff whose texts are fit for a document."""
    hunks = tuple(
        msgspec.structs.replace(hunk, lines=tuple(_line(line) for line in hunk.lines)) for hunk in diff.hunks
    )
    note = None if diff.note is None else one_line(diff.note, 300)
    return msgspec.structs.replace(diff, path=one_line(visible(diff.path), 1_000), hunks=hunks, note=note)


def _line(text: str) -> str:
    return reveal(clean(text.rstrip("\r\n"))).replace("\n", "␍")


def _output(text: str) -> tuple[Part, ...]:
    text = shown(text)
    if not text.strip():
        return ()
    lines = text.count("\n") + 1
    body = Code(text)
    return (body,) if lines <= SHORT else (Fold(f"Output · {lines} lines", (body,)),)


# --- requests -------------------------------------------------------------------------------


def _request(item: RequestItem, done: bool) -> list[Part]:
    """What was asked and what was answered; the diff only where it is not `done` and shown anyway."""
    rows: list[tuple[str, str]] = []
    parts: list[Part] = []
    match item.action:
        case Editing(display=display, diff=diff):
            rows.append(("asked", f"edit {visible(display)}"))
            if not done:
                parts.append(Change(_seen(diff)))
        case Running(command=command, cwd=cwd, reasons=reasons, env_changes=changes):
            rows += [("asked", f"run in {visible(cwd)}")]
            rows += [("env", visible(one)) for one in changes]
            rows += [("because", shown("; ".join(reasons)))] if reasons else []
            parts.append(Code(visible(command), "sh"))
        case Reading(display=display):
            rows.append(("asked", f"read {visible(display)}"))
        case Trusting(folder=folder, found=found):
            rows.append(("asked", f"trust {visible(folder)}"))
            rows += [("holds", shown(", ".join(found)))] if found else []
        case None if item.question:
            rows.append(("question", shown(item.question)))
            rows += [("choices", shown(" · ".join(item.options)))] if item.options else []
        case None if item.dispute is not None:
            where = shown(item.dispute.where)
            rows.append(("asked", f"which of two changes of the plan shall hold: {where}"))
            parts += [Text("The agent's:"), Code(shown(item.dispute.ours))]
            parts += [Text("In the file:"), Code(shown(item.dispute.theirs))]
    rows += [("rule", shown(item.why))] if item.why and item.action is not None else []
    rows += [("void", shown(item.void))] if item.void else []
    rows.append(("answer", verdict(item.answer)))
    return [Facts(tuple(rows)), *parts]


def _request_section(item: RequestItem) -> Section:
    answered = item.answer is not None and item.answer.verdict in ("approve", "reply")
    title = "Question" if item.action is None and item.dispute is None else "Approval"
    return Section("request", title, tone="ok" if answered else "warn", parts=tuple(_request(item, False)))


def _end(item: EndItem) -> Iterator[Section]:
    tone, word = ENDINGS.get(item.outcome, ("warn", item.outcome))
    calls = f"{item.tool_calls} tool call{'s' if item.tool_calls != 1 else ''}" if item.tool_calls else ""
    parts: tuple[Part, ...] = (Prose(shown(item.text)),) if item.text.strip() else ()
    if parts or item.outcome != "done" or calls:
        yield Section("end", word, note=noted(calls, duration(item.ms)), tone=tone, parts=parts)
