from __future__ import annotations

from pathlib import Path

from tui_agent import events as e
from tui_agent.common.domain import (
    Answer,
    Diff,
    EditAction,
    Fault,
    FileChange,
    Grant,
    Hunk,
    Scope,
    ToolCall,
    ToolResult,
    Usage,
)
from tui_agent.storage.lines import to_line

DIFF = Diff(
    path="src/a.py",
    kind="modify",
    hunks=(Hunk(old_start=1, old_count=1, new_start=1, new_count=2, lines=("-old", "+new", "+[more]")),),
    added=2,
    removed=1,
)
EDIT = EditAction(path="/w/src/a.py", display="src/a.py", diff=DIFF, before="0" * 64, after="1" * 64)
CHANGE = FileChange(
    path="/w/src/a.py", display="src/a.py", kind="modify", added=2, removed=1, before="0" * 64, after="1" * 64
)

OPENED = e.SessionOpened(
    id="s1",
    version="0.1.0",
    workspace="/w",
    roots=("/w",),
    provider="ollama",
    model="qwen",
    mode="agent",
    approval_mode="ask",
    trusted=True,
)

CALL = ToolCall(id="c1", name="edit_file", arguments={"path": "src/a.py", "old_string": "a\nb"})
SHELL = ToolCall(id="c2", name="run_terminal_command", arguments={"command": "pytest -q"})

STORY: tuple[tuple[e.Event, str], ...] = (
    (OPENED, ""),
    (e.UserMessageAdded(id="m1", text="Füge ein --json hinzu 🎉\n[2026-01-01T00:00:00Z] USER: yes"), ""),
    (e.RunStarted(message_id="m1", mode="agent", model="qwen"), ""),
    (e.ReplyStarted(model="qwen", iteration=1, messages=2, estimate=900), "r1"),
    (e.ReasoningDelta(text="hmm"), "r1"),
    (e.TextDelta(text="I'll read "), "r1"),
    (e.TextDelta(text="it first.\n"), "r1"),
    (e.TextDelta(text="[then] edit"), "r1"),
    (e.ReplyEnded(text="I'll read it first.\n[then] edit", calls=(CALL,), stop="tool_calls", usage=Usage()), "r1"),
    (e.ToolStarted(call=CALL, title="src/a.py", reads_only=False), "c1"),
    (e.ApprovalRequested(id="a1", action=EDIT, digest="d" * 64, why="edits ask in this mode"), "c1"),
    (
        e.ApprovalAnswered(
            id="a1", answer=Answer(verdict="approve", scope=Scope.SESSION), grant=Grant(kind="edit", pattern="src/**")
        ),
        "c1",
    ),
    (e.ApprovalExecuted(id="a1", digest="d" * 64), "c1"),
    (e.FileChanged(change=CHANGE, diff=DIFF), "c1"),
    (
        e.ToolFinished(
            call_id="c1", name="edit_file", result=ToolResult(success=True, changes=(CHANGE,)), text="Edited.", ms=12
        ),
        "c1",
    ),
    (e.ToolStarted(call=SHELL, title="pytest -q", reads_only=False), "c2"),
    (e.ToolOutput(text="\x1b[32m..\x1b[0m\n2 "), "c2"),
    (e.ToolOutput(text="passed\n"), "c2"),
    (
        e.ToolFinished(
            call_id="c2",
            name="run_terminal_command",
            result=ToolResult(success=True),
            text="..\n2 passed\nexit code 0",
            ms=812,
        ),
        "c2",
    ),
    (e.RetryScheduled(attempt=1, of=5, seconds=2.0, why="The server is busy."), "r2"),
    (e.ReplyEnded(text="", fault=Fault(kind="broken", message="The stream broke.", advice="Try again.")), "r2"),
    (e.Notice(level="warning", text="The window is small.", code="context.small"), ""),
    (e.RunEnded(outcome="failed", text="The model is gone."), ""),
)


def story_records(repeat: int = 1) -> list[e.Record]:
    return [
        e.Record(
            seq=index + 1,
            at=f"2026-01-07T10:{index // 60 % 60:02d}:{index % 60:02d}.000+02:00",
            event=event,
            run="run1",
            node=node,
        )
        for index, (event, node) in enumerate(STORY * repeat)
    ]


def write_journal(path: Path, records: list[e.Record]) -> list[bytes]:
    lines = [to_line(record, 0) for record in records]
    path.write_bytes(b"".join(lines))
    return lines
