"""Diffs in code blocks, colored as in the diff view."""

from __future__ import annotations

from rich.style import Style

from widgets.styled_text import Span, TextStyles

LANGUAGES = ("diff", "patch", "udiff")
"""Names of the language after a fence."""
HEADS = (
    "diff ",
    "index ",
    "--- ",
    "+++ ",
    "new file",
    "deleted file",
    "rename ",
    "similarity ",
    "old mode",
    "new mode",
)
"""Beginnings of lines that say which file is changed."""


def is_diff(language: str) -> bool:
    """Return whether a code block has a diff."""
    return language.lower() in LANGUAGES


def diff_span(text: str, styles: TextStyles) -> tuple[Span, Style]:
    """Return a line of a diff, and the style that fills the rest of its row. Each line stands for itself."""
    if text.startswith(HEADS):
        style = styles.code + styles.strong.without_color
    elif text.startswith("@@"):
        style = styles.code + Style(color=styles.accent.color)
    elif text.startswith("+"):
        return (text, styles.added), styles.added
    elif text.startswith("-"):
        return (text, styles.removed), styles.removed
    else:
        style = styles.code
    return (text, style), styles.panel
