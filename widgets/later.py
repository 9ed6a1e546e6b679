"""Something to do once, after a while."""

from __future__ import annotations

from asyncio import TimerHandle, get_running_loop
from collections.abc import Callable

from textual.message_pump import MessagePump


def after(seconds: float, node: MessagePump, do: Callable[[], object]) -> TimerHandle:
    """`do` is called by `node`, once, not before `seconds` are over; `cancel()` of what comes back calls it off.

    Textual's own timer for one call is dropped without a call when the process is held up for longer than
    `seconds` just as it starts (it takes the call for one that was missed), which a busy machine does.
    """
    return get_running_loop().call_later(seconds, node.call_later, do)
