"""Scenes of small models and small windows: recovered calls, replies of no use, cut prompts, compaction."""

from __future__ import annotations

from typing import Any

from tests.scenes.build import READ, Scene, tools_read
from tui_agent import events as e
from tui_agent.common.domain import ToolCall, ToolResult

PARTS = {"system": 812, "tools": 1_104, "messages": 2_946, "results": 3_310, "files": 14_618}
CUT = {"system": 812, "tools": 1_104, "messages": 946, "results": 1_260, "files": 7_118}
SUMMARY = """\
## State
`export()` takes `fmt="json"`; the command line does not know `--json` yet.

## Work done
- edited src/export.py: `fmt="json"` and **indent**
- ran tests/test_export.py: 3 passed

## Files
- src/export.py
- src/main.py

## Failed approaches
- NDJSON: the reader of the old export loads the whole file

## Promises
none

## Remaining
- the flag in src/main.py, and a test of it

## Key facts
- tests run with `python -m pytest -q`
"""


def measure(scene: Scene, **more: Any) -> Scene:
    fields: dict[str, Any] = {"used": sum(PARTS.values()), "limit": 32_768, "parts": PARTS}
    return scene.emit(e.ContextMeasured(**(fields | more)), node="")


def notice(scene: Scene, level: Any, text: str, code: str) -> Scene:
    return scene.emit(e.Notice(level=level, text=text, code=code), node="")


def call_recovered() -> Scene:
    scene = Scene().opened().ask("what does the exporter do?").reply()
    call = scene.call("read_file", path="src/export.py")
    call = ToolCall(id=call.id, name=call.name, arguments=call.arguments, recovered=True)
    scene.write("I look at it first.").end("I look at it first.", call)
    scene.start(call, "src/export.py", reads_only=True)
    scene.finish(call, ToolResult(success=True, data=READ), 12).reply()
    run = scene.call("run_terminal_command", command="python -m pytest -q")
    run = ToolCall(id=run.id, name=run.name, arguments=run.arguments, recovered=True)
    scene.end("", run).start(run, "python -m pytest -q").output("3 passed in 0.04s")
    return scene.finish(run, ToolResult(success=True, data={"exit_code": 0}), 1240)


def reply_rejected() -> Scene:
    scene = Scene().opened().ask("add a --json flag to the export command").reply()
    why = "the call's arguments end in the middle of a string: they may have been cut off"
    scene.end("", stop="stop")
    scene.emit(e.ReplyRejected(kind="unreadable", detail=why, attempt=1, raw="raw/run1-1.txt"))
    notice(scene, "warning", f"The reply could not be read: {why}. The model gets feedback.", "reply.unreadable")
    scene.reply().end("", thought="Which tool was it?", thought_ms=4_100, stop="stop")
    scene.emit(e.ReplyRejected(kind="thinking_only", attempt=2, raw="raw/run1-2.txt"))
    notice(scene, "warning", "The reply contained only reasoning. The model gets feedback.", "reply.thinking_only")
    call = scene.reply().call("read_file", path="src/export.py")
    scene.end("", call).start(call, "src/export.py", reads_only=True)
    return scene.finish(call, ToolResult(success=True, data=READ), 12)


def protocol_moved() -> Scene:
    scene = call_recovered()
    why = "qwen2.5-coder:7b writes its calls as text"
    scene.emit(e.ProtocolChanged(protocol="json", why=why), node="")
    notice(scene, "info", f"Switching to JSON calls: {why}.", "protocol.changed")
    text = "It writes rows as a table."
    return scene.reply().write(text).end(text, stop="stop")


def prompt_truncated() -> Scene:
    scene = tools_read()
    text = (
        "The server truncated the prompt: it read 4,098 of about 11,240 tokens and dropped the rest without an error, "
        "so this reply is based on only a part. To prevent this, restart the server with "
        "`OLLAMA_CONTEXT_LENGTH=32768 ollama serve`."
    )
    scene.reply().write("I have not seen any exporter.").end("I have not seen any exporter.")
    notice(scene, "warning", text, "context.truncated")
    measure(scene, used=11_240, limit=8_192, estimated=True, truncated=4_098, parts=CUT)
    return scene.reply(phases=("reading",)).wait(3)


def context_compacted() -> Scene:
    scene = measure(tools_read())
    text = "The context is 72% full. Its older part is being summarized …"
    notice(scene, "info", text, "context.compacting")
    scene.emit(e.ContextCompacted(summary=SUMMARY, kept=6, before=23_690, after=8_214, users=3), node="")
    text = "Now the flag in `src/main.py`."
    scene.reply().write(text).end(text)
    return measure(scene, used=8_260, parts={**PARTS, "results": 1_210, "files": 1_288})


def context_measured() -> Scene:
    scene = measure(tools_read())
    scene.emit(e.ProtocolChanged(protocol="json", why="the server does not accept tools for this model"), node="")
    return scene
