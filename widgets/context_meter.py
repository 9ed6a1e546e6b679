"""What the model's window holds, part by part, and how the model is asked for its work (H4, E4, R22.1)."""

from __future__ import annotations

from rich.style import Style
from textual import events

from tui_agent import keymap
from tui_agent.text import one_line
from tui_agent.view import ReplyItem, SessionView
from widgets import speed_words
from widgets.ink import Ink, Line, Span, indent, line, wrap
from widgets.line_view import LinesView
from widgets.panel import Panel

PARTS = {
    "system": "rules",
    "tools": "tools",
    "messages": "conversation",
    "results": "results",
    "files": "files read",
}
"""Part as in `context.measured` → what it is called."""
NAME = 14
"""Cells of a part's name."""
COMPACTED_AT = 0.7
"""Share of the window from which on older parts are summed up (H5)."""


class ContextPanel(Panel):
    """A bar for each part with its tokens and share, then what is known of the window."""

    def __init__(self, view: SessionView) -> None:
        super().__init__()
        self.view = view

    def closes(self, event: events.Key) -> bool:
        """The key that opens it closes it too."""
        return super().closes(event) or event.key in keymap.current().keys["context"]

    def on_mount(self) -> None:
        """Follow what goes on behind the panel."""
        super().on_mount()
        self.set_interval(1.0, lambda: self.query_one("#body", LinesView).relayout())

    def head(self, width: int, ink: Ink) -> list[Line]:
        """One line."""
        return [line(("Context window", ink.heading))]

    def body(self, width: int, ink: Ink) -> list[Line]:
        """Parts, whole, facts."""
        view = self.view
        if view.context_used is None:
            lines = wrap([(self._unmeasured(), ink.muted)], width)
        else:
            lines = [*self._parts(width, ink), Line([]), *self._whole(width, ink)]
        return [*lines, Line([]), *self._facts(width, ink)]

    def _unmeasured(self) -> str:
        """What was sent before the conversation was measured: requests that only sort, plan and the like."""
        sent = [one for one in self.view.items if isinstance(one, ReplyItem)]
        if not sent:
            return "Nothing was sent to the model yet."
        aims = list(dict.fromkeys(one.does or "the conversation" for one in sent))
        tokens = sum(one.usage.prompt_tokens or 0 for one in sent)
        read = f", {tokens:,} tokens read" if tokens else ""
        count = "1 request" if len(sent) == 1 else f"{len(sent)} requests"
        return (
            f"Sent so far: {count}{read} ({one_line(', '.join(aims), 200)}). What the window holds is known after the "
            "first reply of the conversation."
        )

    # --- bars ---

    def _parts(self, width: int, ink: Ink) -> list[Line]:
        parts = self.view.context_parts
        named = [
            *((name, PARTS[name]) for name in PARTS),
            *((name, name) for name in parts if name not in PARTS),
        ]
        return [
            self._bar(words, parts[name], ink.accent, width, ink) for name, words in named if name in parts
        ]

    def _whole(self, width: int, ink: Ink) -> list[Line]:
        used, limit = self.view.context_used or 0, self.view.context_limit
        share = used / limit if limit else 0.0
        style = ink.bad if share >= 0.9 else ink.warn if share >= 0.75 else ink.accent
        lines = [self._bar("all of it", used, style, width, ink)]
        if limit:
            lines.append(self._bar("free", max(0, limit - used), ink.muted, width, ink))
        return lines

    def _bar(self, name: str, count: int, style: Style, width: int, ink: Ink) -> Line:
        """Name, bar, tokens, share of the window; of what is used where the window is unknown."""
        whole = self.view.context_limit or self.view.context_used or 1
        share = min(1.0, count / whole)
        about = "~" if self.view.context_estimated else ""
        figures = f"{about + format(count, ','):>11}{_percent(share):>7}"
        cells = max(0, min(40, width - NAME - len(figures)))
        full = min(cells, max(1 if count else 0, round(share * cells)))
        return line(
            (f"{one_line(name, NAME):<{NAME}}", ink.text),
            ("▰" * full, style),
            ("▱" * (cells - full), ink.faint),
            (figures, ink.text),
        )

    # --- facts ---

    def _facts(self, width: int, ink: Ink) -> list[Line]:
        view = self.view
        lines: list[Line] = []
        for name, text in self._known():
            head: list[Span] = [(f"{name:<{NAME}}", ink.muted)]
            lines += indent(wrap([(text, ink.text)], width - NAME), head, [(" " * NAME, ink.text)])
        if view.truncated:
            text = (
                f"The server truncated the prompt to {view.truncated:,} tokens without a word; the model knows only "
                "that part of it."
            )
            lines += [
                Line([]),
                *indent(wrap([(text, ink.text)], width - 2), [("! ", ink.bad)], [("  ", ink.text)]),
            ]
        return lines

    def _known(self) -> list[tuple[str, str]]:
        view = self.view
        facts = [("model", one_line(f"{view.model} · {view.provider}", 200))] if view.model else []
        if view.model:
            why = f" ({view.strategy_why})" if view.strategy_why else ""
            facts.append(("strategy", one_line(view.strategy + why, 300)))
        if view.context_used is not None:
            facts.append(("counted by", "tui-agent, estimated" if view.context_estimated else "the server"))
        if view.context_limit:
            at = int(COMPACTED_AT * view.context_limit)
            facts.append(
                ("window", f"{view.context_limit:,} tokens; from {at:,} on, older parts are summed up")
            )
        else:
            facts.append(("window", "its size is not known"))
        facts += speed_words.facts(view)
        return facts


def _percent(share: float) -> str:
    return "<1 %" if 0 < share < 0.01 else f"{share:.0%}".replace("%", " %")
