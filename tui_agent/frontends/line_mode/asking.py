"""Questions in line mode: what the dialogs of the screen ask, with the same answers (A3, A9).

Nothing is the default: an empty line asks again. What was typed before the question stood there never answers it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tui_agent.domain import Action, Answer, Editing, Scope, Trusting
from tui_agent.events import (
    ApprovalAsked,
    Event,
    PlanDocConflict,
    PlanProposed,
    QuestionAsked,
    SummaryOffered,
)
from tui_agent.frontends.line_mode.own_editor import NotEdited, edited
from tui_agent.frontends.line_mode.shown import Styled, action_lines, diff_lines, rule
from tui_agent.frontends.line_mode.terminal import Ended, Terminal
from tui_agent.hunks import Choice, new_text, with_edits
from tui_agent.text import Mask, visible
from tui_agent.workplan import InstructionPlan

NOBODY = "No user is present to decide."
LATER = Answer(verdict="withdrawn")
_STEP = re.compile(r"([ed])\s*(\d+)")
_PARTS = re.compile(r"p\s+([\d\s,]+)")


def asks(event: Event) -> bool:
    """Whether somebody has to decide this."""
    if isinstance(event, PlanProposed):
        return event.asks
    return isinstance(event, ApprovalAsked | QuestionAsked | PlanDocConflict | SummaryOffered)


def refusal(event: Event) -> Answer:
    """The answer where nobody is there: nothing is done, and a summary waits for the next start (X3)."""
    if isinstance(event, SummaryOffered):
        return Answer(verdict="withdrawn", text=NOBODY, by="no terminal")
    return Answer(verdict="reject", text=NOBODY, by="no terminal")


class Asking:
    """Puts questions to the person at a terminal. Raises KeyboardInterrupt for Ctrl+C, which stops the run."""

    def __init__(self, terminal: Terminal, mask: Mask) -> None:
        self._terminal = terminal
        self._mask = mask

    def ask(self, event: Event) -> Answer:
        """What the user decides."""
        match event:
            case ApprovalAsked():
                return self._approval(event)
            case PlanProposed():
                return self._plan(event)
            case QuestionAsked():
                return self._question(event)
            case SummaryOffered():
                return self._summary(event)
            case PlanDocConflict():
                return self._conflict(event)
        return refusal(event)

    # --- an action ---

    def _approval(self, event: ApprovalAsked) -> Answer:
        action = event.action
        hides = self._show(action_lines(action))
        self._say(f"  {visible(event.why)}", "dim")
        trusting = isinstance(action, Trusting)
        rules = {} if trusting else _rules(event)
        parts = len(action.diff.hunks) if isinstance(action, Editing) and action.parts else 0
        edits: dict[int, str] = {}
        told = ["y trust it from now on" if trusting else "y yes, once"]
        told += [f"{key} {words}: {', '.join(rules[key])}" for key, words in _SCOPED if key in rules]
        told += ["p 1 3 only these parts"] if parts > 1 else []
        told += ["e 1 change part 1 in your editor"] if parts else []
        told += ["n no" if trusting else "n no; n WHY tells the model why"]
        told += ["u show the secrets"] if hides else []
        self._say("  " + "\n  ".join(told))

        def decide(said: str) -> Answer | None:
            word = said.lower()
            if word in ("y", "yes"):
                return Answer(verdict="approve", data=_taken(range(parts), edits, action))
            if said in ("s", "A", "always") and (key := said[:1].replace("a", "A")) in rules and not edits:
                return Answer(verdict="approve", scope=Scope.SESSION if key == "s" else Scope.ALWAYS)
            if parts and (picked := _picked(said, parts)) is not None:
                return Answer(verdict="approve", data=_taken(picked, edits, action))
            if parts and (match := _STEP.fullmatch(said)) is not None and match[1] == "e":
                self._edit_part(action, int(match[2][:6]) - 1, edits)
                return None
            if word == "u" and hides:
                self._show(action_lines(action), unveiled=True)
                return None
            return _no(said)

        keys = _keys("y", *rules, "p" if parts > 1 else "", "e" if parts else "", "n")
        return self._until("Do it? ", decide, keys)

    def _edit_part(self, action: Action, place: int, edits: dict[int, str]) -> None:
        """Let the user change the new text of a part; `edits` holds what was changed."""
        if not isinstance(action, Editing) or not 0 <= place < len(action.diff.hunks):
            return
        before = new_text(action.diff.hunks[place])
        try:
            text = edited(edits.get(place, before), action.display)
        except NotEdited as error:
            self._say(f"  {visible(str(error))}")
            return
        edits.pop(place, None)
        if text != before:
            edits[place] = text
        self._show(diff_lines(with_edits(action.diff, edits)))
        self._say("  y does it with your text" if edits else "  It is as it was proposed.")

    def _show(self, lines: Sequence[Styled], *, unveiled: bool = False) -> bool:
        """Print lines; True when there is a secret in them that is not shown."""
        whole = "\n".join(text for text, _ in lines)
        masked = self._mask.mask(whole)
        if unveiled or masked == whole:
            for text, style in lines:
                self._terminal.say(text, style)
            return False
        styles = [style for _, style in lines]
        shown = masked.split("\n")
        for number, text in enumerate(shown):  # a secret of several lines leaves fewer of them
            self._terminal.say(text, styles[number] if len(shown) == len(styles) else "")
        return True

    # --- plans, summaries, questions ---

    def _plan(self, event: PlanProposed) -> Answer:
        plan = event.plan
        for number, one in enumerate(plan.alternatives, 1):
            self._say(f"  {number} another way: {visible(one.approach, lookalikes=False)}")
        self._say(f"  {visible(event.why, lookalikes=False)}" if event.why else "", "dim")
        self._say(
            "  y carry it out\n  e 2 change step 2\n  d 2 drop step 2\n  n no; n WHY says what is wrong with it"
        )

        def decide(said: str) -> Answer | None:
            nonlocal plan
            if said.lower() in ("y", "yes"):
                data = None if plan == event.plan else {"plan": msgspec.to_builtins(plan)}
                return Answer(verdict="approve", data=data)
            if said.isdecimal() and 0 < int(said[:6]) <= len(plan.alternatives):
                return Answer(verdict="approve", data={"alternative": int(said[:6]) - 1})
            if (match := _STEP.fullmatch(said)) is not None and 0 < int(match[2][:6]) <= len(plan.steps):
                plan = self._changed(plan, match[1], int(match[2][:6]) - 1)
                return None
            return _no(said)

        numbers = [str(number) for number in range(1, len(plan.alternatives) + 1)]
        return self._until("This plan? ", decide, _keys("y", *numbers, "e", "d", "n"))

    def _changed(self, plan: InstructionPlan, how: str, place: int) -> InstructionPlan:
        """The plan with a step reworded or dropped; the last step stays."""
        steps = list(plan.steps)
        if how == "d" and len(steps) > 1:
            del steps[place]
        elif how == "e":
            said = self._edited(f"  step {place + 1}: ", steps[place].description)
            steps[place] = msgspec.structs.replace(steps[place], description=said)
        steps = [msgspec.structs.replace(step, number=number) for number, step in enumerate(steps, 1)]
        for step in steps:
            self._say(f"  {step.number}. {visible(step.description, lookalikes=False)}")
        return msgspec.structs.replace(plan, steps=tuple(steps))

    def _summary(self, event: SummaryOffered) -> Answer:
        self._say("  y keep it in the plan\n  e change its words\n  n drop it\n  l later, at the next start")
        summary = event.summary

        def decide(said: str) -> Answer | None:
            nonlocal summary
            match said.lower():
                case "y" | "yes":
                    data = None if summary == event.summary else {"summary": msgspec.to_builtins(summary)}
                    return Answer(verdict="approve", data=data)
                case "n" | "no":
                    return Answer(verdict="reject")
                case "l" | "later":
                    return LATER
                case "e":
                    words = {
                        name: self._edited(f"  {name}: ", getattr(summary, name))
                        for name in ("action", "details", "result")
                    }
                    summary = msgspec.structs.replace(summary, **words)
            return None

        return self._until("Keep this summary? ", decide, _keys("y", "e", "n", "l"), LATER)

    def _edited(self, prompt: str, text: str) -> str:
        """A text as the user changes it; one with a secret in it is left as it is."""
        if self._mask.mask(text) != text:
            self._say(f"{prompt}holds a secret and stays as it is")
            return text
        try:
            return self._terminal.edit(prompt, text)
        except Ended:
            self._terminal.say()
            return text

    def _question(self, event: QuestionAsked) -> Answer:
        self._say(f"? {visible(event.question, lookalikes=False)}", "strong")
        for number, option in enumerate(event.options, 1):
            self._say(f"  {number} {visible(option, lookalikes=False)}")
        self._say("  Ctrl+D declines to answer.", "dim")

        def decide(said: str) -> Answer | None:
            if said.isdecimal() and 0 < int(said[:6]) <= len(event.options):
                return Answer(verdict="reply", text=event.options[int(said[:6]) - 1])
            return Answer(verdict="reply", text=said)

        declined = Answer(verdict="reject", text="The user did not want to answer.")
        return self._until("Your answer: ", decide, "", declined)

    def _conflict(self, event: PlanDocConflict) -> Answer:
        self._say(f"The plan was changed by two at once, in {visible(event.where)}", "strong")
        for name, text in (
            ("ours, what the agent writes", event.ours),
            ("theirs, what the file says", event.theirs),
        ):
            self._say(f"  {name}:")
            self._say("\n".join(f"    {row}" for row in visible(text, lookalikes=False).split("\n")))
        self._say("  o ours\n  t theirs\n  b both")
        takes = {"o": "ours", "t": "theirs", "b": "both"}

        def decide(said: str) -> Answer | None:
            take = takes.get(said.lower()[:1])
            return None if take is None else Answer(verdict="approve", data={"take": take})

        return self._until("Which one holds? ", decide, _keys("o", "t", "b"))

    # --- asking ---

    def _until(
        self,
        prompt: str,
        decide: Callable[[str], Answer | None],
        keys: str,
        ended: Answer = Answer(verdict="reject"),  # noqa: B008  # a frozen value
    ) -> Answer:
        """Ask until an answer is understood. Ctrl+D is `ended`."""
        while True:
            try:
                said = self._terminal.answer(prompt)
            except Ended:
                self._terminal.say()
                return ended
            answer = decide(said) if said else None
            if answer is not None:
                return answer
            if keys:
                self._say(f"  Answer with {keys}.", "dim")

    def _say(self, text: str, style: str = "") -> None:
        if text:
            self._terminal.say(self._mask.mask(text), style)


_SCOPED = (("s", "for this session"), ("A", "always"))


def _rules(event: ApprovalAsked) -> dict[str, list[str]]:
    """`s` and `A` with the rules that they would store, where there are any."""
    found: dict[str, list[str]] = {}
    for key, scope in (("s", Scope.SESSION), ("A", Scope.ALWAYS)):
        if rules := [rule(grant) for grant in event.grants if grant.scope is scope]:
            found[key] = rules
    return found


def _picked(said: str, parts: int) -> list[int] | None:
    """`p 1 3`: only these hunks."""
    match = _PARTS.fullmatch(said.strip())
    if match is None or parts < 2:
        return None
    places = sorted({int(one[:6]) - 1 for one in re.findall(r"\d+", match[1])})
    return places if places and 0 <= places[0] <= places[-1] < parts else None


def _taken(places: Sequence[int], edits: Mapping[int, str], action: Action) -> dict[str, Any] | None:
    """What `Answer.data` says of parts that were left out or changed; None when it is all as it was asked."""
    if not isinstance(action, Editing):
        return None
    choice = Choice(tuple(places), {at: text for at, text in edits.items() if at in places})
    return None if not action.parts or choice.whole(action.diff) else choice.data()


def _no(said: str) -> Answer | None:
    """`n`, or `n` and the reason."""
    word, _, why = said.partition(" ")
    return Answer(verdict="reject", text=why.strip()) if word.lower() in ("n", "no") else None


def _keys(*keys: str) -> str:
    listed = [key for key in keys if key]
    return f"{', '.join(listed[:-1])} or {listed[-1]}"
