"""Colors for source code, in the few roles of `Ink`. Pygments is imported when the first code block opens."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.style import Style

from widgets.styled_text import Span, TextStyles

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]  # it has no stubs here

LIMIT = 20_000
"""Characters; more than that stays plain, for this runs on the event loop."""

_loading = threading.Lock()
"""Pygments builds the tables of a lexer on its first use, and not for two threads at once."""


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
    """Load what a language needs in a thread: the first time that takes longer than a key may wait."""
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


def highlight(code: str, language: str, styles: TextStyles, limit: int = LIMIT) -> list[list[Span]]:
    """The code as one list of spans a line; plain when the language is unknown or the code is longer than `limit`."""
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
    """The name of the language that a file's name stands for; empty when none is known."""
    from pygments.lexers import find_lexer_class_for_filename

    found = find_lexer_class_for_filename(path.rsplit("/", 1)[-1])
    return str(found.aliases[0]) if found is not None and found.aliases else ""
