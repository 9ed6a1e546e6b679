"""Diffs and grants as lines of text, for surfaces without widgets."""

from __future__ import annotations

from tui_agent.common.domain import Diff
from tui_agent.text import make_visible

Styled = tuple[str, str]
"""A line and its style."""
LINE_STYLES = {"+": "added", "-": "removed", "@": "dim", " ": "", "(": "dim", "\\": "dim", "": ""}
"""First character of a line of a diff → its style; other lines name the file."""


def diff_lines(diff: Diff) -> list[Styled]:
    """A complete diff with numbered hunks and visible control characters."""
    lines: list[Styled] = []
    for number, hunk in enumerate(diff.hunks, 1):
        header = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@"
        lines.append((f"{header} hunk {number} of {len(diff.hunks)}", "dim"))
        for text in hunk.lines:
            lines.append((make_visible(text, lookalikes=False), LINE_STYLES.get(text[:1], "")))
    return [*lines, *([(f"({make_visible(diff.note)})", "dim")] if diff.note else [])]
