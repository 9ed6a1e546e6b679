from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.doubles.mock import MockServer, call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tui_agent.common.domain import Answer, Diff, EditAction, FileChange, ToolCall, ToolResult
from tui_agent.engine.core.state import FULL, MAX_FACTS, SMALL, SessionFacts
from tui_agent.events import (
    ApprovalAnswered,
    ApprovalRequested,
    ContextCompacted,
    Event,
    FileChanged,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    RunStarted,
    ToolFinished,
    ToolStarted,
)

RUN = RunStarted(message_id="m", mode="direct", model="x")


def called(
    name: str, title: str, text: str = "ok", *, success: bool = True, code: str | None = None, agent: str = ""
) -> list[Event]:
    made = ToolCall(id=f"{name}-{title}", name=name, arguments={})
    result = ToolResult(success=success, data=text if success else None, error=None if success else text, code=code)
    return [
        ToolStarted(call=made, title=title, reads_only=True, agent=agent),
        ToolFinished(
            call_id=made.id, name=name, result=result, text=text if success else f"Error: {text}", ms=1, agent=agent
        ),
    ]


def wrote(name: str, kind: Any = "modify") -> Event:
    change = FileChange(path=f"/w/{name}", display=name, kind=kind, added=1, removed=0, before=None, after="x")
    return FileChanged(change=change, diff=Diff(path=name, kind=kind))


def folded(*events: Event) -> SessionFacts:
    memory = SessionFacts()
    for event in events:
        memory.fold(event)
    return memory


def test_facts_of_earlier_runs_are_told_and_those_of_this_one_are_not() -> None:
    edit = EditAction(path="/w/b.py", display="b.py", diff=Diff(path="b.py", kind="modify"), before=None, after="x")
    memory = folded(
        RUN,
        *called("read_file", "a.py:1-20"),
        *called("read_file", "a.py"),
        *called("read_file", "b.py"),
        *called("read_file", "hidden.py", agent="c1"),
        *called("search_workspace", "needle", "── a.py ──\n→ 1: needle\n── c.py ──\n→ 2: needle"),
        *called("search_workspace", "nothing", "No matches for 'nothing'."),
        *called("run_terminal_command", "pytest", "exit code 1\n\nfoo\nAssertionError: no", success=False, code="exit"),
        *called("run_terminal_command", "ruff", "exit code 1", success=False, code="exit"),
        *called("run_terminal_command", "ruff"),
        *called("edit_file", "z.py", "refused", success=False, code="refused"),
        wrote("b.py", "create"),
        wrote("b.py"),
        ApprovalRequested(id="1", action=edit, digest="d", why="w"),
        ApprovalAnswered(id="1", answer=Answer(verdict="reject", text="use tabs")),
        QuestionAsked(id="2", question="Which colour?"),
        QuestionAnswered(id="2", answer=Answer(verdict="reply", text="blue")),
    )
    assert memory.render() == ""
    memory.fold(RUN)
    assert memory.render() == "\n".join(
        [
            "- The user said when rejecting a change of b.py: use tabs",
            '- The user said to "Which colour?": blue',
            "- Files that were written: b.py (created)",
            "- Failed: run_terminal_command pytest: exit code 1 … AssertionError: no",
            "- Files that were read: a.py",
            "- Found by search_workspace needle: in a.py, c.py",
        ]
    )
    assert "b.py (created)" not in memory.render(plan="… changed b.py …")
    for event in called("read_file", "later.py"):
        memory.fold(event)
    assert "later.py" not in memory.render()
    memory.fold(ContextCompacted(summary="## State", kept=0, before=2, after=1, by="program"))
    assert "later.py" not in memory.render()
    memory.fold(ContextCompacted(summary="## State", kept=2, before=2, after=1))
    assert "later.py" in memory.render()


def test_it_is_bounded_and_saved() -> None:
    events = [event for number in range(3 * MAX_FACTS) for event in called("read_file", f"folder/{number}.py")]
    failures = [
        event
        for number in range(3 * MAX_FACTS)
        for event in called("run_terminal_command", f"x {number}", "e" * 900, success=False)
    ]
    memory = folded(*events, *failures, RUN)
    assert len(memory.notes.read) == len(memory.notes.failed) == MAX_FACTS
    assert 0 < len(memory.render(8_192)) <= SMALL < len(memory.render(32_768)) <= FULL
    data = json.loads(json.dumps(memory.export(), sort_keys=True))
    assert SessionFacts.restore(data).render() == memory.render()
    assert len(json.dumps(data)) < 100_000


def notes(server: MockServer, request: int) -> list[str]:
    return [text for one in server.requests[request].messages if "<agent_memory>" in (text := str(one["content"]))]


async def test_what_was_is_told_last_and_is_the_same_after_a_resume(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text("one\n")
    first = scenario(
        "first", step("", call("read_file", path="a.py")), step("", call("read_file", path="none.py")), "looked"
    )
    later = [scenario(word, step("", call("list_files")), "ok") for word in ("second", "third")]
    async with serve(first, *later, strict=True) as server:
        async with run_session(server, work) as session:
            watch = SessionDriver(session)
            for text in ("first", "second"):
                await session.send(text)
                await watch.ended()
            name = session.folder.name
        async with run_session(server, None, resume=name) as session:
            watch = SessionDriver(session)
            await session.send("third")
            await watch.ended()
    assert [len(notes(server, at)) for at in range(7)] == [0, 0, 0, 1, 1, 1, 1]
    for at in range(3, 7):
        last = str(server.requests[at].messages[-1]["content"])
        assert "- Files that were read: a.py" in last and "- Failed: read_file none.py" in last
        kept = json.dumps(server.requests[at].messages[:-1])
        assert "<agent_memory>" not in kept  # nothing of it stands in what the next request begins with
    third, resumed = (str(server.requests[at].messages[-1]["content"]) for at in (3, 5))
    assert third.partition("second")[2] == resumed.partition("third")[2] != ""
    assert json.dumps(server.requests[6].messages[: len(server.requests[5].messages) - 1]) == json.dumps(server.requests[5].messages[:-1])  # fmt: skip


async def test_how_many_messages_are_left_out_is_told_and_the_same_after_a_resume(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    flags = {"context_window": 2_048, "mode": "chat"}
    async with serve(scenario("message", "Yes, that is noted."), strict=True) as server:
        async with run_session(server, work, flags=flags) as session:
            watch = SessionDriver(session)
            for number in range(20):
                await session.send(f"message {number:02}: the password is {number}{number}, do not forget it")
                await watch.ended()
            name, codes = session.folder.name, [one.code for one in watch.of(Notice)]
        async with run_session(server, None, resume=name, flags=flags) as session:
            watch = SessionDriver(session)
            await session.send("message 20: and one more")
            await watch.ended()
    seen = [
        len([one for one in sent.messages if "message" in str(one["content"]) and one["role"] == "user"])
        for sent in server.requests
    ]
    assert seen[6] > 5  # more than the newest five, as long as there is room
    told = [
        [int(found) for found in re.findall(r"any more: (\d+) earlier messages? of the user", str(notes(server, at)))]
        for at in range(21)
    ]
    assert told[0] == [] and len(set(map(str, told))) > 2
    assert codes.count("context.left_out") == len({one[0] for one in told[:20] if one})
    for at, request in enumerate(server.requests):
        missing = sum(f"message {number:02}" not in str(request.messages) for number in range(at + 1))
        assert told[at] == ([missing] if missing else [])


def test_only_files_that_the_plan_names_themselves_are_left_out() -> None:
    memory = SessionFacts()
    for name in ("a.py", "src/b.py", "c.py", "d.py"):
        memory.fold(wrote(name))
    memory.fold(RUN)
    told = memory.render(None, "Mend data.py, then lib/src/b.py and c.py.\nLook at ./d.py, too.")
    assert told == "- Files that were written: a.py (changed), src/b.py (changed)"
