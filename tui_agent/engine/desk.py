"""What the loop needs of the session around it: the conversation as it stands, steering, ids, raw replies."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable

import msgspec

from tui_agent.domain import Message, ToolCall
from tui_agent.engine.context import assemble
from tui_agent.engine.plan_memory import PlanMemory
from tui_agent.engine.raw_replies import RawReplies
from tui_agent.engine.state import SessionStream
from tui_agent.events import UserSaid

ID_LETTERS = string.ascii_lowercase + string.digits


class SessionDesk:
    """The `Desk` of a session; `system` gives the system message of the next request."""

    def __init__(
        self, stream: SessionStream, memory: PlanMemory, raw: RawReplies, system: Callable[[], str]
    ) -> None:
        self._stream = stream
        self._memory = memory
        self._system = system
        self.keep_raw = raw.keep

    def context(self) -> tuple[Message, ...]:
        """System message, plan document and history as they are now (H1)."""
        state = self._stream.state
        plan = self._memory.text(state.log_entries or None)
        return assemble(self._system(), state.history.window(), plan, self._memory.proposals())

    def notes(self) -> str:
        """What happened before what the model sees, in a few lines; see SessionMemory (H6)."""
        state = self._stream.state
        plan = self._memory.text(state.log_entries or None)
        return state.memory.told(state.context_window, plan, state.history.left_out)

    def steer(self) -> bool:
        """Give the waiting steering messages to the run that is going on; True if there were any."""
        state = self._stream.state
        waiting = [queued for queued in state.queue if queued.steering]
        for queued in waiting:
            said = UserSaid(id=queued.id, text=queued.text, steering=True)
            self._stream.emit(said, run=f"run-{state.runs}")
        return bool(waiting)

    def new_call_id(self, call: ToolCall) -> ToolCall:
        """The call under an id of our own: servers repeat theirs, leave them out, or want nine letters and digits."""
        return msgspec.structs.replace(call, id="".join(secrets.choice(ID_LETTERS) for _ in range(9)))
