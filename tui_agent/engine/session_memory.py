"""What happened in a session, as facts alone: for what the model does not see any more (H6).

Folded from the event stream, so that it is saved with the session and the same after a resume. What the model still has
before its eyes, the messages of the run that goes on, is not told again: only what lies before it, or before the last
compaction.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tui_agent.domain import Action, Editing, Reading, Running
from tui_agent.events import (
    ApprovalAnswered,
    ApprovalAsked,
    ContextAttached,
    ContextCompacted,
    ConversationRewound,
    Event,
    FileChanged,
    QuestionAnswered,
    QuestionAsked,
    RunStarted,
    ToolFinished,
    ToolStarted,
    UndoDone,
)
from tui_agent.text import clean, one_line

MOST = 100
"""Entries of each kind that are kept."""
SHOWN = 8
"""Names of a line, and entries of a kind, that the model gets, the newest ones."""
FULL, SMALL = 1_200, 500
"""Characters of what the model gets; the second in windows of at most SMALL_WINDOW tokens."""
SMALL_WINDOW = 8_192

_FINDERS = (
    "search_workspace",
    "find_definition",
    "find_implementations",
    "find_references",
    "find_symbol",
    "get_call_hierarchy",
    "get_type_hierarchy",
    "run_subagent",
)
_READERS = ("read_file",)
_NO_FAILURE = frozenset(
    ("duplicate", "too_many", "interrupted", "refused", "unknown_tool", "bad_arguments", "unsaved")
)
"""Codes of results that say nothing about the project."""
_LINES = re.compile(r":\d+-\d*$")


class Notes(msgspec.Struct):
    """Notes by kind, the newest last; a text is there once."""

    read: dict[str, str] = {}
    """File → empty."""
    written: dict[str, str] = {}
    """File → `created`, `changed` or `deleted`."""
    failed: dict[str, str] = {}
    """What was called → what went wrong; gone when the same call succeeds."""
    wishes: dict[str, str] = {}
    """What the user decided about → what they said."""
    found: dict[str, str] = {}
    """What was looked for → what came out."""


class SessionMemory:
    """The notes of a session. `fold` takes every event in order."""

    def __init__(self) -> None:
        self.notes = Notes()
        self.behind = Notes()
        """Those that lie before what the model sees."""
        self._open: dict[str, tuple[str, str]] = {}
        """Call → its tool and title."""
        self._asked: dict[str, str] = {}
        """Request → what it is about."""

    # --- folding ---

    def fold(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case ToolStarted(call=call, title=title, agent=""):
                self._open[call.id] = call.name, one_line(clean(title), 120)
            case ToolFinished(agent=""):
                self._finished(event)
            case FileChanged(change=change):
                how = {"create": "created", "modify": "changed", "delete": "deleted"}[change.kind]
                new = self.notes.written.get(change.display) == "created" and how == "changed"
                _note(self.notes.written, change.display, "created" if new else how)
            case ContextAttached(items=items):
                for item in items:
                    _note(self.notes.read, item.display)
            case UndoDone(items=items, kind=kind) if kind != "redo":
                for file in items:
                    if file.outcome == "restored":
                        self.notes.written.pop(file.display, None)
            case RunStarted():
                self._pass()
            case ConversationRewound(cleared=True):
                self.notes, self.behind = Notes(), Notes()
            case ContextCompacted(summary=summary, by="model") if summary:
                self._pass()  # the program's own summary names all of it
            case _:
                self._decided(event)

    def _pass(self) -> None:
        """What was noted until now is out of sight."""
        self.behind = Notes(**{name: dict(kept) for name, kept in _kinds(self.notes)})

    def _finished(self, event: ToolFinished) -> None:
        name, title = self._open.pop(event.call_id, (event.name, ""))
        result, key = event.result, one_line(f"{name} {title}", 120)
        if not result.success:
            if result.code not in _NO_FAILURE:
                _note(self.notes.failed, key, _first(event.text))
            return
        self.notes.failed.pop(key, None)
        if name in _READERS:
            _note(self.notes.read, _LINES.sub("", title))
        elif name in _FINDERS and not event.text.startswith(("No matches", "Not available")):
            _note(self.notes.found, key, _gist(name, event.text))

    def _decided(self, event: Event) -> None:
        match event:
            case ApprovalAsked(id=key, action=action):
                self._asked[key] = _about(action)
            case QuestionAsked(id=key, question=question):
                self._asked[key] = f"to «{one_line(clean(question), 100)}»"
            case ApprovalAnswered(id=key, answer=answer):
                about = self._asked.pop(key, "")
                if about and answer.verdict == "reject" and answer.text and answer.by == "user":
                    _note(self.notes.wishes, f"when rejecting {about}", one_line(clean(answer.text), 160))
            case QuestionAnswered(id=key, answer=answer):
                about = self._asked.pop(key, "")
                if about and answer.verdict == "reply" and answer.text:
                    _note(self.notes.wishes, about, one_line(clean(answer.text), 160))

    # --- what the model gets ---

    def told(self, window: int | None = None, known: str = "", left_out: int = 0) -> str:
        """A few lines for a model with a window of so many tokens; empty where there is nothing to tell. What `known`
        says already, the plan document, is left out. `left_out` of the user's messages are out of its sight (H2)."""
        room = SMALL if window is not None and window <= SMALL_WINDOW else FULL
        notes = self.behind
        written = {name: how for name, how in notes.written.items() if not _named_in(known, name)}
        read = {name: "" for name in notes.read if name not in notes.written and not _named_in(known, name)}
        lines = [
            _out_of_sight(left_out),
            *(f"The user said {about}: {said}" for about, said in _newest(notes.wishes)),
            _named("Files that were written", [f"{name} ({how})" for name, how in written.items()]),
            *(f"Failed: {what}: {why}" for what, why in _newest(notes.failed)),
            _named("Files that were read", list(read)),
            *(f"Found by {what}: {came}" for what, came in _newest(notes.found)),
        ]
        kept: list[str] = []
        for line in filter(None, lines):
            room -= len(line) + 3
            if room < 0:
                break
            kept.append(f"- {line}")
        return "\n".join(kept)

    # --- saving ---

    def export(self) -> dict[str, Any]:
        """Plain data for `state.saved`; the order of the notes is part of it."""
        return {"notes": _pairs(self.notes), "behind": _pairs(self.behind)}

    @classmethod
    def restore(cls, data: object) -> SessionMemory:
        """The memory that `export` wrote. Raises msgspec.ValidationError on another shape."""
        kept = msgspec.convert(data, dict[str, dict[str, list[tuple[str, str]]]])
        memory = cls()
        memory.notes, memory.behind = _notes(kept.get("notes", {})), _notes(kept.get("behind", {}))
        return memory


def _pairs(notes: Notes) -> dict[str, list[tuple[str, str]]]:
    return {name: list(kind.items()) for name, kind in _kinds(notes)}


def _notes(pairs: dict[str, list[tuple[str, str]]]) -> Notes:
    return Notes(**{name: dict(pairs.get(name, ())) for name in Notes.__struct_fields__})


def _kinds(notes: Notes) -> list[tuple[str, dict[str, str]]]:
    return [(name, getattr(notes, name)) for name in notes.__struct_fields__]


def _note(kind: dict[str, str], key: str, value: str = "") -> None:
    key = one_line(clean(key), 160)
    if not key:
        return
    kind.pop(key, None)
    kind[key] = value
    if len(kind) > MOST:
        del kind[next(iter(kind))]


def _newest(kind: dict[str, str]) -> list[tuple[str, str]]:
    return list(kind.items())[-SHOWN // 2 :]


def _out_of_sight(count: int) -> str:
    many = "1 earlier message" if count == 1 else f"{count} earlier messages"
    return f"Not shown here any more: {many} of the user, and the answers" if count else ""


def _named(what: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - SHOWN} before" if len(names) > SHOWN else ""
    return f"{what}: {', '.join(names[-SHOWN:])}{more}"


def _named_in(text: str, name: str) -> bool:
    """Whether a text names this file, and not one whose name only holds this one (`data.py` is no `a.py`)."""
    whole = rf"(?<![\w.-])(?<!\w/){re.escape(name)}(?![\w-]|[./]\w)"
    return name in text and re.search(whole, text) is not None


def _first(text: str) -> str:
    """What a failed result says: its first line, and of a long one also the last."""
    lines = [line for line in clean(text).splitlines() if line.strip()]
    first = one_line(lines[0].removeprefix("Error: "), 120) if lines else "no reason given"
    return f"{first} … {one_line(lines[-1], 80)}" if len(lines) > 2 else first


def _gist(name: str, text: str) -> str:
    if name != "search_workspace":
        return one_line(text[:400], 160)
    files = re.findall(r"^── (.+) ──$", text, re.MULTILINE)
    shown = ", ".join(files[:4])
    return f"in {len(files)} files: {shown}, …" if len(files) > 4 else f"in {shown}"


def _about(action: Action) -> str:
    match action:
        case Editing(display=display):
            return f"a change of {display}"
        case Running(command=command):
            return f"`{one_line(clean(command), 80)}`"
        case Reading(display=display):
            return f"reading {display}"
    return ""
