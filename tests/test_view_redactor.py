from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import msgspec
import pytest

from tests.doubles.planted import ALL_SECRETS_TEXT, BY_VARIABLE, SECRET_TEXTS, SECRETS, find_leaks
from tui_agent import events as e
from tui_agent.common.domain import Diff, EditAction, Hunk, RunAction, Severity, ToolCall, ToolResult
from tui_agent.text import SecretMask
from tui_agent.view.fold import fold_record
from tui_agent.view.items import RequestItem, SessionView, ToolItem
from tui_agent.view.redactor import Redactor


class Folding:
    def __init__(self, mask: SecretMask | None = None) -> None:
        self.view = SessionView()
        self.redactor = Redactor(mask or SecretMask(BY_VARIABLE))
        self.records: list[e.Record] = []

    def add(self, event: e.Event, node: str = "") -> None:
        record = e.Record(seq=len(self.records) + 1, at="2026-01-05T09:00:00.000+00:00", event=event, node=node)
        self.records.append(record)
        fold_record(self.view, record, self.redactor)

    @property
    def seen(self) -> str:
        """Every text of the view but what is kept for decisions."""
        return "\n".join(_texts(self.view, set()))


def _texts(value: Any, known: set[int]) -> list[str]:
    if isinstance(value, str):
        return [value]
    if value is None or isinstance(value, int | float) or id(value) in known:
        return []
    known.add(id(value))
    if hasattr(value, "text") and not is_dataclass(value) and not isinstance(value, msgspec.Struct):
        return [value.text]
    if is_dataclass(value) or isinstance(value, msgspec.Struct):
        names = [one.name for one in fields(value)] if is_dataclass(value) else value.__struct_fields__
        shown = [getattr(value, name) for name in names if name not in ("exact_action", "exact_text")]
        return [text for one in shown for text in _texts(one, known)]
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in _texts(one, known)]
    if isinstance(value, list | tuple):
        return [text for one in value for text in _texts(one, known)]
    return []


def running(command: str) -> RunAction:
    return RunAction(command=command, cwd="/w", severity=Severity.MEDIUM)


@pytest.mark.parametrize("name", SECRETS)
def test_a_text_that_streams_in_shows_no_secret_wherever_it_is_split(name: str) -> None:
    text = f"It is {SECRET_TEXTS[name]} .\n"
    for cut in range(0, len(text) + 1, 1 if len(text) < 120 else 7):
        session = Folding()
        session.add(e.ToolStarted(call=ToolCall(id="c", name="t", arguments={}), title="t", reads_only=True), "c")
        for piece in (text[:cut], text[cut:]):
            session.add(e.ToolOutput(text=piece), "c")
            assert find_leaks(session.seen) == []
        session.add(e.ToolFinished(call_id="c", name="t", result=ToolResult(success=True), text="", ms=1), "c")
        item = session.view.items[0]
        assert isinstance(item, ToolItem)
        assert item.output.text == SecretMask(BY_VARIABLE).mask(text)


def test_letter_by_letter_nothing_shows_and_nothing_is_lost() -> None:
    session = Folding()
    session.add(e.ReplyStarted(model="m", iteration=1, messages=1, estimate=1), "r")
    for letter in ALL_SECRETS_TEXT:
        session.add(e.TextDelta(text=letter), "r")
    assert find_leaks(session.seen) == []
    session.add(e.RunEnded(outcome="interrupted"))
    (reply, *_) = session.view.items
    assert reply.text.text == SecretMask(BY_VARIABLE).mask(ALL_SECRETS_TEXT)  # type: ignore[union-attr]  # it is the reply


def test_every_kind_of_event_is_redactored() -> None:
    session = Folding()
    call = ToolCall(
        id="c",
        name="run_terminal_command",
        arguments={"command": ALL_SECRETS_TEXT, "more": [{"deep": ALL_SECRETS_TEXT}]},
    )
    result = ToolResult(success=False, error=ALL_SECRETS_TEXT, data={"out": [ALL_SECRETS_TEXT]})
    session.add(e.UserMessageAdded(id="m", text=ALL_SECRETS_TEXT))
    session.add(e.MessageQueued(id="q", text=ALL_SECRETS_TEXT))
    session.add(e.Notice(level="warning", text=ALL_SECRETS_TEXT))
    session.add(e.ReplyEnded(text=ALL_SECRETS_TEXT, calls=(call,), thought=ALL_SECRETS_TEXT), "r")
    session.add(e.ToolStarted(call=call, title=ALL_SECRETS_TEXT, reads_only=False), "c")
    session.add(e.ApprovalRequested(id="a", action=running(ALL_SECRETS_TEXT), digest="d", why=ALL_SECRETS_TEXT), "c")
    session.add(e.QuestionAsked(id="b", question=ALL_SECRETS_TEXT, options=(ALL_SECRETS_TEXT,)), "c")
    session.add(e.ToolFinished(call_id="c", name="t", result=result, text=ALL_SECRETS_TEXT, ms=1), "c")
    session.add(e.UserShellCommand(command=ALL_SECRETS_TEXT, cwd="/w", output=ALL_SECRETS_TEXT, exit_code=0))
    session.add(e.PlanDocChanged(text=ALL_SECRETS_TEXT, by="user"))
    session.add(e.RunEnded(outcome="failed", text=ALL_SECRETS_TEXT))
    assert find_leaks(session.seen) == []
    assert "⟨secret DEPLOY_PASSWORD, 28 characters⟩" in session.seen


def test_what_is_decided_about_is_kept_exactly() -> None:
    session = Folding()
    session.add(e.ApprovalRequested(id="a", action=running(ALL_SECRETS_TEXT), digest="d", why="w"), "c")
    session.add(e.ApprovalRequested(id="b", action=running("ls"), digest="d", why="w"), "c")
    session.add(e.PlanDocChanged(text=ALL_SECRETS_TEXT, by="user"))
    hiding, plain = session.view.requests["a"], session.view.requests["b"]
    assert (
        hiding.hides_secrets
        and hiding.exact_action == running(ALL_SECRETS_TEXT)
        and hiding.action != hiding.exact_action
    )
    assert not plain.hides_secrets and plain.exact_action == running("ls") == plain.action
    assert session.view.plan.exact_text == ALL_SECRETS_TEXT != session.view.plan.text


def test_a_diff_keeps_its_lines() -> None:
    lines = tuple("+" + line for line in ALL_SECRETS_TEXT.split("\n"))
    hunk = Hunk(old_start=1, old_count=0, new_start=1, new_count=len(lines), lines=lines)
    diff = Diff(path="f", kind="create", hunks=(hunk,), added=len(lines))
    session = Folding()
    action = EditAction(path="/w/f", display="f", diff=diff, before=None, after="x")
    session.add(e.ApprovalRequested(id="a", action=action, digest="d", why="w"))
    request: RequestItem = session.view.requests["a"]
    assert isinstance(request.action, EditAction)
    (shown,) = request.action.diff.hunks
    assert len(shown.lines) == len(lines) and all(line.startswith("+") for line in shown.lines)
    assert find_leaks(session.seen) == []
    assert request.exact_action == action


def test_what_was_cut_off_is_hidden_too() -> None:
    mask = SecretMask(BY_VARIABLE)
    for name, written in SECRET_TEXTS.items():
        secret = SECRETS[name].split("\n")[0]
        start = written.index(secret) if secret in written else 0
        cut = written[: start + max(14, len(secret) - 3)].split("\n")[0]
        for text in (f"run {cut}…", f"run {cut} [… 500 more characters]"):
            assert secret[:14] not in mask.mask(text) or name == "pem", name


def test_a_session_without_secrets_costs_no_copies() -> None:
    record = e.Record(seq=1, at="", event=e.UserMessageAdded(id="m", text="just a word"))
    (shown,) = Redactor(SecretMask(BY_VARIABLE)).records(record)
    assert shown is record
