"""Sentences of the program: notices, how a run ended, requests that belong to no tool call."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from tui_agent.domain import Answer, Scope, Trusting
from tui_agent.keymap import key_of
from tui_agent.view import EndItem, NoticeItem, RequestItem
from widgets.blocks.base import Block, duration
from widgets.ink import Ink, Line, Span, indent, wrap
from widgets.markdown import render

ENDINGS = {
    "failed": ("✗", "bad", "Failed"),
    "interrupted": ("■", "warn", "Stopped"),
    "limit": ("■", "warn", "Stopped at the limit"),
    "refused": ("■", "warn", "Refused"),
    "unreachable": ("✗", "bad", "No answer from the model"),
}


COMPACTED = "context.compacted"
"""Code of the notice behind which the summary stands."""
BEHIND = 400
"""Lines of what stands behind a notice."""
TAKEN = {"ours": "the agent's text was taken", "theirs": "the file's text was kept", "both": "both were kept"}
"""What was decided about an edit of the plan that two made at once."""
PLACES = {
    "goal": "the goal",
    "status": "the status",
    "acceptance_criteria": "a criterion",
    "decisions_made": "a decision",
    "decisions_rejected": "a rejected decision",
    "execution_log": "a log entry",
}


def place(where: str) -> str:
    """A place of the plan, as the user reads it."""
    first, *rest = where.split(" · ")
    return " · ".join([PLACES.get(first, first.replace("_", " ")), *rest])


def marked(symbol: str, style: Style, text: str, body: Style, width: int) -> list[Line]:
    """A symbol with text hanging beside it."""
    return indent(wrap([(text, body)], width - 2), [(symbol + " ", style)], [("  ", style)])


class NoticeBlock(Block[NoticeItem]):
    """A sentence for the user."""

    compact = True

    def paint(self, width: int, ink: Ink) -> Sequence[Line]:
        """State by symbol and colour."""
        symbol, style, body = {
            "info": ("·", ink.muted, ink.muted),
            "warning": ("!", ink.warn, ink.text),
            "error": ("✗", ink.bad, ink.text),
        }[self.item.level]
        more = self.item.more
        text: list[Span] = [(self.item.text, body)]
        if more and not self.open:
            text.append((f" · {key_of('details')}", ink.muted))
        lines = indent(wrap(text, width - 2), [(symbol + " ", style)], [("  ", style)])
        return [*lines, *self._behind(more, width, ink)] if more and self.open else lines

    def _behind(self, more: str, width: int, ink: Ink) -> list[Line]:
        """What stands behind the sentence, a summary as the markdown that it is."""
        room = max(1, width - 4)
        if self.item.code == COMPACTED:
            lines = render(more, room, ink)
        else:
            lines = [one for row in more.split("\n") for one in wrap([(row, ink.muted)], room)]
        return indent(lines[:BEHIND], [("  │ ", ink.faint)])

    def plain(self) -> str:
        """The sentence and, when it is unfolded, what stands behind it."""
        return f"{self.item.text}\n{self.item.more}" if self.item.more and self.open else self.item.text


class EndBlock(Block[EndItem]):
    """How a run ended: a quiet line after work, nothing after talk."""

    def paint(self, width: int, ink: Ink) -> Sequence[Line]:
        """Outcome, reason, what it took."""
        item = self.item
        took = duration(item.ms)
        if item.tool_calls:
            took = f"{item.tool_calls} tool call{'s' if item.tool_calls > 1 else ''} · {took}"
        if item.outcome == "done":
            lines = wrap([(item.text, ink.text)], width) if item.text else []
            if not item.tool_calls:
                return lines
            return [
                *lines,
                *([Line([])] if lines else []),
                *marked("·", ink.muted, f"Done · {took}", ink.muted, width),
            ]
        if item.told and item.outcome in ("failed", "unreachable"):
            return []
        symbol, role, word = ENDINGS.get(item.outcome, ("■", "warn", item.outcome))
        style: Style = getattr(ink, role)
        lines = marked(symbol, style, word + (f" · {took}" if item.ms >= 1_000 else ""), style, width)
        if item.text and item.outcome != "interrupted":
            lines += indent(wrap([(item.text, ink.text)], width - 2), [("  ", ink.text)])
        return lines

    def plain(self) -> str:
        """Outcome and reason."""
        return f"{self.item.outcome} {self.item.text}".strip()


def verdict(answer: Answer) -> tuple[str, str]:
    """What was decided, in words, and the ink role that fits."""
    by = "" if answer.by in ("user", "") else f" by {answer.by}"
    if answer.verdict == "approve":
        scope = {
            Scope.ONCE: "approved",
            Scope.SESSION: "approved for this session",
            Scope.ALWAYS: "always approved",
        }
        return scope[answer.scope] + parts(answer) + by, "muted"
    if answer.verdict == "reject":
        return "rejected" + by + (f": {answer.text}" if answer.text else ""), "warn"
    if answer.verdict == "reply":
        return f"answer: {answer.text}", "text"
    return "withdrawn", "muted"


def parts(answer: Answer) -> str:
    """What was made of an edit before it was approved (R4.6)."""
    data = answer.data or {}
    taken, edits = data.get("hunks"), data.get("edits")
    if not isinstance(taken, list):
        return ""
    count = f" in part: {len(taken)} hunk{'s' if len(taken) != 1 else ''}"
    return count + (", edited by you" if isinstance(edits, dict) and edits else "")


class RequestBlock(Block[RequestItem]):
    """A request without a tool call, such as folder trust."""

    def paint(self, width: int, ink: Ink) -> Sequence[Line]:
        """What was asked and what was decided."""
        style = ink.warn if self.item.answer is None else ink.muted
        text = self.plain()
        return marked("?", style, text, ink.text if self.item.answer is None else ink.muted, width)

    def plain(self) -> str:
        """Question and answer."""
        item = self.item
        match item.action:
            case Trusting(folder=folder):
                asked = f"Trust {folder}"
            case None if item.dispute is not None:
                taken = (item.answer.data or {}).get("take") if item.answer is not None else None
                said = TAKEN.get(str(taken), verdict(item.answer)[0] if item.answer else "waiting for you")
                return f"The plan was changed by two at once: {place(item.dispute.where)} · {said}"
            case None:
                asked = item.question
            case _:
                asked = item.why
        return f"{asked} · {verdict(item.answer)[0] if item.answer else 'waiting for you'}"
