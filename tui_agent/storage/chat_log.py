"""`chat_history.log`: the session as readable text, an append-only file for `tail -f` (S2)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from tui_agent import events as e
from tui_agent.common.bounded import put_bounded
from tui_agent.common.domain import EditAction, ToolCall, ToolResult
from tui_agent.events.narration import OPENING, diff_text, duration_text, fault_text, narrate
from tui_agent.text import DisplayStream, SecretMask, clean, make_visible, reveal
from tui_agent.text.json_values import map_strings

_BRACKET = re.compile(r"(?<=\n)\[")

_HEAD_LINES, _TAIL_LINES = 64, 512
_MAX_DIFFS = 64
_MAX_PARTIAL_LINE = 4096
"""Limits of the remembered live output and shown diffs."""


class _Reply(msgspec.Struct):
    """A reply being received."""

    reasoning_start: str = msgspec.field(default="", name="thinking")
    """When reasoning started; empty if it was logged or there was none."""
    has_reasoning: bool = msgspec.field(default=False, name="thought")
    streamed: bool = False
    """The log contains text of it."""


class _LiveOutput(msgspec.Struct):
    """Checksums of the live output lines of a running call that are already in the log."""

    head: list[int] = msgspec.field(default_factory=list)
    tail: list[int] = msgspec.field(default_factory=list)
    partial_line: str = msgspec.field(default="", name="rest")

    def add(self, text: str) -> None:
        lines = (self.partial_line + text).split("\n")
        self.partial_line = lines.pop()[:_MAX_PARTIAL_LINE]
        for line in lines:
            self._remember_line(line)

    def _remember_line(self, line: str) -> None:
        checksum = _checksum(line)
        if len(self.head) < _HEAD_LINES:
            self.head.append(checksum)
        else:
            self.tail.append(checksum)
            if len(self.tail) > 2 * _TAIL_LINES:
                del self.tail[:-_TAIL_LINES]

    def new_lines(self, text: str) -> str:
        """Return the lines of `text` that are not in the live output."""
        if self.partial_line:
            self.add("\n")
        logged = {*self.head, *self.tail}
        return "\n".join(line for line in text.split("\n") if _checksum(line) not in logged).strip("\n")


class _State(msgspec.Struct):
    """The state between records, as plain data so that it can be saved."""

    open_entry: str = msgspec.field(default="", name="growing")
    """The entry that more text may be appended to."""
    at_line_start: bool = msgspec.field(default=True, name="fresh")
    """The log is empty or ends with a newline."""
    stamp: str = ""
    last_reply: int = msgspec.field(default=0, name="spoken")
    """Checksum of the last reply, which the end of a run does not repeat."""
    replies: dict[str, _Reply] = msgspec.field(default_factory=dict)
    live: dict[str, _LiveOutput] = msgspec.field(default_factory=dict)
    diffs: dict[str, int] = msgspec.field(default_factory=dict)


class ChatLog:
    """Projects records to log text. The output depends only on the records and the mask."""

    def __init__(self, mask: SecretMask | None = None) -> None:
        self._mask = mask or SecretMask({})
        self._state = _State()
        self._streams: dict[str, DisplayStream] = {}
        self._projections: dict[type[e.Event], Callable[[e.Record, Any], str]] = {
            e.SessionOpened: self._project_session_opened,
            e.ReplyStarted: self._project_reply_started,
            e.ReasoningDelta: self._project_reasoning,
            e.TextDelta: self._project_text,
            e.ReplyEnded: self._project_reply_ended,
            e.RunEnded: self._project_run_ended,
            e.ToolStarted: self._project_tool_started,
            e.ToolOutput: self._project_tool_output,
            e.ToolFinished: self._project_tool_finished,
            e.FileChanged: self._project_file_changed,
            e.UserShellCommand: self._project_shell,
        }

    def project(self, record: e.Record) -> str:
        """Return the text that a record adds to the log; clean, masked, valid UTF-8."""
        return self._projections.get(type(record.event), self._project_narrated)(record, record.event)

    def state(self) -> dict[str, Any]:
        """Return the state as plain data, without text held back by streams."""
        state: dict[str, Any] = msgspec.to_builtins(self._state)
        return state

    def restore(self, state: object) -> None:
        """Restore a result of `state()`; reset if it is invalid."""
        try:
            self._state = msgspec.convert(state, _State)
        except msgspec.ValidationError:
            self._state = _State()

    def start_new_entry(self, at_line_start: bool) -> None:
        """Start a new entry because the file was changed. `at_line_start`: it ends with a newline."""
        self._state.open_entry = ""
        self._state.at_line_start = at_line_start

    # --- entries ---------------------------------------------------------------------------

    def _project_narrated(self, record: e.Record, event: e.Event) -> str:
        narration = narrate(event)
        if narration is None:
            return ""
        if isinstance(event, e.ApprovalRequested) and isinstance(event.action, EditAction):
            put_bounded(self._state.diffs, event.action.display, _checksum(narration.details), _MAX_DIFFS)
        return self._entry(record, narration.role, "\n".join(filter(None, (narration.text, narration.details))))

    def _system(self, record: e.Record, text: str) -> str:
        return self._entry(record, "SYSTEM", text)

    def _project_session_opened(self, record: e.Record, event: e.SessionOpened) -> str:
        self._state.replies.clear()  # what an earlier process left unfinished stays so
        self._state.live.clear()
        self._streams.clear()
        question = "" if event.resumed else self._system(record, event.question or OPENING)
        return question + self._project_narrated(record, event)

    def _entry(self, record: e.Record, role: str, text: str) -> str:
        body = self._escape_brackets(self._masked(text)).rstrip("\n")
        head = self._header(record, role)
        self._state.open_entry = ""
        return f"{head}{body}\n"

    def _append(self, record: e.Record, role: str, key: str, text: str) -> str:
        """Append to the entry `key`, with a new header if another entry came in between."""
        if not text:
            return ""
        state = self._state
        head = "" if state.open_entry == key else self._header(record, role)
        begins_line = not head and state.at_line_start
        body = self._escape_brackets(text)
        if begins_line and body.startswith("["):
            body = f" {body}"
        state.open_entry = key
        state.at_line_start = body.endswith("\n")
        return head + body

    def _header(self, record: e.Record, role: str) -> str:
        state = self._state
        out = "" if state.at_line_start else "\n"
        state.at_line_start = True
        back = _seconds_back(state.stamp, record.at)
        stamp = record.at
        if back > 1:
            out += f"[{stamp}] SYSTEM: The clock was set back by {round(back)} s.\n"
        elif back > 0:
            stamp = state.stamp
        state.stamp = stamp
        return f"{out}[{stamp}] {role}: "

    def _masked(self, text: str) -> str:
        return reveal(self._mask.mask(clean(text)))

    @staticmethod
    def _escape_brackets(text: str) -> str:
        """Escape brackets at the start of a line, which mark entries."""
        return _BRACKET.sub(" [", text)

    def _project_shell(self, record: e.Record, event: e.UserShellCommand) -> str:
        return self._entry(record, "USER", f"!{event.command}") + self._project_narrated(record, event)

    # --- replies ---------------------------------------------------------------------------

    def _reply(self, record: e.Record) -> _Reply:
        return self._state.replies.setdefault(record.node, _Reply())

    def _project_reply_started(self, record: e.Record, _: e.ReplyStarted) -> str:
        self._state.replies[record.node] = _Reply()
        return ""

    def _project_reasoning(self, record: e.Record, _: e.ReasoningDelta) -> str:
        reply = self._reply(record)
        reply.has_reasoning = True
        reply.reasoning_start = reply.reasoning_start or record.at
        return ""

    def _reasoning_entry(self, record: e.Record, reply: _Reply, ms: int = 0) -> str:
        if not reply.reasoning_start:
            return ""
        ms = ms or round(-1000 * _seconds_back(reply.reasoning_start, record.at))
        reply.reasoning_start = ""
        return self._system(record, f"Thought for {duration_text(ms)}.")

    def _project_text(self, record: e.Record, event: e.TextDelta) -> str:
        reply = self._reply(record)
        out = self._reasoning_entry(record, reply)
        reply.streamed = reply.streamed or bool(event.text)
        return out + self._agent_text(record, self._stream(record).feed(clean(event.text)))

    def _agent_text(self, record: e.Record, text: str) -> str:
        return self._append(record, "AGENT", f"reply:{record.node}", text)

    def _stream(self, record: e.Record) -> DisplayStream:
        """Return the state of a stream, since a secret or an emoji may be split between deltas."""
        return self._streams.setdefault(record.node, DisplayStream(self._mask))

    def _project_reply_ended(self, record: e.Record, event: e.ReplyEnded) -> str:
        reply = self._state.replies.pop(record.node, None) or _Reply()
        stream = self._streams.pop(record.node, None)
        pending = self._agent_text(record, stream.flush()) if stream else ""
        if event.thought and not reply.has_reasoning:
            reply.reasoning_start = record.at
        out = pending + self._reasoning_entry(record, reply, event.thought_ms)
        if event.text.strip() and not reply.streamed and not event.role:
            out += self._entry(record, "AGENT", event.text)
        if event.text.strip() and not event.role:
            self._state.last_reply = _checksum(event.text)
        if event.fault is not None:
            out += self._system(record, fault_text(event.fault))
        elif event.interrupted:
            out += self._system(record, "The reply was stopped.")
        elif event.stop == "content_filter":
            out += self._system(record, "The server's content filter ended the reply.")
        return out

    def _project_run_ended(self, record: e.Record, event: e.RunEnded) -> str:
        if event.outcome != "done":
            return self._system(record, f"Run ended, {event.ending()}")
        if event.said:
            return self._system(record, event.facts) if event.facts else ""
        if event.text.strip() and _checksum(event.text) != self._state.last_reply:
            return self._entry(record, "AGENT", event.text)
        return ""

    # --- tools -----------------------------------------------------------------------------

    def _project_tool_started(self, record: e.Record, event: e.ToolStarted) -> str:
        by = " (by a sub-agent)" if event.agent else ""
        return self._entry(record, "TOOL_CALL", self._call_text(event.call) + by)

    def _call_text(self, call: ToolCall) -> str:
        arguments = call.arguments if call.raw is None else {"unreadable": call.raw}
        masked = map_strings(arguments, lambda text: make_visible(self._mask.mask(text), lookalikes="\n" not in text))
        return f"{call.name}({msgspec.json.encode(masked).decode()})"

    def _project_tool_output(self, record: e.Record, event: e.ToolOutput) -> str:
        return self._live(record, self._stream(record).feed(clean(event.text)))

    def _live(self, record: e.Record, text: str) -> str:
        if text:
            self._state.live.setdefault(record.node, _LiveOutput()).add(text)
        return self._append(record, "TOOL_RESULT", f"live:{record.node}", text)

    def _project_tool_finished(self, record: e.Record, event: e.ToolFinished) -> str:
        stream = self._streams.pop(record.node, None)
        out = self._live(record, stream.flush()) if stream else ""
        live = self._state.live.pop(record.node, None)
        text = self._masked(event.text)
        if live is not None:
            text = live.new_lines(text)
        if not text.strip():
            text = self._masked(_result_text(event.result, event.ms))
        return out + self._entry(record, "TOOL_RESULT", text)

    # --- changes ---------------------------------------------------------------------------

    def _project_file_changed(self, record: e.Record, event: e.FileChanged) -> str:
        """Leave out the diff if the approval has just shown it."""
        display, diff = event.change.display, diff_text(event.diff)
        if self._state.diffs.pop(display, None) != _checksum(diff):
            return self._project_narrated(record, event)
        narration = narrate(event)
        return "" if narration is None else self._system(record, narration.text)


def _checksum(text: str) -> int:
    return zlib.crc32(text.strip().encode("utf-8", "replace"))


def _result_text(result: ToolResult, ms: int) -> str:
    status = "Done" if result.success else f"Failed: {result.error}" if result.error else "Failed"
    return f"{status} in {duration_text(ms)}."


def _seconds_back(before: str, now: str) -> float:
    """Return how many seconds `now` is before `before`; 0 if a time is invalid."""
    try:
        return (datetime.fromisoformat(before) - datetime.fromisoformat(now)).total_seconds()
    except (ValueError, TypeError):
        return 0.0
