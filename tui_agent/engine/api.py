"""The session API: the protocol through which surfaces use a session. Imports nothing from the engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Protocol

from tui_agent.common.domain import Answer, FolderTrustState, Grant
from tui_agent.events import Record
from tui_agent.text import SecretMask


class GrantsApi(Protocol):
    """The standing permissions."""

    def listed(self) -> tuple[Grant, ...]:
        """Return all grants in effect."""
        ...

    async def revoke(self, grant: Grant) -> bool:
        """Revoke a grant; False if it does not exist, or can't be removed from disk (a notice says why)."""
        ...


class TrustApi(Protocol):
    """The trust in the session's folders (A8)."""

    async def states(self) -> tuple[FolderTrustState, ...]:
        """Return the trust in each folder of the workspace; the first one is the workspace itself."""
        ...

    async def ask(self, folder: str) -> bool:
        """Ask the user whether to trust a folder of the workspace; return whether it is trusted now."""
        ...

    async def revoke(self, folder: str) -> bool:
        """Trust a folder no longer, from now on; False if it was not trusted."""
        ...


class CheckpointsApi(Protocol):
    """The saved states of files and conversation (K1)."""

    def clear(self) -> None:
        """Clear the conversation; plan, files and session stay. Raises CannotUndo while a run is active."""
        ...


class MessageQueueApi(Protocol):
    """The messages waiting for their turn."""

    def order(self) -> list[tuple[str, bool]]:
        """Return (id, is steering) of each message in sending order."""
        ...

    def move(self, message: str, before: str = "") -> bool:
        """Move a message before another one, or to the end. False if nothing changes."""
        ...

    def set_steering(self, message: str, steering: bool) -> bool:
        """Make a message steer the active run, or start its own. False if nothing changes."""
        ...

    def send(self) -> bool:
        """Start a run with the first message; False if a run is active or the queue is empty."""
        ...


class SubagentsApi(Protocol):
    """The running sub-agents (T5)."""

    def interrupt(self, node: str) -> bool:
        """Stop the sub-agent started by the call `node`; False if it has ended."""
        ...


class SessionParts(Protocol):
    """Properties and parts of a session."""

    @property
    def id(self) -> str:
        """Identifies the session, as in `--resume`."""
        ...

    @property
    def mask(self) -> SecretMask:
        """Hides secrets in everything displayed (A7)."""
        ...

    @property
    def replay_end(self) -> int:
        """Number of the last record from before this process."""
        ...

    @property
    def last(self) -> int:
        """Number of the newest record."""
        ...

    @property
    def busy(self) -> bool:
        """True while a run is active."""
        ...

    @property
    def grants(self) -> GrantsApi:
        """The standing permissions."""
        ...

    @property
    def unsaved(self) -> object | None:
        """After closing: what is not saved and where a copy is, as text by `str`; None if everything is saved."""
        ...

    @property
    def trust(self) -> TrustApi:
        """The trust in the session's folders."""
        ...

    @property
    def checkpoints(self) -> CheckpointsApi:
        """The saved states of files and conversation."""
        ...

    @property
    def subagents(self) -> SubagentsApi:
        """The running sub-agents."""
        ...

    @property
    def queue(self) -> MessageQueueApi:
        """The messages waiting for their turn."""
        ...


class SessionApi(SessionParts, Protocol):
    """Commands in, records out. Model and tool failures are records, never exceptions."""

    def watch_saving(self, on_change: Callable[[str | None], None]) -> None:
        """Call `on_change` with a message when saving begins to fail, and with None when everything is saved again."""
        ...

    def follow(self, after: int = 0) -> AsyncGenerator[Record, None]:
        """Yield all records after number `after`, past and future, until the session is closed."""
        ...

    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        """Send a message, or queue it (`before` another one) during a run. Returns its id: `message`, or a new one."""
        ...

    def withdraw_message(self, message: str) -> bool:
        """Remove a message from the queue; False if it is not queued anymore."""
        ...

    async def interrupt(self, *, at_once: bool = False) -> None:
        """Stop the run. During planning, only the wait for a plan is given up, unless `at_once`."""
        ...

    def answer(self, request: str, answer: Answer) -> bool:
        """Settle a request; False if it is not open anymore."""
        ...

    async def saved(self, request: str) -> None:
        """Wait until an approval is durable, or can't be saved. Nothing is executed before."""
        ...

    async def set_modes(self, mode: str | None = None, approval_mode: str | None = None) -> None:
        """Change the mode, the approval mode, or both."""
        ...

    async def settle_plan(self, accept: bool, seen: str = "") -> bool:
        """Write or drop the proposal with the sha256 `seen` for the plan document."""
        ...

    async def edit_plan(self, text: str, base: str = "") -> bool:
        """Write the user's edit of the plan document, made to the text with the sha256 `base`."""
        ...

    def compact(self) -> None:
        """Compact the context: before the next request of the active run, else immediately."""
        ...

    def look_for_model(self) -> None:
        """Query the server in the background; a missing model is reported on the stream."""
        ...

    async def run_shell(self, command: str) -> None:
        """Run a shell command of the user."""
        ...

    def background_jobs(self) -> tuple[str, ...]:
        """Return the command lines of what runs in the background; it ends with the session."""
        ...

    def can_be_resumed(self) -> bool:
        """Return whether the session is still on disk, where `--resume` looks for it. Does file IO."""
        ...

    async def copy_journal(self, path: Path) -> None:
        """Write the whole journal to the new file `path`, unwritten records included. Raises OSError."""
        ...

    async def wait(self) -> None:
        """Wait until no run is active."""
        ...

    async def close(self, reason: str = "user") -> None:
        """Stop the run, write everything, end all processes."""
        ...
