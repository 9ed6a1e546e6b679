"""The engine's state: folded from the stream, and saved in it from time to time for a fast resume."""

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
from tui_agent.common.speed import generation_rate
from tui_agent.engine.core.history import History
from tui_agent.engine.core.saved_copies import fold_saved_copies
from tui_agent.engine.core.stream import STREAMED, EventStream
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.recovery import RecoveryReport
from tui_agent.text import SecretMask, clean, one_line

log = logging.getLogger(__name__)

PENDING_MENTIONS_MAX = 10
"""User messages remembered for unresolved mentions."""
SEEN_MAX = 5_000
"""Files whose hash is remembered across processes."""


# --- session facts (H6) ---

MAX_FACTS = 100
"""Facts retained of each kind."""
SHOWN_NAMES = 8
"""Newest names per line shown to the model, and twice the entries of each kind."""
FULL, SMALL = 1_200, 500
"""Maximum characters of the facts; the second one for windows of at most SMALL_WINDOW tokens."""
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
_IGNORED_CODES = frozenset(
    ("duplicate", "too_many", "interrupted", "refused", "unknown_tool", "bad_arguments", "unsaved")
)
"""Result codes of calls that say nothing about the project."""
_LINES = re.compile(r":\d+-\d*$")


class Notes(msgspec.Struct, rename={"remarks": "wishes", "results": "found"}):
    """Facts by kind, without duplicates, newest last."""

    read: dict[str, str] = {}
    """File → empty."""
    written: dict[str, str] = {}
    """File → `created`, `changed` or `deleted`."""
    failed: dict[str, str] = {}
    """Tool and title → error; removed when the same call succeeds."""
    remarks: dict[str, str] = {}
    """Subject of a decision → the user's words."""
    results: dict[str, str] = {}
    """Search → result."""


class SessionFacts:
    """Collects the session facts. `fold` applies every event in order."""

    def __init__(self) -> None:
        self.notes = Notes()
        self.hidden = Notes()
        """The notes about what the model no longer sees."""
        self._open: dict[str, tuple[str, str]] = {}
        """Call id → tool and title."""
        self._subjects: dict[str, str] = {}
        """Request id → subject."""

    # --- folding ---

    def fold(self, event: events.Event) -> None:
        """Apply an event."""
        match event:
            case events.ToolStarted(call=call, title=title, agent=""):
                self._open[call.id] = call.name, one_line(clean(title), 120)
            case events.ToolFinished(agent=""):
                self._fold_result(event)
            case events.FileChanged(change=change):
                action = {"create": "created", "modify": "changed", "delete": "deleted"}[change.kind]
                is_new = self.notes.written.get(change.display) == "created" and action == "changed"
                _note(self.notes.written, change.display, "created" if is_new else action)
            case events.ContextAttached(items=items):
                for item in items:
                    _note(self.notes.read, item.display)
            case events.UndoFinished(items=items, kind=kind) if kind != "redo":
                for file in items:
                    if file.outcome == "restored":
                        self.notes.written.pop(file.display, None)
            case events.RunStarted():
                self._hide_all()
            case events.ConversationRewound(cleared=True):
                self.notes, self.hidden = Notes(), Notes()
            case events.ContextCompacted(summary=summary, by="model") if summary:
                self._hide_all()  # a summary by the program contains the facts
            case _:
                self._fold_decision(event)

    def _hide_all(self) -> None:
        """Mark all notes as no longer visible to the model."""
        self.hidden = _notes(_pairs(self.notes))

    def _fold_result(self, event: events.ToolFinished) -> None:
        name, title = self._open.pop(event.call_id, (event.name, ""))
        result, key = event.result, one_line(f"{name} {title}", 120)
        if not result.success:
            if result.code not in _IGNORED_CODES:
                _note(self.notes.failed, key, _error_summary(event.text))
            return
        self.notes.failed.pop(key, None)
        if name in _READERS:
            _note(self.notes.read, _LINES.sub("", title))
        elif name in _FINDERS and not event.text.startswith(("No matches", "Not available")):
            _note(self.notes.results, key, _result_summary(name, event.text))

    def _fold_decision(self, event: events.Event) -> None:
        match event:
            case events.ApprovalRequested(id=key, action=action):
                self._subjects[key] = _subject(action)
            case events.QuestionAsked(id=key, question=question):
                self._subjects[key] = f'to "{one_line(clean(question), 100)}"'
            case events.ApprovalAnswered(id=key, answer=answer):
                subject = self._subjects.pop(key, "")
                if subject and answer.verdict == "reject" and answer.text and answer.by == "user":
                    _note(self.notes.remarks, f"when rejecting {subject}", one_line(clean(answer.text), 160))
            case events.QuestionAnswered(id=key, answer=answer):
                subject = self._subjects.pop(key, "")
                if subject and answer.verdict == "reply" and answer.text:
                    _note(self.notes.remarks, subject, one_line(clean(answer.text), 160))

    # --- rendering ---

    def render(self, window: int | None = None, plan: str = "", left_out: int = 0) -> str:
        """Return the facts as lines for a model with a context window of `window` tokens.

        Files named in the plan document `plan` are omitted. `left_out` user messages are not visible anymore (H2).
        """
        room = SMALL if window is not None and window <= SMALL_WINDOW else FULL
        notes = self.hidden
        written = {name: action for name, action in notes.written.items() if not _is_named(plan, name)}
        read = {name: "" for name in notes.read if name not in notes.written and not _is_named(plan, name)}
        messages = "1 earlier message" if left_out == 1 else f"{left_out} earlier messages"
        lines = [
            f"Not shown here any more: {messages} of the user, and the answers" if left_out else "",
            *(f"The user said {subject}: {words}" for subject, words in _newest(notes.remarks)),
            _names_line("Files that were written", [f"{name} ({action})" for name, action in written.items()]),
            *(f"Failed: {call}: {error}" for call, error in _newest(notes.failed)),
            _names_line("Files that were read", list(read)),
            *(f"Found by {search}: {result}" for search, result in _newest(notes.results)),
        ]
        rows: list[str] = []
        for line in filter(None, lines):
            room -= len(line) + 3
            if room < 0:
                break
            rows.append(f"- {line}")
        return "\n".join(rows)

    # --- saving ---

    def export(self) -> dict[str, Any]:
        """Return plain data for `state.saved`."""
        return {"notes": _pairs(self.notes), "behind": _pairs(self.hidden)}

    @classmethod
    def restore(cls, data: object) -> SessionFacts:
        """Restore what `export` returned. Raises msgspec.ValidationError."""
        saved = msgspec.convert(data, dict[str, dict[str, list[tuple[str, str]]]])
        facts = cls()
        facts.notes, facts.hidden = _notes(saved.get("notes", {})), _notes(saved.get("behind", {}))
        return facts


def _pairs(notes: Notes) -> dict[str, list[tuple[str, str]]]:
    """Return the notes as plain data for `state.saved`, preserving their order."""
    return {name: list(facts.items()) for name, facts in msgspec.to_builtins(notes).items()}


def _notes(pairs: dict[str, list[tuple[str, str]]]) -> Notes:
    return msgspec.convert({name: dict(facts) for name, facts in pairs.items()}, Notes)


def _note(facts: dict[str, str], key: str, value: str = "") -> None:
    if key := one_line(clean(key), 160):
        put_bounded(facts, key, value, MAX_FACTS)


def _newest(facts: dict[str, str]) -> list[tuple[str, str]]:
    return list(facts.items())[-SHOWN_NAMES // 2 :]


def _names_line(label: str, names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - SHOWN_NAMES} before" if len(names) > SHOWN_NAMES else ""
    return f"{label}: {', '.join(names[-SHOWN_NAMES:])}{more}"


def _is_named(text: str, name: str) -> bool:
    """Return True if a text mentions this file; `data.py` does not mention `a.py`."""
    pattern = rf"(?<![\w.-])(?<!\w/){re.escape(name)}(?![\w-]|[./]\w)"
    return name in text and re.search(pattern, text) is not None


def _error_summary(text: str) -> str:
    """Return the first line of an error, and the last one if it has more than two."""
    lines = [line for line in clean(text).splitlines() if line.strip()]
    first = one_line(lines[0].removeprefix("Error: "), 120) if lines else "no reason given"
    return f"{first} … {one_line(lines[-1], 80)}" if len(lines) > 2 else first


def _result_summary(name: str, text: str) -> str:
    if name != "search_workspace":
        return one_line(text[:400], 160)
    files = re.findall(r"^── (.+) ──$", text, re.MULTILINE)
    names = ", ".join(files[:4])
    return f"in {len(files)} files: {names}, …" if len(files) > 4 else f"in {names}"


def _subject(action: Action) -> str:
    match action:
        case EditAction(display=display):
            return f"a change of {display}"
        case RunAction(command=command):
            return f"`{one_line(clean(command), 80)}`"
        case ReadAction(display=display):
            return f"reading {display}"
    return ""


# --- stream and state ---


class SessionStream(EventStream):
    """The stream of a session: folds every event into the engine's state as it is emitted."""

    state: EngineState


async def open_stream(folder: SessionFolder, mask: SecretMask) -> tuple[SessionStream, RecoveryReport]:
    """Open the session's stream and restore its state. Raises AppendError."""
    stream, recovered = await SessionStream.open(folder, mask)
    stream.state = await asyncio.to_thread(_restore_state, stream)
    stream.on_emit = stream.state.fold
    return stream, recovered


def _restore_state(stream: EventStream) -> EngineState:
    """Restore the last saved state and fold later events; replay the whole journal if there is no valid state."""
    state, after = EngineState(), 0
    saved = stream.last_state()
    if saved is not None:
        try:
            after, state = saved[0], EngineState.restore(saved[1])
        except Exception:  # from another version, or damaged: the journal has everything
            log.exception("the saved state can't be used; the journal is replayed from its beginning")
            state, after = EngineState(), 0
    for record in stream.records(after):
        if type(record.event) not in STREAMED:
            state.fold(record.event, record.run)
    return state


class QueuedMessage(msgspec.Struct):
    """A message waiting for its turn."""

    id: str
    text: str
    steering: bool = False


_SAVED_NAMES = {
    "facts": "memory",
    "pending_mentions": "fresh",
    "saved_copies": "asides",
    "side_requests": "asked_apart",
}
"""Names of fields in `state.saved` that differ from those here."""


class EngineState(msgspec.Struct, rename=_SAVED_NAMES):
    """State folded from all events; `export` and `restore` convert it for `state.saved`."""

    history: History = msgspec.field(default_factory=History)
    facts: SessionFacts = msgspec.field(default_factory=SessionFacts)
    """Session facts about what the model no longer sees (H6)."""
    ledger: Ledger = msgspec.field(default_factory=Ledger)
    """Edits that can be undone (K1)."""
    rewound: list[Any] | None = None
    """The conversation before a rewind, for `/redo`; dropped with the next message."""
    rewound_with: str = ""
    """The undo that restored the files in that rewind; empty if none did."""
    rewound_after: str = ""
    """The newest undo that could be redone at that rewind; empty if there was none."""
    queue: list[QueuedMessage] = []
    grants: list[Grant] = []
    seen: dict[str, str] = {}
    """Path → sha256 of files as last read or written by the agent, newest last."""
    pending_mentions: list[tuple[str, str]] = []
    """Id and text of user messages whose mentions are not attached yet (H7), possibly from an earlier run."""
    roots: tuple[str, ...] = ()
    """The workspace and its added folders."""
    runs: int = 0
    title: str = ""
    named: bool = False
    """True if the title is more than the first words of the conversation."""
    mode: str = ""
    approval_mode: str = ""
    """Chosen by the user; flags such as `exec --approve all` are valid for one process only."""
    model: str = ""
    provider: str = ""
    context_window: int | None = None
    chosen_model: str = ""
    """The model chosen by the user in this session; empty if settings chose it."""
    server: str = ""
    """Address of the server that the user chose from the list; empty for the one of the settings."""
    speeds: dict[str, float] = {}
    """Server and model, joined by a blank → tokens per second of its last reply (E9)."""
    answering: str = ""
    """The model that was asked last in the conversation."""
    roles: dict[str, str] = {}
    """Role → model chosen by the user."""
    efforts: dict[str, str] = {}
    """Role → reasoning effort chosen by the user; "" for all roles with work to do."""
    plan_sha256: str = ""
    """Hash of plan_doc.md as last shown, without proposals."""
    proposal: str = ""
    """Text of plan_doc.md with the pending proposal (P6)."""
    summaries: dict[str, dict[str, Any]] = {}
    """Id → summary that is undecided, or accepted but unwritten: offered again at the next attended start (X3)."""
    accepted: tuple[str, ...] = ()
    """Ids of accepted summaries that are not yet written."""
    saved_copies: dict[str, str] = {}
    """Name of a saved copy of plan_doc.md → its state, see `fold_saved_copies`."""
    log_entries: int = 0
    """Number of full log entries for the model in this run; 0 to use the setting."""
    side_requests: int = 0
    """Number of requests outside the conversation in this process."""
    protocol: str = ""
    """Current protocol; empty for the model's initial one."""

    def fold(self, event: events.Event, run: str = "") -> None:
        """Apply an event, live or replayed, with the run of its record."""
        if isinstance(event, events.ConversationRewound):
            self.rewound, self.pending_mentions = (self.history.export() if event.run or event.cleared else None), []
            self.rewound_with = event.undo
            self.rewound_after = self.ledger.redos[-1].id if self.ledger.redos else ""
        self.history.fold(event)
        self.facts.fold(event)
        self.ledger.fold(event, run)
        self.saved_copies = fold_saved_copies(self.saved_copies, event)
        self._fold_message(event)
        self._fold_work(event)
        self._fold_setting(event)
        self._fold_plan(event)

    def _fold_message(self, event: events.Event) -> None:
        match event:
            case events.UserMessageAdded(id=message, text=text):
                self.rewound = None
                self.pending_mentions = [*self.pending_mentions, (message, text)][-PENDING_MENTIONS_MAX:]
                self.queue = [queued for queued in self.queue if queued.id != message]
                self.title = self.title or _title(text)
            case events.MessageQueued(id=message, text=text, steering=steering):
                self.queue.append(QueuedMessage(message, text, steering))
            case events.MessageChanged(id=message, text=text, steering=steering):
                for queued in self.queue:
                    if queued.id == message:
                        queued.text = text
                        queued.steering = queued.steering if steering is None else steering
            case events.MessageMoved(id=message, before=before):
                moved = [queued for queued in self.queue if queued.id == message]
                others = [queued for queued in self.queue if queued.id != message]
                index = next((index for index, queued in enumerate(others) if queued.id == before), len(others))
                self.queue = [*others[:index], *moved, *others[index:]]
            case events.MessageWithdrawn(id=message):
                self.queue = [queued for queued in self.queue if queued.id != message]

    def _fold_work(self, event: events.Event) -> None:
        match event:
            case events.RunStarted():
                self.runs += 1
                self.log_entries = 0
            case events.RunEnded(outcome="done"):
                self.pending_mentions = []
            case events.ContextCompacted(entries=entries) if entries:
                self.log_entries = entries
            case events.ReplyStarted(role=role, model=model):
                self.side_requests += bool(role)
                self.answering = self.answering if role else model
            case events.ReplyEnded(role="", usage=usage):
                if self.answering == self.model and (rate := generation_rate(usage)):
                    self.speeds[f"{self.server} {self.model}"] = rate
            case events.ApprovalAnswered(answer=Answer(verdict="approve", scope=Scope.SESSION), grant=Grant() as grant):
                self.grants.append(grant)
            case events.GrantRevoked(grant=grant):
                self.grants = [other for other in self.grants if other != grant]
            case events.FileChanged(change=change):
                self._mark_seen(change.path, change.after)
            case events.ContextAttached(message=message, items=items):
                self.mentions_handled(message)
                for item in items:
                    self._mark_seen(item.path, item.sha256)
            case events.ToolFinished(agent="", seen=seen):
                for path, sha256 in seen.items():
                    self._mark_seen(path, sha256)

    def mentions_handled(self, message: str) -> None:
        """Forget a message whose mentions were attached, or can't be."""
        self.pending_mentions = [pending for pending in self.pending_mentions if pending[0] != message]

    def _mark_seen(self, path: str, sha256: str | None) -> None:
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
            case events.ModelChanged(provider=provider, model=model, context_window=window, server=server):
                if (provider, model, server) != (self.provider, self.model, self.server):
                    self.protocol = ""
                self.provider, self.model, self.context_window, self.server = provider, model, window, server
                self.chosen_model = model if event.by == "user" or model == self.chosen_model else ""
            case events.RoleChanged(role=role, model=model):
                self.roles.pop(role, None)
                self.roles |= {role: model} if model else {}
            case events.EffortChanged(role=role, effort=effort) if effort:
                self.efforts = self.efforts | {role: effort}
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
                    self.summaries = {key: saved for key, saved in self.summaries.items() if key not in self.accepted}
                    self.accepted = ()
            case events.PlanDocResolved(id="proposal"):
                self.proposal = ""
            case events.SummaryProposed(id=key, summary=summary):
                data = msgspec.to_builtins(summary)
                self.summaries = {other: saved for other, saved in self.summaries.items() if saved != data}
                self.summaries[key] = data
            case events.SummaryReviewed(id=key, outcome="discarded"):
                self.summaries.pop(key, None)
            case events.SummaryReviewed(id=key, outcome=outcome, summary=summary) if outcome != "pending":
                self.summaries[key] = msgspec.to_builtins(summary)
                self.accepted = (*self.accepted, key)

    def model_for(self, provider: str, configured: str | None, flags: Mapping[str, Any], server: str = "") -> str:
        """Return the model to use with `provider`; empty if unknown. `server` is the address of a server that the user
        chose from the list.

        In order: the command line, the user's choice in the session, the settings, the session's last model.
        """
        is_same = (provider, server) == (self.provider, self.server)
        chosen = self.chosen_model if is_same else ""
        configured = None if server else configured
        return flags.get("model") or chosen or configured or (self.model if is_same else "")

    def export(self) -> dict[str, Any]:
        """Return plain data for `state.saved`."""
        data: dict[str, Any] = msgspec.to_builtins(self, enc_hook=lambda part: part.export())
        return data

    @classmethod
    def restore(cls, data: dict[str, Any]) -> EngineState:
        """Restore what `export` returned. Raises an exception for other data."""
        if not {"history", "queue", "runs"} <= data.keys():
            raise KeyError("not a state of the engine")
        state = msgspec.convert({"named": True} | data, cls, dec_hook=lambda kind, part: kind.restore(part))
        state.history.limit, state.side_requests, state.ledger.run_in_progress = state.context_window, 0, False
        return state


def _title(text: str) -> str:
    """Return the first words of a message: the title until a better one is generated (W18)."""
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:59].rsplit(" ", 1)[0] + "…"
