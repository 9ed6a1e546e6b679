from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tui_agent.common.domain import (
    Answer,
    Diff,
    EditAction,
    Grant,
    Harm,
    Hunk,
    ReadAction,
    RunAction,
    Scope,
    Severity,
    TrustAction,
)
from tui_agent.common.workplan import Alternative, InstructionPlan, PlanStep, Summary
from tui_agent.events import ApprovalRequested, Event, PlanDocConflict, PlanProposed, QuestionAsked, SummaryProposed
from tui_agent.frontends.line_mode.requests import RequestPrompt
from tui_agent.frontends.line_mode.terminal import InputEnded
from tui_agent.frontends.plain import needs_answer, unattended_answer
from tui_agent.text import SecretMask


class FakeTerminal:
    """Answers from a list; `None` is Ctrl+D."""

    attended = True

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.out = ""

    def print(self, text: str = "", style: str = "") -> None:
        self.out += text + "\n"

    def read_answer(self, prompt: str) -> str:
        self.out += prompt
        reply = self.answers.pop(0)
        if reply is None:
            raise InputEnded
        return reply

    def edit(self, prompt: str, text: str) -> str:
        return self.read_answer(prompt) or text


def ask(event: Event, *answers: str | None, mask: SecretMask | None = None) -> tuple[Answer, str]:
    terminal = FakeTerminal(*answers)
    answer = RequestPrompt(terminal, mask or SecretMask({})).ask(event)  # type: ignore[arg-type]  # has what it uses
    assert not terminal.answers
    assert not set("\x1b\x07\x9b") & set(terminal.out)
    return answer, terminal.out


def hunk(start: int, text: str) -> Hunk:
    return Hunk(old_start=start, old_count=1, new_start=start, new_count=1, lines=(f"-old {start}", f"+{text}"))


def edit(*texts: str, grants: tuple[Grant, ...] = (), **options: Any) -> ApprovalRequested:
    hunks = tuple(hunk(10 * number, text) for number, text in enumerate(texts, 1))
    diff = Diff(path="a.py", kind="modify", hunks=hunks, added=len(texts), removed=len(texts))
    action = EditAction(path="/w/a.py", display="a.py", diff=diff, before="b", after="a", splittable=True, **options)
    return ApprovalRequested(id="a-1", action=action, digest="d", why="a rule", grants=grants)


GRANTS = (Grant(kind="edit", pattern="a.py"), Grant(kind="edit", pattern="*.py", scope=Scope.ALWAYS))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("a", Answer(verdict="approve")),
        ("y", Answer(verdict="approve")),
        ("YES", Answer(verdict="approve")),
        ("s", Answer(verdict="approve", scope=Scope.SESSION)),
        ("A", Answer(verdict="approve", scope=Scope.ALWAYS)),
        ("always", Answer(verdict="approve", scope=Scope.ALWAYS)),
        ("r", Answer(verdict="reject")),
        ("r it is wrong", Answer(verdict="reject", text="it is wrong")),
        ("n", Answer(verdict="reject")),
        ("no it is wrong", Answer(verdict="reject", text="it is wrong")),
        ("p 2", Answer(verdict="approve", data={"hunks": [1], "edits": {}})),
        ("p 1, 2", Answer(verdict="approve")),
        (None, Answer(verdict="reject")),
    ],
)
def test_an_edit_is_decided_as_in_the_dialog(reply: str | None, expected: Answer) -> None:
    answer, out = ask(edit("new 1", "new 2", grants=GRANTS), reply)
    assert answer == expected
    for part in ("Edit a.py  (+2 −2)", "hunk 1 of 2", "-old 10", "+new 2", "A always: edit *.py", "a rule"):
        assert part in out


@pytest.mark.parametrize("reply", ["", " ", "Y n", "S", "ja", "p 3", "p 0", "p", "yn", "u", "1"])
def test_what_is_no_answer_asks_again(reply: str) -> None:
    answer, out = ask(edit("new 1", "new 2", grants=GRANTS), reply, "n")
    assert answer.verdict == "reject"
    assert "Answer with a, s, A, p, e or r." in out


def test_a_part_is_changed_in_the_own_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "my editor"
    script.write_text('#!/bin/sh\ncase "$1" in *.py) ;; *) exit 9;; esac\nprintf "mine\\n" > "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", f"'{script}'")
    answer, out = ask(edit("new 1", "new 2", grants=GRANTS), "e 3", "e 2", "s", "y")
    assert answer.data == {"hunks": [0, 1], "edits": {"1": "mine"}}
    assert "+mine" in out and "a approves it with your text" in out
    assert ask(edit("new 1", "new 2"), "e 2", "p 1")[0].data == {"hunks": [0], "edits": {}}
    assert ask(edit("mine"), "e 1", "y")[0].data is None
    monkeypatch.setenv("VISUAL", "false")
    answer, out = ask(edit("new 1"), "e 1", "y")
    assert answer.data is None and "false ended with 1" in out
    monkeypatch.setenv("VISUAL", str(tmp_path / "nowhere"))
    assert "can't be used" in ask(edit("new 1"), "e 1", "n")[1]


def test_rules_that_nobody_offers_can_not_be_given() -> None:
    assert ask(edit("new"), "s", "A", "p 1", "n")[0].verdict == "reject"


def test_what_is_hidden_in_a_change_is_shown() -> None:
    out = ask(edit("a\x1b[2J\u202eb\rc"), "n")[1]
    assert "+a<U+001B>[2J<U+202E>b<U+000D>c" in out


def test_secrets_are_shown_only_when_the_user_wants_it() -> None:
    mask = SecretMask({"TOKEN": "hush-hush-hush"})
    answer, out = ask(edit("x = hush-hush-hush"), "u", "y", mask=mask)
    assert answer == Answer(verdict="approve")
    before, _, after = out.partition("u show the secrets")
    assert "hush-hush" not in before and "hush-hush-hush" in after


def test_a_command_is_shown_with_all_that_matters() -> None:
    action = RunAction(
        command="rm -rf \u202ex\nls", cwd="/w", severity=Severity.HIGH, reasons=("deletes",), env_changes=("PATH=/t",)
    )  # fmt: skip
    out = ask(ApprovalRequested(id="a", action=action, digest="d", why="w"), "n")[1]
    for part in ("severity high", "$ rm -rf <U+202E>x\n    ls", "in /w", "why deletes", "env PATH=/t"):
        assert part in out


def test_trust_is_asked_with_what_would_be_obeyed() -> None:
    event = ApprovalRequested(id="a", action=TrustAction(folder="/w", contents=("AGENTS.md",)), digest="d", why="w")
    answer, out = ask(event, "s", "y")
    assert answer == Answer(verdict="approve")
    assert "• AGENTS.md" in out


PLAN = InstructionPlan(
    approach="so",
    steps=tuple(PlanStep(number=n, description=f"do {n}") for n in (1, 2, 3)),
    alternatives=(Alternative(approach="otherwise"),),
)


def proposed_plan() -> PlanProposed:
    return PlanProposed(id="d-1", plan=PLAN, asks=True, why="it is unsure")


def steps_of(answer: Answer) -> list[tuple[int, str]]:
    assert answer.data is not None
    plan = msgspec.convert(answer.data["plan"], InstructionPlan)
    return [(step.number, step.description) for step in plan.steps]


def test_a_plan_is_taken_changed_or_rejected() -> None:
    assert ask(proposed_plan(), "y")[0] == Answer(verdict="approve")
    assert ask(proposed_plan(), "1")[0].data == {"alternative": 0}
    assert ask(proposed_plan(), "n too long")[0] == Answer(verdict="reject", text="too long")
    assert ask(proposed_plan(), "4", "e 9", "d0", None)[0] == Answer(verdict="reject")
    answer, out = ask(proposed_plan(), "d 1", "e 2", "do it well", "y")
    assert steps_of(answer) == [(1, "do 2"), (2, "do it well")]
    assert "  1 alternative\n" in out and "it is unsure" not in out  # the plan above names both
    assert steps_of(ask(proposed_plan(), "d 3", "d 2", "d 1", "y")[0]) == [(1, "do 1")]


def test_a_summary_is_kept_changed_dropped_or_left_for_later() -> None:
    event = SummaryProposed(id="d-1", summary=Summary(action="did", details="so", result="✓"))
    assert ask(event, "y")[0] == Answer(verdict="approve")
    assert ask(event, "n")[0] == Answer(verdict="reject")
    assert ask(event, "later")[0].verdict == ask(event, None)[0].verdict == "withdrawn"
    answer = ask(event, "e", "did it", "", "", "y")[0]
    assert answer.data is not None
    assert msgspec.convert(answer.data["summary"], Summary) == Summary(action="did it", details="so", result="✓")


def test_a_question_takes_a_number_or_words() -> None:
    event = QuestionAsked(id="q-1", question="which?", options=("red", "blue"))
    assert ask(event, "2")[0] == Answer(verdict="reply", text="blue")
    assert ask(event, "", "neither")[0] == Answer(verdict="reply", text="neither")
    assert ask(event, "3")[0] == Answer(verdict="reply", text="3")
    assert ask(event, None)[0] == Answer(verdict="reject", text="The user did not want to answer.")


def test_a_question_that_only_options_answer_takes_no_words() -> None:
    event = QuestionAsked(id="q-1", question="which?", options=("red", "blue"), otherwise="leaves it as it is")
    answer, printed = ask(event, "r", "3", "2")
    assert answer == Answer(verdict="reply", text="blue")
    assert "Ctrl+D leaves it as it is." in printed and "Answer with 1 or 2" in printed
    assert ask(event, None)[0].verdict == "reject"


def test_a_conflict_takes_one_side_or_both() -> None:
    event = PlanDocConflict(id="d-1", where="goal", ours="mine\nall", theirs="yours")
    assert [ask(event, "x", key)[0].data for key in "otb"] == [{"take": side} for side in ("ours", "theirs", "both")]
    assert ask(event, None)[0].verdict == "reject"


WIPE = RunAction(command="rm -rf ~/", cwd="/w", severity=Severity.CRITICAL, always_ask=True)
REQUESTS: dict[str, Event] = {
    "edit": edit("new 1", "new 2", grants=GRANTS),
    "command": ApprovalRequested(
        id="a", action=RunAction(command="make", cwd="/w"), digest="d", why="w", grants=GRANTS
    ),
    "critical": ApprovalRequested(id="a", action=WIPE, digest="d", why="w", harm=Harm(word="ada")),
    "reading": ApprovalRequested(id="a", action=ReadAction(path="/etc/hosts", display="h"), digest="d", why="w"),
    "trust": ApprovalRequested(id="a", action=TrustAction(folder="/w"), digest="d", why="w"),
    "plan": proposed_plan(),
    "summary": SummaryProposed(id="d-1", summary=Summary(action="did", details="so", result="✓")),
    "conflict": PlanDocConflict(id="d-1", where="goal", ours="mine", theirs="yours"),
}
"""All kinds of requests but a question, which takes any words."""
LINES = 10_000
"""How many random lines are typed as answers to all kinds of requests together."""
SENTENCES = [
    "that is odd",
    "or so",
    "but why",
    "yes but not the second part",
    "always the same",
    "later perhaps",
    "ada please",
]
WORDS = {"yes", "always", "later", "ours", "theirs", "both", "ada"}


@pytest.mark.parametrize("name", REQUESTS)
def test_ten_thousand_lines_of_text_decide_nothing(name: str) -> None:
    """Lines of three characters and more that are no answer by the letter; one that begins with `n ` is a rejection."""
    dice = random.Random(17)
    typed = string.ascii_letters + string.digits + " .,;:!?'-/()"
    drawn = ("".join(dice.choices(typed, k=dice.randint(3, 12))).strip() for _line in range(LINES // len(REQUESTS)))
    answers = re.compile(r"(?i:no?)( .*)?|[edp]\s*[\d\s,]+")
    lines = [line for line in drawn if line.lower() not in WORDS and not answers.fullmatch(line)]
    answer, _out = ask(REQUESTS[name], *SENTENCES, *lines, None)
    assert len(lines) > 0.97 * LINES / len(REQUESTS)
    assert answer.verdict in ("reject", "withdrawn") and answer.text == ""


@pytest.mark.parametrize("make", [proposed_plan, lambda: edit("x")])
def test_where_nobody_is_there_nothing_is_allowed(make: Callable[[], ApprovalRequested | PlanProposed]) -> None:
    assert needs_answer(make())
    assert unattended_answer(make(), "test").verdict == "reject"
    summary = SummaryProposed(id="d", summary=Summary(action="x"))
    assert unattended_answer(summary, "test").verdict == "withdrawn"
    assert not needs_answer(msgspec.structs.replace(proposed_plan(), asks=False))


def test_a_critical_command_needs_its_word_and_says_what_it_destroys() -> None:
    action = RunAction(command="rm -rf ~/", cwd="/w", severity=Severity.CRITICAL, always_ask=True)
    harm = Harm(targets=("/home/ada",), files=12_000, bytes=3_400_000_000, complete=False, word="ada")
    grant = Grant(kind="run", pattern="rm -rf ~/")
    event = ApprovalRequested(id="a", action=action, digest="d", why="w", grants=(grant,), harm=harm)
    answer, out = ask(event, "y", "s", "A", "yes", "n too much")
    assert (answer.verdict, answer.text) == ("reject", "too much")
    assert (
        "at least 12,000 files, 3.4 GB" in out
        and "Not sandboxed" in out
        and 'Type "ada" to run it, or r to reject it: ' in out
    )
    assert "Reject?" not in out and 'Answer with "ada" to run it, or r to reject it.' in out
    assert ask(event, "y", "adam", "ada")[0] == Answer(verdict="approve")
