"""What happens, line by line: as `exec` prints it, with names in front of who speaks (seed 001)."""

from __future__ import annotations

from typing import TextIO

from tui_agent.domain import Action, Diff, Editing, Grant, Reading, Running, Trusting
from tui_agent.events import (
    ApprovalAsked,
    ApprovalVoided,
    ConversationRewound,
    ModeChanged,
    ModelChanged,
    PlanDocChanged,
    PlanDocConflict,
    QuestionAsked,
    Record,
    ReplyText,
    SessionOpened,
    ShellRan,
    UndoDone,
)
from tui_agent.frontends.plain import PlainText
from tui_agent.text import Mask, clean, one_line, visible

Styled = tuple[str, str]
"""A line and its style."""
SIGNS = {"+": "added", "-": "removed", "@": "dim"}


class Lines(PlainText):
    """Writes records as they come; what asks is shown where it is asked, not here."""

    def __init__(self, out: TextIO, mask: Mask, *, attended: bool) -> None:
        super().__init__(out, mask)
        self._attended = attended

    def show(self, record: Record) -> None:
        """Write one record."""
        if isinstance(record.event, ReplyText) and not self._in_text:
            self._out.write("Agent: ")
        super().show(record)

    def end_line(self) -> None:
        """Whatever is written next begins a line."""
        if self._in_text:
            self._out.write(self._masker.flush() + "\n")
            self._out.flush()
            self._in_text = False

    def _line(self, event: object) -> str | None:
        match event:
            case ApprovalAsked() | QuestionAsked() | PlanDocConflict() if self._attended:
                return None
            case SessionOpened(resumed=resumed):
                line = super()._line(event)
                return f"{line} · resumed" if resumed else line
            case ShellRan(output=output, exit_code=code):
                return _ran(clean(output), code)
            case ApprovalVoided(reason=reason):
                return f"  ! It can't be approved any more: {one_line(clean(reason), 300)}"
            case ModeChanged(mode=mode, approval_mode=approval):
                return f"mode {mode} · approvals {approval}"
            case ModelChanged(model=model, by="user"):
                return f"model {one_line(clean(model), 100)}"
            case _:
                return self._remark(event)

    def _remark(self, event: object) -> str | None:
        match event:
            case PlanDocChanged(pending=True):
                return (
                    "  ? The model proposes a change of the plan: /plan shows it, /plan accept, /plan discard"
                )
            case PlanDocChanged(by="user" | "editor"):
                return "  ✓ plan changed"
            case UndoDone(kind=kind, items=items):
                lines = [f"  {kind} {clean(item.display)}: {item.outcome or 'not done'}" for item in items]
                return "\n".join(lines) or None
            case ConversationRewound(cleared=True):
                return "The conversation begins anew; plan and files stay. /redo brings it back."
            case ConversationRewound(run=run):
                return "The conversation is as it was before that message." if run else None
        return super()._line(event)


def _ran(output: str, code: int | None) -> str:
    ended = "" if code == 0 else "[stopped]" if code is None else f"[exit code {code}]"
    return "\n".join(part for part in (output.rstrip("\n"), ended) if part) or "[no output]"


# --- what asks ------------------------------------------------------------------------------


def action_lines(action: Action) -> list[Styled]:
    """Exactly what is asked about: every line of a change, the whole command, what would be read or trusted (A9)."""
    match action:
        case Editing(display=name, diff=diff):
            verb = {"create": "Create", "modify": "Edit", "delete": "Delete"}[diff.kind]
            head = [(f"{verb} {visible(name)}  (+{diff.added} −{diff.removed})", "strong")]
            return [*head, *_flags(action), *diff_lines(diff)]
        case Running():
            return [(f"Run a command, severity {action.severity.value}", "strong"), *_command(action)]
        case Reading(path=path):
            return [(f"Read {visible(path)}", "strong"), *_flags(action)]
        case Trusting(folder=folder, found=found):
            lines: list[Styled] = [(f"Trust this folder? {visible(folder)}", "strong")]
            lines += [("  Once trusted, these are read and obeyed:", "")] if found else []
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


def rule(grant: Grant) -> str:
    """A standing rule in words."""
    where = f" in {visible(grant.cwd)}" if grant.cwd else ""
    changed = f" with {', '.join(visible(one) for one in grant.env_changes)}" if grant.env_changes else ""
    return f"{grant.kind} {visible(grant.pattern)}{where}{changed}"


def _command(action: Running) -> list[Styled]:
    lines: list[Styled] = [
        (("  $ " if number == 0 else "    ") + text, "")
        for number, text in enumerate(visible(action.command).split("\n"))
    ]
    lines.append((f"  in {visible(action.cwd)}", "dim"))
    lines += [(f"  why {visible(reason)}", "dim") for reason in action.reasons]
    return [*lines, *((f"  env {visible(change)}", "warn") for change in action.env_changes)]


def _flags(action: Editing | Reading) -> list[Styled]:
    words = {
        "outside": "outside the workspace",
        "protected": "protected",
        "sensitive": "sensitive",
        "credentials": "known to hold secrets",
    }
    told = [text for name, text in words.items() if getattr(action, name, False)]
    return [(f"  This file is {' and '.join(told)}.", "warn")] if told else []
