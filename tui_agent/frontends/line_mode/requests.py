"""Requests in line mode, with the same answers as the dialogs of the screen (A3, A9).

There is no default: an empty line asks again. What was typed before a question was shown never answers it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tui_agent import events as e
from tui_agent.common.domain import (
    Action,
    Answer,
    EditAction,
    Harm,
    ReadAction,
    RunAction,
    Scope,
    Severity,
    TrustAction,
)
from tui_agent.common.hunks import HunkChoice, new_side_text, with_edits
from tui_agent.common.workplan import InstructionPlan
from tui_agent.events.grant_texts import DURATIONS, grants_text
from tui_agent.events.narration import file_warning, harm_texts, trust_texts
from tui_agent.frontends.line_mode.terminal import InputEnded, LineTerminal
from tui_agent.frontends.plain import UserRequest
from tui_agent.frontends.plain_diffs import Styled, diff_lines
from tui_agent.frontends.session_commands import parse_choice
from tui_agent.platform.programs import editor_command
from tui_agent.platform.temporary import TemporaryFolder
from tui_agent.text import SecretMask, make_visible

EDITOR_TEXT_MAX = 4 << 20
"""Bytes accepted from an editor."""
_NUMBERED = re.compile(r"([ed])\s*(\d{1,6})")
"""`e 2` or `d 2`: edit or drop a step, edit a hunk."""
_SELECTED_HUNKS = re.compile(r"p\s+([\d\s,]+)")
_SCOPES = {"s": Scope.SESSION, "A": Scope.ALWAYS}
"""Key → scope of the approval."""


class RequestPrompt:
    """Asks the user at a terminal. Methods raise KeyboardInterrupt for Ctrl+C, which stops the run."""

    def __init__(self, terminal: LineTerminal, mask: SecretMask) -> None:
        self._terminal = terminal
        self._mask = mask

    def ask(self, event: UserRequest) -> Answer:
        """Ask the user about a request and return the answer."""
        match event:
            case e.ApprovalRequested():
                return self._ask_approval(event)
            case e.PlanProposed():
                return self._ask_plan(event)
            case e.QuestionAsked():
                return self._ask_question(event)
            case e.SummaryProposed():
                return self._ask_summary(event)
            case e.PlanDocConflict():
                return self._ask_conflict(event)

    # --- approvals ---

    def _ask_approval(self, event: e.ApprovalRequested) -> Answer:
        action, why = event.action, event.why
        has_secrets = self._print_masked(action_lines(action, why))
        self._print(f"  {make_visible(why)}", "dim")
        if isinstance(action, RunAction) and action.severity is Severity.CRITICAL:
            return self._ask_critical(event.harm or Harm(), action, why, has_secrets)
        is_trust = isinstance(action, TrustAction)
        grants = {} if is_trust else _grants_by_key(event)
        hunks = len(action.diff.hunks) if isinstance(action, EditAction) and action.splittable else 0
        edits: dict[int, str] = {}
        choices = ["a trust it" if is_trust else "a approve once"]
        choices += [f"{key} {DURATIONS[_SCOPES[key]]}: {rules}" for key, rules in grants.items()]
        choices += ["p 1 3 approve only these hunks"] if hunks > 1 else []
        choices += ["e 1 edit hunk 1 in your editor"] if hunks else []
        choices += ["r reject" if is_trust else "r reject; r REASON tells the model why"]
        choices += ["u show the secrets"] if has_secrets else []
        self._print("  " + "\n  ".join(choices))

        def parse(reply: str) -> Answer | None:
            if _approves(reply):
                return Answer(verdict="approve", data=_edit_data(range(hunks), edits, action))
            if (key := "A" if reply == "always" else reply) in grants and not edits:
                return Answer(verdict="approve", scope=_SCOPES[key])
            if hunks and (selected := _selected_hunks(reply, hunks)) is not None:
                return Answer(verdict="approve", data=_edit_data(selected, edits, action))
            if hunks and (match := _NUMBERED.fullmatch(reply)) is not None and match[1] == "e":
                self._edit_hunk(action, int(match[2]) - 1, edits)
                return None
            if reply.lower() == "u" and has_secrets:
                self._print_masked(action_lines(action, why), with_secrets=True)
                return None
            return _parse_rejection(reply)

        keys = _key_list("a", *grants, "p" if hunks > 1 else "", "e" if hunks else "", "r")
        return self._ask_until("Approve? ", parse, keys)

    def _ask_critical(self, harm: Harm, action: Action, why: str, has_secrets: bool) -> Answer:
        """Ask about a critical command: a word approves it, once; no key does."""
        for text in harm_texts(harm):
            self._print(f"  !! {make_visible(text)}", "warn")
        self._print("  r rejects it; r REASON tells the model why")
        if has_secrets:
            self._print("  u show the secrets")

        def parse(reply: str) -> Answer | None:
            if reply.strip("\"'") == harm.word:
                return Answer(verdict="approve")
            if reply.lower() == "u" and has_secrets:
                self._print_masked(action_lines(action, why), with_secrets=True)
                return None
            return _parse_rejection(reply)

        choice = f'"{make_visible(harm.word)}" to run it, or r to reject it'
        return self._ask_until(f"Type {choice}: ", parse, choice)

    def _edit_hunk(self, action: Action, index: int, edits: dict[int, str]) -> None:
        """Let the user edit the new text of a hunk, and update `edits`."""
        if not isinstance(action, EditAction) or not 0 <= index < len(action.diff.hunks):
            return
        proposed = new_side_text(action.diff.hunks[index])
        try:
            text = edit_text(edits.get(index, proposed), action.display)
        except EditorError as error:
            self._print(f"  {make_visible(str(error))}")
            return
        edits.pop(index, None)
        if text != proposed:
            edits[index] = text
        self._print_masked(diff_lines(with_edits(action.diff, edits)))
        self._print("  a approves it with your text" if edits else "  It is as proposed.")

    def _print_masked(self, lines: Sequence[Styled], *, with_secrets: bool = False) -> bool:
        """Print lines; return True if secrets in them were masked."""
        exact = "\n".join(text for text, _ in lines)
        masked = exact if with_secrets else self._mask.mask(exact)
        if masked != exact:
            texts = masked.split("\n")  # masking a multi-line secret leaves fewer lines
            styles = [style for _, style in lines] if len(texts) == len(lines) else [""] * len(texts)
            lines = list(zip(texts, styles, strict=True))
        for text, style in lines:
            self._terminal.print(text, style)
        return masked != exact

    # --- plans, summaries, questions ---

    def _ask_plan(self, event: e.PlanProposed) -> Answer:
        plan = event.plan
        self._print("  a approve")
        for number, alternative in enumerate(plan.alternatives, 1):
            which = f": {make_visible(alternative.approach, lookalikes=False)}" if len(plan.alternatives) > 1 else ""
            self._print(f"  {number} alternative{which}")
        self._print("  e 2 edit step 2\n  d 2 drop step 2\n  r reject; r REASON says what is wrong")

        def parse(reply: str) -> Answer | None:
            nonlocal plan
            if _approves(reply):
                data = None if plan == event.plan else {"plan": msgspec.to_builtins(plan)}
                return Answer(verdict="approve", data=data)
            if (index := parse_choice(reply, len(plan.alternatives))) is not None:
                return Answer(verdict="approve", data={"alternative": index})
            if (match := _NUMBERED.fullmatch(reply)) is not None and 0 < int(match[2]) <= len(plan.steps):
                plan = self._edit_plan(plan, match[1], int(match[2]) - 1)
                return None
            return _parse_rejection(reply)

        numbers = [str(number) for number in range(1, len(plan.alternatives) + 1)]
        return self._ask_until("Approve this plan? ", parse, _key_list("a", *numbers, "e", "d", "r"))

    def _edit_plan(self, plan: InstructionPlan, command: str, index: int) -> InstructionPlan:
        """Edit a step (`e`), or drop it (`d`) unless it is the only one."""
        steps = list(plan.steps)
        if command == "d" and len(steps) > 1:
            del steps[index]
        elif command == "e":
            description = self._edit_field(f"  step {index + 1}: ", steps[index].description)
            steps[index] = msgspec.structs.replace(steps[index], description=description)
        steps = [msgspec.structs.replace(step, number=number) for number, step in enumerate(steps, 1)]
        for step in steps:
            self._print(f"  {step.number}. {make_visible(step.description, lookalikes=False)}")
        return msgspec.structs.replace(plan, steps=tuple(steps))

    def _ask_summary(self, event: e.SummaryProposed) -> Answer:
        self._print("  a accept\n  e edit\n  r discard\n  l later, at the next start")
        summary, later = event.summary, Answer(verdict="withdrawn")

        def parse(reply: str) -> Answer | None:
            nonlocal summary
            match reply.lower():
                case _ if _approves(reply):
                    data = None if summary == event.summary else {"summary": msgspec.to_builtins(summary)}
                    return Answer(verdict="approve", data=data)
                case "r" | "n" | "no":
                    return Answer(verdict="reject")
                case "l" | "later":
                    return later
                case "e":
                    fields = {
                        name: self._edit_field(f"  {name}: ", getattr(summary, name))
                        for name in ("action", "details", "result")
                    }
                    summary = msgspec.structs.replace(summary, **fields)
            return None

        return self._ask_until("Accept this summary? ", parse, _key_list("a", "e", "r", "l"), later)

    def _edit_field(self, prompt: str, text: str) -> str:
        """Let the user edit a text; one that contains a secret stays unchanged."""
        if self._mask.mask(text) != text:
            self._print(f"{prompt}contains a secret and stays unchanged")
            return text
        try:
            return self._terminal.edit(prompt, text)
        except InputEnded:
            self._terminal.print()
            return text

    def _ask_question(self, event: e.QuestionAsked) -> Answer:
        self._print(f"? {make_visible(event.question, lookalikes=False)}", "strong")
        for number, option in enumerate(event.options, 1):
            self._print(f"  {number} {make_visible(option, lookalikes=False)}")
        self._print(f"  Ctrl+D {event.otherwise or 'declines to answer'}.", "dim")

        def parse(reply: str) -> Answer | None:
            index = parse_choice(reply, len(event.options))
            if index is None and event.otherwise:
                return None
            return Answer(verdict="reply", text=reply if index is None else event.options[index])

        declined = Answer(verdict="reject", text="The user did not want to answer.")
        keys = _key_list(*map(str, range(1, len(event.options) + 1))) if event.otherwise else ""
        return self._ask_until("Your answer: ", parse, keys, declined)

    def _ask_conflict(self, event: e.PlanDocConflict) -> Answer:
        self._print(f"The agent and you both changed the plan, in {make_visible(event.where)}", "strong")
        for name, text in (("ours, the agent's text", event.ours), ("theirs, the text in the file", event.theirs)):
            self._print(f"  {name}:")
            self._print(textwrap.indent(make_visible(text, lookalikes=False), "    ", lambda line: True))
        self._print("  o ours\n  t theirs\n  b both")
        sides = {"o": "ours", "t": "theirs", "b": "both"}

        def parse(reply: str) -> Answer | None:
            word = reply.lower()
            take = word if word in sides.values() else sides.get(word)
            return None if take is None else Answer(verdict="approve", data={"take": take})

        return self._ask_until("Which one? ", parse, _key_list("o", "t", "b"))

    # --- input and output ---

    def _ask_until(
        self,
        prompt: str,
        parse: Callable[[str], Answer | None],
        keys: str,
        on_end: Answer = Answer(verdict="reject"),  # noqa: B008  # a frozen value
    ) -> Answer:
        """Ask until `parse` returns an answer. Ctrl+D returns `on_end`."""
        while True:
            try:
                reply = self._terminal.read_answer(prompt)
            except InputEnded:
                self._terminal.print()
                return on_end
            answer = parse(reply) if reply else None
            if answer is not None:
                return answer
            if keys:
                self._print(f"  Answer with {keys}.", "dim")

    def _print(self, text: str, style: str = "") -> None:
        if text:
            self._terminal.print(self._mask.mask(text), style)


def _grants_by_key(event: e.ApprovalRequested) -> dict[str, str]:
    """Key of a scope → what an approval with it allows from then on."""
    texts = {key: grants_text(event.grants, event.action, scope) for key, scope in _SCOPES.items()}
    return {key: text for key, text in texts.items() if text}


def _selected_hunks(reply: str, count: int) -> list[int] | None:
    """The indexes for `p 1 3`."""
    match = _SELECTED_HUNKS.fullmatch(reply)
    if match is None or count < 2:
        return None
    indexes = {parse_choice(number, count) for number in re.findall(r"\d+", match[1])}
    return None if None in indexes else sorted(index for index in indexes if index is not None)


def _edit_data(indexes: Sequence[int], edits: Mapping[int, str], action: Action) -> dict[str, Any] | None:
    """`Answer.data` for selected and edited hunks; None if the edit is approved unchanged."""
    if not isinstance(action, EditAction):
        return None
    choice = HunkChoice(tuple(indexes), {index: text for index, text in edits.items() if index in indexes})
    return None if not action.splittable or choice.selects_all(action.diff) else choice.to_answer()


def _parse_rejection(reply: str) -> Answer | None:
    """`r`, optionally followed by a reason."""
    word, _, reason = reply.partition(" ")
    return Answer(verdict="reject", text=reason.strip()) if word.lower() in ("r", "n", "no") else None


def _approves(reply: str) -> bool:
    """Whether the reply approves, once: `a` as on the screen, or `y`. `A` is another key."""
    return reply == "a" or reply.lower() in ("y", "yes")


def _key_list(*keys: str) -> str:
    present = [key for key in keys if key]
    return f"{', '.join(present[:-1])} or {present[-1]}"


class EditorError(Exception):
    """The editor returned no text; the message says why."""


def edit_text(text: str, name: str) -> str:
    """Open `text` in the user's editor, in a file with the suffix of `name`, and return the result.

    Raises EditorError.
    """
    argv = editor_command(os.environ)
    if not argv:
        raise EditorError("No editor was found. Set EDITOR to yours.")
    with TemporaryFolder("edit") as folder:
        path = folder / f"part{os.path.splitext(name)[1]}"
        path.write_text(f"{text}\n", encoding="utf-8", errors="surrogateescape", newline="")
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the editor
        try:
            code = subprocess.run([*argv, str(path)], check=False).returncode
            data = path.read_bytes()
        except OSError as error:
            raise EditorError(f"{argv[0]} can't be used: {error.strerror}.") from error
        finally:
            signal.signal(signal.SIGINT, handler)
    if code:
        raise EditorError(f"{argv[0]} ended with {code}; nothing changed.")
    if len(data) > EDITOR_TEXT_MAX:
        raise EditorError("The saved text is too long; nothing changed.")
    return data.decode("utf-8", "surrogateescape").removesuffix("\n")


# --- text of requests -----------------------------------------------------------------------


def action_lines(action: Action, why: str) -> list[Styled]:
    """The complete action: every line of a diff, the whole command, what would be read or trusted (A9).

    `why` is the reason for asking, which is printed below.
    """
    match action:
        case EditAction(display=name, diff=diff):
            verb = {"create": "Create", "modify": "Edit", "delete": "Delete"}[diff.kind]
            head = [(f"{verb} {make_visible(name)}  (+{diff.added} −{diff.removed})", "strong")]
            return [*head, *_warnings(action, why), *diff_lines(diff)]
        case RunAction():
            severity = "" if action.severity is Severity.NONE else f", severity {action.severity.value}"
            return [(f"Run a command{severity}", "strong"), *_command_lines(action)]
        case ReadAction(path=path):
            return [(f"Read {make_visible(path)}", "strong"), *_warnings(action, why)]
        case TrustAction(folder=folder, contents=found, risks=risks):
            intro, foot = trust_texts(action)
            lines: list[Styled] = [(f"Trust this folder? {make_visible(folder)}", "strong")]
            lines += [(f"  ! {make_visible(risk)}", "strong") for risk in risks]
            lines += [(f"  {intro}", ""), *((f"  • {make_visible(name)}", "") for name in found)]
            return [*lines, (f"  {foot}", "dim")]


def _command_lines(action: RunAction) -> list[Styled]:
    lines: list[Styled] = [
        (("  $ " if number == 0 else "    ") + text, "")
        for number, text in enumerate(make_visible(action.command).split("\n"))
    ]
    lines.append((f"  in {make_visible(action.cwd)}", "dim"))
    lines += [(f"  why {make_visible(reason)}", "dim") for reason in action.reasons]
    return [*lines, *((f"  env {make_visible(change)}", "warn") for change in action.env_changes)]


def _warnings(action: EditAction | ReadAction, why: str) -> list[Styled]:
    warning, _says_flag = file_warning(action, why)
    return [(f"  {warning}", "warn")] if warning else []
