"""Requests in line mode: what the dialogs of the screen ask, with the same answers (A3, A9).

Nothing is the default: an empty line asks again. What was typed before the question was shown never answers it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from tui_agent import events as e
from tui_agent.common.domain import Action, Answer, Diff, EditAction, Grant, ReadAction, RunAction, Scope, TrustAction
from tui_agent.common.hunks import HunkChoice, new_text, with_edits
from tui_agent.common.workplan import InstructionPlan
from tui_agent.frontends.line_mode.terminal import InputEnded, LineTerminal
from tui_agent.frontends.plain import UNATTENDED
from tui_agent.platform.programs import editor_command
from tui_agent.text import Mask, visible

LATER = Answer(verdict="withdrawn")
_STEP = re.compile(r"([ed])\s*(\d+)")
_PARTS = re.compile(r"p\s+([\d\s,]+)")


def needs_answer(event: e.Event) -> bool:
    """Whether somebody has to decide this."""
    if isinstance(event, e.PlanProposed):
        return event.asks
    return isinstance(event, e.ApprovalRequested | e.QuestionAsked | e.PlanDocConflict | e.SummaryProposed)


def unattended_answer(event: e.Event) -> Answer:
    """The answer where nobody is there: nothing is done, and a summary waits for the next start (X3)."""
    verdict: Literal["withdrawn", "reject"] = "withdrawn" if isinstance(event, e.SummaryProposed) else "reject"
    return Answer(verdict=verdict, text=UNATTENDED, by="no terminal")


class RequestPrompt:
    """Puts questions to the person at a terminal. Raises KeyboardInterrupt for Ctrl+C, which stops the run."""

    def __init__(self, terminal: LineTerminal, mask: Mask) -> None:
        self._terminal = terminal
        self._mask = mask

    def ask(self, event: e.Event) -> Answer:
        """What the user decides."""
        match event:
            case e.ApprovalRequested():
                return self._approval(event)
            case e.PlanProposed():
                return self._plan(event)
            case e.QuestionAsked():
                return self._question(event)
            case e.SummaryProposed():
                return self._summary(event)
            case e.PlanDocConflict():
                return self._conflict(event)
        return unattended_answer(event)

    # --- an action ---

    def _approval(self, event: e.ApprovalRequested) -> Answer:
        action = event.action
        hides = self._show(action_lines(action))
        self._print(f"  {visible(event.why)}", "dim")
        trusting = isinstance(action, TrustAction)
        rules = {} if trusting else _rules(event)
        parts = len(action.diff.hunks) if isinstance(action, EditAction) and action.parts else 0
        edits: dict[int, str] = {}
        choices = ["y trust it" if trusting else "y yes, once"]
        choices += [f"{key} {words}: {', '.join(rules[key])}" for key, words in _SCOPED if key in rules]
        choices += ["p 1 3 approve only these parts"] if parts > 1 else []
        choices += ["e 1 edit part 1 in your editor"] if parts else []
        choices += ["n no" if trusting else "n no; n REASON tells the model why"]
        choices += ["u show the secrets"] if hides else []
        self._print("  " + "\n  ".join(choices))

        def decide(said: str) -> Answer | None:
            word = said.lower()
            if word in ("y", "yes"):
                return Answer(verdict="approve", data=_answer_data(range(parts), edits, action))
            if said in ("s", "A", "always") and (key := said[:1].replace("a", "A")) in rules and not edits:
                return Answer(verdict="approve", scope=Scope.SESSION if key == "s" else Scope.ALWAYS)
            if parts and (picked := _chosen_hunks(said, parts)) is not None:
                return Answer(verdict="approve", data=_answer_data(picked, edits, action))
            if parts and (match := _STEP.fullmatch(said)) is not None and match[1] == "e":
                self._edit_part(action, int(match[2][:6]) - 1, edits)
                return None
            if word == "u" and hides:
                self._show(action_lines(action), with_secrets=True)
                return None
            return _rejection(said)

        keys = _key_list("y", *rules, "p" if parts > 1 else "", "e" if parts else "", "n")
        return self._ask_until("Approve? ", decide, keys)

    def _edit_part(self, action: Action, place: int, edits: dict[int, str]) -> None:
        """Let the user change the new text of a part; `edits` holds what was changed."""
        if not isinstance(action, EditAction) or not 0 <= place < len(action.diff.hunks):
            return
        before = new_text(action.diff.hunks[place])
        try:
            text = edit_text(edits.get(place, before), action.display)
        except EditorError as error:
            self._print(f"  {visible(str(error))}")
            return
        edits.pop(place, None)
        if text != before:
            edits[place] = text
        self._show(diff_lines(with_edits(action.diff, edits)))
        self._print("  y approves it with your text" if edits else "  It is as proposed.")

    def _show(self, lines: Sequence[Styled], *, with_secrets: bool = False) -> bool:
        """Print lines; True when there is a secret in them that is not shown."""
        whole = "\n".join(text for text, _ in lines)
        masked = self._mask.mask(whole)
        if with_secrets or masked == whole:
            for text, style in lines:
                self._terminal.say(text, style)
            return False
        styles = [style for _, style in lines]
        shown = masked.split("\n")
        for number, text in enumerate(shown):  # a secret of several lines leaves fewer of them
            self._terminal.say(text, styles[number] if len(shown) == len(styles) else "")
        return True

    # --- plans, summaries, questions ---

    def _plan(self, event: e.PlanProposed) -> Answer:
        plan = event.plan
        for number, one in enumerate(plan.alternatives, 1):
            self._print(f"  {number} alternative: {visible(one.approach, lookalikes=False)}")
        self._print(f"  {visible(event.why, lookalikes=False)}" if event.why else "", "dim")
        self._print("  y approve\n  e 2 edit step 2\n  d 2 drop step 2\n  n no; n REASON says what is wrong")

        def decide(said: str) -> Answer | None:
            nonlocal plan
            if said.lower() in ("y", "yes"):
                data = None if plan == event.plan else {"plan": msgspec.to_builtins(plan)}
                return Answer(verdict="approve", data=data)
            if said.isdecimal() and 0 < int(said[:6]) <= len(plan.alternatives):
                return Answer(verdict="approve", data={"alternative": int(said[:6]) - 1})
            if (match := _STEP.fullmatch(said)) is not None and 0 < int(match[2][:6]) <= len(plan.steps):
                plan = self._changed_plan(plan, match[1], int(match[2][:6]) - 1)
                return None
            return _rejection(said)

        numbers = [str(number) for number in range(1, len(plan.alternatives) + 1)]
        return self._ask_until("Approve this plan? ", decide, _key_list("y", *numbers, "e", "d", "n"))

    def _changed_plan(self, plan: InstructionPlan, how: str, place: int) -> InstructionPlan:
        """The plan with a step reworded or dropped; the last step stays."""
        steps = list(plan.steps)
        if how == "d" and len(steps) > 1:
            del steps[place]
        elif how == "e":
            said = self._edit_field(f"  step {place + 1}: ", steps[place].description)
            steps[place] = msgspec.structs.replace(steps[place], description=said)
        steps = [msgspec.structs.replace(step, number=number) for number, step in enumerate(steps, 1)]
        for step in steps:
            self._print(f"  {step.number}. {visible(step.description, lookalikes=False)}")
        return msgspec.structs.replace(plan, steps=tuple(steps))

    def _summary(self, event: e.SummaryProposed) -> Answer:
        self._print("  y accept\n  e edit\n  n discard\n  l later, at the next start")
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
                        name: self._edit_field(f"  {name}: ", getattr(summary, name))
                        for name in ("action", "details", "result")
                    }
                    summary = msgspec.structs.replace(summary, **words)
            return None

        return self._ask_until("Accept this summary? ", decide, _key_list("y", "e", "n", "l"), LATER)

    def _edit_field(self, prompt: str, text: str) -> str:
        """A text as the user changes it; one with a secret in it is left as it is."""
        if self._mask.mask(text) != text:
            self._print(f"{prompt}contains a secret and stays unchanged")
            return text
        try:
            return self._terminal.edit(prompt, text)
        except InputEnded:
            self._terminal.say()
            return text

    def _question(self, event: e.QuestionAsked) -> Answer:
        self._print(f"? {visible(event.question, lookalikes=False)}", "strong")
        for number, option in enumerate(event.options, 1):
            self._print(f"  {number} {visible(option, lookalikes=False)}")
        self._print("  Ctrl+D declines to answer.", "dim")

        def decide(said: str) -> Answer | None:
            if said.isdecimal() and 0 < int(said[:6]) <= len(event.options):
                return Answer(verdict="reply", text=event.options[int(said[:6]) - 1])
            return Answer(verdict="reply", text=said)

        declined = Answer(verdict="reject", text="The user did not want to answer.")
        return self._ask_until("Your answer: ", decide, "", declined)

    def _conflict(self, event: e.PlanDocConflict) -> Answer:
        self._print(f"The agent and you both changed the plan, in {visible(event.where)}", "strong")
        for name, text in (("ours, the agent's text", event.ours), ("theirs, the text in the file", event.theirs)):
            self._print(f"  {name}:")
            self._print("\n".join(f"    {row}" for row in visible(text, lookalikes=False).split("\n")))
        self._print("  o ours\n  t theirs\n  b both")
        takes = {"o": "ours", "t": "theirs", "b": "both"}

        def decide(said: str) -> Answer | None:
            take = takes.get(said.lower()[:1])
            return None if take is None else Answer(verdict="approve", data={"take": take})

        return self._ask_until("Which one? ", decide, _key_list("o", "t", "b"))

    # --- asking ---

    def _ask_until(
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
            except InputEnded:
                self._terminal.say()
                return ended
            answer = decide(said) if said else None
            if answer is not None:
                return answer
            if keys:
                self._print(f"  Answer with {keys}.", "dim")

    def _print(self, text: str, style: str = "") -> None:
        if text:
            self._terminal.say(self._mask.mask(text), style)


_SCOPED = (("s", "for this session"), ("A", "always"))


def _rules(event: e.ApprovalRequested) -> dict[str, list[str]]:
    """`s` and `A` with the rules that they would store, where there are any."""
    found: dict[str, list[str]] = {}
    for key, scope in (("s", Scope.SESSION), ("A", Scope.ALWAYS)):
        if rules := [grant_text(grant) for grant in event.grants if grant.scope is scope]:
            found[key] = rules
    return found


def _chosen_hunks(said: str, parts: int) -> list[int] | None:
    """`p 1 3`: only these hunks."""
    match = _PARTS.fullmatch(said.strip())
    if match is None or parts < 2:
        return None
    places = sorted({int(one[:6]) - 1 for one in re.findall(r"\d+", match[1])})
    return places if places and 0 <= places[0] <= places[-1] < parts else None


def _answer_data(places: Sequence[int], edits: Mapping[int, str], action: Action) -> dict[str, Any] | None:
    """What `Answer.data` says of parts that were left out or changed; None when it is all as it was asked."""
    if not isinstance(action, EditAction):
        return None
    choice = HunkChoice(tuple(places), {at: text for at, text in edits.items() if at in places})
    return None if not action.parts or choice.whole(action.diff) else choice.data()


def _rejection(said: str) -> Answer | None:
    """`n`, or `n` and the reason."""
    word, _, why = said.partition(" ")
    return Answer(verdict="reject", text=why.strip()) if word.lower() in ("n", "no") else None


def _key_list(*keys: str) -> str:
    listed = [key for key in keys if key]
    return f"{', '.join(listed[:-1])} or {listed[-1]}"


TEXT_MAX = 4 << 20
"""Bytes that are taken from an editor."""


class EditorError(Exception):
    """There is no other text; the message says why."""


def edit_text(text: str, name: str) -> str:
    """`text` as the user saves it, in a file that ends like `name`. Raises EditorError."""
    argv = editor_command(os.environ)
    if not argv:
        raise EditorError("No editor was found. Set EDITOR to yours.")
    with tempfile.TemporaryDirectory(prefix="tui-agent-") as folder:
        path = Path(folder) / f"part{os.path.splitext(name)[1]}"
        path.write_text(f"{text}\n", encoding="utf-8", errors="surrogateescape", newline="")
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is the editor's
        try:
            code = subprocess.run([*argv, str(path)], check=False).returncode
            data = path.read_bytes()
        except OSError as error:
            raise EditorError(f"{argv[0]} can't be used: {error.strerror}.") from error
        finally:
            signal.signal(signal.SIGINT, before)
    if code:
        raise EditorError(f"{argv[0]} ended with {code}; nothing changed.")
    if len(data) > TEXT_MAX:
        raise EditorError("The saved text is too long; nothing changed.")
    return data.decode("utf-8", "surrogateescape").removesuffix("\n")


Styled = tuple[str, str]
"""A line and its style."""
SIGNS = {"+": "added", "-": "removed", "@": "dim"}


# --- what asks ------------------------------------------------------------------------------


def action_lines(action: Action) -> list[Styled]:
    """Exactly what is asked about: every line of a change, the whole command, what would be read or trusted (A9)."""
    match action:
        case EditAction(display=name, diff=diff):
            verb = {"create": "Create", "modify": "Edit", "delete": "Delete"}[diff.kind]
            head = [(f"{verb} {visible(name)}  (+{diff.added} −{diff.removed})", "strong")]
            return [*head, *_flags(action), *diff_lines(diff)]
        case RunAction():
            return [(f"Run a command, severity {action.severity.value}", "strong"), *_command(action)]
        case ReadAction(path=path):
            return [(f"Read {visible(path)}", "strong"), *_flags(action)]
        case TrustAction(folder=folder, found=found):
            lines: list[Styled] = [(f"Trust this folder? {visible(folder)}", "strong")]
            lines += [("  If you trust it, these are read and followed:", "")] if found else []
            return [*lines, *((f"  • {visible(one)}", "") for one in found)]


def diff_lines(diff: Diff) -> list[Styled]:
    """A change with its hunks numbered, nothing left out and nothing hidden."""
    lines: list[Styled] = []
    for number, hunk in enumerate(diff.hunks, 1):
        where = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
        lines.append((f"{where} part {number} of {len(diff.hunks)}", "dim"))
        for text in hunk.lines:
            lines.append((visible(text, lookalikes=False), SIGNS.get(text[:1], "")))
    return [*lines, *([(f"({visible(diff.note)})", "dim")] if diff.note else [])]


def grant_text(grant: Grant) -> str:
    """A standing rule in words."""
    where = f" in {visible(grant.cwd)}" if grant.cwd else ""
    changed = f" with {', '.join(visible(one) for one in grant.env_changes)}" if grant.env_changes else ""
    return f"{grant.kind} {visible(grant.pattern)}{where}{changed}"


def _command(action: RunAction) -> list[Styled]:
    lines: list[Styled] = [
        (("  $ " if number == 0 else "    ") + text, "")
        for number, text in enumerate(visible(action.command).split("\n"))
    ]
    lines.append((f"  in {visible(action.cwd)}", "dim"))
    lines += [(f"  why {visible(reason)}", "dim") for reason in action.reasons]
    return [*lines, *((f"  env {visible(change)}", "warn") for change in action.env_changes)]


def _flags(action: EditAction | ReadAction) -> list[Styled]:
    words = {
        "outside": "outside the workspace",
        "protected": "protected",
        "sensitive": "sensitive",
        "credentials": "known to contain secrets",
    }
    choices = [text for name, text in words.items() if getattr(action, name, False)]
    return [(f"  This file is {' and '.join(choices)}.", "warn")] if choices else []
