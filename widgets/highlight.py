"""Syntax highlighting in the roles of `TextStyles`, and the colors of diffs. Pygments is imported on first use."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.style import Style

from widgets.styled_text import Span, TextStyles

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]  # it has no stubs here

MAX_CHARACTERS = 20_000
"""Longer code is not highlighted, as this runs on the event loop."""

_loading = threading.Lock()
"""Pygments builds the tables of a lexer on first use, which is not thread-safe."""


@lru_cache(32)
def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]  # it has no stubs here
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]  # it has no stubs here

    with _loading:
        try:
            return get_lexer_by_name(language, stripnl=False, ensurenl=False)
        except ClassNotFound:
            return None


@lru_cache(32)
def prepare(language: str) -> None:
    """Load the lexer of a language in a thread, as the first use would block the event loop."""
    if language:
        threading.Thread(target=_lexer, args=(language.lower(),), name="lexer", daemon=True).start()


def _role(token: tuple[str, ...], styles: TextStyles) -> Style:
    head = token[0] if token else ""
    second = token[1] if len(token) > 1 else ""
    if head == "Comment":
        return styles.comment
    if head == "Keyword" or (head, second) == ("Operator", "Word"):
        return styles.keyword
    if head == "Literal":
        return styles.string if second == "String" else styles.number
    if head == "Name" and second in ("Function", "Class", "Decorator", "Tag"):
        return styles.name
    return styles.code


def highlight(code: str, language: str, styles: TextStyles, limit: int = MAX_CHARACTERS) -> list[list[Span]]:
    """Return the spans of each line; not highlighted if the language is unknown or the code longer than `limit`."""
    lexer = _lexer(language.lower()) if language and len(code) <= limit else None
    if lexer is None:
        return [[(text, styles.code)] for text in code.split("\n")]
    lines: list[list[Span]] = [[]]
    for kind, value in lexer.get_tokens(code):
        style = _role(tuple(kind), styles)
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((part, style))
    return lines


@lru_cache(64)
def lexer_name(path: str) -> str:
    """Return the lexer name for a file name; empty if there is none."""
    from pygments.lexers import find_lexer_class_for_filename

    lexer_class = find_lexer_class_for_filename(path.rsplit("/", 1)[-1])
    return str(lexer_class.aliases[0]) if lexer_class is not None and lexer_class.aliases else ""


DIFF_LANGUAGES = ("diff", "patch", "udiff")
"""Names of the language after a fence."""
DIFF_HEADS = (
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
    return language.lower() in DIFF_LANGUAGES


def diff_span(text: str, styles: TextStyles) -> tuple[Span, Style]:
    """Return a line of a diff, and the style that fills the rest of its row. Each line stands for itself."""
    if text.startswith(DIFF_HEADS):
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
