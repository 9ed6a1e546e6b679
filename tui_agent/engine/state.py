"""What the engine must remember between two processes: folded from the stream, saved as a snapshot now and then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from tui_agent.checkpoints.ledger import Ledger
from tui_agent.domain import Answer, Grant, Scope
from tui_agent.engine.history import History
from tui_agent.engine.plan_aside import folded
from tui_agent.engine.session_memory import SessionMemory
from tui_agent.engine.stream import EventStream
from tui_agent.events import (
    ApprovalAnswered,
    ContextAttached,
    ContextCompacted,
    ConversationRewound,
    Event,
    FileChanged,
    GrantRevoked,
    MessageChanged,
    MessageMoved,
    MessageQueued,
    MessageWithdrawn,
    ModeChanged,
    ModelChanged,
    PlanDocChanged,
    PlanDocSettled,
    ProtocolChanged,
    ReplyStarted,
    RoleChanged,
    RunEnded,
    RunStarted,
    SessionOpened,
    SessionTitled,
    SummaryOffered,
    SummarySettled,
    ToolFinished,
    UserSaid,
)
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.recovery import Recovered
from tui_agent.text import Mask

log = logging.getLogger(__name__)

FRESH_MAX = 10
"""Messages whose mentions are still to be looked at."""
SEEN_MAX = 5_000
"""Files whose bytes are remembered from one process to the next."""


class SessionStream(EventStream):
    """The stream of a session: every event goes through the engine's state as it is emitted, as it does on resume."""

    state: EngineState

    def emit(self, event: Event, *, run: str = "", node: str = "", parent: str = "") -> int:
        """See EventStream."""
        seq = super().emit(event, run=run, node=node, parent=parent)
        self.state.fold(event, run)
        return seq


async def open_stream(folder: SessionFolder, mask: Mask) -> tuple[SessionStream, Recovered]:
    """The session's stream with the engine's state as it was left. Raises AppendError."""
    stream, recovered = await SessionStream.open(folder, mask)
    assert isinstance(stream, SessionStream)
    stream.state = await asyncio.to_thread(_replayed, stream)
    return stream, recovered


def _replayed(stream: EventStream) -> EngineState:
    """The last saved state and what came after it; all from the beginning when there is none that can be read."""
    state, after = EngineState(), 0
    saved = stream.last_state()
    if saved is not None:
        try:
            after, state = saved[0], EngineState.restore(saved[1])
        except (
            Exception
        ):  # what was written on another day, by another program or by a disk: the journal has it all
            log.exception("the saved state can't be used; the journal is replayed from its beginning")
            state, after = EngineState(), 0
    for record in stream.records(after):
        state.fold(record.event, record.run)
    return state


class Queued(msgspec.Struct):
    """A message that waits for its turn."""

    id: str
    text: str
    steering: bool = False


class EngineState:
    """Folds every event; `export` and `restore` make the snapshot of `state.saved`."""

    def __init__(self) -> None:
        self.history = History()
        self.memory = SessionMemory()
        """What happened, for what the model does not see any more (H6)."""
        self.ledger = Ledger()
        """Edits that can be undone (K1)."""
        self.rewound: list[Any] | None = None
        """The conversation as it was before it was rewound, until something is said (`/redo`)."""
        self.queue: list[Queued] = []
        self.grants: list[Grant] = []
        self.seen: dict[str, str] = {}
        """Path → sha256 of files as the agent read or wrote them, the latest last."""
        self.fresh: list[tuple[str, str]] = []
        """Id and text of the user's messages whose mentions were not looked at yet (H7); those of a run that ended
        before it came to that are attached to the next message."""
        self.roots: tuple[str, ...] = ()
        """The workspace and the folders that were added to it."""
        self.runs = 0
        self.title = ""
        self.named = False
        """The title was given, and is not only the first words."""
        self.mode = ""
        self.approval_mode = ""
        """What the user switched to; flags of a start (`exec --approve all`) hold for that process only."""
        self.model = ""
        self.provider = ""
        self.context_window: int | None = None
        self.chosen_model = ""
        """The model that the user chose in the session; empty where settings did."""
        self.roles: dict[str, str] = {}
        """Role → the model that the user chose for it."""
        self.plan_sha256 = ""
        """Hash of plan_doc.md as it was shown last, proposals aside."""
        self.proposal = ""
        """What plan_doc.md would be with what the model proposed and nobody decided about (P6)."""
        self.summaries: dict[str, dict[str, Any]] = {}
        """Id → summary that nobody decided about, or that was accepted and is not in the plan yet: offered again at the
        next interactive start (X3)."""
        self.accepted: tuple[str, ...] = ()
        """Ids of those that were accepted."""
        self.asides: dict[str, str] = {}
        """Name of a text of plan_doc.md that was kept aside → what became of it, by `plan_aside.folded`."""
        self.log_entries = 0
        """How many entries of the plan's log the model gets whole in this run; 0 for as many as the settings say."""
        self.asked_apart = 0
        """Requests apart from the conversation, since the process began."""
        self.protocol = ""
        """In which form the model is asked for calls; empty for the one that it begins with."""

    def fold(self, event: Event, run: str = "") -> None:
        """Take in one event with the run of its record, live or replayed."""
        if isinstance(event, ConversationRewound):
            self.rewound = self.history.export() if event.run or event.cleared else None
            self.fresh = []
        elif isinstance(event, UserSaid):
            self.rewound = None
            self.fresh = [*self.fresh, (event.id, event.text)][-FRESH_MAX:]
        self.history.fold(event)
        self.memory.fold(event)
        self.ledger.fold(event, run)
        self.asides = folded(self.asides, event)
        match event:
            case MessageQueued(id=message, text=text, steering=steering):
                self.queue.append(Queued(message, text, steering))
            case MessageChanged(id=message, text=text, steering=meant):
                for queued in self.queue:
                    if queued.id == message:
                        queued.text = text
                        queued.steering = queued.steering if meant is None else meant
            case MessageMoved(id=message, before=before):
                self._move(message, before)
            case MessageWithdrawn(id=message) | UserSaid(id=message):
                self.queue = [queued for queued in self.queue if queued.id != message]
                if isinstance(event, UserSaid) and not self.title:
                    self.title = _title(event.text)
            case ApprovalAnswered(
                answer=Answer(verdict="approve", scope=Scope.SESSION), grant=Grant() as grant
            ):
                self.grants.append(grant)
            case GrantRevoked(grant=grant):
                self.grants = [one for one in self.grants if one != grant]
            case FileChanged() | ToolFinished() | ContextAttached():
                self._look(event)
            case RunStarted() | RunEnded():
                self._run(event)
            case ContextCompacted(entries=entries) if entries:
                self.log_entries = entries
            case _:
                self._fold_setting(event)

    def _run(self, event: RunStarted | RunEnded) -> None:
        if isinstance(event, RunStarted):
            self.runs += 1
            self.log_entries = 0
        elif event.outcome == "done":
            self.fresh = []

    def _move(self, message: str, before: str) -> None:
        moved = [one for one in self.queue if one.id == message]
        rest = [one for one in self.queue if one.id != message]
        place = next((place for place, one in enumerate(rest) if one.id == before), len(rest))
        self.queue = [*rest[:place], *moved, *rest[place:]]

    def _look(self, event: FileChanged | ToolFinished | ContextAttached) -> None:
        if isinstance(event, FileChanged):
            self._saw(event.change.path, event.change.after)
        elif isinstance(event, ContextAttached):
            self.looked_at(event.message)
            for item in event.items:
                self._saw(item.path, item.sha256)
        elif not event.agent:
            for path, sha256 in event.seen.items():
                self._saw(path, sha256)

    def looked_at(self, message: str) -> None:
        """What a message of the user's mentions was attached, or can't be."""
        self.fresh = [one for one in self.fresh if one[0] != message]

    def _saw(self, path: str, sha256: str | None) -> None:
        self.seen.pop(path, None)
        if sha256 is not None:
            self.seen[path] = sha256
        if len(self.seen) > SEEN_MAX:
            del self.seen[next(iter(self.seen))]

    def _fold_setting(self, event: Event) -> None:
        match event:
            case ReplyStarted(role=role):
                self.asked_apart += bool(role)
            case SessionTitled(title=title):
                self.title, self.named = title, True
            case ModeChanged(mode=mode, approval_mode=approval_mode):
                self.mode, self.approval_mode = mode, approval_mode
            case ProtocolChanged(protocol=protocol, fixed=fixed):
                self.protocol = "" if fixed else protocol
            case ModelChanged(provider=provider, model=model, context_window=window):
                if (provider, model) != (self.provider, self.model):
                    self.protocol = ""
                self.provider, self.model, self.context_window = provider, model, window
                self.chosen_model = model if event.by == "user" or model == self.chosen_model else ""
            case RoleChanged(role=role, model=model):
                self.roles.pop(role, None)
                self.roles |= {role: model} if model else {}
            case SessionOpened(mode=mode, roots=roots):
                self.mode, self.roots = mode, roots
            case PlanDocChanged(text=text, pending=True):
                self.proposal = text
            case PlanDocChanged(text=text, by=by, sha256=sha256):
                self.plan_sha256 = sha256
                if by in ("summary", "review") or text == self.proposal:
                    self.proposal = ""
                self._fold_summary(event)
            case PlanDocSettled(id="proposal"):
                self.proposal = ""
            case _:
                self._fold_summary(event)

    def _fold_summary(self, event: Event) -> None:
        match event:
            case SummaryOffered(id=key, summary=summary):
                data = msgspec.to_builtins(summary)
                self.summaries = {old: one for old, one in self.summaries.items() if one != data}
                self.summaries[key] = data
            case SummarySettled(id=key, outcome="discarded"):
                self.summaries.pop(key, None)
            case SummarySettled(id=key, outcome=outcome, summary=summary) if outcome != "pending":
                self.summaries[key] = msgspec.to_builtins(summary)
                self.accepted = (*self.accepted, key)
            case PlanDocChanged(by="summary", pending=False):
                for key in self.accepted:
                    self.summaries.pop(key, None)
                self.accepted = ()

    def model_for(self, provider: str, configured: str | None, flags: Mapping[str, Any]) -> str:
        """The model to go on with on a server of `provider`: the one of the command line, the one that the user chose
        in the session, the settings', else the one it had. Empty where all of them are silent."""
        same = provider == self.provider
        kept = self.chosen_model if same else ""
        return flags.get("model") or kept or configured or (self.model if same else "")

    def export(self) -> dict[str, Any]:
        """Plain data for `state.saved`."""
        return {
            "history": self.history.export(),
            "queue": msgspec.to_builtins(self.queue),
            "grants": msgspec.to_builtins(self.grants),
            "seen": dict(self.seen),
            "fresh": list(self.fresh),
            "roots": list(self.roots),
            "runs": self.runs,
            "title": self.title,
            "named": self.named,
            "mode": self.mode,
            "approval_mode": self.approval_mode,
            "model": self.model,
            "provider": self.provider,
            "context_window": self.context_window,
            "chosen_model": self.chosen_model,
            "roles": dict(self.roles),
            "plan_sha256": self.plan_sha256,
            "proposal": self.proposal,
            "summaries": dict(self.summaries),
            "accepted": list(self.accepted),
            "asides": dict(self.asides),
            "protocol": self.protocol,
            "log_entries": self.log_entries,
            "ledger": self.ledger.export(),
            "memory": self.memory.export(),
            "rewound": self.rewound,
        }

    @classmethod
    def restore(cls, data: dict[str, Any]) -> EngineState:
        """The state that `export` wrote. Raises whatever another shape leads to."""
        state = cls()
        state.history = History.restore(data["history"])
        state.queue = msgspec.convert(data["queue"], list[Queued])
        state.grants = msgspec.convert(data["grants"], list[Grant])
        state.seen = msgspec.convert(data["seen"], dict[str, str])
        state.fresh = msgspec.convert(data.get("fresh", []), list[tuple[str, str]])
        state.roots = msgspec.convert(data["roots"], tuple[str, ...])
        state.runs = msgspec.convert(data["runs"], int)
        for name in ("title", "mode", "approval_mode", "model", "provider"):
            setattr(state, name, msgspec.convert(data[name], str))
        state.named = msgspec.convert(data.get("named", True), bool)
        state.protocol = msgspec.convert(data.get("protocol", ""), str)
        state.chosen_model = msgspec.convert(data.get("chosen_model", ""), str)
        state.roles = msgspec.convert(data.get("roles", {}), dict[str, str])
        state.log_entries = msgspec.convert(data.get("log_entries", 0), int)
        state.context_window = msgspec.convert(data["context_window"], int | None)
        state.history.limit = state.context_window
        state.plan_sha256 = str(data.get("plan_sha256", ""))
        state.proposal = msgspec.convert(data.get("proposal", ""), str)
        state.summaries = msgspec.convert(data.get("summaries", {}), dict[str, dict[str, Any]])
        state.accepted = msgspec.convert(data.get("accepted", ()), tuple[str, ...])
        state.asides = msgspec.convert(data.get("asides", {}), dict[str, str])
        if "ledger" in data:
            state.ledger = Ledger.restore(data["ledger"])
        if "memory" in data:
            state.memory = SessionMemory.restore(data["memory"])
        rewound = data.get("rewound")
        state.rewound = rewound if isinstance(rewound, list) else None
        return state


def _title(text: str) -> str:
    """The first words: what a session is called until it gets a better title (W18)."""
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:59].rsplit(" ", 1)[0] + "…"
