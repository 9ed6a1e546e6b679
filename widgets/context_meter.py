"""The context panel: contents of the context window, and facts about the model (H4, E4)."""

from __future__ import annotations

from rich.style import Style
from textual import events

from tui_agent.keys import keymap
from tui_agent.text import one_line
from tui_agent.view.items import ReplyItem, SessionView
from widgets import speed_text
from widgets.line_view import LinesView
from widgets.panel import Panel
from widgets.styled_text import Line, Span, TextStyles, hanging, line, share_bar, wrap

PART_LABELS = {
    "system": "rules",
    "tools": "tools",
    "messages": "conversation",
    "results": "results",
    "files": "files read",
}
"""Part in `context.measured` → label"""
NAME_WIDTH = 14
"""Width of the labels."""
COMPACTION_SHARE = 0.7
"""Used share of the window from which older parts are summarized (H5)."""


class ContextPanel(Panel):
    """A bar for each part with its tokens and share, followed by facts about the window."""

    TITLE = "Context window"

    def __init__(self, view: SessionView) -> None:
        super().__init__()
        self.view = view

    def closes(self, event: events.Key) -> bool:
        """Return True also for the key that opens the panel."""
        return super().closes(event) or event.key in keymap.current().keys["context"]

    def on_mount(self) -> None:
        """Update the panel every second."""
        super().on_mount()
        self.set_interval(1.0, lambda: self.query_one("#body", LinesView).relayout())

    def body(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint parts, totals and facts."""
        view = self.view
        if view.context_used is None:
            lines = wrap([(self._requests_text(), styles.muted)], width)
        else:
            parts = self._parts(width, styles)
            lines = [*parts, *([Line([])] if parts else []), *self._totals(width, styles)]
        return [*lines, Line([]), *self._facts(width, styles)]

    def _requests_text(self) -> str:
        """Describe the requests before the first measurement, such as classification and planning."""
        sent = [reply for reply in self.view.items if isinstance(reply, ReplyItem)]
        if not sent:
            return "Nothing has been sent to the model yet."
        purposes = list(dict.fromkeys(reply.purpose or "the conversation" for reply in sent))
        tokens = sum(reply.usage.prompt_tokens or 0 for reply in sent)
        read = f", {tokens:,} tokens read" if tokens else ""
        count = "1 request" if len(sent) == 1 else f"{len(sent)} requests"
        return (
            f"Sent so far: {count}{read} ({one_line(', '.join(purposes), 200)}). What the window holds is known after "
            "the first reply of the conversation."
        )

    # --- bars ---

    def _parts(self, width: int, styles: TextStyles) -> list[Line]:
        parts = self.view.context_parts
        named = [
            *((name, PART_LABELS[name]) for name in PART_LABELS),
            *((name, name) for name in parts if name not in PART_LABELS),
        ]
        return [self._bar(label, parts[name], styles.accent, width, styles) for name, label in named if name in parts]

    def _totals(self, width: int, styles: TextStyles) -> list[Line]:
        used, limit = self.view.context_used or 0, self.view.context_limit
        share = used / limit if limit else 0.0
        style = styles.bad if share >= 0.9 else styles.warn if share >= 0.75 else styles.accent
        lines = [self._bar("used", used, style, width, styles)]
        if limit:
            lines.append(self._bar("free", max(0, limit - used), styles.muted, width, styles))
        return lines

    def _bar(self, name: str, count: int, style: Style, width: int, styles: TextStyles) -> Line:
        """Paint label, bar, tokens, and the share of the window, or of the used tokens if its size is unknown."""
        total = self.view.context_limit or self.view.context_used or 1
        share = min(1.0, count / total)
        prefix = "~" if self.view.context_estimated else ""
        figures = f"{prefix + format(count, ','):>11}{_percent(share):>7}"
        cells = max(0, min(40, width - NAME_WIDTH - len(figures)))
        bar = share_bar(share, cells, style, styles)
        return line((f"{one_line(name, NAME_WIDTH):<{NAME_WIDTH}}", styles.text), *bar, (figures, styles.text))

    # --- facts ---

    def _facts(self, width: int, styles: TextStyles) -> list[Line]:
        view = self.view
        lines: list[Line] = []
        for name, text in self._fact_rows():
            head: list[Span] = [(f"{name:<{NAME_WIDTH}}", styles.muted)]
            lines += hanging(head, [(text, styles.text)], width, styles.text)
        if view.truncated:
            text = (
                f"The server truncated the prompt to {view.truncated:,} tokens without an error; the model saw only "
                "that part."
            )
            lines += [Line([]), *hanging([("! ", styles.bad)], [(text, styles.text)], width, styles.text)]
        return lines

    def _fact_rows(self) -> list[tuple[str, str]]:
        view = self.view
        facts = [("model", one_line(view.model_label, 200))] if view.model else []
        if view.model:
            why = f" ({view.strategy_why})" if view.strategy_why else ""
            facts.append(("strategy", one_line(view.strategy + why, 300)))
        if view.context_used is not None:
            facts.append(("counted by", "tui-agent, estimated" if view.context_estimated else "the server"))
        if view.context_limit:
            at = int(COMPACTION_SHARE * view.context_limit)
            facts.append(("window", f"{view.context_limit:,} tokens; from {at:,} on, older parts are summarized"))
        else:
            facts.append(("window", "size unknown"))
        facts += speed_text.speed_facts(view)
        return facts


def _percent(share: float) -> str:
    return "<1%" if 0 < share < 0.01 else f"{share:.0%}"
