"""Scenes of sub-agents: three at work side by side, and what is left of them (T5)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.scenes.build import Scene
from tui_agent import events as e
from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.events import Event, Record

FINDINGS = """\
`src/reader.py:41` swallows every error of the parser: a broken row becomes an empty one.

```python
    except Exception:
        return {}
```

Nothing else in the parsers looked wrong."""
CLOSING = """\
Two findings, the worst first.

1. `src/reader.py:41` swallows every error of the parser, so that broken rows become empty ones.
2. `src/store.py:88` writes the file in place: a full disk leaves half of it.

The network part was not looked at to its end, since you stopped that."""


class Inside:
    """What the sub-agent of one call does."""

    def __init__(self, scene: Scene, call: ToolCall) -> None:
        self.scene, self.call, self.replies = scene, call, 0

    def emit(self, event: Event, node: str, parent: str, seconds: float) -> None:
        scene = self.scene
        scene.now += timedelta(seconds=seconds)
        at = scene.now.isoformat(timespec="milliseconds")
        seq = len(scene.records) + 1
        scene.records.append(Record(seq=seq, at=at, event=event, run=scene.run, node=node, parent=parent))

    def reply(self, text: str = "", thought: str = "", *, ended: bool = True, **more: Any) -> None:
        self.replies += 1
        node, parent = f"{self.call.id}.{self.replies}", self.call.id
        started = e.ReplyStarted(
            model="qwen2.5-coder:7b", iteration=self.replies, messages=2, estimate=900, role="explorer"
        )
        self.emit(started, node, parent, 0.02)
        if thought:
            self.emit(e.ReplyPhase(phase="thinking"), node, "", 0.1)
            self.emit(e.ReasoningDelta(text=thought), node, "", 2.1)
        if ended:
            fields = {"ms": 2_300, "thought_ms": 2_100 if thought else 0, "role": "explorer", **more}
            self.emit(e.ReplyEnded(text=text, thought=thought, **fields), node, parent, 0.1)

    def start(self, name: str, title: str, **arguments: Any) -> ToolCall:
        call = self.scene.call(name, **arguments)
        event = e.ToolStarted(call=call, title=title, reads_only=True, agent=self.call.id)
        self.emit(event, call.id, f"{self.call.id}.{self.replies}", 0.01)
        return call

    def finish(self, call: ToolCall, text: str, ms: int = 120) -> None:
        result = ToolResult(success=True, data=text)
        event = e.ToolFinished(call_id=call.id, name=call.name, result=result, text=text, ms=ms, agent=self.call.id)
        self.emit(event, call.id, f"{self.call.id}.{self.replies}", 0.1)


def subagents_running() -> Scene:
    """One has reported, one reads, one thinks."""
    return _sent()[0]


def subagents_done() -> Scene:
    """All have ended: one well, one after its last file, one by the user."""
    scene, (_, storage, network), open_calls = _sent()
    for call in open_calls:
        storage.finish(call, "def save(rows):\n    ...", 400)
    storage.reply("`src/store.py:88` writes the file in place.")
    report = ToolResult(success=True, data="`src/store.py:88` writes the file in place.")
    scene.finish(storage.call, report, 9_200)
    scene.wait(3)
    network.emit(
        e.ReplyEnded(text="", thought="Where do retries end?", role="explorer", interrupted=True, ms=6_000),
        f"{network.call.id}.2",
        network.call.id,
        0.1,
    )
    stopped = ToolResult(
        success=False, error="The user stopped this sub-agent before it had finished.", code="interrupted"
    )
    scene.finish(network.call, stopped, 14_000)
    scene.reply().write(CLOSING).end(CLOSING)
    return scene.done(text=CLOSING, iterations=2, tool_calls=3, ms=24_000)


def _sent() -> tuple[Scene, list[Inside], list[ToolCall]]:
    scene = Scene().opened(mode="direct").ask("review the exporter")
    scene.reply()
    sent = [
        scene.call("run_subagent", task=f"Look for faults in {what}.", title=title, description=what, mode="review")
        for title, what in (
            ("Review parsers", "how rows are read"),
            ("Review storage", "how files are written"),
            ("Review network", "retries and time-outs"),
        )
    ]
    scene.end("Three parts that have little to do with each other: side by side.", *sent)
    for call in sent:
        scene.start(call, f"{call.arguments['title']} — {call.arguments['description']}", reads_only=True)
    parsers, storage, network = inside = [Inside(scene, call) for call in sent]
    parsers.reply(thought="Where are the rows read?\nSearch first.")
    for call in [
        parsers.start("search_workspace", "def parse", query="def parse"),
        parsers.start("read_file", "src/reader.py", path="src/reader.py"),
    ]:
        parsers.finish(call, "src/reader.py:38: def parse(row):")
    storage.reply("The store first, then what calls it.")
    storage.finish(storage.start("list_files", "src", path="src"), "src/store.py")
    network.reply()
    network.finish(network.start("search_workspace", "retry", query="retry"), "src/net.py:12: retry(3)", 3_100)
    parsers.reply(FINDINGS)
    scene.finish(parsers.call, ToolResult(success=True, data=FINDINGS), 5_400)
    storage.reply()
    paths = ("src/store.py", "src/export.py", "src/main.py")
    reading = [storage.start("read_file", path, path=path) for path in paths]
    network.reply(thought="Where do retries end?", ended=False)
    return scene, inside, reading
