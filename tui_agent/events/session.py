"""The session and what its user does."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from tui_agent.domain import Noun
from tui_agent.events.base import Event


class SessionOpened(Event, frozen=True, kw_only=True):
    """A process took the session into its hands: first start (`resumed` False) or resume."""

    type: ClassVar[str] = "session.opened"
    id: str
    version: str
    workspace: str
    roots: tuple[str, ...]
    provider: str
    model: str
    mode: str
    approval_mode: str
    trusted: bool
    resumed: bool = False
    question: str = ""
    """The opening question, the first line of chat_history.log."""
    sandbox: str = ""
    """What confines commands that nobody may have looked at: `bwrap`, `landlock`, `landlock: files only`, …; `none`
    where there is nothing, `off` by the settings; empty in records of earlier versions."""


class SessionClosed(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "session.closed"
    reason: str


class SessionRecovered(Event, frozen=True, kw_only=True):
    """What a start found after a crash (FAULTS 5.2)."""

    type: ClassVar[str] = "session.recovered"
    damaged: int = 0
    """Records that could not be read; they stay in the file."""
    offset: int | None = None
    size: int = 0
    sha256: str = ""
    interrupted: tuple[str, ...] = ()
    """Ids of tool calls that had begun and have no end: outcome unknown, never re-run."""
    void: tuple[str, ...] = ()
    """Ids of approvals that were open: void."""

    def told(self) -> str:
        """What a user is told of it; empty when nothing was left open and nothing is damaged."""
        said: list[str] = []
        if self.interrupted:
            calls = len(self.interrupted)
            said.append(
                "One tool call was interrupted: its outcome is unknown. It is not run again, and the model is told."
                if calls == 1
                else f"{calls} tool calls were interrupted: their outcome is unknown. "
                "They are not run again, and the model is told."
            )
        if self.void:
            requests = "One open request is" if len(self.void) == 1 else f"{len(self.void)} open requests are"
            said.append(f"{requests} void: nothing was done.")
        if self.damaged:
            records = "One record" if self.damaged == 1 else f"{self.damaged} records"
            said.append(f"{records} of the session could not be read; the bytes are kept as they are.")
        return " ".join(["The session ended without being closed.", *said]) if said else ""


class SessionForked(Event, frozen=True, kw_only=True):
    """Up to here the session is a copy of another one, which goes its own way (S3)."""

    type: ClassVar[str] = "session.forked"
    parent: str
    """Id of the other session."""
    before: str = ""
    """The message of the user's, as it was said, before which the copy ends; empty for all there was."""


class SessionTitled(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "session.titled"
    title: str


class StateSaved(Event, frozen=True, kw_only=True):
    """Engine state, so that a resume need not read all records before it."""

    type: ClassVar[str] = "state.saved"
    state: dict[str, Any]


class ModeChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "mode.changed"
    mode: str
    approval_mode: str
    by: str = "user"


class ModelChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "model.changed"
    provider: str
    model: str
    context_window: int | None = None
    by: str = ""
    """`user` when it was chosen in the session, and so holds for it whatever the settings say."""


class RoleChanged(Event, frozen=True, kw_only=True):
    """The user gave a role a model of its own for this session, or took it back (M5, M6)."""

    type: ClassVar[str] = "role.changed"
    role: str
    model: str = ""
    """Empty: as settings and models.json say."""


class Notice(Event, frozen=True, kw_only=True):
    """A sentence for the user that belongs to no other event."""

    type: ClassVar[str] = "notice"
    level: Literal["info", "warning", "error"]
    text: str
    code: str = ""
    """Stable name, such as `context.small` or `models.bad`."""


class UserSaid(Event, frozen=True, kw_only=True):
    """A message reached the conversation."""

    type: ClassVar[str] = "user.said"
    id: str
    text: str
    steering: bool = False
    """Given to a run that was already going on."""


class Attachment(Noun, frozen=True, kw_only=True):
    """A file, lines of it, or a folder that the user attached to a message by naming it (H7)."""

    display: str
    """As the user knows it, with the lines that were asked for: `src/a.py:L10-L50`."""
    path: str
    """Absolute, resolved."""
    kind: Literal["file", "lines", "folder"]
    label: str
    """What the model is told it is, and how much of it is there."""
    text: str
    """What the model gets."""
    note: str = ""
    """What was cut, for the user."""
    sha256: str | None = None
    """Of the whole file, where it was read as a whole."""


class ContextAttached(Event, frozen=True, kw_only=True):
    """What a message names was read and goes to the model in front of it (H7). History folds this."""

    type: ClassVar[str] = "context.attached"
    message: str
    """Id of the message."""
    items: tuple[Attachment, ...]


class MessageQueued(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.queued"
    id: str
    text: str
    steering: bool = False


class MessageChanged(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.changed"
    id: str
    text: str
    steering: bool | None = None
    """What it is meant for from now on; None leaves it."""


class MessageMoved(Event, frozen=True, kw_only=True):
    """A queued message has another place (R11.3)."""

    type: ClassVar[str] = "message.moved"
    id: str
    before: str = ""
    """Id of the message that it stands before; empty for the end, which is also its place when that one is gone."""


class MessageWithdrawn(Event, frozen=True, kw_only=True):
    type: ClassVar[str] = "message.withdrawn"
    id: str


class ProgramSaid(Event, frozen=True, kw_only=True):
    """The program tells the model something in the user's role: feedback, packets, context (W15, W16).

    Journaled so that a resumed session sends what it would have sent; never counted as a user message.
    """

    type: ClassVar[str] = "program.said"
    kind: str
    """Which tag wraps it: `feedback`, `control`, …"""
    text: str
    agent: str = ""
    """Id of the `run_subagent` call to whose sub-agent it is said; empty for the agent itself (T5)."""


class ShellRan(Event, frozen=True, kw_only=True):
    """A `!command` of the user's own."""

    type: ClassVar[str] = "shell.ran"
    command: str
    cwd: str
    output: str
    exit_code: int | None
