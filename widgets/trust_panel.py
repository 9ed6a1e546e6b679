"""The panel of trusted folders: what trust in them allows, since when, and how to give or revoke it (A8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tui_agent.common.domain import FolderTrustState
from tui_agent.events.narration import trust_state
from tui_agent.text import make_visible
from widgets.dialog_keys import Keys
from widgets.panel import ListPanel, cursor_mark
from widgets.styled_text import Line, Span, TextStyles, hanging


class TrustPanel(ListPanel[FolderTrustState]):
    """Lists the folders of the session with their trust."""

    TITLE = "Trusted folders"
    KEYS = Keys("trust")
    EMPTY = "This session has no folder."

    def __init__(self, states: Sequence[FolderTrustState], on_choose: Callable[[str, FolderTrustState], None]) -> None:
        """`on_choose` gets the action, `give` or `revoke`, and the folder."""
        super().__init__(states)
        self._on_choose = on_choose

    def row_lines(self, state: FolderTrustState, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """Paint a folder, its trust, and what is read and followed."""
        name: list[Span] = [(make_visible(state.folder), styles.strong if selected else styles.text)]
        lines = hanging([cursor_mark(selected, styles)], name, width, styles.text, cut=True)
        style = styles.text if state.trusted else styles.warn
        lines += hanging([("  ", styles.text)], [(make_visible(trust_state(state)), style)], width, styles.text)
        for risk in state.risks:
            lines += hanging([("  ! ", styles.warn)], [(make_visible(risk), styles.warn)], width, styles.text)
        head = "This is read and followed:" if state.trusted else "This is read and followed only once you trust it:"
        text = (head if state.contents else "It contains nothing yet that would be followed.", styles.muted)
        lines += hanging([("  ", styles.text)], [text], width, styles.text)
        for entry in state.contents:
            item = [(make_visible(entry), styles.text)]
            lines += hanging([("  • ", styles.accent)], item, width, styles.text)
        return lines

    def row_keys(self, row: FolderTrustState) -> list[tuple[str, str]]:
        """Return the keys that choose, and give or revoke trust."""
        change = ("revoke", "revoke trust: read-only") if row.trusted else ("give", "trust it")
        choose = [(self.KEYS.arrow_labels("up", "down"), "choose")] if len(self.list_view.rows) > 1 else []
        return [*choose, (self.KEYS.label(change[0]), change[1])]

    def do(self, action: str, row: FolderTrustState) -> None:
        """Give or revoke trust, and close."""
        if action == ("revoke" if row.trusted else "give"):
            self.dismiss()
            self._on_choose(action, row)
