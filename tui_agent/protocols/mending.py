"""Arguments of a native call that are JSON but for the usual slips, read as those of calls in the text are (C4)."""

from __future__ import annotations

import msgspec

from tui_agent.domain import ToolCall
from tui_agent.protocols.repair import Unreadable, read


def mended(call: ToolCall) -> ToolCall:
    """The call with its arguments read, where they could not be read strictly and have one meaning; else as it is."""
    if call.fault is None or not call.name or not (raw := (call.raw or "").strip()):
        return call
    try:
        reading = read(raw)
        if isinstance(reading.value, str) and not raw[reading.end :].strip():
            raw = reading.value.strip()
            reading = read(raw)
    except Unreadable:
        return call
    whole = reading.cut != "inside" and not raw[reading.end :].strip("}] \t\r\n")
    if not whole or not isinstance(reading.value, dict):
        return call
    return msgspec.structs.replace(call, arguments=reading.value, fault=None, raw=None)
