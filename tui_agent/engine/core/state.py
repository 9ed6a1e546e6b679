"""What the engine must remember between two processes: folded from the stream, saved as a snapshot now and then."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tui_agent import events
from tui_agent.checkpoints.ledger import Ledger
from tui_agent.common.bounded import put_bounded
from tui_agent.common.domain import Action, Answer, EditAction, Grant, ReadAction, RunAction, Scope
from tui_agent.engine.core.history import History
from tui_agent.engine.core.saved_copies import folded
from tui_agent.engine.core.stream import STREAMED, EventStream
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.recovery import RecoveryReport
from tui_agent.text import SecretMask, clean, one_line

log = logging.getLogger(__name__)

FRESH_MAX = 10
"""Messages whose mentions are still to be looked at."""
SEEN_MAX = 5_000
"""Files whose bytes are remembered from one process to the next."""


# --- facts for what the model does not see any more (H6) ---

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
_NO_FAILURE = frozenset(("duplicate", "too_many", "interrupted", "refused", "unknown_tool", "bad_arguments", "unsaved"))
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

    def fold(self, event: events.Event) -> None:
        """Take in one event."""
        match event:
            case events.ToolStarted(call=call, title=title, agent=""):
                self._open[call.id] = call.name, one_line(clean(title), 120)
            case events.ToolFinished(agent=""):
                self._finished(event)
            case events.FileChanged(change=change):
                how = {"create": "created", "modify": "changed", "delete": "deleted"}[change.kind]
                new = self.notes.written.get(change.display) == "created" and how == "changed"
                _note(self.notes.written, change.display, "created" if new else how)
            case events.ContextAttached(items=items):
                for item in items:
                    _note(self.notes.read, item.display)
            case events.UndoFinished(items=items, kind=kind) if kind != "redo":
                for file in items:
                    if file.outcome == "restored":
                        self.notes.written.pop(file.display, None)
            case events.RunStarted():
                self._pass()
            case events.ConversationRewound(cleared=True):
                self.notes, self.behind = Notes(), Notes()
            case events.ContextCompacted(summary=summary, by="model") if summary:
                self._pass()  # the program's own summary names all of it
            case _:
                self._decided(event)

    def _pass(self) -> None:
        """What was noted until now is out of sight."""
        self.behind = Notes(**{name: dict(kept) for name, kept in _kinds(self.notes)})

    def _finished(self, event: events.ToolFinished) -> None:
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

    def _decided(self, event: events.Event) -> None:
        match event:
            case events.ApprovalRequested(id=key, action=action):
                self._asked[key] = _about(action)
            case events.QuestionAsked(id=key, question=question):
                self._asked[key] = f"to «{one_line(clean(question), 100)}»"
            case events.ApprovalAnswered(id=key, answer=answer):
                about = self._asked.pop(key, "")
                if about and answer.verdict == "reject" and answer.text and answer.by == "user":
                    _note(self.notes.wishes, f"when rejecting {about}", one_line(clean(answer.text), 160))
            case events.QuestionAnswered(id=key, answer=answer):
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
    if key:
        put_bounded(kind, key, value, MOST)


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
        case EditAction(display=display):
            return f"a change of {display}"
        case RunAction(command=command):
            return f"`{one_line(clean(command), 80)}`"
        case ReadAction(display=display):
            return f"reading {display}"
    return ""


# --- all of it ---


class SessionStream(EventStream):
    """The stream of a session: every event goes through the engine's state as it is emitted, as it does on resume."""

    state: EngineState

    def begin(self, state: EngineState) -> None:
        """From now on `state` takes in every event."""
        self.state, self.on_emit = state, state.fold


async def open_stream(folder: SessionFolder, mask: SecretMask) -> tuple[SessionStream, RecoveryReport]:
    """The session's stream with the engine's state as it was left. Raises AppendError."""
    stream, recovered = await SessionStream.open(folder, mask)
    assert isinstance(stream, SessionStream)
    stream.begin(await asyncio.to_thread(_replayed, stream))
    return stream, recovered


def _replayed(stream: EventStream) -> EngineState:
    """The last saved state and what came after it; all from the beginning when there is none that can be read."""
    state, after = EngineState(), 0
    saved = stream.last_state()
    if saved is not None:
        try:
            after, state = saved[0], EngineState.restore(saved[1])
        except Exception:  # what was written on another day, by another program or by a disk: the journal has it all
            log.exception("the saved state can't be used; the journal is replayed from its beginning")
            state, after = EngineState(), 0
    for record in stream.records(after):
        if type(record.event) not in STREAMED:
            state.fold(record.event, record.run)
    return state


class Queued(msgspec.Struct):
    """A message that waits for its turn."""

    id: str
    text: str
    steering: bool = False


class EngineState(msgspec.Struct, rename={"saved_copies": "asides"}):
    """Folds every event; `export` and `restore` make the snapshot of `state.saved`."""

    history: History = msgspec.field(default_factory=History)
    memory: SessionMemory = msgspec.field(default_factory=SessionMemory)
    """What happened, for what the model does not see any more (H6)."""
    ledger: Ledger = msgspec.field(default_factory=Ledger)
    """Edits that can be undone (K1)."""
    rewound: list[Any] | None = None
    """The conversation as it was before it was rewound, until something is said (`/redo`)."""
    queue: list[Queued] = []
    grants: list[Grant] = []
    seen: dict[str, str] = {}
    """Path → sha256 of files as the agent read or wrote them, the latest last."""
    fresh: list[tuple[str, str]] = []
    """Id and text of the user's messages whose mentions were not looked at yet (H7); those of a run that ended before
    it came to that are attached to the next message."""
    roots: tuple[str, ...] = ()
    """The workspace and the folders that were added to it."""
    runs: int = 0
    title: str = ""
    named: bool = False
    """The title was given, and is not only the first words."""
    mode: str = ""
    approval_mode: str = ""
    """What the user switched to; flags of a start (`exec --approve all`) hold for that process only."""
    model: str = ""
    provider: str = ""
    context_window: int | None = None
    chosen_model: str = ""
    """The model that the user chose in the session; empty where settings did."""
    roles: dict[str, str] = {}
    """Role → the model that the user chose for it."""
    plan_sha256: str = ""
    """Hash of plan_doc.md as it was shown last, proposals aside."""
    proposal: str = ""
    """What plan_doc.md would be with what the model proposed and nobody decided about (P6)."""
    summaries: dict[str, dict[str, Any]] = {}
    """Id → summary that nobody decided about, or that was accepted and is not in the plan yet: offered again at the
    next interactive start (X3)."""
    accepted: tuple[str, ...] = ()
    """Ids of those that were accepted."""
    saved_copies: dict[str, str] = {}
    """Name of a saved copy of plan_doc.md → what became of it, by `saved_copies.folded`."""
    log_entries: int = 0
    """How many entries of the plan's log the model gets whole in this run; 0 for as many as the settings say."""
    asked_apart: int = 0
    """Requests apart from the conversation, since the process began."""
    protocol: str = ""
    """In which form the model is asked for calls; empty for the one that it begins with."""

    def fold(self, event: events.Event, run: str = "") -> None:
        """Take in one event with the run of its record, live or replayed."""
        if isinstance(event, events.ConversationRewound):
            self.rewound, self.fresh = (self.history.export() if event.run or event.cleared else None), []
        self.history.fold(event)
        self.memory.fold(event)
        self.ledger.fold(event, run)
        self.saved_copies = folded(self.saved_copies, event)
        self._fold_message(event)
        self._fold_work(event)
        self._fold_setting(event)
        self._fold_plan(event)

    def _fold_message(self, event: events.Event) -> None:
        match event:
            case events.UserMessageAdded(id=message, text=text):
                self.rewound = None
                self.fresh = [*self.fresh, (message, text)][-FRESH_MAX:]
                self.queue = [queued for queued in self.queue if queued.id != message]
                self.title = self.title or _title(text)
            case events.MessageQueued(id=message, text=text, steering=steering):
                self.queue.append(Queued(message, text, steering))
            case events.MessageChanged(id=message, text=text, steering=meant):
                for queued in self.queue:
                    if queued.id == message:
                        queued.text = text
                        queued.steering = queued.steering if meant is None else meant
            case events.MessageMoved(id=message, before=before):
                self._move(message, before)
            case events.MessageWithdrawn(id=message):
                self.queue = [queued for queued in self.queue if queued.id != message]

    def _fold_work(self, event: events.Event) -> None:
        match event:
            case events.RunStarted():
                self.runs += 1
                self.log_entries = 0
            case events.RunEnded(outcome="done"):
                self.fresh = []
            case events.ContextCompacted(entries=entries) if entries:
                self.log_entries = entries
            case events.ReplyStarted(role=role):
                self.asked_apart += bool(role)
            case events.ApprovalAnswered(answer=Answer(verdict="approve", scope=Scope.SESSION), grant=Grant() as grant):
                self.grants.append(grant)
            case events.GrantRevoked(grant=grant):
                self.grants = [one for one in self.grants if one != grant]
            case events.FileChanged(change=change):
                self._saw(change.path, change.after)
            case events.ContextAttached(message=message, items=items):
                self.looked_at(message)
                for item in items:
                    self._saw(item.path, item.sha256)
            case events.ToolFinished(agent="", seen=seen):
                for path, sha256 in seen.items():
                    self._saw(path, sha256)

    def _move(self, message: str, before: str) -> None:
        moved = [one for one in self.queue if one.id == message]
        rest = [one for one in self.queue if one.id != message]
        place = next((place for place, one in enumerate(rest) if one.id == before), len(rest))
        self.queue = [*rest[:place], *moved, *rest[place:]]

    def looked_at(self, message: str) -> None:
        """What a message of the user's mentions was attached, or can't be."""
        self.fresh = [one for one in self.fresh if one[0] != message]

    def _saw(self, path: str, sha256: str | None) -> None:
        if sha256 is None:
            self.seen.pop(path, None)
        else:
            put_bounded(self.seen, path, sha256, SEEN_MAX)

    def _fold_setting(self, event: events.Event) -> None:
        match event:
            case events.SessionTitled(title=title):
                self.title, self.named = title, True
            case events.ModeChanged(mode=mode, approval_mode=approval_mode):
                self.mode, self.approval_mode = mode, approval_mode
            case events.ProtocolChanged(protocol=protocol, fixed=fixed):
                self.protocol = "" if fixed else protocol
            case events.ModelChanged(provider=provider, model=model, context_window=window):
                if (provider, model) != (self.provider, self.model):
                    self.protocol = ""
                self.provider, self.model, self.context_window = provider, model, window
                self.chosen_model = model if event.by == "user" or model == self.chosen_model else ""
            case events.RoleChanged(role=role, model=model):
                self.roles.pop(role, None)
                self.roles |= {role: model} if model else {}
            case events.SessionOpened(mode=mode, roots=roots):
                self.mode, self.roots = mode, roots

    def _fold_plan(self, event: events.Event) -> None:
        match event:
            case events.PlanDocChanged(text=text, pending=True):
                self.proposal = text
            case events.PlanDocChanged(text=text, by=by, sha256=sha256):
                self.plan_sha256 = sha256
                if by in ("summary", "review") or text == self.proposal:
                    self.proposal = ""
                if by == "summary":
                    self.summaries = {key: one for key, one in self.summaries.items() if key not in self.accepted}
                    self.accepted = ()
            case events.PlanDocResolved(id="proposal"):
                self.proposal = ""
            case events.SummaryProposed(id=key, summary=summary):
                data = msgspec.to_builtins(summary)
                self.summaries = {old: one for old, one in self.summaries.items() if one != data}
                self.summaries[key] = data
            case events.SummaryReviewed(id=key, outcome="discarded"):
                self.summaries.pop(key, None)
            case events.SummaryReviewed(id=key, outcome=outcome, summary=summary) if outcome != "pending":
                self.summaries[key] = msgspec.to_builtins(summary)
                self.accepted = (*self.accepted, key)

    def model_for(self, provider: str, configured: str | None, flags: Mapping[str, Any]) -> str:
        """The model to go on with on a server of `provider`: the one of the command line, the one that the user chose
        in the session, the settings', else the one it had. Empty where all of them are silent."""
        same = provider == self.provider
        kept = self.chosen_model if same else ""
        return flags.get("model") or kept or configured or (self.model if same else "")

    def export(self) -> dict[str, Any]:
        """Plain data for `state.saved`."""
        data: dict[str, Any] = msgspec.to_builtins(self, enc_hook=lambda part: part.export())
        return data

    @classmethod
    def restore(cls, data: dict[str, Any]) -> EngineState:
        """The state that `export` wrote. Raises whatever another shape leads to."""
        if not {"history", "queue", "runs"} <= data.keys():
            raise KeyError("this is no state of the engine")
        state = msgspec.convert({"named": True} | data, cls, dec_hook=lambda kind, part: kind.restore(part))
        state.history.limit, state.asked_apart, state.ledger.going = state.context_window, 0, False
        return state


def _title(text: str) -> str:
    """The first words: what a session is called until it gets a better title (W18)."""
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:59].rsplit(" ", 1)[0] + "…"
