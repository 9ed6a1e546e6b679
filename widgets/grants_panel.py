"""The panel of saved permissions, which can be revoked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tui_agent.common.domain import Grant
from tui_agent.events.grant_texts import DURATIONS, grant_parts
from widgets.dialog_keys import Keys
from widgets.panel import ListPanel, cursor_mark
from widgets.styled_text import Line, Span, TextStyles, hanging


class GrantsPanel(ListPanel[Grant]):
    """Lists the grants with scope and rule."""

    TITLE = "Saved permissions"
    KEYS = Keys("grants")
    EMPTY = (
        "No saved permissions. Approval dialogs offer “for this session” and “always”, "
        "each with the rule it saves; saved rules are listed here."
    )

    def __init__(self, grants: Sequence[Grant], on_revoke: Callable[[Grant], None]) -> None:
        super().__init__(grants)
        self._on_revoke = on_revoke

    def row_lines(self, grant: Grant, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        kind, pattern, folder, changes = grant_parts(grant)
        head: list[Span] = [cursor_mark(selected, styles), (f"{DURATIONS[grant.scope]:<18}", styles.muted)]
        rule: list[Span] = [(kind, styles.muted), (pattern, styles.strong if selected else styles.text)]
        rule += [(folder, styles.muted), (changes, styles.warn)]
        return hanging(head, rule, width, styles.text, cut=True)

    def row_keys(self, row: Grant) -> list[tuple[str, str]]:
        """Return the keys that choose and revoke."""
        revoke = (self.KEYS.label("revoke"), "revoke: it needs approval again")
        return [(self.KEYS.arrow_labels("up", "down"), "choose"), revoke]

    def do(self, action: str, row: Grant) -> None:
        """Revoke a grant."""
        self._on_revoke(row)
        self.show_rows([other for other in self.list_view.rows if other is not row], self.list_view.cursor)
