"""Writes the scenes: `python -m tests.scenes.build`. A new state of the screen is one small function here."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from tests.scenes import FOLDER
from tui_agent import events as e
from tui_agent.common.domain import (
    Action,
    Answer,
    Diff,
    EditAction,
    Fault,
    FileChange,
    Grant,
    Hunk,
    RunAction,
    Scope,
    Severity,
    ToolCall,
    ToolResult,
    TrustAction,
    Usage,
    action_digest,
)
from tui_agent.events import Event, Record, to_data

START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class Scene:
    """Appends records; time goes on by what is said."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.now = START
        self.run = ""
        self.node = ""
        self.last_reply = ""
        self.stage_id = ""
        self._calls = 0

    def wait(self, seconds: float) -> Scene:
        self.now += timedelta(seconds=seconds)
        return self

    def emit(self, event: Event, *, node: str | None = None, seconds: float = 0.01) -> Scene:
        self.wait(seconds)
        self.records.append(
            Record(
                seq=len(self.records) + 1,
                at=self.now.isoformat(timespec="milliseconds"),
                event=event,
                run=self.run,
                node=self.node if node is None else node,
                parent=self._above(self.node if node is None else node),
            )
        )
        return self

    def _above(self, node: str) -> str:
        """The node that the engine names as the one above."""
        if not node or not self.run:
            return ""
        if node.startswith("c"):
            return self.last_reply
        return self.run if node == self.stage_id else self.stage_id or self.run

    # --- sentences ---

    def opened(self, **more: Any) -> Scene:
        fields: dict[str, Any] = {
            "id": "2026-01-05T09:00:00.000+0000",
            "version": "0.1.0",
            "workspace": "/home/ada/exporter",
            "roots": ("/home/ada/exporter",),
            "provider": "ollama",
            "model": "qwen2.5-coder:7b",
            "mode": "direct",
            "approval_mode": "ask",
            "trusted": True,
        }
        return self.emit(e.SessionOpened(**(fields | more)), node="")

    def ask(self, text: str) -> Scene:
        self.run = f"run{sum(isinstance(r.event, e.UserMessageAdded) for r in self.records) + 1}"
        message = f"m-{self.run}"
        self.emit(e.UserMessageAdded(id=message, text=text), node="")
        return self.emit(e.RunStarted(message_id=message, mode="direct", model="qwen2.5-coder:7b"), node="")

    def enter(self, stage: str, title: str) -> Scene:
        self.stage_id = f"s-{stage}"
        return self.emit(e.StageStarted(stage=stage, title=title), node=self.stage_id)

    def leave(self, stage: str, ms: int) -> Scene:
        self.emit(e.StageEnded(stage=stage, outcome="ok", ms=ms), node=self.stage_id)
        self.stage_id = ""
        return self

    def reply(self, *, phases: tuple[str, ...] = ("reading",)) -> Scene:
        self.node = f"r{sum(isinstance(r.event, e.ReplyStarted) for r in self.records) + 1}"
        self.last_reply = self.node
        self.emit(e.ReplyStarted(model="qwen2.5-coder:7b", iteration=1, messages=2, estimate=1400))
        for phase in phases:
            self.emit(e.ReplyPhase(phase=phase), seconds=0.4)  # type: ignore[arg-type]  # the test names them
        return self

    def think(self, text: str, seconds: float = 3.0) -> Scene:
        self.emit(e.ReplyPhase(phase="thinking"), seconds=0.2)
        lines = text.split("\n")
        for number, part in enumerate(lines):
            end = "\n" if number < len(lines) - 1 else ""
            self.emit(e.ReasoningDelta(text=part + end), seconds=seconds / len(lines))
        return self

    def write(self, text: str, size: int = 24) -> Scene:
        for place in range(0, len(text), size):
            self.emit(e.TextDelta(text=text[place : place + size]), seconds=0.05)
        return self

    def end(self, text: str = "", *calls: ToolCall, **more: Any) -> Scene:
        usage = Usage(prompt_tokens=1450, completion_tokens=len(text) // 4)
        self.emit(e.ReplyEnded(text=text, calls=calls, usage=usage, ms=2400, **more))
        return self.emit(e.ContextMeasured(used=1450 + 10 * len(self.records), limit=32_768), node="")

    def call(self, name: str, **arguments: Any) -> ToolCall:
        self._calls += 1
        return ToolCall(id=f"c{self._calls}", name=name, arguments=arguments)

    def start(self, call: ToolCall, title: str, *, reads_only: bool = False) -> Scene:
        self.node = call.id
        return self.emit(e.ToolStarted(call=call, title=title, reads_only=reads_only))

    def output(self, *lines: str) -> Scene:
        for line in lines:
            self.emit(e.ToolOutput(text=line + "\n"), seconds=0.2)
        return self

    def finish(self, call: ToolCall, result: ToolResult, ms: int = 40, text: str | None = None) -> Scene:
        shown = text if text is not None else str(result.data or result.error or "")
        return self.emit(
            e.ToolFinished(call_id=call.id, name=call.name, result=result, text=shown, ms=ms), node=call.id
        )

    def request(self, action: Action, why: str, *grants: Grant, key: str = "q1") -> Scene:
        asked = e.ApprovalRequested(id=key, action=action, digest=action_digest(action), why=why, grants=grants)
        return self.emit(asked, seconds=0.05)

    def answer(self, verdict: Any = "approve", *, key: str = "q1", seconds: float = 4, **more: Any) -> Scene:
        answer = Answer(verdict=verdict, **more)
        return self.emit(e.ApprovalAnswered(id=key, answer=answer), seconds=seconds)

    def done(self, outcome: Any = "done", text: str = "", **more: Any) -> Scene:
        fields: dict[str, Any] = {"iterations": 3, "tool_calls": 3, "ms": 18_400}
        self.emit(e.RunEnded(outcome=outcome, text=text, **(fields | more)), node="")
        self.run = ""
        return self


# --- things that scenes share ---------------------------------------------------------------------

READ = 'def export(rows, fmt="table"):\n    return TABLE[fmt](rows)\n'
HUNK = Hunk(
    old_start=11,
    old_count=7,
    new_start=11,
    new_count=10,
    lines=(
        " from exporter.table import as_table",
        " ",
        '-def export(rows, fmt="table"):',
        "-    return as_table(rows)",
        '+def export(rows, fmt="table", *, indent=None):',
        '+    """Rows as a table, or as JSON when `fmt` is "json"."""',
        '+    if fmt == "json":',
        "+        return json.dumps(list(rows), indent=indent)",
        "+    return as_table(rows)",
        " ",
        " ",
        " def main(argv=None):",
    ),
)
EDIT = EditAction(
    path="/home/ada/exporter/src/export.py",
    display="src/export.py",
    before="0" * 64,
    after="1" * 64,
    diff=Diff(path="src/export.py", kind="modify", hunks=(HUNK,), added=5, removed=2),
)
CHANGE = FileChange(
    path=EDIT.path, display=EDIT.display, kind="modify", added=5, removed=2, before="0" * 64, after="1" * 64
)
TESTS = RunAction(
    command="python -m pytest -q tests/test_export.py",
    cwd="/home/ada/exporter",
    severity=Severity.MEDIUM,
    reasons=("runs the project's own code",),
)
TEST_GRANTS = (
    Grant(kind="run", pattern=TESTS.command, cwd=TESTS.cwd, scope=Scope.SESSION),
    Grant(kind="run", pattern=TESTS.command, cwd=TESTS.cwd, scope=Scope.ALWAYS),
)
ANSWER = """\
The exporter now speaks JSON. What changed:

1. `export()` takes `fmt="json"` and an optional **indent**.
2. The command line has a `--json` flag that uses it.

```python
def export(rows, fmt="table", *, indent=None):
    # rows may be a generator
    if fmt == "json":
        return json.dumps(list(rows), indent=indent)
    return as_table(rows)
```

| format | output | streaming |
|--------|--------|-----------|
| table  | aligned columns for reading | no |
| json   | one array of objects | no |

> Nothing else calls `export()` with positional arguments, so the new parameter is safe.

See [the guide](https://example.org/json) for *newline-delimited* output.
"""


def empty() -> Scene:
    return Scene().opened()


def _read(scene: Scene) -> Scene:
    scene.opened().ask("add a --json flag to the export command")
    scene.reply().think("The user wants JSON.\nFirst look at the exporter.", 3.2)
    first = scene.call("read_file", path="src/export.py")
    second = scene.call("search_workspace", query="export(")
    scene.write("I'll read the exporter first.")
    scene.end("I'll read the exporter first.", first, second, thought="Look first.", thought_ms=3200)
    scene.start(first, "src/export.py", reads_only=True).start(second, '"export("', reads_only=True)
    scene.finish(first, ToolResult(success=True, data=READ), 12)
    return scene.finish(second, ToolResult(success=True, data="── src/main.py ──\n→ 8: export("), 31)


def connecting() -> Scene:
    return Scene().opened().ask("add a --json flag to the export command").reply(phases=("loading",)).wait(12)


def thinking() -> Scene:
    scene = Scene().opened().ask("add a --json flag to the export command").reply()
    return scene.think("The user wants JSON output.\nThe exporter has a table writer only.\nA flag is enough.", 6)


def streaming() -> Scene:
    scene = Scene().opened().ask("what does the exporter do?").reply()
    return scene.write(ANSWER[:430])


def queued() -> Scene:
    scene = streaming()
    scene.emit(e.MessageQueued(id="m8", text="also update the README", steering=False), node="")
    return scene.emit(e.MessageQueued(id="m9", text="keep the old default", steering=True), node="")


def answered() -> Scene:
    scene = Scene().opened().ask("what does the exporter do?").reply().think("Short answer.", 1.4)
    scene.write(ANSWER).end(ANSWER, thought="Short answer.", thought_ms=1400, stop="stop")
    return scene.done(text=ANSWER, iterations=1, tool_calls=0)


def tools_read() -> Scene:
    return _read(Scene())


def _edit(scene: Scene) -> Scene:
    call = scene.call("edit_file", path="src/export.py")
    _read(scene).reply().emit(e.ReplyPhase(phase="writing", detail="edit_file src/export.py"))
    scene.end("", call).start(call, "src/export.py")
    glob = Grant(kind="edit", pattern="src/**", scope=Scope.SESSION)
    return scene.request(EDIT, "Approval mode ask: every edit is shown first.", glob)


def edit_asked() -> Scene:
    return _edit(Scene())


def _edited(scene: Scene) -> Scene:
    _edit(scene).answer()
    call = next(r.event.call for r in reversed(scene.records) if isinstance(r.event, e.ToolStarted))
    scene.emit(e.ApprovalExecuted(id="q1", digest=action_digest(EDIT)))
    scene.emit(e.FileChanged(change=CHANGE, diff=EDIT.diff))
    return scene.finish(call, ToolResult(success=True, data="Edited.", changes=(CHANGE,)), 48)


def _command(scene: Scene, action: RunAction = TESTS) -> tuple[Scene, ToolCall]:
    _edited(scene).reply()
    call = scene.call("run_terminal_command", command=action.command)
    scene.write("Now the tests.").end("Now the tests.", call).start(call, action.command)
    return scene.request(action, "This command runs the project's code.", *TEST_GRANTS, key="q2"), call


def command_asked() -> Scene:
    return _command(Scene())[0]


def command_hostile() -> Scene:
    scene = Scene().opened().ask("clean up").reply()
    text = "cat a.txt" + " " * 200 + "; rm -rf ~ # \u202e gnp.exe\u200b\x1b[2J\nprintf '[@click=app.quit]x[/]'"
    action = RunAction(
        command=text,
        cwd="/home/ada/exporter",
        severity=Severity.CRITICAL,
        reasons=("deletes the home folder", "holds control characters"),
        always_ask=True,
        env_changes=("PATH=/tmp/bin:$PATH",),
    )
    call = scene.call("run_terminal_command", command=text)
    scene.end("", call).start(call, "cat a.txt ; rm -rf ~")
    return scene.request(action, "Critical commands always ask.")


def command_running() -> Scene:
    scene, _call = _command(Scene())
    scene.answer(key="q2", scope=Scope.SESSION)
    scene.emit(e.ApprovalExecuted(id="q2", digest=action_digest(TESTS)))
    return scene.output("collected 3 items", "", "tests/test_export.py \x1b[32m..\x1b[0m").wait(3)


def tests_ok() -> Scene:
    scene, call = _command(Scene())
    scene.answer(key="q2", scope=Scope.SESSION)
    scene.output("\x1b[32m...\x1b[0m                              [100%]", "\x1b[32m3 passed\x1b[0m in 0.04s")
    scene.finish(call, ToolResult(success=True, data={"exit_code": 0}), 1240)
    text = "`--json` works: three tests pass."
    return scene.reply().write(text).end(text, stop="stop").done(text=text)


def tests_failed() -> Scene:
    scene, call = _command(Scene())
    scene.answer(key="q2")
    scene.output(
        "\x1b[31mF\x1b[0m..                              [100%]",
        *(f"    line {number} of the traceback" for number in range(1, 15)),
        "\x1b[31mE   AssertionError: assert '[]' == '[1]'\x1b[0m",
        "\x1b[31m1 failed\x1b[0m, 2 passed in 0.05s",
    )
    return scene.finish(call, ToolResult(success=False, error="Exit code 1.", code="exit"), 1310)


def rejected() -> Scene:
    scene = _edit(Scene()).answer("reject", text="use the json module's default indent")
    call = next(r.event.call for r in reversed(scene.records) if isinstance(r.event, e.ToolStarted))
    error = "The user rejected this edit: use the json module's default indent"
    return scene.finish(call, ToolResult(success=False, error=error, code="refused"), 8)


def question() -> Scene:
    scene = Scene().opened().ask("add JSON output").reply()
    call = scene.call("ask_user", question="Array or lines?")
    scene.end("", call).start(call, "Array or lines?", reads_only=True)
    asked = "Should the output be one array, or one object per line?"
    return scene.emit(e.QuestionAsked(id="q1", question=asked, options=("one array", "one object per line (NDJSON)")))


def question_answered() -> Scene:
    scene = question()
    call = next(r.event.call for r in reversed(scene.records) if isinstance(r.event, e.ToolStarted))
    scene.emit(e.QuestionAnswered(id="q1", answer=Answer(verdict="reply", text="one array")), seconds=5)
    return scene.finish(call, ToolResult(success=True, data="one array"), 3)


def trust() -> Scene:
    scene = Scene().opened(trusted=False)
    found = (
        "AGENTS.md: rules that the model follows",
        ".tui-agent.yaml: settings, which can only be stricter than yours",
        ".git: the model gets branch and changed files, in review mode the history",
        "Python files: pyright-langserver may be started, which can load settings and code from here",
    )
    action = TrustAction(folder="/home/ada/exporter", contents=found)
    return scene.emit(
        e.ApprovalRequested(id="t1", action=action, digest=action_digest(action), why="You have not worked here yet."),
        node="",
    )


def interrupted() -> Scene:
    scene = streaming()
    text = "".join(r.event.text for r in scene.records if isinstance(r.event, e.TextDelta))
    return scene.end(text, interrupted=True).done("interrupted", tool_calls=0, ms=4_000)


def failed() -> Scene:
    scene = Scene().opened().ask("add JSON output").reply(phases=())
    fault = Fault(
        kind="unreachable",
        message="No server answers at http://localhost:11434 (connection refused).",
        advice="Start it with: ollama serve",
    )
    return scene.end("", fault=fault).done("unreachable", fault.message, tool_calls=0, ms=30)


def retrying() -> Scene:
    scene = Scene().opened().ask("add JSON output").reply()
    why = "The server answered 503: model is loading"
    return scene.emit(e.RetryScheduled(attempt=2, of=5, seconds=8, why=why)).wait(3)


def notices() -> Scene:
    scene = Scene().opened(resumed=True, approval_mode="auto-edit")
    scene.emit(e.Notice(level="info", text="The context window is 32,768 tokens."), node="")
    scene.emit(e.Notice(level="warning", text="AGENTS.md is longer than 8,000 characters; its end is left out."))
    scene.emit(e.Notice(level="error", text="models.json, line 12: contextWindow must be a number.", code="models.bad"))
    return scene.emit(
        e.UserShellCommand(
            command="git status --short", cwd="/home/ada/exporter", output=" M src/export.py\n", exit_code=0
        )
    )


def hostile_text() -> Scene:
    bad = "[/] [link=http://x [@click=app.quit]boo[/] \x1b]52;c;aGk=\x07 \x9b2J \u202eabc <script>"
    scene = Scene().opened(model=bad, workspace=f"/tmp/{bad}").ask(bad).reply().think(bad, 1)
    scene.write(f"# {bad}\n\n- {bad}\n\n`{bad}`\n\n[{bad}](javascript:alert(1))\n")
    call = scene.call(bad, path=bad)
    scene.end(f"# {bad}\n\n- {bad}\n\n`{bad}`\n\n[{bad}](javascript:alert(1))\n", call)
    scene.start(call, bad).output(bad).finish(call, ToolResult(success=False, error=bad), 3)
    scene.emit(e.SessionTitled(title=bad), node="").emit(e.Notice(level="error", text=bad))
    return scene.done("failed", bad)


def wide_text() -> Scene:
    text = "日本語のテキストは折り返しが必要です。" * 4 + "\n\n- 👩‍👩‍👧 family, flag 🇩🇪, e\u0301\n- " + "x" * 150
    scene = Scene().opened().ask("折り返して 👍").reply()
    return scene.write(text).end(text, stop="length").done(text=text, tool_calls=0)


def stages() -> Scene:
    scene = Scene().opened(mode="agent").ask("add a --json flag to the export command")
    scene.enter("planning", "Planning").reply().write("Two steps are enough.").end("Two steps are enough.")
    scene.leave("planning", 1200).enter("execution", "Execution").reply()
    calls = [scene.call("read_file", path=f"src/{name}.py") for name in ("export", "main", "table")]
    scene.write("I'll read the three modules.").end("I'll read the three modules.", *calls)
    for call in calls:
        scene.start(call, str(call.arguments["path"]), reads_only=True)
    for call in calls[:2]:
        scene.finish(call, ToolResult(success=True, data=READ), 300)
    return scene.wait(2)


def no_server() -> Scene:
    text = (
        "No server answers at http://localhost:11434 (connection refused). Start it with: ollama serve\n"
        "Tried http://localhost:11434 (the default)."
    )
    scene = Scene().opened(model="")
    return scene.emit(e.Notice(level="error", text=text, code="server.missing"), node="")


PLAN = """\
---
status: in_progress
createdAt: 1767603600000
updatedAt: 1767606000000
version: 7
---

# Plan: Add --json to the export command

**Status:** in_progress

## Goal
Add --json to the export command

## Acceptance Criteria
- [x] the parser accepts the flag
- [x] the output is valid JSON *(array, indent 2)*
- [ ] tests cover both formats, the empty table and rows that hold Unicode
- [ ] the README mentions it

## Decisions Made
### One array over NDJSON
**Rationale:** every reader of the old export loads the whole file anyway
**Decided:** 2026-01-05 09:12

## Decisions Rejected
### A --format option
**Rationale:** three spellings for two formats

## Execution Log
### 2026-01-04 17:40 - Looked for callers of export()
**Tools:** search_workspace
**Result:** ✓ none outside main.py

### 2026-01-05 09:10 - Read the exporter
**Tools:** read_file
**Result:** ✓ Found the table writer

### 2026-01-05 09:21 - Ran the tests
**Tools:** run_terminal_command
**Result:** ❌ test_unicode fails: the file is written as latin-1

### 2026-01-05 09:34 - Wrote the JSON writer
**Actions:** export() takes fmt="json"
**Tools:** edit_file
**Result:** ✓ 2 criteria met

## Notes of mine
Ask Grace about the encoding before the release.
"""
"""A plan document as it looks in the middle of the work."""


def _planned(scene: Scene, text: str = PLAN, **more: Any) -> Scene:
    fields: dict[str, Any] = {"by": "summary", "sha256": "0" * 64}
    return scene.emit(e.PlanDocChanged(text=text, **(fields | more)), node="")


def plan() -> Scene:
    scene, call = _command(Scene())
    scene.answer(key="q2", scope=Scope.SESSION)
    scene.output("\x1b[32m3 passed\x1b[0m in 0.04s")
    scene.finish(call, ToolResult(success=True, data={"exit_code": 0}), 1240)
    text = "`--json` works: three tests pass."
    return _planned(scene.reply().write(text).end(text, stop="stop").done(text=text))


def plan_pending() -> Scene:
    wanted = PLAN.replace("- [ ] tests cover", "- [x] tests cover").replace(
        "- [ ] the README mentions it\n", "- [ ] the changelog names the flag\n"
    )
    wanted = wanted.replace("### A --format", "### YAML too\n**Rationale:** nobody asked\n\n### A --format")
    return _planned(plan(), wanted, by="review", pending=True)


def plan_conflict() -> Scene:
    return plan().emit(
        e.PlanDocConflict(
            id="k1",
            where="acceptance_criteria · the README mentions it · description",
            ours="the README shows an example of --json",
            theirs="README and man page mention it",
        ),
        node="",
    )


PLANS = (plan, plan_pending, plan_conflict)
"""What the plan panel shows."""

WINDOWS = (
    "call_recovered",
    "reply_rejected",
    "protocol_moved",
    "prompt_truncated",
    "context_compacted",
    "context_measured",
)
"""What small models and small windows bring about; in `windows.py`."""
SUBAGENTS = ("subagents_running", "subagents_done")
"""Sub-agents; in `subagents.py`."""
WORKFLOW = (
    "plan_planning",
    "plan_waits",
    "plan_unsure",
    "plan_rejected",
    "steps_running",
    "steps_recovered",
    "completion_refused",
    "summary_waits",
    "summary_accepted",
    "summary_discarded",
    "summary_again",
)
"""Scenes of the staged workflow; they stand in `workflow.py`."""


def _of_module(module: str, name: str) -> Scene:
    from importlib import import_module

    scene: Scene = getattr(import_module(f"tests.scenes.{module}"), name)()
    return scene


SCENES: dict[str, Callable[[], Scene]] = {
    build.__name__: build
    for build in (
        empty,
        connecting,
        thinking,
        streaming,
        queued,
        answered,
        tools_read,
        edit_asked,
        command_asked,
        command_hostile,
        command_running,
        tests_ok,
        tests_failed,
        rejected,
        question,
        question_answered,
        trust,
        interrupted,
        failed,
        retrying,
        notices,
        hostile_text,
        wide_text,
        stages,
        no_server,
        *PLANS,
    )
}
SCENES |= {name: partial(_of_module, "workflow", name) for name in WORKFLOW}
SCENES |= {name: partial(_of_module, "windows", name) for name in WINDOWS}
SCENES |= {name: partial(_of_module, "subagents", name) for name in SUBAGENTS}


def lines(scene: Scene) -> str:
    rows = [
        {
            "v": e.VERSION,
            "seq": record.seq,
            "at": record.at,
            "type": record.event.type,
            "run": record.run,
            "node": record.node,
            "parent": record.parent,
            "data": to_data(record.event),
        }
        for record in scene.records
    ]
    return "".join(json.dumps(row, ensure_ascii=True) + "\n" for row in rows)


def main() -> None:
    for old in FOLDER.glob("*.jsonl"):
        old.unlink()
    for name, build in SCENES.items():
        (FOLDER / f"{name}.jsonl").write_text(lines(build()), encoding="utf-8")


if __name__ == "__main__":
    main()
