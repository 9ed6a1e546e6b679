"""Notices, ends of runs, and requests without a tool call."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from tui_agent.common.domain import Answer, TrustAction
from tui_agent.events import SERVER_MISSING
from tui_agent.events.grant_texts import APPROVED
from tui_agent.keys.keymap import key_of
from tui_agent.text import make_visible, pluralize
from tui_agent.view.items import EndItem, NoticeItem, RequestItem
from widgets.blocks.base import TranscriptBlock, format_duration
from widgets.markdown import render_markdown
from widgets.styled_text import Line, Span, TextStyles, add_below, hanging, indent, wrap
from widgets.words import WORDS

COMPACTED_CODE = "context.compacted"
"""Code of the notice whose details are a summary in markdown."""
MAX_DETAIL_LINES = 400
"""Maximum lines of details of a notice."""


def plan_place_name(where: str) -> str:
    """Return the display name of a place in the plan document."""
    first, *rest = where.split(" · ")
    return " · ".join([WORDS.plan_places.get(first, first.replace("_", " ")), *rest])


def hanging_text(symbol: str, style: Style, text: str, body: Style, width: int) -> list[Line]:
    """Paint a symbol followed by text with a hanging indent."""
    return hanging([(symbol + " ", style)], [(text, body)], width, style)


class NoticeBlock(TranscriptBlock[NoticeItem]):
    """A notice for the user."""

    compact = True

    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Paint symbol and text by level, with details when expanded."""
        symbol, style, body = {
            "info": ("·", styles.muted, styles.muted),
            "warning": ("!", styles.warn, styles.text),
            "error": ("✗", styles.bad, styles.text),
        }[self.item.level]
        title, details = self.item.text, self.item.details
        if self.item.code == SERVER_MISSING:  # the dialog says the rest
            title, details = f"No model yet · {key_of('model')} connects one", self.item.text
        text: list[Span] = [(title, body)]
        if details and not self.open:
            text.append((f" · {key_of('details')} shows details", styles.muted))
        lines = hanging([(symbol + " ", style)], text, width, style)
        return [*lines, *self._details(details, width, styles)] if details and self.open else lines

    def _details(self, details: str, width: int, styles: TextStyles) -> list[Line]:
        """Paint the details, a summary as markdown."""
        room = max(1, width - 4)
        if self.item.code == COMPACTED_CODE:
            lines = render_markdown(details, room, styles)
        else:
            lines = [wrapped for row in details.split("\n") for wrapped in wrap([(row, styles.muted)], room)]
        return indent(lines[:MAX_DETAIL_LINES], [("  │ ", styles.faint)])

    def plain_text(self) -> str:
        """Return the text, with details when expanded."""
        return f"{self.item.text}\n{self.item.details}" if self.item.details and self.open else self.item.text


class EndBlock(TranscriptBlock[EndItem]):
    """How a run ended; nothing for a successful run without tool calls."""

    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Paint outcome, reason, tool calls and duration."""
        item = self.item
        symbol, role, text = self._outcome()
        style: Style = getattr(styles, role)
        lines = hanging_text(symbol, style, text, style, width) if text else []
        if item.outcome == "done":
            return add_below(wrap([(item.text, styles.text)], width) if item.text else [], lines)
        if lines and item.text and item.outcome != "interrupted":
            lines += hanging([("  ", styles.text)], [(item.text, styles.text)], width, styles.text)
        return lines

    def _outcome(self) -> tuple[str, str, str]:
        """Return symbol, text role and text of the outcome; no text if it is shown elsewhere."""
        item = self.item
        effort = format_duration(item.ms)
        if item.tool_calls:
            effort = f"{pluralize(item.tool_calls, 'tool call')} · {effort}"
        if item.outcome == "done" and item.not_run:
            return "■", "warn", f"Ended · {make_visible(item.not_run)} · {effort}"
        if item.outcome == "done":
            return "·", "muted", f"Done · {effort}" if item.tool_calls else ""
        symbol, role, text = WORDS.endings.get(item.outcome, ("■", "warn", item.outcome))
        if item.already_shown and item.outcome in ("failed", "unreachable"):
            return symbol, role, ""
        return symbol, role, text + (f" · {effort}" if item.ms >= 1_000 else "")

    def plain_text(self) -> str:
        """Return what is painted."""
        item, text = self.item, self._outcome()[2]
        has_reason = item.outcome == "done" or (text and item.outcome != "interrupted")
        return f"{text}\n{item.text}" if has_reason else text


def describe_answer(answer: Answer) -> tuple[str, str]:
    """Return a description of an answer and its text role."""
    by = "" if answer.by in ("user", "") else f" ({answer.by})"
    if answer.verdict == "approve":
        return APPROVED[answer.scope] + hunks_text(answer) + by, "muted"
    if answer.verdict == "reject":
        return "rejected" + by + (f": {answer.text}" if answer.text else ""), "warn"
    if answer.verdict == "reply":
        return f"answer: {answer.text}", "text"
    return "withdrawn", "muted"


def hunks_text(answer: Answer) -> str:
    """Return how an edit was changed before approval; empty if it was not."""
    data = answer.data or {}
    hunks, edits = data.get("hunks"), data.get("edits")
    if not isinstance(hunks, list):
        return ""
    count = f" in part: {pluralize(len(hunks), 'hunk')}"
    return count + (", edited by you" if isinstance(edits, dict) and edits else "")


_ANSWER_SIGNS = {"reject": ("⊘", "warn"), "withdrawn": ("■", "muted")}
"""Symbol and text role of an answer by its verdict; others are positive."""


class RequestBlock(TranscriptBlock[RequestItem]):
    """A request without a tool call, such as folder trust."""

    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Paint question and answer."""
        answer = self.item.answer
        symbol, role = ("?", "warn") if answer is None else _ANSWER_SIGNS.get(answer.verdict, ("✓", "ok"))
        body = styles.text if answer is None else styles.muted
        return hanging_text(symbol, getattr(styles, role), self.plain_text(), body, width)

    def plain_text(self) -> str:
        """Return question and answer."""
        item, answer = self.item, self.item.answer
        outcome = describe_answer(answer)[0] if answer else "waiting for you"
        match item.action:
            case TrustAction(folder=folder):
                question = f"Trust {folder}"
            case None if item.conflict is not None:
                question = f"The agent and you both changed the plan: {plan_place_name(item.conflict.where)}"
                chosen = (answer.data or {}).get("take") if answer else None
                outcome = WORDS.conflict_outcomes.get(str(chosen), outcome)
            case None:
                question = item.question
            case _:
                question = item.why
        return f"{question} · {outcome}"
