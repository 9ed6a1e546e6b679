"""The session API: what screens and pages may ask of a session. Imports nothing of the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

from tui_agent.common.domain import Answer, Grant
from tui_agent.events import Record
from tui_agent.text import SecretMask


class GrantsApi(Protocol):
    """What the user allowed for longer than once."""

    def listed(self) -> tuple[Grant, ...]:
        """Every grant that holds."""
        ...

    async def revoke(self, grant: Grant) -> bool:
        """Take one back; False when it is gone already, or stays on disk (a notice says why)."""
        ...


class CheckpointsApi(Protocol):
    """What the session changed, and the way back (K1)."""

    def clear(self) -> None:
        """Forget the conversation; plan, files and session stay. Raises CannotUndo while a run is active."""
        ...


class MessageQueueApi(Protocol):
    """The messages that wait for their turn."""

    def order(self) -> list[tuple[str, bool]]:
        """Ids in the order in which they are sent, each with whether it guides the run that goes on."""
        ...

    def move(self, message: str, before: str = "") -> bool:
        """Put one before another one, or at the end."""
        ...

    def guide(self, message: str, steering: bool) -> bool:
        """Mean one for the run that goes on, or for one of its own."""
        ...

    def send(self) -> bool:
        """Begin with the first one; False when a run goes on."""
        ...


class SubagentsApi(Protocol):
    """The sub-agents that go on (T5)."""

    def interrupt(self, node: str) -> bool:
        """Stop the one that the call `node` sent; False when it has ended."""
        ...


class SessionParts(Protocol):
    """What a session is made of, and how it stands."""

    @property
    def id(self) -> str:
        """What `--resume` takes."""
        ...

    @property
    def mask(self) -> SecretMask:
        """What is hidden in everything that is displayed (A7)."""
        ...

    @property
    def begins(self) -> int:
        """Number of the last record from before this process."""
        ...

    @property
    def busy(self) -> bool:
        """True while a run is active."""
        ...

    @property
    def grants(self) -> GrantsApi:
        """The standing approvals."""
        ...

    @property
    def checkpoints(self) -> CheckpointsApi:
        """What runs changed, and the way back."""
        ...

    @property
    def subagents(self) -> SubagentsApi:
        """The running sub-agents."""
        ...

    @property
    def queue(self) -> MessageQueueApi:
        """The messages that wait."""
        ...


class SessionApi(SessionParts, Protocol):
    """Commands in, records out. Model and tool failures are records, never exceptions."""

    def tell_saving(self, tell: Callable[[str | None], None]) -> None:
        """Call `tell` with a sentence when saving begins to fail, with None when everything is saved again."""
        ...

    def follow(self, after: int = 0) -> AsyncIterator[Record]:
        """All records behind number `after`, the past first; ends when the session is closed."""
        ...

    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        """Send a message; it waits in the queue while a run is active, `before` another message if given. Returns the
        message's id: `message` if given."""
        ...

    def withdraw_message(self, message: str) -> bool:
        """Remove a message from the queue; False when it is not there anymore."""
        ...

    async def interrupt(self, *, at_once: bool = False) -> None:
        """Stop the run. While a plan is being made, only that is skipped, unless `at_once`."""
        ...

    def answer(self, request: str, answer: Answer) -> bool:
        """Settle a request; False when somebody else already did."""
        ...

    async def saved(self, request: str) -> None:
        """Wait until a given approval is on disk (nothing is done before), or can't be saved."""
        ...

    async def set_modes(self, mode: str | None = None, approval_mode: str | None = None) -> None:
        """Switch the mode, the approval mode, or both."""
        ...

    async def settle_plan(self, accept: bool, seen: str = "") -> bool:
        """Write or drop what is proposed for the plan document."""
        ...

    async def edit_plan(self, text: str, base: str = "") -> bool:
        """Write the user's own edit of the plan document, made in the text with the sha256 `base`."""
        ...

    def compact(self) -> None:
        """Make room in the context: before the next request of a run, immediately where none is active."""
        ...

    def look_for_model(self) -> None:
        """Ask the server again whether it is there; a missing one is reported on the stream."""
        ...

    async def run_shell(self, command: str) -> None:
        """Run a command of the user's own."""
        ...

    async def copy_journal(self, path: Path) -> None:
        """Write the whole journal to the new file `path`, including what can't be saved now. Raises OSError."""
        ...

    async def wait(self) -> None:
        """Until nothing is running anymore."""
        ...

    async def close(self, reason: str = "user") -> None:
        """End the session: stop the run, flush the log, end all processes."""
        ...
