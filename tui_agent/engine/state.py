"""What the engine must remember between two processes: folded from the stream, saved as a snapshot now and then."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from tui_agent.domain import Answer, FileChange, Grant, Scope
from tui_agent.engine.history import History
from tui_agent.engine.stream import EventStream
from tui_agent.events import (
    ApprovalAnswered,
    Event,
    FileChanged,
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
        self.state.fold(event)
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
        state.fold(record.event)
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
        self.summary: dict[str, Any] | None = None
        """A summary that nobody decided about; offered again at the next interactive start (X3)."""
        self.protocol = ""
        """In which form the model is asked for calls; empty for the one that it begins with."""

    def fold(self, event: Event) -> None:
        """Take in one event, live or replayed."""
        self.history.fold(event)
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
            case FileChanged(change=change):
                self._fold_change(change)
            case RunStarted():
                self.runs += 1
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
            case SummaryOffered(summary=summary):
                self.summary = msgspec.to_builtins(summary)
            case SummarySettled(outcome=outcome) if outcome != "pending":
                self.summary = None

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
            "summary": self.summary,
            "protocol": self.protocol,
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
        state.context_window = msgspec.convert(data["context_window"], int | None)
        state.plan_sha256 = str(data.get("plan_sha256", ""))
        summary = data.get("summary")
        state.summary = summary if isinstance(summary, dict) else None
        return state


def _title(text: str) -> str:
    """The first words: what a session is called until it gets a better title (W18)."""
    words = " ".join(text.split())
    return words if len(words) <= 60 else words[:59].rsplit(" ", 1)[0] + "…"
