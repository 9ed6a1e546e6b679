"""What a run lacks because it was refused, from its records."""

from __future__ import annotations

import itertools

from tui_agent import events as e
from tui_agent.common.domain import SAME_QUESTION, Action, Answer, ReadAction, RunAction, Severity, ToolCall, ToolResult
from tui_agent.events.narration import answer_text
from tui_agent.events.refusals import Refusals

NUMBERS = itertools.count(1)


def push() -> RunAction:
    return RunAction(command="git push", cwd="/w", severity=Severity.HIGH)


def refusals(*events: tuple[str, e.Event]) -> Refusals:
    result = Refusals()
    for node, event in events:
        result.feed(e.Record(seq=next(NUMBERS), at="", run="run-1", node=node, event=event))
    return result


def refused(action: Action, by: str = "--approve edits") -> list[tuple[str, e.Event]]:
    asked = e.ApprovalRequested(id="a-1", action=action, digest="", why="")
    return [("c-1", asked), ("c-1", e.ApprovalAnswered(id="a-1", answer=Answer(verdict="reject", by=by)))]


def started(call: str, title: str) -> tuple[str, e.Event]:
    return call, e.ToolStarted(call=ToolCall(id=call, name="edit_file", arguments={}), title=title, reads_only=False)


def finished(call: str, success: bool) -> tuple[str, e.Event]:
    return call, e.ToolFinished(call_id=call, name="edit_file", result=ToolResult(success=success), text="", ms=1)


def test_a_check_that_passes_does_not_replace_a_refused_command() -> None:
    passed = ("s-1", e.StepVerified(met=True, expected="", actual="", by="command", command="pytest"))
    assert refusals(*refused(push()), passed).prevented("done")
    check = RunAction(command="pytest", cwd="/w", severity=Severity.MEDIUM)
    assert not refusals(*refused(check), passed, finished("c-2", True)).prevented("done")


def test_what_a_rule_refuses_is_named_and_settled_by_the_same_change_later() -> None:
    by_rule = ("c-1", e.ApprovalAnswered(id="a-1", answer=Answer(verdict="reject", by="Approval mode read-only")))
    before = [started("c-1", "adder.py"), by_rule, finished("c-1", False)]
    assert refusals(*before).prevented("done") == ["edit_file adder.py"]
    assert not refusals(*before, started("c-2", "adder.py"), finished("c-2", True)).prevented("done")


def test_an_answer_shared_by_two_calls_is_the_one_of_the_user() -> None:
    answer = Answer(verdict="reject", by=SAME_QUESTION)
    assert answer_text(answer).startswith("Rejected")
    shared = ("c-1", e.ApprovalAnswered(id="a-1", answer=answer))
    read = refused(ReadAction(path="/w/.env", display=".env"), by="user")
    assert refusals(*read, shared).prevented("done") == []
