"""What the user allowed for longer than once: every rule, and a key that takes it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tui_agent.common.domain import Grant, Scope
from tui_agent.text import make_visible
from widgets.dialog_keys import Keys, key_lines
from widgets.panel import ListPanel, cursor_mark
from widgets.styled_text import Line, Span, TextStyles, hanging

KINDS = {"read": "reading", "edit": "edits of", "run": "command"}
EMPTY = (
    "No saved permissions. Approval dialogs offer “for this session” and “always”, "
    "each with the rule it saves; saved rules are listed here."
)


class GrantsPanel(ListPanel[Grant]):
    """One rule after the other; the one with the cursor can be revoked."""

    TITLE = "Saved permissions"

    KEYS = Keys("grants")
    EMPTY = EMPTY

    def __init__(self, grants: Sequence[Grant], revoke: Callable[[Grant], None]) -> None:
        """`revoke` gets the grant that the user revokes."""
        super().__init__(grants)
        self._revoke = revoke

    def row_lines(self, grant: Grant, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """How long the rule holds, and what it allows."""
        scope = "always" if grant.scope is Scope.ALWAYS else "this session"
        head: list[Span] = [cursor_mark(selected, styles), (f"{scope:<14}", styles.muted)]
        what: list[Span] = [(f"{KINDS[grant.kind]} ", styles.muted)]
        what.append((make_visible(grant.pattern), styles.strong if selected else styles.text))
        if grant.cwd:
            what.append((f"  in {make_visible(grant.cwd)}", styles.muted))
        if grant.env_changes:
            what.append((f"  with {', '.join(map(make_visible, grant.env_changes))}", styles.warn))
        return hanging(head, what, width, styles.text, cut=True)

    def keys(self, width: int, styles: TextStyles) -> list[Line]:
        """How to choose, revoke and close."""
        pairs = [("esc", "closes")]
        if self.list.rows:
            revokes = (self.KEYS.label("take_back"), "revoke: it needs approval again")
            pairs = [(self.KEYS.arrow_labels("up", "down"), "choose"), revokes, *pairs]
        return key_lines(pairs, width, styles, gap=3)

    def do(self, action: str, row: Grant) -> None:
        """Revoke."""
        self._revoke(row)
        self.show_rows([other for other in self.list.rows if other is not row], self.list.cursor)
