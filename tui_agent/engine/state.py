"""What the engine must remember between two processes: folded from the stream, saved as a snapshot now and then."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tui_agent.checkpoints.ledger import Ledger
from tui_agent.domain import Answer, FileChange, Grant, Scope
from tui_agent.engine.history import History
from tui_agent.engine.stream import EventStream
from tui_agent.events import (
    ApprovalAnswered,
    ContextCompacted,
    ConversationRewound,
    Event,
    FileChanged,
    GrantRevoked,
    MessageChanged,
    MessageQueued,
    MessageWithdrawn,
    ModeChanged,
    ModelChanged,
    PlanDocChanged,
    ProtocolChanged,
    RunStarted,
    SessionOpened,
    SessionTitled,
    SummaryOffered,
    SummarySettled,
    UserSaid,
)
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.recovery import Recovered
from tui_agent.text import Mask

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
        except (msgspec.ValidationError, KeyError):
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
        self.ledger = Ledger()
        """Edits that can be undone (K1)."""
        self.rewound: list[Any] | None = None
        """The conversation as it was before it was rewound, until something is said (`/redo`)."""
        self.queue: list[Queued] = []
        self.grants: list[Grant] = []
        self.seen: dict[str, str] = {}
        """Path → sha256 of files as the agent wrote them, the latest last."""
        self.roots: tuple[str, ...] = ()
        """The workspace and the folders that were added to it."""
        self.runs = 0
        self.title = ""
        self.mode = ""
        self.approval_mode = ""
        """What the user switched to; flags of a start (`exec --approve all`) hold for that process only."""
        self.model = ""
        self.provider = ""
        self.context_window: int | None = None
        self.plan_sha256 = ""
        """Hash of plan_doc.md as it was shown last, proposals aside."""
        self.summaries: dict[str, dict[str, Any]] = {}
        """Id → summary that nobody decided about, or that was accepted and is not in the plan yet: offered again at the
        next interactive start (X3)."""
        self.accepted: tuple[str, ...] = ()
        """Ids of those that were accepted."""
        self.log_entries = 0
        """How many entries of the plan's log the model gets whole in this run; 0 for as many as the settings say."""
        self.protocol = ""
        """In which form the model is asked for calls; empty for the one that it begins with."""

    def fold(self, event: Event, run: str = "") -> None:
        """Take in one event with the run of its record, live or replayed."""
        if isinstance(event, ConversationRewound):
            self.rewound = self.history.export() if event.run else None
        elif isinstance(event, UserSaid):
            self.rewound = None
        self.history.fold(event)
        self.ledger.fold(event, run)
        match event:
            case MessageQueued(id=message, text=text, steering=steering):
                self.queue.append(Queued(message, text, steering))
            case MessageChanged(id=message, text=text):
                for queued in self.queue:
                    if queued.id == message:
                        queued.text = text
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
            case FileChanged(change=change):
                self._fold_change(change)
            case RunStarted():
                self.runs += 1
                self.log_entries = 0
            case ContextCompacted(entries=entries) if entries:
                self.log_entries = entries
            case _:
                self._fold_setting(event)

    def _fold_change(self, change: FileChange) -> None:
        self.seen.pop(change.path, None)
        if change.after is not None:
            self.seen[change.path] = change.after
        if len(self.seen) > SEEN_MAX:
            del self.seen[next(iter(self.seen))]

    def _fold_setting(self, event: Event) -> None:
        match event:
            case SessionTitled(title=title):
                self.title = title
            case ModeChanged(mode=mode, approval_mode=approval_mode):
                self.mode, self.approval_mode = mode, approval_mode
            case ProtocolChanged(protocol=protocol):
                self.protocol = protocol
            case ModelChanged(provider=provider, model=model, context_window=window):
                if (provider, model) != (self.provider, self.model):
                    self.protocol = ""
                self.provider, self.model, self.context_window = provider, model, window
            case SessionOpened(mode=mode, roots=roots):
                self.mode, self.roots = mode, roots
            case PlanDocChanged(sha256=sha256, pending=False):
                self.plan_sha256 = sha256
                self._fold_summary(event)
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

    def export(self) -> dict[str, Any]:
        """Plain data for `state.saved`."""
        return {
            "history": self.history.export(),
            "queue": msgspec.to_builtins(self.queue),
            "grants": msgspec.to_builtins(self.grants),
            "seen": dict(self.seen),
            "roots": list(self.roots),
            "runs": self.runs,
            "title": self.title,
            "mode": self.mode,
            "approval_mode": self.approval_mode,
            "model": self.model,
            "provider": self.provider,
            "context_window": self.context_window,
            "plan_sha256": self.plan_sha256,
            "summaries": dict(self.summaries),
            "accepted": list(self.accepted),
            "protocol": self.protocol,
            "log_entries": self.log_entries,
            "ledger": self.ledger.export(),
            "rewound": self.rewound,
        }

    @classmethod
    def restore(cls, data: dict[str, Any]) -> EngineState:
        """The state that `export` wrote. Raises msgspec.ValidationError or KeyError on another shape."""
        state = cls()
        state.history = History.restore(data["history"])
        state.queue = msgspec.convert(data["queue"], list[Queued])
        state.grants = msgspec.convert(data["grants"], list[Grant])
        state.seen = msgspec.convert(data["seen"], dict[str, str])
        state.roots = msgspec.convert(data["roots"], tuple[str, ...])
        state.runs = msgspec.convert(data["runs"], int)
        for name in ("title", "mode", "approval_mode", "model", "provider"):
            setattr(state, name, msgspec.convert(data[name], str))
        state.protocol = msgspec.convert(data.get("protocol", ""), str)
        state.log_entries = msgspec.convert(data.get("log_entries", 0), int)
        state.context_window = msgspec.convert(data["context_window"], int | None)
        state.plan_sha256 = str(data.get("plan_sha256", ""))
        state.summaries = msgspec.convert(data.get("summaries", {}), dict[str, dict[str, Any]])
        state.accepted = msgspec.convert(data.get("accepted", ()), tuple[str, ...])
        if "ledger" in data:
            state.ledger = Ledger.restore(data["ledger"])
        rewound = data.get("rewound")
        state.rewound = rewound if isinstance(rewound, list) else None
        return state


def _title(text: str) -> str:
    """The first words: what a session is called until it gets a better title (W18)."""
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:59].rsplit(" ", 1)[0] + "…"
