"""What the page needs of a session; the engine's `Session` fits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from tui_agent.domain import Answer
from tui_agent.events import Record
from tui_agent.text import Mask


class CheckpointsDoor(Protocol):
    """The way back."""

    def clear(self) -> None:
        """Forget the conversation."""
        ...


class QueueDoor(Protocol):
    """The messages that wait for their turn."""

    def order(self) -> list[tuple[str, bool]]:
        """Ids in the order in which they are sent."""
        ...

    def send(self) -> bool:
        """Begin with the first one."""
        ...


class WebDoor(Protocol):
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
    def busy(self) -> bool:
        """True while a run goes on."""
        ...

    @property
    def queue(self) -> QueueDoor:
        """The messages that wait."""
        ...

    @property
    def checkpoints(self) -> CheckpointsDoor:
        """What runs did, and the way back."""
        ...

    def follow(self, after: int = 0) -> AsyncIterator[Record]:
        """All records behind number `after`, the past first; ends when the session is closed."""
        ...

    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        """Say something; returns the message's id."""
        ...

    def withdraw_message(self, message: str) -> bool:
        """Take a message back from the queue."""
        ...

    async def interrupt(self) -> None:
        """Stop the run."""
        ...

    async def wait(self) -> None:
        """Until nothing is running any more."""
        ...

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Decide a request; False when somebody else already did."""
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

    async def run_shell(self, command: str) -> None:
        """Run a command of the user's own."""
        ...
