"""What the screen needs of a session; the engine's `Session` fits, and so does a recorded one in a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

from tui_agent.domain import Answer, Grant
from tui_agent.events import Record
from tui_agent.text import Mask


class GrantsDoor(Protocol):
    """What the user allowed for longer than once (R4.3)."""

    def listed(self) -> tuple[Grant, ...]:
        """Every grant that holds."""
        ...

    async def revoke(self, grant: Grant) -> bool:
        """Take one back; False when it is gone already, or stays on disk (a notice says why)."""
        ...


class QueueDoor(Protocol):
    """The messages that wait for their turn (R11.3)."""

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


class SubagentsDoor(Protocol):
    """The sub-agents that go on (T5)."""

    def interrupt(self, node: str) -> bool:
        """Stop the one that the call `node` sent; False when it has ended."""
        ...


class SessionDoor(Protocol):
    """Commands in, records out. Failures are records, never exceptions."""

    @property
    def id(self) -> str:
        """What `--resume` takes."""
        ...

    @property
    def mask(self) -> Mask:
        """What is hidden of all that is shown (A7)."""
        ...

    @property
    def begins(self) -> int:
        """Number of the last record from before this process."""
        ...

    @property
    def grants(self) -> GrantsDoor:
        """What the user allowed for longer than once."""
        ...

    @property
    def subagents(self) -> SubagentsDoor:
        """The sub-agents that go on."""
        ...

    @property
    def queue(self) -> QueueDoor:
        """The messages that wait."""
        ...

    def tell_saving(self, tell: Callable[[str | None], None]) -> None:
        """Call `tell` with a sentence when saving begins to fail, with None when all is saved again."""
        ...

    def follow(self, after: int = 0) -> AsyncIterator[Record]:
        """All records behind number `after`, the past first; ends when the session is closed."""
        ...

    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        """Say something; waits in the queue while a run goes on, `before` another message if given. Returns the
        message's id: `message` if given."""
        ...

    async def copy_journal(self, path: Path) -> None:
        """Write all that was told to the new file `path`, also what can't be saved now. Raises OSError."""
        ...

    def withdraw_message(self, message: str) -> bool:
        """Take a message back from the queue; False when it is not there any more."""
        ...

    async def interrupt(self, *, at_once: bool = False) -> None:
        """Stop the run. While a plan is waited for, that alone is given up, unless `at_once`."""
        ...

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Decide a request; False when somebody else already did."""
        ...

    async def saved(self, request: str) -> None:
        """Wait until an approval that was given is on disk, as nothing is done before, or can't be brought there."""
        ...

    async def set_modes(self, mode: str | None = None, approval_mode: str | None = None) -> None:
        """Switch the mode, the approval mode, or both."""
        ...

    def compact(self) -> None:
        """Make room in the context: before the next request of a run, at once where none goes on."""
        ...

    def look_for_model(self) -> None:
        """Ask the server again whether it is there; a missing one is told on the stream."""
        ...

    async def run_shell(self, command: str) -> None:
        """Run a command of the user's own."""
        ...

    async def close(self, reason: str = "user") -> None:
        """End the session: stop the run, flush the log, end all processes."""
        ...
