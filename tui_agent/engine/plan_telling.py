"""What a request holds of the plan document: so much that no document fills the window, and the same text each time."""

from __future__ import annotations

from tui_agent.engine.tokens import Gauge, count
from tui_agent.plan.brief import brief
from tui_agent.plan.markdown import Document

SHARE = 0.25
"""Of the window: what the document may take (H2)."""
MOST = 8_000
"""Tokens that it may take in the largest window."""
OLDER_LEAST, OLDER_SHARE = 50, 20
"""Lines for older entries get so many tokens and one in so many of what else the document takes, so that requests do
not grow with the number of runs; `older_tokens` is their bound in any case (P5)."""
_GAUGE = Gauge()
"""Not the model's own, which learns: the text may change only where the document did, for the server's prompt cache."""


def tokens(text: str) -> int:
    """About how many tokens a text takes."""
    return _GAUGE.tokens(count(text))


class Telling:
    """Makes the text of a document, once for each document and window."""

    def __init__(self, entries: int, older_tokens: int) -> None:
        self._entries = entries
        self._older = older_tokens
        self._told: tuple[Document | None, int, int | None, str] = (None, 0, None, "")

    def text(self, document: Document, entries: int | None, window: int | None) -> str:
        """The document under its heading, with the last `entries` of its log in full, for a window of so many tokens;
        empty while nothing is in it."""
        whole = self._entries if entries is None else min(entries, self._entries)
        if self._told[0] is not document or self._told[1:3] != (whole, window):
            space = MOST if window is None else min(MOST, int(window * SHARE))
            older = OLDER_LEAST + min(space, len(brief(document, whole, 0)) // 4) // OLDER_SHARE
            said = brief(document, whole, min(self._older, older), space, tokens)
            self._told = (document, whole, window, f"# The plan document\n\n{said}" if said else "")
        return self._told[3]
