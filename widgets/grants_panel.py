"""What the user allowed for longer than once: every rule, and a key that takes it back (R4.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events

from tui_agent.domain import Grant, Scope
from tui_agent.text import visible
from widgets.dialog_keys import Keys
from widgets.ink import Ink, Line, Span, chop, indent, line, wrap
from widgets.line_view import LinesView
from widgets.panel import Panel

KEYS = Keys("grants")
KINDS = {"read": "reading", "edit": "edits of", "run": "command"}
NOTHING = (
    "Nothing is allowed for longer than once. A dialog that asks offers «for this session» and «always», "
    "each with the rule that it stores; those rules are listed here."
)


class GrantsPanel(Panel):
    """One rule after the other; one is chosen, and can be taken back."""

    def __init__(self, grants: Sequence[Grant], revoke: Callable[[Grant], None]) -> None:
        """`revoke` takes back the grant that it is called with."""
        super().__init__()
        self.grants = list(grants)
        self._revoke = revoke
        self.place = 0

    def head(self, width: int, ink: Ink) -> list[Line]:
        """One line."""
        return [line(("What you allowed", ink.heading))]

    def body(self, width: int, ink: Ink) -> list[Line]:
        """For this session and for good."""
        if not self.grants:
            return wrap([(NOTHING, ink.muted)], width)
        return [one for place in range(len(self.grants)) for one in self._rule(place, width, ink)]

    def _rule(self, place: int, width: int, ink: Ink) -> list[Line]:
        grant, here = self.grants[place], place == self.place
        scope = "always" if grant.scope is Scope.ALWAYS else "this session"
        head: list[Span] = [("▸ " if here else "  ", ink.accent), (f"{scope:<14}", ink.muted)]
        what: list[Span] = [(f"{KINDS[grant.kind]} ", ink.muted)]
        what.append((visible(grant.pattern), ink.strong if here else ink.text))
        if grant.cwd:
            what.append((f"  in {visible(grant.cwd)}", ink.muted))
        if grant.env_changes:
            what.append((f"  with {', '.join(map(visible, grant.env_changes))}", ink.warn))
        return indent(chop(what, width - 16), head, [(" " * 16, ink.text)])

    def keys(self, width: int, ink: Ink) -> list[Line]:
        """How to choose, take back and leave."""
        leave: list[Span] = [("esc", ink.accent), (" closes", ink.muted)]
        if not self.grants:
            return [line(*leave)]
        pairs = [(KEYS.arrows("up", "down"), "choose")]
        pairs += [(KEYS.of("take_back"), "takes it back: it is asked for again")]
        more: list[Span] = []
        for key, does in pairs:
            more += [(key, ink.accent), (f" {does}   ", ink.muted)] if key else []
        return [line(*more, *leave)]

    def on_key(self, event: events.Key) -> None:
        """Choose, take back, or what every panel takes."""
        action = KEYS.does(event)
        if self.grants and action:
            event.stop()
            event.prevent_default()
            if action == "take_back":
                self._revoke(self.grants.pop(self.place))
            else:
                self.place += 1 if action == "down" else -1
            self.place = min(max(0, self.place), max(0, len(self.grants) - 1))
            self._show()
        else:
            super().on_key(event)

    def _show(self) -> None:
        body = self.query_one("#body", LinesView)
        body.relayout()
        self.query_one("#keys", LinesView).relayout()
        heights = [len(self._rule(place, body.columns, body.ink)) for place in range(len(self.grants))]
        top = sum(heights[: self.place])
        end = top + sum(heights[self.place : self.place + 1])
        if top < body.scroll_offset.y:
            body.scroll_to(y=top, animate=False)
        elif end > body.scroll_offset.y + body.size.height:
            body.scroll_to(y=end - body.size.height, animate=False)
